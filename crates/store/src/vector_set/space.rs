//! Vectors as rows, and the distances between them.
//!
//! ```text
//! | range (f32) | length (f32) | numbers ...                 |
//!   largest magnitude, for Q8    of f32, i8, or bits
//! ```
//!
//! A vector is divided by its length, which is kept to give it back. The distance of two is 1 minus the
//! cosine of their angle: from 0 for one direction to 2 for opposite ones. Vectors of zeros are at distance
//! 1 from all. The operations on binary32 are those of redis-server, so that distances are too; only while
//! searching products of binary32 are added in an order of our own (see [`mantissa_number::vector`]).

use mantissa_number::vector::{Kernels, dot_f32_in_fours, normalise, quantise_i8};

use super::rows::{numbers, numbers_mut};

/// How the numbers of vectors are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Quantization {
    /// As binary32.
    None,
    /// As signed bytes.
    #[default]
    Q8,
    /// As one bit each.
    Binary,
}

/// Bytes of a row before its numbers.
const HEAD_BYTES: usize = 8;

/// What the rows of a set have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Space {
    pub dimension: u32,
    pub quantization: Quantization,
    kernels: Kernels,
}

impl Default for Space {
    fn default() -> Self {
        Space::new(0, Quantization::default())
    }
}

impl Space {
    pub fn new(dimension: u32, quantization: Quantization) -> Self {
        Space { dimension, quantization, kernels: Kernels::get() }
    }

    /// Bytes of the numbers of a vector.
    pub fn vector_bytes(&self) -> usize {
        let dimension = self.dimension as usize;
        match self.quantization {
            Quantization::None => dimension * size_of::<f32>(),
            Quantization::Q8 => dimension,
            Quantization::Binary => dimension.div_ceil(64) * size_of::<u64>(),
        }
    }

    /// Bytes of a row.
    pub fn row_bytes(&self) -> usize {
        HEAD_BYTES + self.vector_bytes()
    }

    /// The row of a vector, which is normalised in its place.
    pub fn row_of(&self, vector: &mut [f32]) -> Vec<u64> {
        let length = normalise(vector);
        let mut range = 0.0;
        let mut row = vec![0; self.row_bytes().div_ceil(8)];
        match self.quantization {
            Quantization::None => numbers_mut::<f32>(&mut row[1..])[..vector.len()].copy_from_slice(vector),
            Quantization::Q8 => {
                let mut bytes = Vec::with_capacity(vector.len());
                range = quantise_i8(vector, &mut bytes);
                numbers_mut::<i8>(&mut row[1..])[..bytes.len()].copy_from_slice(&bytes);
            }
            Quantization::Binary => {
                row.truncate(1);
                self.kernels.sign_f32(vector, &mut row);
            }
        }
        set_head(&mut row, range, length);
        row
    }

    /// The row of a vector whose numbers are given as a file has them; `None` if their size is wrong.
    pub fn row_of_bytes(&self, bytes: &[u8], range: f32, length: f32) -> Option<Vec<u64>> {
        if bytes.len() != self.vector_bytes() {
            return None;
        }
        let mut row = vec![0; self.row_bytes().div_ceil(8)];
        for (word, chunk) in row[1..].iter_mut().zip(bytes.chunks(8)) {
            let mut whole = [0; 8];
            whole[..chunk.len()].copy_from_slice(chunk);
            *word = u64::from_le_bytes(whole);
        }
        let unused = self.dimension.wrapping_neg() % 64;
        if self.quantization == Quantization::Binary
            && let Some(last) = row[1..].last_mut()
        {
            // Bits beyond the vector are none of its distance.
            *last &= u64::MAX >> unused;
        }
        let has_range = self.quantization == Quantization::Q8;
        set_head(&mut row, if has_range { range } else { 0.0 }, length);
        Some(row)
    }

    /// Appends the numbers of a row as a file has them.
    pub fn put_bytes(&self, row: &[u64], out: &mut Vec<u8>) {
        let end = out.len() + self.vector_bytes();
        row[1..].iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
        out.truncate(end);
    }

