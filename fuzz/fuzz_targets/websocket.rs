//! Frames of a WebSocket client. The first two bytes say where the rest is cut.
#![no_main]

use mantissa_net::websocket::{CloseCode, Decoder, Event, Incoming, Limits};
use mantissa_protocol::json::parse_message;

const LIMITS: Limits = Limits { frame_bytes_max: 5000, message_bytes_max: 9000 };

#[derive(Default, PartialEq, Debug)]
struct Seen {
    messages: Vec<(bool, Vec<u8>)>,
    controls: Vec<(Option<bool>, Vec<u8>)>,
    failed: Option<CloseCode>,
}

fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Seen {
    let (mut decoder, mut incoming, mut seen) = (Decoder::new(LIMITS), Incoming::default(), Seen::default());
    for mut piece in pieces {
        loop {
            let event = match decoder.next(&mut piece, &mut incoming) {
                Ok(None) => break,
                Ok(Some(event)) => event,
                Err(code) => {
                    seen.failed = Some(code);
                    return seen;
                }
            };
            assert!(incoming.text.len() <= 9000 && incoming.binary.len() <= 9000);
            match event {
                Event::Text { is_last: true } => {
                    assert!(std::str::from_utf8(&incoming.text).is_ok());
                    // What text messages carry.
                    let _any_verdict = parse_message(&incoming.text);
                    seen.messages.push((true, std::mem::take(&mut incoming.text)));
                }
                Event::Binary { is_last: true } => {
                    seen.messages.push((false, std::mem::take(&mut incoming.binary)));
                }
                Event::Text { .. } | Event::Binary { .. } => {}
                Event::Ping => seen.controls.push((Some(true), decoder.control().to_vec())),
                Event::Pong => seen.controls.push((Some(false), decoder.control().to_vec())),
                Event::Close => seen.controls.push((None, decoder.control().to_vec())),
            }
        }
        assert!(piece.is_empty());
    }
    seen
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((cut, bytes)) = data.split_first_chunk::<2>() else { return };
    let cut = usize::from(u16::from_le_bytes(*cut)) % (bytes.len() + 1);
    let whole = decode([bytes]);
    assert_eq!(decode([&bytes[..cut], &bytes[cut..]]), whole);
    assert_eq!(decode(bytes.chunks(1)), whole);
});
