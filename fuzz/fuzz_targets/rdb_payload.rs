//! RESTORE on any payload with a right footer: it is refused, or restored, and is then dumped and restored
//! again without loss.
#![no_main]

#[allow(dead_code, reason = "each target uses a part of it")]
#[path = "../../crates/persist/tests/model/mod.rs"]
mod model;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    model::check_payload(data);
});
