//! Bloom filters, as Redis's module keeps them: numbers, and for each filter of a chain what it was made for
//! and its bits as one string.

use super::Codec;
use super::module::{put_double, put_unsigned, read_double, read_string, read_unsigned};
use super::reading::{COMPRESSED_BYTES_MAX, PIECE_BYTES};
use crate::aof::Rebuilder;
use crate::aof::rebuild::decimal;
use crate::digest::Mixer;
use crate::format::{module_opcode, put_length, value_type};
use crate::source::{LoadError, Source};
use crate::write::{Encoder, Spill, Target};
use mantissa_store::{BloomFilter, BloomPart, BloomShape, EncodingLimits};
use std::io::{Read, Write};

/// What is said of a value whose parts do not fit together.
const UNSOUND: &str = "Bloom filter whose parts do not fit together";

impl Codec for BloomFilter {
    const FORMS: &'static [u8] = &[value_type::BLOOM_FILTER];
    // That of all modules' types.
    const DIGEST_NUMBER: u32 = 5;
    const MAY_BE_EMPTY: bool = true;

    fn form(&self, _target: Target) -> Option<u8> {
        Some(value_type::BLOOM_FILTER)
    }

    fn write(&self, _form: u8, encoder: &mut Encoder<'_>, out: &mut Vec<u8>, spill: Spill<'_>) {
        put_unsigned(self.items(), out);
        put_unsigned(self.parts().len() as u64, out);
        put_unsigned(self.options().into(), out);
        put_unsigned(self.growth().into(), out);
        for part in self.parts() {
            let shape = part.shape();
            put_unsigned(shape.entries, out);
            put_double(shape.error, out);
            put_unsigned(shape.hashes.into(), out);
            put_double(shape.bits_per_entry, out);
            put_unsigned(shape.bits, out);
            put_unsigned(shape.power.into(), out);
            write_bits(part, encoder, out, spill);
            put_unsigned(part.items(), out);
            spill(out);
        }
    }

    fn read<R: Read>(source: &mut Source<R>, _form: u8, _limits: &EncodingLimits) -> Result<Self, LoadError> {
        let offset = source.offset();
        let (items, count) = (read_unsigned(source)?, read_unsigned(source)?);
        let (options, growth) = (read_unsigned(source)?, read_unsigned(source)?);
        let (Ok(options), Ok(growth)) = (u32::try_from(options), u32::try_from(growth)) else {
            return source.error(offset, UNSOUND);
        };
        let mut filter = BloomFilter::from_parts(items, options, growth);
        for _ in 0..count {
            read_part(source, &mut filter)?;
        }
        if filter.is_sound() { Ok(filter) } else { source.error(offset, UNSOUND) }
    }

    fn rebuild<W: Write>(&self, key: &[u8], to: &mut Rebuilder<W>) -> Result<(), String> {
        to.command(&[b"BF.LOADCHUNK", key, b"1", &self.dump_header()])?;
        let mut place = 1;
        loop {
            let (next, piece) = self.dump_piece(place);
            if next == 0 {
                return Ok(());
            }
            to.command(&[b"BF.LOADCHUNK", key, &decimal(next), &piece])?;
            place = next;
        }
    }

    fn digest(&self, _digest: &mut Mixer) {
        // The module mixes nothing in.
    }
}

fn write_bits(part: BloomPart<'_>, encoder: &mut Encoder<'_>, out: &mut Vec<u8>, spill: Spill<'_>) {
    let len = part.byte_len();
    if len <= COMPRESSED_BYTES_MAX {
        let mut bytes = Vec::with_capacity(len);
        part.append_bytes(0, len, &mut bytes);
        return encoder.module_string(&bytes, out);
    }
    put_length(module_opcode::STRING, out);
    put_length(len as u64, out);
    for from in (0..len).step_by(PIECE_BYTES) {
        part.append_bytes(from, from + PIECE_BYTES, out);
        spill(out);
    }
}

fn read_part<R: Read>(source: &mut Source<R>, filter: &mut BloomFilter) -> Result<(), LoadError> {
    let offset = source.offset();
    let (entries, error) = (read_unsigned(source)?, read_double(source)?);
    let (hashes, bits_per_entry) = (read_unsigned(source)?, read_double(source)?);
    let (bits, power) = (read_unsigned(source)?, read_unsigned(source)?);
    let (Ok(hashes), Ok(power)) = (u32::try_from(hashes), u8::try_from(power)) else {
        return source.error(offset, UNSOUND);
    };
    let shape = BloomShape { entries, error, hashes, bits_per_entry, bits, power };
    let bytes = read_string(source)?;
    if bytes.is_empty() || filter.push_part(shape, bytes).is_none() {
        return source.error(offset, UNSOUND);
    }
    filter.set_items_of_newest(read_unsigned(source)?);
    Ok(())
}

#[cfg(test)]
impl super::tests::Sample for BloomFilter {
    fn with_elements(count: usize) -> Self {
        let mut filter = BloomFilter::new(100, 0.01, 2, false).expect("a small filter");
        (0..count).for_each(|number| _ = filter.add(&super::tests::element(number)));
        filter
    }

    fn disturb(&mut self) {
        (0..20).for_each(|number| _ = self.add(&super::tests::element(1_000_000 + number)));
    }
}
