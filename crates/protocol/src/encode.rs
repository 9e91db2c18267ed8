//! Requests as a client sends them.

use mantissa_number::write_u64;

/// Maximum bytes of an argument's lines: `$`, a length of 20 digits, and two ends of lines.
const LINES_BYTES_MAX: usize = 25;

/// Appends a request to `out`: an array of bulk strings.
pub fn encode_request<T: AsRef<[u8]>>(
    out: &mut Vec<u8>,
    args: impl IntoIterator<Item = T, IntoIter: ExactSizeIterator>,
) {
    let args = args.into_iter();
    line(out, b'*', args.len());
    for arg in args {
        let arg = arg.as_ref();
        // With its two lines: the second one would double the buffer of a long argument.
        out.reserve(arg.len() + LINES_BYTES_MAX);
        line(out, b'$', arg.len());
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
}

fn line(out: &mut Vec<u8>, kind: u8, count: usize) {
    out.push(kind);
    write_u64(out, count as u64);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_an_array_of_bulk_strings() {
        let mut out = Vec::new();
        encode_request(&mut out, ["GET", "a key longer"]);
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$12\r\na key longer\r\n");
        let decoded = crate::decode_request(&out).expect("it is one request");
        assert_eq!(decoded.as_args().iter().collect::<Vec<_>>(), [&b"GET"[..], b"a key longer"]);
        assert!(crate::decode_request(&out[1..]).is_none() && crate::decode_request(&[]).is_none());
        out.push(b'*');
        assert!(crate::decode_request(&out).is_none());
    }
}
