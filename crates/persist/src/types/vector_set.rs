//! Vector sets as files hold them, between the frame of a module's type.
//!
//! ```text
//! dimension, count, quantization | M << 8, flags
//! [ input dimension, matrix (string of binary32) ]                                  flag 1: a projection
//! elements: name, [ attribute ], vector (string), parameter count, parameters       flag 2: attributes
//!
//! parameters, unsigned:
//! uid, level | version 1 << 24
//! for each level from 0 on: link count, capacity, uids of neighbours, worst link (distance << 32 | index)
//! length | range << 32, both as bits of a binary32
//! ```
//!
//! A vector lies there as in memory: binary32, bytes, or words of 64 bits, little-endian. The worst link is
//! what redis-server keeps to decide which link a new one may replace; it is computed here.

use super::Codec;
use super::module::{put_unsigned, read_string, read_unsigned};
use crate::aof::Rebuilder;
use crate::digest::Mixer;
use crate::format::{Checksum, VERSION, value_type};
use crate::lzf;
use crate::source::{LoadError, Source};
use crate::write::{Encoder, Spill, Target, WriteOptions, offer};
use mantissa_store::vector_set::{
    DIMENSION_MAX, LINKS_MAX, LINKS_MIN, LoadedElement, Projection, Quantization, VectorSet,
    VectorSetBuilder, VectorSetOptions,
};
use mantissa_store::{EncodingLimits, ValueRef};
use std::io::{Read, Write};
use std::sync::Arc;

const HAS_PROJECTION: u64 = 1;
const HAS_ATTRIBUTES: u64 = 2;
/// In the second parameter of an element, above its level.
const PARAMETERS_VERSION: u64 = 1 << 24;
/// No element takes fewer bytes: three opcodes with lengths, and six parameters.
const ELEMENT_BYTES_MIN: u64 = 16;
/// The most parameters that an element can have: sixteen levels of links.
const PARAMETERS_MAX: u64 = 3 + 16 * (3 + 2 * LINKS_MAX as u64);

fn number_of(quantization: Quantization) -> u64 {
    match quantization {
        Quantization::None => 0,
        Quantization::Q8 => 1,
        Quantization::Binary => 2,
    }
}

impl Codec for VectorSet {
    const FORMS: &'static [u8] = &[value_type::VECTOR_SET];
    const DIGEST_NUMBER: u32 = 5;
    const MAY_BE_EMPTY: bool = false;

    fn form(&self, _: Target) -> Option<u8> {
        Some(value_type::VECTOR_SET)
    }

    fn write(&self, _: u8, encoder: &mut Encoder<'_>, out: &mut Vec<u8>, spill: Spill<'_>) {
        put_unsigned(u64::from(self.dimension()), out);
        put_unsigned(self.len() as u64, out);
        put_unsigned(number_of(self.quantization()) | u64::from(self.links_max()) << 8, out);
        let has_attributes = self.attribute_count() > 0;
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let flags = flag(self.projection().is_some(), HAS_PROJECTION) | flag(has_attributes, HAS_ATTRIBUTES);
        put_unsigned(flags, out);
        let mut bytes = Vec::new();
        if let Some(projection) = self.projection() {
            put_unsigned(u64::from(projection.input()), out);
            projection.put_bytes(&mut bytes);
            encoder.module_string(&bytes, out);
        }
        for (index, element) in self.elements().enumerate() {
            encoder.module_string(self.name(element), out);
            if has_attributes {
                encoder.module_string(self.attribute(element), out);
            }
            bytes.clear();
            self.put_vector_bytes(element, &mut bytes);
            encoder.module_string(&bytes, out);
            write_parameters(self, element, out);
            offer(index, out, spill);
        }
    }

    fn read<R: Read>(source: &mut Source<R>, _: u8, _: &EncodingLimits) -> Result<Self, LoadError> {
        let offset = source.offset();
        let dimension = read_unsigned(source)?;
        let count = read_unsigned(source)?;
        let config = read_unsigned(source)?;
        let flags = read_unsigned(source)?;
        let quantization = match config & 0xff {
            0 => Quantization::None,
            1 => Quantization::Q8,
            2 => Quantization::Binary,
            _ => return source.error(offset, "vector set: unknown quantization"),
        };
        let links = (config >> 8) & 0xffff;
        if !(1..=u64::from(DIMENSION_MAX)).contains(&dimension)
            || !(u64::from(LINKS_MIN)..=u64::from(LINKS_MAX)).contains(&links)
            || flags > (HAS_PROJECTION | HAS_ATTRIBUTES)
        {
            return source.error(offset, "vector set: a parameter out of range");
        }
        // Memory is taken for as many elements as links name, up to this count.
        let vector_bytes = match quantization {
            Quantization::None => 4 * dimension,
            Quantization::Q8 => dimension,
            Quantization::Binary => dimension / 8,
        };
        let element_bytes = ELEMENT_BYTES_MIN + vector_bytes / lzf::EXPANSION_MAX as u64;
        if source.left().is_some_and(|left| count > left / element_bytes) {
            return source.error(offset, "vector set: more elements than there is room for");
        }
        let dimension = dimension as u32;
        let projection = if flags & HAS_PROJECTION != 0 { read_projection(source, dimension)? } else { None };
        let options = VectorSetOptions { dimension, quantization, links: links as u32, projection };
        let mut builder = VectorSetBuilder::new(options, count);
        let mut scratch = ElementScratch::default();
        for _ in 0..count {
            read_element(source, flags & HAS_ATTRIBUTES != 0, &mut scratch, &mut builder)?;
        }
        builder.finish().or_else(|error| source.error(offset, error.to_string()))
    }

