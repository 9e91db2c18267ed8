//! Finding requests in a read buffer.
//!
//! A request is an array of bulk strings, or a line of words (see [`crate::inline`]). Its arguments are not
//! copied: the parser says where they lie. The caller owns the buffer and gives it to
//! [`RequestParser::parse_at`] together with the position where the next request starts, as often as more
//! bytes arrive:
//!
//! ```
//! use mantissa_protocol::{Args, Parsed, RequestLimits, RequestParser};
//!
//! let (input, limits) = (b"*1\r\n$4\r\nPING\r\nGET key\r\n*2\r\n$3", RequestLimits::default());
//! let (mut parser, mut slices, mut position) = (RequestParser::default(), Vec::new(), 0);
//! loop {
//!     let first = slices.len();
//!     match parser.parse_at(input, position, &limits, &mut slices) {
//!         Parsed::Request { consumed } => {
//!             let args = Args::new(input, &slices[first..]);
//!             assert!(args[0] == *b"PING" || args[0] == *b"GET");
//!             position += consumed;
//!         }
//!         Parsed::Inline { consumed, .. } | Parsed::Empty { consumed } => position += consumed,
//!         Parsed::Incomplete { .. } => break,  // keep input[position..], read more, come again
//!         Parsed::Error(error) => panic!("{error}"),  // reply error.message() and close
//!     }
//! }
//! assert_eq!((slices.len(), &input[position..]), (3, &b"*2\r\n$3"[..]));
//! ```
//!
//! Guarantees: a complete request in the buffer costs no allocation (beyond growing `slices`). An unfinished
//! one keeps its place in the parser, relative to its first byte, so the buffer may move meanwhile; bytes are
//! looked at once, however finely they arrive. A parser without an unfinished request is one null pointer.
//!
//! The byte pairs after lengths and bulk strings are taken on trust to be CR LF, as Redis does.

use mantissa_number::parse_i64;

use crate::args::{Args, OwnedArgs, Slice};
use crate::error::ProtocolError;
use crate::inline;

/// The longest line (a length, or an inline request) that may stay without its end, in bytes.
pub const LINE_SIZE_MAX: usize = 64 * 1024;

/// The most arguments of a request before authentication.
const UNAUTHENTICATED_ARGS_MAX: i64 = 10;
/// The longest argument before authentication, in bytes.
const UNAUTHENTICATED_BULK_LEN_MAX: usize = 16384;

/// What a request may be.
#[derive(Clone, Copy, Debug)]
pub struct RequestLimits {
    /// The longest argument in bytes: the setting `proto-max-bulk-len`.
    pub bulk_len_max: u64,
    /// Whether the client may send more than a login needs.
    pub authenticated: bool,
}

impl RequestLimits {
    /// For what comes from a process that is trusted.
    pub const TRUSTED: RequestLimits = RequestLimits { bulk_len_max: i64::MAX as u64, authenticated: true };
}

impl Default for RequestLimits {
    /// 512 MiB, authenticated.
    fn default() -> Self {
        RequestLimits { bulk_len_max: 512 << 20, authenticated: true }
    }
}

/// What was found at a position; `consumed` counts from there.
#[derive(PartialEq, Eq, Debug)]
pub enum Parsed {
    /// A request of at least one argument; its arguments were appended to `slices`.
    Request {
        /// The size of the request in bytes.
        consumed: usize,
    },
    /// An inline request with quotes, whose arguments are not in the buffer as they are.
    Inline {
        /// The size of the request in bytes.
        consumed: usize,
        /// Its arguments, at least one.
        arguments: OwnedArgs,
    },
    /// A request without arguments (an empty line, a count of zero or less): there is nothing to reply.
    Empty {
        /// The size of the request in bytes.
        consumed: usize,
    },
    /// The request goes on beyond the input. `slices` is as it was.
    Incomplete {
        /// How many bytes are missing to complete the current bulk string, 0 while its length is unknown.
        missing: usize,
    },
    /// Not a request. `slices` is as it was; the parser has forgotten the request, and the connection is to
    /// be closed.
    Error(ProtocolError),
}

/// Finds requests, and keeps its place in one that has not arrived completely.
#[derive(Default)]
pub struct RequestParser {
    unfinished: Option<Box<Unfinished>>,
}

/// What is known about a request of which a part has arrived. Offsets count from its first byte.
struct Unfinished {
    place: Place,
    /// The arguments found.
    slices: Vec<Slice>,
}

