//! The reader of commands on any file: it is refused, or read, and reads the same however its bytes arrive.
#![no_main]

#[allow(dead_code, reason = "each target uses a part of it")]
#[path = "../../crates/persist/tests/aof_model/mod.rs"]
mod aof_model;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    aof_model::check_file(data);
});
