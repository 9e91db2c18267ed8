//! What SSCAN, HSCAN and ZSCAN have in common: cursor, options, and when a call has done enough.

use mantissa_protocol::{Args, Reply};
use mantissa_store::listpack::Element;

use crate::error::{Error, Outcome};
use crate::glob;
use crate::parse;

/// Writes what a collection holds as a bulk string.
#[inline]
pub(crate) fn write_element(reply: &mut Reply, element: Element<'_>) {
    match element {
        Element::Bytes(bytes) => reply.bulk(bytes),
        Element::Integer(integer) => reply.bulk_integer(integer),
    }
}

/// What is scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scanned {
    Set,
    Hash,
    SortedSet,
}

/// The options of a scan of a collection.
pub(crate) struct ScanOptions<'a> {
    count: u64,
    pattern: Option<&'a [u8]>,
    /// NOVALUES of HSCAN, and Valkey's NOSCORES of ZSCAN.
    pub names_only: bool,
}

impl<'a> ScanOptions<'a> {
    /// Reads the options after the cursor.
    pub fn parse(args: Args<'a>, scanned: Scanned) -> Outcome<ScanOptions<'a>> {
        let mut options = ScanOptions { count: 10, pattern: None, names_only: false };
        let mut at = 3;
        while let Some(option) = args.get(at) {
            match args.get(at + 1) {
                Some(value) if parse::is(option, "COUNT") => {
                    let count = parse::integer(value)?;
                    options.count =
                        u64::try_from(count).ok().filter(|&count| count > 0).ok_or(Error::SYNTAX)?;
                    at += 2;
                }
                Some(value) if parse::is(option, "MATCH") => {
                    options.pattern = Some(value).filter(|&pattern| pattern != b"*");
                    at += 2;
                }
                _ if parse::is(option, "NOVALUES") => {
                    if scanned != Scanned::Hash {
                        return Err(Error::fixed("ERR NOVALUES option can only be used in HSCAN"));
                    }
                    options.names_only = true;
                    at += 1;
                }
                _ if scanned == Scanned::SortedSet && parse::is(option, "NOSCORES") => {
                    options.names_only = true;
                    at += 1;
                }
                _ => return Err(Error::SYNTAX),
            }
        }
        Ok(options)
    }

    /// Whether an element is wanted.
    pub fn matches(&self, element: Element<'_>) -> bool {
        self.pattern.is_none_or(|pattern| glob::matches(pattern, element.text(&mut [0; 20])))
    }

    /// About how many elements a call is to visit.
    pub fn count(&self) -> usize {
        usize::try_from(self.count).unwrap_or(usize::MAX)
    }

    /// Steps through a collection from `cursor` on. `step` visits one part, returns the next cursor, and
    /// counts what it visited in its second argument.
    pub fn walk(&self, mut cursor: u64, mut step: impl FnMut(u64, &mut u64) -> u64) -> u64 {
        const STEPS_PER_ELEMENT_MAX: u64 = 10;
        let mut steps_left = self.count.saturating_mul(STEPS_PER_ELEMENT_MAX);
        let mut visited = 0;
        loop {
            cursor = step(cursor, &mut visited);
            steps_left -= 1;
            if cursor == 0 || visited >= self.count || steps_left == 0 {
                return cursor;
            }
        }
    }
}

/// Where to write what a scan finds, which stands behind a cursor and a number that are known only then.
pub(crate) fn found_elements(reply: &Reply) -> Reply {
    /// Enough for what a step of a scan finds as a rule.
    const FOUND_BYTES: usize = 1 << 10;
    let mut found = reply.part();
    found.reserve(FOUND_BYTES);
    found
}

/// Replies what a scan found: the next cursor, and the `len` elements that `found` holds.
pub(crate) fn write_scan(reply: &mut Reply, cursor: u64, len: usize, found: &Reply) {
    reply.array(2);
    reply.bulk(mantissa_number::format_u64(&mut [0; 20], cursor));
    reply.array(len);
    reply.append(found);
}

/// Bytes that one call replies at most of elements picked with repetition, of which a client may want any
/// number. It is closed then, as one that leaves too much unread.
const PICKED_BYTES_MAX: usize = 512 << 20;

/// The reply of elements picked with repetition.
#[derive(Default)]
pub(crate) struct Picks {
    bytes: usize,
}

impl Picks {
    /// Writes an element. False if the reply can not go on.
    pub fn write(&mut self, reply: &mut Reply, write: impl FnOnce(&mut Reply)) -> bool {
        let before = reply.len();
        write(reply);
        self.bytes += reply.len().saturating_sub(before);
        if self.bytes > PICKED_BYTES_MAX {
            reply.overflow();
        }
        reply.stream();
        !reply.has_overflowed()
    }
}

/// Reads a count that may be negative, but not the least integer.
pub(crate) fn parse_pick_count(argument: &[u8]) -> Outcome<i64> {
    match parse::integer(argument)? {
        i64::MIN => Err(Error::fixed(
            "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
        )),
        count => Ok(count),
    }
}
