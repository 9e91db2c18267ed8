//! Temporary.
use crate::engine::Engine;
use crate::loading;
use crate::replication::backlog;
use crate::scripting::functions::Policy;
use crate::skipping::{self, Skipping};
use crate::state::replication::{History, Kept};
use mantissa_persist::load::{Access, KeyspaceTarget, LoadOptions, Loader};
use mantissa_store::{Keyspace, ShardSet};
use std::io::{BufReader, Read};
/// Temporary.
pub struct Installed {
    /// Temporary.
    pub database: usize,
}
/// Temporary.
pub fn install(
    engine: &Engine,
    payload: &mut dyn Read,
    position: Option<(String, u64)>,
    _progress: &dyn Fn(u64),
    _cancelled: &dyn Fn() -> bool,
) -> Result<Installed, String> {
    let active = engine.active_config();
    let aside = Keyspace::new(engine.keyspace.database_count(), engine.keyspace.shard_count());
    let now_ms = mantissa_sys::clock::unix_ms();
    let kept = active.settings.access_clock;
    let clock_of =
        |access: Access| mantissa_commands::restored_clock(kept, access.idle_s, access.frequency, now_ms);
    let options = LoadOptions {
        limits: active.settings.limits.clone(),
        now_ms,
        skip_expired: false,
        ..LoadOptions::default()
    };
    let skipping = Skipping::new(false);
    let mut none = aside.lock(ShardSet::EMPTY);
    let mut target = skipping::Target::new(KeyspaceTarget::new(&mut none, &clock_of, false), &skipping);
    Loader::new(BufReader::with_capacity(1 << 20, payload), None, options)
        .load(&mut target)
        .map_err(|e| e.to_string())?;
    let codes = target.into_functions();
    drop(none);
    crate::scripting::with_machine(&engine.scripting, |vm| {
        engine.scripting.libraries.restore(vm, &codes, Policy::Append, true)
    })
    .map_err(|error| error.text().into_owned())?;
    let mut locked = engine.keyspace.lock(engine.keyspace.all_shards());
    loading::exchange(&mut locked, &aside);
    let (id, offset) = position.unwrap_or_default();
    engine.replication.set_history(History { id, second: None });
    engine.replication.align(engine.log.end(), offset);
    backlog::begin(engine, &locked);
    if let Some(Kept { first, .. }) = &mut *engine.replication.kept.lock() {
        *first = engine.log.end();
    }
    Ok(Installed { database: 0 })
}
