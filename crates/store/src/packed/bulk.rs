//! Blocks made at once of all their elements.

use super::block::{Block, Builder};
use super::element::Encoded;
use super::view::Form;
use crate::distinct::all_differ;
use crate::listpack::{CheckedElements, ListpackError};
use smallvec::SmallVec;

/// The longest listpack whose elements are looked at together: beyond it they come one by one.
const GATHERED_BYTES_MAX: usize = 64 << 10;

/// Elements that are looked at together.
pub(crate) type Gathered<'a> = SmallVec<[Encoded<'a>; 64]>;

/// Appends all elements of a listpack, which is checked. False if it is too long.
pub(crate) fn gather<'a>(listpack: &'a [u8], elements: &mut Gathered<'a>) -> Result<bool, ListpackError> {
    if listpack.len() > GATHERED_BYTES_MAX {
        return Ok(false);
    }
    for element in CheckedElements::new(listpack)? {
        elements.push(Encoded::of(element?));
    }
    Ok(true)
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
    let keys = elements.iter().step_by(stride);
    !all_differ(keys, Encoded::fingerprint, Encoded::hash, |key| key.to_comparable())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_that_comes_twice_is_found() {
        for count in 1..72 {
            for stride in 1..4 {
                let texts: Vec<String> = (0..count * stride).map(|number| format!("name {number}")).collect();
                let mut elements: Vec<_> = texts.iter().map(|text| Encoded::new(text.as_bytes())).collect();
                assert!(!has_duplicate(&elements, stride));
                for twice in 1..count {
                    let before = elements[twice * stride];
                    elements[twice * stride] = elements[(twice - 1) / 2 * stride];
                    assert!(has_duplicate(&elements, stride), "{twice} of {count}");
                    elements[twice * stride] = before;
                }
            }
        }
        let zeros = [Encoded::integer(0), Encoded::new(b""), Encoded::integer(-1), Encoded::integer(0)];
        assert!(!has_duplicate(&zeros[..3], 1) && has_duplicate(&zeros, 1));
    }
}
