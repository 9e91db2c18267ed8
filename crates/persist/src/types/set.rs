//! Sets.

use super::Codec;
use super::reading::{TYPICAL_ELEMENTS, believable, damage, unpack};
use crate::aof::Rebuilder;
use crate::digest::Mixer;
use crate::format::{put_length, value_type};
use crate::load::{Input, Stop, skip_length, skip_string, skip_strings};
use crate::packed::{Damage, intset};
use crate::source::{LoadError, Source};
use crate::write::{Encoder, Spill, Target, offer};
use mantissa_number::INTEGER_TEXT_MAX;
use mantissa_store::listpack::Listpack;
use mantissa_store::{EncodingLimits, Set};
use std::io::{Read, Write};

const DUPLICATE: Damage = Damage { at: 0, reason: "set has a member twice" };

impl Codec for Set {
    const FORMS: &'static [u8] = &[value_type::SET, value_type::SET_INTSET, value_type::SET_LISTPACK];
    const DIGEST_NUMBER: u32 = 2;
    const MAY_BE_EMPTY: bool = false;

    fn form(&self, target: Target) -> Option<u8> {
        Some(match self.encoding() {
            "intset" => value_type::SET_INTSET,
            "listpack" if target == Target::File => value_type::SET_LISTPACK,
            _ => value_type::SET,
        })
    }

    fn write(&self, form: u8, encoder: &mut Encoder<'_>, out: &mut Vec<u8>, spill: Spill<'_>) {
        match form {
            value_type::SET_INTSET => {
                let intset = intset_of(self.iter().filter_map(|member| member.integer()).collect());
                encoder.string(&intset, out);
            }
            value_type::SET_LISTPACK => {
                let mut listpack = Listpack::new();
                listpack.extend(self.iter());
                encoder.string(listpack.as_bytes(), out);
            }
            _ => {
                put_length(self.len() as u64, out);
                for (index, member) in self.iter().enumerate() {
                    encoder.element(member, out);
                    if !offer(index, out, spill) {
                        break;
                    }
                }
            }
        }
    }

    fn write_owned(self, form: u8, encoder: &mut Encoder<'_>, out: &mut Vec<u8>, spill: Spill<'_>) {
        if form != value_type::SET {
            return self.write(form, encoder, out, spill);
        }
        let mut index = 0;
        put_length(self.len() as u64, out);
        self.into_each(&mut |member| {
            encoder.element(member, out);
            offer(index, out, spill);
            index += 1;
        });
    }

    fn read<R: Read>(source: &mut Source<R>, form: u8, limits: &EncodingLimits) -> Result<Self, LoadError> {
        let mut set = Set::new();
        match form {
            value_type::SET_LISTPACK => unpack(source, |bytes| {
                set = Set::from_listpack(bytes, limits).map_err(damage)?;
                Ok(())
            })?,
            value_type::SET_INTSET => unpack(source, |bytes| {
                let integers = intset::integers(bytes)?;
                let mut rising = Vec::with_capacity(integers.left());
                for integer in integers {
                    rising.push(integer?);
                }
                set = Set::from_rising(&rising, limits);
                Ok(())
            })?,
            _ => {
                let count = source.length()?;
                let start = source.offset();
                // What becomes a table need not be looked through for each member before.
                let as_table = EncodingLimits { set_listpack_entries_max: 0, ..*limits };
                let limits = if count > limits.set_listpack_entries_max as u64 { &as_table } else { limits };
                for index in 0..count {
                    if index == TYPICAL_ELEMENTS {
                        set.prepare(believable(source, start, count));
                    }
                    unpack(source, |member| add_member(&mut set, member, limits))?;
                }
            }
        }
        Ok(set)
    }

    fn skip(input: &mut impl Input, form: u8) -> Result<(), Stop> {
        if form != value_type::SET {
            return skip_string(input);
        }
        let count = skip_length(input)?;
        skip_strings(input, count)
    }

    fn rebuild<W: Write>(&self, key: &[u8], to: &mut Rebuilder<W>) -> Result<(), String> {
        let mut add = to.gather(&[b"SADD", key], 1);
        self.iter().try_for_each(|member| add.add([member.to_vec()]))?;
        add.end()
    }

    fn digest(&self, digest: &mut Mixer) {
        self.iter().for_each(|member| digest.add(member.text(&mut [0; INTEGER_TEXT_MAX])));
    }
}

fn add_member(set: &mut Set, member: &[u8], limits: &EncodingLimits) -> Result<(), Damage> {
    set.add(member, limits).then_some(()).ok_or(DUPLICATE)
}

/// An intset of the least width that holds all integers.
fn intset_of(mut integers: Vec<i64>) -> Vec<u8> {
    integers.sort_unstable();
    let fits = |low: i64, high: i64| integers.iter().all(|integer| (low..=high).contains(integer));
    let width = if fits(i64::from(i16::MIN), i64::from(i16::MAX)) {
        2
    } else if fits(i64::from(i32::MIN), i64::from(i32::MAX)) {
        4
    } else {
        8
    };
    let mut intset = Vec::with_capacity(8 + width * integers.len());
    intset.extend_from_slice(&(width as u32).to_le_bytes());
    intset.extend_from_slice(&(integers.len() as u32).to_le_bytes());
    integers.iter().for_each(|integer| intset.extend_from_slice(&integer.to_le_bytes()[..width]));
    intset
}

#[cfg(test)]
impl super::tests::Sample for Set {
    fn with_elements(count: usize) -> Self {
        let mut value = Set::new();
        (0..count)
            .for_each(|number| _ = value.add(&super::tests::element(number), &EncodingLimits::default()));
        value
    }

    fn disturb(&mut self) {
        self.remove(&super::tests::element(0));
    }
}
