//! What a primary may say to a replica: the outcome does not depend on how the bytes arrive.
#![no_main]

use mantissa_engine::replication::handshake::{Handshake, Options, Outcome};

fn talk(options: &Options, bytes: &[u8], step: usize) -> (Option<Outcome>, Vec<u8>, usize) {
    let mut handshake = Handshake::new(options.clone());
    let mut taken = 0;
    while taken < bytes.len() && handshake.outcome().is_none() {
        let end = (taken + step).min(bytes.len());
        taken += handshake.receive(&bytes[taken..end]);
    }
    (handshake.outcome().cloned(), handshake.output, taken)
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&first, bytes)) = data.split_first() else { return };
    let options = Options {
        password: if first & 1 == 0 { Vec::new() } else { b"secret".to_vec() },
        wanted: (first & 2 == 0).then(|| ("a".repeat(40), 15)),
        takes_over: first & 4 != 0,
        ..Options::default()
    };
    let whole = talk(&options, bytes, bytes.len().max(1));
    assert_eq!(talk(&options, bytes, 1), whole);
    assert_eq!(talk(&options, bytes, usize::from(first) + 1), whole);
    // What is sent does not grow with what comes.
    assert!(whole.1.len() < 1000);
});
