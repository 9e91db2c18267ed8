//! JSON text becomes the packed form in one pass.
//!
//! The grammar is RFC 8259's. Errors have the texts and positions of serde_json, which RedisJSON replies as
//! they are. Of members with equal keys the last one's value stays, in the place of the first. Text behind
//! the value is ignored, as in RedisJSON.
//!
//! Costs O(n), and O(n log n) for the keys of one object. Recursion is as deep as the text is nested, up to a
//! limit.

use std::fmt;

use smallvec::SmallVec;

use super::packed::{self, ARRAY, FALSE, NULL, Number, OBJECT, TRUE};
use super::plain;
use crate::key_hash::KeyHasher;

/// How deeply a client's text may be nested: one more than the containers in each other.
pub const TEXT_DEPTH_MAX: usize = 128;

/// Why a text is no JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// It is not UTF-8, behind the value perhaps.
    NotUtf8,
    /// It breaks the grammar or a limit.
    Invalid {
        /// What is wrong.
        reason: &'static str,
        /// The line, from 1 on.
        line: usize,
        /// The byte of the line, from 1 on.
        column: usize,
    },
}

impl fmt::Display for ParseError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParseError::NotUtf8 => formatter.write_str("it is not UTF-8"),
            ParseError::Invalid { reason, line, column } => {
                write!(formatter, "{reason} at line {line} column {column}")
            }
        }
    }
}

/// Parses the value that the text begins with into its packed form. `depth_max` is the depth at which it is
/// refused.
pub(super) fn parse(text: &[u8], depth_max: usize) -> Result<Vec<u8>, ParseError> {
    Parser::new(text, depth_max).run(false)
}

/// The same, and refuses whatever stands behind the value but spaces.
pub(super) fn parse_whole(text: &[u8], depth_max: usize) -> Result<Vec<u8>, ParseError> {
    Parser::new(text, depth_max).run(true)
}

fn locate(text: &[u8], reason: &'static str, at: usize) -> ParseError {
    let before = &text[..at.min(text.len())];
    let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
    let start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
    ParseError::Invalid { reason, line, column: before.len() - start }
}

const EOF_VALUE: &str = "EOF while parsing a value";
const EOF_STRING: &str = "EOF while parsing a string";
const EOF_LIST: &str = "EOF while parsing a list";
const EOF_OBJECT: &str = "EOF while parsing an object";
const INVALID_NUMBER: &str = "invalid number";
const TRAILING_COMMA: &str = "trailing comma";

/// The end of an attempt: why, and how many bytes of the text count as read.
struct Failure {
    reason: &'static str,
    at: usize,
}

/// A key of an open object.
#[derive(Clone, Copy)]
struct Key {
    /// Its length, first and last byte: equal for equal keys.
    tag: u32,
    /// Where it stands in what is written.
    at: usize,
}

/// Positions are handed on and returned, so that they stay in registers. `None` is the end of the attempt.
struct Parser<'a> {
    text: &'a [u8],
    out: Vec<u8>,
    /// Those of all open objects.
    keys: SmallVec<[Key; 16]>,
    depth_left: usize,
    failure: Option<Failure>,
}

impl<'a> Parser<'a> {
    fn new(text: &'a [u8], depth_max: usize) -> Self {
        Parser {
            text,
            out: Vec::with_capacity(text.len() + 16),
            keys: SmallVec::new(),
            depth_left: depth_max,
            failure: None,
        }
    }

    fn run(mut self, is_whole: bool) -> Result<Vec<u8>, ParseError> {
        let (first, at) = self.peek(0);
        let end = self.value(first, at).and_then(|end| match self.peek(end) {
            (Some(_), at) if is_whole => self.at_next(at, "trailing characters"),
            _ => Some(end),
        });
        // Of a value that was read, the strings have been checked, and the rest is ASCII.
        if std::str::from_utf8(&self.text[end.unwrap_or(0)..]).is_err() {
            return Err(ParseError::NotUtf8);
        }
        match self.failure {
            None => Ok(self.out),
            Some(Failure { reason, at }) => Err(locate(self.text, reason, at)),
        }
    }

