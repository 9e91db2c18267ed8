//! What the readers of several types share.

use crate::packed::{Damage, Packing, elements};
use crate::source::{LoadError, Source};
use mantissa_number::INTEGER_TEXT_MAX;
use mantissa_store::listpack::{Element, IntegerText, ListpackError};
use std::io::Read;

/// Elements of a large collection from whose bytes its size in all is estimated.
pub const TYPICAL_ELEMENTS: u64 = 1 << 10;

/// Filters of more bytes are written as they are, in pieces, and not compressed.
pub const COMPRESSED_BYTES_MAX: usize = 16 << 20;
/// Bytes of such a piece.
pub const PIECE_BYTES: usize = 1 << 20;

/// Elements that should come in twos or threes do not.
pub const UNPAIRED: Damage = Damage { at: 0, reason: "packed elements do not come in pairs" };

/// Reads one string and has `work` take it apart; what is wrong with it is told with its offset.
pub fn unpack<R: Read>(
    source: &mut Source<R>,
    work: impl FnOnce(&[u8]) -> Result<(), Damage>,
) -> Result<(), LoadError> {
    let offset = source.offset();
    let outcome = work(source.string()?);
    refused(source, offset, outcome)
}

/// Passes on what `outcome` says, with an offset.
pub fn refused<R: Read>(
    source: &Source<R>,
    offset: u64,
    outcome: Result<(), Damage>,
) -> Result<(), LoadError> {
    outcome.or_else(|Damage { at, reason }| match at {
        0 => source.error(offset, reason),
        _ => source.error(offset, format!("{reason} (at byte {at} of the packed value)")),
    })
}

/// Has `visit` called with the text of each packed element.
pub fn each_element(
    bytes: &[u8],
    packing: Packing,
    mut visit: impl FnMut(&[u8]) -> Result<(), Damage>,
) -> Result<(), Damage> {
    let mut scratch: IntegerText = [0; INTEGER_TEXT_MAX];
    for element in elements(bytes, packing)? {
        visit(element?.text(&mut scratch))?;
    }
    Ok(())
}

/// Has `visit` called with each two packed elements.
pub fn each_pair(
    bytes: &[u8],
    packing: Packing,
    mut visit: impl FnMut(&[u8], Element<'_>) -> Result<(), Damage>,
) -> Result<(), Damage> {
    let mut scratch: IntegerText = [0; INTEGER_TEXT_MAX];
    let mut elements = elements(bytes, packing)?;
    while let Some(first) = elements.next() {
        let first = first?;
        let second = elements.next().ok_or(UNPAIRED)??;
        visit(first.text(&mut scratch), second)?;
    }
    Ok(())
}

/// What the check of a listpack found.
pub fn damage(ListpackError { at, reason }: ListpackError) -> Damage {
    Damage { at, reason }
}

/// The stated number of elements if the file can have as many; otherwise the most that it can have. The
/// first, [`TYPICAL_ELEMENTS`], began at `start`.
pub fn believable<R: Read>(source: &Source<R>, start: u64, count: u64) -> usize {
    let bytes_of_one = ((source.offset() - start) / TYPICAL_ELEMENTS).max(1);
    let possible = TYPICAL_ELEMENTS + source.left().unwrap_or(0) / bytes_of_one;
    usize::try_from(count.min(possible)).unwrap_or(0)
}