/// How far a request has been read.
#[derive(Clone, Copy)]
struct Place {
    /// The first byte not understood yet: the start of a line, or of a bulk string whose length is in
    /// `bulk_len`.
    at: usize,
    /// The bytes up to here are known not to end the line at `at`.
    searched: usize,
    /// How many arguments are still to come; 0 before their count is known.
    args_remaining: usize,
    /// The length of the bulk string at `at`, when its length line has been read.
    bulk_len: Option<usize>,
}

/// Why reading stopped before the end of the request.
enum Stop {
    Incomplete { place: Place, missing: usize },
    Error(ProtocolError),
}

/// Why reading stopped at a line.
enum LineStop {
    /// The end of the line has not arrived; it is not among the bytes before this.
    Incomplete {
        searched: usize,
    },
    Error(ProtocolError),
}

impl RequestParser {
    /// [`RequestParser::parse_at`] position 0.
    pub fn parse(&mut self, input: &[u8], limits: &RequestLimits, slices: &mut Vec<Slice>) -> Parsed {
        self.parse_at(input, 0, limits, slices)
    }

    /// Looks for a request that starts at `position`, and appends its arguments to `slices`, relative to the
    /// start of
    /// `input`: so a whole pipeline shares one buffer and one vector. After [`Parsed::Incomplete`] the caller
    /// comes again with the same bytes and more after them, at whatever position they are then.
    #[inline]
    pub fn parse_at(
        &mut self,
        input: &[u8],
        position: usize,
        limits: &RequestLimits,
        slices: &mut Vec<Slice>,
    ) -> Parsed {
        if self.unfinished.is_none() && input.get(position) == Some(&b'*') {
            self.parse_array(input, position, limits, slices)
        } else {
            self.parse_other(input.get(position..).unwrap_or_default(), position, limits, slices)
        }
    }

    /// Whether no part of a request is waiting for the rest.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.unfinished.is_none()
    }

    /// Bytes of an unfinished request that have been read: whole arguments, and the lines before the next.
    pub fn bytes_read(&self) -> usize {
        self.unfinished.as_ref().map_or(0, |unfinished| unfinished.place.at)
    }

    /// Bytes of memory held for an unfinished request.
    pub fn memory_usage(&self) -> usize {
        self.unfinished.as_ref().map_or(0, |unfinished| {
            size_of::<Unfinished>() + unfinished.slices.capacity() * size_of::<Slice>()
        })
    }

    /// Reads an array from its first byte: the path of nearly every request.
    fn parse_array(
        &mut self,
        input: &[u8],
        position: usize,
        limits: &RequestLimits,
        slices: &mut Vec<Slice>,
    ) -> Parsed {
        let first = slices.len();
        let place = Place { at: position, searched: position, args_remaining: 0, bulk_len: None };
        match read_array(input, position, place, limits, slices) {
            Ok(end) if slices.len() == first => Parsed::Empty { consumed: end - position },
            Ok(end) => Parsed::Request { consumed: end - position },
            Err(stop) => self.interrupted(stop, position, first, slices),
        }
    }

    /// Puts away what was found of a request, or forgets it.
    #[cold]
    fn interrupted(&mut self, stop: Stop, position: usize, first: usize, slices: &mut Vec<Slice>) -> Parsed {
        match stop {
            Stop::Incomplete { mut place, missing } => {
                place.at -= position;
                place.searched = place.searched.saturating_sub(position);
                let found = slices.drain(first..);
                let slices =
                    found.map(|slice| Slice { start: slice.start - position, len: slice.len }).collect();
                self.unfinished = Some(Box::new(Unfinished { place, slices }));
                Parsed::Incomplete { missing }
            }
            Stop::Error(error) => {
                slices.truncate(first);
                Parsed::Error(error)
            }
        }
    }

    /// An inline request, one of which a part has been read, or nothing at all. `request` starts at the
    /// request.
    #[cold]
    fn parse_other(
        &mut self,
        request: &[u8],
        position: usize,
        limits: &RequestLimits,
        slices: &mut Vec<Slice>,
    ) -> Parsed {
        match request.first() {
            None => Parsed::Incomplete { missing: 0 },
            Some(b'*') => self.resume_array(request, position, limits, slices),
            Some(_) => self.parse_inline(request, position, slices),
        }
    }

    /// Goes on with an array; its arguments go to `slices` once it is complete.
    fn resume_array(
        &mut self,
        request: &[u8],
        position: usize,
        limits: &RequestLimits,
        slices: &mut Vec<Slice>,
    ) -> Parsed {
        let mut unfinished = self.unfinished.take().unwrap_or_default();
        let Unfinished { place, slices: found } = &mut *unfinished;
        match read_array(request, 0, *place, limits, found) {
            Ok(consumed) if found.is_empty() => Parsed::Empty { consumed },
            Ok(consumed) => {
                let absolute = |slice: &Slice| Slice { start: slice.start + position, len: slice.len };
                slices.extend(found.iter().map(absolute));
                Parsed::Request { consumed }
            }
            Err(Stop::Incomplete { place: reached, missing }) => {
                *place = reached;
                self.unfinished = Some(unfinished);
                Parsed::Incomplete { missing }
            }
            Err(Stop::Error(error)) => Parsed::Error(error),
        }
    }

    fn parse_inline(&mut self, request: &[u8], position: usize, slices: &mut Vec<Slice>) -> Parsed {
        let searched = self.unfinished.take().map_or(0, |unfinished| unfinished.place.searched);
        let rest = request.get(searched..).unwrap_or_default();
        let Some(line_len) = rest.iter().position(|&byte| byte == b'\n').map(|found| searched + found) else {
            if request.len() > LINE_SIZE_MAX {
                return Parsed::Error(ProtocolError::TooBigInline);
            }
            let place = Place { at: 0, searched: request.len(), args_remaining: 0, bulk_len: None };
            self.unfinished = Some(Box::new(Unfinished { place, slices: Vec::new() }));
            return Parsed::Incomplete { missing: 0 };
        };
        if line_len > LINE_SIZE_MAX {
            return Parsed::Error(ProtocolError::TooBigInline);
        }
        let (line, consumed) = (&request[..line_len], line_len + 1);
        if inline::has_quotes(line) {
            return match inline::split_quoted(line) {
                Ok(words) => Parsed::Inline { consumed, arguments: words.into_iter().collect() },
                Err(inline::UnbalancedQuotes) => Parsed::Error(ProtocolError::UnbalancedQuotes),
            };
        }
        let first = slices.len();
        slices.extend(inline::split_plain(line).map(|(start, len)| Slice { start: position + start, len }));
        if slices.len() == first { Parsed::Empty { consumed } } else { Parsed::Request { consumed } }
    }
}

