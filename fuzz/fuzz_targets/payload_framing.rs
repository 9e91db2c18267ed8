//! The framing of a full synchronisation on any stream and any split of it: it is refused, or yields the same
//! payload and the same rest however the bytes arrive.
#![no_main]

use std::io::Read;

use mantissa_persist::framing::Payload;

/// What a stream holds: the payload, whether it is whole, and what follows it.
type Parts = (Vec<u8>, bool, Vec<u8>);

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
    let mut bytes = Vec::new();
    let _it_may_end_early = payload.read_to_end(&mut bytes);
    let is_complete = payload.is_complete();
    assert_eq!(payload.given(), bytes.len() as u64);
    let mut rest = Vec::new();
    if is_complete {
        let (behind, mut reader) = payload.into_rest();
        rest = behind;
        reader.read_to_end(&mut rest).expect("memory gives it");
    }
    Ok((bytes, is_complete, rest))
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&choice, stream)) = data.split_first() else { return };
    let ahead = usize::from(choice >> 4) * 5 % (stream.len() + 1);
    let whole = parts(stream, 0, usize::MAX);
    assert_eq!(whole, parts(stream, ahead, usize::from(choice & 15) + 1));
    if let Ok((payload, true, rest)) = whole {
        assert!(payload.len() + rest.len() <= stream.len());
        assert!(stream.ends_with(&rest));
    }
});