    fn rebuild<W: Write>(&self, key: &[u8], to: &mut Rebuilder<W>) -> Result<(), String> {
        // Added one by one they would be searched for again, and quantized a second time.
        let mut payload = Vec::new();
        Encoder::new(WriteOptions::default(), None).typed_value(ValueRef::VectorSet(self), &mut payload);
        payload.extend_from_slice(&VERSION.to_le_bytes());
        let checksum = Checksum::of(&payload);
        payload.extend_from_slice(&checksum.to_le_bytes());
        to.command(&[b"RESTORE", key, b"0", &payload])
    }

    fn digest(&self, digest: &mut Mixer) {
        let mut all = Mixer::new();
        let mut head = Mixer::new();
        head.mix(self.len().to_string().as_bytes());
        head.mix(self.dimension().to_string().as_bytes());
        all.add_digest(&head);
        let mut bytes = Vec::new();
        for element in self.elements() {
            let mut one = Mixer::new();
            bytes.clear();
            self.put_vector_bytes(element, &mut bytes);
            one.mix(&bytes);
            one.mix(self.name(element));
            let attribute = self.attribute(element);
            if !attribute.is_empty() {
                one.mix(attribute);
            }
            all.add_digest(&one);
        }
        digest.add_digest(&all);
    }
}

fn write_parameters(set: &VectorSet, element: u32, out: &mut Vec<u8>) {
    let level = set.level(element);
    let links: usize = (0..=level).map(|level| set.neighbours(element, level).len()).sum();
    put_unsigned((3 + 3 * (usize::from(level) + 1) + links) as u64, out);
    put_unsigned(set.uid(element), out);
    put_unsigned(u64::from(level) | PARAMETERS_VERSION, out);
    for level in 0..=level {
        let neighbours = set.neighbours(element, level);
        put_unsigned(neighbours.len() as u64, out);
        put_unsigned(set.link_capacity(level) as u64, out);
        let mut worst = (0.0, 0);
        for (index, neighbour) in neighbours.enumerate() {
            put_unsigned(set.uid(neighbour.element), out);
            if neighbour.distance > worst.0 {
                worst = (neighbour.distance, index as u64);
            }
        }
        put_unsigned(u64::from(worst.0.to_bits()) << 32 | worst.1, out);
    }
    let (range, length) = set.range_and_length(element);
    put_unsigned(u64::from(range.to_bits()) << 32 | u64::from(length.to_bits()), out);
}

fn read_projection<R: Read>(
    source: &mut Source<R>,
    dimension: u32,
) -> Result<Option<Arc<Projection>>, LoadError> {
    let offset = source.offset();
    let input = read_unsigned(source)?;
    let bytes = read_string(source)?;
    let projection = u32::try_from(input).ok();
    match projection.and_then(|input| Projection::from_bytes(input, dimension, bytes)) {
        Some(projection) => Ok(Some(Arc::new(projection))),
        None => source.error(offset, "vector set: the projection has the wrong size"),
    }
}

/// Memory that is used for one element after the other.
#[derive(Default)]
struct ElementScratch {
    name: Vec<u8>,
    attribute: Vec<u8>,
    vector: Vec<u8>,
    links: Vec<Vec<u64>>,
}

fn read_into<R: Read>(source: &mut Source<R>, text: &mut Vec<u8>) -> Result<(), LoadError> {
    text.clear();
    text.extend_from_slice(read_string(source)?);
    Ok(())
}

