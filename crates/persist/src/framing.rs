//! The framing of a full synchronisation: how a replica finds the end of the dump in its primary's stream.
//!
//! ```text
//! { "\n" }  "$" length "\r\n"  that many bytes
//! { "\n" }  "$EOF:" mark of 40 bytes "\r\n"  bytes  the same mark
//! { "\n" }  "$PARTS\r\n"  parts: see [`parts`]
//! ```
//!
//! Bare line feeds are signs of life. The second form is for a dump whose length is not known beforehand; the
//! mark is random, so no dump holds it. The third is for servers of this kind that have asked for it. What
//! follows the payload are commands: [`Payload`] reads beyond the payload only where its length is not known,
//! and gives back what it has read of them.

pub mod parts;

use std::io::{self, Read, Write};

use parts::{Ahead, HEADER_BYTES, Kind};

/// Bytes of a mark.
pub const MARK_BYTES: usize = 40;
/// The longest header line or error, in bytes, with its end.
const LINE_BYTES_MAX: usize = 1024;
/// Bytes that are read at a time.
const BUFFER_BYTES: usize = 64 << 10;
/// What a header with a mark begins with.
const MARK_PREFIX: &[u8] = b"$EOF:";

/// A mark that ends a payload.
pub type Mark = [u8; MARK_BYTES];

/// What ends the payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Framing {
    /// So many bytes.
    Length(u64),
    /// This mark.
    Mark(Mark),
    /// The part that says so.
    Parts,
}

impl Framing {
    /// Writes the header of a payload.
    pub fn write_header(&self, sink: &mut dyn Write) -> io::Result<()> {
        match self {
            Framing::Length(length) => write!(sink, "${length}\r\n"),
            Framing::Mark(mark) => sink.write_all(&[MARK_PREFIX, mark, b"\r\n"].concat()),
            Framing::Parts => sink.write_all(parts::HEADER.as_bytes()),
        }
    }

    /// Writes what comes after the payload.
    pub fn write_end(&self, sink: &mut dyn Write) -> io::Result<()> {
        match self {
            Framing::Length(_) => Ok(()),
            Framing::Mark(mark) => sink.write_all(mark),
            Framing::Parts => sink.write_all(&parts::header(Kind::End, 0)),
        }
    }

    /// Reads a header line without its end.
    fn parse(line: &[u8]) -> Result<Self, String> {
        if let Some(reason) = line.strip_prefix(b"-") {
            return Err(format!("MASTER aborted replication with an error: -{}", reason.escape_ascii()));
        }
        if let Some(mark) = line.strip_prefix(MARK_PREFIX) {
            let mark = Mark::try_from(mark);
            return mark.map(Framing::Mark).map_err(|_| {
                format!(
                    "the mark of the payload has {} bytes, not {MARK_BYTES}",
                    line.len() - MARK_PREFIX.len()
                )
            });
        }
        if line == parts::HEADER.trim_ascii_end().as_bytes() {
            return Ok(Framing::Parts);
        }
        let Some(digits) = line.strip_prefix(b"$") else {
            return Err(format!(
                "Bad protocol from MASTER, the first byte is not '$' (we received '{}'), are you sure the \
                 host and port are right?",
                line.escape_ascii()
            ));
        };
        let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
        let length =
            std::str::from_utf8(digits).ok().filter(|_| is_number).and_then(|text| text.parse().ok());
        let length: Option<u64> = length;
        length
            .map(Framing::Length)
            .ok_or_else(|| format!("wrong length of the payload: '{}'", line.escape_ascii()))
    }
}

/// Yields the payload of a stream without its framing.
#[derive(Debug)]
pub struct Payload<R> {
    reader: R,
    framing: Framing,
    /// `buffer[start..end]` has been read and not been given on.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes from `start` on that belong to the payload; with a length those that are in the buffer.
    certain: usize,
    /// Bytes of the payload that have been given on.
    given: u64,
    /// What ends the payload was found: it begins behind the certain bytes, or with parts lies before.
    is_marked: bool,
    /// The present part, and its bytes that have neither been given on nor kept.
    part: (Kind, usize),
    ahead: Ahead,
}

