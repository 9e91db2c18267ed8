//! Reading packed numbers: of arguments, and of replies in the command-line client.

use mantissa_number::binary::{decode_f32_be, decode_f64_be, read_varint, unzigzag};

use super::{Contents, HEADER_BYTES, NumberType, VERSION};

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

/// An entry of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Milliseconds of its id.
    pub ms: u64,
    /// The number of its id within the millisecond.
    pub sequence: u64,
    /// Its names and numbers, from this one.
    pub first: usize,
    /// How many.
    pub count: usize,
}

/// Packed numbers that have been read.
#[derive(Clone, Debug, PartialEq)]
pub struct Packed<'a> {
    /// The numbers.
    pub numbers: Numbers,
    /// What there is beside them.
    pub contents: Contents,
    /// A name for each number, or none at all.
    pub names: Vec<&'a [u8]>,
    /// The entries of a stream.
    pub entries: Vec<Entry>,
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

    fn varint(&mut self) -> Result<u64, Malformed> {
        let (value, size) = read_varint(self.0).ok_or(Malformed)?;
        self.take(size)?;
        Ok(value)
    }

    fn name(&mut self) -> Result<&'a [u8], Malformed> {
        let len = usize::try_from(self.varint()?).map_err(|_| Malformed)?;
        self.take(len)
    }

    fn integers(&mut self, count: usize, are_differences: bool) -> Result<Vec<i64>, Malformed> {
        // Each takes a byte at least.
        let mut integers = Vec::with_capacity(count.min(self.0.len()));
        for index in 0..count {
            let word = self.varint()?;
            let before = if are_differences && index > 0 { integers.last() } else { None };
            integers.push(match before {
                Some(&before) => i64::checked_add_unsigned(before, word).ok_or(Malformed)?,
                None => unzigzag(word),
            });
        }
        Ok(integers)
    }

    fn numbers(&mut self, number_type: NumberType, count: usize) -> Result<Numbers, Malformed> {
        Ok(match number_type {
            NumberType::F64 => {
                let mut values = Vec::new();
                decode_f64_be(&mut values, self.take(count.checked_mul(8).ok_or(Malformed)?)?);
                Numbers::Doubles(values)
            }
            NumberType::F32 => {
                let mut values = Vec::new();
                decode_f32_be(&mut values, self.take(count.checked_mul(4).ok_or(Malformed)?)?);
                Numbers::Floats(values)
            }
            NumberType::Varint => Numbers::Integers(self.integers(count, false)?),
            NumberType::Delta => Numbers::Integers(self.integers(count, true)?),
        })
    }
}

impl<'a> Packed<'a> {
    /// Reads all of `bytes`.
    pub fn read(bytes: &'a [u8]) -> Result<Packed<'a>, Malformed> {
        let mut rest = Rest(bytes);
        let header = rest.take(HEADER_BYTES)?;
        let [version, number_type, contents, 0, count @ ..] = header else { return Err(Malformed) };
        if *version != VERSION {
            return Err(Malformed);
        }
        let number_type = NumberType::of(*number_type).ok_or(Malformed)?;
        let contents = Contents::of(*contents).ok_or(Malformed)?;
        let count = u32::from_be_bytes(count.try_into().map_err(|_| Malformed)?);
        let count = usize::try_from(count).map_err(|_| Malformed)?;
        let numbers = rest.numbers(number_type, count)?;
        let mut packed = Packed { numbers, contents, names: Vec::new(), entries: Vec::new() };
        match contents {
            Contents::Numbers => {}
            Contents::Pairs => packed.names = (0..count).map(|_| rest.name()).collect::<Result<_, _>>()?,
            Contents::Entries => packed.read_entries(&mut rest)?,
        }
        if rest.0.is_empty() { Ok(packed) } else { Err(Malformed) }
    }

    /// Reads the ids and names of entries. One without names has those of the entry before.
    fn read_entries(&mut self, rest: &mut Rest<'a>) -> Result<(), Malformed> {
        let mut shared = 0..0;
        while self.names.len() < self.numbers.len() {
            let (ms, sequence) = (rest.varint()?, rest.varint()?);
            let named = usize::try_from(rest.varint()?).map_err(|_| Malformed)?;
            let first = self.names.len();
            let count = if named > 0 { named } else { shared.len() };
            if count == 0 || count > self.numbers.len() - first {
                return Err(Malformed);
            }
            if named > 0 {
                for _ in 0..named {
                    self.names.push(rest.name()?);
                }
            } else {
                self.names.extend_from_within(shared);
            }
            shared = first..first + count;
            self.entries.push(Entry { ms, sequence, first, count });
        }
        Ok(())
    }
}
