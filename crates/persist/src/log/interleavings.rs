//! The log and the locks of shards under shuttle: random interleavings of threads, the same ones in every
//! run.
//!
//! Threads switch where a simulation has its yield points, and between the reservation of a range of the log
//! and its filling. Shuttle runs one thread at a time: a memory order that is too weak is not found.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mantissa_store::{Keyspace, ShardSet};
use mantissa_sys::simulation::{self, Scheduler, Task};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::thread::{JoinHandle, spawn};
use shuttle::{Config, FailurePersistence, Runner};

use super::{COPIED_BYTES_MAX, COPIED_LOCKED_BYTES_MAX, Log, Lsn, Start, Unit};

const SEED: u64 = 0x5EED;
const ITERATIONS: usize = 1000;
/// What the values of each writer consist of.
const LETTERS: [u8; 3] = *b"abc";

/// Lets another thread go on, in a test under shuttle.
pub(super) fn switch() {
    if shuttle::current::try_get_current_task().is_some() {
        shuttle::thread::sleep(Duration::ZERO);
    }
}

/// Makes the threads of shuttle those of a simulation.
struct Shuttle;

impl Scheduler for Shuttle {
    fn yield_point(&self) {
        switch();
    }

    fn wait(&self, _time_max: Option<Duration>) {
        shuttle::thread::yield_now();
    }

    fn unix_us(&self) -> i64 {
        0
    }

    fn spawn(&self, _name: &str, _task: Task) {}
}

fn check(test: fn()) {
    let config = || {
        let mut config = Config::new();
        config.stack_size = 256 << 10;
        config.failure_persistence = FailurePersistence::None;
        config
    };
    // All threads of shuttle are this one.
    let _entered = simulation::enter(Arc::new(Shuttle));
    Runner::new(RandomScheduler::new_from_seed(SEED, ITERATIONS), config()).run(test);
    Runner::new(PctScheduler::new_from_seed(SEED, 3, ITERATIONS), config()).run(test);
}

fn join_all(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    for thread in threads {
        thread.join().expect("no thread panics");
    }
}

fn unit(writer: usize, bytes: usize) -> Unit {
    let mut unit = Unit::default();
    unit.push(0, [&b"SET"[..], b"key", &vec![LETTERS[writer]; bytes]]);
    unit
}

#[test]
fn a_reader_sees_whole_units_each_once() {
    check(|| {
        let log = Arc::new(Log::default());
        let mut reader = log.register(Start::Fresh, u64::MAX, None).expect("the log ends somewhere");
        let sizes = [10, COPIED_LOCKED_BYTES_MAX + 10, COPIED_BYTES_MAX + 10];
        let writers = sizes.iter().enumerate().map(|(writer, &bytes)| {
            let log = Arc::clone(&log);
            spawn(move || {
                let end = log.append(&mut unit(writer, bytes), 0);
                assert!(log.end() >= end, "its end does not shrink");
                log.kick();
            })
        });
        let writers: Vec<_> = writers.collect();
        let (mut chunks, mut lsn) = (Vec::new(), reader.lsn());
        for _ in 0..3 {
            switch();
            reader.read(Lsn::MAX, usize::MAX, &mut chunks).expect("it has no limit");
            assert!(reader.lsn() >= lsn, "a reader does not go back");
            lsn = reader.lsn();
        }
        join_all(writers);
        reader.read(Lsn::MAX, usize::MAX, &mut chunks).expect("it has no limit");
        assert_eq!(reader.lsn(), log.end(), "what was appended can be read");
        let bytes: Vec<u8> = chunks.iter().flat_map(|chunk| chunk.bytes()).copied().collect();
        for (writer, &size) in sizes.iter().enumerate() {
            let is_own = |byte: &&u8| **byte == LETTERS[writer];
            let first = bytes.iter().position(|byte| is_own(&byte)).expect("it is there");
            let together = bytes[first..].iter().take_while(is_own).count();
            let count = bytes.iter().filter(is_own).count();
            assert_eq!((together, count), (size, size), "the unit of writer {writer}");
        }
    });
}

/// A replica appends the bytes of its primary; a sub-replica comes at any time and reads from the backlog.
#[test]
fn a_reader_of_the_backlog_sees_the_bytes_of_the_primary() {
    check(|| {
        let log = Arc::new(Log::default());
        let backlog = log.keep(u64::MAX);
        let sizes = [10, COPIED_LOCKED_BYTES_MAX + 10, COPIED_BYTES_MAX + 10];
        let texts = sizes.iter().zip(LETTERS).map(|(&bytes, letter)| vec![letter; bytes]);
        let texts: Arc<Vec<_>> = Arc::new(texts.collect());
        let (writer_log, writer_texts) = (Arc::clone(&log), Arc::clone(&texts));
        let writer = spawn(move || {
            let mut unit = Unit::default();
            for (database, text) in writer_texts.iter().enumerate() {
                unit.set_verbatim(text, database);
                writer_log.append(&mut unit, 0);
                assert_eq!(writer_log.database(), Some(database));
                writer_log.kick();
            }
        });
        let (begin, mut chunks) = (backlog.first(), Vec::new());
        switch();
        let mut here = log.register(Start::Here, u64::MAX, None).expect("the log ends somewhere");
        let (here_lsn, mut here_chunks) = (here.lsn(), Vec::new());
        let mut reader = log.register(Start::At(begin), u64::MAX, None).expect("it is kept");
        switch();
        reader.read(Lsn::MAX, usize::MAX, &mut chunks).expect("it has no limit");
        join_all([writer]);
        reader.read(Lsn::MAX, usize::MAX, &mut chunks).expect("it has no limit");
        here.read(Lsn::MAX, usize::MAX, &mut here_chunks).expect("it has no limit");
        let bytes: Vec<u8> = chunks.iter().flat_map(|chunk| chunk.bytes()).copied().collect();
        assert!(bytes == texts.concat() && reader.behind() == 0);
        let end: Vec<u8> = here_chunks.iter().flat_map(|chunk| chunk.bytes()).copied().collect();
        assert!(end == bytes[(here_lsn - begin) as usize..]);
    });
}

#[test]
fn locks_of_shards_exclude_and_never_deadlock() {
    check(|| {
        let keyspace = Arc::new(Keyspace::new(1, 4));
        let inside: Arc<[AtomicUsize; 4]> = Arc::default();
        let sets: [&[usize]; 4] = [&[0, 1], &[1, 2, 3], &[3], &[0, 1, 2, 3]];
        join_all(sets.map(|shards| {
            let (keyspace, inside) = (Arc::clone(&keyspace), Arc::clone(&inside));
            spawn(move || {
                let mut set = ShardSet::EMPTY;
                shards.iter().for_each(|&index| set.insert(index));
                let locked = keyspace.lock(set);
                for &index in shards {
                    assert_eq!(inside[index].fetch_add(1, Ordering::Relaxed), 0, "one at a time");
                }
                switch();
                for &index in shards {
                    inside[index].fetch_sub(1, Ordering::Relaxed);
                }
                drop(locked);
            })
        }));
    });
}
