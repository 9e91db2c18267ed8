//! Arrays, as Redis has them from 8.8 on, in files of version 14:
//!
//! ```text
//! count | 0, or 1 and the last index that was inserted at | count elements
//! element   index | 0 | a text                     any length
//!                 | 1 | an integer (8 bytes LE)    62 bits
//!                 | 2 | a double (8 bytes LE)      its lowest two bits are zeros
//!                 | 3 | a text                     up to 7 bytes
//! ```
//!
//! Numbers without a size are lengths. Elements are written in the order of their indexes, and read in any.

use super::Codec;
use crate::aof::Rebuilder;
use crate::digest::Mixer;
use crate::format::{put_length, value_type};
use crate::load::{Input, Stop, skip_length, skip_string};
use crate::source::{LoadError, Source};
use crate::write::{Encoder, Spill, Target, offer};
use mantissa_number::{INTEGER_TEXT_MAX, format_i64, format_u64};
use mantissa_store::EncodingLimits;
use mantissa_store::array::{Array, ELEMENT_TEXT_MAX, Element, INDEX_END};
use std::io::{Read, Write};

const TEXT: u64 = 0;
const INTEGER: u64 = 1;
const DOUBLE: u64 = 2;
const SHORT_TEXT: u64 = 3;
/// Bytes of a number.
const NUMBER_BYTES: u64 = 8;

impl Codec for Array {
    const FORMS: &'static [u8] = &[value_type::ARRAY];
    const DIGEST_NUMBER: u32 = 7;
    const MAY_BE_EMPTY: bool = false;

    fn form(&self, target: Target) -> Option<u8> {
        match target {
            Target::File | Target::Replica => Some(value_type::ARRAY),
            Target::Valkey | Target::ValkeyBefore9 => None,
        }
    }

    fn write(&self, _form: u8, encoder: &mut Encoder<'_>, out: &mut Vec<u8>, spill: Spill<'_>) {
        begin(self, out);
        let mut place = 0;
        self.visit(0, INDEX_END, |index, element| {
            write_element(index, element, encoder, out);
            place += 1;
            offer(place - 1, out, spill)
        });
    }

    fn write_owned(self, _form: u8, encoder: &mut Encoder<'_>, out: &mut Vec<u8>, spill: Spill<'_>) {
        begin(&self, out);
        let mut place = 0;
        self.into_each(&mut |index, element| {
            write_element(index, element, encoder, out);
            offer(place, out, spill);
            place += 1;
        });
    }

    fn read<R: Read>(source: &mut Source<R>, _form: u8, _limits: &EncodingLimits) -> Result<Self, LoadError> {
        let mut array = Array::new();
        let (offset, count) = (source.offset(), source.length()?);
        let cursor = match source.length()? {
            0 => None,
            1 => Some(source.length()?),
            _ => return source.error(offset, "array that neither has nor lacks a place to insert at"),
        };
        if cursor == Some(INDEX_END) {
            return source.error(offset, "array with an impossible place to insert at");
        }
        for _ in 0..count {
            let (offset, index) = (source.offset(), source.length()?);
            if index == INDEX_END {
                return source.error(offset, "array with an impossible index");
            }
            let is_new = match source.length()? {
                TEXT | SHORT_TEXT => array.set(index, Element::of_bytes(source.string()?)),
                INTEGER => set_integer(&mut array, index, i64::from_le_bytes(source.array()?)),
                DOUBLE => array.set(index, Element::of_double(f64::from_le_bytes(source.array()?))),
                other => {
                    return source.error(offset, format!("array with an element of an unknown kind {other}"));
                }
            };
            if !is_new {
                return source.error(offset, "array that has an index twice");
            }
        }
        array.set_cursor(cursor);
        Ok(array)
    }

    fn skip(input: &mut impl Input, _form: u8) -> Result<(), Stop> {
        let count = skip_length(input)?;
        if skip_length(input)? != 0 {
            skip_length(input)?;
        }
        for _ in 0..count {
            skip_length(input)?;
            match skip_length(input)? {
                INTEGER | DOUBLE => input.skip(NUMBER_BYTES)?,
                TEXT | SHORT_TEXT => skip_string(input)?,
                _ => return Err(Stop::Unknown),
            }
        }
        Ok(())
    }

    fn rebuild<W: Write>(&self, key: &[u8], to: &mut Rebuilder<W>) -> Result<(), String> {
        let mut set = to.gather(&[b"ARMSET", key], 2);
        let mut outcome = Ok(());
        self.visit(0, INDEX_END, |index, element| {
            outcome = set.add([decimal(index), element.text(&mut [0; ELEMENT_TEXT_MAX]).to_vec()]);
            outcome.is_ok()
        });
        outcome?;
        set.end()?;
        match self.cursor() {
            Some(cursor) => {
                let words: [&[u8]; 3] = [b"ARSEEK", key, &decimal(cursor + 1)];
                to.command(&words)
            }
            None => Ok(()),
        }
    }

    fn digest(&self, digest: &mut Mixer) {
        self.visit(0, INDEX_END, |index, element| {
            digest.mix(&decimal(index));
            digest.mix(element.text(&mut [0; ELEMENT_TEXT_MAX]));
            true
        });
        if let Some(cursor) = self.cursor() {
            digest.mix(&decimal(cursor));
        }
    }
}

fn decimal(index: u64) -> Vec<u8> {
    format_u64(&mut [0; INTEGER_TEXT_MAX], index).to_vec()
}

