//! The limit of memory, `maxmemory`: how far memory is beyond it, and the keys that are evicted first.
//!
//! [`crate::eviction`] evicts.

mod policy;
mod pool;
mod pressure;
mod sampling;
mod search;

use mantissa_persist::tier::RecordEncoder;
use mantissa_store::allocator;

pub use policy::{Policy, quick_bytes};
pub use pool::{Candidate, Pool};
pub use pressure::{Freeing, Lease, Pressure, measure};
pub use sampling::{Drawer, Drawn, draw};
pub use search::{Found, Search};

/// The outcome of an attempt to evict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Memory is within the limit.
    WithinLimit,
    /// It is not yet, but more can be evicted, or is being freed.
    InProgress,
    /// It is not, and nothing can be evicted.
    Exhausted,
}

/// What a thread moves values to disk with.
#[derive(Default)]
pub struct Offloader {
    /// Values that may go.
    pub pool: Pool,
    /// The policy that the pool's candidates were chosen for.
    pub policy: Option<Policy>,
    /// Nothing could be moved: nothing is tried before this Unix time in ms.
    pub rests_until_ms: i64,
    /// The file took no more: only copies leave memory before this Unix time in ms.
    pub copies_only_until_ms: i64,
    /// Draws in a row that have found something.
    pub hits: u32,
    /// Makes their records.
    pub encoder: RecordEncoder,
}

/// What a thread knows about memory and keys to evict.
#[derive(Default)]
pub struct Evictor {
    /// Candidates for eviction.
    pub pool: Pool,
    /// Values that may go to disk, and what makes records of them.
    pub offloader: Offloader,
    /// The policy that the pool's candidates were chosen for.
    pub policy: Option<Policy>,
    /// What this thread may take before the sum is taken again.
    allowance: i64,
    /// [`allocator::thread_bytes`] when it was taken last.
    thread_bytes: i64,
}

impl Evictor {
    /// Has the next check take the sum again.
    #[inline]
    pub fn expect_change(&mut self) {
        self.allowance = 0;
    }

    #[inline]
    /// Whether memory is within the limit as far as this thread can tell without taking the sum.
    pub fn is_within_limit(&self) -> bool {
        self.allowance > 0 && allocator::thread_bytes() - self.thread_bytes < self.allowance
    }

    /// Notes the bytes that were left below the limit when the sum was taken.
    pub fn note_headroom(&mut self, bytes: i64, thread_count: usize) {
        self.thread_bytes = allocator::thread_bytes();
        self.allowance = bytes / (2 * thread_count as i64 + 2);
    }
}
