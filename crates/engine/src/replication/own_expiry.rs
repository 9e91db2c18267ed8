//! Removing keys of a writable replica (`replica-read-only no`) that its own clients gave an expiry
//! ([`crate::own_expiry`] notes them).
//!
//! A replica removes nothing that has expired until its primary says so, who does not know of these: the
//! replica removes them itself. As in Redis, fields of hashes are not looked after, and all is forgotten when
//! the role changes or the data of a primary are taken over.

use crate::context::Context;
use crate::shard_access::try_with_shard;

/// Keys that are looked at in one round.
const ROUND_KEYS_MAX: usize = 1_000;

/// Removes keys that have expired, and forgets those that do not expire any more.
pub fn remove(context: &mut Context) {
    let engine = context.engine;
    let mut few = {
        let mut own = engine.replication.own_expiries.lock();
        if own.keys.is_empty() || !engine.replication.is_replica() {
            return;
        }
        let few: Vec<_> = own.keys.range(own.next.clone()..).take(ROUND_KEYS_MAX).cloned().collect();
        own.next = few.last().filter(|_| few.len() == ROUND_KEYS_MAX).cloned().unwrap_or_default();
        few
    };
    few.retain(|(database, key)| {
        let shard = engine.keyspace.shard_of(engine.keyspace.hash(key));
        let is_over = try_with_shard(context, shard, *database, |access| {
            access.remove_own_if_expired(key) || access.expiry(key).flatten().is_none()
        });
        is_over == Some(true)
    });
    let mut own = engine.replication.own_expiries.lock();
    few.iter().for_each(|key| _ = own.keys.remove(key));
}
