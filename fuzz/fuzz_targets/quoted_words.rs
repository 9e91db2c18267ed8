//! Words in quotes, as lines of configuration files, user files and inline requests have them.
#![no_main]

use mantissa_protocol::{put_quoted, split_quoted};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(words) = split_quoted(data) else { return };
    let mut line = Vec::new();
    for word in &words {
        line.push(b' ');
        put_quoted(&mut line, word);
    }
    assert_eq!(split_quoted(&line), Ok(words));
});
