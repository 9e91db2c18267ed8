//! Room reserved at the end of an append-only file.
//!
//! A file system takes two to three times as long to make durable what lengthens a file as what overwrites
//! bytes that the file has: the new length goes through its journal. Where every write is made durable at
//! once the file is therefore lengthened ahead, by many bytes at a time, and written over from there on:
//!
//! ```text
//! | commands | #RESERVED:<nonce> | group | group | ... | # | # | # | ... | #END:<nonce> |    one line each
//!
//! group: | #SUM:<checksum, 8 hex digits>:<bytes, 6 hex digits> | that many bytes of commands |
//! ```
//!
//! Servers and tools that know nothing of this take lines that begin with `#` for notes. The filler is such
//! lines, of two bytes at even offsets; a group ends at an even offset, for which the lines before end with
//! `\r\n` or with `\n`. So between two writes the file is a valid one, and can be written on by any server.
//!
//! What a loss of power leaves of a group, or a kill within a write, may lack any part of it, also within an
//! argument, and have filler there; a file that grows only ends too early. Hence the checksum, which takes in
//! the nonce: no value can hold what looks like a group. Then this server, or its check, is to see the file
//! first: others would take what is left of the last group for commands. These hold:
//!
//! - the mark is durable before there is filler, filler before a group is written over it;
//! - a group is durable before the next one is written;
//! - room is cut off, and that is durable, before other commands are written.
//!
//! So what is no whole group lies at the end of the room, and all up to the room's end is no command. Zeros
//! stand there where the file was lengthened, or shortened, without more. If there is a whole group behind,
//! the file is damaged. What stands behind the line that ends the room was written by a server that does
//! not know of it. Where that line is missing, a group that differs from its checksum was cut by such a
//! server, or a tool, and written on: it is read as the commands that it is.
//!
//! Before this server writes on in a file that ends within a group, it changes the line before that
//! ([`CUT_HEAD`]), so that it is taken for an ordinary note.

use std::hash::{BuildHasher, RandomState};
use std::io;

use crate::format::Checksum;
use crate::storage::StorageFile;

/// What the line begins with behind which there may be groups and filler; the nonce follows.
pub const MARK: &[u8] = b"#RESERVED:";
/// The filler.
pub const FILLER: &[u8; 2] = b"#\n";
/// What the line begins with that ends the room; the nonce follows.
const END: &[u8] = b"#END:";
/// Bytes of the line that ends the room, and of a nonce in it.
pub const END_BYTES: usize = 14;
const NONCE_BYTES: usize = 8;
/// Most bytes of the lines that begin and end room, which are written first.
pub const FIRST_BYTES_MAX: usize = MARK.len() + NONCE_BYTES + 2 + END_BYTES;
/// Most bytes of the line before a group.
pub const HEAD_BYTES_MAX: usize = 22;
/// Most bytes of a group.
pub const GROUP_BYTES_MAX: usize = 256 << 10;
/// Most bytes by which room is lengthened at a time.
pub const RESERVE_BYTES_MAX: u64 = 64 << 20;
/// More bytes than there are in the room behind the last whole group.
pub const ROOM_BYTES_MAX: usize = RESERVE_BYTES_MAX as usize + (1 << 20);
/// What the line before a group begins with.
const HEAD: &[u8] = b"#SUM:";
/// With what of the same length it begins instead where the file was cut within the group.
pub const CUT_HEAD: &[u8] = b"#CUT:";

