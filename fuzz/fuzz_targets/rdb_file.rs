//! The loader on any file: it is refused, or loads, and is then written and loaded again without loss. As a
//! stream it comes to the same in several threads.
#![no_main]

#[allow(dead_code, reason = "each target uses a part of it")]
#[path = "../../crates/persist/tests/model/mod.rs"]
mod model;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    model::check_file(data);
    model::check_stream(data);
});
