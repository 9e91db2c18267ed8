//! Ziplists: the packed lists of Redis before 7.0.
//!
//! ```text
//! total bytes (u32 LE) | offset of last entry (u32 LE) | count (u16 LE, 65,535: unknown) | entry ... | 0xff
//! entry: length of the entry before (1 byte below 254, or 254 and u32 LE) | encoding | payload
//! ```
//!
//! | encoding | payload |
//! | --- | --- |
//! | `00xxxxxx` | string of x bytes |
//! | `01xxxxxx` + 1 byte | string, 14 bits of length, big-endian |
//! | `0x80` + 4 bytes | string, length big-endian |
//! | `0xc0`, `0xd0`, `0xe0` | integer of 2, 4, 8 bytes, little-endian |
//! | `0xf0`, `0xfe` | integer of 3 bytes, of 1 byte |
//! | `0xf1` to `0xfd` | none: the integer 0 to 12 |

use super::{Damage, u32_at};
use mantissa_store::listpack::Element;

const HEADER_BYTES: usize = 10;
const END: u8 = 0xff;
const PREVIOUS_IN_FOUR_BYTES: u8 = 254;
const COUNT_UNKNOWN: usize = u16::MAX as usize;

/// The entries of a ziplist.
#[derive(Clone)]
pub struct Entries<'a> {
    bytes: &'a [u8],
    at: usize,
    previous_at: Option<usize>,
    found: usize,
    done: bool,
}

/// Checks the header and begins; the counts in the header are compared at the end.
pub fn entries(bytes: &[u8]) -> Result<Entries<'_>, Damage> {
    let Some(total) = u32_at(bytes, 0).filter(|_| bytes.len() > HEADER_BYTES) else {
        return Err(Damage { at: 0, reason: "ziplist is shorter than its header" });
    };
    if total as usize != bytes.len() {
        return Err(Damage { at: 0, reason: "ziplist's length differs from the one in its header" });
    }
    Ok(Entries { bytes, at: HEADER_BYTES, previous_at: None, found: 0, done: false })
}

impl<'a> Entries<'a> {
    fn fail(&mut self, at: usize, reason: &'static str) -> Option<Result<Element<'a>, Damage>> {
        self.done = true;
        Some(Err(Damage { at, reason }))
    }

    fn finish(&mut self) -> Option<Result<Element<'a>, Damage>> {
        let bytes = self.bytes;
        if self.at + 1 != bytes.len() {
            return self.fail(self.at, "ziplist ends before its bytes do");
        }
        if u32_at(bytes, 4).map(|tail| tail as usize) != Some(self.previous_at.unwrap_or(HEADER_BYTES)) {
            return self.fail(4, "ziplist's header points elsewhere than to its last entry");
        }
        let stated = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
        if stated != COUNT_UNKNOWN && stated != self.found {
            return self.fail(8, "ziplist's count differs from its entries");
        }
        self.done = true;
        None
    }

