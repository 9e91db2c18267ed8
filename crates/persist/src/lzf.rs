//! LZF, the compression of strings in dumps: literal runs and references to the last 8 KiB.
//!
//! ```text
//! 000nnnnn  n + 1 literal bytes                    copy them
//! lllooooo  oooooooo          (l from 1 to 6)      copy l + 2 bytes from o + 1 bytes back
//! 111ooooo  nnnnnnnn oooooooo                      copy n + 9 bytes from o + 1 bytes back
//! ```
//!
//! Compression is one pass with a table of the last place of every three bytes; decompression checks every
//! bound. No output is longer than 88 times its input, which bounds what a damaged file can make a reader
//! allocate.

use std::ops::Range;

const LITERALS_MAX: usize = 32;
const DISTANCE_MAX: usize = 1 << 13;
const MATCH_MIN: usize = 3;
/// Bytes that are read at a time to look at three of them.
const WORD: usize = 4;
const TRIPLE_MASK: u32 = 0x00ff_ffff;
const MATCH_MAX: usize = 7 + 255 + 2;
/// The table has about twice as many places as the input has bytes, so that it stays in the nearest cache for
/// short ones; from this to that many bits.
const TABLE_BITS_MIN: u32 = 8;
const TABLE_BITS_MAX: u32 = 14;
/// Three bytes give at most this many.
pub const EXPANSION_MAX: usize = MATCH_MAX / 3;
/// How many misses in a row it takes to look at one position less.
const MISSES_PER_STEP: usize = 16;
/// An input whose first third has no match is taken for noise, if that third has at least this size.
const NOISE_BYTES_MIN: usize = 48;

/// Compresses; keeps its table between calls, and gives the same output for the same input whatever came
/// before.
pub struct Compressor {
    /// Last position of a hash of three bytes, plus `base`; what is below `base` is of an earlier input.
    /// As long as inputs have needed it.
    table: Vec<u32>,
    base: u32,
}

/// The table, for one input.
struct Positions<'t> {
    /// Its length is a power of two.
    table: &'t mut [u32],
    base: u32,
    /// By how much a hash is shifted to give a place in the table.
    shift: u32,
}

impl Default for Compressor {
    fn default() -> Self {
        Self::new()
    }
}

impl Compressor {
    /// A compressor; it takes up to 64 KiB once it is used.
    pub fn new() -> Self {
        Compressor { table: Vec::new(), base: 1 }
    }

    /// Appends the compressed form of `input` to `out`. False, and `out` as it was, where nothing repeats
    /// or that would take more than `bytes_max` bytes.
    pub fn compress(&mut self, input: &[u8], out: &mut Vec<u8>, bytes_max: usize) -> bool {
        let start = out.len();
        let Some(mut positions) = self.positions(input.len()) else { return false };
        let limit = start + bytes_max;
        let mut literals_from = 0;
        let mut at = 0;
        while let Some(place) = positions.next_match(input, at, literals_from == 0) {
            let length = MATCH_MIN + match_length(input, place.from + MATCH_MIN, place.at + MATCH_MIN);
            push_literals(input, literals_from..place.at, out);
            push_reference(place.at - place.from - 1, length, out);
            if out.len() > limit {
                break;
            }
            at = place.at + length;
            literals_from = at;
            for inside in at - 2..at {
                if let Some(triple) = triple_at(input, inside) {
                    positions.swap(triple, inside);
                }
            }
        }
        // `positions` made sure that this fits.
        self.base += input.len() as u32;
        let rest = &input[literals_from..];
        if literals_from == 0 || out.len() + rest.len() + rest.len().div_ceil(LITERALS_MAX) > limit {
            out.truncate(start);
            return false;
        }
        push_literals(input, literals_from..input.len(), out);
        true
    }

    /// Appends a compressed form of `input` to `out`, even if that is longer than the input (by a 32nd at
    /// most). What is appended for several inputs is together a compressed form of all of them.
    pub fn compress_part(&mut self, input: &[u8], out: &mut Vec<u8>) {
        if !self.compress(input, out, input.len()) {
            push_literals(input, 0..input.len(), out);
        }
    }

    /// The table for an input of `length` bytes, if their positions can be told in it.
    fn positions(&mut self, length: usize) -> Option<Positions<'_>> {
        let length = u32::try_from(length).ok()?;
        let bits = (u32::BITS - length.leading_zeros() + 1).clamp(TABLE_BITS_MIN, TABLE_BITS_MAX);
        let table = &mut self.table;
        if table.len() < 1 << bits {
            table.resize(1 << bits, 0);
        }
        if self.base.checked_add(length).is_none() {
            table.fill(0);
            self.base = 1;
        }
        self.base.checked_add(length)?;
        Some(Positions { table: &mut table[..1 << bits], base: self.base, shift: u32::BITS - bits })
    }
}