    #[inline(always)]
    fn byte(&self, at: usize) -> Option<u8> {
        self.text.get(at).copied()
    }

    /// The next byte behind spaces, and where it stands.
    #[inline(always)]
    fn peek(&self, at: usize) -> (Option<u8>, usize) {
        match self.byte(at) {
            Some(byte) if byte > b' ' => (Some(byte), at),
            // One space is usual, behind a comma or a colon.
            Some(b' ') => match self.byte(at + 1) {
                Some(byte) if byte > b' ' => (Some(byte), at + 1),
                _ => self.peek_behind_spaces(at),
            },
            _ => self.peek_behind_spaces(at),
        }
    }

    #[inline(never)]
    fn peek_behind_spaces(&self, mut at: usize) -> (Option<u8>, usize) {
        loop {
            match self.byte(at) {
                Some(b' ' | b'\n' | b'\t' | b'\r') => at += 1,
                other => return (other, at),
            }
        }
    }

    /// An error at the byte that stands at `at`.
    #[cold]
    fn at_next<T>(&mut self, at: usize, reason: &'static str) -> Option<T> {
        self.behind((at + 1).min(self.text.len()), reason)
    }

    /// An error behind the byte before `at`.
    #[cold]
    fn behind<T>(&mut self, at: usize, reason: &'static str) -> Option<T> {
        self.failure = Some(Failure { reason, at });
        None
    }

    /// The value at `at`, of which the first byte is given.
    fn value(&mut self, first: Option<u8>, at: usize) -> Option<usize> {
        match first {
            Some(b'"') => self.string(at + 1),
            Some(b'{') => self.object(at),
            Some(b'[') => self.array(at),
            Some(b'-' | b'0'..=b'9') => self.number(at),
            Some(b'n') => self.word(at, b"ull", NULL),
            Some(b't') => self.word(at, b"rue", TRUE),
            Some(b'f') => self.word(at, b"alse", FALSE),
            Some(_) => self.at_next(at, "expected value"),
            None => self.at_next(at, EOF_VALUE),
        }
    }

    #[inline]
    fn word(&mut self, at: usize, rest: &[u8], tag: u8) -> Option<usize> {
        for (index, expected) in rest.iter().enumerate() {
            let Some(byte) = self.byte(at + 1 + index) else {
                return self.behind(self.text.len(), EOF_VALUE);
            };
            if byte != *expected {
                return self.behind(at + 2 + index, "expected ident");
            }
        }
        self.out.push(tag);
        Some(at + 1 + rest.len())
    }

    /// Counts a bracket. Returns where it ends.
    #[inline]
    fn descend(&mut self, at: usize) -> Option<usize> {
        self.depth_left -= 1;
        if self.depth_left == 0 {
            return self.at_next(at, "recursion limit exceeded");
        }
        Some(at + 1)
    }

    fn array(&mut self, at: usize) -> Option<usize> {
        let at = self.descend(at)?;
        let start = packed::begin(&mut self.out);
        let mut count = 0;
        let (mut first, mut at) = self.peek(at);
        if first != Some(b']') {
            loop {
                if first.is_none() {
                    return self.at_next(at, if count == 0 { EOF_LIST } else { EOF_VALUE });
                }
                let end = self.value(first, at)?;
                count += 1;
                let (next, end) = self.peek(end);
                match next {
                    Some(b',') => {
                        (first, at) = self.peek(end + 1);
                        if first == Some(b']') {
                            return self.at_next(at, TRAILING_COMMA);
                        }
                    }
                    Some(b']') => {
                        at = end;
                        break;
                    }
                    Some(_) => return self.at_next(end, "expected `,` or `]`"),
                    None => return self.at_next(end, EOF_LIST),
                }
            }
        }
        self.depth_left += 1;
        packed::end(start, ARRAY, count, &mut self.out);
        Some(at + 1)
    }

