//! Sorted sets. The counted form goes from the highest score to the lowest, which lets a reader insert at
//! one end.

use super::Codec;
use super::reading::{each_pair, refused, unpack};
use crate::aof::Rebuilder;
use crate::digest::Mixer;
use crate::format::{put_length, value_type};
use crate::load::{Input, Stop, skip_each, skip_string};
use crate::packed::{Damage, Packing};
use crate::source::{LoadError, Source};
use crate::write::{Encoder, Spill, Target, offer};
use mantissa_number::{parse_f64, write_score, write_score_digits};
use mantissa_store::listpack::{Appender, Element, Listpack};
use mantissa_store::{EncodingLimits, SortedSet, SortedSetBuilder};
use std::io::{Read, Write};

const DUPLICATE: Damage = Damage { at: 0, reason: "sorted set has a member twice" };
const NOT_A_NUMBER: Damage = Damage { at: 0, reason: "sorted set has a score that is no number" };

impl Codec for SortedSet {
    const FORMS: &'static [u8] =
        &[value_type::ZSET, value_type::ZSET_2, value_type::ZSET_ZIPLIST, value_type::ZSET_LISTPACK];
    const DIGEST_NUMBER: u32 = 3;
    const MAY_BE_EMPTY: bool = false;

    fn form(&self, _target: Target) -> Option<u8> {
        let is_packed = self.encoding() == "listpack";
        Some(if is_packed { value_type::ZSET_LISTPACK } else { value_type::ZSET_2 })
    }

    fn write(&self, form: u8, encoder: &mut Encoder<'_>, out: &mut Vec<u8>, spill: Spill<'_>) {
        if form == value_type::ZSET_LISTPACK {
            let mut listpack = Listpack::new();
            let mut text = Vec::new();
            listpack.append_all(|out| {
                for (member, score) in self.iter() {
                    out.text(member);
                    append_score(score, &mut text, out);
                }
            });
            return encoder.string(listpack.as_bytes(), out);
        }
        put_length(self.len() as u64, out);
        for (index, (member, score)) in self.iter().rev().enumerate() {
            write_scored(member, score, encoder, out);
            if !offer(index, out, spill) {
                break;
            }
        }
    }

    fn write_owned(self, form: u8, encoder: &mut Encoder<'_>, out: &mut Vec<u8>, spill: Spill<'_>) {
        if form == value_type::ZSET_LISTPACK {
            return self.write(form, encoder, out, spill);
        }
        let mut index = 0;
        put_length(self.len() as u64, out);
        self.into_each_reversed(&mut |member, score| {
            write_scored(member, score, encoder, out);
            offer(index, out, spill);
            index += 1;
        });
    }

    fn read<R: Read>(source: &mut Source<R>, form: u8, limits: &EncodingLimits) -> Result<Self, LoadError> {
        // What is packed already stays so unless it has too many elements, however long they are.
        let packed = EncodingLimits { sorted_set_value_bytes_max: usize::MAX, ..*limits };
        let is_packed = matches!(form, value_type::ZSET_ZIPLIST | value_type::ZSET_LISTPACK);
        let limits = if is_packed { &packed } else { limits };
        let packing = match form {
            value_type::ZSET_LISTPACK => Packing::Listpack,
            value_type::ZSET_ZIPLIST => Packing::Ziplist,
            _ => return read_counted(source, form, limits),
        };
        let mut set = SortedSet::new();
        unpack(source, |bytes| {
            let mut builder = SortedSetBuilder::with_capacity(PACKED_MEMBERS, bytes.len());
            each_pair(bytes, packing, |member, score| {
                let score = match score {
                    Element::Integer(score) => Some(score as f64),
                    Element::Bytes(text) => parse_f64(text).filter(|score| !score.is_nan()),
                };
                builder.member(member);
                builder.score(score.ok_or(NOT_A_NUMBER)?);
                Ok(())
            })?;
            set = builder.finish(limits).ok_or(DUPLICATE)?;
            Ok(())
        })?;
        Ok(set)
    }

    fn skip(input: &mut impl Input, form: u8) -> Result<(), Stop> {
        match form {
            value_type::ZSET => skip_each(input, |input| {
                skip_string(input)?;
                match input.array()? {
                    [253..=255] => Ok(()),
                    [length] => input.skip(u64::from(length)),
                }
            }),
            value_type::ZSET_2 => skip_each(input, |input| {
                skip_string(input)?;
                input.skip(8)
            }),
            _ => skip_string(input),
        }
    }

    fn rebuild<W: Write>(&self, key: &[u8], to: &mut Rebuilder<W>) -> Result<(), String> {
        let mut add = to.gather(&[b"ZADD", key], 2);
        for (member, score) in self.iter() {
            let mut text = Vec::new();
            write_score(&mut text, score);
            add.add([text, member.to_vec()])?;
        }
        add.end()
    }

    fn digest(&self, digest: &mut Mixer) {
        let mut text = Vec::new();
        for (member, score) in self.iter() {
            let mut own = Mixer::new();
            own.mix(member);
            text.clear();
            write_score_digits(&mut text, score);
            own.mix(&text);
            digest.add_digest(&own);
        }
    }
}

fn write_scored(member: &[u8], score: f64, encoder: &mut Encoder<'_>, out: &mut Vec<u8>) {
    encoder.string(member, out);
    out.extend_from_slice(&score.to_le_bytes());
}

/// As many members as packed sets have, of the usual size.
const PACKED_MEMBERS: usize = 32;

/// Appends a score as its text, which becomes an integer where it is the text of one.
fn append_score(score: f64, text: &mut Vec<u8>, out: &mut Appender<'_>) {
    /// Below this an integer is printed as one.
    const INTEGER_MAX: f64 = 1e15;
    let integer = score as i64;
    // Not the negative zero, of which the text is that of no integer.
    if score.abs() < INTEGER_MAX && (integer as f64).to_bits() == score.to_bits() {
        return out.integer(integer);
    }
    text.clear();
    write_score(text, score);
    // A text with a point, an exponent or letters is no integer's.
    if score.abs() < INTEGER_MAX && score.fract() != 0.0 { out.other_text(text) } else { out.text(text) }
}

/// A sorted set as a count and that many members with their scores, which files have in order.
fn read_counted<R: Read>(
    source: &mut Source<R>,
    form: u8,
    limits: &EncodingLimits,
) -> Result<SortedSet, LoadError> {
    let start = source.offset();
    let count = source.length()?;
    let mut builder = SortedSetBuilder::new();
    for _ in 0..count {
        let offset = source.offset();
        builder.member(source.string()?);
        let score = if form == value_type::ZSET { source.text_double()? } else { source.double()? };
        if score.is_nan() {
            return refused(source, offset, Err(NOT_A_NUMBER)).map(|()| SortedSet::new());
        }
        builder.score(score);
    }
    match builder.finish(limits) {
        Some(set) => Ok(set),
        None => refused(source, start, Err(DUPLICATE)).map(|()| SortedSet::new()),
    }
}

#[cfg(test)]
impl super::tests::Sample for SortedSet {
    fn with_elements(count: usize) -> Self {
        let mut value = SortedSet::new();
        (0..count).for_each(|number| {
            value.insert(&super::tests::element(number), number as f64, &EncodingLimits::default());
        });
        value
    }

    fn disturb(&mut self) {
        self.remove(&super::tests::element(0));
    }
}
