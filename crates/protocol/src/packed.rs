//! Packed numbers: many numbers in one bulk string, as bytes instead of text. `docs/packed.md` is the format
//! for implementers.
//!
//! ```text
//! | "MP" | version = 1 | type | flags | 0 | columns (u16) | count (u32) | size (u32) |      16 bytes
//! | numbers (size bytes) | nulls | names of rows | names of columns |       the last three only if flagged
//! ```
//!
//! All integers of fixed size are big-endian. Numbers are binary64 or binary32, zigzag varints, or, where
//! they ascend, varints of the differences. Nulls are a bit for each number. Names are first their lengths
//! (u32), then their bytes back to back.
//!
//! Writing costs no text: a number goes from where it lies to its place. Reading is safe for any bytes: what
//! it allocates is in proportion to them, whatever the counts say.

mod read;
#[cfg(test)]
mod tests;

use mantissa_number::binary::{encode_f64_be, write_varint, zigzag};
use mantissa_number::{parse_f64, parse_i64, parse_score};

use crate::reply::Reply;

pub use read::{Malformed, Numbers, Packed};

/// What comes before the type: two letters and the version.
const BEGINNING: [u8; 3] = [b'M', b'P', 1];
/// Bytes before the numbers.
pub const HEADER_BYTES: usize = 16;
/// The reply is one number, not an array of one.
const SCALAR: u8 = 1;
/// Some numbers are missing.
const NULLS: u8 = 2;
/// Rows have names.
const NAMES: u8 = 4;
/// Columns have names.
const COLUMNS: u8 = 8;
/// 2^63, the first double above the 64-bit integers.
const INTEGERS_END: f64 = 9_223_372_036_854_775_808.0;
/// Bytes for which room is made for each name beforehand.
const NAME_BYTES_EXPECTED: usize = 12;

/// How numbers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum NumberType {
    /// Big-endian binary64.
    F64 = 1,
    /// Big-endian binary32.
    F32 = 2,
    /// Zigzag varints.
    Varint = 3,
    /// Varints of the differences, from 0 on, which wrap around: for integers that ascend.
    Delta = 4,
}

impl NumberType {
    fn of(code: u8) -> Option<NumberType> {
        use NumberType::{Delta, F32, F64, Varint};
        [F64, F32, Varint, Delta].into_iter().find(|number_type| *number_type as u8 == code)
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
    flags: u8,
    columns: usize,
    count: usize,
    numbers: Vec<u8>,
    /// Lengths of the names of rows.
    lengths: Vec<u8>,
    names: Vec<u8>,
    column_names: Vec<u8>,
    /// The integer before, for differences.
    last: i64,
    failure: Option<Failure>,
}

impl PackedWriter {
    /// No numbers yet.
    pub fn new(form: Form) -> PackedWriter {
        PackedWriter {
            form,
            flags: 0,
            columns: 1,
            count: 0,
            numbers: Vec::new(),
            lengths: Vec::new(),
            names: Vec::new(),
            column_names: Vec::new(),
            last: 0,
            failure: None,
        }
    }

    /// What is asked for.
    pub fn form(&self) -> Form {
        self.form
    }

    /// Says that it is one number.
    pub fn set_scalar(&mut self) {
        self.flags |= SCALAR;
    }

    /// Says that each row has a name.
    pub fn set_named(&mut self) {
        self.flags |= NAMES;
    }

    /// Says how many numbers a row has.
    pub fn set_columns(&mut self, columns: u16) {
        self.columns = usize::from(columns);
    }

    /// Names the columns. False if they are too many.
    pub fn name_columns<'a>(&mut self, names: impl ExactSizeIterator<Item = &'a [u8]> + Clone) -> bool {
        let Ok(columns) = u16::try_from(names.len()) else { return false };
        self.set_columns(columns);
        self.flags |= COLUMNS;
        names.clone().for_each(|name| self.column_names.extend(length_of(name)));
        names.for_each(|name| self.column_names.extend_from_slice(name));
        true
    }

