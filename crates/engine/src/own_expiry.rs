//! Notes which keys of a writable replica its own clients gave an expiry: it removes these itself
//! (`replication/own_expiry.rs`).

use mantissa_commands::{Access, find_keys};
use mantissa_protocol::Args;

use crate::engine::Engine;

/// Notes the keys of a client's write that have an expiry now.
#[cold]
pub fn note(engine: &Engine, access: &mut Access<'_>, database: usize, args: Args<'_>) {
    let Ok(command) = engine.registry.resolve(args) else { return };
    let current = access.database();
    access.select(database);
    for position in find_keys(command.info, args).unwrap_or_default() {
        let key = args.at(position.index);
        if access.is_locked(key) && access.expiry(key).flatten().is_some() {
            engine.replication.own_expiries.lock().keys.insert((database, key.into()));
        }
    }
    access.select(current);
}
