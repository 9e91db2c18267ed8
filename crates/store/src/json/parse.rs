//! JSON text becomes the packed form in one pass.
//!
//! The grammar is RFC 8259's. Errors have the texts and positions of serde_json, which RedisJSON replies as
//! they are. Of members with equal keys the last one's value stays, in the place of the first. Text behind
//! the value is ignored, as in RedisJSON.
//!
//! Costs O(n), and O(n log n) for the keys of one object. Recursion is as deep as the text is nested, up to a
//! limit.

use std::fmt;

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

type Step<T = ()> = Result<T, Failure>;

/// A key of an open object.
#[derive(Clone, Copy)]
struct Key {
    /// Its length, first and last byte: equal for equal keys.
    tag: u32,
    /// Where it stands in what is written.
    at: usize,
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    out: Vec<u8>,
    /// Those of all open objects.
    keys: Vec<Key>,
    depth_left: usize,
}

impl<'a> Parser<'a> {
    fn new(text: &'a [u8], depth_max: usize) -> Self {
        Parser {
            text,
            at: 0,
            out: Vec::with_capacity(text.len() + 16),
            keys: Vec::new(),
            depth_left: depth_max,
        }
    }

    fn run(mut self, is_whole: bool) -> Result<Vec<u8>, ParseError> {
        let outcome = self.value().and_then(|()| match self.peek() {
            Some(_) if is_whole => self.at_next("trailing characters"),
            _ => Ok(()),
        });
        // Of a value that was read, the strings have been checked, and the rest is ASCII.
        let unchecked = if outcome.is_ok() { &self.text[self.at..] } else { self.text };
        if std::str::from_utf8(unchecked).is_err() {
            return Err(ParseError::NotUtf8);
        }
        match outcome {
            Ok(()) => Ok(self.out),
            Err(Failure { reason, at }) => Err(locate(self.text, reason, at)),
        }
    }

    #[inline]
    fn peek(&mut self) -> Option<u8> {
        loop {
            match self.text.get(self.at) {
                Some(b' ' | b'\n' | b'\t' | b'\r') => self.at += 1,
                other => return other.copied(),
            }
        }
    }

    /// An error at the byte that comes next.
    #[cold]
    fn at_next<T>(&self, reason: &'static str) -> Step<T> {
        Err(Failure { reason, at: (self.at + 1).min(self.text.len()) })
    }

    /// An error behind the byte that came last.
    #[cold]
    fn behind<T>(&self, reason: &'static str) -> Step<T> {
        Err(Failure { reason, at: self.at })
    }

