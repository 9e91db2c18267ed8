//! Count-Min sketches, as Redis's module keeps them: the sides, the sum of all increments, and the counters
//! as one string.

use super::Codec;
use super::module::{put_unsigned, read_string, read_unsigned};
use crate::aof::Rebuilder;
use crate::digest::Mixer;
use crate::format::value_type;
use crate::source::{LoadError, Source};
use crate::write::{Encoder, Spill, Target};
use mantissa_store::{CountMinSketch, EncodingLimits, ValueRef};
use std::io::{Read, Write};

impl Codec for CountMinSketch {
    const FORMS: &'static [u8] = &[value_type::COUNT_MIN_SKETCH];
    // That of all modules' types.
    const DIGEST_NUMBER: u32 = 5;
    const MAY_BE_EMPTY: bool = true;

    fn form(&self, _target: Target) -> Option<u8> {
        Some(value_type::COUNT_MIN_SKETCH)
    }

    fn write(&self, _form: u8, encoder: &mut Encoder<'_>, out: &mut Vec<u8>, spill: Spill<'_>) {
        put_unsigned(self.width(), out);
        put_unsigned(self.depth(), out);
        put_unsigned(self.count(), out);
        let append = |from, to, out: &mut Vec<u8>| self.append_bytes(from, to, out);
        encoder.module_pages(self.byte_len(), append, out, spill);
    }

    fn read<R: Read>(source: &mut Source<R>, _form: u8, _limits: &EncodingLimits) -> Result<Self, LoadError> {
        let offset = source.offset();
        let (width, depth, count) = (read_unsigned(source)?, read_unsigned(source)?, read_unsigned(source)?);
        match CountMinSketch::from_parts(width, depth, count, read_string(source)?) {
            Some(sketch) => Ok(sketch),
            None => source.error(offset, "Count-Min sketch whose sides do not fit its counters"),
        }
    }

    fn rebuild<W: Write>(&self, key: &[u8], to: &mut Rebuilder<W>) -> Result<(), String> {
        to.restore(key, ValueRef::CountMinSketch(self))
    }

    fn digest(&self, _digest: &mut Mixer) {
        // The module mixes nothing in.
    }
}

#[cfg(test)]
impl super::tests::Sample for CountMinSketch {
    fn with_elements(count: usize) -> Self {
        let mut sketch = CountMinSketch::new(count as u64, 5).expect("a small sketch");
        (0..count).for_each(|number| _ = sketch.increment(&super::tests::element(number), 1));
        sketch
    }

    fn disturb(&mut self) {
        self.increment(b"disturbed", 1);
    }
}
