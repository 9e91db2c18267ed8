//! Sizes and shares for people, as INFO prints them.

use crate::float::write_fixed;
use crate::integer::write_u64;

/// Appends a size as `used_memory_human` shows it: `192B`, `1.18M`, `23.54G`; units are powers of 1,024 up
/// to `P`, and from 1,024 P on it is plain bytes again.
pub fn write_human_size(out: &mut Vec<u8>, bytes: u64) {
    let units = [(10, b'K'), (20, b'M'), (30, b'G'), (40, b'T'), (50, b'P')];
    match units.iter().find(|(shift, _)| bytes >> shift >= 1 && bytes >> shift < 1024) {
        Some(&(shift, letter)) => {
            write_fixed(out, bytes as f64 / (1u64 << shift) as f64, 2);
            out.push(letter);
        }
        None => {
            write_u64(out, bytes);
            out.push(b'B');
        }
    }
}

/// Appends a percentage with two decimals and its sign: `87.93%`.
pub fn write_percent(out: &mut Vec<u8>, percent: f64) {
    write_fixed(out, percent, 2);
    out.push(b'%');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_redis_shows_them() {
        let expected = [
            (0, "0B"),
            (1023, "1023B"),
            (1024, "1.00K"),
            (32 * 1024, "32.00K"),
            (1 << 20, "1.00M"),
            (1_234_567, "1.18M"),
            ((1 << 20) - 1, "1024.00K"),
            (25_275_000_000, "23.54G"),
            (1 << 40, "1.00T"),
            (3 << 50, "3.00P"),
            (1 << 60, "1152921504606846976B"),
        ];
        for (bytes, text) in expected {
            let mut out = Vec::new();
            write_human_size(&mut out, bytes);
            assert_eq!(String::from_utf8_lossy(&out), text);
        }
        let mut out = Vec::new();
        write_percent(&mut out, 100.136);
        assert_eq!(out, b"100.14%");
    }
}
