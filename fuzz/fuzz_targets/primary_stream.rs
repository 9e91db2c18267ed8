//! The stream of a primary: any bytes. Nothing fails inside the replica, and its log has what it used.
#![no_main]

#[path = "../../crates/engine/tests/hostile_stream/mod.rs"]
mod hostile_stream;

use std::cell::RefCell;

use hostile_stream::Replica;
use mantissa_engine::embedded::Embedded;

/// What comes first, so that one input does not depend on another.
const EMPTIED: &[u8] = b"*1\r\n$8\r\nFLUSHALL\r\n";

thread_local! {
    static REPLICA: RefCell<Replica> = RefCell::new(Replica::new(open()));
}

fn open() -> Embedded {
    let folder = std::env::temp_dir().join(format!("mantissa-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the temporary folder is writable");
    Embedded::open_without_background(&folder, &[("save", "\"\"")]).expect("it can be opened")
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let (cut, rest) = data.split_first().map_or((0, data), |(first, rest)| (usize::from(*first), rest));
    let stream = [EMPTIED, rest].concat();
    REPLICA.with_borrow_mut(|replica| replica.hear(&stream, EMPTIED.len() + cut));
});
