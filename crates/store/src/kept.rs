//! A lock that a thread keeps from one command to the next.
//!
//! Where threads contend for one shard, handing its lock over takes longer than a short command. So a thread
//! whose next command has the same key keeps it. Before it waits for any shard of the same keyspace it
//! releases the kept one. It may wait for other locks, whose holders therefore never wait for a shard.
//!
//! Pipelines on one key by two workers on two cores, with and without: INCR 953,039 and 844,354 a second for
//! 1.08 and 1.25 us of processor time each, LPUSH 750,310 and 602,696 for 1.52 and 2.00 us.

use std::cell::Cell;

/// Commands of a thread that may keep a lock after it had to wait for one.
const CONTENDED_COMMANDS: u32 = 1024;

/// The number of the keyspace, 0 if nothing is kept, and the shard.
type Kept = (u64, usize);

thread_local! {
    static KEPT: Cell<Kept> = const { Cell::new((0, 0)) };
    static CONTENDED: Cell<u32> = const { Cell::new(0) };
}

/// Notes that this thread has to wait for a shard.
pub(crate) fn note_wait() {
    CONTENDED.set(CONTENDED_COMMANDS);
}

/// Whether this thread has had to wait for a shard a short while ago. Asked once a command.
#[inline]
pub fn is_contended() -> bool {
    let rest = CONTENDED.get();
    if rest > 0 {
        CONTENDED.set(rest - 1);
    }
    rest > 0
}

/// Keeps the lock of a shard of the keyspace with this number.
pub(crate) fn keep(keyspace: u64, shard: usize) {
    KEPT.set((keyspace, shard));
}

/// The shard of the keyspace with this number of which this thread keeps the lock.
pub(crate) fn shard(keyspace: u64) -> Option<usize> {
    let (number, shard) = KEPT.get();
    (number == keyspace).then_some(shard)
}

/// Keeps nothing from now on.
pub(crate) fn forget() {
    KEPT.set((0, 0));
}
