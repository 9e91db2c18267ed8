//! A leaf of a sorted set: scores, and members packed next to them, in one allocation.
//!
//! ```text
//! +----------------+------------------+-------------+---------------------------+
//! | n scores (f64) | n starts (u16)   | n tags (u8) | members, back to back     |
//! +----------------+------------------+-------------+---------------------------+
//!   8 n bytes        2 n bytes          n bytes
//! ```
//!
//! Entries are in order. A start is where the member begins, counted from the first member. A tag is a byte
//! of the member's hash: looking for a member compares eight tags at a time, and bytes only where a tag
//! fits. Each entry costs 11 bytes beside its member.
//!
//! A leaf with more than one entry holds less than 64 KiB, so that starts fit.

use std::ops::Range;

use super::cut::Cut;
use crate::allocator::class_size;

/// Bytes of an entry beside its member.
pub(super) const ENTRY_BYTES: usize = 11;
const STARTS: usize = 8;
const TAGS: usize = 10;

/// See the module's description.
#[derive(Clone, Debug, Default)]
pub(super) struct Leaf {
    bytes: Vec<u8>,
    len: u32,
}

impl Leaf {
    /// A leaf with room for `bytes` bytes.
    pub fn with_capacity(bytes: usize) -> Leaf {
        Leaf { bytes: Vec::with_capacity(bytes), len: 0 }
    }

