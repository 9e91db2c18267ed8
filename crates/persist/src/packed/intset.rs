//! Intsets: a sorted array of integers of one width.
//!
//! ```text
//! width in bytes (u32 LE: 2, 4 or 8) | count (u32 LE) | integers, little-endian, rising
//! ```

use super::{Damage, u32_at};

const HEADER_BYTES: usize = 8;

/// The integers of an intset.
#[derive(Clone)]
pub struct Integers<'a> {
    bytes: &'a [u8],
    width: usize,
    at: usize,
    previous: Option<i64>,
}

/// Checks the header and begins.
pub fn integers(bytes: &[u8]) -> Result<Integers<'_>, Damage> {
    let (Some(width), Some(count)) = (u32_at(bytes, 0), u32_at(bytes, 4)) else {
        return Err(Damage { at: 0, reason: "intset is shorter than its header" });
    };
    if !matches!(width, 2 | 4 | 8) {
        return Err(Damage { at: 0, reason: "intset has integers of an unknown width" });
    }
    let payload = u64::from(width) * u64::from(count);
    if payload + HEADER_BYTES as u64 != bytes.len() as u64 {
        return Err(Damage { at: 4, reason: "intset's length does not fit its count" });
    }
    Ok(Integers { bytes, width: width as usize, at: HEADER_BYTES, previous: None })
}

impl Integers<'_> {
    /// How many are left.
    pub fn left(&self) -> usize {
        (self.bytes.len() - self.at) / self.width
    }
}

impl Iterator for Integers<'_> {
    type Item = Result<i64, Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        let raw = self.bytes.get(self.at..self.at + self.width)?;
        let at = self.at;
        self.at += self.width;
        let mut wide = if raw[self.width - 1] & 0x80 != 0 { [0xff; 8] } else { [0; 8] };
        wide[..self.width].copy_from_slice(raw);
        let value = i64::from_le_bytes(wide);
        if self.previous.is_some_and(|previous| previous >= value) {
            self.at = self.bytes.len();
            return Some(Err(Damage { at, reason: "intset is not in rising order" }));
        }
        self.previous = Some(value);
        Some(Ok(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Vec<i64>, Damage> {
        integers(bytes)?.collect()
    }

    #[test]
    fn each_width_reads() {
        assert_eq!(read(&[2, 0, 0, 0, 2, 0, 0, 0, 0xff, 0xff, 1, 0]), Ok(vec![-1, 1]));
        assert_eq!(read(&[4, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0]), Ok(vec![65536]));
        assert_eq!(read(&[8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80]), Ok(vec![i64::MIN]));
        assert_eq!(read(&[2, 0, 0, 0, 0, 0, 0, 0]), Ok(vec![]));
    }

    #[test]
    fn damage_is_named() {
        for bytes in [
            &[][..],
            &[2, 0, 0, 0, 1, 0, 0],
            &[3, 0, 0, 0, 0, 0, 0, 0],
            &[2, 0, 0, 0, 1, 0, 0, 0],
            &[2, 0, 0, 0, 0, 0, 0, 0, 1, 0],
            &[2, 0, 0, 0, 2, 0, 0, 0, 1, 0, 1, 0],
            &[8, 0, 0, 0, 0xff, 0xff, 0xff, 0xff],
        ] {
            assert!(read(bytes).is_err(), "{bytes:?}");
        }
    }
}
