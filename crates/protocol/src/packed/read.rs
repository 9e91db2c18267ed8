//! Reading packed numbers: of arguments, and of replies in the command-line client.

use mantissa_number::binary::{decode_f32_be, decode_f64_be, read_varint, unzigzag};

use super::{BEGINNING, COLUMNS, HEADER_BYTES, NAMES, NULLS, NumberType, SCALAR};

/// Numbers as they were packed.
#[derive(Clone, Debug, PartialEq)]
pub enum Numbers {
    /// Of binary64.
    Doubles(Vec<f64>),
    /// Of binary32.
    Floats(Vec<f32>),
    /// Of varints.
    Integers(Vec<i64>),
}

impl Numbers {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Numbers::Doubles(values) => values.len(),
            Numbers::Floats(values) => values.len(),
            Numbers::Integers(values) => values.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Packed numbers that have been read.
#[derive(Clone, Debug, PartialEq)]
pub struct Packed<'a> {
    /// The numbers, row after row.
    pub numbers: Numbers,
    /// It is one number, not an array of one.
    pub is_scalar: bool,
    /// How many numbers a row has.
    pub columns: usize,
    /// A bit for each number that says that it is missing; empty if none is.
    nulls: &'a [u8],
    /// The names of the rows, if they have any.
    pub names: Option<Vec<&'a [u8]>>,
    /// The names of the columns, if they have any.
    pub column_names: Option<Vec<&'a [u8]>>,
}

/// Bytes that are no packed numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// What is left to read.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn names(&mut self, count: usize) -> Result<Vec<&'a [u8]>, Malformed> {
        let lengths = self.take(count.checked_mul(4).ok_or(Malformed)?)?;
        lengths.chunks_exact(4).map(|length| self.take(number_of(length))).collect()
    }

    /// All that is left, as varints.
    fn integers(&mut self, count: usize, are_differences: bool) -> Result<Vec<i64>, Malformed> {
        // Each takes a byte at least.
        let mut integers = Vec::with_capacity(count.min(self.0.len()));
        let mut last = 0_i64;
        for _ in 0..count {
            let (word, size) = read_varint(self.0).ok_or(Malformed)?;
            self.take(size)?;
            last = if are_differences { last.wrapping_add(word as i64) } else { unzigzag(word) };
            integers.push(last);
        }
        if self.0.is_empty() { Ok(integers) } else { Err(Malformed) }
    }
}

/// A big-endian number of up to four bytes.
fn number_of(bytes: &[u8]) -> usize {
    bytes.iter().fold(0, |number, &byte| number << 8 | usize::from(byte))
}

/// The numbers in the bytes that are said to hold `count` of them.
fn read_numbers(number_type: NumberType, bytes: &[u8], count: usize) -> Result<Numbers, Malformed> {
    let has_size = |each: usize| count.checked_mul(each) == Some(bytes.len());
    Ok(match number_type {
        NumberType::F64 if has_size(8) => {
            let mut values = Vec::new();
            decode_f64_be(&mut values, bytes);
            Numbers::Doubles(values)
        }
        NumberType::F32 if has_size(4) => {
            let mut values = Vec::new();
            decode_f32_be(&mut values, bytes);
            Numbers::Floats(values)
        }
        NumberType::F64 | NumberType::F32 => return Err(Malformed),
        NumberType::Varint => Numbers::Integers(Rest(bytes).integers(count, false)?),
        NumberType::Delta => Numbers::Integers(Rest(bytes).integers(count, true)?),
    })
}

impl<'a> Packed<'a> {
    /// Reads all of `bytes`.
    pub fn read(bytes: &'a [u8]) -> Result<Packed<'a>, Malformed> {
        let mut rest = Rest(bytes);
        let header = rest.take(HEADER_BYTES)?;
        let number_type = NumberType::of(header[3]).ok_or(Malformed)?;
        let (flags, columns) = (header[4], number_of(&header[6..8]));
        let (count, size) = (number_of(&header[8..12]), number_of(&header[12..]));
        let is_scalar = flags & SCALAR != 0;
        if header[..3] != BEGINNING
            || flags & !(SCALAR | NULLS | NAMES | COLUMNS) != 0
            || header[5] != 0
            || columns == 0
            || !count.is_multiple_of(columns)
            || (is_scalar && (count, columns) != (1, 1))
        {
            return Err(Malformed);
        }
        let numbers = read_numbers(number_type, rest.take(size)?, count)?;
        let nulls = if flags & NULLS != 0 { rest.take(count.div_ceil(8))? } else { &[] };
        let mut names = |flag, count| (flags & flag != 0).then(|| rest.names(count)).transpose();
        let (names, column_names) = (names(NAMES, count / columns)?, names(COLUMNS, columns)?);
        if !rest.0.is_empty() {
            return Err(Malformed);
        }
        Ok(Packed { numbers, is_scalar, columns, nulls, names, column_names })
    }

    /// Whether a number is missing.
    pub fn is_null(&self, index: usize) -> bool {
        self.nulls.get(index / 8).is_some_and(|byte| byte >> (index % 8) & 1 == 1)
    }

    /// The first number that is missing, if any is.
    pub fn first_null(&self) -> Option<usize> {
        (0..self.numbers.len().min(8 * self.nulls.len())).find(|&index| self.is_null(index))
    }
}
