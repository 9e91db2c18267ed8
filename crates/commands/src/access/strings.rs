//! Strings at keys: whole, to change, and parts of them, for which those on disk need not be read whole.

use std::ops::Range;

use mantissa_store::cold::Part;
use mantissa_store::{Entry, StringRef, Text, Value};

use super::Access;
use crate::error::{Error, Outcome};

impl<'a> Access<'a> {
    /// The string at a key, to read.
    #[inline]
    pub fn string(&self, key: &[u8]) -> Outcome<Option<StringRef<'_>>> {
        match self.read(key) {
            None => Ok(None),
            Some(entry) => entry.as_string().map(Some).ok_or(Error::WRONG_TYPE),
        }
    }

    /// The string at a key, to change in place and to let grow; a new empty one if the key is not there.
    pub fn text_or_new(&mut self, key: &[u8]) -> Outcome<&mut Text> {
        let (entry, _) = self.find_or_insert(key, || Value::String(Vec::new()))?;
        entry.into_mut().text_mut().ok_or(Error::WRONG_TYPE)
    }

    /// Lends the command what has been read of a string on disk.
    #[inline]
    pub fn lend_part(&mut self, part: Option<&'a Part>) {
        self.part = part;
    }

    /// The bytes of a range of the string at a key, which follows from its length; none if the key is not
    /// there. Of a string on disk that can be the part that [`Access::lend_part`] has brought.
    pub fn string_part<'k>(
        &'k self,
        key: &[u8],
        digits: &'k mut [u8; 20],
        range: impl Fn(u64) -> Range<u64>,
    ) -> Outcome<&'k [u8]> {
        let Some(entry) = self.read(key) else { return Ok(&[]) };
        if let Some(part) = self.part_on_disk(entry, &range) {
            return Ok(part);
        }
        let text = entry.as_string().ok_or(Error::WRONG_TYPE)?.text(digits);
        let range = range(text.len() as u64);
        Ok(text.get(range.start as usize..range.end as usize).unwrap_or_default())
    }

    /// Those bytes of a string that is only on disk, without reading it. `None` if they are not at hand.
    fn part_on_disk<'k>(&'k self, entry: &Entry, range: impl Fn(u64) -> Range<u64>) -> Option<&'k [u8]> {
        let range = range(entry.cold_text_len()? as u64);
        match self.part {
            _ if range.is_empty() => Some(&[]),
            Some(part) => entry.bytes_of(part, range.start as usize..range.end as usize),
            None => None,
        }
    }

    /// Whether a command can run on the string at a key without all of it being read from disk.
    pub fn has_part(&self, key: &[u8], range: impl Fn(u64) -> Option<Range<u64>>) -> bool {
        let Some(entry) = self.peek(key) else { return false };
        let Some(range) = entry.cold_text_len().and_then(|len| range(len as u64)) else { return false };
        self.part_on_disk(entry, |_| range.clone()).is_some()
    }
}