    /// The vector that a row stands for.
    pub fn vector_of(&self, row: &[u64]) -> Vec<f32> {
        let (range, length) = head(row);
        let dimension = self.dimension as usize;
        match self.quantization {
            Quantization::None => {
                numbers::<f32>(&row[1..])[..dimension].iter().map(|value| value * length).collect()
            }
            Quantization::Q8 => {
                let bytes = &numbers::<i8>(&row[1..])[..dimension];
                bytes.iter().map(|byte| f32::from(*byte) * range / 127.0 * length).collect()
            }
            Quantization::Binary => (0..dimension)
                .map(|index| if row[1 + index / 64] >> (index % 64) & 1 == 1 { 1.0 } else { -1.0 })
                .collect(),
        }
    }

    /// The distance as it is shown: products of binary32 are added in redis-server's order, and what they
    /// miss the range by stays.
    pub fn shown_distance(&self, left: &[u64], right: &[u64]) -> f32 {
        if self.quantization != Quantization::None {
            return self.distance(left, right);
        }
        let dimension = self.dimension as usize;
        let (left, right) = (numbers::<f32>(&left[1..]), numbers::<f32>(&right[1..]));
        1.0 - dot_f32_in_fours(&left[..dimension], &right[..dimension])
    }

    /// The distance of two vectors by their rows: from 0 to 2, or NaN.
    #[inline]
    pub fn distance(&self, left: &[u64], right: &[u64]) -> f32 {
        let dimension = self.dimension as usize;
        match self.quantization {
            Quantization::None => {
                let (left, right) = (numbers::<f32>(&left[1..]), numbers::<f32>(&right[1..]));
                (1.0 - self.kernels.dot_f32(&left[..dimension], &right[..dimension])).clamp(0.0, 2.0)
            }
            Quantization::Q8 => {
                let scale = (head(left).0 / 127.0) * (head(right).0 / 127.0);
                if scale == 0.0 {
                    return 1.0;
                }
                let (left, right) = (numbers::<i8>(&left[1..]), numbers::<i8>(&right[1..]));
                let dot = self.kernels.dot_i8(&left[..dimension], &right[..dimension]);
                (1.0 - dot as f32 * scale).clamp(0.0, 2.0)
            }
            Quantization::Binary => {
                let differing = self.kernels.hamming(&left[1..], &right[1..]);
                differing as f32 * 2.0 / dimension as f32
            }
        }
    }
}

/// Range and length of a row.
#[inline]
pub(super) fn head(row: &[u64]) -> (f32, f32) {
    let word = row[0];
    (f32::from_bits(word as u32), f32::from_bits((word >> 32) as u32))
}

fn set_head(row: &mut [u64], range: f32, length: f32) {
    row[0] = u64::from(range.to_bits()) | u64::from(length.to_bits()) << 32;
}

/// A random projection: each number of the result is a sum of all numbers with signs, divided by the root of
/// how many there are. Signs come from a Hadamard matrix, as redis-server's do, so that all servers agree.
#[derive(Clone, Debug, PartialEq)]
pub struct Projection {
    input: u32,
    /// A row for each number of the result.
    matrix: Box<[f32]>,
}

impl Projection {
    /// The one from so many numbers to so many.
    pub fn new(input: u32, output: u32) -> Self {
        let scale = (1.0 / f64::from(input).sqrt()) as f32;
        let sign = |row: u32, column: u32| {
            if (row & column).count_ones().is_multiple_of(2) { scale } else { -scale }
        };
        let matrix = (0..output).flat_map(|row| (0..input).map(move |column| sign(row, column))).collect();
        Projection { input, matrix }
    }

    /// The one with this matrix, as a file has it; `None` if the size is wrong.
    pub fn from_bytes(input: u32, output: u32, bytes: &[u8]) -> Option<Self> {
        let count = (input as usize).checked_mul(output as usize)?;
        if input == 0 || count.checked_mul(size_of::<f32>()) != Some(bytes.len()) {
            return None;
        }
        let numbers = bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
        Some(Projection { input, matrix: numbers.collect() })
    }

    /// The number of numbers that are projected.
    pub fn input(&self) -> u32 {
        self.input
    }

    /// Appends the matrix as a file has it.
    pub fn put_bytes(&self, out: &mut Vec<u8>) {
        self.matrix.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
    }

    /// The projection of a vector of [`Projection::input`] numbers.
    pub fn apply(&self, vector: &[f32]) -> Vec<f32> {
        let rows = self.matrix.chunks_exact(self.input as usize);
        rows.map(|row| row.iter().zip(vector).fold(0.0, |sum, (factor, value)| sum + value * factor))
            .collect()
    }

    /// Bytes taken.
    pub(super) fn memory_usage(&self) -> usize {
        size_of_val(&*self.matrix)
    }
}
