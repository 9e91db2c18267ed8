//! What the sessions of a run do, and what is checked.
//!
//! - Transactions and scripts on lists are strictly serialisable ([`crate::history`]).
//! - Counters that WATCH guards lose no update.
//! - Blocked clients are served in the order of their arrival, each once; timeouts end when they should.
//! - A dump that is saved meanwhile is one instant: a sum that transactions keep holds in it.
//! - With a log, what a process leaves that is killed at some moment holds all that was acknowledged, and
//!   the whole log gives what is in memory.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mantissa_engine::embedded::{Embedded, LocalClient};
use mantissa_engine::log;
use mantissa_protocol::Value;
use mantissa_sys::{clock, simulation};

use crate::history::{self, Operation, Transaction};
use crate::scheduler::Random;

const LIST_COUNT: u64 = 4;
const COUNTER_COUNT: u64 = 2;
const ACCOUNT_COUNT: u64 = 5;
const WRITERS_MAX: u64 = 16;
const CALLS_MAX: u64 = 10;

/// Appends to each list and reads it. The first argument says how the names of the lists are given.
const SCRIPT: &str = "local keys = KEYS \
    local values = ARGV \
    local result = {} \
    for i, key in ipairs(keys) do \
        redis.call('RPUSH', key, values[i]) \
        result[i] = redis.call('LRANGE', key, 0, -1) \
    end \
    return result";

/// What all threads of a run share.
struct Run {
    store: Embedded,
    /// Grows with each call that begins or ends.
    moment: AtomicU64,
    next_value: AtomicU64,
    history: Mutex<Vec<Transaction>>,
    increments: AtomicU64,
    ended: AtomicUsize,
}