    fn object(&mut self, at: usize) -> Option<usize> {
        let mut at = self.descend(at)?;
        let start = packed::begin(&mut self.out);
        let first_key = self.keys.len();
        let mut is_first = true;
        loop {
            let (first, key_at) = self.peek(at);
            match first {
                Some(b'"') => {}
                Some(b'}') if is_first => {
                    at = key_at + 1;
                    break;
                }
                Some(b'}') => return self.at_next(key_at, TRAILING_COMMA),
                Some(_) => return self.at_next(key_at, "key must be a string"),
                None if is_first => return self.at_next(key_at, EOF_OBJECT),
                None => return self.at_next(key_at, EOF_VALUE),
            }
            is_first = false;
            let key = self.out.len();
            let end = self.string(key_at + 1)?;
            // What takes as many bytes and one stands there as it was read.
            let read = &self.text[key_at + 1..end - 1];
            let is_read = read.len() <= packed::SHORT_STRING_MAX && self.out.len() - key == read.len() + 1;
            let text = if is_read { read } else { packed::string(&self.out[key..]) };
            self.keys.push(Key { tag: key_tag(text), at: key });
            let (colon, colon_at) = self.peek(end);
            match colon {
                Some(b':') => {}
                Some(_) => return self.at_next(colon_at, "expected `:`"),
                None => return self.at_next(colon_at, EOF_OBJECT),
            }
            let (first, value_at) = self.peek(colon_at + 1);
            let end = self.value(first, value_at)?;
            let (next, next_at) = self.peek(end);
            at = next_at + 1;
            match next {
                Some(b',') => {}
                Some(b'}') => break,
                Some(_) => return self.at_next(next_at, "expected `,` or `}`"),
                None => return self.at_next(next_at, EOF_OBJECT),
            }
        }
        self.depth_left += 1;
        let mut count = self.keys.len() - first_key;
        if has_equal_keys(&self.out, &self.keys[first_key..]) {
            count = keep_last_values(&mut self.out, &self.keys[first_key..]);
        }
        self.keys.truncate(first_key);
        packed::end(start, OBJECT, count, &mut self.out);
        Some(at)
    }

    /// A string, whose quote stands before `at`.
    #[inline(always)]
    fn string(&mut self, at: usize) -> Option<usize> {
        if let Some(chunk) = self.text[at..].first_chunk::<{ plain::STEP }>() {
            let look = plain::look(chunk);
            if chunk.get(look.plain) == Some(&b'"') && !look.is_beyond_ascii {
                packed::put_short_string(chunk, look.plain, &mut self.out);
                return Some(at + look.plain + 1);
            }
        }
        self.long_string(at)
    }

    #[inline(never)]
    fn long_string(&mut self, first: usize) -> Option<usize> {
        let (mut at, start) = (first, packed::begin_string(&mut self.out));
        let mut is_beyond_ascii = false;
        loop {
            let is_beyond;
            (at, is_beyond) = plain::append(self.text, at, self.text.len(), &mut self.out);
            is_beyond_ascii |= is_beyond;
            match self.byte(at) {
                Some(b'"') => break,
                Some(b'\\') => at = self.escape(at + 1)?,
                Some(_) => {
                    let reason = "control character (\\u0000-\\u001F) found while parsing a string";
                    return self.behind(at + 1, reason);
                }
                None => return self.behind(at, EOF_STRING),
            }
        }
        if is_beyond_ascii && std::str::from_utf8(&self.text[first..at]).is_err() {
            return self.behind(at, "not UTF-8");
        }
        packed::end_string(start, &mut self.out);
        Some(at + 1)
    }

