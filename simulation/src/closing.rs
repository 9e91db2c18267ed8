//! Engines are closed while their log is rewritten, and the log is switched on and off beside transactions
//! that change the configuration.
//!
//! - Nobody waits for ever.
//! - What was acknowledged before the end is there after the next start.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mantissa_engine::embedded::{Embedded, LocalClient};
use mantissa_sys::simulation;

use crate::crash::{self, Policy};
use crate::disk::Disk;
use crate::scenario::start;
use crate::scheduler::Random;

const SESSIONS_MAX: u64 = 4;
const CALLS_MAX: u64 = 8;
const KEYS: u64 = 10;
const ROUND: Duration = Duration::from_millis(100);
/// Clients beside the sessions.
const OTHER_CLIENTS: usize = 2;

/// Runs one seed on a simulated thread. Panics if a check fails.
pub fn run(seed: u64) {
    mantissa_engine::log::set_level(mantissa_config::LogLevel::Nothing);
    let mut random = Random(seed ^ 0xC105);
    let policy = [Policy::EverySecond, Policy::Always][random.below(2) as usize];
    let sessions = 1 + random.below(SESSIONS_MAX);
    let disk = Disk::default();
    let opened = crash::open(Arc::new(disk.clone()), policy, sessions as usize + OTHER_CLIENTS);
    let (store, ended) = (Arc::new(opened.expect("the engine opens")), Arc::new(AtomicU64::new(0)));
    for _ in 0..sessions {
        let (seed, store, ended) = (random.draw(), Arc::clone(&store), Arc::clone(&ended));
        start("writer", move || {
            call_some(&store, &mut Random(seed));
            drop(store);
            ended.fetch_add(1, Ordering::Relaxed);
        });
    }
    // A log that was switched on while it was being switched off is begun again in the background.
    while ended.load(Ordering::Relaxed) < sessions {
        store.background().round();
        simulation::sleep(ROUND);
    }
    simulation::sleep(ROUND);
    let store = Arc::into_inner(store).expect("the sessions have ended");
    let aof = &store.engine().aof;
    let is_on = aof.is_listed.load(Ordering::Relaxed) && aof.is_logging.load(Ordering::Relaxed);
    rewrite(&store, &mut random);
    let digest = crash::look(store.engine()).1;
    assert_eq!(store.close().map_err(|error| error.to_string()), Ok(()));
    if is_on {
        let store = crash::open(Arc::new(disk.copy()), policy, 1).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(crash::look(store.engine()).1, digest, "the log of a closed engine, loaded");
    }
}

/// Has a rewrite begin, and lets it come as far as the seed says.
fn rewrite(store: &Embedded, random: &mut Random) {
    let mut client = store.client().expect("there is room");
    if random.below(4) > 0 {
        client.call(&["BGREWRITEAOF"]);
    }
    for _ in 0..random.below(20) {
        simulation::yield_point();
    }
}

fn call_some(store: &Embedded, random: &mut Random) {
    let mut client = store.client().expect("there is room");
    for _ in 0..1 + random.below(CALLS_MAX) {
        let key = random.below(KEYS).to_string();
        match random.below(6) {
            0 => _ = client.call(&["CONFIG", "SET", "appendonly", "no"]),
            1 => _ = client.call(&["CONFIG", "SET", "appendonly", "yes"]),
            2 => _ = client.call(&["BGREWRITEAOF"]),
            3 => _ = client.call(&["SET", &key, "1"]),
            _ => configure_in_transaction(&mut client, &key, random),
        }
    }
}

/// The transaction holds the shard of its key while it changes the configuration.
fn configure_in_transaction(client: &mut LocalClient<'_>, key: &str, random: &mut Random) {
    let value = ["yes", "no"][random.below(2) as usize];
    client.call(&["MULTI"]);
    client.call(&["APPEND", key, "1"]);
    match random.below(4) {
        0 => client.call(&["CONFIG", "SET", "appendonly", value]),
        _ => client.call(&["CONFIG", "SET", "no-appendfsync-on-rewrite", value]),
    };
    client.call(&["APPEND", key, "2"]);
    client.call(&["EXEC"]);
}