/// A folder that is removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let memory = Path::new("/dev/shm");
        let base = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Folder(base.join(format!("mantissa-simulation-{}-{number}", std::process::id())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _may_not_be_there = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs one seed on a simulated thread. Panics if a check fails.
pub fn run(seed: u64) {
    let mut random = Random(seed ^ 0x5EED);
    let has_log = random.below(2) == 0;
    let folder = Folder::new();
    let run = Arc::new(Run {
        store: open(&folder.0, has_log),
        moment: AtomicU64::new(1),
        next_value: AtomicU64::new(1),
        history: Mutex::default(),
        increments: AtomicU64::new(0),
        ended: AtomicUsize::new(0),
    });
    let writers = 2 + random.below(WRITERS_MAX - 1);
    for _ in 0..writers {
        let (seed, run) = (random.draw(), Arc::clone(&run));
        start("writer", move || write(&run, &mut Random(seed)));
    }
    if has_log {
        check_kill(&run, &folder, &mut random);
    } else {
        check_snapshot(&run, &folder, &mut random);
    }
    wait_until(|| run.ended.load(Ordering::Relaxed) as u64 == writers);
    let history = std::mem::take(&mut *run.history.lock().unwrap_or_else(PoisonError::into_inner));
    let mut client = run.store.client().expect("there is room");
    let lists: Vec<Vec<u64>> = (0..LIST_COUNT).map(|key| read_list(&mut client, key)).collect();
    history::check(&history, &lists).unwrap_or_else(|error| panic!("{error}"));
    let sum: u64 = (0..COUNTER_COUNT).map(|key| read_counter(&mut client, key)).sum();
    assert_eq!(sum, run.increments.load(Ordering::Relaxed), "increments that WATCH guards");
    check_order(&run, &mut client, &mut random);
    check_timeout(&mut client, &mut random);
    if has_log {
        check_replay(&mut client, &folder);
    }
}

fn open(folder: &Path, has_log: bool) -> Embedded {
    let log = if has_log { "yes" } else { "no" };
    log::set_level(mantissa_config::LogLevel::Nothing);
    let directives =
        [("appendonly", log), ("save", "\"\""), ("databases", "1"), ("enable-debug-command", "yes")];
    Embedded::open_without_background(folder, &directives).expect("the engine opens")
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) {
    simulation::spawn(name, work).expect("a thread starts");
}

fn wait_until(mut holds: impl FnMut() -> bool) {
    while !holds() {
        simulation::wait(Some(Duration::from_millis(10)));
    }
}

/// The sessions of a writer, one after the other.
fn write(run: &Run, random: &mut Random) {
    for _ in 0..1 + random.below(3) {
        let mut client = run.store.client().expect("there is room");
        for _ in 0..1 + random.below(CALLS_MAX) {
            match random.below(5) {
                0 => increment(run, &mut client, random),
                1 => append(run, random, |keys, values| script(&mut client, keys, values)),
                2 => read_alone(run, &mut client, random),
                3 => transfer(&mut client, random),
                _ => append(run, random, |keys, values| transaction(&mut client, keys, values)),
            }
        }
    }
    run.ended.fetch_add(1, Ordering::Relaxed);
}

/// Appends to some lists and reads them, in one transaction or script.
fn append(run: &Run, random: &mut Random, call: impl FnOnce(&[u64], &[u64]) -> Vec<Vec<u64>>) {
    let mut keys: Vec<u64> = (0..LIST_COUNT).filter(|_| random.below(2) == 0).collect();
    if random.below(2) == 0 {
        keys.reverse();
    }
    let values: Vec<u64> = keys.iter().map(|_| run.next_value.fetch_add(1, Ordering::Relaxed)).collect();
    if keys.is_empty() {
        return;
    }
    let began = run.moment.fetch_add(1, Ordering::Relaxed);
    let read = call(&keys, &values);
    assert_eq!(read.len(), keys.len());
    let mut operations = Vec::new();
    for ((&key, &value), read) in keys.iter().zip(&values).zip(read) {
        operations.push(Operation::Append(key as usize, value));
        operations.push(Operation::Read(key as usize, read));
    }
    note(run, began, operations);
}

fn note(run: &Run, began: u64, operations: Vec<Operation>) {
    let ended = run.moment.fetch_add(1, Ordering::Relaxed);
    let transaction = Transaction { began, ended, operations };
    run.history.lock().unwrap_or_else(PoisonError::into_inner).push(transaction);
}

fn script(client: &mut LocalClient<'_>, keys: &[u64], values: &[u64]) -> Vec<Vec<u64>> {
    let mut words = vec!["EVAL".to_owned(), SCRIPT.to_owned(), keys.len().to_string()];
    words.extend(keys.iter().map(|key| format!("list:{key}")));
    words.extend(values.iter().map(u64::to_string));
    items(client.call(&words)).into_iter().map(numbers).collect()
}

fn transaction(client: &mut LocalClient<'_>, keys: &[u64], values: &[u64]) -> Vec<Vec<u64>> {
    client.call(&["MULTI"]);
    for (key, value) in keys.iter().zip(values) {
        client.call(&["RPUSH", &format!("list:{key}"), &value.to_string()]);
        client.call(&["LRANGE", &format!("list:{key}"), "0", "-1"]);
    }
    items(client.call(&["EXEC"])).into_iter().skip(1).step_by(2).map(numbers).collect()
}

fn read_alone(run: &Run, client: &mut LocalClient<'_>, random: &mut Random) {
    let key = random.below(LIST_COUNT);
    let began = run.moment.fetch_add(1, Ordering::Relaxed);
    let read = read_list(client, key);
    note(run, began, vec![Operation::Read(key as usize, read)]);
}

fn increment(run: &Run, client: &mut LocalClient<'_>, random: &mut Random) {
    let number = random.below(COUNTER_COUNT);
    let key = format!("counter:{number}");
    client.call(&["WATCH", &key]);
    let count = read_counter(client, number);
    client.call(&["MULTI"]);
    client.call(&["SET", &key, &(count + 1).to_string()]);
    if matches!(client.call(&["EXEC"]), Value::Array(_)) {
        run.increments.fetch_add(1, Ordering::Relaxed);
    }
}

/// Clients that begin to wait one after the other get what is pushed in that order.
fn check_order(run: &Arc<Run>, client: &mut LocalClient<'_>, random: &mut Random) {
    let count = 2 + random.below(8) as usize;
    let got: Arc<Mutex<Vec<Option<u64>>>> = Arc::new(Mutex::new(vec![None; count]));
    for number in 0..count {
        let (run_too, got, moves) = (Arc::clone(run), Arc::clone(&got), random.below(2) == 0);
        start("consumer", move || {
            let mut client = run_too.store.client().expect("there is room");
            let value = match moves {
                true => number_of(&client.call(&["BLMOVE", "queue", "moved", "LEFT", "RIGHT", "0"])),
                false => items(client.call(&["BLPOP", "queue", "0"])).get(1).map_or(0, number_of),
            };
            got.lock().unwrap_or_else(PoisonError::into_inner)[number] = Some(value);
        });
        wait_until(|| run.store.engine().blocked.lock().len() > number);
    }
    let mut next = 1;
    while next <= count {
        let pushed = (1 + random.below(3) as usize).min(count + 1 - next);
        let values = (next..next + pushed).map(|value| value.to_string());
        let words: Vec<String> = ["RPUSH".to_owned(), "queue".to_owned()].into_iter().chain(values).collect();
        client.call(&words);
        next += pushed;
    }
    let values = || got.lock().unwrap_or_else(PoisonError::into_inner).clone();
    wait_until(|| values().iter().all(Option::is_some));
    let expected: Vec<Option<u64>> = (1..=count as u64).map(Some).collect();
    assert_eq!(values(), expected, "what blocked clients got, in the order of their arrival");
    assert_eq!(client.call(&["LLEN", "queue"]), Value::Integer(0));
}

/// A client that nobody serves waits for as long as it said.
fn check_timeout(client: &mut LocalClient<'_>, random: &mut Random) {
    let timeout_ms = 10 + random.below(2000) as i64;
    let began_ms = clock::unix_ms();
    client.call(&["BLPOP", "nothing", &format!("{:.3}", timeout_ms as f64 / 1000.0)]);
    let waited_ms = clock::unix_ms() - began_ms;
    assert!((timeout_ms..timeout_ms + 150).contains(&waited_ms), "{waited_ms} ms of {timeout_ms}");
}

/// Copies the files at some moment, as a process leaves them that is killed, and looks for what had been
/// acknowledged.
fn check_kill(run: &Run, folder: &Folder, random: &mut Random) {
    for _ in 0..random.below(60) {
        simulation::yield_point();
    }
    let acknowledged = run.history.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let left = Folder::new();
    copy(&folder.0, &left.0);
    let store = open(&left.0, true);
    let mut client = store.client().expect("there is room");
    let lists: Vec<Vec<u64>> = (0..LIST_COUNT).map(|key| read_list(&mut client, key)).collect();
    for operation in acknowledged.iter().flat_map(|transaction| &transaction.operations) {
        if let Operation::Append(key, value) = operation {
            assert!(lists[*key].contains(value), "value {value} was acknowledged, and is not in the log");
        }
    }
}

/// Moves an amount from an account to another.
fn transfer(client: &mut LocalClient<'_>, random: &mut Random) {
    let (from, to, amount) = (random.below(ACCOUNT_COUNT), random.below(ACCOUNT_COUNT), random.below(100));
    client.call(&["MULTI"]);
    client.call(&["DECRBY", &format!("account:{from}"), &amount.to_string()]);
    client.call(&["INCRBY", &format!("account:{to}"), &amount.to_string()]);
    client.call(&["EXEC"]);
}

/// A dump that is written while amounts are moved holds one instant: the accounts come to nothing.
fn check_snapshot(run: &Run, folder: &Folder, random: &mut Random) {
    for _ in 0..random.below(60) {
        simulation::yield_point();
    }
    let saved = run.store.client().expect("there is room").call(&["SAVE"]);
    assert_eq!(saved, Value::Simple(b"OK".to_vec()), "SAVE");
    let left = Folder::new();
    copy(&folder.0, &left.0);
    let store = open(&left.0, false);
    let mut client = store.client().expect("there is room");
    let amount = |value: &Value| match value {
        Value::Bulk(bytes) => String::from_utf8_lossy(bytes).parse::<i64>().expect("a number"),
        _ => 0,
    };
    let keys = (0..ACCOUNT_COUNT).map(|key| format!("account:{key}"));
    let sum: i64 = keys.map(|key| amount(&client.call(&["GET", &key]))).sum();
    assert_eq!(sum, 0, "the accounts of a dump");
}

/// The log gives what is in memory.
fn check_replay(client: &mut LocalClient<'_>, folder: &Folder) {
    let digest = client.call(&["DEBUG", "DIGEST"]);
    assert!(matches!(&digest, Value::Simple(text) if text.len() == 40), "{digest:?}");
    let left = Folder::new();
    copy(&folder.0, &left.0);
    let store = open(&left.0, true);
    let loaded = store.client().expect("there is room").call(&["DEBUG", "DIGEST"]);
    assert_eq!(loaded, digest, "the log, loaded");
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder").flatten() {
        match entry.path().is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => _ = std::fs::copy(entry.path(), to.join(entry.file_name())).expect("a copy"),
        }
    }
}

fn read_list(client: &mut LocalClient<'_>, key: u64) -> Vec<u64> {
    numbers(client.call(&["LRANGE", &format!("list:{key}"), "0", "-1"]))
}

fn read_counter(client: &mut LocalClient<'_>, key: u64) -> u64 {
    number_of(&client.call(&["GET", &format!("counter:{key}")]))
}

fn items(value: Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items,
        other => panic!("{other:?}"),
    }
}

fn numbers(value: Value) -> Vec<u64> {
    items(value).iter().map(number_of).collect()
}

/// A number in a reply; 0 for what is not there.
fn number_of(value: &Value) -> u64 {
    match value {
        Value::Bulk(bytes) => std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok()).unwrap_or(0),
        _ => 0,
    }
}