    fn escape(&mut self, at: usize) -> Option<usize> {
        let Some(letter) = self.byte(at) else { return self.behind(at, EOF_STRING) };
        let byte = match letter {
            b'"' | b'\\' | b'/' => letter,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let (character, end) = self.code_point(at + 1)?;
                self.out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                return Some(end);
            }
            _ => return self.behind(at + 1, "invalid escape"),
        };
        self.out.push(byte);
        Some(at + 1)
    }

    /// The character that stands for itself in hexadecimal, and where that ends.
    fn code_point(&mut self, at: usize) -> Option<(char, usize)> {
        const LONE: &str = "lone leading surrogate in hex escape";
        let first = self.hex(at)?;
        let mut at = at + 4;
        if (0xdc00..0xe000).contains(&first) {
            return self.behind(at, LONE);
        }
        let mut code = first;
        if (0xd800..0xdc00).contains(&first) {
            for expected in *b"\\u" {
                let Some(byte) = self.byte(at) else { return self.behind(at, EOF_STRING) };
                at += 1;
                if byte != expected {
                    return self.behind(at, "unexpected end of hex escape");
                }
            }
            let second = self.hex(at)?;
            at += 4;
            if !(0xdc00..0xe000).contains(&second) {
                return self.behind(at, LONE);
            }
            code = 0x1_0000 + ((first - 0xd800) << 10 | (second - 0xdc00));
        }
        match char::from_u32(code) {
            Some(character) => Some((character, at)),
            None => self.behind(at, "invalid unicode code point"),
        }
    }

    /// The value of four hexadecimal digits.
    fn hex(&mut self, at: usize) -> Option<u32> {
        let Some(digits) = self.text.get(at..at + 4) else {
            return self.behind(self.text.len(), EOF_STRING);
        };
        let mut value = 0;
        for &digit in digits {
            let Some(digit) = char::from(digit).to_digit(16) else {
                return self.behind(at + 4, "invalid escape");
            };
            value = value << 4 | digit;
        }
        Some(value)
    }

    fn number(&mut self, start: usize) -> Option<usize> {
        let is_negative = self.text[start] == b'-';
        let first = start + usize::from(is_negative);
        let (mut digits, mut at) = match self.byte(first) {
            Some(b'0') => match self.byte(first + 1) {
                Some(b'0'..=b'9') => return self.at_next(first + 1, INVALID_NUMBER),
                _ => (0, first + 1),
            },
            Some(b'1'..=b'9') => self.digits(0, first),
            None => return self.behind(first, EOF_VALUE),
            Some(_) => return self.behind(first + 1, INVALID_NUMBER),
        };
        let (mut count, mut scale, mut has_exponent) = (at - first, 0, false);
        let is_integer = !matches!(self.byte(at), Some(b'.' | b'e' | b'E'));
        if !is_integer {
            let whole = at;
            (digits, at) = self.fraction(digits, whole)?;
            scale = (at - whole).saturating_sub(1);
            count += scale;
            let end = self.exponent(at)?;
            has_exponent = end != at;
            at = end;
        }
        let is_exact = count <= DIGITS_MAX && !has_exponent && !(is_negative && digits == 0);
        let integer = if is_negative { (digits as i64).wrapping_neg() } else { digits as i64 };
        if is_exact && is_integer {
            packed::put_number(Number::Integer(integer), &mut self.out);
            return Some(at);
        }
        if is_exact && count <= UNIQUE_DIGITS && self.decimal(integer, scale) {
            return Some(at);
        }
        let Some(number) = wide_number(&self.text[start..at], is_integer) else {
            return self.behind(at, "number out of range");
        };
        packed::put_number(number, &mut self.out);
        Some(at)
    }

    /// The double `integer` / 10^`scale`, if it is encoded in this way.
    #[inline]
    fn decimal(&mut self, mut integer: i64, mut scale: usize) -> bool {
        while scale > 0 && integer % 10 == 0 {
            (integer, scale) = (integer / 10, scale - 1);
        }
        packed::put_decimal(integer, scale, &mut self.out)
    }

    /// Reads digits behind others. Returns their value, modulo 2^64, and where they end.
    #[inline]
    fn digits(&self, mut value: u64, mut at: usize) -> (u64, usize) {
        while let Some(digit @ b'0'..=b'9') = self.byte(at) {
            value = value.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
            at += 1;
        }
        (value, at)
    }

    /// A fraction behind these digits. Returns all digits, and where it ends.
    #[inline]
    fn fraction(&mut self, digits: u64, at: usize) -> Option<(u64, usize)> {
        if self.byte(at) != Some(b'.') {
            return Some((digits, at));
        }
        let (digits, end) = self.digits(digits, at + 1);
        if end == at + 1 {
            let is_end = end == self.text.len();
            return self.at_next(end, if is_end { EOF_VALUE } else { INVALID_NUMBER });
        }
        Some((digits, end))
    }

    /// Where the exponent ends that may stand here.
    #[inline]
    fn exponent(&mut self, at: usize) -> Option<usize> {
        if !matches!(self.byte(at), Some(b'e' | b'E')) {
            return Some(at);
        }
        let first = at + 1 + usize::from(matches!(self.byte(at + 1), Some(b'+' | b'-')));
        let (_, end) = self.digits(0, first);
        if end == first {
            if end == self.text.len() {
                return self.behind(end, EOF_VALUE);
            }
            return self.behind(end + 1, INVALID_NUMBER);
        }
        Some(end)
    }
}

