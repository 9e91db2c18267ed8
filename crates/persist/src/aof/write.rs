//! Commands as they stand in the append-only file.

use mantissa_number::{INTEGER_TEXT_MAX, format_i64};

/// Appends a command: its name and its arguments. There is at least the name.
pub fn put_command(words: &[impl AsRef<[u8]>], out: &mut Vec<u8>) {
    debug_assert!(!words.is_empty(), "a command has a name");
    put_header(b'*', words.len(), out);
    for word in words {
        put_argument(word.as_ref(), out);
    }
}

/// Appends what says how many arguments, the name among them, a command has; [`put_argument`] for each is to
/// follow.
pub fn put_count(count: usize, out: &mut Vec<u8>) {
    put_header(b'*', count, out);
}

/// Appends an argument of a command.
pub fn put_argument(word: &[u8], out: &mut Vec<u8>) {
    put_argument_length(word.len(), out);
    out.extend_from_slice(word);
    out.extend_from_slice(b"\r\n");
}

/// Appends what comes before an argument of so many bytes; the bytes and a line end are to follow.
pub fn put_argument_length(bytes: usize, out: &mut Vec<u8>) {
    put_header(b'$', bytes, out);
}

/// Appends the line that says that what follows was written at this time, in seconds of unix time.
pub fn put_timestamp(time_s: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"#TS:");
    out.extend_from_slice(format_i64(&mut [0; INTEGER_TEXT_MAX], time_s));
    out.extend_from_slice(b"\r\n");
}

fn put_header(mark: u8, count: usize, out: &mut Vec<u8>) {
    out.push(mark);
    let count = i64::try_from(count).expect("nothing in memory has more bytes or parts");
    out.extend_from_slice(format_i64(&mut [0; INTEGER_TEXT_MAX], count));
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_requests() {
        let mut out = Vec::new();
        put_timestamp(1_700_000_000, &mut out);
        put_command(&[&b"SET"[..], b"", b"a\r\nb"], &mut out);
        assert_eq!(out, b"#TS:1700000000\r\n*3\r\n$3\r\nSET\r\n$0\r\n\r\n$4\r\na\r\nb\r\n");
    }
}
