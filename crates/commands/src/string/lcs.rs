//! LCS: the longest common subsequence of two strings.
//!
//! Lengths are computed bit-parallel (Crochemore, Iliopoulos, Pinzon, Reid: "A fast and practical bit-vector
//! algorithm for the longest common subsequence problem", 2001): a row of the dynamic programming table is
//! one bit for each byte of the first string, zero where the length grows by one. So the table takes a bit a
//! cell, and 64 cells cost a handful of instructions. Strings whose table would exceed `proto-max-bulk-len`
//! in Redis's form of four bytes a cell are refused as there.

use mantissa_protocol::{Args, Reply};

use crate::DataSpec;
use crate::access::Access;
use crate::error::{Error, Outcome};
use crate::parse;
use crate::spec::{Categories, Flags, Group, KeyFlags, KeySpec};

const STRING_BYTES_MAX: u64 = u32::MAX as u64 - 2;

#[derive(Default)]
struct Options {
    length_only: bool,
    indexes: bool,
    with_match_lengths: bool,
    match_length_min: i64,
}

impl Options {
    fn parse(args: Args<'_>) -> Outcome<Options> {
        let mut options = Options::default();
        let mut at = 3;
        while let Some(option) = args.get(at) {
            at += 1;
            if parse::is(option, "IDX") {
                options.indexes = true;
            } else if parse::is(option, "LEN") {
                options.length_only = true;
            } else if parse::is(option, "WITHMATCHLEN") {
                options.with_match_lengths = true;
            } else if parse::is(option, "MINMATCHLEN") {
                options.match_length_min = parse::integer(args.get(at).ok_or(Error::SYNTAX)?)?;
                at += 1;
            } else {
                return Err(Error::SYNTAX);
            }
        }
        if options.indexes && options.length_only {
            let text = "ERR If you want both the length and indexes, please just use IDX.";
            return Err(Error::fixed(text));
        }
        Ok(options)
    }
}

fn lcs(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let not_strings = |_| Error::fixed("ERR The specified keys must contain string values");
    let first = access.read(args.at(1)).map(|entry| entry.as_string());
    let second = access.read(args.at(2)).map(|entry| entry.as_string());
    let (first, second) = match (first, second) {
        (Some(None), _) | (_, Some(None)) => return Err(not_strings(())),
        (first, second) => (first.flatten(), second.flatten()),
    };
    let (mut digits, mut more_digits) = ([0; 20], [0; 20]);
    let a = first.map_or(&[][..], |text| text.text(&mut digits));
    let b = second.map_or(&[][..], |text| text.text(&mut more_digits));
    let options = Options::parse(args)?;
    check_size(a.len() as u64, b.len() as u64, access.settings().string_bytes_max)?;
    let rows = Rows::compute(a, b, !options.length_only);
    if options.length_only {
        reply.integer(rows.length as i64);
    } else if options.indexes {
        reply.map(2);
        reply.bulk(b"matches");
        write_matches(a, b, &rows, &options, reply);
        reply.bulk(b"len");
        reply.integer(rows.length as i64);
    } else {
        let mut common = vec![0; rows.length];
        let mut at = common.len();
        trace(a, b, &rows, |step| {
            if let Step::Match(i, _) = step {
                at -= 1;
                common[at] = a[i];
            }
        });
        reply.bulk(&common);
    }
    Ok(())
}

fn check_size(a: u64, b: u64, bytes_max: u64) -> Outcome {
    if a > STRING_BYTES_MAX || b > STRING_BYTES_MAX {
        return Err(Error::fixed("ERR String too long for LCS"));
    }
    let table_bytes = (a + 1).checked_mul(b + 1).and_then(|cells| cells.checked_mul(4));
    if table_bytes.is_none_or(|bytes| bytes > bytes_max) {
        let text = "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len";
        return Err(Error::fixed(text));
    }
    Ok(())
}

/// The rows of the table, one for each byte of `b`; row 0, which is all zero, is not stored. Bit `i` of row
/// `j` is clear if `LCS(i + 1, j) == LCS(i, j) + 1`, where `LCS(i, j)` is the length for the first `i` and
/// `j` bytes.
struct Rows {
    words: usize,
    bits: Vec<u64>,
    /// The length for the whole strings.
    length: usize,
}

