//! RESTORE of time series and vector sets whose payloads are broken in a few places: refused, or sound.
#![no_main]

#[allow(dead_code, reason = "each target uses a part of it")]
#[path = "../../crates/persist/tests/model/mod.rs"]
mod model;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    model::damaged::check_damaged(data);
});
