//! Numbers as bytes: varints with zigzag, and doubles and floats in bulk, big- or little-endian.
//!
//! A varint is LEB128: seven bits a byte, lowest first, the top bit set on all but the last; a `u64` takes
//! one to ten bytes. Zigzag maps small negative numbers to small unsigned ones. Big-endian doubles are what
//! Java's `ByteBuffer` and most network formats read. The bulk functions are the C header's, which swap
//! with vector instructions where the machine has them and run at memory bandwidth.

use crate::header;

/// The most bytes that a varint takes.
pub const VARINT_MAX: usize = 10;

/// Maps a signed number to an unsigned one so that small magnitudes stay small: 0, -1, 1, -2 become 0, 1,
/// 2, 3.
#[inline]
pub const fn zigzag(value: i64) -> u64 {
    (value as u64) << 1 ^ (value >> 63) as u64
}

/// The inverse of [`zigzag`].
#[inline]
pub const fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Appends `value` as a varint.
#[inline]
pub fn write_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads a varint from the front of `bytes`: the value and how many bytes it took. `None` if the bytes end
/// inside it, or if it does not fit in 64 bits.
#[inline]
pub fn read_varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0u64;
    for (index, &byte) in bytes.iter().take(VARINT_MAX).enumerate() {
        if index == VARINT_MAX - 1 && byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            return Some((value, index + 1));
        }
    }
    None
}

macro_rules! bulk {
    ($encode:ident, $decode:ident, $number:ty, $what:literal) => {
        #[doc = concat!("Appends `values` as ", $what, ".")]
        pub fn $encode(out: &mut Vec<u8>, values: &[$number]) {
            header::$encode(out, values);
        }

        #[doc = concat!("Appends to `out` the numbers that `bytes` holds as ", $what, "; a rest is ignored.")]
        pub fn $decode(out: &mut Vec<$number>, bytes: &[u8]) {
            header::$decode(out, bytes);
        }
    };
}

bulk!(encode_f64_be, decode_f64_be, f64, "big-endian doubles");
bulk!(encode_f64_le, decode_f64_le, f64, "little-endian doubles");
bulk!(encode_f32_be, decode_f32_be, f32, "big-endian floats");
bulk!(encode_f32_le, decode_f32_le, f32, "little-endian floats");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_go_round_and_refuse_what_does_not_fit() {
        for shift in 0..64 {
            for value in [1u64 << shift, (1u64 << shift) - 1, u64::MAX >> shift] {
                let mut out = Vec::new();
                write_varint(&mut out, value);
                assert!(out.len() <= VARINT_MAX);
                assert_eq!(read_varint(&out), Some((value, out.len())));
                assert_eq!(read_varint(&out[..out.len() - 1]), None);
                assert_eq!(unzigzag(zigzag(value as i64)), value as i64);
            }
        }
        assert_eq!([0, -1, 1, -2].map(zigzag), [0, 1, 2, 3]);
        assert_eq!(read_varint(&[0xff; 10]), None);
        assert_eq!(read_varint(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]), None);
    }

    #[test]
    fn bulk_forms_go_round() {
        let values: Vec<f64> = (0..1000).map(|index| f64::from(index) * 0.37 - 5.0).collect();
        let mut bytes = Vec::new();
        encode_f64_be(&mut bytes, &values);
        assert_eq!(bytes[..8], values[0].to_be_bytes());
        let mut back = Vec::new();
        decode_f64_be(&mut back, &bytes);
        assert_eq!(back, values);
    }
}
