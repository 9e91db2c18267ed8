//! What the sessions of a run do, and what is checked.
//!
//! - Transactions and scripts on lists are strictly serialisable ([`crate::history`]).
//! - Counters that WATCH guards lose no update.
//! - Blocked clients are served in the order of their arrival, each once; timeouts end when they should.
//! - Keys are there until they expire, and not longer.
//! - A dump that is saved meanwhile is one instant: a sum that transactions keep holds in it.
//! - With a log, a process that is killed and a disk that loses power, at any operation of the disk and while
//!   dumps and rewrites go on, leave all that was acknowledged, as far as `appendfsync` promises it, and a
//!   state that there was after some commit ([`crate::crash`]).
//! - In some seeds the disk fails ([`crate::failing`]), in others keys are evicted ([`crate::evicting`]).

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use mantissa_engine::embedded::{Embedded, LocalClient};
use mantissa_engine::log;
use mantissa_protocol::Value;
use mantissa_sys::{clock, simulation};

use crate::crash::{self, Policy, Recording};
use crate::disk::{Disk, Image, Promise};
use crate::evicting;
use crate::failing;
use crate::history::{self, Operation, Transaction};
use crate::scheduler::Random;

pub(crate) const LIST_COUNT: u64 = 4;
const COUNTER_COUNT: u64 = 2;
const ACCOUNT_COUNT: u64 = 5;
const WRITERS_MAX: u64 = 16;
const CALLS_MAX: u64 = 10;
/// Clients that do not write.
const OTHER_CLIENTS: usize = 24;
/// Of this number of seeds one has a disk that fails, and one evicts.
const VARIANTS: u64 = 10;
/// One seed in this number has hundreds of sessions.
const CROWD_ONE_IN: u64 = 50;
/// Crashes of a run, and among how many operations of the disk.
const CRASHES: u64 = 3;
const CRASH_OPERATIONS_MAX: u64 = 150;
/// Among how many operations on names.
const CRASH_NAME_OPERATIONS_MAX: u64 = 30;

/// Appends to each list and reads it. The first argument says how the names of the lists are given.
const SCRIPT: &str = "local keys = KEYS \
    local values = ARGV \
    local result = {} \
    for i, key in ipairs(keys) do \
        redis.call('RPUSH', key, values[i]) \
        result[i] = redis.call('LRANGE', key, 0, -1) \
    end \
    return result";

/// The same, with names that are not declared as keys.
const UNDECLARED: &str = "local result = {} \
    local count = #ARGV / 2 \
    for i = 1, count do \
        redis.call('RPUSH', ARGV[i], ARGV[count + i]) \
        result[i] = redis.call('LRANGE', ARGV[i], 0, -1) \
    end \
    return result";

/// What all threads of a run share.
pub(crate) struct Run {
    pub(crate) store: Embedded,
    /// Grows with each call that begins or ends.
    moment: AtomicU64,
    pub(crate) next_value: AtomicU64,
    pub(crate) history: Mutex<Vec<Transaction>>,
    increments: AtomicU64,
    pub(crate) ended: AtomicUsize,
}

/// Runs one seed on a simulated thread. Panics if a check fails.
pub fn run(seed: u64) {
    log::set_level(mantissa_config::LogLevel::Nothing);
    match Random(seed ^ 0x7A51).below(VARIANTS) {
        0 => failing::run(&mut Random(seed ^ 0xFA11)),
        1 => evicting::run(&mut Random(seed ^ 0xE71C)),
        _ => run_whole(&mut Random(seed ^ 0x5EED)),
    }
}

