//! Keys are evicted while they are written, dumped, rewritten and lost in crashes.
//!
//! - The log gives the memory: a key that is evicted is deleted in the log, at its place among the writes.
//! - What a crash leaves is the state after some unit.
//! - Writes fail only while nothing is left to evict.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mantissa_engine::embedded::LocalClient;
use mantissa_protocol::Value;
use mantissa_sys::simulation;

use crate::crash::{self, Policy, Recording};
use crate::disk::Disk;
use crate::scenario::{self, Run, start, wait_until};
use crate::scheduler::Random;

const WRITERS_MAX: u64 = 6;
const CALLS_MAX: u64 = 40;
const KEYS: u64 = 30;
/// Clients that do not write.
const OTHER_CLIENTS: usize = 3;
/// How often memory is short, and for how many milliseconds at a time.
const SHORTAGES_MAX: u64 = 6;
const SHORTAGE_MS_MAX: u64 = 100;

/// Runs one seed.
pub fn run(random: &mut Random) {
    let policy = [Policy::EverySecond, Policy::Always][random.below(2) as usize];
    let sessions = 1 + random.below(WRITERS_MAX);
    let disk = Disk::default();
    let run = Run::open(&disk, policy, sessions as usize + OTHER_CLIENTS);
    let recording = Recording::begin(run.store.engine());
    scenario::set_crashes(&run, &disk, policy == Policy::EverySecond, random);
    for _ in 0..sessions {
        let (seed, run) = (random.draw(), Arc::clone(&run));
        start("writer", move || write(&run, &mut Random(seed)));
    }
    let (seed, run_too) = (random.draw(), Arc::clone(&run));
    start("shortage", move || be_short(&run_too, &mut Random(seed)));
    scenario::save_meanwhile(&run, random);
    let mut looks = vec![crash::look(run.store.engine())];
    wait_until(|| run.ended.load(Ordering::Relaxed) as u64 == sessions + 1);
    looks.push(crash::look(run.store.engine()));
    let states = recording.finish();
    looks.into_iter().for_each(|look| states.check_look(look));
    states.check_replay(random);
    disk.take_images().iter().for_each(|image| states.check_image(image, policy));
    scenario::check_reopening(&run, &disk, policy);
}

/// The limit is a byte, or none: the allocator counts what all simulations of the process use. Each command
/// evicts one key then.
fn be_short(run: &Run, random: &mut Random) {
    let mut client = run.store.client().expect("there is room");
    for _ in 0..1 + random.below(SHORTAGES_MAX) {
        simulation::sleep(Duration::from_millis(random.below(SHORTAGE_MS_MAX)));
        let policy = ["allkeys-lru", "allkeys-lfu", "allkeys-random"][random.below(3) as usize];
        let directives = ["maxmemory-policy", policy, "maxmemory-eviction-tenacity", "0", "maxmemory", "1"];
        set(&mut client, &directives);
        simulation::sleep(Duration::from_millis(random.below(SHORTAGE_MS_MAX)));
        set(&mut client, &["maxmemory", "0"]);
    }
    run.ended.fetch_add(1, Ordering::Relaxed);
}

fn set(client: &mut LocalClient<'_>, directives: &[&str]) {
    let reply = client.call(&[&["CONFIG", "SET"], directives].concat());
    assert_eq!(reply, Value::Simple(b"OK".to_vec()), "{directives:?}");
}

fn write(run: &Run, random: &mut Random) {
    let mut client = run.store.client().expect("there is room");
    for _ in 0..1 + random.below(CALLS_MAX) {
        let (key, value) = (random.below(KEYS), random.below(1000).to_string());
        let (text, list, set) = (format!("text:{key}"), format!("list:{key}"), format!("set:{key}"));
        match random.below(6) {
            0 => call(&mut client, &["SET", &text, &value]),
            1 => call(&mut client, &["APPEND", &text, &value]),
            2 => call(&mut client, &["RPUSH", &list, &value]),
            3 => call(&mut client, &["SADD", &set, &value]),
            4 => call(&mut client, &["GET", &text]),
            _ => {
                let words = [&["MULTI"][..], &["LPUSH", &list, &value], &["SADD", &set, &value], &["EXEC"]];
                words.iter().for_each(|words| call(&mut client, words));
            }
        }
        simulation::sleep(Duration::from_millis(random.below(20)));
    }
    run.ended.fetch_add(1, Ordering::Relaxed);
}

fn call(client: &mut LocalClient<'_>, words: &[&str]) {
    let reply = client.call(words);
    let is_refused = |text: &[u8]| text.starts_with(b"OOM ") || text.starts_with(b"EXECABORT ");
    if let Value::Error(text) = &reply {
        assert!(is_refused(text), "{reply:?} to {words:?}");
    }
}
