//! The lines of the append-only file that are not commands. Commands are written as
//! [requests](mantissa_protocol::encode_request).

use mantissa_number::{INTEGER_TEXT_MAX, format_i64};

/// Appends a timestamp line, in seconds of unix time, for the commands that follow.
pub fn put_timestamp(time_s: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"#TS:");
    out.extend_from_slice(format_i64(&mut [0; INTEGER_TEXT_MAX], time_s));
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use mantissa_protocol::encode_request;

    use super::*;

    #[test]
    fn commands_are_requests() {
        let mut out = Vec::new();
        put_timestamp(1_700_000_000, &mut out);
        encode_request(&mut out, [&b"SET"[..], b"", b"a\r\nb"]);
        assert_eq!(out, b"#TS:1700000000\r\n*3\r\n$3\r\nSET\r\n$0\r\n\r\n$4\r\na\r\nb\r\n");
    }
}
