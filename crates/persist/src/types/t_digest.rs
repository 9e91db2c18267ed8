//! t-digests, as Redis's module keeps them: compressed first.
//!
//! ```text
//! compression, least, largest     binary64
//! capacity, merged nodes, unmerged nodes (0), compressions
//! weight of merged nodes, weight of unmerged nodes (0)     binary64
//! means, then weights of all merged nodes     binary64
//! ```

use super::Codec;
use super::module::{put_double, put_unsigned, read_double, read_unsigned};
use crate::aof::Rebuilder;
use crate::digest::Mixer;
use crate::format::value_type;
use crate::source::{LoadError, Source};
use crate::write::{Encoder, Spill, Target};
use mantissa_store::{EncodingLimits, TDigest, TDigestNode, TDigestShape, ValueRef};
use std::io::{Read, Write};

/// What is said of a value whose parts do not fit together.
const UNSOUND: &str = "t-digest whose parts do not fit together";
/// Nodes for which there is room before any was read.
const NODES_BELIEVED: u64 = 1 << 12;

impl Codec for TDigest {
    const FORMS: &'static [u8] = &[value_type::T_DIGEST];
    // That of all modules' types.
    const DIGEST_NUMBER: u32 = 5;
    const MAY_BE_EMPTY: bool = true;

    fn form(&self, _target: Target) -> Option<u8> {
        Some(value_type::T_DIGEST)
    }

    fn write(&self, _form: u8, _encoder: &mut Encoder<'_>, out: &mut Vec<u8>, spill: Spill<'_>) {
        let digest = self.compressed();
        let TDigestShape { compression, min, max, compressions } = digest.shape();
        put_double(compression as f64, out);
        put_double(min, out);
        put_double(max, out);
        put_unsigned(digest.capacity() as u64, out);
        put_unsigned(digest.nodes().len() as u64, out);
        put_unsigned(0, out);
        put_unsigned(compressions.cast_unsigned(), out);
        put_double(digest.count() as f64, out);
        put_double(0.0, out);
        for node in digest.nodes() {
            put_double(node.mean, out);
            spill(out);
        }
        for node in digest.nodes() {
            put_double(node.weight as f64, out);
            spill(out);
        }
    }

    fn read<R: Read>(source: &mut Source<R>, _form: u8, _limits: &EncodingLimits) -> Result<Self, LoadError> {
        let offset = source.offset();
        let compression = integer(read_double(source)?);
        let (min, max) = (read_double(source)?, read_double(source)?);
        let (capacity, count) = (read_unsigned(source)?, read_unsigned(source)?);
        let (unmerged, compressions) = (read_unsigned(source)?, read_unsigned(source)?.cast_signed());
        let (merged_weight, unmerged_weight) = (integer(read_double(source)?), read_double(source)?);
        if (count, unmerged, unmerged_weight) == (0, 1, 1.0) {
            return match compression.and_then(|compression| single(compression, min, max)) {
                Some(digest) => Ok(digest),
                None => source.error(offset, UNSOUND),
            };
        }
        let empty = compression.and_then(TDigest::new);
        let is_sound = empty.is_some_and(|empty| empty.capacity() as u64 == capacity)
            && count <= capacity
            && (unmerged, unmerged_weight) == (0, 0.0);
        let (Some(compression), Some(merged_weight), true) = (compression, merged_weight, is_sound) else {
            return source.error(offset, UNSOUND);
        };
        let mut nodes = Vec::with_capacity(count.min(NODES_BELIEVED) as usize);
        for _ in 0..count {
            nodes.push(TDigestNode { mean: read_double(source)?, weight: 0 });
        }
        for node in &mut nodes {
            match integer(read_double(source)?) {
                Some(weight) => node.weight = weight,
                None => return source.error(offset, UNSOUND),
            }
        }
        let shape = TDigestShape { compression, min, max, compressions };
        // Sums are rounded to binary64 there.
        let fits = |digest: &TDigest| digest.count() as f64 == merged_weight as f64;
        match TDigest::from_parts(shape, nodes).filter(fits) {
            Some(digest) => Ok(digest),
            None => source.error(offset, UNSOUND),
        }
    }

    fn rebuild<W: Write>(&self, key: &[u8], to: &mut Rebuilder<W>) -> Result<(), String> {
        to.restore(key, ValueRef::TDigest(self))
    }

    fn digest(&self, _digest: &mut Mixer) {
        // The module mixes nothing in.
    }
}

/// A digest of one number, which the module's file has as the least and the largest alone.
fn single(compression: i64, min: f64, max: f64) -> Option<TDigest> {
    let mut digest = TDigest::new(compression)?;
    let is_one = min.is_finite() && min.to_bits() == max.to_bits();
    is_one.then(|| digest.add(&[min]).ok()).flatten()?;
    Some(digest)
}

/// A number that is an integer, and not negative.
fn integer(number: f64) -> Option<i64> {
    const END: f64 = (1u64 << 63) as f64;
    ((0.0..END).contains(&number) && number.fract() == 0.0).then_some(number as i64)
}

#[cfg(test)]
impl super::tests::Sample for TDigest {
    fn with_elements(count: usize) -> Self {
        let mut digest = TDigest::new(100).expect("a small digest");
        let numbers: Vec<f64> = (0..count).map(|number| (number as f64).sin()).collect();
        digest.add(&numbers).expect("they are few");
        digest
    }

    fn disturb(&mut self) {
        self.add(&[17.5]).expect("it is one");
    }
}
