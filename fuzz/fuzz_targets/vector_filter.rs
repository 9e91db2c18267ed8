//! Expressions of VSIM's FILTER on attributes, both of any bytes: the first NUL is between them.
#![no_main]

use mantissa_commands::Filter;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let split = data.iter().position(|&byte| byte == 0).unwrap_or(data.len());
    let (expression, rest) = data.split_at(split);
    let attribute = rest.get(1..).unwrap_or_default();
    match Filter::compile(expression) {
        Ok(filter) => _ = filter.passes(attribute),
        Err(at) => assert!(at <= expression.len()),
    }
});
