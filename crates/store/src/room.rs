//! Room in vectors.

/// Room for at least one more item, where there are fewer than `most`: for twice the items, and no more than
/// `most`.
pub(crate) fn make_room<T>(items: &mut Vec<T>, most: usize) {
    /// Room for the first items.
    const FIRST: usize = 4;
    if items.len() == items.capacity() {
        items.reserve_exact(items.len().max(FIRST).min(most - items.len()));
    }
}
