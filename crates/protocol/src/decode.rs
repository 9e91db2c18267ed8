//! Reading replies, as a client.
//!
//! The decoder keeps its position in a reply that arrives in parts, and decodes no byte twice. It does not
//! recurse; aggregates nest up to [`NESTING_MAX`] deep. Memory grows with what has arrived, not with what a
//! count promises.

use std::fmt;

use mantissa_number::parse_i64;

use crate::double::parse_double;
use crate::value::Value;

/// How deep aggregates may nest.
pub const NESTING_MAX: usize = 512;

/// Why bytes are not a reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DecodeError {
    /// No type begins with this byte.
    UnknownType(u8),
    /// A line or a string does not end with CR LF.
    MissingLineEnd,
    /// Not a length.
    InvalidLength,
    /// Not an integer.
    InvalidInteger,
    /// Not a double.
    InvalidDouble,
    /// Neither `t` nor `f`.
    InvalidBoolean,
    /// A null that is not empty.
    InvalidNull,
    /// Not an integer in decimal.
    InvalidBigNumber,
    /// A verbatim text without its format.
    InvalidVerbatim,
    /// A part or the end of a stream where there is none.
    UnexpectedStreamPart,
    /// Aggregates deeper than [`NESTING_MAX`].
    TooDeep,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            DecodeError::UnknownType(byte) => {
                return write!(formatter, "no type of reply begins with '{}'", byte.escape_ascii());
            }
            DecodeError::MissingLineEnd => "a part of the reply does not end with CR LF",
            DecodeError::InvalidLength => "invalid length in the reply",
            DecodeError::InvalidInteger => "invalid integer in the reply",
            DecodeError::InvalidDouble => "invalid double in the reply",
            DecodeError::InvalidBoolean => "invalid boolean in the reply",
            DecodeError::InvalidNull => "invalid null in the reply",
            DecodeError::InvalidBigNumber => "invalid big number in the reply",
            DecodeError::InvalidVerbatim => "a verbatim string without its format in the reply",
            DecodeError::UnexpectedStreamPart => "a part of a stream outside of one in the reply",
            DecodeError::TooDeep => "the reply is nested too deeply",
        };
        formatter.write_str(text)
    }
}

impl std::error::Error for DecodeError {}

/// Decodes replies.
#[derive(Default)]
pub struct Decoder {
    /// The aggregates that are open, the outermost first.
    open: Vec<Open>,
    /// The first byte not decoded yet.
    at: usize,
    /// From here on the end of the line at `at` is to be looked for.
    searched: usize,
}

/// An aggregate of which elements are still to come.
struct Open {
    kind: Kind,
    /// How many elements are still to come; `None` if an end mark will tell.
    remaining: Option<usize>,
    elements: Vec<Value>,
}

enum Kind {
    Array,
    Map,
    Set,
    Push,
    /// Attributes, of which keys and values are still to come.
    Attributes,
    /// The value after these attributes.
    Attributed(Vec<(Value, Value)>),
    /// The parts of a string.
    Parts,
}

/// What one step found.
enum Found {
    /// A value without elements.
    Value(Value),
    /// The header of an aggregate.
    Open(Kind, Option<usize>),
    /// The end mark of an aggregate or string.
    End,
}

/// `Ok(None)`: more bytes are needed.
type Step<T> = Result<Option<T>, DecodeError>;

impl Decoder {
    /// Decodes the reply at the start of `input` and says how many bytes it takes; `None` if it goes on
    /// beyond. Then come again with the same bytes and more after them. An error is final for the connection;
    /// the decoder forgets what it has seen.
    pub fn decode(&mut self, input: &[u8]) -> Result<Option<(Value, usize)>, DecodeError> {
        match self.advance(input) {
            Ok(None) => Ok(None),
            Ok(Some(value)) => {
                let size = self.at;
                *self = Decoder::default();
                Ok(Some((value, size)))
            }
            Err(error) => {
                *self = Decoder::default();
                Err(error)
            }
        }
    }

    /// Whether no part of a reply is waiting for the rest.
    pub fn is_idle(&self) -> bool {
        self.at == 0 && self.searched == 0
    }

