//! Count-Min sketches: how often items were seen, never too few, in memory that does not grow.
//!
//! ```text
//! row 0 | width counters of 32 bits |   an item has one counter in each row, at its hash modulo the width;
//! ...                                   the least of them is its estimate
//! row depth - 1
//! ```
//!
//! Hashes and places are those of Redis's module, so that dumps go both ways.
//!
//! Counting and estimating cost O(depth), a merge O(cells) for each source. A clone costs O(1): cells lie in
//! pages that are shared until they change, and that take no memory while they are zeros.
//!
//! Invariant: there are `width * depth` cells, which take [`BYTES_MAX`] or less.

#[cfg(test)]
mod tests;

use smallvec::SmallVec;

use crate::Collection;
use crate::murmur::Grid;
use crate::paged_bytes::{PAGE_BYTES, PagedBytes};

/// Most bytes that the cells take.
const BYTES_MAX: u64 = 64 << 30;
const CELL_BYTES: usize = 4;

/// A Count-Min sketch.
#[derive(Clone, Debug, Default)]
#[repr(transparent)]
pub struct CountMinSketch {
    body: Box<Body>,
}

const _: () = assert!(size_of::<CountMinSketch>() == 8);

#[derive(Clone, Debug, Default)]
struct Body {
    grid: Grid,
    /// The sum of all increments, modulo 2^64.
    count: u64,
    cells: PagedBytes,
}

/// A sketch that is merged, and what its counters are multiplied by.
pub type WeightedSketch<'a> = (&'a CountMinSketch, i64);

impl CountMinSketch {
    /// A sketch of zeros. `None` if a side is 0, or both are too large.
    pub fn new(width: u64, depth: u64) -> Option<Self> {
        let bytes = Self::byte_len_of(width, depth)?;
        Some(CountMinSketch {
            body: Box::new(Body {
                grid: Grid::new(width, depth),
                count: 0,
                cells: PagedBytes::zeroed(bytes),
            }),
        })
    }

    /// One with these counters, row by row, each of four bytes, the lowest first. `None` if they are not as
    /// many as the sides say.
    pub fn from_parts(width: u64, depth: u64, count: u64, cells: &[u8]) -> Option<Self> {
        Self::byte_len_of(width, depth).filter(|&bytes| bytes == cells.len())?;
        let mut sketch = CountMinSketch::new(width, depth)?;
        sketch.body.count = count;
        sketch.body.cells.write(0, cells);
        Some(sketch)
    }

    /// Bytes of the cells of a sketch with these sides, if there can be one.
    fn byte_len_of(width: u64, depth: u64) -> Option<usize> {
        let bytes = width.checked_mul(depth)?.checked_mul(CELL_BYTES as u64)?;
        if bytes == 0 || bytes > BYTES_MAX { None } else { usize::try_from(bytes).ok() }
    }

    /// Counters in a row.
    pub fn width(&self) -> u64 {
        self.body.grid.width
    }

    /// The number of rows.
    pub fn depth(&self) -> u64 {
        self.body.grid.depth
    }

    /// The sum of all increments, modulo 2^64.
    pub fn count(&self) -> u64 {
        self.body.count
    }

    /// The number of bytes that the cells take.
    pub fn byte_len(&self) -> usize {
        self.body.cells.len()
    }

    /// Appends the bytes of a range of the cells.
    pub fn append_bytes(&self, from: usize, to: usize, out: &mut Vec<u8>) {
        self.body.cells.append_to(from, to.min(self.byte_len()), out);
    }

    /// Counts an item, and returns its estimate. Counters stop at `u32::MAX`.
    #[inline]
    pub fn increment(&mut self, item: &[u8], by: u64) -> u32 {
        let Body { grid, count, cells } = &mut *self.body;
        let mut cells = cells.own();
        let mut least = u32::MAX;
        grid.each_place(item, |place| {
            let cell = cells.cell(place * CELL_BYTES);
            let mut value = u32::from_le(cell.get()).wrapping_add(by as u32);
            if u64::from(value) < by {
                value = u32::MAX;
            }
            cell.set(value.to_le());
            least = least.min(value);
        });
        *count = count.wrapping_add(by);
        least
    }

