//! Reading a file of commands, in one pass and with bounded memory.
//!
//! Only what is written exactly as servers write it is a command; the reader does not guess. It tells apart a
//! file that *ends* within a command or a transaction, as a crash leaves it, and one that is *damaged*.
//! A length that reaches past the end of the file while further commands follow is damage: truncation there
//! would drop the commands after it.
//!
//! In a file with [preallocated bytes](super::preallocation) the commands end with the last whole frame. The
//! file ends within a command if there is more of another frame.
//!
//! The reader holds one command or frame at a time and what it has read ahead, 256 KB. A length costs memory
//! only as its bytes arrive.

use super::preallocation::{
    self, END_LINE_BYTES, FRAME_HEADER_BYTES_MAX, FrameHeader, Nonce, Patches, TRUNCATED_FRAME,
    UNFRAMED_BYTES_MAX,
};
use crate::format::{MAGIC, SIGNATURE_BYTES, VALKEY_MAGIC};
use crate::storage::Storage;
use mantissa_number::parse_i64;
use mantissa_protocol::{Args, Slice};
use std::fmt;
use std::io::{self, Read};
use std::path::Path;

/// Bytes that are read at a time.
const BUFFER_BYTES: usize = 256 << 10;
/// A buffer above this size is freed after the command that needed it.
const BUFFER_KEPT_BYTES: usize = 1 << 20;
/// The longest line between commands.
const ANNOTATION_BYTES_MAX: usize = 64 << 10;
/// The longest line that states a count: the mark, 19 digits, and the line's end.
const HEADER_BYTES_MAX: usize = 22;
/// The most arguments of a command.
const COUNT_MAX: u64 = i32::MAX as u64;
/// How far a reader looks for further commands behind a length that reaches past the end.
const LOOK_AHEAD_BYTES: u64 = 1 << 20;

/// What stands in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Item<'a> {
    /// A command: its name and its arguments.
    Command(Args<'a>),
    /// When what follows was written, in seconds of unix time.
    Timestamp(i64),
    /// Any other line that begins with `#`, without its end.
    Annotation(&'a [u8]),
}

/// Why a file could not be read to its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AofError {
    /// The file ends within a command, a line or a transaction. `whole` is the end of what precedes that.
    Truncated {
        /// Where the last whole command or transaction ends.
        whole: u64,
        /// What is incomplete.
        reason: String,
    },
    /// The file holds bytes that no server writes.
    Damaged {
        /// The offset of these bytes.
        offset: u64,
        /// What is wrong.
        reason: String,
    },
    /// The storage failed.
    Unreadable(String),
}

impl fmt::Display for AofError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AofError::Truncated { whole, reason } => {
                write!(formatter, "{reason}; whole up to byte {whole}")
            }
            AofError::Damaged { offset, reason } => write!(formatter, "{reason} at byte {offset}"),
            AofError::Unreadable(reason) => write!(formatter, "read failed: {reason}"),
        }
    }
}

impl std::error::Error for AofError {}

/// The kind of the item being read.
enum Found {
    Command,
    Timestamp(i64),
    Annotation(usize),
}

/// Reads a file of commands, item by item; the file may end within a command.
pub struct Reader<R> {
    input: io::Take<R>,
    /// `buffer[start..end]` is read. The item at hand begins at `start` and is read up to `start + cursor`.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    cursor: usize,
    /// Offset in the file of the first byte of `buffer`.
    buffer_offset: u64,
    total: u64,
    /// Where the arguments lie, counted from `start`.
    slices: Vec<Slice>,
    whole_end: u64,
    in_transaction: bool,
    /// The nonce of frames and filler; `None` where there can be none.
    nonce: Option<Nonce>,
    /// Start and end of the last frame whose checksum was right.
    frame_start: u64,
    frame_end: u64,
    /// Patches to write before anything is appended.
    patches: Patches,
    failure: Option<AofError>,
}