    fn advance(&mut self, input: &[u8]) -> Step<Value> {
        loop {
            let complete = match self.read(input)? {
                None => return Ok(None),
                Some(Found::Value(value)) => self.place(value),
                Some(Found::Open(kind, remaining)) => self.open(kind, remaining)?,
                Some(Found::End) => self.end()?,
            };
            if complete.is_some() {
                return Ok(complete);
            }
        }
    }

    /// Adds a value to the aggregate that is open, and completes those that it completes. Returns the reply
    /// if that is complete.
    fn place(&mut self, mut value: Value) -> Option<Value> {
        while let Some(open) = self.open.last_mut() {
            open.elements.push(value);
            open.remaining = open.remaining.map(|remaining| remaining - 1);
            if open.remaining != Some(0) {
                return None;
            }
            value = self.close()?;
        }
        Some(value)
    }

    /// Begins an aggregate, which may be complete already.
    fn open(&mut self, kind: Kind, remaining: Option<usize>) -> Step<Value> {
        if self.open.len() == NESTING_MAX {
            return Err(DecodeError::TooDeep);
        }
        // What a count promises may never come.
        let elements = Vec::with_capacity(remaining.unwrap_or(0).min(1024));
        self.open.push(Open { kind, remaining, elements });
        if remaining != Some(0) {
            return Ok(None);
        }
        Ok(self.close().and_then(|value| self.place(value)))
    }

    /// The end mark of a stream.
    fn end(&mut self) -> Step<Value> {
        match self.open.last() {
            Some(Open { remaining: None, kind: Kind::Map | Kind::Attributes, elements })
                if elements.len() % 2 != 0 =>
            {
                Err(DecodeError::InvalidLength)
            }
            Some(Open { remaining: None, .. }) => Ok(self.close().and_then(|value| self.place(value))),
            _ => Err(DecodeError::UnexpectedStreamPart),
        }
    }

    /// Makes a value of the innermost aggregate, all elements of which have come. `None` for attributes, as
    /// their value is still to come.
    fn close(&mut self) -> Option<Value> {
        let Open { kind, mut elements, .. } = self.open.pop()?;
        Some(match kind {
            Kind::Array => Value::Array(elements),
            Kind::Set => Value::Set(elements),
            Kind::Push => Value::Push(elements),
            Kind::Map => Value::Map(pairs(elements)),
            Kind::Attributes => {
                let kind = Kind::Attributed(pairs(elements));
                self.open.push(Open { kind, remaining: Some(1), elements: Vec::new() });
                return None;
            }
            Kind::Attributed(attributes) => Value::Attribute { attributes, value: Box::new(elements.pop()?) },
            Kind::Parts => {
                Value::Bulk(elements.iter().filter_map(Value::as_bytes).collect::<Vec<_>>().concat())
            }
        })
    }

    /// Reads one scalar, header or mark, and moves behind it.
    fn read(&mut self, input: &[u8]) -> Step<Found> {
        let Some((line, after)) = self.line(input)? else { return Ok(None) };
        let (&kind, text) = line.split_first().ok_or(DecodeError::UnknownType(b'\r'))?;
        let in_parts = matches!(self.open.last(), Some(Open { kind: Kind::Parts, .. }));
        if in_parts != (kind == b';') {
            return Err(DecodeError::UnexpectedStreamPart);
        }
        let found = match kind {
            b'$' | b'=' | b'!' | b';' => return self.read_string(kind, text, input, after),
            b'*' if text == b"-1" => Found::Value(Value::NullArray),
            b'*' => Found::Open(Kind::Array, parse_count(text)?),
            b'~' => Found::Open(Kind::Set, parse_count(text)?),
            b'>' => Found::Open(Kind::Push, parse_count(text)?),
            b'%' => Found::Open(Kind::Map, parse_pair_count(text)?),
            b'|' => Found::Open(Kind::Attributes, parse_pair_count(text)?),
            b'.' if text.is_empty() => Found::End,
            _ => Found::Value(parse_scalar(kind, text)?),
        };
        self.at = after;
        Ok(Some(found))
    }

