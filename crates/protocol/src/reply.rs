//! Writing replies and messages, in RESP2 or RESP3.
//!
//! Each method appends one element. What only RESP3 has is written in RESP2 as Redis does: a map as an array
//! of twice the length, a double as a bulk string, and so on; so a command states the shape once. Growing the
//! buffer is the only allocation.

mod streaming;

use mantissa_number::{INTEGER_TEXT_MAX, SCORE_TEXT_MAX, format_i64, format_score, format_u64};

use streaming::Streaming;
pub use streaming::{Sink, Streamed};

/// The version of the protocol that a client chose.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Protocol {
    /// What a connection starts with.
    #[default]
    Resp2,
    /// After `HELLO 3`.
    Resp3,
}

/// A reply or message under construction.
///
/// It may have a limit. Where its buffer would have to grow beyond that, the buffer is freed, and nothing is
/// written any more: [`Reply::has_overflowed`].
///
/// It may have a sink, which takes its beginning while the rest is being written: [`Reply::stream_to`].
pub struct Reply {
    buffer: Vec<u8>,
    bytes_max: usize,
    has_overflowed: bool,
    protocol: Protocol,
    /// The length of the buffer from which on the sink is offered what is written.
    offered_at: usize,
    streaming: Option<Box<Streaming>>,
    /// Deferred headers that are not finished.
    open_headers: u32,
}

impl Default for Reply {
    fn default() -> Self {
        Reply::new(Protocol::default())
    }
}

/// A header whose count is not known yet; see [`Reply::defer`].
#[derive(Debug)]
#[must_use = "the reply is broken until the header is finished"]
pub struct Deferred {
    /// Where the header stands.
    at: usize,
}

/// Bytes reserved for a header before its count is known: a type, one digit, and the line end.
const DEFERRED_HEADER_SIZE: usize = 4;

impl Reply {
    /// An empty reply.
    pub fn new(protocol: Protocol) -> Self {
        Reply::with_buffer(Vec::new(), protocol)
    }

    /// Goes on after what `buffer` holds.
    pub fn with_buffer(buffer: Vec<u8>, protocol: Protocol) -> Self {
        let bytes_max = usize::MAX;
        Reply {
            buffer,
            bytes_max,
            has_overflowed: false,
            protocol,
            offered_at: usize::MAX,
            streaming: None,
            open_headers: 0,
        }
    }

    /// The same with a limit in bytes, which includes what is written already. A buffer whose capacity is
    /// larger may be filled.
    pub fn limited(self, bytes_max: usize) -> Self {
        Reply { bytes_max, ..self }
    }

    /// An empty reply with the same protocol and limit, for a part that is appended later.
    pub fn part(&self) -> Self {
        Reply::new(self.protocol).limited(self.bytes_max)
    }

    /// Appends a part. One that has overflowed has this reply overflow.
    pub fn append(&mut self, part: &Reply) {
        if part.has_overflowed {
            self.overflow();
        }
        self.raw(&part.buffer);
    }

    /// Whether the limit has been exceeded. Loops that can run long look at it now and then.
    #[inline]
    pub fn has_overflowed(&self) -> bool {
        self.has_overflowed
    }

    /// The limit in bytes.
    pub fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Gives the reply up, as if it was over its limit.
    #[cold]
    pub fn overflow(&mut self) {
        self.has_overflowed = true;
        self.buffer = Vec::new();
    }

    /// Reserves capacity for `additional` bytes. False if the reply has overflowed or would overflow.
    #[inline]
    fn try_reserve(&mut self, additional: usize) -> bool {
        additional <= self.buffer.capacity() - self.buffer.len() || self.grow(additional)
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, additional: usize) -> bool {
        let (len, capacity) = (self.buffer.len(), self.buffer.capacity());
        let needed = len.saturating_add(additional);
        if self.has_overflowed || needed > self.bytes_max {
            self.overflow();
            return false;
        }
        let wanted = needed.max(capacity.saturating_mul(2)).min(self.bytes_max);
        self.buffer.reserve_exact(wanted - len);
        true
    }