impl<R: Read> Payload<R> {
    /// Reads the header. `read_ahead` was read from the stream already and comes first. An error of kind
    /// `InvalidData` says what is wrong with the header.
    pub fn begin(mut reader: R, read_ahead: Vec<u8>) -> io::Result<Self> {
        let (mut buffer, mut start, mut end) = (read_ahead, 0, 0);
        let mut filled = buffer.len();
        buffer.resize(filled.max(BUFFER_BYTES), 0);
        loop {
            match buffer[end..filled].first() {
                Some(b'\n') if start == end => (start, end) = (start + 1, end + 1),
                Some(b'\n') => break,
                Some(_) => end += 1,
                None => {
                    if start == end {
                        (start, end, filled) = (0, 0, 0);
                    }
                    filled += read_some(&mut reader, &mut buffer[filled..])?;
                }
            }
            if end - start >= LINE_BYTES_MAX {
                let shown = buffer[start..start + 64].escape_ascii();
                return Err(invalid(format!(
                    "the payload begins with a line that is too long: '{shown}...'"
                )));
            }
        }
        let line = &buffer[start..end];
        let framing = Framing::parse(line.strip_suffix(b"\r").unwrap_or(line)).map_err(invalid)?;
        let start = end + 1;
        let mut payload = Payload {
            reader,
            framing,
            buffer,
            start,
            end: filled,
            certain: 0,
            given: 0,
            is_marked: false,
            part: (Kind::Dump, 0),
            ahead: Ahead::default(),
        };
        if framing != Framing::Parts {
            payload.find_certain(0);
        }
        Ok(payload)
    }

    /// Sets how many bytes of commands may come before the end of the dump. At first none may.
    pub fn keep_ahead(&mut self, bytes_max: u64) {
        self.ahead.bytes_max = bytes_max;
    }

    /// The commands that have come before the end of the dump.
    pub fn ahead(&self) -> &Ahead {
        &self.ahead
    }

    /// What ends the payload.
    pub fn framing(&self) -> &Framing {
        &self.framing
    }

    /// The payload's length in bytes, where the header has said it.
    pub fn length(&self) -> Option<u64> {
        match self.framing {
            Framing::Length(length) => Some(length),
            Framing::Mark(_) | Framing::Parts => None,
        }
    }

    /// Bytes of the payload that have been read.
    pub fn given(&self) -> u64 {
        self.given
    }

    /// Whether the payload has been read to its end.
    pub fn is_complete(&self) -> bool {
        match self.framing {
            Framing::Length(length) => self.given == length,
            Framing::Mark(_) | Framing::Parts => self.is_marked && self.certain == 0,
        }
    }

    /// Reads until the end of the payload is certain. True if nothing of it was left but what ends it.
    pub fn is_at_end(&mut self) -> io::Result<bool> {
        if !self.is_complete() && self.certain == 0 {
            self.fill()?;
        }
        Ok(self.is_complete())
    }

    /// What was read of the stream behind the payload, and the reader that yields the rest. To be called once
    /// the payload is complete; else what is left of it is lost or comes first.
    pub fn into_rest(self) -> (Ahead, R) {
        let mark_bytes = match self.framing {
            Framing::Mark(_) if self.is_marked => MARK_BYTES,
            _ => 0,
        };
        let start = (self.start + self.certain + mark_bytes).min(self.end);
        let mut rest = self.ahead;
        rest.extend(&self.buffer[start..self.end]);
        (rest, self.reader)
    }

    /// Reads more, until some bytes are certain or the end is.
    fn fill(&mut self) -> io::Result<()> {
        loop {
            if self.framing == Framing::Parts {
                self.take_parts().map_err(invalid)?;
            }
            if self.certain > 0 || self.is_complete() {
                return Ok(());
            }
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            let room = match self.framing {
                // Nothing behind the payload is read.
                Framing::Length(length) => usize::try_from(length - self.given).unwrap_or(usize::MAX),
                Framing::Mark(_) | Framing::Parts => usize::MAX,
            };
            let room = room.min(self.buffer.len() - self.end);
            let searched = self.end.saturating_sub(MARK_BYTES - 1);
            self.end += read_some(&mut self.reader, &mut self.buffer[self.end..self.end + room])?;
            self.find_certain(searched);
        }
    }

    /// Takes what the buffer has of parts, up to bytes of the dump.
    fn take_parts(&mut self) -> Result<(), String> {
        while self.certain == 0 && !self.is_marked {
            let bytes = &self.buffer[self.start..self.end];
            let (kind, left) = &mut self.part;
            if *left == 0 {
                let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else { return Ok(()) };
                self.part = parts::parse(*header)?;
                self.start += HEADER_BYTES;
                self.is_marked = self.part.0 == Kind::End;
                continue;
            }
            let count = bytes.len().min(*left);
            if count == 0 {
                return Ok(());
            }
            *left -= count;
            match kind {
                Kind::Dump => self.certain = count,
                Kind::Commands | Kind::End => {
                    self.ahead.push(&bytes[..count])?;
                    self.start += count;
                }
            }
        }
        Ok(())
    }