impl Default for Unfinished {
    fn default() -> Self {
        let place = Place { at: 0, searched: 0, args_remaining: 0, bulk_len: None };
        Unfinished { place, slices: Vec::new() }
    }
}

/// Reads an array on from `place`, appending its arguments to `slices`, and returns its end. `start` is where
/// it starts in `input`.
#[inline]
fn read_array(
    input: &[u8],
    start: usize,
    place: Place,
    limits: &RequestLimits,
    slices: &mut Vec<Slice>,
) -> Result<usize, Stop> {
    let Place { mut at, searched, mut args_remaining, mut bulk_len } = place;
    if at == start {
        (args_remaining, at) = match short_count(input, at) {
            Some(found) => found,
            None => match read_count(input, at, searched, limits) {
                Ok(found) => found,
                Err(stop) => return Err(stopped(stop, place)),
            },
        };
        // No more than can be there: an argument takes six bytes at least.
        slices.reserve(args_remaining.min((input.len() - at) / 6 + 1));
    }
    while args_remaining > 0 {
        let len = match bulk_len.take() {
            Some(len) => len,
            None => {
                let (len, data) = match short_bulk_len(input, at, limits) {
                    Some(found) => found,
                    None => match read_bulk_len(input, at, searched, limits) {
                        Ok(found) => found,
                        Err(stop) => {
                            return Err(stopped(stop, Place { at, searched, args_remaining, bulk_len }));
                        }
                    },
                };
                at = data;
                len
            }
        };
        let available = input.len().saturating_sub(at);
        let needed = len.saturating_add(2);
        if available < needed {
            let place = Place { at, searched, args_remaining, bulk_len: Some(len) };
            return Err(Stop::Incomplete { place, missing: needed - available });
        }
        slices.push(Slice { start: at, len });
        at += needed;
        args_remaining -= 1;
    }
    Ok(at)
}

#[cold]
fn stopped(stop: LineStop, place: Place) -> Stop {
    match stop {
        LineStop::Incomplete { searched } => {
            Stop::Incomplete { place: Place { searched, ..place }, missing: 0 }
        }
        LineStop::Error(error) => Stop::Error(error),
    }
}

