//! A block: the elements of 256 neighbouring indexes.
//!
//! ```text
//! present   256 bits, one for each slot
//! words     of the slots that are filled, in their order (8 bytes each)
//! texts     what is longer than seven bytes; a word names its text by its number
//! ```
//!
//! The place of a slot's word is the number of bits before its own. So a slot that is empty takes a bit, and
//! a block that has few elements is small. A clone of a block copies its words and shares its texts.
//!
//! Invariants: there are as many words as bits; no block of an array is empty; each text that is not empty
//! belongs to one word.

use mantissa_memory::{SharedBytes, allocator};

use super::word::{Element, Word, pack, unpack};

/// Slots of a block.
pub(super) const SLOTS: u64 = 256;
/// Slots for each word of bits.
const GROUP: usize = 64;
const GROUPS: usize = SLOTS as usize / GROUP;

/// The elements of [`SLOTS`] neighbouring indexes.
#[derive(Clone, Debug)]
pub(super) struct Block {
    /// The first index, divided by [`SLOTS`].
    pub id: u64,
    present: [u64; GROUPS],
    words: Vec<Word>,
    /// Empty ones are free.
    texts: Vec<SharedBytes>,
    /// Texts that are not empty.
    text_count: usize,
    /// Bytes that these take.
    text_bytes: usize,
}

impl Block {
    pub fn new(id: u64) -> Self {
        Block { id, present: [0; GROUPS], words: Vec::new(), texts: Vec::new(), text_count: 0, text_bytes: 0 }
    }

    /// The number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// The number of texts, each an allocation.
    pub fn text_count(&self) -> usize {
        self.text_count
    }

    /// Bytes that it takes with all that it refers to, size classes and two counts of references included.
    pub fn memory_usage(&self) -> usize {
        let class_size = |bytes: usize| if bytes == 0 { 0 } else { allocator::class_size(bytes) };
        class_size(size_of::<Self>() + 2 * size_of::<usize>())
            + class_size(self.words.capacity() * size_of::<Word>())
            + class_size(self.texts.capacity() * size_of::<SharedBytes>())
            + self.text_bytes
    }

    /// The highest slot that is filled.
    pub fn last(&self) -> Option<usize> {
        let group = self.present.iter().rposition(|bits| *bits != 0)?;
        Some(group * GROUP + self.present[group].ilog2() as usize)
    }

    /// The number of elements before a slot.
    #[inline]
    fn rank(&self, slot: usize) -> usize {
        let (group, bit) = (slot / GROUP, slot % GROUP);
        let before: u32 = self.present[..group].iter().map(|bits| bits.count_ones()).sum();
        let within = self.present.get(group).map_or(0, |bits| bits & ((1 << bit) - 1));
        (before + within.count_ones()) as usize
    }

    #[inline]
    fn has(&self, slot: usize) -> bool {
        self.present[slot / GROUP] >> (slot % GROUP) & 1 != 0
    }

