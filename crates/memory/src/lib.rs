//! Memory: the allocator, slabs, and data structures whose clones share their parts.
//!
//! - [`allocator`]: jemalloc with an exact sum of what it has handed out, and mappings for what is large.
//!   [`heap`]: its statistics, and free pages that go back to the system.
//! - [`slab`]: small allocations in fine sizes, which can be compacted.
//! - [`ref_count`]: the one reference count, and what its memory order guarantees.
//! - [`shared_bytes`], [`cow_slice`], [`cow_vec`], [`cow_map`], [`counted_tree`]: copy-on-write structures. A
//!   clone costs O(1), a change copies what it touches where that is shared.
//! - [`tagged_ptr`], [`small_or_large`]: one of several representations behind eight bytes.
//! - [`prefetch`]: hints to the processor.

pub mod allocator;
pub mod counted_tree;
pub mod cow_map;
pub mod cow_slice;
pub mod cow_vec;
pub mod heap;
#[cfg(test)]
mod interleavings;
mod mappings;
mod prefetch;
pub mod ref_count;
pub mod shared_bytes;
pub mod slab;
pub mod small_or_large;
pub mod tagged_ptr;
#[cfg(test)]
mod test_random;

pub use counted_tree::{CountedTree, NodeId};
pub use cow_map::CowMap;
pub use cow_slice::CowSlice;
pub use cow_vec::CowVec;
pub use prefetch::{CACHE_LINE_BYTES, prefetch, prefetch_lines};
pub use ref_count::RefCount;
pub use shared_bytes::SharedBytes;
pub use small_or_large::SmallOrLarge;
pub use tagged_ptr::TaggedPtr;
