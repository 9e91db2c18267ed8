//! Where an append-only file is in the stream of replication.
//!
//! ```text
//! #REPL:<id, 40 digits> <offset> <database>\r\n
//! ```
//!
//! The line says at which offset, in the history of that name, the log goes on behind it. It stands where a
//! file begins, and wherever the history changes. So the offset of the file's end is that of its last line
//! plus the bytes of the log behind it. Timestamps, frames and preallocated bytes are not of the log.
//!
//! `database` is the one that the stream has selected. It is selected by a command directly behind the line
//! that only the file has, and that does not count. -1 stands for none: then nothing is behind the line, and
//! SELECT is the first command of the log, or the second behind MULTI.
//!
//! A server that does not know the line writes on without one. Where it has begun another increment, nothing
//! is known of the offset. Where it has gone on in the same one, the offset is wrong.

use mantissa_number::{INTEGER_TEXT_MAX, format_i64, parse_i64};
use mantissa_protocol::encode_request;
use mantissa_sys::simulation::{self, Fault};

use super::read::Item;
use crate::write::ReplicationFacts;

/// The start of the line.
const LINE: &[u8] = b"#REPL:";
/// Digits in the name of a history.
const ID_DIGITS: usize = 40;

/// Appends the line, and the command that selects the database. The line of nothing says that nothing is
/// known of what follows.
pub fn put_position(facts: Option<&ReplicationFacts>, out: &mut Vec<u8>) {
    let mut digits = [0; INTEGER_TEXT_MAX];
    out.extend_from_slice(LINE);
    let Some(facts) = facts else {
        out.extend_from_slice(b"\r\n");
        return;
    };
    out.extend_from_slice(facts.id.as_bytes());
    for number in [facts.offset, facts.database] {
        out.push(b' ');
        out.extend_from_slice(format_i64(&mut digits, number));
    }
    out.extend_from_slice(b"\r\n");
    if facts.database >= 0 {
        encode_request(out, [&b"SELECT"[..], format_i64(&mut digits, facts.database)]);
    }
}

/// What is known of a place.
#[derive(Clone, Copy, Debug)]
struct Known {
    id: [u8; ID_DIGITS],
    offset: i64,
    database: i64,
}

impl Known {
    fn from_facts(facts: &ReplicationFacts) -> Option<Self> {
        let id = facts.id.as_bytes().try_into().ok()?;
        Some(Known { id, offset: facts.offset, database: facts.database })
    }

    /// Reads the line, given without its end and what it starts with.
    fn read(line: &[u8]) -> Option<Self> {
        let mut words = line.split(|&byte| byte == b' ');
        let id: [u8; ID_DIGITS] = words.next()?.try_into().ok()?;
        let offset = words.next().and_then(parse_i64).filter(|&offset| offset >= 0)?;
        let database = words.next().and_then(parse_i64).filter(|&database| database >= -1)?;
        let is_id = id.iter().all(u8::is_ascii_hexdigit);
        (is_id && words.next().is_none()).then_some(Known { id, offset, database })
    }
}

/// Follows the position while the files are read. Each item is [seen](Position::see), and then
/// [passed](Position::pass).
#[derive(Default)]
pub struct Position {
    /// At the item that was last passed.
    now: Option<Known>,
    /// The same outside a transaction: what precedes is whole.
    whole: Option<Known>,
    /// This file has had a line, or a command without one.
    has_begun: bool,
    /// The next item may be the command that belongs to the line.
    expects_select: bool,
    /// The item at hand counts.
    counts: bool,
}

impl Position {
    /// The position at the end of a base that says this. It is that of the end, unless an increment follows
    /// that says more.
    pub fn behind_base(&mut self, facts: Option<&ReplicationFacts>) {
        self.now = facts.and_then(Known::from_facts);
        self.whole = self.now;
    }

    /// Another file begins.
    pub fn begin_file(&mut self) {
        self.has_begun = false;
        self.expects_select = false;
    }

    /// Notes what the item at hand says.
    pub fn see(&mut self, item: &Item<'_>) {
        self.counts = false;
        match item {
            Item::Command(args) => {
                if !self.has_begun {
                    self.now = None;
                }
                self.has_begun = true;
                let name = args.get(0).unwrap_or_default();
                let is_select = name.eq_ignore_ascii_case(b"SELECT");
                self.counts = !(self.expects_select && is_select);
                self.expects_select = false;
                if let Some(known) = self.now.as_mut().filter(|_| is_select) {
                    known.database = args.get(1).and_then(parse_i64).unwrap_or(known.database);
                }
            }
            Item::Annotation(line) => {
                let Some(line) = line.strip_prefix(LINE) else { return };
                self.now = Known::read(line);
                self.has_begun = true;
                self.expects_select = self.now.is_some_and(|known| known.database >= 0);
            }
            Item::Timestamp(_) => {}
        }
    }

