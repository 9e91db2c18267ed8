//! Bloom and Cuckoo filters: BF.LOADCHUNK and CF.LOADCHUNK of any headers and pieces, RESTORE of any values
//! of these types.
#![no_main]

#[allow(dead_code, reason = "each target uses a part of it")]
#[path = "../../crates/persist/tests/model/mod.rs"]
mod model;
#[allow(dead_code, unused_imports, reason = "each target uses a part of it")]
#[path = "../../crates/store/tests/operations/mod.rs"]
mod operations;

/// What values begin with: the mark of a module's type, and the identifiers of the two.
const BLOOM: [u8; 10] = [7, 0x81, 0x30, 0x16, 0xe5, 0xa2, 0x89, 0xbe, 0xf8, 4];
const CUCKOO: [u8; 10] = [7, 0x81, 0x30, 0x16, 0xe5, 0xa2, 0x89, 0x82, 0x14, 4];

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((choice, rest)) = data.split_first() else { return };
    match choice % 4 {
        0 => operations::bloom_operations(rest),
        1 => operations::cuckoo_operations(rest),
        2 => _ = model::check_payload(&[&BLOOM[..], rest].concat()),
        _ => _ = model::check_payload(&[&CUCKOO[..], rest].concat()),
    }
});
