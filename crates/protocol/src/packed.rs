//! Packed numbers: many numbers in one bulk string, as bytes instead of text. `docs/packed.md` is the format
//! for implementers.
//!
//! ```text
//! | version (u8) = 1 | type (u8) | contents (u8) | 0 (u8) | count (u32) | numbers | names |
//! ```
//!
//! All integers of fixed size are big-endian. Numbers are binary64 or binary32, zigzag varints, or, where
//! they ascend, a zigzag varint and then the differences as varints. Names, where the contents have any, are
//! a varint length and the bytes of each.
//!
//! Writing costs no text: a number goes from where it lies to its place. Reading is safe for any bytes: what
//! it allocates is in proportion to them, whatever the counts say.

mod read;
#[cfg(test)]
mod tests;

use mantissa_number::binary::{encode_f64_be, write_varint, zigzag};
use mantissa_number::{parse_i64, parse_score};

use crate::reply::Reply;

pub use read::{Entry, Malformed, Numbers, Packed};

/// The version of the format, its first byte.
pub const VERSION: u8 = 1;
/// Bytes before the numbers.
pub const HEADER_BYTES: usize = 8;
/// 2^63, the first double above the 64-bit integers.
const INTEGERS_END: f64 = 9_223_372_036_854_775_808.0;
/// Bytes for which room is made for each name beforehand.
const NAME_BYTES_EXPECTED: usize = 12;

/// How numbers are written: the second byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum NumberType {
    /// Big-endian binary64.
    F64 = 1,
    /// Big-endian binary32.
    F32 = 2,
    /// Zigzag varints.
    Varint = 3,
    /// A zigzag varint, then varints of the differences: for integers that ascend.
    Delta = 4,
}

impl NumberType {
    fn of(code: u8) -> Option<NumberType> {
        use NumberType::{Delta, F32, F64, Varint};
        [F64, F32, Varint, Delta].into_iter().find(|number_type| *number_type as u8 == code)
    }
}

/// What there is beside the numbers: the third byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Contents {
    /// Nothing.
    Numbers = 0,
    /// A name for each number: members of a sorted set, fields of a hash.
    Pairs = 1,
    /// Entries of a stream, each with an id and the names of its numbers.
    Entries = 2,
}

impl Contents {
    fn of(code: u8) -> Option<Contents> {
        use Contents::{Entries, Numbers, Pairs};
        [Numbers, Pairs, Entries].into_iter().find(|contents| *contents as u8 == code)
    }
}

/// What a caller asks for: a type, and whether NaN stands for what is no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// How numbers are written.
    pub number_type: NumberType,
    /// Write NaN for what is missing or no number.
    pub fills: bool,
}

impl Form {
    /// The form of a name, whatever its case.
    pub fn parse(name: &[u8]) -> Option<Form> {
        let forms = [
            ("F64", NumberType::F64, false),
            ("F32", NumberType::F32, false),
            ("VARINT", NumberType::Varint, false),
            ("DELTA", NumberType::Delta, false),
            ("F64NAN", NumberType::F64, true),
            ("F32NAN", NumberType::F32, true),
        ];
        let found = forms.into_iter().find(|(form, ..)| name.eq_ignore_ascii_case(form.as_bytes()));
        found.map(|(_, number_type, fills)| Form { number_type, fills })
    }

    /// Whether every double can be written.
    pub fn takes_fractions(self) -> bool {
        matches!(self.number_type, NumberType::F64 | NumberType::F32)
    }
}

/// Why an element cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It is text that is no number.
    NotANumber,
    /// It is not there.
    Missing,
    /// It is no 64-bit integer, and the type is one of integers.
    NotAnInteger,
    /// It is below the one before it, and the type is that of ascending integers.
    Descends,
    /// It is one too many for the count.
    TooMany,
}

/// An element that cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its place among the numbers, from 0.
    pub index: usize,
    /// Why.
    pub cause: Cause,
}

/// Packed numbers under construction. After the first element that cannot be written it takes no more.
pub struct PackedWriter {
    form: Form,
    contents: Contents,
    count: usize,
    numbers: Vec<u8>,
    names: Vec<u8>,
    /// The integer before, for differences.
    last: i64,
    failure: Option<Failure>,
}

impl PackedWriter {
    /// No numbers yet.
    pub fn new(form: Form) -> PackedWriter {
        PackedWriter {
            form,
            contents: Contents::Numbers,
            count: 0,
            numbers: Vec::new(),
            names: Vec::new(),
            last: 0,
            failure: None,
        }
    }

    /// What is asked for.
    pub fn form(&self) -> Form {
        self.form
    }

    /// Says what there is beside the numbers.
    pub fn set_contents(&mut self, contents: Contents) {
        self.contents = contents;
    }

