//! Operations on arrays and their clones: contents are those of a standard map throughout.
#![no_main]

#[allow(dead_code, unused_imports, reason = "each target uses a part of it")]
#[path = "../../crates/store/tests/operations/mod.rs"]
mod operations;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    operations::array_operations(data);
});
