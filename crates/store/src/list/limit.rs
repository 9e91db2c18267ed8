//! What `list-max-listpack-size` means.

use crate::EncodingLimits;

/// The most bytes of a node that is limited by its element count.
const COUNTED_BYTES_MAX: usize = 8192;
/// Node sizes of the directive's values -1 to -5.
const SIZES: [usize; 5] = [4096, 8192, 16_384, 32_768, 65_536];

/// The limit of a node: bytes or elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeLimit {
    Bytes(usize),
    Count(usize),
}

impl NodeLimit {
    /// The limit that the directives ask for.
    #[inline]
    pub fn of(limits: &EncodingLimits) -> Self {
        match usize::try_from(limits.list_node_size) {
            Ok(count) => NodeLimit::Count(count.max(1)),
            Err(_) => {
                let step = limits.list_node_size.unsigned_abs().min(SIZES.len() as u64);
                NodeLimit::Bytes(SIZES[step as usize - 1])
            }
        }
    }

    /// Whether a node of this size and count is too large.
    #[inline]
    pub fn is_exceeded(self, bytes: usize, count: usize) -> bool {
        match self {
            NodeLimit::Bytes(max) => bytes > max,
            NodeLimit::Count(max) => bytes > COUNTED_BYTES_MAX || count > max,
        }
    }

    /// Whether an element gets a node of its own.
    #[inline]
    pub fn is_large(self, bytes: usize) -> bool {
        match self {
            NodeLimit::Bytes(max) => bytes > max,
            NodeLimit::Count(_) => bytes > COUNTED_BYTES_MAX,
        }
    }

    /// Whether a list of one node of this size and count goes back to the small form; at half the limit if
    /// it is `shrinking`.
    pub fn is_small(self, bytes: usize, count: usize, shrinking: bool) -> bool {
        let part = if shrinking { 2 } else { 1 };
        match self {
            NodeLimit::Bytes(max) => bytes <= max / part,
            NodeLimit::Count(max) => count <= max / part,
        }
    }
}
