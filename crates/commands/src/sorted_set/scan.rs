//! Iterating over members: ZSCAN.

use std::io::Write;

use mantissa_number::{format_u64, write_i64, write_score};
use mantissa_protocol::{Args, Reply};
use mantissa_store::listpack::Element;

use crate::access::Access;
use crate::collection_scan::{ScanOptions, Scanned, found_elements, write_scan};
use crate::error::Outcome;
use crate::scan::parse_cursor;

pub(super) fn zscan(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let cursor = parse_cursor(args.at(2))?;
    let Some(set) = access.sorted_set(args.at(1))? else {
        write_scan(reply, 0, 0, &Reply::default());
        return Ok(());
    };
    let options = ScanOptions::parse(args, Scanned::SortedSet)?;
    // In a listpack the score has the text that ZSCORE replies; else it is printed with all 17 digits.
    let write = if set.encoding() == "listpack" { write_score } else { write_all_digits };
    let mut found = found_elements(reply);
    let mut len = 0;
    let mut text = Vec::with_capacity(32);
    let next = options.walk(cursor, |cursor, visited| {
        set.scan(cursor, options.count(), |member, score| {
            *visited += 1;
            if !options.matches(Element::Bytes(member)) {
                return;
            }
            found.bulk(member);
            len += 1;
            if !options.names_only {
                text.clear();
                write(&mut text, score);
                found.bulk(&text);
                len += 1;
            }
        })
    });
    write_scan(reply, next, len, &found);
    Ok(())
}

/// Digits that tell any score from all others.
const DIGITS: usize = 17;

/// Prints a score with 17 significant digits, less trailing zeros, in the layout of C's `%.17g`.
fn write_all_digits(out: &mut Vec<u8>, score: f64) {
    if !score.is_finite() || score == 0.0 {
        return write_score(out, score);
    }
    if score.fract() == 0.0 && score.abs() < 1e17 {
        return write_i64(out, score as i64);
    }
    match decimals_of(score.abs()) {
        Some((integer, decimals, fraction)) => {
            if score < 0.0 {
                out.push(b'-');
            }
            out.extend_from_slice(format_u64(&mut [0; 20], integer));
            out.push(b'.');
            let mut buffer = [0; 20];
            let digits = format_u64(&mut buffer, fraction);
            out.resize(out.len() + decimals - digits.len(), b'0');
            let zeros = digits.iter().rev().take_while(|&&digit| digit == b'0').count();
            out.extend_from_slice(&digits[..digits.len() - zeros]);
        }
        None => format_all_digits(out, score),
    }
}

/// The integer part of a score that is none, how many decimals it has where 17 digits are printed, and these
/// as a number, rounded as they have to be; `None` for very large and small scores, and where rounding would
/// give more digits.
fn decimals_of(score: f64) -> Option<(u64, usize, u64)> {
    const MANTISSA_BITS: u32 = f64::MANTISSA_DIGITS - 1;
    const EXPONENT_BIAS: u32 = 1023;
    if !(1e-4..1e15).contains(&score) {
        return None;
    }
    let bits = score.to_bits();
    let mantissa = bits & ((1 << MANTISSA_BITS) - 1) | 1 << MANTISSA_BITS;
    // The score is the mantissa over two to this power: at most 52 + 14, and more than 0 as it has a
    // fraction.
    let shift = (EXPONENT_BIAS + MANTISSA_BITS).checked_sub((bits >> MANTISSA_BITS) as u32)?;
    let integer = mantissa.checked_shr(shift).unwrap_or(0);
    let fraction = u128::from(mantissa) - (u128::from(integer) << shift);
    let mut decimals = match integer {
        // As many as there are zeros before the first digit that counts come on top.
        0 => DIGITS + [1e-1, 1e-2, 1e-3].iter().filter(|&&bound| score < bound).count(),
        _ => DIGITS - 1 - integer.ilog10() as usize,
    };
    loop {
        // 53 bits of the fraction and 67 of the power of ten.
        let scaled = fraction * 10_u128.pow(decimals as u32);
        let (quotient, rest) = (scaled >> shift, scaled & ((1 << shift) - 1));
        let half = 1_u128 << (shift - 1);
        let rounded = quotient + u128::from(rest > half || (rest == half && quotient & 1 == 1));
        let first = if integer == 0 { 10_u128.pow(DIGITS as u32 - 1) } else { 0 };
        match rounded {
            // The bound itself is not a power of ten, so a score next to it may lie below that.
            _ if rounded < first && decimals < DIGITS + 3 => decimals += 1,
            _ if rounded >= 10_u128.pow(decimals.min(DIGITS) as u32) || rounded < first => return None,
            _ => return Some((integer, decimals, rounded as u64)),
        }
    }
}

/// The same as [`write_all_digits`] for any score that is a number and not 0.
fn format_all_digits(out: &mut Vec<u8>, score: f64) {
    let text = format!("{score:.16e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    // Writing to a vector does not fail.
    let _ = if (-4..17).contains(&exponent) {
        let decimals = usize::try_from(16 - exponent).unwrap_or(0);
        let text = format!("{score:.decimals$}");
        let text = if decimals > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
        out.write_all(text.as_bytes())
    } else {
        let digits = digits.trim_end_matches('0').trim_end_matches('.');
        let sign = if exponent < 0 { '-' } else { '+' };
        write!(out, "{digits}e{sign}{:02}", exponent.unsigned_abs())
    };
}

#[cfg(test)]
mod tests {
    use super::{decimals_of, format_all_digits, write_all_digits};

    #[test]
    fn prints_as_c_does() {
        let cases = [
            (0.1, "0.10000000000000001"),
            (3.0, "3"),
            (-0.0, "-0"),
            (1e300, "1.0000000000000001e+300"),
            (1e22, "1e+22"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (12345678.5, "12345678.5"),
            (1e-4, "0.0001"),
            (1e-5, "1.0000000000000001e-05"),
            (-1.5e-7, "-1.4999999999999999e-07"),
            (f64::NEG_INFINITY, "-inf"),
            (123456789012345680.0, "1.2345678901234568e+17"),
        ];
        for (score, expected) in cases {
            let mut out = Vec::new();
            write_all_digits(&mut out, score);
            assert_eq!(String::from_utf8_lossy(&out), expected);
        }
    }

    #[test]
    fn the_short_way_prints_what_the_long_way_does() {
        let mut state = 7_u64;
        let mut short = 0;
        for round in 0..200_000_u32 {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            let fraction = (state >> 11) as f64 / (1_u64 << 53) as f64;
            let score = match round % 6 {
                0 => f64::from_bits(state),
                1 => fraction * 1e6,
                2 => fraction,
                3 => (fraction * 1e4).round() / 1e4,
                4 => fraction * 10_f64.powi((state % 22) as i32 - 5),
                _ => -f64::from_bits(10_f64.powi((round % 24) as i32 - 6).to_bits() + state % 5 - 2),
            };
            if !score.is_finite() || score == 0.0 {
                continue;
            }
            let (mut one, mut other) = (Vec::new(), Vec::new());
            write_all_digits(&mut one, score);
            format_all_digits(&mut other, score);
            assert_eq!(String::from_utf8_lossy(&one), String::from_utf8_lossy(&other), "{score:e}");
            short += u32::from(score.fract() != 0.0 && decimals_of(score.abs()).is_some());
        }
        assert!(short > 100_000, "{short}");
    }
}