    /// The protocol in use.
    #[inline]
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Changes the protocol of what is written from now on.
    #[inline]
    pub fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }

    /// Whether the protocol is RESP3.
    #[inline]
    pub fn is_resp3(&self) -> bool {
        self.protocol == Protocol::Resp3
    }

    /// The number of bytes written.
    #[inline]
    pub fn len(&self) -> usize {
        self.buffer.len()
    }

    /// Whether nothing is written.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Takes back what was written after the first `len` bytes.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        self.buffer.truncate(len);
    }

    /// Reserves capacity for `additional` bytes, as far as the limit allows.
    #[inline]
    pub fn reserve(&mut self, additional: usize) {
        if !self.has_overflowed {
            self.buffer.reserve(additional.min(self.bytes_max.saturating_sub(self.buffer.len())));
        }
    }

    /// What is written.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.buffer
    }

    /// The buffer.
    #[inline]
    pub fn into_bytes(self) -> Vec<u8> {
        self.buffer
    }

    /// What is written, leaving an empty reply without capacity.
    #[inline]
    pub fn take_bytes(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }

    /// The status OK.
    #[inline]
    pub fn ok(&mut self) {
        self.raw(b"+OK\r\n");
    }

    /// A status. It must not contain a line end.
    #[inline]
    pub fn simple(&mut self, text: &str) {
        debug_assert!(!text.bytes().any(|byte| matches!(byte, b'\r' | b'\n')));
        self.line(b'+', text.as_bytes());
    }

    /// An error, with its code and without the leading `-`. Line ends in it become spaces.
    pub fn error(&mut self, text: &str) {
        self.error_bytes(text.as_bytes());
    }

    /// [`Reply::error`] for a text that quotes bytes of the client.
    pub fn error_bytes(&mut self, text: &[u8]) {
        if !self.try_reserve(text.len() + 3) {
            return;
        }
        self.buffer.push(b'-');
        self.buffer.extend(text.iter().map(|&byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }));
        self.buffer.extend_from_slice(b"\r\n");
    }

    /// An integer.
    #[inline]
    pub fn integer(&mut self, value: i64) {
        if let 0..=999 = value {
            self.header(b':', value as usize);
        } else {
            self.line(b':', format_i64(&mut [0; INTEGER_TEXT_MAX], value));
        }
    }

    /// An integer of 64 bits without a sign.
    pub fn unsigned(&mut self, value: u64) {
        match i64::try_from(value) {
            Ok(value) => self.integer(value),
            Err(_) => self.line(b':', format_u64(&mut [0; INTEGER_TEXT_MAX], value)),
        }
    }

    /// An integer, given as its text.
    #[inline]
    pub fn integer_text(&mut self, text: &[u8]) {
        debug_assert!(mantissa_number::parse_i64(text).is_some());
        self.line(b':', text);
    }

    /// A bulk string.
    #[inline]
    pub fn bulk(&mut self, data: &[u8]) {
        if !self.try_reserve(data.len() + 32) {
            return;
        }
        self.header(b'$', data.len());
        self.buffer.extend_from_slice(data);
        self.buffer.extend_from_slice(b"\r\n");
    }

    /// A bulk string of several parts.
    pub fn bulk_of(&mut self, parts: [&[u8]; 5]) {
        let len = parts.iter().map(|part| part.len()).sum();
        if !self.try_reserve(len + 32) {
            return;
        }
        self.header(b'$', len);
        parts.into_iter().for_each(|part| self.buffer.extend_from_slice(part));
        self.buffer.extend_from_slice(b"\r\n");
    }

    /// A bulk string of about `expected` bytes that `write` appends. Costs no copy where the length has as
    /// many digits as that.
    pub fn bulk_with<T>(&mut self, expected: usize, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let mut digits = [0; INTEGER_TEXT_MAX];
        let start = self.buffer.len();
        let expected = expected.min(self.bytes_max.saturating_sub(start + 32));
        if !self.try_reserve(expected + 32) {
            return write(&mut Vec::new());
        }
        self.header(b'$', expected);
        let first = self.buffer.len();
        let result = write(&mut self.buffer);
        let text = format_u64(&mut digits, (self.buffer.len() - first) as u64);
        match &mut self.buffer[start + 1..first - 2] {
            expected if expected.len() == text.len() => expected.copy_from_slice(text),
            _ => drop(self.buffer.splice(start + 1..first - 2, text.iter().copied())),
        }
        self.buffer.extend_from_slice(b"\r\n");
        if self.buffer.len() > self.bytes_max {
            self.overflow();
        }
        result
    }

    /// An integer in decimal as a bulk string.
    #[inline]
    pub fn bulk_integer(&mut self, value: i64) {
        self.bulk(format_i64(&mut [0; INTEGER_TEXT_MAX], value));
    }

    /// The absence of a value where a bulk string would stand.
    #[inline]
    pub fn null(&mut self) {
        match self.protocol {
            Protocol::Resp2 => self.raw(b"$-1\r\n"),
            Protocol::Resp3 => self.raw(b"_\r\n"),
        }
    }

    /// The absence of a value where an array would stand.
    #[inline]
    pub fn null_array(&mut self) {
        match self.protocol {
            Protocol::Resp2 => self.raw(b"*-1\r\n"),
            Protocol::Resp3 => self.raw(b"_\r\n"),
        }
    }

    /// The header of an array of `len` elements, which follow.
    #[inline]
    pub fn array(&mut self, len: usize) {
        self.header(b'*', len);
    }

    /// The header of a map of `pairs` keys and values, which follow alternately.
    #[inline]
    pub fn map(&mut self, pairs: usize) {
        match self.protocol {
            Protocol::Resp2 => self.header(b'*', pairs * 2),
            Protocol::Resp3 => self.header(b'%', pairs),
        }
    }

    /// The header of a set of `len` elements, which follow.
    #[inline]
    pub fn set(&mut self, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.header(b'*', len),
            Protocol::Resp3 => self.header(b'~', len),
        }
    }

    /// The header of `pairs` attributes of the element after them. RESP2 has nothing like it: ask
    /// [`Reply::is_resp3`] first.
    pub fn attribute(&mut self, pairs: usize) {
        debug_assert!(self.is_resp3());
        self.header(b'|', pairs);
    }

    /// The header of a message of `len` elements that answers no request.
    pub fn push(&mut self, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.header(b'*', len),
            Protocol::Resp3 => self.header(b'>', len),
        }
    }

    /// A double, in Redis's text form.
    pub fn double(&mut self, value: f64) {
        let mut buffer = [0; SCORE_TEXT_MAX];
        self.double_text(format_score(&mut buffer, value));
    }

    /// A double whose text is known; a bulk string in RESP2.
    #[inline]
    pub fn double_text(&mut self, text: &[u8]) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text),
            Protocol::Resp3 => self.line(b',', text),
        }
    }

    /// A truth value; 1 or 0 in RESP2.
    #[inline]
    pub fn boolean(&mut self, value: bool) {
        match (self.protocol, value) {
            (Protocol::Resp2, false) => self.raw(b":0\r\n"),
            (Protocol::Resp2, true) => self.raw(b":1\r\n"),
            (Protocol::Resp3, false) => self.raw(b"#f\r\n"),
            (Protocol::Resp3, true) => self.raw(b"#t\r\n"),
        }
    }

    /// An integer of any size, in decimal; a bulk string in RESP2.
    pub fn big_number(&mut self, digits: &[u8]) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(digits),
            Protocol::Resp3 => self.line(b'(', digits),
        }
    }

    /// A text to be shown as it is, with a format of three letters (`txt`, `mkd`); a bulk string in RESP2.
    pub fn verbatim(&mut self, extension: &str, text: &[u8]) {
        debug_assert_eq!(extension.len(), 3);
        match self.protocol {
            Protocol::Resp2 => self.bulk(text),
            Protocol::Resp3 => {
                if !self.try_reserve(text.len() + 32) {
                    return;
                }
                self.header(b'=', extension.len() + 1 + text.len());
                self.buffer.extend_from_slice(extension.as_bytes());
                self.buffer.push(b':');
                self.buffer.extend_from_slice(text);
                self.buffer.extend_from_slice(b"\r\n");
            }
        }
    }

    /// Bytes that are in the protocol already.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        if self.try_reserve(bytes.len()) {
            self.buffer.extend_from_slice(bytes);
        }
    }

    /// Appends the first `len` of some bytes that are the encoding of elements. Copying all of a known number
    /// takes less time than copying `len`.
    #[inline]
    pub fn raw_start<const N: usize>(&mut self, bytes: &[u8; N], len: usize) {
        self.raw_edited(bytes, |_| len);
    }

    /// Appends what `edit` makes of a copy of some bytes: as many as it returns, from the first on. They lie
    /// where they stay.
    #[inline]
    pub fn raw_edited<const N: usize>(&mut self, bytes: &[u8; N], edit: impl FnOnce(&mut [u8; N]) -> usize) {
        if !self.try_reserve(N) {
            return;
        }
        let start = self.buffer.len();
        self.buffer.extend_from_slice(bytes);
        let len = self.buffer.last_chunk_mut().map_or(0, edit);
        self.buffer.truncate(start + len.min(N));
    }

    /// Reserves the header of an aggregate whose count is known only once its elements are written.
    /// They follow, and then one of the `finish` methods. Aggregates within it are finished before it.
    ///
    /// Costs nothing for up to nine elements; beyond, the elements move by a few bytes, once.
    pub fn defer(&mut self) -> Deferred {
        let at = self.buffer.len();
        self.raw(b"*0\r\n");
        self.open_headers += 1;
        Deferred { at }
    }

    /// The header of an array, or a deferred one if its length is not known: such an array is not streamed.
    pub fn array_or_defer(&mut self, len: Option<usize>) -> Option<Deferred> {
        match len {
            None => Some(self.defer()),
            Some(len) => {
                self.array(len);
                None
            }
        }
    }

    /// Ends what [`Reply::array_or_defer`] has begun.
    pub fn finish_if_deferred(&mut self, deferred: Option<Deferred>, len: usize) {
        if let Some(deferred) = deferred {
            self.finish_array(deferred, len);
        }
    }

    /// Makes the deferred header one of an array.
    pub fn finish_array(&mut self, deferred: Deferred, len: usize) {
        self.finish(deferred, b'*', len);
    }

    /// Makes the deferred header one of a map.
    pub fn finish_map(&mut self, deferred: Deferred, pairs: usize) {
        match self.protocol {
            Protocol::Resp2 => self.finish(deferred, b'*', pairs * 2),
            Protocol::Resp3 => self.finish(deferred, b'%', pairs),
        }
    }

    /// Makes the deferred header one of a set.
    pub fn finish_set(&mut self, deferred: Deferred, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.finish(deferred, b'*', len),
            Protocol::Resp3 => self.finish(deferred, b'~', len),
        }
    }

    fn finish(&mut self, Deferred { at }: Deferred, kind: u8, count: usize) {
        self.open_headers -= 1;
        let mut buffer = [0; INTEGER_TEXT_MAX];
        let digits = format_u64(&mut buffer, count as u64);
        let shift = digits.len() - 1;
        if !self.try_reserve(shift) || self.has_overflowed {
            return;
        }
        if shift > 0 {
            let (elements, end) = (at + DEFERRED_HEADER_SIZE, self.buffer.len());
            self.buffer.resize(end + shift, 0);
            self.buffer.copy_within(elements..end, elements + shift);
        }
        let header = &mut self.buffer[at..at + DEFERRED_HEADER_SIZE + shift];
        header[0] = kind;
        header[1..=digits.len()].copy_from_slice(digits);
        header[digits.len() + 1..].copy_from_slice(b"\r\n");
    }

    /// A type byte, a count, and a line end. Short ones are of a fixed size each, so that they are stored as
    /// a whole.
    #[inline]
    fn header(&mut self, kind: u8, count: usize) {
        let digit = |power: usize| b'0' + (count / power % 10) as u8;
        match count {
            0..10 => self.raw(&[kind, digit(1), b'\r', b'\n']),
            10..100 => self.raw(&[kind, digit(10), digit(1), b'\r', b'\n']),
            100..1000 => self.raw(&[kind, digit(100), digit(10), digit(1), b'\r', b'\n']),
            _ => self.line(kind, format_u64(&mut [0; INTEGER_TEXT_MAX], count as u64)),
        }
    }

    /// A type byte, a text, and a line end.
    #[inline]
    fn line(&mut self, kind: u8, text: &[u8]) {
        if !self.try_reserve(text.len() + 3) {
            return;
        }
        self.buffer.push(kind);
        self.buffer.extend_from_slice(text);
        self.buffer.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bulk_string_that_is_written_in_place_is_like_another() {
        for expected in [0, 5, 99, 12_345] {
            for len in [0, 9, 10, 1000, 20_000] {
                let text = vec![b'x'; len];
                let (mut written, mut copied) = (Reply::new(Protocol::Resp2), Reply::new(Protocol::Resp2));
                written.integer(7);
                assert_eq!(written.bulk_with(expected, |out| out.extend_from_slice(&text)), ());
                written.null();
                copied.integer(7);
                copied.bulk(&text);
                copied.null();
                assert_eq!(written.as_bytes(), copied.as_bytes());
                let mut limited = Reply::new(Protocol::Resp2).limited(500);
                let count = limited.bulk_with(expected, |out| {
                    out.extend_from_slice(&text);
                    len
                });
                assert_eq!((count, limited.has_overflowed()), (len, len > 500));
            }
        }
    }

    #[test]
    fn a_reply_stops_growing_at_its_limit() {
        let mut reply = Reply::new(Protocol::Resp2).limited(1000);
        for _ in 0..100 {
            let deferred = reply.defer();
            let mut part = reply.part();
            part.bulk(&[b'x'; 100]);
            reply.append(&part);
            reply.integer(-12345);
            reply.finish_array(deferred, 12);
        }
        assert!(reply.has_overflowed() && reply.as_bytes().is_empty() && reply.buffer.capacity() == 0);
        let mut within = Reply::new(Protocol::Resp2).limited(120);
        within.bulk(&[b'x'; 80]);
        assert!(!within.has_overflowed() && within.buffer.capacity() <= 120);
        let mut part = within.part();
        part.bulk(&[b'x'; 200]);
        within.append(&part);
        assert!(within.has_overflowed() && within.is_empty());
    }
}