impl Rows {
    /// Computes all rows and keeps them if `keep`.
    fn compute(a: &[u8], b: &[u8], keep: bool) -> Rows {
        let words = a.len().div_ceil(64);
        let places = Places::new(a, b, words);
        let mut row = vec![u64::MAX; words];
        let mut bits = Vec::with_capacity(if keep { words * b.len() } else { 0 });
        for &byte in b {
            if let Some(places) = places.of(byte) {
                let mut carry = false;
                for (word, &places) in row.iter_mut().zip(places) {
                    let hits = *word & places;
                    let (sum, overflow) = word.overflowing_add(hits);
                    let (sum, overflow_again) = sum.overflowing_add(u64::from(carry));
                    carry = overflow || overflow_again;
                    *word = sum | (*word & !places);
                }
            }
            if keep {
                bits.extend_from_slice(&row);
            }
        }
        let length = clear_bits(&row, a.len());
        Rows { words, bits, length }
    }

    /// Row `j`; `None` for row 0.
    fn row(&self, j: usize) -> Option<&[u64]> {
        let end = j * self.words;
        self.bits.get(end.checked_sub(self.words)?..end)
    }

    /// `LCS(i + 1, j) - LCS(i, j)`
    fn step(&self, i: usize, j: usize) -> usize {
        self.row(j).map_or(0, |row| usize::from(row[i / 64] >> (i % 64) & 1 == 0))
    }

    /// `LCS(i, j)`
    fn length(&self, i: usize, j: usize) -> usize {
        self.row(j).map_or(0, |row| clear_bits(row, i))
    }
}

/// The number of clear bits among the first `count`.
fn clear_bits(row: &[u64], count: usize) -> usize {
    let whole: u32 = row[..count / 64].iter().map(|word| word.count_zeros()).sum();
    let rest = count % 64;
    let part = if rest == 0 { 0 } else { (row[count / 64] | u64::MAX << rest).count_zeros() };
    (whole + part) as usize
}

/// Where each byte value that occurs in `b` occurs in `a`, as bits.
struct Places {
    words: usize,
    number_of: [Option<u8>; 256],
    bits: Vec<u64>,
}

impl Places {
    fn new(a: &[u8], b: &[u8], words: usize) -> Places {
        let mut number_of = [None; 256];
        let mut count = 0_usize;
        for &byte in b {
            if number_of[usize::from(byte)].is_none() {
                number_of[usize::from(byte)] = Some(count as u8);
                count += 1;
            }
        }
        let mut bits = vec![0; count * words];
        for (i, &byte) in a.iter().enumerate() {
            if let Some(number) = number_of[usize::from(byte)] {
                bits[usize::from(number) * words + i / 64] |= 1 << (i % 64);
            }
        }
        Places { words, number_of, bits }
    }

    fn of(&self, byte: u8) -> Option<&[u64]> {
        let start = usize::from(self.number_of[usize::from(byte)]?) * self.words;
        Some(&self.bits[start..start + self.words])
    }
}

enum Step {
    /// `a[i]` and `b[j]` are part of the subsequence.
    Match(usize, usize),
    /// They are not.
    Skip,
}

/// Walks from the end of both strings to the beginning along the subsequence that Redis picks among equally
/// long ones: where bytes differ and both ways are as good, `b` is shortened.
///
/// Costs a row's worth of counting for each byte of `b`, so no more than computing the rows.
fn trace(a: &[u8], b: &[u8], rows: &Rows, mut visit: impl FnMut(Step)) {
    let (mut i, mut j) = (a.len(), b.len());
    // LCS(i, j) and LCS(i, j - 1).
    let (mut here, mut above) = (rows.length, rows.length(i, j.saturating_sub(1)));
    while i > 0 && j > 0 {
        if a[i - 1] == b[j - 1] {
            (i, j) = (i - 1, j - 1);
            visit(Step::Match(i, j));
            here -= 1;
            above = rows.length(i, j.saturating_sub(1));
            continue;
        }
        let left = here - rows.step(i - 1, j);
        if left > above {
            i -= 1;
            here = left;
            above -= rows.step(i, j - 1);
        } else {
            j -= 1;
            here = above;
            above = rows.length(i, j.saturating_sub(1));
        }
        visit(Step::Skip);
    }
}