    #[inline]
    fn element(&self, place: usize) -> Element<'_> {
        self.words[place].element(|number| unpack(&self.texts[number]))
    }

    /// The element in a slot.
    #[inline]
    pub fn get(&self, slot: usize) -> Option<Element<'_>> {
        self.has(slot).then(|| self.element(self.rank(slot)))
    }

    /// Puts an element into a slot. Whether that was empty.
    pub fn set(&mut self, slot: usize, element: Element<'_>) -> bool {
        let place = self.rank(slot);
        let is_new = !self.has(slot);
        if !is_new {
            self.drop_text(self.words[place]);
        }
        let word = match element {
            Element::Text(text) => self.keep_text(text),
            element => Word::of(element).unwrap_or_else(|| Word::of_text(0)),
        };
        if is_new {
            grow(&mut self.words);
            self.words.insert(place, word);
            self.present[slot / GROUP] |= 1 << (slot % GROUP);
        } else {
            self.words[place] = word;
        }
        is_new
    }

    /// Empties slots from one to another, and returns how many were filled.
    pub fn remove(&mut self, from: usize, to: usize) -> usize {
        let (first, end) = (self.rank(from), self.rank(to + 1));
        if first == end {
            return 0;
        }
        for place in first..end {
            self.drop_text(self.words[place]);
        }
        self.words.drain(first..end);
        for group in from / GROUP..=to / GROUP {
            self.present[group] &= !mask(group, from, to);
        }
        if self.words.len() < self.words.capacity() / 2 {
            self.words.shrink_to(self.words.len() + self.words.len() / 4);
        }
        end - first
    }

    /// Calls `visit` with elements of slots from one to another and their indexes, in order or the other way
    /// round, until it returns false. Whether it has not.
    #[inline]
    pub fn visit<'b>(
        &'b self,
        (from, to): (usize, usize),
        is_reversed: bool,
        visit: &mut impl FnMut(u64, Element<'b>) -> bool,
    ) -> bool {
        let index_of = |group: usize, bit: u32| self.id * SLOTS + (group * GROUP) as u64 + u64::from(bit);
        let groups = from / GROUP..=to / GROUP;
        let mut place = if is_reversed { self.rank(to + 1) } else { self.rank(from) };
        if is_reversed {
            for group in groups.rev() {
                let mut bits = self.present[group] & mask(group, from, to);
                while bits != 0 {
                    let bit = bits.ilog2();
                    bits ^= 1 << bit;
                    place -= 1;
                    if !visit(index_of(group, bit), self.element(place)) {
                        return false;
                    }
                }
            }
            return true;
        }
        for group in groups {
            let mut bits = self.present[group] & mask(group, from, to);
            while bits != 0 {
                let bit = bits.trailing_zeros();
                bits &= bits - 1;
                if !visit(index_of(group, bit), self.element(place)) {
                    return false;
                }
                place += 1;
            }
        }
        true
    }

    /// The number of elements in slots from one to another.
    pub fn count(&self, from: usize, to: usize) -> usize {
        self.rank(to + 1) - self.rank(from)
    }

    fn keep_text(&mut self, text: &[u8]) -> Word {
        let text = pack(text);
        self.text_bytes += text.memory_usage();
        let free = if self.text_count < self.texts.len() {
            self.texts.iter().position(|text| text.memory_usage() == 0)
        } else {
            None
        };
        self.text_count += 1;
        let number = free.unwrap_or(self.texts.len());
        match free {
            Some(free) => self.texts[free] = text,
            None => {
                grow(&mut self.texts);
                self.texts.push(text);
            }
        }
        Word::of_text(number)
    }

    fn drop_text(&mut self, word: Word) {
        let Some(number) = word.text_number() else { return };
        let text = std::mem::take(&mut self.texts[number]);
        self.text_bytes -= text.memory_usage();
        self.text_count -= 1;
        if self.text_count == 0 {
            self.texts = Vec::new();
        }
    }

    #[cfg(test)]
    pub fn check(&self) {
        let bits: u32 = self.present.iter().map(|bits| bits.count_ones()).sum();
        assert_eq!(bits as usize, self.words.len());
        let mut numbers: Vec<usize> = self.words.iter().filter_map(|word| word.text_number()).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), self.text_count);
        assert!(numbers.iter().all(|&number| self.texts[number].memory_usage() > 0));
        let bytes: usize = self.texts.iter().map(SharedBytes::memory_usage).sum();
        assert_eq!(bytes, self.text_bytes);
    }
}

/// The bits of a group that stand for slots from one to another.
#[inline]
fn mask(group: usize, from: usize, to: usize) -> u64 {
    let above = if group == from / GROUP { u64::MAX << (from % GROUP) } else { u64::MAX };
    let below = if group == to / GROUP { u64::MAX >> (GROUP - 1 - to % GROUP) } else { u64::MAX };
    above & below
}

/// Makes room for one more, and for half as many as there are, but not for more than there can be.
fn grow<T>(items: &mut Vec<T>) {
    if items.len() == items.capacity() {
        let most = (SLOTS as usize).saturating_sub(items.len());
        items.reserve_exact((items.len() / 2).min(most).max(1));
    }
}