fn run_whole(random: &mut Random) {
    let policy = [Policy::Unlogged, Policy::EverySecond, Policy::Always][random.below(3) as usize];
    let (sessions, calls_max) = match random.below(CROWD_ONE_IN) {
        0 => (100 + random.below(200), 2),
        _ => (2 + random.below(WRITERS_MAX - 1), CALLS_MAX),
    };
    let disk = Disk::default();
    let clients = sessions as usize + OTHER_CLIENTS;
    let run = Run::open(&disk, policy, clients);
    let recording = Recording::begin(run.store.engine());
    if policy != Policy::Unlogged {
        set_crashes(&run, &disk, policy == Policy::EverySecond, random);
    }
    for _ in 0..sessions {
        let (seed, run) = (random.draw(), Arc::clone(&run));
        start("writer", move || write(&run, &mut Random(seed), calls_max));
    }
    let mut looks = Vec::new();
    if policy == Policy::Unlogged {
        check_snapshot(&run, &disk, random);
    } else {
        save_meanwhile(&run, random);
        looks.push(crash::look(run.store.engine()));
    }
    wait_until(|| run.ended.load(Ordering::Relaxed) as u64 == sessions);
    let history = std::mem::take(&mut *run.history.lock().unwrap_or_else(PoisonError::into_inner));
    let mut client = run.store.client().expect("there is room");
    let lists: Vec<Vec<u64>> = (0..LIST_COUNT).map(|key| read_list(&mut client, key)).collect();
    history::check(&history, &lists).unwrap_or_else(|error| panic!("{error}"));
    let sum: u64 = (0..COUNTER_COUNT).map(|key| read_counter(&mut client, key)).sum();
    assert_eq!(sum, run.increments.load(Ordering::Relaxed), "increments that WATCH guards");
    check_order(&run, &mut client, random);
    check_other_order(&run, &mut client, random);
    check_timeout(&mut client, random);
    if policy == Policy::Unlogged {
        return check_expiry(&run, &mut client, random);
    }
    looks.push(crash::look(run.store.engine()));
    let states = recording.finish();
    looks.into_iter().for_each(|look| states.check_look(look));
    states.check_replay(random);
    for image in disk.take_images() {
        check_acknowledged(&history, &image, policy);
        states.check_image(&image, policy);
    }
    check_reopening(&run, &disk, policy);
}

impl Run {
    /// Opens the engine.
    pub(crate) fn open(disk: &Disk, policy: Policy, clients: usize) -> Arc<Run> {
        Arc::new(Run {
            store: crash::open(Arc::new(disk.clone()), policy, clients).expect("the engine opens"),
            moment: AtomicU64::new(1),
            next_value: AtomicU64::new(1),
            history: Mutex::default(),
            increments: AtomicU64::new(0),
            ended: AtomicUsize::new(0),
        })
    }
}

/// Chooses crashes. `is_ordered`: see [`Disk::set_crashes`].
pub(crate) fn set_crashes(run: &Arc<Run>, disk: &Disk, is_ordered: bool, random: &mut Random) {
    let crashes = crash::choose(random, CRASHES, CRASH_OPERATIONS_MAX, CRASH_NAME_OPERATIONS_MAX);
    let run = Arc::downgrade(run);
    disk.set_crashes(crashes, is_ordered, move || promise(&run));
}

/// What has been promised at this moment.
fn promise(run: &Weak<Run>) -> Promise {
    let Some(run) = run.upgrade() else { return Promise::default() };
    let aof = &run.store.engine().aof;
    let control = &aof.control;
    // While writing fails, replies wait for nothing with `everysec`, as in Redis.
    let is_free = !aof.waits_for_disk() && aof.write_failed.load(Ordering::Relaxed);
    let acknowledged = run.history.lock().unwrap_or_else(PoisonError::into_inner).len();
    Promise {
        acknowledged: if is_free { 0 } else { acknowledged },
        written: control.written(),
        durable: control.durable(),
    }
}

/// Has dumps be written, and the log be rewritten.
pub(crate) fn save_meanwhile(run: &Run, random: &mut Random) {
    let mut client = run.store.client().expect("there is room");
    for _ in 0..random.below(4) {
        for _ in 0..random.below(40) {
            simulation::yield_point();
        }
        let command = ["BGSAVE", "SAVE", "BGREWRITEAOF", "BGREWRITEAOF"][random.below(4) as usize];
        client.call(&[command]);
    }
}

