//! The framing of a full synchronisation on any stream and any split of it: it is refused, or yields the same
//! payload and the same rest however the bytes arrive.
#![no_main]

use std::io::Read;

use mantissa_persist::framing::Payload;

/// What a stream holds: the payload, whether it is whole, how many bytes of commands came before its end, and
/// these with what follows.
type Parts = (Vec<u8>, bool, u64, Vec<u8>);

/// Bytes of commands that may come before the end.
const AHEAD_BYTES_MAX: u64 = 50;

/// Yields at most so many bytes at a time.
struct Trickle<'a>(&'a [u8], usize);

impl Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let step = self.1.min(buffer.len());
        self.0.read(&mut buffer[..step])
    }
}

fn parts(stream: &[u8], ahead: usize, step: usize) -> Result<Parts, String> {
    let reader = Trickle(&stream[ahead..], step);
    let mut payload = Payload::begin(reader, stream[..ahead].to_vec()).map_err(|error| error.to_string())?;
    payload.keep_ahead(AHEAD_BYTES_MAX);
    let mut bytes = Vec::new();
    let _it_may_end_early = payload.read_to_end(&mut bytes);
    let is_complete = payload.is_complete();
    assert_eq!(payload.given(), bytes.len() as u64);
    // How much more than allowed it had when it was refused depends on how the bytes came.
    let (mut rest, kept) = (Vec::new(), payload.ahead().bytes().min(AHEAD_BYTES_MAX + 1));
    if is_complete {
        let (mut ahead, mut reader) = payload.into_rest();
        rest.extend(std::iter::from_fn(|| ahead.pop()).flatten());
        reader.read_to_end(&mut rest).expect("memory gives it");
    }
    Ok((bytes, is_complete, kept, rest))
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&choice, stream)) = data.split_first() else { return };
    let ahead = usize::from(choice >> 4) * 5 % (stream.len() + 1);
    let whole = parts(stream, 0, usize::MAX);
    assert_eq!(whole, parts(stream, ahead, usize::from(choice & 15) + 1));
    if let Ok((payload, true, kept, rest)) = whole {
        assert!(payload.len() + rest.len() <= stream.len() && kept <= AHEAD_BYTES_MAX);
        assert!(stream.ends_with(&rest[kept as usize..]));
    }
});
