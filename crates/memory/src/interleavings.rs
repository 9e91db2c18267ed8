//! Reference counts and copy-on-write sharing under shuttle: random interleavings of threads, the same ones
//! in every run.
//!
//! A thread can be interrupted before each access to a count. Shuttle runs one thread at a time, so these
//! tests find wrong sequences of operations. They do not find a memory order that is too weak: `ref_count.rs`
//! argues these.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering};

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::thread::{JoinHandle, spawn};
use shuttle::{Config, FailurePersistence, Runner};

use crate::ref_count::{RefCount, Width};
use crate::{CowMap, CowSlice, CowVec, SharedBytes};

const SEED: u64 = 0x5EED;

/// Runs a test with each of two schedulers: one that may switch threads anywhere, and one that switches at
/// few points, which reaches deeper into long sequences.
fn check(iterations: usize, test: impl Fn() + Send + Sync + 'static) {
    let test = Arc::new(test);
    run(RandomScheduler::new_from_seed(SEED, iterations), test.clone());
    run(PctScheduler::new_from_seed(SEED, 3, iterations), test);
}

fn run(scheduler: impl Scheduler + 'static, test: Arc<impl Fn() + Send + Sync + 'static>) {
    let mut config = Config::new();
    config.stack_size = 256 << 10;
    config.failure_persistence = FailurePersistence::None;
    Runner::new(scheduler, config).run(move || test());
}

fn join_all(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    for thread in threads {
        thread.join().expect("no thread panics");
    }
}

/// What an allocation with a count would be, without the memory.
struct Shared<C> {
    count: C,
    is_alive: AtomicBool,
}

/// The operations of a count, so that a broken one can be put in its place.
trait Count: Send + Sync + 'static {
    fn one() -> Self;
    fn retain(&self);
    fn release(&self) -> bool;
}

impl<W: Width + Send + Sync + 'static> Count for RefCount<W> {
    fn one() -> Self {
        RefCount::new()
    }

    fn retain(&self) {
        RefCount::retain(self);
    }

    fn release(&self) -> bool {
        RefCount::release(self)
    }
}

/// Frees at the last release, which must come once, when nobody uses the memory any more.
fn release<C: Count>(shared: &Shared<C>) {
    assert!(shared.is_alive.load(Ordering::Relaxed), "memory is used after it was freed");
    if shared.count.release() {
        assert!(shared.is_alive.swap(false, Ordering::Relaxed), "memory is freed twice");
    }
}

/// Three threads that clone and drop what they share.
fn clone_and_drop<C: Count>() {
    let shared = Arc::new(Shared { count: C::one(), is_alive: AtomicBool::new(true) });
    let threads: Vec<_> = (1..=3)
        .map(|clones| {
            shared.count.retain();
            let shared = shared.clone();
            spawn(move || {
                for _ in 0..clones {
                    shared.count.retain();
                    release(&shared);
                }
                release(&shared);
            })
        })
        .collect();
    release(&shared);
    join_all(threads);
    assert!(!shared.is_alive.load(Ordering::Relaxed), "memory leaks");
}

#[test]
fn memory_is_freed_once_and_after_all_use() {
    check(2000, clone_and_drop::<RefCount<AtomicU16>>);
    check(2000, clone_and_drop::<RefCount>);
    check(2000, clone_and_drop::<RefCount<AtomicUsize>>);
}

/// Not under a leak detector: shuttle leaks the stacks of threads that a failing run interrupts.
#[cfg(not(feature = "whole_allocations"))]
mod broken {
    use super::*;

    /// A count whose release looks at the number after it has decremented, in two steps.
    struct TwoSteps(AtomicUsize);

    impl Count for TwoSteps {
        fn one() -> Self {
            TwoSteps(AtomicUsize::new(1))
        }

        fn retain(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }

        fn release(&self) -> bool {
            self.0.fetch_sub(1, Ordering::Release);
            shuttle::thread::yield_now();
            self.0.load(Ordering::Acquire) == 0
        }
    }

    #[test]
    #[should_panic(expected = "memory is freed twice")]
    fn a_broken_count_is_found() {
        check(2000, clone_and_drop::<TwoSteps>);
    }
}

