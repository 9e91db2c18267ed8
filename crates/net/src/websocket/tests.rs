//! Every rule of RFC 6455 on frames. Numbers as 6.4.1 are those of the Autobahn test suite's cases.

use super::*;

mod autobahn;
mod properties;

const KEY: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];
const LIMITS: Limits = Limits { frame_bytes_max: 1 << 20, message_bytes_max: 1 << 21 };

/// A frame of a client: the first byte as it is, and a length in as few bytes as possible.
fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
    let (bytes, used) = header(Opcode::Binary, payload.len());
    let mut frame = bytes[..used].to_vec();
    frame[0] = first;
    frame[1] |= 0x80;
    frame.extend_from_slice(&KEY);
    frame.extend(payload.iter().enumerate().map(|(at, byte)| byte ^ KEY[at % 4]));
    frame
}

/// What came of a connection, in a form that does not depend on how the bytes were cut.
#[derive(PartialEq, Eq, Debug)]
enum Seen {
    Text(String),
    Binary(Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(Vec<u8>),
    Failed(CloseCode),
}

/// Decodes pieces, one call of the owner for each. Between them the decoder goes to another process.
fn decode_with<'a>(limits: Limits, pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Seen> {
    let (mut decoder, mut incoming, mut seen) = (Decoder::new(limits), Incoming::default(), Vec::new());
    for mut piece in pieces {
        if !decoder.is_closed() {
            decoder = Decoder::with_state(limits, &decoder.state()).expect("it is a state");
        }
        loop {
            match decoder.next(&mut piece, &mut incoming) {
                Ok(None) => break,
                Ok(Some(Event::Text { is_last: true })) => {
                    let text = String::from_utf8(std::mem::take(&mut incoming.text));
                    seen.push(Seen::Text(text.expect("it has been checked")));
                }
                Ok(Some(Event::Binary { is_last: true })) => {
                    seen.push(Seen::Binary(std::mem::take(&mut incoming.binary)));
                }
                Ok(Some(Event::Text { .. } | Event::Binary { .. })) => {}
                Ok(Some(Event::Ping)) => seen.push(Seen::Ping(decoder.control().to_vec())),
                Ok(Some(Event::Pong)) => seen.push(Seen::Pong(decoder.control().to_vec())),
                Ok(Some(Event::Close)) => seen.push(Seen::Close(decoder.control().to_vec())),
                Err(code) => {
                    seen.push(Seen::Failed(code));
                    return seen;
                }
            }
        }
        assert!(piece.is_empty(), "input is left over");
    }
    seen
}

/// Decodes frames whole, and byte by byte.
fn decode(frames: &[Vec<u8>]) -> Vec<Seen> {
    let bytes = frames.concat();
    let seen = decode_with(LIMITS, [&bytes[..]]);
    assert_eq!(decode_with(LIMITS, bytes.chunks(1)), seen, "byte by byte");
    seen
}

#[test]
fn what_is_no_state_is_refused() {
    let mut decoder = Decoder::new(LIMITS);
    let frame = masked(0x01, "ä".as_bytes());
    let mut input = &frame[..frame.len() - 1];
    while decoder.next(&mut input, &mut Incoming::default()).expect("it is sound").is_some() {}
    let state = decoder.state();
    assert!(Decoder::with_state(LIMITS, &state).is_some());
    for len in 0..state.len() {
        assert!(Decoder::with_state(LIMITS, &state[..len]).is_none(), "{len}");
    }
    for at in 0..state.len() {
        for bit in 0..8 {
            let mut other = state.clone();
            other[at] ^= 1 << bit;
            if let Some(mut decoder) = Decoder::with_state(LIMITS, &other) {
                let mut incoming = Incoming::default();
                let mut input = &[0x55; 300][..];
                while let Ok(Some(_)) = decoder.next(&mut input, &mut incoming) {}
            }
        }
    }
}

fn text(text: &str) -> Seen {
    Seen::Text(text.to_owned())
}

fn protocol_error() -> Seen {
    Seen::Failed(CloseCode::ProtocolError)
}