    /// The length of the entry before, as the entry at the cursor states it.
    fn stated_previous(&mut self) -> Option<usize> {
        let first = *self.bytes.get(self.at)?;
        if first < PREVIOUS_IN_FOUR_BYTES {
            self.at += 1;
            return Some(usize::from(first));
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

    fn element(&mut self) -> Option<Element<'a>> {
        let first = *self.slice(1)?.first()?;
        let length = match first {
            0x00..=0x3f => usize::from(first),
            0x40..=0x7f => usize::from(first & 0x3f) << 8 | usize::from(*self.slice(1)?.first()?),
            0x80 => u32::from_be_bytes(self.slice(4)?.try_into().ok()?) as usize,
            _ => return self.integer(first).map(Element::Integer),
        };
        self.slice(length).map(Element::Bytes)
    }

    fn integer(&mut self, encoding: u8) -> Option<i64> {
        let width = match encoding {
            0xc0 => 2,
            0xd0 => 4,
            0xe0 => 8,
            0xf0 => 3,
            0xfe => 1,
            0xf1..=0xfd => return Some(i64::from(encoding & 0x0f) - 1),
            _ => return None,
        };
        let raw = self.slice(width)?;
        let mut wide = if raw[width - 1] & 0x80 != 0 { [0xff; 8] } else { [0; 8] };
        wide[..width].copy_from_slice(raw);
        Some(i64::from_le_bytes(wide))
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Element<'a>, Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let at = self.at;
        if self.bytes.get(at) == Some(&END) {
            return self.finish();
        }
        let Some(stated) = self.stated_previous() else {
            return self.fail(at, "ziplist has a broken entry");
        };
        if stated != self.previous_at.map_or(0, |previous| at - previous) {
            return self.fail(at, "ziplist entry states a wrong length of the one before");
        }
        let Some(element) = self.element() else {
            return self.fail(at, "ziplist has a broken entry");
        };
        self.previous_at = Some(at);
        self.found += 1;
        Some(Ok(element))
    }
}

/// Builds ziplists for tests, since nothing else writes them any more.
#[cfg(test)]
pub(crate) fn build(elements: &[&[u8]]) -> Vec<u8> {
    let mut out = vec![0; HEADER_BYTES];
    let (mut tail, mut previous) = (HEADER_BYTES, 0usize);
    for element in elements {
        tail = out.len();
        if previous < 254 {
            out.push(previous as u8);
        } else {
            out.push(PREVIOUS_IN_FOUR_BYTES);
            out.extend((previous as u32).to_le_bytes());
        }
        match mantissa_number::parse_i64(element) {
            Some(value @ 0..=12) => out.push(0xf1 + value as u8),
            Some(value @ -128..=127) => out.extend([0xfe, value as u8]),
            Some(value @ -0x8000..=0x7fff) => {
                out.push(0xc0);
                out.extend((value as i16).to_le_bytes());
            }
            Some(value @ -0x80_0000..=0x7f_ffff) => {
                out.push(0xf0);
                out.extend(&value.to_le_bytes()[..3]);
            }
            Some(value @ -0x8000_0000..=0x7fff_ffff) => {
                out.push(0xd0);
                out.extend((value as i32).to_le_bytes());
            }
            Some(value) => {
                out.push(0xe0);
                out.extend(value.to_le_bytes());
            }
            None => {
                match element.len() {
                    short @ 0..64 => out.push(short as u8),
                    medium @ 64..16_384 => out.extend([0x40 | (medium >> 8) as u8, medium as u8]),
                    long => {
                        out.push(0x80);
                        out.extend((long as u32).to_be_bytes());
                    }
                }
                out.extend_from_slice(element);
            }
        }
        previous = out.len() - tail;
    }
    out.push(END);
    let total = out.len() as u32;
    out[..4].copy_from_slice(&total.to_le_bytes());
    out[4..8].copy_from_slice(&(tail as u32).to_le_bytes());
    out[8..10].copy_from_slice(&(elements.len().min(COUNT_UNKNOWN) as u16).to_le_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<Vec<u8>> {
        let texts =
            ["", "a", "0", "12", "13", "-1", "127", "-128", "128", "32767", "32768", "-8388608", "8388608"];
        let mut elements: Vec<Vec<u8>> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
        elements.push(b"9223372036854775807".to_vec());
        elements.extend([63, 64, 250, 254, 16_383, 16_384].map(|length| vec![b'x'; length]));
        elements.push(b"after a long one".to_vec());
        elements
    }

    #[test]
    fn every_encoding_reads_back() {
        let elements = sample();
        let views: Vec<&[u8]> = elements.iter().map(|element| &element[..]).collect();
        let bytes = build(&views);
        let read: Result<Vec<_>, _> = entries(&bytes).and_then(Iterator::collect);
        let read: Vec<_> = read.expect("it is whole").iter().map(Element::to_vec).collect();
        assert_eq!(read, elements);
        assert_eq!(entries(&build(&[])).map(Iterator::count), Ok(0));
    }

    #[test]
    fn damage_is_an_error_or_another_value_but_never_a_panic() {
        let bytes = build(&[b"one", b"2", b"300", b"a text that is longer", b"-70000"]);
        let read = |bytes: &[u8]| {
            entries(bytes).and_then(|entries| entries.collect::<Result<Vec<_>, _>>().map(|_| ()))
        };
        assert_eq!(read(&bytes), Ok(()));
        for length in 0..bytes.len() {
            assert!(read(&bytes[..length]).is_err(), "{length}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let _ = read(&bad);
        }
    }
}
