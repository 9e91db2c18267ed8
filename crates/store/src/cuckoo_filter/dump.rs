//! Cuckoo filters as CF.SCANDUMP gives and CF.LOADCHUNK takes them: a header, then the slots of all filters
//! of the chain, one after the other, in pieces. A piece is named by the place after its end, counted from 1.
//!
//! ```text
//! header  items, buckets of the first filter, deletions, filters (u64 each),
//!         slots of a bucket, steps, growth (u16 each)
//! ```

use super::{CuckooFilter, CuckooShape};

/// Bytes of the header.
const HEADER_BYTES: usize = 38;
/// Most bytes of a piece.
const PIECE_BYTES_MAX: usize = 16 << 20;

impl CuckooFilter {
    /// The header.
    pub fn dump_header(&self) -> Vec<u8> {
        let shape = self.shape();
        let mut out = Vec::with_capacity(HEADER_BYTES);
        let counts = [self.items(), shape.buckets, self.deletions(), self.filters() as u64];
        counts.iter().for_each(|count| out.extend_from_slice(&count.to_le_bytes()));
        let numbers = [shape.bucket_size, shape.steps, shape.growth];
        numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
        out
    }

    /// Filters without items from a header, of which the length is right or the outer result none.
    pub fn from_header(header: &[u8]) -> Option<Option<Self>> {
        let header: &[u8; HEADER_BYTES] = header.try_into().ok()?;
        let count = |index: usize| {
            let bytes = header[index * 8..].first_chunk().expect("the header has this length");
            u64::from_le_bytes(*bytes)
        };
        let number = |index: usize| {
            let bytes = header[32 + index * 2..].first_chunk().expect("the header has this length");
            u16::from_le_bytes(*bytes)
        };
        let shape =
            CuckooShape { buckets: count(1), bucket_size: number(0), steps: number(1), growth: number(2) };
        Some(Self::from_header_parts(shape, count(0), count(2), count(3)))
    }

    fn from_header_parts(shape: CuckooShape, items: u64, deletions: u64, filters: u64) -> Option<Self> {
        let mut filter = CuckooFilter::from_parts(shape, items, deletions)?;
        (0..filters).try_for_each(|_| filter.push_part())?;
        (filters > 0).then_some(filter)
    }

    /// The filter that holds a place in the dump, and the place in it.
    fn find_place(&self, mut at: usize) -> Option<(usize, usize)> {
        for (index, layer) in self.body.layers.iter().enumerate() {
            if at < layer.slots.len() {
                return Some((index, at));
            }
            at -= layer.slots.len();
        }
        None
    }

    /// The piece that begins at a place, and the place after it. As for the module, of a filter that fits
    /// into one piece all is given, wherever in it the place is.
    pub fn dump_piece(&self, place: i64) -> Option<(i64, Vec<u8>)> {
        let (index, at) = self.find_place(usize::try_from(place.checked_sub(1)?).ok()?)?;
        let slots = &self.body.layers[index].slots;
        let at = if slots.len() <= PIECE_BYTES_MAX { 0 } else { at };
        let end = slots.len().min(at + PIECE_BYTES_MAX);
        let mut piece = Vec::with_capacity(end - at);
        slots.append_to(at, end, &mut piece);
        Some((place.checked_add((end - at) as i64)?, piece))
    }

    /// Puts a piece in its place, before the place that names it. `None` if there is no such place.
    pub fn load_piece(&mut self, after: i64, piece: &[u8]) -> Option<()> {
        let start = after.checked_sub(1)?.checked_sub(i64::try_from(piece.len()).ok()?)?;
        let (index, at) = self.find_place(usize::try_from(start).ok()?)?;
        let slots = &mut self.body.layers[index].slots;
        if piece.is_empty() || piece.len() > slots.len() - at {
            return None;
        }
        slots.write(at, piece);
        Some(())
    }
}
