//! JSON text becomes the packed form in one pass.
//!
//! The grammar is RFC 8259's. Errors have the texts and positions of serde_json, which RedisJSON replies as
//! they are. Of members with equal keys the last one's value stays, in the place of the first. Text behind
//! the value is ignored, as in RedisJSON.
//!
//! Costs O(n), and O(n log n) for the keys of one object. Recursion is as deep as the text is nested, up to a
//! limit.

use std::fmt;
use std::num::NonZeroUsize;

use mantissa_number::leading_digits;
use mantissa_sys::utf8;
use smallvec::SmallVec;

use super::floats::FloatType;
use super::packed::{self, ARRAY, FALSE, NULL, Number, OBJECT, TRUE};
use super::plain::{self, Place, Sink};
use super::{TooLarge, bytes_max};
use crate::key_hash::KeyHasher;

/// How deeply a client's text may be nested: one more than the containers in each other.
pub const TEXT_DEPTH_MAX: usize = 128;

/// Why a text is no JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// It is not UTF-8, behind the value perhaps.
    NotUtf8,
    /// Its value takes more bytes than a document can have.
    TooLarge,
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
            ParseError::TooLarge => TooLarge.fmt(formatter),
            ParseError::Invalid { reason, line, column } => {
                write!(formatter, "{reason} at line {line} column {column}")
            }
        }
    }
}

/// Appends the packed form of the value that the text begins with. `depth_max` is the depth at which it is
/// refused. The elements of arrays of numbers are rounded to `floats`. What an error leaves behind `out` is
/// of no use.
pub(super) fn parse(
    text: &[u8],
    depth_max: usize,
    floats: Option<FloatType>,
    out: &mut Vec<u8>,
) -> Result<(), ParseError> {
    run(text, depth_max, false, floats, out)
}

/// The same, and refuses whatever stands behind the value but spaces.
pub(super) fn parse_whole(text: &[u8], depth_max: usize, out: &mut Vec<u8>) -> Result<(), ParseError> {
    run(text, depth_max, true, None, out)
}

fn run(
    text: &[u8],
    depth_max: usize,
    is_whole: bool,
    floats: Option<FloatType>,
    out: &mut Vec<u8>,
) -> Result<(), ParseError> {
    if !utf8::is_valid(text) {
        return Err(ParseError::NotUtf8);
    }
    let start = out.len();
    out.reserve(text.len() + ROOM);
    let (sink, place) = Sink::new(out);
    let mut parser = Parser {
        text,
        sink,
        keys: SmallVec::new(),
        depth_left: depth_max,
        header_sizes: [0; DEPTHS],
        floats,
        failure: None,
    };
    let (first, at) = parser.peek(0);
    let end = parser.value(first, at, place).and_then(|(end, place)| match parser.peek(end.get()) {
        (Some(_), at) if is_whole => parser.at_next(at, "trailing characters"),
        _ => Some(place),
    });
    match (end, parser.failure) {
        (Some(place), _) => parser.sink.finish(place),
        (None, Some(Failure { reason, at })) => return Err(locate(text, reason, at)),
        (None, None) => return Err(locate(text, EOF_VALUE, text.len())),
    }
    if out.len() - start > bytes_max() { Err(ParseError::TooLarge) } else { Ok(()) }
}

/// Bytes that the header of a container is expected to have, whose text has `left` bytes at most. Bodies of
/// texts up to these lengths mostly fit 255 and 65,535 bytes. If it has others, its body is moved.
fn first_header_size(left: usize) -> usize {
    match left {
        0..=320 => packed::HEADER_MIN,
        321..=80_000 => 5,
        _ => 9,
    }
}

/// Room for what is written in whole chunks.
const ROOM: usize = 32;

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
    /// What [`key_tag`] has of it.
    tag: u32,
    /// Where it stands in what is written.
    at: usize,
}

/// Where what follows begins in the text, and its place in what is written. `None` is the end of the attempt.
type Step = Option<(NonZeroUsize, Place)>;

/// The step to what follows at `at`, which is not 0.
#[inline(always)]
fn step(at: usize, place: Place) -> Step {
    NonZeroUsize::new(at).map(|at| (at, place))
}

struct Parser<'a, 'o> {
    /// It is UTF-8.
    text: &'a [u8],
    sink: Sink<'o>,
    /// Those of all open objects.
    keys: SmallVec<[Key; 16]>,
    depth_left: usize,
    /// For some depths the bytes of the header of the last container there, which the next is expected to
    /// have: where it has others, its contents are moved. 0 if there was none.
    header_sizes: [u8; DEPTHS],
    /// What the elements of arrays of numbers are rounded to.
    floats: Option<FloatType>,
    failure: Option<Failure>,
}

