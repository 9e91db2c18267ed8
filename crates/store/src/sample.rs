//! Picking from collections at random.

/// A number below `bound`, from a uniform one.
#[inline]
pub(crate) fn below(number: u64, bound: usize) -> usize {
    ((u128::from(number) * bound as u128) >> 64) as usize
}

/// Visits `wanted` of the `len` items at most, every selection being equally likely, in their order (Knuth's
/// algorithm S).
pub(crate) fn select<T>(
    items: impl Iterator<Item = T>,
    len: usize,
    wanted: usize,
    mut random: impl FnMut() -> u64,
    mut visit: impl FnMut(T),
) {
    let (mut left, mut wanted) = (len, wanted.min(len));
    for item in items {
        if wanted == 0 {
            return;
        }
        if below(random(), left) < wanted {
            visit(item);
            wanted -= 1;
        }
        left = left.saturating_sub(1).max(wanted);
    }
}
