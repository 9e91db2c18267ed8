//! A stream of any bytes, for a test and a fuzz target: nothing fails inside the server, and the log has what
//! was used of it.

use mantissa_engine::embedded::Embedded;
use mantissa_engine::replication::apply::Applier;
use mantissa_persist::log::{Backlog, Reader, Start};

/// A replica whose log is read.
pub struct Replica {
    store: Embedded,
    reader: Reader,
    _backlog: Backlog,
}

impl Replica {
    /// A replica with these data.
    pub fn new(store: Embedded) -> Replica {
        let engine = store.engine();
        engine.set_replica(true);
        let _backlog = engine.log.keep(64 << 20);
        let reader = engine.log.register(Start::Here, u64::MAX, None).expect("the end is kept");
        Replica { store, reader, _backlog }
    }

    /// Feeds it a stream, in two pieces. Whether it is sound is all the same.
    pub fn hear(&mut self, stream: &[u8], cut: usize) {
        let mut applier = Applier::new(self.store.engine(), 0);
        let (mut from, mut is_sound) = (0, true);
        for end in [cut.min(stream.len()), stream.len()] {
            while is_sound {
                match applier.apply(&stream[from..end]) {
                    Ok(applied) => {
                        from += applied.used;
                        if !applied.ack {
                            break;
                        }
                    }
                    Err(_) => is_sound = false,
                }
            }
        }
        let mut chunks = Vec::new();
        self.reader.read(u64::MAX, usize::MAX, &mut chunks).expect("the reader keeps up");
        let logged: Vec<u8> = chunks.iter().flat_map(|chunk| chunk.bytes().to_vec()).collect();
        check(stream, &logged, is_sound.then_some(from));
    }
}

/// The log has the front of the stream, without line feeds between commands. All of what was used, if the
/// stream was sound.
fn check(stream: &[u8], logged: &[u8], used: Option<usize>) {
    let (mut at, mut logged) = (0, logged);
    while !logged.is_empty() {
        let same = stream[at..].iter().zip(logged).take_while(|(one, other)| one == other).count();
        (at, logged) = (at + same, &logged[same..]);
        if !logged.is_empty() {
            assert_eq!(stream.get(at), Some(&b'\n'), "what is logged was sent");
            at += 1;
        }
    }
    if let Some(used) = used {
        assert!(stream[at..used].iter().all(|byte| *byte == b'\n'), "what is used is logged");
    }
}
