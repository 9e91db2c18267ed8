//! Reading arguments.

use mantissa_protocol::Args;

use crate::error::{Error, Outcome};

/// A 64-bit integer.
pub fn integer(argument: &[u8]) -> Outcome<i64> {
    mantissa_number::parse_i64(argument).ok_or(Error::NOT_INTEGER)
}

/// A 64-bit integer, with an error text of its own.
pub fn integer_or(argument: &[u8], error: &'static str) -> Outcome<i64> {
    mantissa_number::parse_i64(argument).ok_or(Error::fixed(error))
}

/// An integer from `minimum` to `maximum`, with an error text of its own.
pub fn integer_in(argument: &[u8], minimum: i64, maximum: i64, error: &'static str) -> Outcome<i64> {
    let number = mantissa_number::parse_i64(argument).filter(|number| (minimum..=maximum).contains(number));
    number.ok_or(Error::fixed(error))
}

/// A 64-bit integer whose negative is one too.
pub fn negatable(argument: &[u8]) -> Outcome<i64> {
    match integer(argument)? {
        i64::MIN => Err(Error::new(format!(
            "ERR value is out of range, value must between {} and {}",
            -i64::MAX,
            i64::MAX
        ))),
        number => Ok(number),
    }
}

/// A number of 64 bits as Redis reads it: what is no integer of the usual form is left to C's `strtoull`,
/// which skips blanks and a sign and negates.
pub fn unsigned(text: &[u8]) -> Option<u64> {
    if let Some(number) = mantissa_number::parse_i64(text) {
        return u64::try_from(number).ok();
    }
    let blank = |byte: &u8| !matches!(byte, b' ' | b'\t'..=b'\r');
    let text = &text[text.iter().position(blank)?..];
    let (is_negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    if digits.is_empty() {
        return None;
    }
    let mut number = 0u64;
    for digit in digits {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
        number = number.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(if is_negative { number.wrapping_neg() } else { number })
}

/// A number, not NaN.
pub fn float(argument: &[u8]) -> Outcome<f64> {
    float_or(argument, "ERR value is not a valid float")
}

/// A number, not NaN, with an error text of its own.
pub fn float_or(argument: &[u8], error: &'static str) -> Outcome<f64> {
    mantissa_number::parse_score(argument).ok_or(Error::fixed(error))
}

/// Whether an argument is a keyword, whatever its case. `keyword` is in upper or lower case.
#[inline]
pub fn is(argument: &[u8], keyword: &str) -> bool {
    argument.eq_ignore_ascii_case(keyword.as_bytes())
}

/// The time at which a blocking command gives up: `argument` in seconds with a fraction, 0 for never. The
/// result is a Unix time in ms.
pub fn timeout(argument: &[u8], now_ms: i64) -> Outcome<Option<i64>> {
    // Redis reads timeouts with a wider exponent than a double's: what is beyond a double is a number, but
    // too large.
    let beyond = || match mantissa_number::LongDouble::parse(argument) {
        Some(_) => Error::fixed("ERR timeout is out of range"),
        None => Error::TIMEOUT_NOT_FLOAT,
    };
    let seconds = mantissa_number::parse_score(argument).ok_or_else(beyond)?;
    let ms = (seconds * 1000.0).ceil();
    if ms > i64::MAX as f64 || ms.is_nan() {
        return Err(Error::fixed("ERR timeout is out of range"));
    }
    if seconds < 0.0 {
        return Err(Error::TIMEOUT_NEGATIVE);
    }
    if ms == 0.0 {
        return Ok(None);
    }
    let deadline = now_ms.checked_add(ms as i64).ok_or(Error::fixed("ERR timeout is out of range"))?;
    Ok(Some(deadline))
}

/// The arguments of LMPOP, ZMPOP and their blocking forms from the number of keys on: elements are taken from
/// one side of the first key that is there.
pub(crate) struct ManyKeys<'a, S> {
    /// The keys.
    pub keys: Args<'a>,
    /// The side.
    pub side: S,
    /// Most elements to take.
    pub count: usize,
}

impl<'a, S> ManyKeys<'a, S> {
    /// Reads them from argument number `at` on; `side_of` reads a side.
    pub fn parse(args: Args<'a>, at: usize, side_of: impl FnOnce(&[u8]) -> Outcome<S>) -> Outcome<Self> {
        let key_count = integer_in(args.at(at), 1, i64::MAX, "ERR numkeys should be greater than 0")?;
        let after_keys = usize::try_from(key_count).unwrap_or(usize::MAX).saturating_add(at + 1);
        let side = side_of(args.get(after_keys).ok_or(Error::SYNTAX)?)?;
        let mut count = None;
        let mut options = args.from(after_keys + 1).iter();
        while let Some(option) = options.next() {
            let value = options.next().filter(|_| count.is_none() && is(option, "COUNT"));
            let error = "ERR count should be greater than 0";
            count = Some(integer_in(value.ok_or(Error::SYNTAX)?, 1, i64::MAX, error)?);
        }
        let count = usize::try_from(count.unwrap_or(1)).unwrap_or(usize::MAX);
        Ok(ManyKeys { keys: args.range(at + 1..after_keys), side, count })
    }
}