    /// Goes past the item at hand, whose size this is.
    pub fn pass(&mut self, bytes: u64, in_transaction: bool) {
        let is_stale = simulation::has_fault(Fault::StaleOffset);
        if let Some(known) = self.now.as_mut().filter(|_| self.counts && !is_stale) {
            known.offset = known.offset.saturating_add_unsigned(bytes);
        }
        if !in_transaction {
            self.whole = self.now;
        }
    }

    /// Where replication stands at the end of what is whole.
    pub fn facts(&self) -> Option<ReplicationFacts> {
        let Known { id, offset, database } = self.whole?;
        Some(ReplicationFacts { database, id: String::from_utf8_lossy(&id).into_owned(), offset })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aof::{Reader, put_timestamp};

    const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";
    const MULTI: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";
    const EXEC: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";

    fn facts(offset: i64, database: i64) -> ReplicationFacts {
        ReplicationFacts { database, id: "0123456789abcdef0123456789abcdef01234567".to_owned(), offset }
    }

    fn line(offset: i64, database: i64) -> Vec<u8> {
        let mut line = Vec::new();
        put_position(Some(&facts(offset, database)), &mut line);
        line
    }

    /// Reads files behind a base.
    fn read(base: Option<ReplicationFacts>, files: &[&[u8]]) -> Option<(i64, i64)> {
        let mut position = Position::default();
        position.behind_base(base.as_ref());
        for file in files {
            position.begin_file();
            let mut reader = Reader::new(*file, file.len() as u64);
            while let Ok(Some(item)) = reader.next_item() {
                position.see(&item);
                position.pass(reader.offset() - reader.item_offset(), reader.in_transaction());
            }
        }
        let found = position.facts()?;
        assert_eq!(found.id, facts(0, 0).id);
        Some((found.offset, found.database))
    }

    #[test]
    fn the_offset_of_the_end_is_that_of_the_line_and_the_log_behind_it() {
        let select = b"*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n";
        assert_eq!(line(7, -1), b"#REPL:0123456789abcdef0123456789abcdef01234567 7 -1\r\n");
        assert_eq!(
            line(7, 3),
            [&b"#REPL:0123456789abcdef0123456789abcdef01234567 7 3\r\n"[..], select].concat()
        );
        let mut time = Vec::new();
        put_timestamp(1_700_000_000, &mut time);
        assert_eq!(read(None, &[PING]), None);
        assert_eq!(read(None, &[&line(7, -1)]), Some((7, -1)));
        assert_eq!(read(None, &[&line(7, 3)]), Some((7, 3)));
        let log = [&time, PING, b"#other\r\n", PING].concat();
        assert_eq!(read(None, &[&[&line(7, 3)[..], &log].concat()]), Some((35, 3)));
        // A SELECT of the log counts.
        assert_eq!(read(None, &[&[&line(7, -1), &select[..], PING].concat()]), Some((44, 3)));
        assert_eq!(read(None, &[&[&line(7, 0), &select[..]].concat()]), Some((30, 3)));
        // The history changes within the file.
        let changed = [&line(7, 2)[..], PING, &line(100, 3), PING, select].concat();
        assert_eq!(read(None, &[&changed, &[&line(200, 3), PING].concat()]), Some((214, 3)));
        assert_eq!(read(None, &[&changed]), Some((137, 3)));
        let mut nothing = Vec::new();
        put_position(None, &mut nothing);
        assert_eq!(read(None, &[&[&line(7, 2), &nothing[..], PING].concat()]), None);
        for bad in [&b"#REPL:\r\n"[..], b"#REPL:0123456789abcdef0123456789abcdef01234567 -7 3\r\n"] {
            assert_eq!(read(Some(facts(5, 0)), &[bad, PING]), None);
        }
    }

    #[test]
    fn what_is_not_whole_does_not_count() {
        let whole = [&line(7, 2)[..], PING, MULTI, PING, EXEC].concat();
        let (head, before) = (whole.len() - 43, 21);
        for len in 0..=whole.len() {
            let expected = match len {
                _ if len == whole.len() => Some((64, 2)),
                _ if len >= head => Some((before, 2)),
                _ if len >= line(7, -1).len() - 1 => Some((7, 2)),
                _ => None,
            };
            assert_eq!(read(None, &[&whole[..len]]), expected, "{len} bytes");
        }
        // The next start writes on where the file was cut.
        let cut = [&whole[..whole.len() - 43], &line(21, 2), PING].concat();
        assert_eq!(read(None, &[&cut]), Some((35, 2)));
    }

    #[test]
    fn a_base_counts_only_without_commands_that_nothing_is_known_of() {
        let base = || Some(facts(5, 1));
        assert_eq!(read(base(), &[]), Some((5, 1)));
        assert_eq!(read(base(), &[b"", b"#TS:7\r\n"]), Some((5, 1)));
        assert_eq!(read(base(), &[PING]), None);
        assert_eq!(read(base(), &[&line(9, 0)]), Some((9, 0)));
        assert_eq!(read(base(), &[&line(9, 0), b"", PING]), None);
    }
}