/// Puts an integer, which may have more bits than an element of its own, at an index. Whether there was none.
fn set_integer(array: &mut Array, index: u64, integer: i64) -> bool {
    let mut digits = [0; INTEGER_TEXT_MAX];
    let element = Element::of_integer(integer);
    array.set(index, element.unwrap_or_else(|| Element::of_bytes(format_i64(&mut digits, integer))))
}

/// Appends what comes before the elements.
fn begin(array: &Array, out: &mut Vec<u8>) {
    put_length(array.count(), out);
    put_length(u64::from(array.cursor().is_some()), out);
    if let Some(cursor) = array.cursor() {
        put_length(cursor, out);
    }
}

fn write_element(index: u64, element: Element<'_>, encoder: &mut Encoder<'_>, out: &mut Vec<u8>) {
    put_length(index, out);
    match element {
        Element::Integer(integer) => {
            put_length(INTEGER, out);
            out.extend_from_slice(&integer.to_le_bytes());
        }
        Element::Double(double) => {
            put_length(DOUBLE, out);
            out.extend_from_slice(&double.to_le_bytes());
        }
        Element::Short(text) => {
            put_length(SHORT_TEXT, out);
            encoder.string(text.as_bytes(), out);
        }
        Element::Text(text) => {
            put_length(TEXT, out);
            encoder.string(text, out);
        }
    }
}

#[cfg(test)]
impl super::tests::Sample for Array {
    fn with_elements(count: usize) -> Self {
        let mut array = Array::new();
        for number in 0..count {
            let text = super::tests::element(number);
            let number_text = number.to_string();
            let text = if number % 3 == 1 { number_text.as_bytes() } else { &text };
            array.set(number as u64 * 5, Element::of(text));
        }
        array.set_cursor(count.is_multiple_of(2).then_some(count as u64));
        array
    }

    fn disturb(&mut self) {
        self.set(0, Element::of(b"disturbed"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Checksum;
    use crate::load::LoadOptions;
    use crate::payload::{RestoreError, dump_value, restore_value};
    use crate::write::WriteOptions;
    use mantissa_store::{Value, ValueRef};

    fn restored(body: &[u8]) -> Result<Array, RestoreError> {
        let mut payload = [body, &14u16.to_le_bytes()].concat();
        payload.extend_from_slice(&Checksum::of(&payload).to_le_bytes());
        restore_value(&payload, &LoadOptions::default()).map(|value| match value {
            Value::Array(array) => array,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn a_payload_is_what_redis_writes() {
        let mut array = Array::new();
        let elements: [(u64, &str); 5] =
            [(0, "-5"), (70, "0.5"), (20_000, "short"), (1 << 40, "a longer text"), (INDEX_END - 1, "")];
        for (index, text) in elements {
            array.set(index, Element::of(text.as_bytes()));
        }
        array.set_cursor(Some(3));
        let mut body = vec![28, 5, 1, 3];
        body.extend_from_slice(&[0, 1, 0xfb, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
        body.extend_from_slice(&[0x40, 70, 2, 0, 0, 0, 0, 0, 0, 0xe0, 0x3f]);
        body.extend_from_slice(&[0x80, 0, 0, 0x4e, 0x20, 3, 5]);
        body.extend_from_slice(b"short");
        body.extend_from_slice(&[0x81, 0, 0, 1, 0, 0, 0, 0, 0, 0, 13]);
        body.extend_from_slice(b"a longer text");
        body.extend_from_slice(&[0x81, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe, 3, 0]);
        let payload = dump_value(ValueRef::Array(&array), &WriteOptions::default());
        assert_eq!(payload[..payload.len() - 10], body);
        assert_eq!(payload[payload.len() - 10..][..2], [14, 0]);
        let back = restored(&body).expect("it is sound");
        assert_eq!(format!("{back:?} {:?}", back.cursor()), format!("{array:?} {:?}", array.cursor()));
        for len in 1..body.len() {
            assert_eq!(restored(&body[..len]).err(), Some(RestoreError::BadFormat), "{len}");
        }
    }

    #[test]
    fn what_can_not_be_is_refused() {
        let end = [0x81, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
        let long_integer = [&[28, 1, 0, 9, 1][..], &i64::MAX.to_le_bytes()].concat();
        let array = restored(&long_integer).expect("it is sound");
        assert_eq!(format!("{array:?}"), "{9: \"9223372036854775807\"}");
        let backwards = restored(&[28, 2, 0, 9, 3, 1, b'b', 4, 3, 1, b'a']).expect("the order is free");
        assert_eq!(format!("{backwards:?}"), "{4: \"a\", 9: \"b\"}");
        for body in [
            // No element, more than there are, an index twice, two flags, kinds that are none.
            vec![28, 0, 0],
            vec![28, 2, 0, 9, 3, 1, b'b'],
            vec![28, 2, 0, 9, 3, 1, b'b', 9, 3, 1, b'a'],
            vec![28, 1, 2, 9, 3, 1, b'b'],
            vec![28, 1, 0, 9, 4, 1, b'b'],
            vec![28, 1, 0, 9, 0xc0, 1, b'b'],
            // An index and a place to insert at beyond the last one.
            [&[28, 1, 0][..], &end, &[3, 1, b'a']].concat(),
            [&[28, 1, 1][..], &end, &[0, 3, 1, b'a']].concat(),
            // A count without end.
            [&[28][..], &end, &[0, 0, 3, 1, b'a']].concat(),
        ] {
            assert_eq!(restored(&body).err(), Some(RestoreError::BadFormat), "{body:?}");
        }
    }
}