    /// The estimate of an item: not less than it was counted.
    #[inline]
    pub fn estimate(&self, item: &[u8]) -> u32 {
        let Body { grid, cells, .. } = &*self.body;
        let mut least = u32::MAX;
        grid.each_place(item, |place| {
            least = least.min(u32::from_le(*cells.number(place * CELL_BYTES)));
        });
        if grid.depth == 0 { 0 } else { least }
    }

    /// The sum of sketches with the sides of this one, or `None` if a counter leaves 32 bits, or a sum 64
    /// bits on the way.
    pub fn merged(&self, sources: &[WeightedSketch<'_>]) -> Option<Self> {
        let len = self.byte_len();
        debug_assert!(sources.iter().all(|source| source.0.byte_len() == len));
        let mut cells = PagedBytes::zeroed(len);
        let mut sums = [[0; CELL_BYTES]; SUMS];
        for from in (0..len).step_by(PAGE_BYTES) {
            let page = from / PAGE_BYTES;
            // Pages of zeros add nothing.
            let adds = |source: &&WeightedSketch<'_>| !source.0.body.cells.page(page).is_empty();
            let adding: SmallVec<[Summand<'_>; 8]> = sources
                .iter()
                .filter(adds)
                .map(|(source, weight)| (source.body.cells.page(page).as_chunks().0, *weight))
                .collect();
            if adding.is_empty() {
                continue;
            }
            let cell_count = (len - from).min(PAGE_BYTES) / CELL_BYTES;
            for at in (0..cell_count).step_by(SUMS) {
                let sums = &mut sums[..(cell_count - at).min(SUMS)];
                sum_cells(&adding, at, sums)?;
                cells.write(from + at * CELL_BYTES, sums.as_flattened());
            }
        }
        let mut count = 0i64;
        for (source, weight) in sources {
            let product = i128::from(source.body.count) * i128::from(*weight);
            count = count.checked_add(i64::try_from(product).ok()?)?;
        }
        let count = u64::try_from(count).ok()?;
        Some(CountMinSketch { body: Box::new(Body { grid: self.body.grid, count, cells }) })
    }
}

/// Cells whose sums are computed together: these stay in the cache nearest to a core.
const SUMS: usize = 512;

/// Cells as bytes, and what they are multiplied by.
type Summand<'a> = (&'a [[u8; CELL_BYTES]], i64);

/// Puts the sums of the cells from a place on into `out`. `None` if one leaves 32 bits, or 64 bits on the
/// way.
fn sum_cells(summands: &[Summand<'_>], at: usize, out: &mut [[u8; CELL_BYTES]]) -> Option<()> {
    let mut sums = [0i64; SUMS];
    let sums = &mut sums[..out.len()];
    let weights = summands.iter().fold(0u64, |sum, (_, weight)| sum.saturating_add(weight.unsigned_abs()));
    // So small weights keep every sum within 64 bits.
    let is_bounded = weights < 1 << 31;
    for (cells, weight) in summands {
        let pairs = sums.iter_mut().zip(&cells[at..]);
        let pairs = pairs.map(|(sum, cell)| (sum, i64::from(u32::from_le_bytes(*cell))));
        if is_bounded && *weight == 1 {
            pairs.for_each(|(sum, value)| *sum += value);
        } else if is_bounded {
            pairs.for_each(|(sum, value)| *sum += value * weight);
        } else {
            for (sum, value) in pairs {
                *sum = sum.checked_add(value.checked_mul(*weight)?)?;
            }
        }
    }
    let mut high = 0;
    for (sum, cell) in sums.iter().zip(out) {
        high |= *sum as u64 >> u32::BITS;
        *cell = (*sum as u32).to_le_bytes();
    }
    (high == 0).then_some(())
}

impl Collection for CountMinSketch {
    fn element_count(&self) -> u64 {
        self.body.count
    }

    fn encoding(&self) -> &'static str {
        "raw"
    }

    fn memory_usage(&self) -> usize {
        size_of::<Body>() + self.body.cells.memory_usage()
    }

    fn free_effort(&self) -> usize {
        self.body.cells.page_count()
    }

    fn redis_free_effort(&self, _: usize) -> usize {
        1
    }

    fn is_large_form(&self) -> bool {
        self.body.cells.page_count() > 1
    }
}
