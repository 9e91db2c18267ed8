//! The reader of manifests on any text: it is refused, or read and written without loss.
#![no_main]

#[allow(dead_code, reason = "each target uses a part of it")]
#[path = "../../crates/persist/tests/aof_model/mod.rs"]
mod aof_model;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    aof_model::check_manifest(data);
});