    /// Makes room for about this many numbers, and their names if there are any.
    pub fn reserve(&mut self, count: usize) {
        let size = match self.form.number_type {
            NumberType::F64 => 8,
            NumberType::F32 => 4,
            NumberType::Varint | NumberType::Delta => 2,
        };
        self.numbers.reserve(count.saturating_mul(size));
        if self.contents != Contents::Numbers {
            self.names.reserve(count.saturating_mul(NAME_BYTES_EXPECTED));
        }
    }

    /// Whether an element could not be written. Long loops may end then.
    pub fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    #[cold]
    fn fail(&mut self, cause: Cause) {
        if self.failure.is_none() {
            self.failure = Some(Failure { index: self.count, cause });
        }
    }

    /// Writes NaN if that is asked for.
    #[cold]
    fn fill(&mut self, cause: Cause) {
        match self.form.fills {
            true => self.number(f64::NAN),
            false => self.fail(cause),
        }
    }

    /// Adds a double.
    #[inline]
    pub fn number(&mut self, value: f64) {
        match self.form.number_type {
            NumberType::F64 => self.numbers.extend_from_slice(&value.to_be_bytes()),
            NumberType::F32 => self.numbers.extend_from_slice(&(value as f32).to_be_bytes()),
            NumberType::Varint | NumberType::Delta => {
                let integer = value as i64;
                let is_integer = (-INTEGERS_END..INTEGERS_END).contains(&value) && integer as f64 == value;
                return if is_integer { self.integer(integer) } else { self.fail(Cause::NotAnInteger) };
            }
        }
        self.count += 1;
    }

    /// Adds an integer; to doubles the nearest one.
    #[inline]
    pub fn integer(&mut self, value: i64) {
        match self.form.number_type {
            NumberType::F64 | NumberType::F32 => return self.number(value as f64),
            NumberType::Varint => write_varint(&mut self.numbers, zigzag(value)),
            NumberType::Delta if self.count == 0 => write_varint(&mut self.numbers, zigzag(value)),
            NumberType::Delta if value < self.last => return self.fail(Cause::Descends),
            NumberType::Delta => write_varint(&mut self.numbers, value.abs_diff(self.last)),
        }
        self.last = value;
        self.count += 1;
    }

    /// Adds the number that a text stands for.
    #[inline]
    pub fn text(&mut self, text: &[u8]) {
        if !self.form.takes_fractions()
            && let Some(integer) = parse_i64(text)
        {
            return self.integer(integer);
        }
        match parse_score(text) {
            Some(value) => self.number(value),
            None => self.fill(Cause::NotANumber),
        }
    }

    /// Adds what is not there.
    pub fn missing(&mut self) {
        self.fill(Cause::Missing);
    }

    /// Adds the name of the number before.
    #[inline]
    pub fn name(&mut self, name: &[u8]) {
        write_varint(&mut self.names, name.len() as u64);
        self.names.extend_from_slice(name);
    }

    /// Adds a number that goes among the names.
    pub fn name_number(&mut self, number: u64) {
        write_varint(&mut self.names, number);
    }

    /// Adds many doubles.
    pub fn numbers(&mut self, values: &[f64]) {
        match self.form.number_type {
            NumberType::F64 => {
                encode_f64_be(&mut self.numbers, values);
                self.count += values.len();
            }
            _ => values.iter().for_each(|&value| self.number(value)),
        }
    }

    /// Adds names with their numbers.
    pub fn pairs<'a>(&mut self, pairs: impl ExactSizeIterator<Item = (&'a [u8], f64)>) {
        self.contents = Contents::Pairs;
        self.reserve(pairs.len());
        if self.form.number_type != NumberType::F64 {
            for (name, value) in pairs {
                self.number(value);
                self.name(name);
            }
            return;
        }
        let (start, len) = (self.numbers.len(), pairs.len());
        self.numbers.resize(start + 8 * len, 0);
        let places = self.numbers[start..].chunks_exact_mut(8);
        for (place, (name, value)) in places.zip(pairs) {
            place.copy_from_slice(&value.to_be_bytes());
            write_varint(&mut self.names, name.len() as u64);
            self.names.extend_from_slice(name);
        }
        self.count += len;
    }

    /// Replies it, or says which element could not be written.
    pub fn finish(mut self, reply: &mut Reply) -> Result<(), Failure> {
        if u32::try_from(self.count).is_err() {
            self.fail(Cause::TooMany);
        }
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let mut header = [VERSION, self.form.number_type as u8, self.contents as u8, 0, 0, 0, 0, 0];
        header[4..].copy_from_slice(&(self.count as u32).to_be_bytes());
        reply.bulk_of([&header, &self.numbers, &self.names]);
        Ok(())
    }
}