    /// Finds out what of the buffer belongs to the payload. No mark begins in the first `searched` bytes.
    fn find_certain(&mut self, searched: usize) {
        let bytes = &self.buffer[self.start..self.end];
        match &self.framing {
            Framing::Length(length) => {
                let left = usize::try_from(length - self.given).unwrap_or(usize::MAX);
                self.certain = left.min(bytes.len());
            }
            Framing::Mark(mark) => {
                let found = find(&bytes[searched..], mark);
                self.is_marked = found.is_some();
                self.certain = match found {
                    Some(at) => searched + at,
                    None => bytes.len().saturating_sub(MARK_BYTES - 1),
                };
            }
            // They are taken one after the other.
            Framing::Parts => {}
        }
    }
}

impl<R: Read> Read for Payload<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        self.fill()?;
        let count = self.certain.min(buffer.len());
        buffer[..count].copy_from_slice(&self.buffer[self.start..self.start + count]);
        self.start += count;
        self.certain -= count;
        self.given += count as u64;
        Ok(count)
    }
}

/// The offset of the first mark in some bytes (Horspool: looks at one byte in forty, mostly).
fn find(bytes: &[u8], mark: &Mark) -> Option<usize> {
    // How far the mark moves on when this byte is behind its last place.
    let mut shifts = [MARK_BYTES; 256];
    for (at, &byte) in mark[..MARK_BYTES - 1].iter().enumerate() {
        shifts[usize::from(byte)] = MARK_BYTES - 1 - at;
    }
    let mut start = 0;
    while let Some(last) = bytes.get(start + MARK_BYTES - 1) {
        if bytes[start..].starts_with(mark) {
            return Some(start);
        }
        start += shifts[usize::from(*last)];
    }
    None
}

