//! Blocks made at once of all their elements.

use super::block::{Block, Builder};
use super::element::Encoded;
use super::view::Form;
use crate::distinct::all_differ;
use crate::listpack::{CheckedElements, ListpackError};
use smallvec::SmallVec;

/// The longest listpack whose elements are looked at together: beyond it they come one by one.
const GATHERED_BYTES_MAX: usize = 64 << 10;

/// Most items of which each is compared with each.
const COMPARED_ITEMS_MAX: usize = 24;

/// All elements of a listpack, which is checked; `None` if it is too long.
pub(crate) fn gathered(listpack: &[u8]) -> Result<Option<SmallVec<[Encoded<'_>; 64]>>, ListpackError> {
    if listpack.len() > GATHERED_BYTES_MAX {
        return Ok(None);
    }
    CheckedElements::new(listpack)?
        .map(|element| element.map(Encoded::of))
        .collect::<Result<_, _>>()
        .map(Some)
}

/// A block of these elements, each few of which are an item; `None` if two items have the same first element.
/// Costs O(n).
pub(crate) fn block_of(form: Form, elements: &[Encoded<'_>]) -> Option<Block> {
    debug_assert!(elements.len().is_multiple_of(form.stride()) && !form.has_tags);
    if elements.is_empty() {
        return Some(Block::EMPTY);
    }
    if has_duplicate(elements, form.stride()) {
        return None;
    }
    let bytes = elements.iter().map(Encoded::span).sum();
    let mut builder = Builder::new(form, elements.len() / form.stride(), bytes);
    builder.push_new(elements);
    Some(builder.finish())
}

/// Whether two items begin with the same element.
fn has_duplicate(elements: &[Encoded<'_>], stride: usize) -> bool {
    let keys = || elements.iter().step_by(stride);
    if elements.len() <= COMPARED_ITEMS_MAX * stride {
        return keys().enumerate().any(|(index, key)| keys().take(index).any(|other| other.is_same(key)));
    }
    !all_differ(keys(), Encoded::hash, |key| key.to_comparable())
}