impl Parser<'_, '_> {
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

    /// The first byte of a member's value, whose key ends at `at`, and where it stands.
    #[inline(always)]
    fn behind_colon(&mut self, at: usize) -> Option<(Option<u8>, usize)> {
        match plain::chunk_at::<3>(self.text, at) {
            Some(&[b':', b' ', first]) if first > b' ' => return Some((Some(first), at + 2)),
            Some(&[b':', first, _]) if first > b' ' => return Some((Some(first), at + 1)),
            _ => {}
        }
        self.behind_any_colon(at)
    }

    #[inline(never)]
    fn behind_any_colon(&mut self, at: usize) -> Option<(Option<u8>, usize)> {
        match self.peek(at) {
            (Some(b':'), at) => Some(self.peek(at + 1)),
            (Some(_), at) => self.at_next(at, "expected `:`"),
            (None, at) => self.at_next(at, EOF_OBJECT),
        }
    }

    /// Where the next quote stands, if there is nothing but a comma and a space at most before it.
    #[inline(always)]
    fn behind_comma(&self, at: usize) -> Option<usize> {
        match plain::chunk_at::<3>(self.text, at) {
            Some(b", \"") => Some(at + 2),
            Some([b',', b'"', _]) => Some(at + 1),
            _ => None,
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
    #[inline(always)]
    fn value(&mut self, first: Option<u8>, at: usize, place: Place) -> Step {
        match first {
            Some(b'"') => self.string(at + 1, place),
            Some(b'-' | b'0'..=b'9') => self.number(at, place),
            _ => self.other(first, at, place),
        }
    }

    /// A value that is neither a string nor a number.
    fn other(&mut self, first: Option<u8>, at: usize, place: Place) -> Step {
        match first {
            Some(b'{') => self.object(at, place),
            Some(b'[') => self.array(at, place),
            Some(b'n') => self.word(at, place, b"ull", NULL),
            Some(b't') => self.word(at, place, b"rue", TRUE),
            Some(b'f') => self.word(at, place, b"alse", FALSE),
            Some(_) => self.at_next(at, "expected value"),
            None => self.at_next(at, EOF_VALUE),
        }
    }

    #[inline(always)]
    fn word<const N: usize>(&mut self, at: usize, place: Place, rest: &[u8; N], tag: u8) -> Step {
        if self.text[at + 1..].first_chunk::<N>() != Some(rest) {
            return self.wrong_word(at + 1, rest);
        }
        step(at + 1 + N, self.sink.byte(place, tag))
    }

    #[cold]
    fn wrong_word(&mut self, at: usize, rest: &[u8]) -> Step {
        for (index, expected) in rest.iter().enumerate() {
            let Some(byte) = self.byte(at + index) else {
                return self.behind(self.text.len(), EOF_VALUE);
            };
            if byte != *expected {
                return self.behind(at + 1 + index, "expected ident");
            }
        }
        None
    }

    /// Counts the bracket at `at`, and leaves bytes for a header. Returns how many, and the place behind.
    #[inline(always)]
    fn open(&mut self, at: usize, place: Place) -> Option<(usize, Place)> {
        self.depth_left -= 1;
        if self.depth_left == 0 {
            return self.at_next(at, "recursion limit exceeded");
        }
        let before = match self.header_sizes[self.depth_left % DEPTHS] {
            0 => first_header_size(self.text.len() - at),
            size => usize::from(size),
        };
        Some((before, packed::begin_in(&mut self.sink, before, place)))
    }

    /// Ends the container at `start`, for whose header `before` bytes have been left. `at` is where its text
    /// ends.
    #[inline(always)]
    fn close(&mut self, at: usize, start: usize, before: usize, kind: (u8, usize), place: Place) -> Step {
        let (place, size) = packed::end_in(&mut self.sink, start, before, kind, place);
        self.header_sizes[self.depth_left % DEPTHS] = size.max(packed::HEADER_MIN) as u8;
        self.depth_left += 1;
        step(at, place)
    }

    fn array(&mut self, open: usize, place: Place) -> Step {
        let start = self.sink.len(place);
        let (before, mut place) = self.open(open, place)?;
        let mut count = 0;
        let (mut first, mut at) = self.peek(open + 1);
        if first != Some(b']') {
            loop {
                if first.is_none() {
                    return self.at_next(at, if count == 0 { EOF_LIST } else { EOF_VALUE });
                }
                let (end, after) = self.value(first, at, place)?;
                (count, place) = (count + 1, after);
                let (next, end) = self.peek(end.get());
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
        if let Some(floats) = self.floats {
            place = self.as_floats(floats, open, start + before, place)?;
        }
        self.close(at + 1, start, before, (ARRAY, count), place)
    }

    /// Rounds the elements of an array whose bracket stands at `open` in the text, if all are numbers.
    /// Returns the place behind them. They begin at `start` in what is written, and end at `place`.
    #[inline(never)]
    fn as_floats(&mut self, floats: FloatType, open: usize, start: usize, place: Place) -> Option<Place> {
        let body = self.sink.written(place)[start..].to_vec();
        let mut numbers: SmallVec<[f64; 64]> = SmallVec::new();
        let mut rest = body.as_slice();
        while !rest.is_empty() {
            let Some(number) = packed::number(rest) else { return Some(place) };
            numbers.push(number.to_f64());
            rest = &rest[packed::size(rest)..];
        }
        let mut place = self.sink.back(place, body.len());
        for (index, number) in numbers.into_iter().enumerate() {
            let Some(rounded) = floats.round(number) else {
                let end = self.end_of_number(open + 1, index);
                return self.behind(end, floats.out_of_range());
            };
            place = self.put_number(packed::number_bytes(Number::Double(rounded)), place);
        }
        Some(place)
    }

    /// Where a number of an array of numbers ends, whose elements begin at `at`.
    fn end_of_number(&self, mut at: usize, index: usize) -> usize {
        for _ in 0..index {
            at += 1 + self.text[at..].iter().take_while(|&&byte| byte != b',').count();
        }
        let (_, at) = self.peek(at);
        let is_behind = |byte: &u8| matches!(byte, b',' | b']' | ..=b' ');
        at + self.text[at..].iter().take_while(|byte| !is_behind(byte)).count()
    }

    fn object(&mut self, open: usize, place: Place) -> Step {
        let start = self.sink.len(place);
        let (before, mut place) = self.open(open, place)?;
        let mut at = open + 1;
        let mut keys = ObjectKeys { first: self.keys.len(), seen: 0, may_be_equal: false };
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
            let (end, behind_key) = self.key(key_at + 1, place)?;
            self.note_key(&mut keys, place, behind_key);
            let (first, value_at) = self.behind_colon(end.get())?;
            let (end, after) = self.value(first, value_at, behind_key)?;
            place = after;
            if let Some(first) = self.behind_comma(end.get()) {
                at = first;
                continue;
            }
            let (next, next_at) = self.peek(end.get());
            at = next_at + 1;
            match next {
                Some(b',') => {}
                Some(b'}') => break,
                Some(_) => return self.at_next(next_at, "expected `,` or `}`"),
                None => return self.at_next(next_at, EOF_OBJECT),
            }
        }
        let mut count = self.keys.len() - keys.first;
        if keys.may_be_equal || count > PAIRS_MAX {
            (count, place) = self.without_equal_keys(keys.first, place);
        }
        self.keys.truncate(keys.first);
        self.close(at, start, before, (OBJECT, count), place)
    }

    /// Notes the key that stands between two places.
    #[inline(always)]
    fn note_key(&mut self, keys: &mut ObjectKeys, from: Place, to: Place) {
        let at = self.sink.len(from);
        let tag = key_tag(&self.sink.written(to)[at..]);
        let bit = 1 << (tag.wrapping_mul(0x9e37_79b1) >> 26);
        if keys.seen & bit != 0 {
            keys.may_be_equal |= self.keys[keys.first..].iter().take(PAIRS_MAX).any(|key| key.tag == tag);
        }
        keys.seen |= bit;
        self.keys.push(Key { tag, at });
    }

    /// Leaves out members whose keys come again. Returns how many are left, and the place behind them.
    #[cold]
    fn without_equal_keys(&mut self, first: usize, place: Place) -> (usize, Place) {
        let keys = &self.keys[first..];
        let written = self.sink.written(place);
        if !has_equal_keys(written, keys) {
            return (keys.len(), place);
        }
        let (count, len) = keep_last_values(written, keys);
        let removed = written.len() - len;
        (count, self.sink.back(place, removed))
    }

    /// The string that a key is, whose quote stands before `at`.
    #[inline(always)]
    fn key(&mut self, at: usize, place: Place) -> Step {
        // Most keys are shorter than a step.
        if let Some(chunk) = plain::chunk_at::<{ plain::STEP }>(self.text, at) {
            let plain = plain::plain_of_step(chunk);
            if chunk.get(plain) == Some(&b'"') {
                let tag = packed::SHORT_STRING + plain as u8;
                return step(at + plain + 1, self.sink.tagged(place, tag, chunk, plain));
            }
        }
        self.long_string(at, place)
    }

    /// A string, whose quote stands before `at`.
    #[inline(always)]
    fn string(&mut self, at: usize, place: Place) -> Step {
        if let Some(chunk) = plain::chunk_at::<{ 2 * plain::STEP }>(self.text, at) {
            let plain = plain::plain_of_two(chunk);
            if chunk.get(plain) == Some(&b'"') {
                let tag = packed::SHORT_STRING + plain as u8;
                return step(at + plain + 1, self.sink.tagged(place, tag, chunk, plain));
            }
        }
        self.long_string(at, place)
    }

    #[inline(never)]
    fn long_string(&mut self, at: usize, start: Place) -> Step {
        let place = self.sink.byte(start, 0);
        let (end, place) = self.sink.plain(place, self.text, at, self.text.len());
        match self.byte(end) {
            Some(b'"') => step(end + 1, self.end_string(start, 1, false, place)),
            Some(b'\\') => self.escaped_string(end, start, place),
            other => self.wrong_string(other, end),
        }
    }

    #[cold]
    fn wrong_string(&mut self, byte: Option<u8>, at: usize) -> Step {
        match byte {
            Some(_) => {
                self.behind(at + 1, "control character (\\u0000-\\u001F) found while parsing a string")
            }
            None => self.behind(at, EOF_STRING),
        }
    }

    /// A string that begins at the place `start`, from the backslash at `at` on. What precedes that has been
    /// written behind one byte.
    fn escaped_string(&mut self, mut at: usize, start: Place, mut place: Place) -> Step {
        // A quote or a line feed asks for an escape in what is printed too: such a string has a header of two
        // bytes at least.
        let is_escaped = |&letter: &u8| SHORT_ESCAPES[usize::from(letter)] != 0 && letter != b'/';
        let mut header = 1;
        if self.text.get(at + 1).is_some_and(is_escaped) {
            place = self.widen(start, header, 2, place);
            header = 2;
        }
        let mut needs_escape = false;
        loop {
            match self.byte(at) {
                Some(b'"') => {
                    return step(at + 1, self.end_string(start, header, needs_escape, place));
                }
                Some(b'\\') => {
                    let letter = self.byte(at + 1).unwrap_or(0);
                    let byte = SHORT_ESCAPES[usize::from(letter)];
                    if byte != 0 {
                        needs_escape |= letter != b'/';
                        place = self.sink.byte(place, byte);
                        at += 2;
                    } else {
                        let (character, end) = self.escape(at + 1)?;
                        let mut bytes = [0; 4];
                        let len = character.encode_utf8(&mut bytes).len();
                        needs_escape |= plain::is_special(bytes[0]);
                        place = self.sink.put(place, &bytes, len);
                        at = end;
                    }
                }
                other => return self.wrong_string(other, at),
            }
            (at, place) = self.sink.plain(place, self.text, at, self.text.len());
        }
    }

    /// Ends a string whose text stands between `before` bytes at `start` and `place`. Its text is moved where
    /// the header has another length.
    #[inline]
    fn end_string(&mut self, start: Place, before: usize, needs_escape: bool, place: Place) -> Place {
        let at = self.sink.len(start);
        let len = self.sink.len(place) - at - before;
        let (header, size) = packed::string_header(len, needs_escape);
        let place = if size == before { place } else { self.widen(start, before, size, place) };
        self.sink.written(place)[at..at + size].copy_from_slice(&header[..size]);
        place
    }

    /// Moves what stands behind `before` bytes at `start` behind `after` bytes, at most 5.
    fn widen(&mut self, start: Place, before: usize, after: usize, place: Place) -> Place {
        let (from, end) = (self.sink.len(start) + before, self.sink.len(place));
        debug_assert!(before < after, "only a string that needs an escape has two bytes before");
        let place = self.sink.put(place, &[0; 4], after - before);
        let to = self.sink.len(start) + after;
        self.sink.written(place).copy_within(from..end, to);
        place
    }

    /// The character that an escape stands for which is not short, and where that ends. `at` is behind the
    /// backslash.
    fn escape(&mut self, at: usize) -> Option<(char, usize)> {
        match self.byte(at) {
            Some(b'u') => self.code_point(at + 1),
            Some(_) => self.behind(at + 1, "invalid escape"),
            None => self.behind(at, EOF_STRING),
        }
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
        for (index, &digit) in digits.iter().enumerate() {
            let Some(digit) = char::from(digit).to_digit(16) else {
                return self.behind(at + index + 1, "invalid escape");
            };
            value = value << 4 | digit;
        }
        Some(value)
    }

    #[inline(never)]
    fn number(&mut self, start: usize, place: Place) -> Step {
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
            return step(at, self.put_number(packed::integer_bytes(integer), place));
        }
        if is_exact
            && count <= UNIQUE_DIGITS
            && let Some(bytes) = decimal(integer, scale)
        {
            return step(at, self.put_number(bytes, place));
        }
        self.wide_number(start, at, is_integer, place)
    }

    /// A number that the quick ways do not read.
    #[inline(never)]
    fn wide_number(&mut self, start: usize, end: usize, is_integer: bool, place: Place) -> Step {
        let Some(number) = wide_number(&self.text[start..end], is_integer) else {
            let end = exponent_overflow(&self.text[start..end]).map_or(end, |read| start + read);
            return self.behind(end, "number out of range");
        };
        step(end, self.put_number(packed::number_bytes(number), place))
    }

    #[inline(always)]
    fn put_number(
        &mut self,
        packed::NumberBytes { tag, rest, len }: packed::NumberBytes,
        place: Place,
    ) -> Place {
        self.sink.tagged(place, tag, &rest, len)
    }

    /// Reads digits behind others. Returns their value, modulo 2^64, and where they end.
    #[inline(always)]
    fn digits(&self, mut value: u64, mut at: usize) -> (u64, usize) {
        const POWERS: [u64; 16] =
            [1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 0, 0, 0, 0, 0, 0, 0];
        while let Some(chunk) = self.text.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
            let (part, count) = leading_digits(*chunk);
            value = value.wrapping_mul(POWERS[count & 15]).wrapping_add(part);
            at += count;
            if count < 8 {
                return (value, at);
            }
        }
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

/// The place behind the digit of an exponent that leaves the range of an `i32`, if one does. Errors name it,
/// as those of RedisJSON's parser do.
#[cold]
fn exponent_overflow(number: &[u8]) -> Option<usize> {
    let exponent = number.iter().position(|byte| matches!(byte, b'e' | b'E'))?;
    let mut value = 0_i32;
    for (at, byte) in number.iter().enumerate().skip(exponent).filter(|(_, byte)| byte.is_ascii_digit()) {
        match value.checked_mul(10).and_then(|value| value.checked_add(i32::from(byte - b'0'))) {
            Some(longer) => value = longer,
            None => return Some(at + 1),
        }
    }
    None
}

/// What the letters behind a backslash stand for that are escapes of their own; 0 of all others.
static SHORT_ESCAPES: [u8; 256] = {
    let mut escapes = [0; 256];
    escapes[b'"' as usize] = b'"';
    escapes[b'\\' as usize] = b'\\';
    escapes[b'/' as usize] = b'/';
    escapes[b'b' as usize] = 8;
    escapes[b'f' as usize] = 12;
    escapes[b'n' as usize] = b'\n';
    escapes[b'r' as usize] = b'\r';
    escapes[b't' as usize] = b'\t';
    escapes
};

/// The double `integer` / 10^`scale`, if it is encoded in this way.
#[inline]
fn decimal(mut integer: i64, mut scale: usize) -> Option<packed::NumberBytes> {
    while scale > 0 && integer % 10 == 0 {
        (integer, scale) = (integer / 10, scale - 1);
    }
    packed::decimal_bytes(integer, scale)
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

/// The length, the second and the last byte of a key in packed form, of which equal keys have one.
#[inline(always)]
fn key_tag(key: &[u8]) -> u32 {
    let (second, last) = (key.get(1).copied().unwrap_or(0), key.last().copied().unwrap_or(0));
    (key.len() as u32) << 16 | u32::from(second) << 8 | u32::from(last)
}

/// Depths that are told apart where the sizes of headers are expected. A power of two.
const DEPTHS: usize = 16;

/// What is known of the keys of an open object.
struct ObjectKeys {
    /// The place of its first key among those of all open objects.
    first: usize,
    /// A bit for each tag that a key has.
    seen: u64,
    /// Two of the first [`PAIRS_MAX`] keys have one tag.
    may_be_equal: bool,
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
/// key on are all that follows. Returns how many are left, and the bytes up to their end.
fn keep_last_values(written: &mut [u8], keys: &[Key]) -> (usize, usize) {
    let start = keys.first().map_or(written.len(), |key| key.at);
    let members = written[start..].to_vec();
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
    let joined = kept.iter().flat_map(|(name, value)| [*name, *value]).collect::<Vec<_>>().concat();
    written[start..start + joined.len()].copy_from_slice(&joined);
    (kept.len(), start + joined.len())
}