    /// Makes room for about this many numbers, and their names if there are any.
    pub fn reserve(&mut self, count: usize) {
        let size = match self.form.number_type {
            NumberType::F64 => 8,
            NumberType::F32 => 4,
            NumberType::Varint | NumberType::Delta => 2,
        };
        self.numbers.reserve(count.saturating_mul(size));
        if self.flags & NAMES != 0 {
            self.lengths.reserve(count.saturating_mul(4));
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
            NumberType::Delta if self.count > 0 && value < self.last => return self.fail(Cause::Descends),
            NumberType::Delta => write_varint(&mut self.numbers, value.wrapping_sub(self.last) as u64),
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

    /// Adds the number that a text stands for, one beyond a double as an infinity.
    pub fn rounded_text(&mut self, text: &[u8]) {
        match parse_score(text).or_else(|| parse_f64(text)) {
            Some(value) => self.number(value),
            None => self.fill(Cause::NotANumber),
        }
    }

    /// Adds what is not there.
    pub fn missing(&mut self) {
        self.fill(Cause::Missing);
    }

    /// Adds the name of a row.
    #[inline]
    pub fn name(&mut self, name: &[u8]) {
        self.lengths.extend_from_slice(&length_of(name));
        self.names.extend_from_slice(name);
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

    /// Adds numbers with their names, which lie back to back and whose lengths are given, as bytes where each
    /// is one.
    pub fn run(
        &mut self,
        numbers: impl ExactSizeIterator<Item = f64>,
        (lengths, short_lengths): (impl Iterator<Item = usize>, Option<&[u8]>),
        names: &[u8],
    ) {
        match self.form.number_type {
            NumberType::F64 => {
                let (start, len) = (self.numbers.len(), numbers.len());
                self.numbers.resize(start + 8 * len, 0);
                let places = self.numbers[start..].chunks_exact_mut(8);
                places.zip(numbers).for_each(|(place, value)| place.copy_from_slice(&value.to_be_bytes()));
                self.count += len;
            }
            _ => numbers.for_each(|value| self.number(value)),
        }
        match short_lengths {
            Some(lengths) => {
                let start = self.lengths.len();
                self.lengths.resize(start + 4 * lengths.len(), 0);
                let places = self.lengths[start..].chunks_exact_mut(4);
                places.zip(lengths).for_each(|(place, &length)| place[3] = length);
            }
            None => lengths.for_each(|length| self.lengths.extend_from_slice(&(length as u32).to_be_bytes())),
        }
        self.names.extend_from_slice(names);
    }

    /// Adds names with their numbers.
    pub fn pairs<'a>(&mut self, pairs: impl Iterator<Item = (&'a [u8], f64)>) {
        for (name, value) in pairs {
            self.number(value);
            self.name(name);
        }
    }

    /// Replies it, or says which element could not be written.
    pub fn finish(mut self, reply: &mut Reply) -> Result<(), Failure> {
        let (count, size) = (u32::try_from(self.count), u32::try_from(self.numbers.len()));
        if count.is_err() || size.is_err() {
            self.fail(Cause::TooMany);
        }
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let mut header = [0; HEADER_BYTES];
        header[..3].copy_from_slice(&BEGINNING);
        (header[3], header[4]) = (self.form.number_type as u8, self.flags);
        header[6..8].copy_from_slice(&(self.columns as u16).to_be_bytes());
        header[8..12].copy_from_slice(&count.unwrap_or(0).to_be_bytes());
        header[12..].copy_from_slice(&size.unwrap_or(0).to_be_bytes());
        reply.bulk_of([&header, &self.numbers, &self.lengths, &self.names, &self.column_names]);
        Ok(())
    }
}

/// The length of a name, as it is written. Keys, members and fields are shorter than 4 GiB.
fn length_of(name: &[u8]) -> [u8; 4] {
    (name.len() as u32).to_be_bytes()
}
