//! Manifests, indexes and chunks of any bytes: refused, or read without a panic and written without loss.
#![no_main]

use mantissa_archive::trial::{parses, restores};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    parses(data);
    let _refused_or_not = restores(data);
});