/// [`read_count`] for one digit, the count of all but huge requests.
#[inline]
fn short_count(input: &[u8], at: usize) -> Option<(usize, usize)> {
    match input.get(at..)?.first_chunk()? {
        [_, digit @ b'1'..=b'9', b'\r', _] => Some((usize::from(digit - b'0'), at + 4)),
        _ => None,
    }
}

/// [`read_bulk_len`] for up to three digits. A bulk string takes six bytes at least, so it covers all short
/// ones that have arrived.
#[inline]
fn short_bulk_len(input: &[u8], at: usize, limits: &RequestLimits) -> Option<(usize, usize)> {
    let &[b'$', first, second, third, fourth, _] = input.get(at..)?.first_chunk()? else { return None };
    let digit = |byte: u8| usize::from(byte.wrapping_sub(b'0'));
    let (a, b, c) = (digit(first), digit(second), digit(third));
    let (len, data) = if second == b'\r' {
        (if a <= 9 { a } else { return None }, at + 4)
    } else if a.wrapping_sub(1) >= 9 || b > 9 {
        return None;
    } else if third == b'\r' {
        (a * 10 + b, at + 5)
    } else if fourth == b'\r' && c <= 9 {
        (a * 100 + b * 10 + c, at + 6)
    } else {
        return None;
    };
    (len as u64 <= limits.bulk_len_max).then_some((len, data))
}

/// Reads the count of an array at `at`, and returns it and where its elements start.
#[cold]
fn read_count(
    input: &[u8],
    at: usize,
    searched: usize,
    limits: &RequestLimits,
) -> Result<(usize, usize), LineStop> {
    let line = read_line(input, at, searched, ProtocolError::TooBigMultibulkCount)?;
    match parse_i64(&line[1..]) {
        Some(count) if count <= i64::from(i32::MAX) => {
            if count > UNAUTHENTICATED_ARGS_MAX && !limits.authenticated {
                return Err(LineStop::Error(ProtocolError::UnauthenticatedMultibulkLength));
            }
            Ok((usize::try_from(count).unwrap_or(0), at + line.len() + 2))
        }
        _ => Err(LineStop::Error(ProtocolError::InvalidMultibulkLength)),
    }
}

/// Reads the length line of a bulk string at `at`, and returns the length and where the string starts.
#[cold]
fn read_bulk_len(
    input: &[u8],
    at: usize,
    searched: usize,
    limits: &RequestLimits,
) -> Result<(usize, usize), LineStop> {
    let line = read_line(input, at, searched, ProtocolError::TooBigBulkCount)?;
    if line.first() != Some(&b'$') {
        let found = line.first().copied().unwrap_or(b'\r');
        return Err(LineStop::Error(ProtocolError::ExpectedDollar(found)));
    }
    let len = parse_i64(&line[1..]).and_then(|len| usize::try_from(len).ok());
    match len {
        Some(len) if len as u64 <= limits.bulk_len_max => {
            if len > UNAUTHENTICATED_BULK_LEN_MAX && !limits.authenticated {
                return Err(LineStop::Error(ProtocolError::UnauthenticatedBulkLength));
            }
            Ok((len, at + line.len() + 2))
        }
        _ => Err(LineStop::Error(ProtocolError::InvalidBulkLength)),
    }
}

/// The line at `at`, without its end; the end has arrived completely.
fn read_line(input: &[u8], at: usize, searched: usize, too_big: ProtocolError) -> Result<&[u8], LineStop> {
    let from = searched.max(at);
    let rest = input.get(from..).unwrap_or_default();
    let found = rest.iter().position(|&byte| byte == b'\r');
    let end = from + found.unwrap_or(rest.len());
    if end - at > LINE_SIZE_MAX {
        return Err(LineStop::Error(too_big));
    }
    if found.is_some() && end + 2 <= input.len() {
        return Ok(&input[at..end]);
    }
    Err(LineStop::Incomplete { searched: end })
}
/// The arguments of the one request that `bytes` are, as [`encode_request`](crate::encode_request) makes it.
pub fn decode_request(bytes: &[u8]) -> Option<OwnedArgs> {
    let mut slices = Vec::new();
    match RequestParser::default().parse(bytes, &RequestLimits::TRUSTED, &mut slices) {
        Parsed::Request { consumed } if consumed == bytes.len() => Some(Args::new(bytes, &slices).to_owned()),
        _ => None,
    }
}