/// A number that the quick ways do not read; `None` if it is too large.
fn wide_number(text: &[u8], is_integer: bool) -> Option<Number> {
    let integer = || {
        let unsigned = || mantissa_number::parse_u64(text).map(Number::Unsigned);
        mantissa_number::parse_i64(text).map(Number::Integer).or_else(unsigned)
    };
    if let Some(number) = (is_integer && text != b"-0").then(integer).flatten() {
        return Some(number);
    }
    mantissa_number::parse_f64(text).filter(|value| value.is_finite()).map(Number::Double)
}

/// As many digits are below 2^63.
const DIGITS_MAX: usize = 18;
/// Different numbers of as many digits are different doubles.
const UNIQUE_DIGITS: usize = 15;

fn key_tag(key: &[u8]) -> u32 {
    let (first, last) = (key.first().copied().unwrap_or(0), key.last().copied().unwrap_or(0));
    (key.len() as u32) << 16 | u32::from(first) << 8 | u32::from(last)
}

/// Keys of one object up to this number are compared pair by pair.
const PAIRS_MAX: usize = 16;

fn has_equal_keys(out: &[u8], keys: &[Key]) -> bool {
    let text = |key: &Key| packed::string(&out[key.at..]);
    if keys.len() <= PAIRS_MAX {
        return keys.iter().enumerate().any(|(index, key)| {
            keys[..index].iter().any(|other| other.tag == key.tag && text(other) == text(key))
        });
    }
    let hasher = KeyHasher::of_this_run();
    let mut hashes: Vec<u64> = keys.iter().map(|key| hasher.hash(text(key)).0).collect();
    hashes.sort_unstable();
    hashes.windows(2).any(|pair| pair[0] == pair[1])
}

/// Gives each key the value that it has last, in the place where it stands first. The members from the first
/// key on are all that follows. Returns how many are left.
fn keep_last_values(out: &mut Vec<u8>, keys: &[Key]) -> usize {
    let start = keys.first().map_or(out.len(), |key| key.at);
    let members = out.split_off(start);
    let mut places = std::collections::HashMap::<&[u8], usize>::new();
    let mut kept: Vec<(&[u8], &[u8])> = Vec::new();
    for key in keys {
        let member = &members[key.at - start..];
        let (name, value) = member.split_at(packed::size(member));
        let value = &value[..packed::size(value)];
        match places.entry(name) {
            std::collections::hash_map::Entry::Occupied(place) => kept[*place.get()].1 = value,
            std::collections::hash_map::Entry::Vacant(place) => {
                place.insert(kept.len());
                kept.push((name, value));
            }
        }
    }
    kept.iter().for_each(|(name, value)| out.extend([*name, *value].into_iter().flatten()));
    kept.len()
}
