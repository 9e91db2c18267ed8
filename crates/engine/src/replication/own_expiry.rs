//! Keys of a writable replica (`replica-read-only no`) that its own clients gave an expiry.
//!
//! A replica removes nothing that has expired until its primary says so, who does not know of these: the
//! replica removes them itself. As in Redis, fields of hashes are not looked after, and all is forgotten when
//! the role changes or the data of a primary are taken over.

use mantissa_commands::{Access, find_keys};
use mantissa_protocol::Args;

use crate::context::Context;
use crate::engine::Engine;
use crate::shard_access::try_with_shard;

/// Keys that are looked at in one round.
const ROUND_KEYS_MAX: usize = 1_000;

/// Notes the keys of a client's write that have an expiry now.
#[cold]
pub fn note(engine: &Engine, access: &mut Access<'_>, database: usize, args: Args<'_>) {
    let Ok(command) = engine.registry.resolve(args) else { return };
    let current = access.database();
    access.select(database);
    for position in find_keys(command.info, args).unwrap_or_default() {
        let key = args.at(position.index);
        if access.is_locked(key) && access.expiry(key).flatten().is_some() {
            engine.replication.own_expiries.lock().insert((database, key.into()));
        }
    }
    access.select(current);
}

/// Removes keys that have expired, and forgets those that do not expire any more.
pub fn remove(context: &mut Context) {
    let engine = context.engine;
    let mut few: Vec<_> =
        engine.replication.own_expiries.lock().iter().take(ROUND_KEYS_MAX).cloned().collect();
    if few.is_empty() || !engine.replication.is_replica() {
        return;
    }
    few.retain(|(database, key)| {
        let shard = engine.keyspace.shard_of(engine.keyspace.hash(key));
        let is_over = try_with_shard(context, shard, *database, |access| {
            access.remove_own_if_expired(key) || access.expiry(key).flatten().is_none()
        });
        is_over == Some(true)
    });
    let mut keys = engine.replication.own_expiries.lock();
    few.iter().for_each(|key| _ = keys.remove(key));
}