/// What is to be written over in a file, at which offsets.
pub type Patches = Vec<(u64, &'static [u8])>;

/// Cuts a file after writing over what has to be before anything is written on, durably: what is written next
/// may share the last block.
pub fn cut(file: &mut dyn StorageFile, length: u64, patches: &Patches) -> io::Result<()> {
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

/// What tells the lines of a room and the checksums of its groups from whatever a value may hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Nonce([u8; NONCE_BYTES]);

impl Nonce {
    /// One that nobody can foresee.
    pub fn new() -> Self {
        Nonce::from_number(RandomState::new().hash_one(std::process::id()) as u32)
    }

    fn from_number(number: u32) -> Self {
        Nonce(std::array::from_fn(|digit| b"0123456789abcdef"[(number >> (28 - 4 * digit)) as usize & 15]))
    }

    /// The one of a line, without its end, that begins reserved room.
    pub fn read(line: &[u8]) -> Option<Self> {
        let digits: [u8; NONCE_BYTES] = line.strip_prefix(MARK)?.try_into().ok()?;
        digits.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')).then_some(Nonce(digits))
    }

    /// The line that begins the room, without its end.
    pub fn mark(self) -> Vec<u8> {
        [MARK, &self.0].concat()
    }

    /// The line that ends the room.
    pub fn end(self) -> [u8; END_BYTES] {
        let line = [END, &self.0, b"\n"].concat();
        line.try_into().expect("its parts have this length")
    }
}

impl Default for Nonce {
    fn default() -> Self {
        Nonce::new()
    }
}

/// What the line before a group says of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// The low half of the CRC-64 of the nonce and the group's bytes.
    pub checksum: u32,
    /// How many these are.
    pub bytes: usize,
}

impl Head {
    /// What is to be said of a group that consists of these parts, of at most [`GROUP_BYTES_MAX`] bytes.
    pub fn of<'p>(nonce: Nonce, parts: impl IntoIterator<Item = &'p [u8]>) -> Self {
        let (mut checksum, mut bytes) = (Checksum::default(), 0);
        checksum.update(&nonce.0);
        for part in parts {
            checksum.update(part);
            bytes += part.len();
        }
        Head { checksum: checksum.value() as u32, bytes }
    }

    /// The line, without its end.
    pub fn line(self) -> Vec<u8> {
        format!("#SUM:{:08x}:{:06x}", self.checksum, self.bytes).into_bytes()
    }

    /// What a line says that `text` begins with, and the line's length; `None` if that is no line before a
    /// group.
    pub fn read(text: &[u8]) -> Option<(Self, usize)> {
        let (digits, rest) = text.strip_prefix(HEAD)?.split_at_checked(15)?;
        let line = text.len() - rest.len() + if rest.starts_with(b"\r\n") { 2 } else { 1 };
        let number = |digits: &[u8]| {
            let is_hex = digits.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            u32::from_str_radix(std::str::from_utf8(digits).ok().filter(|_| is_hex)?, 16).ok()
        };
        let (checksum, bytes) = (number(&digits[..8])?, number(&digits[9..])? as usize);
        let is_line = text.get(line - 1) == Some(&b'\n') && digits[8] == b':';
        (is_line && bytes <= GROUP_BYTES_MAX).then_some((Head { checksum, bytes }, line))
    }
}

/// Whether there is only what a loss of power may leave of room in `text`, from an even offset on: filler,
/// zeros, and a part of the line that ends it.
pub fn is_room(nonce: Nonce, text: &[u8]) -> bool {
    let is_own = |(at, &byte): (usize, &u8)| byte == 0 || byte == FILLER[at % 2];
    let Some(other) = text.iter().enumerate().position(|item| !is_own(item)) else { return true };
    let end = nonce.end();
    (other.saturating_sub(END_BYTES - 1)..=other).filter(|at| at % 2 == 0).any(|at| {
        let rest = &text[at..];
        rest.len() <= END_BYTES && rest.iter().zip(end).all(|(&byte, own)| byte == 0 || byte == own)
    })
}

/// Whether there is a whole group anywhere in `text`.
pub fn has_group(nonce: Nonce, text: &[u8]) -> bool {
    let mut rest = text;
    while let Some(at) = find(rest, HEAD) {
        rest = &rest[at..];
        let group =
            Head::read(rest).and_then(|(head, line)| Some((head, rest.get(line..line + head.bytes)?)));
        if group.is_some_and(|(head, bytes)| Head::of(nonce, [bytes]) == head) {
            return true;
        }
        rest = &rest[HEAD.len()..];
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
        assert_eq!(nonce.mark(), b"#RESERVED:01239abc");
        assert_eq!((&nonce.end(), Nonce::read(&nonce.mark())), (b"#END:01239abc\n", Some(nonce)));
        assert_ne!(Nonce::new(), Nonce::new());
        for group in [&b""[..], b"*1\r\n$4\r\nPING\r\n", &[b'x'; GROUP_BYTES_MAX], b"odd"] {
            let (head, mut whole) = (Head::of(nonce, [group]), Vec::new());
            put_line(&head.line(), group.len() as u64, &mut whole);
            let line = whole.len();
            whole.extend_from_slice(group);
            assert!(line <= HEAD_BYTES_MAX && whole.len() % 2 == 0);
            assert_eq!(Head::read(&whole), Some((head, line)));
            assert!(has_group(nonce, &[b"some#SUM:", &whole[..]].concat()));
            assert!(!has_group(Nonce::new(), &whole));
            for at in 1..line - 2 {
                let mut changed = whole.clone();
                changed[at] = b'#';
                assert_eq!(Head::read(&changed), None);
                assert!(!has_group(nonce, &changed));
            }
            assert_eq!(Head::read(&whole[..line - 1]), None);
        }
        assert_eq!((CUT_HEAD.len(), END_BYTES % 2), (HEAD.len(), 0));
    }

    #[test]
    fn room_is_told_from_the_rest() {
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
            assert!(is_room(nonce, text), "{text:?}");
        }
        for text in [&b"\n#"[..], b"#\n*", b"##", b"#END:00000008\n", b"#END:00000007\n#\n"] {
            assert!(!is_room(nonce, text), "{text:?}");
        }
    }
}
