//! Values on disk (`tier-dir`): where memory is full, values that are not used go to a file instead of being
//! evicted. Keys, expiries and types stay in memory.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`offload`] | moves values to the file, least used first |
//! | [`fetch`] | has what a request needs read before it runs; the client waits, nobody else does |
//! | [`read_ahead`] | has what a primary's commands need read before they are applied; only the link waits |
//! | [`cleaning`] | empties segments of the file that are mostly unused |
//! | [`crate::turnover`] | empties the oldest segments of a full file, where keys may be evicted |
//! | [`walk`] | finds the entries that name records, for these two |
//! | [`mantissa_persist::tier`] | the file |
//! | [`mantissa_store::cold`] | what entries keep of a value on disk |
//!
//! Every command works on values on disk: a value that has not been read ahead is read where it is needed,
//! with its shard locked ([`fetch::bring`]). That concerns blocked clients, the commands of logs, what a
//! script reads after it has written, and what SORT's patterns, labels and rules of series lead to in
//! scripts, in transactions behind other commands than reads and in the commands of a primary. A value that
//! can not be read is an error there too.
//!
//! What is on disk belongs to the process. A dump, a rewrite of the log, a replica's synchronisation read it
//! record by record and keep nothing of it in memory.

pub mod cleaning;
pub mod fetch;
pub mod offload;
pub mod read_ahead;
pub mod walk;

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mantissa_persist::tier::TierFile;
use mantissa_sys::simulation;

use crate::engine::Engine;
use crate::host::Message;
use crate::warning;
use cleaning::Cleaner;

/// How often the thread that keeps order looks.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Opens the file in the configured folder, if there is one, and starts the threads that write and read it.
pub fn start(engine: &Engine) -> Result<(), String> {
    let active = engine.active_config();
    if active.config.tier_dir.is_empty() {
        return Ok(());
    }
    let folder = Path::new(&active.config.tier_dir);
    let failed = |error| format!("Can't keep values in '{}' (tier-dir): {error}", folder.display());
    let scratch = engine.storage.create_scratch(folder).map_err(failed)?;
    let file = TierFile::new(scratch, active.config.tier_max_size);
    engine.tier.open(file);
    let threads = || -> std::io::Result<()> {
        engine.spawn("tier-writer", write)?;
        engine.spawn("tier-mover", offload::move_large_values)?;
        engine.spawn("tier", keep_order)?;
        (0..active.config.tier_threads).try_for_each(|_| engine.spawn("tier-reader", fetch::read_all))
    };
    threads().map_err(|error| format!("Could not start a thread: {error}"))
}

/// Writes records until the engine ends.
fn write(engine: &Engine) {
    let Some(file) = engine.tier.file() else { return };
    let drained = || engine.send_all(|| Message::Resume);
    let failed = |error: &std::io::Error| {
        warning!("Values can't be written to tier-dir: {error}");
        // Who waits for the disk waits in vain.
        engine.send_all(|| Message::Resume);
    };
    file.write_until(|| engine.stopping.load(Ordering::Relaxed), drained, failed);
}

/// Empties sparse segments.
fn keep_order(engine: &Engine) {
    let mut cleaner = Cleaner::default();
    while !engine.stopping.load(Ordering::Relaxed) {
        simulation::sleep(LOOK_EVERY);
        cleaner.go_on(engine);
    }
}
