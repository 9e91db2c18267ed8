//! Bloom filters as BF.SCANDUMP gives and BF.LOADCHUNK takes them: a header, then the bits of all filters of
//! the chain, one after the other, in pieces. A piece is named by the place after its end, counted from 1.
//!
//! ```text
//! header  items (u64), filters (u32), options (u32), growth (u32), then for each filter:
//!         bytes (u64), bits (u64), items (u64), error (f64), bits per entry (f64),
//!         hashes (u32), entries (u64), power (u8)
//! ```

use super::layer::{BYTES_MAX, Layer};
use super::{BloomFilter, BloomShape, FILTERS_MAX};

const HEAD_BYTES: usize = 20;
const FILTER_BYTES: usize = 53;
/// Most bytes of a piece.
const PIECE_BYTES_MAX: usize = 16 << 20;
/// What is said of a header or a piece that is none.
const BAD_DATA: &str = "ERR received bad data";

/// Numbers from the start of some bytes.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*field)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn f64(&mut self) -> Option<f64> {
        self.take().map(f64::from_le_bytes)
    }
}

impl BloomFilter {
    /// The header.
    pub fn dump_header(&self) -> Vec<u8> {
        let layers = &self.body.layers;
        let mut out = Vec::with_capacity(HEAD_BYTES + FILTER_BYTES * layers.len());
        out.extend_from_slice(&self.body.items.to_le_bytes());
        out.extend_from_slice(&(layers.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.body.options.to_le_bytes());
        out.extend_from_slice(&self.body.growth.to_le_bytes());
        for Layer { shape, size, .. } in layers {
            out.extend_from_slice(&(shape.bytes() as u64).to_le_bytes());
            out.extend_from_slice(&shape.bits.to_le_bytes());
            out.extend_from_slice(&size.to_le_bytes());
            out.extend_from_slice(&shape.error.to_le_bytes());
            out.extend_from_slice(&shape.bits_per_entry.to_le_bytes());
            out.extend_from_slice(&shape.hashes.to_le_bytes());
            out.extend_from_slice(&shape.entries.to_le_bytes());
            out.push(shape.power);
        }
        out
    }

    /// Filters without bits from a header.
    pub fn from_header(header: &[u8]) -> Result<Self, &'static str> {
        Self::read_header(header).filter(BloomFilter::is_sound).ok_or(BAD_DATA)
    }

    fn read_header(header: &[u8]) -> Option<Self> {
        let mut fields = Fields(header);
        let (items, count) = (fields.u64()?, fields.u32()? as usize);
        let (options, growth) = (fields.u32()?, fields.u32()?);
        if count > FILTERS_MAX || fields.0.len() != count * FILTER_BYTES {
            return None;
        }
        let mut filter = BloomFilter::from_parts(items, options, growth);
        let mut total = 0;
        for _ in 0..count {
            let (bytes, bits, size) = (fields.u64()?, fields.u64()?, fields.u64()?);
            let (error, bits_per_entry) = (fields.f64()?, fields.f64()?);
            let (hashes, entries, [power]) = (fields.u32()?, fields.u64()?, fields.take()?);
            total += bytes.min(BYTES_MAX + 1);
            if bytes.checked_mul(8) != Some(bits) || total > BYTES_MAX {
                return None;
            }
            let shape = BloomShape { entries, error, hashes, bits_per_entry, bits, power };
            filter.push_part(shape, &[])?;
            filter.set_items_of_newest(size);
        }
        Some(filter)
    }

    /// The filter that holds a place in the dump, and the place in it.
    fn find_place(&self, place: i64) -> Option<(usize, usize)> {
        let mut at = usize::try_from(place.checked_sub(1)?).ok()?;
        for (index, layer) in self.body.layers.iter().enumerate() {
            if at < layer.bytes.len() {
                return Some((index, at));
            }
            at -= layer.bytes.len();
        }
        None
    }

    /// The piece that begins at a place, and the place after it; place 0 and nothing where none begins.
    pub fn dump_piece(&self, place: i64) -> (i64, Vec<u8>) {
        let Some((index, at)) = self.find_place(place) else { return (0, Vec::new()) };
        let bytes = &self.body.layers[index].bytes;
        let end = bytes.len().min(at + PIECE_BYTES_MAX);
        let mut piece = Vec::with_capacity(end - at);
        bytes.append_to(at, end, &mut piece);
        (place + (end - at) as i64, piece)
    }

    /// Puts a piece in its place, before the place that names it.
    pub fn load_piece(&mut self, after: i64, piece: &[u8]) -> Result<(), &'static str> {
        let len = i64::try_from(piece.len()).map_err(|_| BAD_DATA)?;
        if after <= 0 || after < len {
            return Err(BAD_DATA);
        }
        let (index, at) = self.find_place(after - len).ok_or("ERR invalid offset - no link found")?;
        let bytes = &mut self.body.layers[index].bytes;
        if piece.len() > bytes.len() - at {
            return Err("ERR invalid chunk - Too big for current filter");
        }
        bytes.write(at, piece);
        Ok(())
    }
}