    fn value(&mut self) -> Step {
        match self.peek() {
            Some(b'"') => {
                self.at += 1;
                self.string()
            }
            Some(b'{') => self.object(),
            Some(b'[') => self.array(),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b'n') => self.word(b"ull", NULL),
            Some(b't') => self.word(b"rue", TRUE),
            Some(b'f') => self.word(b"alse", FALSE),
            Some(_) => self.at_next("expected value"),
            None => self.at_next(EOF_VALUE),
        }
    }

    fn word(&mut self, rest: &[u8], tag: u8) -> Step {
        self.at += 1;
        for expected in rest {
            let Some(byte) = self.text.get(self.at) else { return self.behind(EOF_VALUE) };
            self.at += 1;
            if byte != expected {
                return self.behind("expected ident");
            }
        }
        self.out.push(tag);
        Ok(())
    }

    fn descend(&mut self) -> Step {
        self.depth_left -= 1;
        if self.depth_left == 0 {
            return self.at_next("recursion limit exceeded");
        }
        self.at += 1;
        Ok(())
    }

    fn array(&mut self) -> Step {
        self.descend()?;
        let start = packed::begin(&mut self.out);
        let mut count = 0;
        if self.peek() == Some(b']') {
            self.at += 1;
        } else {
            loop {
                if self.peek().is_none() {
                    return self.at_next(if count == 0 { EOF_LIST } else { EOF_VALUE });
                }
                self.value()?;
                count += 1;
                match self.peek() {
                    Some(b',') => {
                        self.at += 1;
                        if self.peek() == Some(b']') {
                            return self.at_next(TRAILING_COMMA);
                        }
                    }
                    Some(b']') => {
                        self.at += 1;
                        break;
                    }
                    Some(_) => return self.at_next("expected `,` or `]`"),
                    None => return self.at_next(EOF_LIST),
                }
            }
        }
        self.depth_left += 1;
        packed::end(start, ARRAY, count, &mut self.out);
        Ok(())
    }

    fn object(&mut self) -> Step {
        self.descend()?;
        let start = packed::begin(&mut self.out);
        let first_key = self.keys.len();
        let mut is_first = true;
        loop {
            match self.peek() {
                Some(b'}') if is_first => {
                    self.at += 1;
                    break;
                }
                Some(b'"') => self.at += 1,
                Some(b'}') => return self.at_next(TRAILING_COMMA),
                Some(_) => return self.at_next("key must be a string"),
                None if is_first => return self.at_next(EOF_OBJECT),
                None => return self.at_next(EOF_VALUE),
            }
            is_first = false;
            let at = self.out.len();
            self.string()?;
            self.keys.push(Key { tag: key_tag(packed::string(&self.out[at..])), at });
            match self.peek() {
                Some(b':') => self.at += 1,
                Some(_) => return self.at_next("expected `:`"),
                None => return self.at_next(EOF_OBJECT),
            }
            self.value()?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    break;
                }
                Some(_) => return self.at_next("expected `,` or `}`"),
                None => return self.at_next(EOF_OBJECT),
            }
        }
        self.depth_left += 1;
        let mut count = self.keys.len() - first_key;
        if has_equal_keys(&self.out, &self.keys[first_key..]) {
            count = keep_last_values(&mut self.out, &self.keys[first_key..]);
        }
        self.keys.truncate(first_key);
        packed::end(start, OBJECT, count, &mut self.out);
        Ok(())
    }

    /// A string, its quote read.
    #[inline]
    fn string(&mut self) -> Step {
        let (first, start) = (self.at, packed::begin_string(&mut self.out));
        let mut is_beyond_ascii = false;
        loop {
            let (at, is_beyond) = plain::append(self.text, self.at, self.text.len(), &mut self.out);
            self.at = at;
            is_beyond_ascii |= is_beyond;
            match self.text.get(at) {
                Some(b'"') => break,
                Some(b'\\') => {
                    self.at += 1;
                    self.escape()?;
                }
                Some(_) => {
                    self.at += 1;
                    return self.behind("control character (\\u0000-\\u001F) found while parsing a string");
                }
                None => return self.behind(EOF_STRING),
            }
        }
        if is_beyond_ascii && std::str::from_utf8(&self.text[first..self.at]).is_err() {
            return self.behind("not UTF-8");
        }
        self.at += 1;
        packed::end_string(start, &mut self.out);
        Ok(())
    }

    fn escape(&mut self) -> Step {
        let Some(&letter) = self.text.get(self.at) else { return self.behind(EOF_STRING) };
        self.at += 1;
        let byte = match letter {
            b'"' | b'\\' | b'/' => letter,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let character = self.code_point()?;
                self.out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(());
            }
            _ => return self.behind("invalid escape"),
        };
        self.out.push(byte);
        Ok(())
    }

    fn code_point(&mut self) -> Step<char> {
        const LONE: &str = "lone leading surrogate in hex escape";
        let first = self.hex()?;
        if (0xdc00..0xe000).contains(&first) {
            return self.behind(LONE);
        }
        let mut code = first;
        if (0xd800..0xdc00).contains(&first) {
            for expected in *b"\\u" {
                let Some(&byte) = self.text.get(self.at) else { return self.behind(EOF_STRING) };
                self.at += 1;
                if byte != expected {
                    return self.behind("unexpected end of hex escape");
                }
            }
            let second = self.hex()?;
            if !(0xdc00..0xe000).contains(&second) {
                return self.behind(LONE);
            }
            code = 0x1_0000 + ((first - 0xd800) << 10 | (second - 0xdc00));
        }
        char::from_u32(code).map_or_else(|| self.behind("invalid unicode code point"), Ok)
    }

    fn hex(&mut self) -> Step<u32> {
        let Some(digits) = self.text.get(self.at..self.at + 4) else {
            self.at = self.text.len();
            return self.behind(EOF_STRING);
        };
        self.at += 4;
        let mut value = 0;
        for &digit in digits {
            let Some(digit) = char::from(digit).to_digit(16) else { return self.behind("invalid escape") };
            value = value << 4 | digit;
        }
        Ok(value)
    }

    fn number(&mut self) -> Step {
        let start = self.at;
        let is_negative = self.text[start] == b'-';
        self.at += usize::from(is_negative);
        let first = self.at;
        let mut digits = 0;
        match self.text.get(self.at) {
            Some(b'0') => {
                self.at += 1;
                if self.text.get(self.at).is_some_and(u8::is_ascii_digit) {
                    return self.at_next(INVALID_NUMBER);
                }
            }
            Some(b'1'..=b'9') => digits = self.digits(0),
            None => return self.behind(EOF_VALUE),
            Some(_) => {
                self.at += 1;
                return self.behind(INVALID_NUMBER);
            }
        }
        let (mut count, mut scale, mut has_exponent) = (self.at - first, 0, false);
        let is_integer = !matches!(self.text.get(self.at), Some(b'.' | b'e' | b'E'));
        if !is_integer {
            (digits, scale) = self.fraction(digits)?;
            count += scale;
            has_exponent = self.exponent()?;
        }
        let is_exact = count <= DIGITS_MAX && !has_exponent && !(is_negative && digits == 0);
        let integer = if is_negative { (digits as i64).wrapping_neg() } else { digits as i64 };
        if is_exact && is_integer {
            packed::put_number(Number::Integer(integer), &mut self.out);
            return Ok(());
        }
        if is_exact && count <= UNIQUE_DIGITS && self.decimal(integer, scale) {
            return Ok(());
        }
        let number = self.wide_number(&self.text[start..self.at], is_integer)?;
        packed::put_number(number, &mut self.out);
        Ok(())
    }

    /// The double `integer` / 10^`scale`, if it is encoded in this way.
    #[inline]
    fn decimal(&mut self, mut integer: i64, mut scale: usize) -> bool {
        while scale > 0 && integer % 10 == 0 {
            (integer, scale) = (integer / 10, scale - 1);
        }
        packed::put_decimal(integer, scale, &mut self.out)
    }

    fn wide_number(&self, text: &[u8], is_integer: bool) -> Step<Number> {
        let integer = || {
            let unsigned = || mantissa_number::parse_u64(text).map(Number::Unsigned);
            mantissa_number::parse_i64(text).map(Number::Integer).or_else(unsigned)
        };
        if let Some(number) = (is_integer && text != b"-0").then(integer).flatten() {
            return Ok(number);
        }
        match mantissa_number::parse_f64(text) {
            Some(value) if value.is_finite() => Ok(Number::Double(value)),
            _ => self.behind("number out of range"),
        }
    }

    /// Reads digits behind others. Returns their value, modulo 2^64.
    #[inline]
    fn digits(&mut self, mut value: u64) -> u64 {
        while let Some(&digit @ b'0'..=b'9') = self.text.get(self.at) {
            value = value.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
            self.at += 1;
        }
        value
    }

    /// A fraction behind these digits. Returns all digits, and how many are in the fraction.
    fn fraction(&mut self, digits: u64) -> Step<(u64, usize)> {
        if self.text.get(self.at) != Some(&b'.') {
            return Ok((digits, 0));
        }
        self.at += 1;
        let first = self.at;
        let digits = self.digits(digits);
        if self.at == first {
            let is_end = self.at == self.text.len();
            return self.at_next(if is_end { EOF_VALUE } else { INVALID_NUMBER });
        }
        Ok((digits, self.at - first))
    }

    /// Whether there is an exponent.
    fn exponent(&mut self) -> Step<bool> {
        if !matches!(self.text.get(self.at), Some(b'e' | b'E')) {
            return Ok(false);
        }
        self.at += 1;
        self.at += usize::from(matches!(self.text.get(self.at), Some(b'+' | b'-')));
        let first = self.at;
        self.digits(0);
        if self.at == first {
            if self.at == self.text.len() {
                return self.behind(EOF_VALUE);
            }
            self.at += 1;
            return self.behind(INVALID_NUMBER);
        }
        Ok(true)
    }
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
