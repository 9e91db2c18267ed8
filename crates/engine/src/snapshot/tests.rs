//! What happens to a snapshot when its savers fail.

use mantissa_persist::storage::{MemoryStorage, Storage};
use mantissa_store::{Entry, ShardSet};

use super::*;

const KEYS: u64 = 1_000;

fn keyspace() -> Keyspace {
    let keyspace = Keyspace::new(1, 2);
    for number in 0..KEYS {
        let key = format!("key:{number}");
        let hash = keyspace.hash(key.as_bytes());
        let index = keyspace.shard_of(hash);
        let mut locked = keyspace.lock(ShardSet::one(index));
        let shard = locked.shard_mut(index).expect("it is locked");
        shard.databases[0].insert(hash, Entry::string(key.as_bytes(), b"value", None, 0));
    }
    keyspace
}

/// Writes a snapshot whose encoding calls `usage_of`, and returns how many keys it had, and the outcome.
fn snapshot(
    keyspace: &Keyspace,
    file: &mut dyn OutputFile,
    pace: Pace,
    usage_of: &(dyn Fn(u32) -> KeyUsage + Sync),
) -> (u64, io::Result<()>) {
    let options = WriteOptions::default();
    let mut writer = Writer::new(file, options.clone(), None);
    writer.begin(&FileFacts::default()).expect("there is room");
    let (snapshot, totals) = keyspace.lock(keyspace.all_shards()).begin_snapshot();
    let progress = SnapshotProgress::default();
    let job = Job {
        keyspace,
        progress: &progress,
        snapshot,
        options,
        key_delay: None,
        usage_of: Some(usage_of),
        next_shard: AtomicUsize::new(0),
        failed: AtomicBool::new(false),
        refusal: Mutex::default(),
        is_void: &|| false,
        stream: Mutex::new(()),
        brought: Mutex::new(()),
        spare: Mutex::new(Vec::new()),
    };
    let outcome = run(&job, pace, writer, Ok(()));
    (totals[0].keys, outcome)
}

#[test]
fn a_saver_that_panics_fails_the_save_and_spoils_nothing() {
    let keyspace = keyspace();
    let panics = |_| panic!("for the test");
    let works = |_| KeyUsage { idle_s: None, frequency: Some(1) };
    for pace in [Pace::Steady, Pace::Hasty] {
        let mut file = MemoryStorage::new().create("dump.rdb".as_ref()).expect("there is room");
        assert!(snapshot(&keyspace, &mut *file, pace, &panics).1.is_err());
        let encoded = AtomicUsize::new(0);
        let counts = |clock| {
            encoded.fetch_add(1, Ordering::Relaxed);
            works(clock)
        };
        let (keys, outcome) = snapshot(&keyspace, &mut *file, pace, &counts);
        assert!(outcome.is_ok() && keys == KEYS);
        assert_eq!(encoded.into_inner() as u64, KEYS, "{pace:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_steady_save_lowers_the_priority_of_its_savers_alone() {
    // The number behind a name in parentheses, which may have spaces: the 17th is the nice value.
    let nice = || {
        let text = std::fs::read_to_string("/proc/thread-self/stat").expect("there is /proc");
        let (_, numbers) = text.rsplit_once(')').expect("there is a name");
        numbers.split_whitespace().nth(16).and_then(|number| number.parse::<i32>().ok()).expect("a number")
    };
    let (keyspace, before) = (keyspace(), nice());
    let among_savers = Mutex::new(Vec::new());
    let looks = |_| {
        among_savers.lock().push(nice());
        KeyUsage { idle_s: None, frequency: Some(1) }
    };
    let mut file = MemoryStorage::new().create("dump.rdb".as_ref()).expect("there is room");
    let (keys, outcome) = snapshot(&keyspace, &mut *file, Pace::Steady, &looks);
    assert!(outcome.is_ok() && keys == KEYS);
    assert!(before >= 10 || among_savers.lock().iter().all(|seen| *seen > before));
    assert_eq!(nice(), before);
}