impl<R: Read> Reader<R> {
    /// A reader of a file of `total` bytes that `input` yields from its start. Bytes past `total` are not
    /// read: the file may be growing.
    pub fn new(input: R, total: u64) -> Self {
        Self::resume(Vec::new(), input, 0, total)
    }

    /// A reader that begins at `offset` of a file of `total` bytes: `ahead` holds the bytes from there that
    /// have been read, and `input` yields the rest.
    pub fn resume(ahead: Vec<u8>, input: R, offset: u64, total: u64) -> Self {
        let left = total.saturating_sub(offset);
        let known = (ahead.len() as u64).min(left);
        Reader {
            input: input.take(left - known),
            end: usize::try_from(known).expect("no more than there is in memory"),
            buffer: ahead,
            start: 0,
            cursor: 0,
            buffer_offset: offset,
            total,
            slices: Vec::new(),
            whole_end: offset,
            in_transaction: false,
            nonce: None,
            frame_start: 0,
            frame_end: 0,
            patches: Patches::new(),
            failure: None,
        }
    }

    /// The next item; `None` at the end of a file that is whole. An error stays.
    pub fn next_item(&mut self) -> Result<Option<Item<'_>>, AofError> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        self.step_over_item();
        let found = match self.find() {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(None),
            Err(failure) => {
                self.failure = Some(failure.clone());
                return Err(failure);
            }
        };
        if !self.in_transaction {
            self.whole_end = self.offset();
        }
        let item = &self.buffer[self.start..self.start + self.cursor];
        Ok(Some(match found {
            Found::Command => Item::Command(Args::new(item, &self.slices)),
            Found::Timestamp(time_s) => Item::Timestamp(time_s),
            Found::Annotation(bytes) => Item::Annotation(&item[..bytes]),
        }))
    }

    /// Where the last item begins.
    pub fn item_offset(&self) -> u64 {
        self.buffer_offset + self.start as u64
    }

    /// Where the last item ends; after an error, the offset that the reader reached.
    pub fn offset(&self) -> u64 {
        self.item_offset() + self.cursor as u64
    }

    /// Where the last whole command or annotation outside a transaction, or the last whole transaction ends.
    pub fn whole_end(&self) -> u64 {
        self.whole_end
    }

    /// Whether the last item belongs to a transaction that is still open.
    pub fn in_transaction(&self) -> bool {
        self.in_transaction
    }

    /// Patches to write before anything is appended to what was read: see [`preallocation`].
    pub fn patches(&self) -> &Patches {
        &self.patches
    }

    /// The patch that is needed if the file is truncated at `end`, where the last item begins or ends.
    pub fn patch_of_truncation(&self, end: u64) -> Option<(u64, &'static [u8])> {
        (self.frame_start < end && end < self.frame_end).then_some((self.frame_start, TRUNCATED_FRAME))
    }

    fn step_over_item(&mut self) {
        self.start += self.cursor;
        self.cursor = 0;
        if self.buffer.len() > BUFFER_KEPT_BYTES && self.end - self.start <= BUFFER_BYTES {
            let rest = self.buffer[self.start..self.end].to_vec();
            self.buffer_offset += self.start as u64;
            (self.start, self.end, self.buffer) = (0, rest.len(), rest);
        }
    }

    fn find(&mut self) -> Result<Option<Found>, AofError> {
        if !self.fill(1)? {
            return if self.in_transaction { self.truncated("a transaction") } else { Ok(None) };
        }
        match self.buffer[self.start] {
            b'*' => {
                if self.is_in_preallocation() {
                    // The preallocated bytes have been truncated.
                    self.nonce = None;
                }
                self.command()?;
                Ok(Some(Found::Command))
            }
            b'#' | 0 if self.is_in_preallocation() => self.frame_or_filler(),
            0 => self.zeros(),
            b'#' => self.annotation().map(Some),
            other => self.damaged(self.item_offset(), format!("expected a command, found {}", shown(other))),
        }
    }

    fn command(&mut self) -> Result<(), AofError> {
        self.slices.clear();
        let count = self.header(b'*')?;
        if count == 0 || count > COUNT_MAX {
            return self.damaged(self.item_offset(), format!("a command cannot have {count} parts"));
        }
        for _ in 0..count {
            self.argument()?;
        }
        let name = Args::new(&self.buffer[self.start..self.end], &self.slices).get(0).unwrap_or_default();
        match name {
            name if name.eq_ignore_ascii_case(b"multi") => {
                if self.in_transaction {
                    return self.damaged(self.item_offset(), "unexpected MULTI");
                }
                self.in_transaction = true;
            }
            name if name.eq_ignore_ascii_case(b"exec") => {
                if !self.in_transaction {
                    return self.damaged(self.item_offset(), "unexpected EXEC");
                }
                self.in_transaction = false;
            }
            _ => {}
        }
        Ok(())
    }

    fn argument(&mut self) -> Result<(), AofError> {
        let offset = self.offset();
        let bytes = self.header(b'$')?;
        let left = self.total.saturating_sub(self.offset());
        let Some(len) = usize::try_from(bytes).ok().filter(|_| bytes.saturating_add(2) <= left) else {
            return self.ends_too_early(offset, bytes, left);
        };
        if !self.fill(len + 2)? {
            return self.truncated("a command");
        }
        let end = self.start + self.cursor + len;
        if &self.buffer[end..end + 2] != b"\r\n" {
            let offset = self.offset() + len as u64;
            return self.damaged(offset, "expected the end of an argument");
        }
        self.slices.push(Slice { start: self.cursor, len });
        self.cursor += len + 2;
        Ok(())
    }

    /// The failure where an argument at `offset` is longer than what is left of the file.
    fn ends_too_early(&mut self, offset: u64, bytes: u64, left: u64) -> Result<(), AofError> {
        let seen = left.min(LOOK_AHEAD_BYTES);
        self.fill(usize::try_from(seen).expect("it is at most a megabyte"))?;
        let rest = &self.buffer[self.start + self.cursor..self.end];
        if further_lines(rest) {
            let reason = format!("an argument of {bytes} bytes ends past the end of the file");
            return self.damaged(offset, reason);
        }
        self.truncated("a command")
    }

    /// A line that states a count behind `mark`.
    #[inline]
    fn header(&mut self, mark: u8) -> Result<u64, AofError> {
        let offset = self.offset();
        if !self.fill(1)? {
            return self.truncated("a command");
        }
        let first = self.buffer[self.start + self.cursor];
        if first != mark {
            let reason = format!("expected '{}', found {}", char::from(mark), shown(first));
            return self.damaged(offset, reason);
        }
        let Some(line) = self.line(HEADER_BYTES_MAX)? else {
            return if self.total - offset < HEADER_BYTES_MAX as u64 && self.rest_is_header() {
                self.truncated("a command")
            } else {
                self.damaged(offset, "expected the end of a line")
            };
        };
        let line = &self.buffer[self.start + self.cursor..self.start + self.cursor + line];
        let digits = line[1..].strip_suffix(b"\r\n").unwrap_or_default();
        let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
        let digit_value = |digit: &u8| u64::from(digit - b'0');
        let count = digits.iter().try_fold(0_u64, |sum, digit| {
            is_number.then_some(())?;
            sum.checked_mul(10)?.checked_add(digit_value(digit))
        });
        let Some(count) = count.filter(|_| is_number) else {
            return self.damaged(offset, "invalid length");
        };
        self.cursor += line.len();
        Ok(count)
    }

    /// Whether what is left may be the start of a line that states a count.
    fn rest_is_header(&self) -> bool {
        let rest = &self.buffer[self.start + self.cursor..self.end];
        let digits = rest.get(1..).unwrap_or_default();
        digits.strip_suffix(b"\r").unwrap_or(digits).iter().all(u8::is_ascii_digit)
    }

    fn annotation(&mut self) -> Result<Found, AofError> {
        let Some(bytes) = self.line(ANNOTATION_BYTES_MAX)? else {
            return if self.total - self.offset() < ANNOTATION_BYTES_MAX as u64 {
                self.truncated("a line")
            } else {
                self.damaged(self.item_offset(), "expected the end of a line")
            };
        };
        self.cursor = bytes;
        let line = &self.buffer[self.start..self.start + bytes];
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        self.nonce = Nonce::read(text).or(self.nonce);
        Ok(match text.strip_prefix(b"#TS:").and_then(parse_i64) {
            Some(time_s) => Found::Timestamp(time_s),
            None => Found::Annotation(text.len()),
        })
    }

    /// Whether the next item may be a frame's header, or filler.
    fn is_in_preallocation(&self) -> bool {
        self.nonce.is_some() && !self.in_transaction && self.item_offset() >= self.frame_end
    }

    /// A frame's header, filler, or any other line, where each may stand.
    fn frame_or_filler(&mut self) -> Result<Option<Found>, AofError> {
        self.fill(FRAME_HEADER_BYTES_MAX)?;
        let text = &self.buffer[self.start..self.end];
        if let Some((header, line)) = FrameHeader::read(text) {
            return self.frame(header, line);
        }
        let text = &text[..text.len().min(FRAME_HEADER_BYTES_MAX)];
        let line = text.iter().position(|&byte| byte == b'\n');
        // What is left of a frame's header goes on with filler or zeros.
        let is_part =
            text[0] == 0 || text[1..line.unwrap_or(text.len())].iter().any(|byte| matches!(byte, b'#' | 0));
        let is_line = line.map_or(text.len() == FRAME_HEADER_BYTES_MAX, |bytes| bytes > 1);
        if is_line && !is_part { self.annotation().map(Some) } else { self.rest_of_preallocation() }
    }

    /// A frame's header. The frame's bytes are compared with their checksum.
    fn frame(&mut self, header: FrameHeader, line: usize) -> Result<Option<Found>, AofError> {
        let Some(nonce) = self.nonce else { return self.annotation().map(Some) };
        let (offset, bytes) = (self.item_offset(), line + header.bytes);
        let end = offset + bytes as u64;
        if end > self.total {
            self.patches.push((offset, TRUNCATED_FRAME));
        } else if !self.fill(bytes)? {
            return self.truncated("a frame");
        } else if FrameHeader::of(nonce, [&self.buffer[self.start + line..self.start + bytes]]) == header {
            (self.frame_start, self.frame_end) = (offset, end);
        } else {
            self.fill(UNFRAMED_BYTES_MAX)?;
            let text = &self.buffer[self.start..self.end];
            if preallocation::has_frame(nonce, text) || preallocation::find(text, &nonce.end()).is_some() {
                return self.rest_of_preallocation();
            }
        }
        self.annotation().map(Some)
    }

    /// Preallocated bytes behind the last whole frame, with a part of another frame or without.
    fn rest_of_preallocation(&mut self) -> Result<Option<Found>, AofError> {
        let Some(nonce) = self.nonce else { return self.annotation().map(Some) };
        let offset = self.item_offset();
        self.fill(UNFRAMED_BYTES_MAX)?;
        let text = &self.buffer[self.start..self.end];
        let end = preallocation::find(text, &nonce.end());
        let (unused, rest) = match end {
            Some(at) => (&text[..at], &text[at + END_LINE_BYTES..]),
            None => (text, &[][..]),
        };
        // Perhaps a crash came while the file was lengthened.
        let is_end = text.len() < UNFRAMED_BYTES_MAX && preallocation::is_unused(nonce, rest);
        if preallocation::has_frame(nonce, unused) || (end.is_none() && !is_end) {
            return self.damaged(offset, "expected a frame");
        }
        let is_filler = preallocation::is_unused(nonce, unused);
        self.cursor = if is_end { text.len() } else { unused.len() + END_LINE_BYTES };
        match (is_end, is_filler) {
            (true, true) => {
                self.step_over_item();
                Ok(None)
            }
            (true, false) => self.truncated("a frame that was being written"),
            (false, _) => {
                // Another server has appended commands.
                self.step_over_item();
                self.nonce = None;
                self.find()
            }
        }
    }

    /// Zeros up to the end of the file where preallocation was about to begin.
    fn zeros<T>(&mut self) -> Result<T, AofError> {
        self.fill(preallocation::FIRST_BYTES_MAX + 1)?;
        let text = &self.buffer[self.start..self.end];
        if text.len() <= preallocation::FIRST_BYTES_MAX && text.iter().all(|&byte| byte == 0) {
            return self.truncated("the start of preallocated bytes");
        }
        self.damaged(self.item_offset(), format!("expected a command, found {}", shown(0)))
    }

    /// The length of the line at the cursor with its end; `None` if it does not end within `bytes_max`.
    #[inline]
    fn line(&mut self, bytes_max: usize) -> Result<Option<usize>, AofError> {
        let mut searched = 0;
        loop {
            let rest = &self.buffer[self.start + self.cursor..self.end];
            let scope = &rest[searched..rest.len().min(bytes_max)];
            if let Some(at) = scope.iter().position(|&byte| byte == b'\n') {
                return Ok(Some(searched + at + 1));
            }
            searched += scope.len();
            if searched == bytes_max || !self.fill(searched + 1)? {
                return Ok(None);
            }
        }
    }

    /// Makes `count` bytes from the cursor on available; false if the file ends before.
    #[inline]
    fn fill(&mut self, count: usize) -> Result<bool, AofError> {
        Ok(self.end - self.start - self.cursor >= count || self.fill_slowly(self.cursor + count)?)
    }

    #[cold]
    fn fill_slowly(&mut self, count: usize) -> Result<bool, AofError> {
        self.buffer_offset += self.start as u64;
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        while self.end < count {
            if self.end == self.buffer.len() || self.buffer.len() < BUFFER_BYTES {
                let left = usize::try_from(self.input.limit()).unwrap_or(usize::MAX);
                let size = (self.end.saturating_mul(2)).max(BUFFER_BYTES).min(self.end.saturating_add(left));
                if size > self.buffer.len() {
                    self.buffer.resize(size, 0);
                }
            }
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(0) => return Ok(false),
                Ok(count) => self.end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(AofError::Unreadable(error.to_string())),
            }
        }
        Ok(true)
    }

    fn truncated<T>(&self, within: &str) -> Result<T, AofError> {
        Err(AofError::Truncated { whole: self.whole_end, reason: format!("the file ends within {within}") })
    }

    fn damaged<T>(&self, offset: u64, reason: impl Into<String>) -> Result<T, AofError> {
        Err(AofError::Damaged { offset, reason: reason.into() })
    }
}

/// Whether `text` holds a line that only commands have.
fn further_lines(text: &[u8]) -> bool {
    let mut rest = text;
    while let Some(at) = rest.iter().position(|&byte| byte == b'\n') {
        rest = &rest[at + 1..];
        if let [b'*' | b'$', line @ ..] = rest {
            let digits = line.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if (1..HEADER_BYTES_MAX).contains(&digits) && line[digits..].starts_with(b"\r\n") {
                return true;
            }
        }
    }
    false
}

fn shown(byte: u8) -> String {
    if byte.is_ascii_graphic() { format!("'{}'", char::from(byte)) } else { format!("byte 0x{byte:02x}") }
}

/// Whether a file begins with an RDB file. Its commands, if there are any, follow that.
pub fn has_preamble(storage: &dyn Storage, path: &Path) -> io::Result<bool> {
    let mut start = Vec::new();
    storage.open(path)?.take(SIGNATURE_BYTES as u64).read_to_end(&mut start)?;
    Ok(start.starts_with(MAGIC) || start.starts_with(VALKEY_MAGIC))
}
