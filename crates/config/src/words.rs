//! What the parsers of all values share: what they may need to know, text, and sizes in bytes.

use super::refusal::Refusal;
use super::value::Value;

/// The reason for a wrong number of words.
pub const WRONG_COUNT: &str = "wrong number of arguments";

/// What parsing a value may need to know.
pub struct ParseContext<'a> {
    /// The value that the setting has now.
    pub current: &'a Value,
    /// Whether an earlier line of the same file or command line gave this directive: its values may add up.
    pub repeated: bool,
    /// The folder that relative folders start from.
    pub directory: &'a str,
}

/// Text must be UTF-8: it names files and hosts.
pub(super) fn text(word: &[u8]) -> Result<&str, Refusal> {
    std::str::from_utf8(word).map_err(|_| "argument must be UTF-8 text".into())
}

/// A size in bytes: digits and a unit of `b`, `k`, `kb`, `m`, `mb`, `g`, `gb` in any case. The units with a
/// `b` count by 1024, those without by 1000. No digits count as 0. The inner `None` is a size above 2^63 - 1.
pub(super) fn parse_memory(word: &[u8]) -> Option<Option<i64>> {
    let (number, scale) = split_memory(word)?;
    let add = |sum: i64, digit: &u8| sum.checked_mul(10)?.checked_add(i64::from(digit - b'0'));
    Some(number.iter().try_fold(0i64, add).and_then(|number| number.checked_mul(scale)))
}

/// The digits of a size, and the bytes of its unit.
pub(super) fn split_memory(word: &[u8]) -> Option<(&[u8], i64)> {
    let digits = word.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, unit) = word.split_at(digits);
    let scale: i64 = match unit.to_ascii_lowercase().as_slice() {
        b"" | b"b" => 1,
        b"k" => 1000,
        b"kb" => 1 << 10,
        b"m" => 1000 * 1000,
        b"mb" => 1 << 20,
        b"g" => 1000 * 1000 * 1000,
        b"gb" => 1 << 30,
        _ => return None,
    };
    Some((number, scale))
}