    /// Reads a string whose length line ends at `start`.
    fn read_string(&mut self, kind: u8, text: &[u8], input: &[u8], start: usize) -> Step<Found> {
        match (kind, text) {
            (b'$', b"-1") => {
                self.at = start;
                return Ok(Some(Found::Value(Value::NullBulk)));
            }
            (b'$', b"?") => {
                self.at = start;
                return Ok(Some(Found::Open(Kind::Parts, None)));
            }
            (b';', b"0") => {
                self.at = start;
                return Ok(Some(Found::End));
            }
            _ => {}
        }
        let len = parse_len(text)?;
        let end = start.checked_add(len).ok_or(DecodeError::InvalidLength)?;
        let (Some(data), Some(line_end)) = (input.get(start..end), input.get(end..end.saturating_add(2)))
        else {
            return Ok(None);
        };
        if line_end != b"\r\n" {
            return Err(DecodeError::MissingLineEnd);
        }
        self.at = end + 2;
        Ok(Some(Found::Value(match (kind, data) {
            (b'!', _) => Value::BulkError(data.to_vec()),
            (b'=', [a, b, c, b':', text @ ..]) => {
                Value::Verbatim { format: [*a, *b, *c], text: text.to_vec() }
            }
            (b'=', _) => return Err(DecodeError::InvalidVerbatim),
            _ => Value::Bulk(data.to_vec()),
        })))
    }

    /// The line that has not been decoded yet, without its end, and where the next one starts.
    fn line<'a>(&mut self, input: &'a [u8]) -> Step<(&'a [u8], usize)> {
        let from = self.searched.max(self.at);
        let rest = input.get(from..).unwrap_or_default();
        let Some(found) = rest.iter().position(|&byte| byte == b'\r') else {
            self.searched = from + rest.len();
            return Ok(None);
        };
        self.searched = from + found;
        match input.get(self.searched + 1) {
            None => Ok(None),
            Some(b'\n') => Ok(Some((&input[self.at..self.searched], self.searched + 2))),
            Some(_) => Err(DecodeError::MissingLineEnd),
        }
    }
}

fn parse_scalar(kind: u8, text: &[u8]) -> Result<Value, DecodeError> {
    Ok(match kind {
        b'+' => Value::Simple(text.to_vec()),
        b'-' => Value::Error(text.to_vec()),
        b':' => Value::Integer(parse_integer(text).ok_or(DecodeError::InvalidInteger)?),
        b',' => Value::Double {
            value: parse_double(text).ok_or(DecodeError::InvalidDouble)?,
            text: text.to_vec(),
        },
        b'#' => Value::Boolean(match text {
            b"t" => true,
            b"f" => false,
            _ => return Err(DecodeError::InvalidBoolean),
        }),
        b'(' => Value::BigNumber(parse_big_number(text)?.to_vec()),
        b'_' if text.is_empty() => Value::Null,
        b'_' => return Err(DecodeError::InvalidNull),
        _ => return Err(DecodeError::UnknownType(kind)),
    })
}

/// An integer; the protocol allows a plus sign, which no server sends.
fn parse_integer(text: &[u8]) -> Option<i64> {
    match text {
        [b'+', digits @ ..] if !digits.starts_with(b"-") => parse_i64(digits),
        text => parse_i64(text),
    }
}

fn parse_big_number(text: &[u8]) -> Result<&[u8], DecodeError> {
    let digits = match text {
        [b'-' | b'+', digits @ ..] => digits,
        digits => digits,
    };
    let valid = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    if valid { Ok(text) } else { Err(DecodeError::InvalidBigNumber) }
}

fn parse_len(text: &[u8]) -> Result<usize, DecodeError> {
    parse_i64(text).and_then(|len| usize::try_from(len).ok()).ok_or(DecodeError::InvalidLength)
}

/// The count of an aggregate; `None` if an end mark will tell.
fn parse_count(text: &[u8]) -> Result<Option<usize>, DecodeError> {
    if text == b"?" { Ok(None) } else { parse_len(text).map(Some) }
}

/// The number of elements of an aggregate of pairs.
fn parse_pair_count(text: &[u8]) -> Result<Option<usize>, DecodeError> {
    let Some(count) = parse_count(text)? else { return Ok(None) };
    count.checked_mul(2).map(Some).ok_or(DecodeError::InvalidLength)
}

fn pairs(elements: Vec<Value>) -> Vec<(Value, Value)> {
    let mut elements = elements.into_iter();
    let mut pairs = Vec::with_capacity(elements.len() / 2);
    while let (Some(key), Some(value)) = (elements.next(), elements.next()) {
        pairs.push((key, value));
    }
    pairs
}
