//! Operations on a hash table: its contents are those of a standard set throughout, and scans miss nothing.
#![no_main]

#[allow(dead_code, unused_imports, reason = "each target uses a part of it")]
#[path = "../../crates/store/tests/operations/mod.rs"]
mod operations;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    operations::table_operations(data);
});