impl Positions<'_> {
    /// The next place from `at` on that a reference can stand for. The longer there is none, the fewer are
    /// looked at; and with `gives_up_early` it ends where the input is taken for noise.
    #[inline]
    fn next_match(&mut self, input: &[u8], at: usize, gives_up_early: bool) -> Option<Match> {
        let end = if gives_up_early { (input.len() / 3).max(NOISE_BYTES_MIN) } else { input.len() };
        let (mut at, mut misses) = (at, 0);
        while at < end {
            let triple = triple_at(input, at)?;
            let distance = self.swap(triple, at);
            if distance.wrapping_sub(1) < at.min(DISTANCE_MAX)
                && triple_at(input, at - distance) == Some(triple)
            {
                return Some(Match { from: at - distance, at });
            }
            misses += 1;
            at += 1 + misses / MISSES_PER_STEP;
        }
        None
    }

    /// Notes position `at` for its three bytes and returns how far back the one noted before is; if there is
    /// none in this input, more than `at`.
    #[inline]
    fn swap(&mut self, triple: u32, at: usize) -> usize {
        let slot = (triple.wrapping_mul(0x9e37_79b1) >> self.shift) as usize;
        let here = self.base + at as u32;
        here.wrapping_sub(std::mem::replace(&mut self.table[slot], here)) as usize
    }
}

/// Two places with the same three bytes.
struct Match {
    from: usize,
    at: usize,
}

/// Three bytes at a place, as a number; `None` if no further byte comes behind them.
#[inline]
fn triple_at(input: &[u8], at: usize) -> Option<u32> {
    let word = input.get(at..at + WORD)?.first_chunk()?;
    Some(u32::from_le_bytes(*word) & TRIPLE_MASK)
}

/// How many bytes are the same behind the first three of a match.
#[inline]
fn match_length(input: &[u8], from: usize, at: usize) -> usize {
    const LONG_WORD: usize = size_of::<u64>();
    let ahead = &input[at..input.len().min(at + MATCH_MAX - MATCH_MIN)];
    let behind = &input[from..from + ahead.len()];
    let mut length = 0;
    for (old, new) in behind.as_chunks::<LONG_WORD>().0.iter().zip(ahead.as_chunks::<LONG_WORD>().0) {
        let difference = u64::from_le_bytes(*old) ^ u64::from_le_bytes(*new);
        if difference != 0 {
            return length + difference.trailing_zeros() as usize / 8;
        }
        length += LONG_WORD;
    }
    length + behind[length..].iter().zip(&ahead[length..]).take_while(|(old, new)| old == new).count()
}

/// Appends the first `count` bytes of a chunk, at most all. A copy of a fixed size is no call.
#[inline(always)]
fn push_part<const N: usize>(chunk: &[u8; N], count: usize, out: &mut Vec<u8>) {
    let end = out.len() + count;
    out.extend_from_slice(chunk);
    out.truncate(end);
}

#[inline]
fn push_literals(input: &[u8], range: Range<usize>, out: &mut Vec<u8>) {
    for from in range.clone().step_by(LITERALS_MAX) {
        let count = (range.end - from).min(LITERALS_MAX);
        out.push((count - 1) as u8);
        match input[from..].first_chunk::<LITERALS_MAX>() {
            Some(chunk) => push_part(chunk, count, out),
            None => out.extend_from_slice(&input[from..from + count]),
        }
    }
}

#[inline]
fn push_reference(distance: usize, length: usize, out: &mut Vec<u8>) {
    let (high, low) = ((distance >> 8) as u8, (distance & 0xff) as u8);
    match length - 2 {
        short @ 0..=6 => out.extend_from_slice(&[(short as u8) << 5 | high, low]),
        long => out.extend_from_slice(&[7 << 5 | high, (long - 7) as u8, low]),
    }
}