/// Replies with the runs of matches from the last to the first.
fn write_matches(a: &[u8], b: &[u8], rows: &Rows, options: &Options, reply: &mut Reply) {
    /// A run of matches: its first place in each string and its length.
    type Run = (usize, usize, usize);
    let matches = reply.defer();
    let mut count = 0;
    let mut run: Option<Run> = None;
    let mut finish = |run: Option<Run>| {
        let Some((i, j, length)) = run else { return };
        if (length as i64) < options.match_length_min {
            return;
        }
        count += 1;
        reply.array(if options.with_match_lengths { 3 } else { 2 });
        for start in [i, j] {
            reply.array(2);
            reply.integer(start as i64);
            reply.integer((start + length - 1) as i64);
        }
        if options.with_match_lengths {
            reply.integer(length as i64);
        }
    };
    trace(a, b, rows, |step| match step {
        Step::Match(i, j) => run = Some((i, j, run.map_or(1, |(_, _, length)| length + 1))),
        Step::Skip => finish(run.take()),
    });
    finish(run);
    reply.finish_array(matches, count);
}

/// The registration table.
pub(crate) const COMMANDS: &[DataSpec] = &[DataSpec::new("lcs", -3, lcs, Flags::READONLY)
    .categories(Categories::STRING)
    .keys(&[KeySpec::range(1, 1, 1, KeyFlags::RO.or(KeyFlags::ACCESS))])
    .docs(
        Group::String,
        "7.0.0",
        "O(N*M) for strings of N and M bytes",
        "Finds the longest common subsequence of two strings.",
    )
    .arguments(
        "key1:key#0 key2:key#0 len:pure-token@LEN? idx:pure-token@IDX? \
            min-match-len:integer@MINMATCHLEN? withmatchlen:pure-token@WITHMATCHLEN?",
    )];

#[cfg(test)]
mod tests {
    use super::*;

    /// The plain table of Redis's form, and the walk through it.
    fn plain(a: &[u8], b: &[u8]) -> (Vec<(usize, usize)>, usize) {
        let mut table = vec![vec![0_usize; b.len() + 1]; a.len() + 1];
        for i in 1..=a.len() {
            for j in 1..=b.len() {
                table[i][j] = if a[i - 1] == b[j - 1] {
                    table[i - 1][j - 1] + 1
                } else {
                    table[i - 1][j].max(table[i][j - 1])
                };
            }
        }
        let (mut i, mut j) = (a.len(), b.len());
        let mut matches = Vec::new();
        while i > 0 && j > 0 {
            if a[i - 1] == b[j - 1] {
                (i, j) = (i - 1, j - 1);
                matches.push((i, j));
            } else if table[i - 1][j] > table[i][j - 1] {
                i -= 1;
            } else {
                j -= 1;
            }
        }
        (matches, table[a.len()][b.len()])
    }

    #[test]
    fn finds_what_the_plain_table_finds() {
        let mut state = 11_u64;
        let mut random = |bound: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % bound
        };
        for round in 0..400 {
            let letters = 1 + random(6);
            let (a_len, b_len) = (random(200), random(200));
            let a: Vec<u8> = (0..a_len).map(|_| b'a' + random(letters) as u8).collect();
            let b: Vec<u8> = (0..b_len).map(|_| b'a' + random(letters) as u8).collect();
            let (expected, length) = plain(&a, &b);
            let rows = Rows::compute(&a, &b, true);
            let mut matches = Vec::new();
            trace(&a, &b, &rows, |step| {
                if let Step::Match(i, j) = step {
                    matches.push((i, j));
                }
            });
            assert_eq!((matches, rows.length), (expected, length), "round {round}");
        }
    }
}
