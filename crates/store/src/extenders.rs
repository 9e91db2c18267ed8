//! Threads that ask for more shards than they hold, whatever their order, and wait for them.
//!
//! Each notes what it holds and which shard it waits for. Invariant: following from a thread to the holder of
//! the shard that it waits for, and so on, never leads back to it: the thread that would close such a circle
//! is refused. All other threads release what they hold before they wait while there are extenders. So
//! whoever waits here gets its shard once its holder, which waits for none, has ended.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::shard_set::ShardSet;

/// A thread that waits.
struct Waiting {
    number: u64,
    held: ShardSet,
    wanted: usize,
}

#[derive(Default)]
struct State {
    waiting: Vec<Waiting>,
    next_number: u64,
}

impl State {
    /// Whether who holds these shards may wait for another one.
    fn may_wait(&self, held: ShardSet, wanted: usize) -> bool {
        let mut wanted = wanted;
        // There are no circles, so each thread is come to once at most.
        for _ in 0..=self.waiting.len() {
            match self.waiting.iter().find(|other| other.held.contains(wanted)) {
                None => return true,
                Some(holder) if held.contains(holder.wanted) => return false,
                Some(holder) => wanted = holder.wanted,
            }
        }
        false
    }
}

/// All such threads of a keyspace.
#[derive(Default)]
pub(crate) struct Extenders {
    state: Mutex<State>,
    count: AtomicUsize,
    ended: Condvar,
}

impl Extenders {
    /// Whether there are any.
    #[inline]
    pub(crate) fn exist(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Waits until there are none, for `wait_max` at most. Whether there are none.
    pub(crate) fn await_end(&self, wait_max: Duration) -> bool {
        let mut state = self.state.lock();
        if self.exist() {
            self.ended.wait_for(&mut state, wait_max);
        }
        !self.exist()
    }

    /// Begins to ask for more.
    pub(crate) fn begin(&self) -> Extension<'_> {
        let mut state = self.state.lock();
        state.next_number += 1;
        self.count.fetch_add(1, Ordering::Relaxed);
        Extension { extenders: self, number: state.next_number }
    }
}

/// A thread that asks for more shards, until it is dropped.
pub(crate) struct Extension<'k> {
    extenders: &'k Extenders,
    number: u64,
}

impl Extension<'_> {
    /// Notes that the thread holds these shards and is about to wait for another one. False if that one's
    /// holder waits, itself or through others, for one of these.
    pub(crate) fn waits(&self, held: ShardSet, wanted: usize) -> bool {
        let mut state = self.extenders.state.lock();
        state.waiting.retain(|other| other.number != self.number);
        let may_wait = state.may_wait(held, wanted);
        if may_wait {
            state.waiting.push(Waiting { number: self.number, held, wanted });
        }
        may_wait
    }
}

impl Drop for Extension<'_> {
    fn drop(&mut self) {
        let mut state = self.extenders.state.lock();
        state.waiting.retain(|other| other.number != self.number);
        if self.extenders.count.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.extenders.ended.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_would_close_a_circle_is_refused() {
        let extenders = Extenders::default();
        let [one, two, three] = [(); 3].map(|()| extenders.begin());
        let held = ShardSet::one;
        assert!(one.waits(held(1), 2) && two.waits(held(2), 3));
        assert!(
            !three.waits(held(3), 1),
            "it holds what the second waits for, which holds what the first does"
        );
        assert!(three.waits(held(3), 9), "nobody who waits holds that");
        // The second has got its shard, and wants another.
        assert!(!two.waits(held(2).union(held(3)), 1));
        drop(one);
        assert!(two.waits(held(2).union(held(3)), 1));
        assert!(extenders.exist() && !extenders.await_end(Duration::ZERO));
        drop((two, three));
        assert!(!extenders.exist() && extenders.await_end(Duration::ZERO));
    }
}
