//! Requests over HTTP: their heads, content in chunks, and the commands in it.
#![no_main]

use mantissa_net::http::{BodyReader, ParsedHead, parse_head, percent_decode};
use mantissa_protocol::json::{parse_command, parse_commands};

const BODY_BYTES_MAX: usize = 1 << 16;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(commands) = parse_command(data) {
        assert_eq!(commands.len(), 1);
    }
    if let Ok(commands) = parse_commands(data) {
        assert!(commands.encoded_bytes() <= data.len() * 9);
    }
    assert!(percent_decode(data, true).is_none_or(|plain| plain.len() <= data.len()));
    let ParsedHead::Complete(head, len) = parse_head(data) else { return };
    // What follows a head does not change how it is read.
    assert_eq!(parse_head(&data[..len]), ParsedHead::Complete(head.clone(), len));
    let Ok(whole) = BodyReader::new(head.framing, BODY_BYTES_MAX) else { return };
    let (mut split, mut whole) = (whole.clone(), whole);
    let (mut content, mut parts, mut consumed) = (Vec::new(), Vec::new(), 0);
    let outcome = whole.read(&data[len..], &mut content);
    assert!(content.len() <= BODY_BYTES_MAX);
    // Nor does it matter how content is split.
    for part in data[len..].chunks(3) {
        match split.read(part, &mut parts) {
            Ok(progress) => consumed += progress.consumed,
            Err(status) => return assert_eq!(outcome, Err(status)),
        }
    }
    let progress = outcome.expect("its parts are well formed");
    assert_eq!((progress.consumed, progress.is_done, content), (consumed, split.is_done(), parts));
});
