//! Iterating over members: ZSCAN.

use std::io::Write;

use mantissa_protocol::{Args, Reply};

use crate::access::Access;
use crate::error::{Error, Outcome};
use crate::glob;
use crate::parse;
use crate::scan::parse_cursor;

pub(super) fn zscan(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let mut cursor = parse_cursor(args.at(2))?;
    let set = access.sorted_set(args.at(1))?;
    let Some(set) = set else {
        reply.array(2);
        reply.bulk(b"0");
        reply.array(0);
        return Ok(());
    };
    let (mut pattern, mut wanted) = (None, 10);
    let mut options = args.from(3).iter();
    while let Some(option) = options.next() {
        if parse::is(option, "NOVALUES") {
            return Err(Error::fixed("ERR NOVALUES option can only be used in HSCAN"));
        }
        let value = options.next().ok_or(Error::SYNTAX)?;
        if parse::is(option, "COUNT") {
            let count = parse::integer(value)?;
            wanted = usize::try_from(count).ok().filter(|&count| count > 0).ok_or(Error::SYNTAX)?;
        } else if parse::is(option, "MATCH") {
            pattern = Some(value).filter(|&pattern| pattern != b"*");
        } else {
            return Err(Error::SYNTAX);
        }
    }
    // In a listpack the score has the text that ZSCORE replies; else it is printed with all 17 digits.
    let is_listpack = set.encoding() == "listpack";
    let mut members = Reply::new(reply.protocol());
    let (mut found, mut steps_left) = (0, wanted.saturating_mul(10));
    let mut text = Vec::with_capacity(32);
    loop {
        cursor = set.scan(cursor, |member, score| {
            if pattern.is_none_or(|pattern| glob::matches(pattern, member)) {
                text.clear();
                match is_listpack {
                    true => mantissa_number::write_score(&mut text, score),
                    false => write_all_digits(&mut text, score),
                }
                members.bulk(member);
                members.bulk(&text);
                found += 2;
            }
        });
        steps_left -= 1;
        if cursor == 0 || found >= wanted || steps_left == 0 {
            break;
        }
    }
    reply.array(2);
    reply.bulk(mantissa_number::format_u64(&mut [0; 20], cursor));
    reply.array(found);
    reply.raw(members.as_bytes());
    Ok(())
}

/// Prints a score with 17 significant digits, less trailing zeros, in the layout of C's `%.17g`.
fn write_all_digits(out: &mut Vec<u8>, score: f64) {
    if !score.is_finite() || score == 0.0 {
        return mantissa_number::write_score(out, score);
    }
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
    use super::write_all_digits;

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
}