#[test]
fn a_full_count_never_wraps() {
    check(500, || {
        // There is room for one more.
        let count = Arc::new(RefCount::<AtomicU16>::of(usize::from(u16::MAX / 2) - 1));
        let granted = Arc::new(AtomicUsize::new(0));
        let threads = [0; 3].map(|_| {
            let (count, granted) = (count.clone(), granted.clone());
            spawn(move || _ = granted.fetch_add(usize::from(count.try_retain()), Ordering::Relaxed))
        });
        join_all(threads);
        assert_eq!(granted.load(Ordering::Relaxed), 1);
        assert!(!count.try_retain() && !count.release() && count.try_retain());
    });
}

#[test]
fn only_the_holder_of_the_last_reference_writes_bytes() {
    check(2000, || {
        let bytes = SharedBytes::joined(&[&[0; 16]]);
        let threads = [1, 2, 3].map(|number| {
            let mut own = bytes.clone();
            spawn(move || {
                let before = own.payload()[0];
                match own.payload_mut() {
                    Some(payload) => payload.fill(number),
                    None => assert_eq!(own.payload()[0], before, "others hold it, and it changes"),
                }
                let _clone = own.clone();
                assert!(own.payload_mut().is_none());
            })
        });
        drop(bytes);
        join_all(threads);
    });
}

#[test]
fn clones_of_a_slice_change_on_their_own() {
    check(1000, || {
        let mut slice: CowSlice<u32> = (0..5).collect();
        let threads = [10, 20].map(|number| {
            let mut own = slice.clone();
            spawn(move || {
                own.insert(2, number);
                own.as_mut_slice()[0] = number;
                let other = own.clone();
                own.remove(1);
                assert_eq!(other.as_slice(), [number, 1, number, 2, 3, 4]);
                assert_eq!(own.as_slice(), [number, number, 2, 3, 4]);
            })
        });
        slice.as_mut_slice()[4] = 7;
        assert_eq!(slice.as_slice(), [0, 1, 2, 3, 7]);
        join_all(threads);
        assert_eq!(slice.as_slice(), [0, 1, 2, 3, 7]);
    });
}

/// Items that a [`CowVec`] drops; each counts as one of a token's owners while it lives.
type Tokens = CowVec<(usize, Arc<()>)>;

fn assert_numbers(vector: &Tokens, expected: impl ExactSizeIterator<Item = usize>) {
    assert_eq!(vector.len(), expected.len());
    expected.enumerate().for_each(|(index, number)| assert_eq!(vector.get(index).0, number));
}

#[test]
fn clones_of_a_vector_change_on_their_own_and_nothing_leaks() {
    const LEN: usize = 130;
    check(300, || {
        let token = Arc::new(());
        let mut vector: Tokens = CowVec::new();
        (0..LEN).for_each(|number| vector.push((number, token.clone())));
        let threads = [1, 2].map(|thread| {
            let (mut own, token) = (vector.clone(), token.clone());
            spawn(move || {
                own.get_mut(thread * 60).0 = 1000 * thread;
                let image = own.clone();
                own.push((LEN, token));
                assert_eq!(own.pop().map(|item| item.0), Some(LEN));
                (0..thread * 5).for_each(|_| drop(own.pop()));
                let expected = |index| if index == thread * 60 { 1000 * thread } else { index };
                assert_numbers(&own, (0..LEN - thread * 5).map(expected));
                drop(own);
                assert_numbers(&image, (0..LEN).map(expected));
            })
        });
        vector.get_mut(0).0 = 7;
        assert_numbers(&vector, (0..LEN).map(|index| if index == 0 { 7 } else { index }));
        drop(vector);
        join_all(threads);
        assert_eq!(Arc::strong_count(&token), 1, "items leak");
    });
}

#[test]
fn an_image_of_a_map_is_read_while_the_map_changes() {
    const LEN: u64 = 100;
    check(100, || {
        let mut map = CowMap::build((0..LEN).map(|key| (2 * key, key)));
        let threads = [0, 1].map(|_| {
            let image = map.clone();
            spawn(move || {
                assert!(image.iter().copied().eq(0..LEN));
                assert!(image.between(20, 29).rev().copied().eq([14, 13, 12, 11, 10]));
            })
        });
        for key in 0..20 {
            *map.floor_mut(2 * key).expect("it is there") += LEN;
            assert_eq!(map.remove_floor(2 * LEN - 2 * key), Some(LEN - 1 - key));
        }
        map.push(2 * LEN, 1);
        assert_eq!((map.len() as u64, map.first().copied()), (LEN - 19, Some(LEN)));
        join_all(threads);
    });
}