    /// The leaf of entries in order: member, score, tag.
    pub fn build<'e>(entries: impl Iterator<Item = (&'e [u8], f64, u8)> + Clone) -> Leaf {
        let len = entries.clone().count();
        let member_bytes: usize = entries.clone().map(|(member, ..)| member.len()).sum();
        let mut bytes = Vec::with_capacity(len * ENTRY_BYTES + member_bytes);
        entries.clone().for_each(|(_, score, _)| bytes.extend_from_slice(&score.to_le_bytes()));
        let mut start = 0_usize;
        for (member, ..) in entries.clone() {
            bytes.extend_from_slice(&(start as u16).to_le_bytes());
            start += member.len();
        }
        bytes.extend(entries.clone().map(|(_, _, tag)| tag));
        entries.for_each(|(member, ..)| bytes.extend_from_slice(member));
        Leaf { bytes, len: len as u32 }
    }

    /// The number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Bytes in use.
    #[inline]
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes of its allocation.
    pub fn memory_usage(&self) -> usize {
        if self.bytes.capacity() == 0 { 0 } else { class_size(self.bytes.capacity()) }
    }

    /// The score of an entry.
    #[inline]
    pub fn score(&self, slot: usize) -> f64 {
        let raw = &self.bytes[8 * slot..8 * slot + 8];
        f64::from_le_bytes(raw.try_into().expect("eight bytes"))
    }

    /// The member of an entry.
    #[inline]
    pub fn member(&self, slot: usize) -> &[u8] {
        let members = ENTRY_BYTES * self.len();
        &self.bytes[members + self.start(slot)..members + self.start(slot + 1)]
    }

    /// Member and score of an entry.
    #[inline]
    pub fn entry(&self, slot: usize) -> (&[u8], f64) {
        (self.member(slot), self.score(slot))
    }

    /// The tags of all entries.
    #[inline]
    pub fn tags(&self) -> &[u8] {
        &self.bytes[TAGS * self.len()..ENTRY_BYTES * self.len()]
    }

    /// The entry of a member with this tag.
    #[inline]
    pub fn find(&self, member: &[u8], tag: u8) -> Option<usize> {
        const LOW: u64 = 0x0101_0101_0101_0101;
        const HIGH: u64 = 0x8080_8080_8080_8080;
        let tags = self.tags();
        let mut chunks = tags.chunks_exact(8);
        let mut base = 0;
        for chunk in &mut chunks {
            let word = u64::from_le_bytes(chunk.try_into().expect("eight bytes")) ^ (LOW * u64::from(tag));
            let mut found = word.wrapping_sub(LOW) & !word & HIGH;
            while found != 0 {
                let slot = base + found.trailing_zeros() as usize / 8;
                if self.member(slot) == member {
                    return Some(slot);
                }
                found &= found - 1;
            }
            base += 8;
        }
        let mut rest = base..tags.len();
        rest.find(|&slot| tags[slot] == tag && self.member(slot) == member)
    }

    /// The number of entries before a cut.
    #[inline]
    pub fn count_before(&self, cut: Cut<'_>) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = (low + high) / 2;
            if cut.is_after(self.score(middle), || self.member(middle)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Gives an entry another score that leaves its place in the order.
    pub fn set_score(&mut self, slot: usize, score: f64) {
        self.bytes[8 * slot..8 * slot + 8].copy_from_slice(&score.to_le_bytes());
    }

    /// Adds an entry before the one at `slot`.
    pub fn insert(&mut self, slot: usize, member: &[u8], score: f64, tag: u8) {
        let (n, size) = (self.len(), self.bytes.len());
        let start = self.start(slot);
        let grown = size + ENTRY_BYTES + member.len();
        if grown > self.bytes.capacity() {
            self.bytes.reserve_exact(class_size(grown) - size);
        }
        self.bytes.resize(grown, 0);
        let bytes = &mut self.bytes[..];
        let members = ENTRY_BYTES * (n + 1);
        bytes.copy_within(ENTRY_BYTES * n + start..size, members + start + member.len());
        bytes.copy_within(ENTRY_BYTES * n..ENTRY_BYTES * n + start, members);
        bytes[members + start..members + start + member.len()].copy_from_slice(member);
        let tags = TAGS * (n + 1);
        bytes.copy_within(TAGS * n + slot..ENTRY_BYTES * n, tags + slot + 1);
        bytes.copy_within(TAGS * n..TAGS * n + slot, tags);
        bytes[tags + slot] = tag;
        let starts = STARTS * (n + 1);
        bytes.copy_within(STARTS * n + 2 * slot..TAGS * n, starts + 2 * slot + 2);
        bytes.copy_within(STARTS * n..STARTS * n + 2 * slot, starts);
        bytes[starts + 2 * slot..starts + 2 * slot + 2].copy_from_slice(&(start as u16).to_le_bytes());
        shift_starts(&mut bytes[starts + 2 * slot + 2..tags], member.len());
        bytes.copy_within(8 * slot..8 * n, 8 * slot + 8);
        bytes[8 * slot..8 * slot + 8].copy_from_slice(&score.to_le_bytes());
        self.len += 1;
    }

    /// Removes entries.
    pub fn remove(&mut self, slots: Range<usize>) {
        let (n, size) = (self.len(), self.bytes.len());
        let left = n - slots.len();
        let (start, end) = (self.start(slots.start), self.start(slots.end));
        let bytes = &mut self.bytes[..];
        bytes.copy_within(8 * slots.end..8 * n, 8 * slots.start);
        let starts = STARTS * left;
        bytes.copy_within(STARTS * n..STARTS * n + 2 * slots.start, starts);
        bytes.copy_within(STARTS * n + 2 * slots.end..TAGS * n, starts + 2 * slots.start);
        shift_starts(&mut bytes[starts + 2 * slots.start..TAGS * left], start.wrapping_sub(end));
        let tags = TAGS * left;
        bytes.copy_within(TAGS * n..TAGS * n + slots.start, tags);
        bytes.copy_within(TAGS * n + slots.end..ENTRY_BYTES * n, tags + slots.start);
        let members = ENTRY_BYTES * left;
        bytes.copy_within(ENTRY_BYTES * n..ENTRY_BYTES * n + start, members);
        bytes.copy_within(ENTRY_BYTES * n + end..size, members + start);
        self.bytes.truncate(size - ENTRY_BYTES * slots.len() - (end - start));
        self.len = left as u32;
        if self.bytes.capacity() > 2 * self.bytes.len() + 64 {
            self.bytes.shrink_to(class_size(self.bytes.len()));
        }
    }

    /// Takes the entries from `slot` on into a leaf of their own.
    pub fn split_off(&mut self, slot: usize) -> Leaf {
        let tail = Leaf::build((slot..self.len()).map(|slot| self.tagged(slot)));
        self.remove(slot..self.len());
        tail
    }

    /// Adds the entries of the leaf that follows this one.
    pub fn append(&mut self, next: &Leaf) {
        let own = (0..self.len()).map(|slot| self.tagged(slot));
        *self = Leaf::build(own.chain((0..next.len()).map(|slot| next.tagged(slot))));
    }

    #[inline]
    fn tagged(&self, slot: usize) -> (&[u8], f64, u8) {
        (self.member(slot), self.score(slot), self.tags()[slot])
    }

    /// Where a member starts; for the number of entries, where the last one ends.
    #[inline]
    fn start(&self, slot: usize) -> usize {
        let n = self.len();
        if slot == n {
            return self.bytes.len() - ENTRY_BYTES * n;
        }
        let at = STARTS * n + 2 * slot;
        usize::from(u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]]))
    }
}

/// Adds `bytes` (wrapping) to every start in `raw`.
fn shift_starts(raw: &mut [u8], bytes: usize) {
    for pair in raw.chunks_exact_mut(2) {
        let start = u16::from_le_bytes([pair[0], pair[1]]).wrapping_add(bytes as u16);
        pair.copy_from_slice(&start.to_le_bytes());
    }
}