pub(crate) fn start(name: &str, work: impl FnOnce() + Send + 'static) {
    simulation::spawn(name, work).expect("a thread starts");
}

pub(crate) fn wait_until(mut holds: impl FnMut() -> bool) {
    while !holds() {
        simulation::wait(Some(Duration::from_millis(10)));
    }
}

/// The sessions of a writer, one after the other.
fn write(run: &Run, random: &mut Random, calls_max: u64) {
    for _ in 0..1 + random.below(3) {
        let mut client = run.store.client().expect("there is room");
        for _ in 0..1 + random.below(calls_max) {
            match random.below(6) {
                0 => increment(run, &mut client, random),
                1 => append(run, random, |keys, values| script(&mut client, keys, values)),
                2 => read_alone(run, &mut client, random),
                3 => transfer(&mut client, random),
                4 => append(run, random, |keys, values| undeclared(&mut client, keys, values)),
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

pub(crate) fn note(run: &Run, began: u64, operations: Vec<Operation>) {
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

fn undeclared(client: &mut LocalClient<'_>, keys: &[u64], values: &[u64]) -> Vec<Vec<u64>> {
    let mut words = vec!["EVAL".to_owned(), UNDECLARED.to_owned(), "0".to_owned()];
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

/// The same for sorted sets, or for a group of a stream.
fn check_other_order(run: &Arc<Run>, client: &mut LocalClient<'_>, random: &mut Random) {
    let (count, is_stream) = (2 + random.below(6) as usize, random.below(2) == 0);
    client.call(&["XGROUP", "CREATE", "stream", "group", "$", "MKSTREAM"]);
    let got: Arc<Mutex<Vec<Option<u64>>>> = Arc::new(Mutex::new(vec![None; count]));
    for number in 0..count {
        let (run_too, got) = (Arc::clone(run), Arc::clone(&got));
        start("consumer", move || {
            let mut client = run_too.store.client().expect("there is room");
            let read =
                ["XREADGROUP", "GROUP", "group", "one", "COUNT", "1", "BLOCK", "0", "STREAMS", "stream"];
            let reply = match is_stream {
                true => client.call(&[&read[..], &[">"]].concat()),
                false => client.call(&["BZPOPMIN", "scores", "0"]),
            };
            let value = if is_stream { last_of(&reply) } else { items(reply).get(1).map_or(0, number_of) };
            got.lock().unwrap_or_else(PoisonError::into_inner)[number] = Some(value);
        });
        wait_until(|| run.store.engine().blocked.lock().len() > number);
    }
    for value in (1..=count).map(|value| value.to_string()) {
        match is_stream {
            true => client.call(&["XADD", "stream", "*", "field", &value]),
            false => client.call(&["ZADD", "scores", &value, &value]),
        };
    }
    let values = || got.lock().unwrap_or_else(PoisonError::into_inner).clone();
    wait_until(|| values().iter().all(Option::is_some));
    let expected: Vec<Option<u64>> = (1..=count as u64).map(Some).collect();
    assert_eq!(values(), expected, "what blocked clients got, in the order of their arrival");
}

/// The number that is the last element of the last element, and so on.
fn last_of(value: &Value) -> u64 {
    match value {
        Value::Array(items) => items.last().map_or(0, last_of),
        other => number_of(other),
    }
}

/// A key is there until its time, and not after it, whoever removes it.
fn check_expiry(run: &Arc<Run>, client: &mut LocalClient<'_>, random: &mut Random) {
    let rounds = random.below(30);
    let run_too = Arc::clone(run);
    start("background", move || {
        for _ in 0..rounds {
            run_too.store.background().round();
            simulation::sleep(Duration::from_millis(100));
        }
    });
    for key in (0..1 + random.below(5)).map(|number| format!("volatile:{number}")) {
        let time_ms = 1 + random.below(300) as i64;
        let began_ms = clock::unix_ms();
        client.call(&["SET", &key, "1", "PX", &time_ms.to_string()]);
        let set_ms = clock::unix_ms();
        while clock::unix_ms() <= set_ms + time_ms + 100 {
            let before_ms = clock::unix_ms();
            let is_there = client.call(&["EXISTS", &key]) == Value::Integer(1);
            let after_ms = clock::unix_ms();
            let (first_ms, last_ms) = (began_ms + time_ms, set_ms + time_ms);
            assert!(is_there || after_ms >= first_ms, "gone at {after_ms}, due at {first_ms}");
            assert!(!is_there || before_ms <= last_ms, "there at {before_ms}, due at {last_ms}");
            simulation::sleep(Duration::from_millis(1 + random.below(20)));
        }
    }
}

/// A client that nobody serves waits for as long as it said.
fn check_timeout(client: &mut LocalClient<'_>, random: &mut Random) {
    let timeout_ms = 10 + random.below(2000) as i64;
    let began_ms = clock::unix_ms();
    client.call(&["BLPOP", "nothing", &format!("{:.3}", timeout_ms as f64 / 1000.0)]);
    let waited_ms = clock::unix_ms() - began_ms;
    assert!((timeout_ms..timeout_ms + 150).contains(&waited_ms), "{waited_ms} ms of {timeout_ms}");
}

/// What had been acknowledged is there after a crash, as far as that was promised.
pub(crate) fn check_acknowledged(history: &[Transaction], image: &Image, policy: Policy) {
    if policy != Policy::Always && image.crash.is_power_loss {
        return;
    }
    let store = crash::open(Arc::new(image.files.copy()), policy, 1);
    let store = store.unwrap_or_else(|error| panic!("{error}: {:?}", image.crash));
    let mut client = store.client().expect("there is room");
    let lists: Vec<Vec<u64>> = (0..LIST_COUNT).map(|key| read_list(&mut client, key)).collect();
    let acknowledged = &history[..image.promise.acknowledged.min(history.len())];
    for operation in acknowledged.iter().flat_map(|transaction| &transaction.operations) {
        if let Operation::Append(key, value) = operation {
            let crash = image.crash;
            assert!(lists[*key].contains(value), "value {value} was acknowledged, and is lost: {crash:?}");
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
fn check_snapshot(run: &Run, disk: &Disk, random: &mut Random) {
    for _ in 0..random.below(60) {
        simulation::yield_point();
    }
    let saved = run.store.client().expect("there is room").call(&["SAVE"]);
    assert_eq!(saved, Value::Simple(b"OK".to_vec()), "SAVE");
    let store = crash::open(Arc::new(disk.copy()), Policy::Unlogged, 1).expect("the engine opens");
    let mut client = store.client().expect("there is room");
    let amount = |value: &Value| match value {
        Value::Bulk(bytes) => String::from_utf8_lossy(bytes).parse::<i64>().expect("a number"),
        _ => 0,
    };
    let keys = (0..ACCOUNT_COUNT).map(|key| format!("account:{key}"));
    let sum: i64 = keys.map(|key| amount(&client.call(&["GET", &key]))).sum();
    assert_eq!(sum, 0, "the accounts of a dump");
}

/// What a process leaves that is killed in the end gives what is in memory.
pub(crate) fn check_reopening(run: &Run, disk: &Disk, policy: Policy) {
    let (_, digest) = crash::look(run.store.engine());
    let store = crash::open(Arc::new(disk.copy()), policy, 1).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(crash::look(store.engine()).1, digest, "the log, loaded");
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
pub(crate) fn number_of(value: &Value) -> u64 {
    match value {
        Value::Bulk(bytes) => std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok()).unwrap_or(0),
        _ => 0,
    }
}
