//! Zipmaps: the packed hashes of Redis before 2.6.
//!
//! ```text
//! count (1 byte, 254 or more: unknown) | { length field | length free-bytes value, free bytes } ... | 0xff
//! length: one byte below 254, or 254 and four bytes little-endian
//! ```

use super::{Damage, u32_at};

const END: u8 = 0xff;
const LENGTH_IN_FOUR_BYTES: u8 = 254;

/// A field and its value.
pub type Pair<'a> = (&'a [u8], &'a [u8]);

/// The fields and values of a zipmap.
#[derive(Clone)]
pub struct Pairs<'a> {
    bytes: &'a [u8],
    at: usize,
    found: usize,
    done: bool,
}

/// Begins; the count in the header is compared at the end.
pub fn pairs(bytes: &[u8]) -> Pairs<'_> {
    Pairs { bytes, at: 1, found: 0, done: false }
}

impl<'a> Pairs<'a> {
    fn length(&mut self) -> Option<usize> {
        let first = *self.bytes.get(self.at)?;
        if first < LENGTH_IN_FOUR_BYTES {
            self.at += 1;
            return Some(usize::from(first));
        }
        if first == END {
            return None;
        }
        let length = u32_at(self.bytes, self.at + 1)?;
        self.at += 5;
        usize::try_from(length).ok()
    }

    fn slice(&mut self, length: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(length)?;
        let slice = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(slice)
    }

    fn pair(&mut self) -> Option<Pair<'a>> {
        let length = self.length()?;
        let field = self.slice(length)?;
        let length = self.length()?;
        let free = usize::from(*self.slice(1)?.first()?);
        let value = self.slice(length)?;
        self.slice(free)?;
        Some((field, value))
    }

    fn fail(&mut self, at: usize, reason: &'static str) -> Option<Result<Pair<'a>, Damage>> {
        self.done = true;
        Some(Err(Damage { at, reason }))
    }
}

impl<'a> Iterator for Pairs<'a> {
    type Item = Result<Pair<'a>, Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let at = self.at;
        if self.bytes.get(at) == Some(&END) {
            let stated = self.bytes[0];
            if at + 1 != self.bytes.len() {
                return self.fail(at, "zipmap ends before its bytes do");
            }
            if stated < LENGTH_IN_FOUR_BYTES && usize::from(stated) != self.found {
                return self.fail(0, "zipmap's count differs from its pairs");
            }
            self.done = true;
            return None;
        }
        match self.pair() {
            Some(pair) => {
                self.found += 1;
                Some(Ok(pair))
            }
            None => self.fail(at, "zipmap has a broken pair"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &[u8] = b"\x02\x03foo\x03\x02bar..\x05hello\x00\x00\xff";

    #[test]
    fn reads_pairs_and_steps_over_free_bytes() {
        let read: Result<Vec<_>, _> = pairs(GOOD).collect();
        assert_eq!(read, Ok(vec![(&b"foo"[..], &b"bar"[..]), (b"hello", b"")]));
        let mut long = b"\xfe\xfe\x2c\x01\x00\x00".to_vec();
        long.extend([b'x'; 300]);
        long.extend(b"\x01\x00y\xff");
        let read: Result<Vec<_>, _> = pairs(&long).collect();
        assert_eq!(read, Ok(vec![(&[b'x'; 300][..], &b"y"[..])]));
    }

    #[test]
    fn damage_is_an_error() {
        for length in 0..GOOD.len() {
            assert!(pairs(&GOOD[..length]).any(|pair| pair.is_err()), "{length}");
        }
        assert!(pairs(b"\x03\x01a\x01\x00b\xff").any(|pair| pair.is_err()));
        assert!(pairs(b"\x01\x01a\x01\x00b\xff\xff").any(|pair| pair.is_err()));
    }
}
