//! A lock that a thread keeps from one command to the next.
//!
//! Where threads contend for one shard, handing its lock over takes longer than a short command. So a thread
//! whose next command has the same key keeps it. Whatever the thread locks next takes the kept lock or releases
//! it first: no thread waits for a shard while it keeps one.

use std::cell::Cell;

use crate::keyspace::Keyspace;

/// Commands of a thread that may keep a lock after it had to wait for one.
const CONTENDED_COMMANDS: u32 = 1024;

/// What a thread keeps.
#[derive(Clone, Copy)]
struct Kept {
    /// None if this is null.
    keyspace: *const Keyspace,
    shard: usize,
}

thread_local! {
    static KEPT: Cell<Kept> = const { Cell::new(Kept { keyspace: std::ptr::null(), shard: 0 }) };
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

/// Keeps the lock of a shard.
pub(crate) fn keep(keyspace: &Keyspace, shard: usize) {
    KEPT.set(Kept { keyspace, shard });
}

/// The shard of which this thread keeps the lock.
#[inline]
pub(crate) fn shard(keyspace: &Keyspace) -> Option<usize> {
    let kept = KEPT.get();
    std::ptr::eq(kept.keyspace, keyspace).then_some(kept.shard)
}

/// Keeps nothing from now on.
pub(crate) fn forget() {
    KEPT.set(Kept { keyspace: std::ptr::null(), shard: 0 });
}
