//! The request parser, whole and in pieces, against its model.
#![no_main]

#[path = "../../crates/protocol/tests/model/mod.rs"]
mod model;

libfuzzer_sys::fuzz_target!(|data: &[u8]| model::check_requests(data));