fn read_element<R: Read>(
    source: &mut Source<R>,
    has_attribute: bool,
    scratch: &mut ElementScratch,
    builder: &mut VectorSetBuilder,
) -> Result<(), LoadError> {
    let offset = source.offset();
    read_into(source, &mut scratch.name)?;
    if has_attribute {
        read_into(source, &mut scratch.attribute)?;
    }
    read_into(source, &mut scratch.vector)?;
    let mut left = read_unsigned(source)?;
    if !(3..=PARAMETERS_MAX).contains(&left) {
        return source.error(offset, "vector set: an element with a wrong number of parameters");
    }
    let mut next = |source: &mut Source<R>| {
        left = left.checked_sub(1).map_or_else(|| source.error(offset, "vector set: parameters end"), Ok)?;
        read_unsigned(source)
    };
    let uid = next(source)?;
    let level = next(source)? & (PARAMETERS_VERSION - 1);
    if level > 15 {
        return source.error(offset, "vector set: a level out of range");
    }
    scratch.links.truncate(level as usize + 1);
    scratch.links.resize(level as usize + 1, Vec::new());
    for links in &mut scratch.links {
        links.clear();
        let count = next(source)?;
        next(source)?;
        for _ in 0..count {
            links.push(next(source)?);
        }
        next(source)?;
    }
    let last = next(source)?;
    if left != 0 {
        return source.error(offset, "vector set: an element with too many parameters");
    }
    let (length, range) = (f32::from_bits(last as u32), f32::from_bits((last >> 32) as u32));
    let ElementScratch { name, attribute, vector, links } = scratch;
    let element = LoadedElement { name, attribute, vector, range, length, uid, links };
    builder.push(element).or_else(|error| source.error(offset, error.to_string()))
}

#[cfg(test)]
impl super::tests::Sample for VectorSet {
    fn with_elements(count: usize) -> Self {
        let projection = Some(Arc::new(Projection::new(5, 3)));
        let (quantization, links) = (Quantization::Q8, LINKS_MIN);
        let mut set = VectorSet::new(VectorSetOptions { dimension: 3, quantization, links, projection });
        // Each is searched for; a few thousand fill many blocks.
        for number in 0..count.min(2000) {
            let vector = [number, number / 7, number / 99].map(|number| (number % 50) as f32 - 20.0);
            set.set(&super::tests::element(number), &set.target(vector.to_vec()), 4);
        }
        if let Some(first) = set.at_rank(0) {
            set.set_attribute(first, b"{}");
        }
        set
    }

    fn disturb(&mut self) {
        self.set(b"another", &self.target(vec![1.0, 2.0, 3.0]), 4);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Sample, element};
    use super::*;
    use crate::load::LoadOptions;
    use crate::payload::{RestoreError, dump_value, restore_value};
    use mantissa_store::Value;

    /// Of redis-server 8.2.3: two elements of three numbers, one with an attribute.
    const PAYLOAD: &[u8] = b"\
        \x07\x81\xbd\xe7-\xa2\xbb\x1e\xb4\x00\x02\x03\x02\x02\x02P\x01\x02\x02\x05\x01q\x05\x00\x05\
        \x03\xd6U\x81\x02\x07\x02\x07\x02\x80\x01\x00\x00\x00\x02\x01\x02 \x02\x06\x02\x00\x02\x81?M\
        A\xb2@owQ\x05\x01a\x05\x07{\"y\":1}\x05\x03\xd6U\x81\x02\x07\x02\x06\x02\x80\x01\x00\x00\x00\
        \x02\x01\x02 \x02\x07\x02\x00\x02\x81?MA\xb2@owQ\x00\x0c\x00\x0e\xca\xe8\x9a\xb7n\xb5x";

    #[test]
    fn a_payload_of_redis_server_is_read_and_written_again() {
        let Ok(Value::VectorSet(set)) = restore_value(PAYLOAD, &LoadOptions::default()) else {
            panic!("it is a vector set");
        };
        let element = set.find(b"a").expect("it is there");
        assert_eq!((set.len(), set.attribute(element), set.uid(element)), (2, &b"{\"y\":1}"[..], 6));
        assert_eq!(set.range_and_length(element), (0.801_783_7, 14f32.sqrt()));
        assert_eq!(set.neighbours(element, 0).map(|near| set.name(near.element)).collect::<Vec<_>>(), [b"q"]);
        assert_eq!(dump_value(ValueRef::VectorSet(&set), &WriteOptions::default()), PAYLOAD);
    }

    #[test]
    fn every_change_of_a_byte_is_refused_or_another_set() {
        let payload =
            dump_value(ValueRef::VectorSet(&VectorSet::with_elements(12)), &WriteOptions::default());
        let mut loads = 0;
        for at in 0..payload.len() - 10 {
            for change in [1, 2, 0x40, 0x80, 0xff] {
                let mut changed = payload.clone();
                changed[at] ^= change;
                let end = changed.len() - 8;
                let checksum = crate::format::Checksum::of(&changed[..end]);
                changed[end..].copy_from_slice(&checksum.to_le_bytes());
                match restore_value(&changed, &LoadOptions::default()) {
                    Ok(Value::VectorSet(set)) => {
                        loads += 1;
                        let near = set.at_rank(0).map(|first| set.target(set.vector(first)));
                        assert!(near.is_some_and(|target| set.search_all(&target, 3, |_| true).len() == 3));
                    }
                    other => assert_eq!(other.err(), Some(RestoreError::BadFormat)),
                }
            }
        }
        assert!(loads > 100 && element(0) == b"element 0");
    }
}