/// Reads at least a byte.
fn read_some(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match reader.read(buffer) {
            Ok(0) => {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the stream ends within the payload",
                ));
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

fn invalid(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Yields its parts one after the other, then nothing.
    struct Parts(Vec<Vec<u8>>);

    impl Parts {
        fn of(bytes: &[u8], cuts: &[usize]) -> Self {
            let mut cuts: Vec<_> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            cuts.dedup();
            Parts(cuts.windows(2).rev().map(|cut| bytes[cut[0]..cut[1]].to_vec()).collect())
        }
    }

    impl Read for Parts {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let Some(part) = self.0.last_mut() else { return Ok(0) };
            let count = part.len().min(buffer.len());
            buffer[..count].copy_from_slice(&part[..count]);
            part.drain(..count);
            if part.is_empty() {
                self.0.pop();
            }
            Ok(count)
        }
    }

    fn framed(framing: Framing, payload: &[u8], rest: &[u8]) -> Vec<u8> {
        let mut bytes = b"\n\n".to_vec();
        framing.write_header(&mut bytes).expect("memory takes it");
        bytes.extend_from_slice(payload);
        framing.write_end(&mut bytes).expect("memory takes it");
        bytes.extend_from_slice(rest);
        bytes
    }

    /// Reads a framed payload, `step` bytes at a time, of which the first `ahead` were read before.
    fn check(bytes: &[u8], ahead: usize, cuts: &[usize], step: usize, payload: &[u8], rest: &[u8]) {
        let mut reader = Payload::begin(Parts::of(&bytes[ahead..], cuts), bytes[..ahead].to_vec())
            .expect("the header is right");
        let (mut found, mut buffer) = (Vec::new(), vec![0; step]);
        loop {
            let count = reader.read(&mut buffer).expect("the payload is whole");
            found.extend_from_slice(&buffer[..count]);
            if count == 0 {
                break;
            }
        }
        assert_eq!(found, payload);
        assert_eq!(reader.given(), payload.len() as u64);
        assert!(reader.is_complete() && reader.is_at_end().expect("it is"));
        let (ahead, mut reader) = reader.into_rest();
        let mut behind = whole(ahead);
        reader.read_to_end(&mut behind).expect("memory gives it");
        assert_eq!(behind, rest);
    }

    /// Everything that was kept of the stream behind the dump.
    fn whole(mut ahead: Ahead) -> Vec<u8> {
        let blocks = std::iter::from_fn(|| ahead.pop()).collect::<Vec<_>>();
        assert_eq!(ahead.bytes(), 0);
        blocks.concat()
    }

    /// A stream of parts, of these lengths in turn: those of the dump and those of commands.
    fn in_parts(dump: &[u8], commands: &[u8], lengths: &[usize], rest: &[u8]) -> Vec<u8> {
        let mut bytes = b"\n".to_vec();
        Framing::Parts.write_header(&mut bytes).expect("memory takes it");
        let (mut lengths, mut left) = (lengths.iter().cycle(), [dump, commands]);
        while left.iter().any(|bytes| !bytes.is_empty()) {
            for (at, kind) in [Kind::Dump, Kind::Commands].into_iter().enumerate() {
                let count = lengths.next().map_or(1, |length| 1 + length % 500).min(left[at].len());
                bytes.extend_from_slice(&parts::header(kind, count));
                bytes.extend_from_slice(&left[at][..count]);
                left[at] = &left[at][count..];
            }
        }
        Framing::Parts.write_end(&mut bytes).expect("memory takes it");
        bytes.extend_from_slice(rest);
        bytes
    }

    /// Reads parts, `step` bytes at a time, and keeps commands up to `ahead_max`.
    fn read_parts(
        bytes: &[u8],
        cuts: &[usize],
        step: usize,
        ahead_max: u64,
    ) -> io::Result<(Vec<u8>, Vec<u8>)> {
        let mut payload = Payload::begin(Parts::of(bytes, cuts), Vec::new())?;
        payload.keep_ahead(ahead_max);
        let (mut found, mut buffer) = (Vec::new(), vec![0; step]);
        loop {
            let count = payload.read(&mut buffer)?;
            if count == 0 {
                break;
            }
            found.extend_from_slice(&buffer[..count]);
        }
        assert!(payload.is_complete() && payload.length().is_none());
        let (ahead, mut reader) = payload.into_rest();
        let mut behind = whole(ahead);
        reader.read_to_end(&mut behind)?;
        Ok((found, behind))
    }

    #[test]
    fn parts_are_told_apart_at_every_split() {
        let (dump, commands, rest) = (b"a dump of some bytes", b"*1\r\n$4\r\nPING\r\n", b"*0\r\n");
        let bytes = in_parts(dump, commands, &[2, 0, 6], rest);
        let behind = [&commands[..], rest].concat();
        for cut in 0..=bytes.len() {
            for step in [1, 3, 1000] {
                let found = read_parts(&bytes, &[cut], step, commands.len() as u64);
                assert_eq!(found.expect("they are right"), (dump.to_vec(), behind.clone()));
            }
        }
        let end = bytes.len() - rest.len();
        for length in 0..end {
            let kind = read_parts(&bytes[..length], &[], 100, 1000).map_err(|error| error.kind());
            assert_eq!(kind, Err(io::ErrorKind::UnexpectedEof));
        }
    }

    #[test]
    fn parts_that_make_no_sense_are_errors() {
        let bytes = in_parts(b"dump", b"commands", &[7], b"");
        let error = read_parts(&bytes, &[], 100, 7).expect_err("there are eight bytes");
        assert!(error.to_string().contains("more than 7 bytes of commands"), "{error}");
        for (part, reason) in [
            (b"X\x01\0\0\0a", "begins with 'X' and has 1 bytes"),
            (b"E\x01\0\0\0a", "begins with 'E' and has 1 bytes"),
        ] {
            let bytes = [b"$PARTS\r\n", &part[..]].concat();
            let error = read_parts(&bytes, &[], 100, 0).expect_err("it makes no sense");
            assert!(error.to_string().contains(reason), "{error}");
        }
    }

    const MARK: Mark = *b"abababababababababababababababababababac";

    #[test]
    fn a_payload_is_whole_at_every_split() {
        // Parts of the mark are in the payload and behind it.
        let payload = [&MARK[..39], &MARK[2..], b"\r\n$5\r\n", &MARK[..20], b"ab"].concat();
        let rest = [&b"*1\r\n"[..], &MARK, b"PING"].concat();
        for framing in [Framing::Mark(MARK), Framing::Length(payload.len() as u64)] {
            let bytes = framed(framing, &payload, &rest);
            for cut in 0..=bytes.len() {
                for step in [1, 7, 1000] {
                    check(&bytes, 0, &[cut], step, &payload, &rest);
                    check(&bytes, cut, &[], step, &payload, &rest);
                }
            }
            let everywhere: Vec<_> = (0..bytes.len()).collect();
            check(&bytes, 0, &everywhere, 3, &payload, &rest);
        }
    }

    #[test]
    fn an_empty_payload_ends_at_once() {
        for framing in [Framing::Mark(MARK), Framing::Length(0), Framing::Parts] {
            check(&framed(framing, b"", b"rest"), 0, &[], 10, b"", b"rest");
            check(&framed(framing, b"", b""), 0, &[], 10, b"", b"");
        }
    }

    #[test]
    fn a_stream_that_ends_early_is_an_error() {
        for framing in [Framing::Mark(MARK), Framing::Length(100)] {
            let bytes = framed(framing, &[b'x'; 100], b"");
            for length in 0..bytes.len() {
                let outcome = Payload::begin(&bytes[..length], Vec::new())
                    .and_then(|mut payload| payload.read_to_end(&mut Vec::new()));
                assert_eq!(outcome.map_err(|error| error.kind()), Err(io::ErrorKind::UnexpectedEof));
            }
        }
    }

    #[test]
    fn wrong_headers_are_errors() {
        let long = [b'x'; LINE_BYTES_MAX + 1];
        for (header, part) in [
            (&b"-ERR no\r\n"[..], "MASTER aborted replication with an error: -ERR no"),
            (b"+OK\r\n", "the first byte is not '$' (we received '+OK')"),
            (b"$\r\n", "wrong length"),
            (b"$-1\r\n", "wrong length"),
            (b"$+1\r\n", "wrong length"),
            (b"$99999999999999999999\r\n", "wrong length"),
            (b"$EOF:short\r\n", "has 5 bytes, not 40"),
            (b"\n\n\r\n", "we received ''"),
            (&long, "too long"),
        ] {
            let error = Payload::begin(header, Vec::new()).expect_err("it is wrong");
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            assert!(error.to_string().contains(part), "{error}");
        }
        // Signs of life take no memory and have no limit.
        let mut bytes = vec![b'\n'; 10 * BUFFER_BYTES];
        bytes.extend_from_slice(b"$2\r\nok");
        check(&bytes, 0, &[], 100, b"ok", b"");
    }

    #[test]
    fn bytes_that_follow_a_dump_are_noticed() {
        let bytes = framed(Framing::Mark(MARK), b"dump and more", b"");
        let mut payload = Payload::begin(&bytes[..], Vec::new()).expect("the header is right");
        let mut dump = [0; 4];
        payload.read_exact(&mut dump).expect("it is there");
        assert!(!payload.is_at_end().expect("the mark comes"));
        let mut more = [0; 9];
        payload.read_exact(&mut more).expect("it is there");
        assert!(payload.is_at_end().expect("the mark comes"));
    }

    proptest! {
        #[test]
        fn any_parts_come_through(
            dump in proptest::collection::vec(any::<u8>(), 0..2000),
            commands in proptest::collection::vec(any::<u8>(), 0..2000),
            lengths in proptest::collection::vec(any::<usize>(), 1..20),
            rest in proptest::collection::vec(any::<u8>(), 0..100),
            cuts in proptest::collection::vec(any::<usize>(), 0..20),
            step in 1..3000_usize,
        ) {
            let bytes = in_parts(&dump, &commands, &lengths, &rest);
            let found = read_parts(&bytes, &cuts, step, commands.len() as u64).expect("they are right");
            prop_assert_eq!(found, (dump, [commands, rest].concat()));
        }

        #[test]
        fn any_payload_comes_through(
            letters in proptest::collection::vec(0..3_u8, 0..300),
            large in proptest::collection::vec(any::<u8>(), 0..20),
            repeats in 1..9000_usize,
            rest in proptest::collection::vec(any::<u8>(), 0..100),
            cuts in proptest::collection::vec(any::<usize>(), 0..20),
            step in 1..100_000_usize,
            ahead in 0..200_usize,
        ) {
            // Few letters make parts of the mark likely; none is the mark's last byte.
            let mut payload: Vec<_> = letters.iter().map(|letter| b"abd"[usize::from(*letter)]).collect();
            let large = large.repeat(repeats).into_iter();
            payload.extend(large.map(|byte| if byte == b'c' { b'a' } else { byte }));
            payload.extend(letters.iter().map(|letter| b"abd"[usize::from(*letter)]));
            for framing in [Framing::Mark(MARK), Framing::Length(payload.len() as u64)] {
                let bytes = framed(framing, &payload, &rest);
                check(&bytes, ahead.min(bytes.len()), &cuts, step, &payload, &rest);
            }
        }
    }
}
