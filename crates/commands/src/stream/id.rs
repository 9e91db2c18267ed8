//! Identifiers of entries as clients write and read them.

use mantissa_number::{INTEGER_TEXT_MAX, format_u64};
use mantissa_protocol::Reply;
use mantissa_store::stream::StreamId;

use crate::error::{Error, Outcome};
use crate::parse::unsigned;

const INVALID: Error = Error::fixed("ERR Invalid stream ID specified as stream command argument");
const INVALID_START: Error = Error::fixed("ERR invalid start ID for the interval");
const INVALID_END: Error = Error::fixed("ERR invalid end ID for the interval");

/// No identifier is written longer than this.
const TEXT_BYTES_MAX: usize = 127;

/// An identifier's text: two numbers and the dash between them.
pub(super) struct IdText {
    bytes: [u8; 2 * INTEGER_TEXT_MAX + 1],
    len: usize,
}

impl IdText {
    pub(super) fn new(id: StreamId) -> Self {
        let mut text = IdText { bytes: [0; 2 * INTEGER_TEXT_MAX + 1], len: 0 };
        text.push(format_u64(&mut [0; INTEGER_TEXT_MAX], id.ms));
        text.push(b"-");
        text.push(format_u64(&mut [0; INTEGER_TEXT_MAX], id.seq));
        text
    }

    fn push(&mut self, part: &[u8]) {
        self.bytes[self.len..self.len + part.len()].copy_from_slice(part);
        self.len += part.len();
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Replies an identifier.
pub(super) fn reply_id(reply: &mut Reply, id: StreamId) {
    reply.bulk(IdText::new(id).as_bytes());
}

/// `text` without what a NUL and the bytes after it would add; `None` if it is too long.
fn visible(text: &[u8]) -> Option<&[u8]> {
    let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
    (text.len() <= TEXT_BYTES_MAX).then_some(&text[..end])
}

fn halves(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|&byte| byte == b'-') {
        Some(dash) => (&text[..dash], Some(&text[dash + 1..])),
        None => (text, None),
    }
}

/// A whole identifier; `seq` is what it has without a second number.
pub(super) fn parse_id(text: &[u8], seq: u64) -> Outcome<StreamId> {
    let parse = || {
        let (ms, given) = halves(visible(text)?);
        let seq = given.map_or(Some(seq), unsigned)?;
        Some(StreamId { ms: unsigned(ms)?, seq })
    };
    parse().ok_or(INVALID)
}

/// What XADD is told about the new entry's identifier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NewId {
    /// `*`: the server makes it.
    Auto,
    /// `ms-*`: the server makes the second number.
    AutoSequence(u64),
    /// The client made it.
    Given(StreamId),
}

impl NewId {
    pub(super) fn parse(text: &[u8]) -> Outcome<Self> {
        if text == b"*" {
            return Ok(NewId::Auto);
        }
        let partial = || {
            let (ms, seq) = halves(visible(text)?);
            (seq == Some(b"*")).then(|| unsigned(ms)).flatten()
        };
        match partial() {
            Some(ms) => Ok(NewId::AutoSequence(ms)),
            None => parse_id(text, 0).map(NewId::Given),
        }
    }
}

/// One end of an interval: the identifier, and whether it is itself left out.
fn parse_end(text: &[u8], seq: u64) -> Outcome<(StreamId, bool)> {
    match text {
        b"-" => Ok((StreamId::MIN, false)),
        b"+" => Ok((StreamId::MAX, false)),
        [b'(', rest @ ..] if !rest.is_empty() => Ok((parse_id(rest, seq)?, true)),
        _ => Ok((parse_id(text, seq)?, false)),
    }
}

/// The first identifier of an interval.
pub(super) fn parse_start(text: &[u8]) -> Outcome<StreamId> {
    match parse_end(text, 0)? {
        (id, true) => id.next().ok_or(INVALID_START),
        (id, false) => Ok(id),
    }
}

/// The first and the last identifier of an interval.
pub(super) fn parse_interval(start: &[u8], end: &[u8]) -> Outcome<(StreamId, StreamId)> {
    let start = parse_start(start)?;
    match parse_end(end, u64::MAX)? {
        (id, true) => Ok((start, id.previous().ok_or(INVALID_END)?)),
        (id, false) => Ok((start, id)),
    }
}

/// All of some identifiers, or the first error.
pub(super) fn parse_ids<'a>(texts: impl Iterator<Item = &'a [u8]>) -> Outcome<Vec<StreamId>> {
    texts.map(|text| parse_id(text, 0)).collect()
}
