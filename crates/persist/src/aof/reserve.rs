//! Room reserved at the end of an append-only file.
//!
//! A file system takes two to three times as long to make durable what lengthens a file as what overwrites
//! bytes that the file has: the new length goes through its journal. Where every write is made durable at
//! once the file is therefore lengthened ahead, by many bytes at a time, and written over from there on:
//!
//! ```text
//! | commands | #RESERVED | group | group | ... | # | # | # | # | ...        one line each
//!
//! group: | #SUM:<checksum, 8 hex digits>:<bytes, 6 hex digits> | that many bytes of commands |
//! ```
//!
//! Servers and tools that know nothing of this take lines that begin with `#` for notes. The filler is such
//! lines, of two bytes at even offsets; a group ends at an even offset, for which the lines before end with
//! `\r\n` or with `\n`. So the file is a valid one at any time, needs no repair after a crash, and can be
//! written on by any server.
//!
//! What a loss of power leaves of a group may have filler anywhere in it, also within an argument; a file
//! that grows only ends too early. Hence the checksum. These hold:
//!
//! - the mark is durable before the first group is written, filler before a group is written over it;
//! - a group is durable before the next one is written, and filler is left behind each;
//! - other commands are written only after the filler has been cut off.
//!
//! So only the last group can be incomplete, and only one with filler behind it up to the end of the file.
//! The checksums of others are compared, too: a difference is damage, unless what stands behind the bytes of
//! the group can not follow a command: then the file was cut within the group and written on by a server
//! that does not know groups. Filler with commands behind it was left by such a server as well.
//!
//! Before this server writes on in a file that was cut within a group, or has commands behind filler, it
//! changes the line there ([`CUT_HEAD`], [`CLOSED`]), so that it is taken for an ordinary note.

use crate::format::Checksum;

/// The line behind which there may be groups and filler, without its end.
pub const MARK: &[u8] = b"#RESERVED";
/// The filler.
pub const FILLER: &[u8; 2] = b"#\n";
/// What filler with commands behind it is made to begin with.
pub const CLOSED: &[u8] = b"#CLOSED\n";
/// Bytes of filler that are left behind a group, at least.
pub const FILLER_BYTES_MIN: usize = CLOSED.len();
/// Most bytes of the line before a group.
pub const HEAD_BYTES_MAX: usize = 22;
/// Most bytes of a group.
pub const GROUP_BYTES_MAX: usize = 256 << 10;
/// What the line before a group begins with.
const HEAD: &[u8] = b"#SUM:";
/// With what of the same length it begins instead where the file was cut within the group.
pub const CUT_HEAD: &[u8] = b"#CUT:";

/// A line with the end that lets what is `bytes` long together with it end at an even offset.
pub fn put_line(line: &[u8], bytes: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(line);
    let is_even = (bytes + line.len() as u64).is_multiple_of(2);
    out.extend_from_slice(if is_even { b"\r\n" } else { b"\n" });
}

/// What the line before a group says of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// The low half of the CRC-64 of the group's bytes.
    pub checksum: u32,
    /// How many these are.
    pub bytes: usize,
}

impl Head {
    /// What is to be said of a group that consists of these parts, of at most [`GROUP_BYTES_MAX`] bytes.
    pub fn of<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> Self {
        let (mut checksum, mut bytes) = (Checksum::default(), 0);
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

/// The length of what precedes filler at the end of `text`, with bytes behind it by which a file was
/// lengthened without them being written.
pub fn without_filler(text: &[u8]) -> usize {
    let rest = text.iter().rposition(|&byte| byte != 0).map_or(0, |at| at + 1);
    let rest = text[..rest].strip_suffix(&FILLER[..1]).map_or(rest, <[u8]>::len);
    let pairs = text[..rest].rchunks_exact(FILLER.len()).take_while(|&pair| pair == FILLER).count();
    rest - pairs * FILLER.len()
}

/// Whether there is a whole group anywhere in `text`.
pub fn has_group(text: &[u8]) -> bool {
    let mut rest = text;
    while let Some(at) = rest.windows(HEAD.len()).position(|window| window == HEAD) {
        rest = &rest[at..];
        let group =
            Head::read(rest).and_then(|(head, line)| Some((head, rest.get(line..line + head.bytes)?)));
        if group.is_some_and(|(head, bytes)| head.bytes > 0 && Head::of([bytes]) == head) {
            return true;
        }
        rest = &rest[HEAD.len()..];
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_read_back() {
        for group in [&b""[..], b"*1\r\n$4\r\nPING\r\n", &[b'x'; GROUP_BYTES_MAX], b"odd"] {
            let (head, mut whole) = (Head::of([group]), Vec::new());
            put_line(&head.line(), group.len() as u64, &mut whole);
            let line = whole.len();
            whole.extend_from_slice(group);
            assert!(line <= HEAD_BYTES_MAX && whole.len() % 2 == 0);
            assert_eq!(Head::read(&whole), Some((head, line)));
            assert_eq!(has_group(&[b"some#SUM:", &whole[..]].concat()), !group.is_empty());
            for at in 1..line - 2 {
                let mut changed = whole.clone();
                changed[at] = b'#';
                assert_eq!(Head::read(&changed), None);
                assert!(!has_group(&changed));
            }
            assert_eq!(Head::read(&whole[..line - 1]), None);
        }
        assert_eq!((CUT_HEAD.len(), CLOSED.len() % 2), (HEAD.len(), 0));
    }

    #[test]
    fn filler_is_told_from_what_precedes_it() {
        for (text, before) in
            [(&b"x"[..], 1), (b"#\n", 0), (b"\n\n#\n#", 2), (b"*#\n#\n#\0\0", 1), (b"#\n\0", 0)]
        {
            assert_eq!(without_filler(text), before, "{text:?}");
        }
    }
}