/// Appends what `input` stands for, which is `length` bytes, to `out`. On an error `out` holds a part.
pub fn decompress(input: &[u8], length: usize, out: &mut Vec<u8>) -> Result<(), &'static str> {
    if length > input.len().saturating_mul(EXPANSION_MAX) {
        return Err("compressed string states a length that its bytes cannot give");
    }
    let start = out.len();
    out.reserve(length);
    let mut rest = input;
    while let Some((&control, tail)) = rest.split_first() {
        let control = usize::from(control);
        if control < LITERALS_MAX {
            let Some((literals, tail)) = tail.split_at_checked(control + 1) else {
                return Err("compressed string ends within a literal run");
            };
            match rest[1..].first_chunk::<LITERALS_MAX>() {
                Some(chunk) if has_room::<LITERALS_MAX>(out) => push_part(chunk, literals.len(), out),
                _ => out.extend_from_slice(literals),
            }
            rest = tail;
        } else {
            let (count, tail) = match (control >> 5, tail) {
                (7, [more, tail @ ..]) => (9 + usize::from(*more), tail),
                (short @ ..7, _) => (short + 2, tail),
                _ => return Err("compressed string ends within a reference"),
            };
            let [low, tail @ ..] = tail else { return Err("compressed string ends within a reference") };
            let distance = ((control & 0x1f) << 8 | usize::from(*low)) + 1;
            if distance > out.len() - start {
                return Err("compressed string refers to before its start");
            }
            copy_within(out, distance, count);
            rest = tail;
        }
        if out.len() - start > length {
            return Err("compressed string is longer than stated");
        }
    }
    if out.len() - start == length { Ok(()) } else { Err("compressed string is shorter than stated") }
}

/// Whether that many bytes fit without an allocation.
#[inline(always)]
fn has_room<const N: usize>(out: &Vec<u8>) -> bool {
    out.capacity() - out.len() >= N
}

/// Appends `count` bytes from `distance` back; they may overlap what is appended.
#[inline]
fn copy_within(out: &mut Vec<u8>, distance: usize, count: usize) {
    /// Most references are no longer.
    const STEP: usize = 16;
    let from = out.len() - distance;
    if count <= STEP
        && has_room::<STEP>(out)
        && let Some(&chunk) = out[from..].first_chunk::<STEP>()
    {
        return push_part(&chunk, count, out);
    }
    let mut left = count;
    while left > 0 {
        let step = left.min(out.len() - from);
        out.extend_from_within(from..from + step);
        left -= step;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn round_trip(compressor: &mut Compressor, input: &[u8]) -> Option<usize> {
        let mut packed = b"kept".to_vec();
        if !compressor.compress(input, &mut packed, input.len().saturating_sub(4)) {
            assert_eq!(packed, b"kept");
            return None;
        }
        let mut unpacked = Vec::new();
        assert_eq!(decompress(&packed[4..], input.len(), &mut unpacked), Ok(()));
        assert_eq!(unpacked, input);
        Some(packed.len() - 4)
    }

    #[test]
    fn repetition_shrinks_and_noise_does_not() {
        let mut compressor = Compressor::new();
        assert!(round_trip(&mut compressor, &[b'a'; 100]).is_some_and(|length| length < 10));
        assert!(round_trip(&mut compressor, &[b'a'; 1 << 20]).is_some_and(|length| length < (1 << 20) / 80));
        assert!(
            round_trip(&mut compressor, &b"the quick brown fox ".repeat(50))
                .is_some_and(|length| length < 60)
        );
        let mut state = 1u64;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        })
        .take(100_000)
        .collect();
        assert_eq!(round_trip(&mut compressor, &noise), None);
    }

    #[test]
    fn output_does_not_depend_on_what_came_before() {
        let input = b"abcabcabcabcabc-abcabcabcabcabc";
        let (mut fresh, mut used) = (Compressor::new(), Compressor::new());
        used.compress(&b"abcdefgh".repeat(999), &mut Vec::new(), 9000);
        used.base = u32::MAX - 40;
        for _ in 0..4 {
            let (mut one, mut other) = (Vec::new(), Vec::new());
            assert!(
                fresh.compress(input, &mut one, input.len()) && used.compress(input, &mut other, input.len())
            );
            assert_eq!(one, other);
        }
    }

    #[test]
    fn stated_lengths_are_not_believed() {
        assert!(decompress(&[0, b'a'], usize::MAX, &mut Vec::new()).is_err());
        assert!(decompress(&[0, b'a'], 2, &mut Vec::new()).is_err());
        assert!(decompress(&[1, b'a'], 2, &mut Vec::new()).is_err());
        assert!(decompress(&[0x20, 0], 3, &mut Vec::new()).is_err());
        assert!(decompress(&[0xe0], 3, &mut Vec::new()).is_err());
        assert!(decompress(&[0xe0, 0], 3, &mut Vec::new()).is_err());
        assert_eq!(decompress(&[], 0, &mut Vec::new()), Ok(()));
    }

    proptest! {
        #[test]
        fn any_input_comes_back(input in proptest::collection::vec(0u8..4, 0..3000)) {
            round_trip(&mut Compressor::new(), &input);
        }

        #[test]
        fn any_bytes_decompress_or_fail(
            input in proptest::collection::vec(any::<u8>(), 0..300),
            length in 0usize..5000,
        ) {
            let mut out = Vec::new();
            if decompress(&input, length, &mut out).is_ok() {
                prop_assert_eq!(out.len(), length);
            }
        }
    }
}