#[test]
fn section_1_3_the_key_of_the_handshake_is_answered() {
    let answer = accept_key(b"dGhlIHNhbXBsZSBub25jZQ==");
    assert_eq!(answer.as_deref(), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
}

#[test]
fn section_4_1_a_key_is_16_bytes_in_base64() {
    for key in [
        "",
        "dGhlIHNhbXBsZSBub25jZQ=",
        "dGhlIHNhbXBsZSBub25jZQ===",
        "dGhlIHNhbXBsZSBub25j",
        "=".repeat(24).as_str(),
    ] {
        assert_eq!(accept_key(key.as_bytes()), None, "{key}");
    }
    assert_eq!(accept_key(b"dGhlIHNhbXBsZSBub25j\nQ=="), None);
}

#[test]
fn section_5_7_the_examples() {
    assert_eq!(
        decode(&[vec![0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58]]),
        [text("Hello")]
    );
    let ping = vec![0x89, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58];
    assert_eq!(decode(&[ping]), [Seen::Ping(b"Hello".to_vec())]);
    let mut out = Vec::new();
    frame(Opcode::Text, b"Hello", &mut out);
    assert_eq!(out, [0x81, 0x05, 0x48, 0x65, 0x6c, 0x6c, 0x6f]);
    let (bytes, used) = header(Opcode::Binary, 256);
    assert_eq!(bytes[..used], [0x82, 0x7e, 0x01, 0x00]);
    let (bytes, used) = header(Opcode::Binary, 65536);
    assert_eq!(bytes[..used], [0x82, 0x7f, 0, 0, 0, 0, 0, 1, 0, 0]);
}

#[test]
fn section_5_1_what_has_no_mask_is_refused() {
    assert_eq!(decode(&[vec![0x81, 0x00]]), [protocol_error()]);
    assert_eq!(decode(&[vec![0x88, 0x00]]), [protocol_error()]);
}

#[test]
fn section_5_2_a_length_is_in_as_few_bytes_as_possible() {
    assert_eq!(decode(&[vec![0x82, 0xfe, 0, 125]]), [protocol_error()]);
    assert_eq!(decode(&[vec![0x82, 0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff]]), [protocol_error()]);
    assert_eq!(decode(&[vec![0x82, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0]]), [protocol_error()]);
}

#[test]
fn section_10_4_limits_hold_before_the_payload() {
    let limits = Limits { frame_bytes_max: 10, message_bytes_max: 15 };
    let decode = |frames: &[Vec<u8>]| decode_with(limits, [&frames.concat()[..]]);
    let too_big = || Seen::Failed(CloseCode::TooBig);
    assert_eq!(decode(&[masked(0x82, &[7; 10])]), [Seen::Binary(vec![7; 10])]);
    assert_eq!(decode(&[masked(0x82, &[7; 11])]), [too_big()]);
    assert_eq!(decode(&[vec![0x82, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]]), [too_big()]);
    let parts = |last| [masked(0x02, &[7; 10]), masked(0x80, &vec![7; last])];
    assert_eq!(decode(&parts(5)), [Seen::Binary(vec![7; 15])]);
    assert_eq!(decode(&parts(6)), [too_big()]);
    // The next message begins anew, and control frames do not count.
    let twice = [masked(0x82, &[7; 10]), masked(0x89, &[7; 20]), masked(0x82, &[7; 10])];
    assert_eq!(decode(&twice).len(), 3);
}

#[test]
fn section_5_5_1_nothing_after_a_close_counts() {
    let frames = [masked(0x88, &[0x03, 0xe8]), masked(0x81, b"late"), vec![0xff; 9]];
    assert_eq!(decode(&frames), [Seen::Close(vec![0x03, 0xe8])]);
}

#[test]
fn section_5_5_a_close_frame_of_ours_is_never_too_long() {
    let mut out = Vec::new();
    close(CloseCode::TooBig, &"é".repeat(100), &mut out);
    assert_eq!((out[0], out[1]), (0x88, 124));
    assert_eq!(out[2..4], 1009_u16.to_be_bytes());
    assert!(std::str::from_utf8(&out[4..]).is_ok());
}

#[test]
fn masks_go_whatever_the_length_and_the_offset() {
    for len in (0..100).chain([8191, 8192, 8193, 20_001]) {
        for offset in 0..5 {
            let plain: Vec<u8> = (0..len).map(|at| (at * 7) as u8).collect();
            let hidden: Vec<u8> =
                plain.iter().enumerate().map(|(at, byte)| byte ^ KEY[(at + offset) % 4]).collect();
            let mut out = b"before".to_vec();
            unmask(&hidden, KEY, offset, &mut out);
            assert_eq!(out, [b"before", &plain[..]].concat(), "{len} {offset}");
        }
    }
}
