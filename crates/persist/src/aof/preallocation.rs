//! Bytes preallocated at the end of an append-only file, and the frames that are written over them.
//!
//! A file system takes two to three times as long to make durable what lengthens a file as what overwrites
//! bytes that the file has: the new length goes through its journal. With `appendfsync always` the file is
//! therefore lengthened ahead, by many bytes at a time, and commands overwrite these bytes:
//!
//! ```text
//! | commands | #RESERVED:<nonce> | frame | frame | ... | # | # | # | ... | #END:<nonce> |    one line each
//!
//! frame: | #SUM:<checksum, 8 hex digits>:<bytes, 6 hex digits> | that many bytes of commands |
//! ```
//!
//! The line before a frame's commands is its header. The lines of one `#` are filler.
//!
//! Other servers and tools take lines that begin with `#` for annotations. A line of filler has
//! two bytes and begins at an even offset. A frame ends at an even offset, for which its header ends with
//! `\r\n` or with `\n`. So between two writes the file is a valid one, and any server can write it on.
//!
//! After a loss of power, or a kill within a write, any part of the last frame may be missing, also within an
//! argument, and filler may stand there; a file that only grows would just end too early. Hence the checksum.
//! It includes the nonce, so no value can hold what looks like a frame. This server, or its check, must see
//! such a file first: others would take what is left of the last frame for commands. These hold:
//!
//! - the first line is durable before there is filler, and filler before a frame is written over it;
//! - a frame is durable before the next one is written;
//! - preallocated bytes are truncated, durably, before commands without a frame are written.
//!
//! So a frame that is not whole is the last one, and no command stands between it and the last line. Zeros
//! stand where only the file's length was changed. A whole frame behind one that is not whole means damage.
//! What stands behind the last line was written by a server that does not know of frames. Where the last line
//! is missing, a frame that differs from its checksum was truncated by such a server or a tool, and commands
//! were appended: the frame is read as commands.
//!
//! Before this server writes on in a file that ends within a frame, it changes the frame's header
//! ([`TRUNCATED_FRAME`]), so that the header is taken for an annotation.

use std::hash::{BuildHasher, RandomState};
use std::io;

use crate::format::Checksum;
use crate::storage::StorageFile;

/// The start of the first line, before the nonce. Frames and filler may follow the line.
pub const START_LINE: &[u8] = b"#RESERVED:";
/// The filler.
pub const FILLER: &[u8; 2] = b"#\n";
/// The start of the last line, before the nonce.
const END_LINE: &[u8] = b"#END:";
/// Bytes of the last line, and of a nonce in it.
pub const END_LINE_BYTES: usize = 14;
const NONCE_BYTES: usize = 8;
/// Maximum bytes of the first and the last line together, which are written before anything else.
pub const FIRST_BYTES_MAX: usize = START_LINE.len() + NONCE_BYTES + 2 + END_LINE_BYTES;
/// Maximum bytes of a frame's header.
pub const FRAME_HEADER_BYTES_MAX: usize = 22;
/// Maximum bytes of commands in a frame.
pub const FRAME_BYTES_MAX: usize = 256 << 10;
/// Maximum bytes that are preallocated at a time.
pub const PREALLOCATED_BYTES_MAX: u64 = 64 << 20;
/// An upper bound of the bytes preallocated behind the last whole frame.
pub const UNFRAMED_BYTES_MAX: usize = PREALLOCATED_BYTES_MAX as usize + (1 << 20);
/// The start of a frame's header.
const FRAME_HEADER: &[u8] = b"#SUM:";
/// The same for a file that was truncated within the frame. Of the same length.
pub const TRUNCATED_FRAME: &[u8] = b"#CUT:";

/// Bytes to write over a file, by offset.
pub type Patches = Vec<(u64, &'static [u8])>;

/// Writes patches over a file and truncates it, durably: the next write may share the last block. The patches
/// are needed before commands are appended.
pub fn truncate(file: &mut dyn StorageFile, length: u64, patches: &Patches) -> io::Result<()> {
    for (offset, bytes) in patches {
        file.go_to(*offset)?;
        file.write_all(bytes)?;
    }
    file.set_length(length)?;
    file.sync()
}

/// A line with the end that lets what is `bytes` long together with it end at an even offset.
pub fn put_line(line: &[u8], bytes: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(line);
    let is_even = (bytes + line.len() as u64).is_multiple_of(2);
    out.extend_from_slice(if is_even { b"\r\n" } else { b"\n" });
}

/// A random number in the first and last line and the checksums of frames: no value can hold one by chance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Nonce([u8; NONCE_BYTES]);

impl Nonce {
    /// A random nonce, which clients cannot foresee.
    pub fn new() -> Self {
        Nonce::from_number(RandomState::new().hash_one(std::process::id()) as u32)
    }

    fn from_number(number: u32) -> Self {
        Nonce(std::array::from_fn(|digit| b"0123456789abcdef"[(number >> (28 - 4 * digit)) as usize & 15]))
    }

    /// The nonce in a first line, given without its line end.
    pub fn read(line: &[u8]) -> Option<Self> {
        let digits: [u8; NONCE_BYTES] = line.strip_prefix(START_LINE)?.try_into().ok()?;
        digits.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')).then_some(Nonce(digits))
    }

    /// The first line, without its end.
    pub fn start(self) -> Vec<u8> {
        [START_LINE, &self.0].concat()
    }

    /// The last line.
    pub fn end(self) -> [u8; END_LINE_BYTES] {
        let line = [END_LINE, &self.0, b"\n"].concat();
        line.try_into().expect("its parts have this length")
    }
}

impl Default for Nonce {
    fn default() -> Self {
        Nonce::new()
    }
}

/// The fields of a frame's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameHeader {
    /// The low half of the CRC-64 of the nonce and the frame's commands.
    pub checksum: u32,
    /// Bytes of commands.
    pub bytes: usize,
}

