//! Packed arguments: any bytes are read or refused, and what is read goes round.
#![no_main]

#[path = "../../crates/protocol/tests/packed/mod.rs"]
mod packed;

libfuzzer_sys::fuzz_target!(|data: &[u8]| packed::check(data));
