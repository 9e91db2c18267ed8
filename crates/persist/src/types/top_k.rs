//! Top-K sketches, as Redis's module keeps them.
//!
//! ```text
//! k, width, depth, decay
//! buckets    one string | fingerprint (u32) | count (u32) | for each
//! heap       one string | fingerprint (u32) | length (u32) | address (u64) | count (u64) | for each
//! items      a string for each place of the heap, with a NUL behind it; only a NUL where there is none
//! ```
//!
//! Of the addresses, which mean nothing in a file and are not looked at by the module, the first is here the
//! state that chance is drawn from: so what follows a dump is the same on all who have read it.

use super::Codec;
use super::module::{put_double, put_unsigned, read_double, read_string, read_unsigned};
use crate::aof::Rebuilder;
use crate::digest::Mixer;
use crate::format::value_type;
use crate::source::{LoadError, Source};
use crate::write::{Encoder, Spill, Target};
use mantissa_store::{EncodingLimits, TopItem, TopK, ValueRef};
use std::io::{Read, Write};

const PLACE_BYTES: usize = 24;
/// What is said of a value whose parts do not fit together.
const UNSOUND: &str = "Top-K sketch whose parts do not fit together";

impl Codec for TopK {
    const FORMS: &'static [u8] = &[value_type::TOP_K];
    // That of all modules' types.
    const DIGEST_NUMBER: u32 = 5;
    const MAY_BE_EMPTY: bool = true;

    fn form(&self, _target: Target) -> Option<u8> {
        Some(value_type::TOP_K)
    }

    fn write(&self, _form: u8, encoder: &mut Encoder<'_>, out: &mut Vec<u8>, spill: Spill<'_>) {
        put_unsigned(self.k().into(), out);
        put_unsigned(self.width().into(), out);
        put_unsigned(self.depth().into(), out);
        put_double(self.decay(), out);
        let append = |from, to, out: &mut Vec<u8>| self.append_bytes(from, to, out);
        encoder.module_pages(self.byte_len(), append, out, spill);
        let mut heap = Vec::with_capacity(self.k() as usize * PLACE_BYTES);
        for (number, item) in self.places().enumerate() {
            let state = if number == 0 { self.chance_state() } else { 0 };
            put_place(item, state, &mut heap);
        }
        encoder.module_string(&heap, out);
        let mut text = Vec::new();
        for item in self.places() {
            text.clear();
            text.extend_from_slice(item.map_or(&[], |item| item.item));
            text.push(0);
            encoder.module_string(&text, out);
            spill(out);
        }
    }

    fn read<R: Read>(source: &mut Source<R>, _form: u8, _limits: &EncodingLimits) -> Result<Self, LoadError> {
        let offset = source.offset();
        let sides = [read_unsigned(source)?, read_unsigned(source)?, read_unsigned(source)?];
        let decay = read_double(source)?;
        let [Ok(k), Ok(width), Ok(depth)] = sides.map(u32::try_from) else {
            return source.error(offset, UNSOUND);
        };
        // The heap is not made before as many bytes of it were read.
        let buckets = read_string(source)?.to_vec();
        let heap = read_string(source)?.to_vec();
        if heap.len() as u64 != u64::from(k) * PLACE_BYTES as u64 {
            return source.error(offset, UNSOUND);
        }
        let Some(mut sketch) = TopK::from_parts(k, width, depth, decay, &buckets) else {
            return source.error(offset, UNSOUND);
        };
        drop(buckets);
        for (number, place) in heap.as_chunks::<PLACE_BYTES>().0.iter().enumerate() {
            let [_, _, low, high, count, _] = words_of(place);
            if number == 0 {
                sketch.set_chance_state(u64::from(high) << 32 | u64::from(low));
            }
            match read_string(source)? {
                // The module does not tell an empty item from none; here it has a count.
                [0] if count == 0 => {}
                [item @ .., 0] => sketch.set_item(number as u32, item, count),
                _ => return source.error(offset, UNSOUND),
            }
        }
        Ok(sketch)
    }

    fn rebuild<W: Write>(&self, key: &[u8], to: &mut Rebuilder<W>) -> Result<(), String> {
        to.restore(key, ValueRef::TopK(self))
    }

    fn digest(&self, _digest: &mut Mixer) {
        // The module mixes nothing in.
    }
}

fn put_place(item: Option<TopItem<'_>>, state: u64, heap: &mut Vec<u8>) {
    let (fingerprint, len, count) =
        item.map_or((0, 0, 0), |item| (item.fingerprint, item.item.len() as u32, item.count));
    heap.extend_from_slice(&fingerprint.to_le_bytes());
    heap.extend_from_slice(&len.to_le_bytes());
    heap.extend_from_slice(&state.to_le_bytes());
    heap.extend_from_slice(&u64::from(count).to_le_bytes());
}

fn words_of(place: &[u8; PLACE_BYTES]) -> [u32; 6] {
    let mut words = [0; 6];
    for (word, bytes) in words.iter_mut().zip(place.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    words
}

#[cfg(test)]
impl super::tests::Sample for TopK {
    fn with_elements(count: usize) -> Self {
        let mut sketch = TopK::new(count as u32, 1000, 5, 0.9).expect("a small sketch");
        (0..count).for_each(|number| _ = sketch.add(&super::tests::element(number), 1));
        sketch
    }

    fn disturb(&mut self) {
        self.add(b"disturbed", 1000);
    }
}