impl FrameHeader {
    /// The header of a frame that consists of these parts, of at most [`FRAME_BYTES_MAX`] bytes.
    pub fn of<'p>(nonce: Nonce, parts: impl IntoIterator<Item = &'p [u8]>) -> Self {
        let (mut checksum, mut bytes) = (Checksum::default(), 0);
        checksum.update(&nonce.0);
        for part in parts {
            checksum.update(part);
            bytes += part.len();
        }
        FrameHeader { checksum: checksum.value() as u32, bytes }
    }

    /// The line, without its end.
    pub fn line(self) -> Vec<u8> {
        format!("#SUM:{:08x}:{:06x}", self.checksum, self.bytes).into_bytes()
    }

    /// The header that `text` begins with, and the length of its line; `None` if it begins with none.
    pub fn read(text: &[u8]) -> Option<(Self, usize)> {
        let (digits, rest) = text.strip_prefix(FRAME_HEADER)?.split_at_checked(15)?;
        let line = text.len() - rest.len() + if rest.starts_with(b"\r\n") { 2 } else { 1 };
        let number = |digits: &[u8]| {
            let is_hex = digits.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            u32::from_str_radix(std::str::from_utf8(digits).ok().filter(|_| is_hex)?, 16).ok()
        };
        let (checksum, bytes) = (number(&digits[..8])?, number(&digits[9..])? as usize);
        let is_line = text.get(line - 1) == Some(&b'\n') && digits[8] == b':';
        (is_line && bytes <= FRAME_BYTES_MAX).then_some((FrameHeader { checksum, bytes }, line))
    }
}

/// Whether `text`, which begins at an even offset, holds only what a loss of power may leave of preallocated
/// bytes: filler, zeros, and a part of the last line.
pub fn is_unused(nonce: Nonce, text: &[u8]) -> bool {
    let is_own = |(at, &byte): (usize, &u8)| byte == 0 || byte == FILLER[at % 2];
    let Some(other) = text.iter().enumerate().position(|item| !is_own(item)) else { return true };
    let end = nonce.end();
    (other.saturating_sub(END_LINE_BYTES - 1)..=other).filter(|at| at % 2 == 0).any(|at| {
        let rest = &text[at..];
        rest.len() <= END_LINE_BYTES && rest.iter().zip(end).all(|(&byte, own)| byte == 0 || byte == own)
    })
}

/// Whether there is a whole frame anywhere in `text`.
pub fn has_frame(nonce: Nonce, text: &[u8]) -> bool {
    let mut rest = text;
    while let Some(at) = find(rest, FRAME_HEADER) {
        rest = &rest[at..];
        let frame = FrameHeader::read(rest)
            .and_then(|(header, line)| Some((header, rest.get(line..line + header.bytes)?)));
        if frame.is_some_and(|(header, bytes)| FrameHeader::of(nonce, [bytes]) == header) {
            return true;
        }
        rest = &rest[FRAME_HEADER.len()..];
    }
    false
}

/// Where `part` first is in `text`.
pub fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    // All lines begin with the same byte.
    let starts = text.iter().enumerate().filter(|&(_, &byte)| byte == part[0]);
    starts.map(|(at, _)| at).find(|&at| text[at..].starts_with(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_read_back() {
        let nonce = Nonce::from_number(0x0123_9abc);
        assert_eq!(nonce.start(), b"#RESERVED:01239abc");
        assert_eq!((&nonce.end(), Nonce::read(&nonce.start())), (b"#END:01239abc\n", Some(nonce)));
        assert_ne!(Nonce::new(), Nonce::new());
        for frame in [&b""[..], b"*1\r\n$4\r\nPING\r\n", &[b'x'; FRAME_BYTES_MAX], b"odd"] {
            let (header, mut whole) = (FrameHeader::of(nonce, [frame]), Vec::new());
            put_line(&header.line(), frame.len() as u64, &mut whole);
            let line = whole.len();
            whole.extend_from_slice(frame);
            assert!(line <= FRAME_HEADER_BYTES_MAX && whole.len() % 2 == 0);
            assert_eq!(FrameHeader::read(&whole), Some((header, line)));
            assert!(has_frame(nonce, &[b"some#SUM:", &whole[..]].concat()));
            assert!(!has_frame(Nonce::new(), &whole));
            for at in 1..line - 2 {
                let mut changed = whole.clone();
                changed[at] = b'#';
                assert_eq!(FrameHeader::read(&changed), None);
                assert!(!has_frame(nonce, &changed));
            }
            assert_eq!(FrameHeader::read(&whole[..line - 1]), None);
        }
        assert_eq!((TRUNCATED_FRAME.len(), END_LINE_BYTES % 2), (FRAME_HEADER.len(), 0));
    }

    #[test]
    fn unused_bytes_are_told_from_the_rest() {
        let nonce = Nonce::from_number(7);
        for text in [
            &b""[..],
            b"#",
            b"#\n#\n",
            b"#\n#\0\0\n\0\0",
            b"\0\0#\n",
            b"#\n#END:00000007\n",
            b"#\n#END:0",
            b"#\n\0\0\0D:0\0",
        ] {
            assert!(is_unused(nonce, text), "{text:?}");
        }
        for text in [&b"\n#"[..], b"#\n*", b"##", b"#END:00000008\n", b"#END:00000007\n#\n"] {
            assert!(!is_unused(nonce, text), "{text:?}");
        }
    }
}
