//! Cuckoo filters, as Redis's module keeps them: numbers, and for each filter of a chain the number of its
//! buckets and its slots as one string.

use super::Codec;
use super::module::{put_unsigned, read_string, read_unsigned};
use super::reading::{COMPRESSED_BYTES_MAX, PIECE_BYTES};
use crate::aof::Rebuilder;
use crate::aof::rebuild::decimal;
use crate::digest::Mixer;
use crate::format::{module_opcode, put_length, value_type};
use crate::source::{LoadError, Source};
use crate::write::{Encoder, Spill, Target};
use mantissa_store::{CuckooFilter, CuckooShape, EncodingLimits};
use std::io::{Read, Write};

/// What is said of a value whose parts do not fit together.
const UNSOUND: &str = "Cuckoo filter whose parts do not fit together";

impl Codec for CuckooFilter {
    const FORMS: &'static [u8] = &[value_type::CUCKOO_FILTER];
    // That of all modules' types.
    const DIGEST_NUMBER: u32 = 5;
    const MAY_BE_EMPTY: bool = true;

    fn form(&self, _target: Target) -> Option<u8> {
        Some(value_type::CUCKOO_FILTER)
    }

    fn write(&self, _form: u8, encoder: &mut Encoder<'_>, out: &mut Vec<u8>, spill: Spill<'_>) {
        let shape = self.shape();
        put_unsigned(self.filters() as u64, out);
        put_unsigned(shape.buckets, out);
        put_unsigned(self.items(), out);
        put_unsigned(self.deletions(), out);
        put_unsigned(shape.bucket_size.into(), out);
        put_unsigned(shape.steps.into(), out);
        put_unsigned(shape.growth.into(), out);
        for (index, (buckets, slots)) in self.parts().enumerate() {
            put_unsigned(buckets, out);
            write_slots(self, (index, slots), encoder, out, spill);
            spill(out);
        }
    }

    fn read<R: Read>(source: &mut Source<R>, _form: u8, _limits: &EncodingLimits) -> Result<Self, LoadError> {
        let offset = source.offset();
        let (filters, buckets) = (read_unsigned(source)?, read_unsigned(source)?);
        let (items, deletions) = (read_unsigned(source)?, read_unsigned(source)?);
        let mut small = || read_unsigned(source).map(|number| u16::try_from(number).unwrap_or(0));
        let shape = CuckooShape { buckets, bucket_size: small()?, steps: small()?, growth: small()? };
        let filter = CuckooFilter::from_parts(shape, items, deletions).filter(|_| filters > 0);
        let Some(mut filter) = filter else { return source.error(offset, UNSOUND) };
        for _ in 0..filters {
            read_part(source, &mut filter)?;
        }
        Ok(filter)
    }

    fn rebuild<W: Write>(&self, key: &[u8], to: &mut Rebuilder<W>) -> Result<(), String> {
        to.command(&[b"CF.LOADCHUNK", key, b"1", &self.dump_header()])?;
        let mut place = 1;
        while let Some((next, piece)) = self.dump_piece(place) {
            to.command(&[b"CF.LOADCHUNK", key, &decimal(next), &piece])?;
            place = next;
        }
        Ok(())
    }

    fn digest(&self, _digest: &mut Mixer) {
        // The module mixes nothing in.
    }
}

fn write_slots(
    filter: &CuckooFilter,
    (index, len): (usize, usize),
    encoder: &mut Encoder<'_>,
    out: &mut Vec<u8>,
    spill: Spill<'_>,
) {
    if len <= COMPRESSED_BYTES_MAX {
        let mut slots = Vec::with_capacity(len);
        filter.append_slots(index, 0, len, &mut slots);
        return encoder.module_string(&slots, out);
    }
    put_length(module_opcode::STRING, out);
    put_length(len as u64, out);
    for from in (0..len).step_by(PIECE_BYTES) {
        filter.append_slots(index, from, from + PIECE_BYTES, out);
        spill(out);
    }
}

fn read_part<R: Read>(source: &mut Source<R>, filter: &mut CuckooFilter) -> Result<(), LoadError> {
    let offset = source.offset();
    let buckets = read_unsigned(source)?;
    let slots = read_string(source)?;
    // The string is there, so it may be believed, and the filter is made only where that has its length.
    let expected = buckets.checked_mul(filter.shape().bucket_size.into());
    let is_sized = expected == Some(slots.len() as u64);
    if !is_sized || filter.push_part_of(buckets).is_none() || filter.fill_newest(slots).is_none() {
        return source.error(offset, UNSOUND);
    }
    Ok(())
}

#[cfg(test)]
impl super::tests::Sample for CuckooFilter {
    fn with_elements(count: usize) -> Self {
        let shape = CuckooShape::new(16, 2, 20, 2).expect("a small filter");
        let mut filter = CuckooFilter::new(shape).expect("a small filter");
        (0..count).for_each(|number| _ = filter.add(&super::tests::element(number), false));
        filter
    }

    fn disturb(&mut self) {
        self.add(b"another", false);
    }
}
