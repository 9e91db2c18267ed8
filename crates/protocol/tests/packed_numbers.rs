//! Packed numbers: the shared vectors of `number/vectors`, and bytes that are changed at random.

mod packed;

use std::path::Path;

use mantissa_protocol::packed::{Numbers, Packed};

/// The hexadecimal digits as bytes.
fn bytes_of(digits: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal digits");
    (0..digits.len()).step_by(2).map(byte).collect()
}

/// The part of a line between two texts.
fn part<'a>(line: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(before)?;
    rest.split_once(after).map(|(part, _)| part)
}

/// The cases: the bytes, and if they can be read the numbers as they are shown.
fn vectors() -> Vec<(Vec<u8>, Option<Vec<String>>)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../number/vectors/packed.json");
    let file = std::fs::read_to_string(path).expect("the vectors are there");
    let case = |line: &str| {
        let packed = part(line, "\"packed\": \"", "\"")?;
        let numbers = part(line, "\"numbers\": [", "]").map(|list| {
            let list = list.split(", ").filter(|text| !text.is_empty());
            list.map(|text| text.trim_matches('"').to_owned()).collect()
        });
        Some((bytes_of(packed), numbers))
    };
    file.lines().filter_map(case).collect()
}

#[test]
fn the_shared_vectors_are_read() {
    let (mut read, mut refused) = (0, 0);
    for (bytes, numbers) in vectors() {
        let packed = Packed::read(&bytes);
        let Some(numbers) = numbers else {
            assert!(packed.is_err(), "{bytes:02x?}");
            refused += 1;
            continue;
        };
        let packed = packed.expect("a good case");
        let shown: Vec<String> = match &packed.numbers {
            Numbers::Doubles(values) => {
                values.iter().map(|value| format!("{:016x}", value.to_bits())).collect()
            }
            Numbers::Floats(values) => {
                values.iter().map(|value| format!("{:08x}", value.to_bits())).collect()
            }
            Numbers::Integers(values) => values.iter().map(i64::to_string).collect(),
        };
        let shown = shown.into_iter().enumerate();
        let shown = shown.map(|(index, text)| if packed.is_null(index) { "null".to_owned() } else { text });
        assert_eq!(shown.collect::<Vec<_>>(), numbers);
        read += 1;
    }
    assert!(read > 10 && refused > 10, "{read} read, {refused} refused");
}

#[test]
fn changed_bytes_break_nothing() {
    let mut state = 7_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for (bytes, _) in vectors().into_iter().filter(|(bytes, _)| !bytes.is_empty()) {
        packed::check(&bytes);
        for _ in 0..300 {
            let mut changed = bytes.clone();
            for _ in 0..=random(3) {
                let at = random(changed.len());
                changed[at] = [0, 1, 2, 127, 128, 255, random(256) as u8][random(7)];
            }
            changed.truncate(changed.len() - random(4).min(changed.len()));
            packed::check(&changed);
        }
    }
}
