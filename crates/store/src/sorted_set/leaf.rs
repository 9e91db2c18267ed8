//! A leaf of a sorted set: [`SharedBytes`] with scores and members, packed.
//!
//! ```text
//! | header | n (u16) | form (u8) | shift (u8) | base (u64) |          20 bytes; 12 if width is 8
//! | n lengths | n tags (u8) | n offsets | members, back to back |
//! ```
//!
//! Entries are in order. A length is that of a member, in one byte where all fit (else in two, four or
//! eight). A tag is a byte of the member's hash: looking for a member compares eight tags at a time, and
//! bytes only where a tag fits.
//!
//! Scores are 64-bit keys whose order is theirs. A leaf keeps them as `base + (offset << shift)`, offsets in
//! as few bytes as the largest needs (the form says how many, 0 to 8): neighbours in a set are near each
//! other. In leaves of thirty of 300,000 random fractions an offset takes six bytes, of integers often one
//! or two, of equal scores none. It is exact: keys hold every bit.
//!
//! Bytes per entry: its member, 2 for length and tag, 0 to 8 for the score. A leaf has an allocation of the
//! exact size class, or after removals a little more; a leaf that clones share is replaced when it changes.

use std::hint::select_unpredictable;
use std::ops::Range;

use mantissa_memory::SharedBytes;
use mantissa_memory::prefetch_lines;

use super::boundary::Boundary;

/// Bytes of the payload before the base.
const BASE: usize = 4;
/// Most bytes of an entry beside its member, if that is shorter than 256 bytes.
pub(super) const ENTRY_BYTES_MAX: usize = 10;
/// Most unused bytes that a leaf keeps when entries go.
pub(super) const SLACK_MAX: usize = 96;
/// The most entries at which adding one looks for a better form.
const FORM_SOUGHT_MAX: usize = 16;
/// Bytes in which the header, lengths, tags and offsets of a leaf usually are.
const FETCHED_BYTES: usize = 384;
/// Most bytes of a leaf that are fetched ahead.
const LEAF_BYTES_FETCHED_MAX: usize = 1024;
/// Score widths at which there is no base.
const FULL_WIDTH: usize = 8;
/// The offsets of each width.
const MASKS: [u64; 9] =
    [0, 0xff, 0xffff, 0xff_ffff, u32::MAX as u64, u64::MAX >> 24, u64::MAX >> 16, u64::MAX >> 8, u64::MAX];

/// The 64-bit key of a score: its order is that of the scores, but that the key of -0 is just below that of
/// 0.
#[inline]
fn key_of(score: f64) -> u64 {
    let bits = score.to_bits();
    bits ^ if bits >> 63 == 1 { u64::MAX } else { 1 << 63 }
}

/// The lower one of the keys of a score: zero has two.
#[inline]
fn lowest_key_of(score: f64) -> u64 {
    key_of(if score == 0.0 { -0.0 } else { score })
}

/// The score of a key.
#[inline]
fn score_of(key: u64) -> f64 {
    f64::from_bits(key ^ if key >> 63 == 1 { 1 << 63 } else { u64::MAX })
}

/// How lengths and scores are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Form {
    /// Two to this power is the number of bytes of a length.
    length_bits: u8,
    /// Bytes of an offset.
    width: u8,
    shift: u8,
    base: u64,
}

/// What of some entries decides how many bytes they take.
#[derive(Clone, Copy, Debug, Default)]
struct Measure {
    len: usize,
    member_bytes: usize,
    longest: usize,
    low: u64,
    high: u64,
    /// All differences from `low`.
    bits: u64,
}

impl Measure {
    #[inline]
    fn add(mut self, member_bytes: usize, key: u64) -> Self {
        if self.len == 0 {
            (self.low, self.high) = (key, key);
        } else if key < self.low {
            self.bits |= self.low - key;
            self.low = key;
        } else {
            self.bits |= key - self.low;
            self.high = self.high.max(key);
        }
        self.len += 1;
        self.member_bytes += member_bytes;
        self.longest = self.longest.max(member_bytes);
        self
    }

    fn of<'e>(entries: impl Iterator<Item = Entry<'e>>) -> Self {
        entries.fold(Measure::default(), |sum, entry| sum.add(entry.member.len(), entry.key))
    }

    /// The form in which these entries take the fewest bytes.
    fn form(&self) -> Form {
        let shift = if self.bits == 0 { 0 } else { self.bits.trailing_zeros() };
        let width = bytes_of((self.high - self.low) >> shift);
        let length_bits = match self.longest {
            0..0x100 => 0,
            0x100..0x1_0000 => 1,
            0x1_0000..0x1_0000_0000 => 2,
            _ => 3,
        };
        if size_of::<u64>() + self.len * width >= self.len * FULL_WIDTH {
            return Form { length_bits, width: FULL_WIDTH as u8, shift: 0, base: 0 };
        }
        // A width is at most 8, a shift below 64.
        Form { length_bits, width: width as u8, shift: shift as u8, base: self.low }
    }

    /// Bytes of their payload.
    fn size(&self) -> usize {
        let form = self.form();
        form.header_bytes() + self.len * form.entry_bytes() + self.member_bytes
    }
}

impl Form {
    /// Whether an entry can be kept in this form.
    #[inline]
    fn fits(self, member_bytes: usize, key: u64) -> bool {
        let Some(offset) = key.checked_sub(self.base) else { return false };
        let length_bits_max = 8 << self.length_bits;
        (length_bits_max == 64 || member_bytes >> length_bits_max == 0)
            && offset & !(u64::MAX << self.shift) == 0
            && offset >> self.shift <= MASKS[usize::from(self.width)]
    }

    /// Bytes of the payload before the lengths.
    #[inline]
    fn header_bytes(self) -> usize {
        BASE + if usize::from(self.width) == FULL_WIDTH { 0 } else { size_of::<u64>() }
    }

    /// Bytes of an entry beside its member.
    #[inline]
    fn entry_bytes(self) -> usize {
        (1 << self.length_bits) + 1 + usize::from(self.width)
    }

    /// Writes the part of the payload before the lengths.
    fn write(self, len: usize, payload: &mut [u8]) {
        let count = u16::try_from(len).expect("a leaf has fewer than 65,536 entries");
        payload[..2].copy_from_slice(&count.to_le_bytes());
        payload[2] = self.width | self.length_bits << 4;
        payload[3] = self.shift;
        if usize::from(self.width) != FULL_WIDTH {
            payload[BASE..BASE + 8].copy_from_slice(&self.base.to_le_bytes());
        }
    }
}

/// The bytes that a number needs.
fn bytes_of(number: u64) -> usize {
    8 - number.leading_zeros() as usize / 8
}

/// An entry as it goes from leaf to leaf.
#[derive(Clone, Copy, Debug)]
struct Entry<'a> {
    member: &'a [u8],
    key: u64,
    tag: u8,
}

/// The payload of a leaf, taken apart to read.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a> {
    payload: &'a [u8],
    len: usize,
    form: Form,
    /// Where lengths, tags, offsets and members start.
    lengths: usize,
    tags: usize,
    offsets: usize,
    members: usize,
}

impl<'a> View<'a> {
    /// The leaf with this payload.
    #[inline]
    pub fn new(payload: &'a [u8]) -> Self {
        let Some((&[low, high, form, shift], rest)) = payload.split_first_chunk::<BASE>() else {
            let form = Form { length_bits: 0, width: FULL_WIDTH as u8, shift: 0, base: 0 };
            return View { payload, len: 0, form, lengths: 0, tags: 0, offsets: 0, members: 0 };
        };
        let len = usize::from(u16::from_le_bytes([low, high]));
        let width = form & 15;
        let base = match rest.first_chunk() {
            Some(&base) if usize::from(width) != FULL_WIDTH => u64::from_le_bytes(base),
            _ => 0,
        };
        let form = Form { length_bits: form >> 4, width, shift, base };
        let lengths = form.header_bytes();
        let tags = lengths + (len << form.length_bits);
        let offsets = tags + len;
        View { payload, len, form, lengths, tags, offsets, members: offsets + len * usize::from(width) }
    }

    /// The number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes of the payload in use.
    pub fn size(&self) -> usize {
        self.start(self.len)
    }

    /// The score of an entry.
    #[inline]
    pub fn score(&self, slot: usize) -> f64 {
        score_of(self.key(slot))
    }

    /// Member and score of an entry.
    #[inline]
    pub fn entry(&self, slot: usize) -> (&'a [u8], f64) {
        (self.member(slot), self.score(slot))
    }

    /// All members in order, with their tags.
    pub fn members(&self) -> impl Iterator<Item = (&'a [u8], u8)> + use<'a> {
        self.entries(0..self.len).map(|entry| (entry.member, entry.tag))
    }

    /// A cursor before an entry, or at the end.
    #[inline]
    pub fn cursor(&self, slot: usize) -> Cursor<'a> {
        Cursor { view: *self, slot, at: self.start(slot) }
    }

    /// The member of the first entry, of which there must be one.
    #[inline]
    pub fn first_member(&self) -> &'a [u8] {
        &self.payload[self.members..self.members + self.length(0)]
    }

    /// The entry of a member with this tag.
    // In line, it would slow the search of the index, which calls it in the middle of a loop.
    #[inline(never)]
    pub fn find(&self, member: &[u8], tag: u8) -> Option<usize> {
        self.find_by(tag, |slot| self.member(slot) == member)
    }

    /// The first of the entries with a tag for which `is_it` holds.
    #[inline(always)]
    pub fn find_by(&self, tag: u8, mut is_it: impl FnMut(usize) -> bool) -> Option<usize> {
        const LOW: u64 = 0x0101_0101_0101_0101;
        const HIGH: u64 = 0x8080_8080_8080_8080;
        let (words, rest) = self.tag_slice().as_chunks::<8>();
        for (word_index, word) in words.iter().enumerate() {
            let word = u64::from_le_bytes(*word) ^ (LOW * u64::from(tag));
            let mut found = word.wrapping_sub(LOW) & !word & HIGH;
            while found != 0 {
                let slot = word_index * 8 + found.trailing_zeros() as usize / 8;
                if is_it(slot) {
                    return Some(slot);
                }
                found &= found - 1;
            }
        }
        let base = self.len - rest.len();
        (base..self.len).find(|&slot| rest[slot - base] == tag && is_it(slot))
    }

    /// The number of entries before a boundary.
    #[inline]
    pub fn count_before(&self, boundary: Boundary<'_>) -> usize {
        // Zeros have two keys. All other scores compare as their keys do.
        if let Boundary::BelowEntry(bound, member) = boundary
            && bound != 0.0
        {
            let bound = key_of(bound);
            let below = self.keys_below(bound);
            if below == self.len || self.key(below) != bound {
                return below;
            }
            let equal_end = bound.checked_add(1).map_or(self.len, |above| self.keys_below(above));
            return self.partition_point(below..equal_end, |slot| self.member(slot) < member);
        }
        match boundary {
            Boundary::BelowScore(bound) => self.keys_below(lowest_key_of(bound)),
            // Not even infinity has the highest key.
            Boundary::AboveScore(bound) => self.keys_below(key_of(bound + 0.0) + 1),
            _ => self.partition_point(0..self.len, |slot| {
                boundary.is_after(self.score(slot), || self.member(slot))
            }),
        }
    }

    /// The number of keys below a bound. Which way the search goes is no branch: nobody could foresee it.
    #[inline]
    fn keys_below(&self, bound: u64) -> usize {
        let Some(distance) = bound.checked_sub(self.form.base) else { return 0 };
        // An offset is below this where its key is below the bound.
        let shift = self.form.shift;
        let bound = (distance >> shift) + u64::from(distance & !(u64::MAX << shift) != 0);
        let (mut low, mut left) = (0, self.len);
        while left > 1 {
            let half = left / 2;
            let middle = low + half;
            low = select_unpredictable(self.offset(middle) < bound, middle, low);
            left -= half;
        }
        low + usize::from(left == 1 && self.offset(low) < bound)
    }

    /// The number before those of the entries in a range that `is_before` holds for, and these, which are its
    /// first ones.
    #[inline]
    fn partition_point(&self, slots: Range<usize>, is_before: impl Fn(usize) -> bool) -> usize {
        let (mut low, mut high) = (slots.start, slots.end);
        while low < high {
            let middle = (low + high) / 2;
            if is_before(middle) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The key of an entry's score.
    #[inline]
    fn key(&self, slot: usize) -> u64 {
        self.form.base.wrapping_add(self.offset(slot) << self.form.shift)
    }

    /// What of the key is kept.
    #[inline]
    fn offset(&self, slot: usize) -> u64 {
        let width = usize::from(self.form.width);
        let at = self.offsets + slot * width;
        match self.payload[at..].first_chunk() {
            Some(&raw) => u64::from_le_bytes(raw) & MASKS[width],
            None => read(&self.payload[at..at + width]),
        }
    }

    #[inline]
    fn length(&self, slot: usize) -> usize {
        match self.form.length_bits {
            0 => usize::from(self.payload[self.lengths + slot]),
            bits => {
                let at = self.lengths + (slot << bits);
                read(&self.payload[at..at + (1 << bits)]) as usize
            }
        }
    }

    /// Where a member starts in the payload; for the number of entries, where the last one ends.
    #[inline]
    fn start(&self, slot: usize) -> usize {
        self.members + self.members_bytes(0..slot)
    }

    /// Bytes of the members of some entries.
    #[inline]
    fn members_bytes(&self, slots: Range<usize>) -> usize {
        match self.form.length_bits {
            0 => sum(&self.payload[self.lengths + slots.start..], slots.len()),
            _ => slots.map(|slot| self.length(slot)).sum::<usize>(),
        }
    }

    /// The member of an entry.
    #[inline]
    pub fn member(&self, slot: usize) -> &'a [u8] {
        let start = self.start(slot);
        &self.payload[start..start + self.length(slot)]
    }

    #[inline]
    fn tag_slice(&self) -> &'a [u8] {
        &self.payload[self.tags..self.offsets]
    }

    /// Whether some of the entries, taken for themselves, can be expected to take no fewer bytes in another
    /// form. The form has to have a base for that.
    fn suits(&self, slots: &Range<usize>) -> bool {
        let Some(last) = slots.clone().last() else { return false };
        let (width, len) = (usize::from(self.form.width), slots.len());
        // Zeros may be out of order.
        let distance = self.key(last).saturating_sub(self.key(slots.start));
        bytes_of(distance >> self.form.shift) == width
            && self.form.length_bits == 0
            && size_of::<u64>() + len * width < len * FULL_WIDTH
    }

    /// A leaf of some of the entries, in the same form.
    fn copy(&self, slots: Range<usize>) -> Leaf {
        let (length_bytes, width) = (1 << self.form.length_bits, usize::from(self.form.width));
        let of = |at: usize, size: usize| &self.payload[at + slots.start * size..at + slots.end * size];
        let start = self.start(slots.start);
        let end = start + self.members_bytes(slots.clone());
        let mut bytes = SharedBytes::joined(&[
            &self.payload[..self.lengths],
            of(self.lengths, length_bytes),
            of(self.tags, 1),
            of(self.offsets, width),
            &self.payload[start..end],
        ]);
        self.form.write(slots.len(), bytes.payload_mut().expect("new bytes have one reference"));
        Leaf { bytes }
    }

    /// Entries in order.
    fn entries(self, slots: Range<usize>) -> impl Iterator<Item = Entry<'a>> + Clone {
        let mut at = self.start(slots.start);
        slots.map(move |slot| {
            let member = &self.payload[at..at + self.length(slot)];
            at += member.len();
            Entry { member, key: self.key(slot), tag: self.payload[self.tags + slot] }
        })
    }
}

/// A number of up to eight bytes.
#[inline]
fn read(raw: &[u8]) -> u64 {
    let mut wide = [0; 8];
    wide[..raw.len()].copy_from_slice(raw);
    u64::from_le_bytes(wide)
}

/// The sum of the first `count` bytes, eight at a time.
#[inline]
fn sum(bytes: &[u8], count: usize) -> usize {
    const EVEN: u64 = 0x00ff_00ff_00ff_00ff;
    const ONES: u64 = 0x0001_0001_0001_0001;
    /// The sum of this number of words fits 16 bits.
    const WORDS_MAX: usize = 32;
    let of_word = |word: u64| (word & EVEN) + (word >> 8 & EVEN);
    let (words, rest) = bytes.split_at(count & !7);
    // What follows the last whole word is read as one too, if there are eight bytes.
    let mut sums = of_word(match rest.first_chunk() {
        Some(&raw) => u64::from_le_bytes(raw) & !(u64::MAX << (8 * (count % 8))),
        None => read(&rest[..count % 8]),
    });
    let words = words.as_chunks::<8>().0;
    if words.len() >= WORDS_MAX {
        return words.iter().flatten().chain(&rest[..count % 8]).map(|&byte| usize::from(byte)).sum();
    }
    for word in words {
        sums += of_word(u64::from_le_bytes(*word));
    }
    (sums.wrapping_mul(ONES) >> 48) as usize
}

/// Packed entries, by score and member.
#[derive(Clone, Debug, Default)]
#[repr(transparent)]
pub(super) struct Leaf {
    bytes: SharedBytes,
}

impl Leaf {
    /// The leaf that [`Leaf::into_bytes`] took apart.
    pub fn from_bytes(bytes: SharedBytes) -> Leaf {
        Leaf { bytes }
    }

    /// Its bytes.
    pub fn into_bytes(self) -> SharedBytes {
        self.bytes
    }

    /// Asks the processor to fetch the leaf, as far as lengths and scores usually go.
    #[inline]
    pub fn prefetch(&self) {
        prefetch_lines(self.bytes.address(), 0..FETCHED_BYTES);
    }

    /// Asks the processor for what is behind that, of which the header tells how much there is.
    #[inline]
    pub fn prefetch_rest(&self) {
        let bytes = self.bytes.payload().len().min(LEAF_BYTES_FETCHED_MAX);
        prefetch_lines(self.bytes.address(), FETCHED_BYTES..bytes);
    }

    /// Moves to another place if that lets memory be given back.
    pub fn compact(&mut self) {
        self.bytes.compact();
    }

    /// The leaf of entries in order: member, score, tag.
    pub fn build<'e>(entries: impl Iterator<Item = (&'e [u8], f64, u8)> + Clone) -> Leaf {
        build(entries.map(|(member, score, tag)| Entry { member, key: key_of(score), tag }))
    }

    /// The leaf, to read.
    #[inline]
    pub fn view(&self) -> View<'_> {
        View::new(self.bytes.payload())
    }

    /// How many of these entries (bytes of the member, score), from the first on, fit a leaf of `bytes_max`
    /// bytes and `len_max` entries; at least one.
    pub fn fitting(entries: impl Iterator<Item = (usize, f64)>, bytes_max: usize, len_max: usize) -> usize {
        let mut sum = Measure::default();
        for (member_bytes, score) in entries.take(len_max) {
            let more = sum.add(member_bytes, key_of(score));
            if sum.len > 0 && more.size() > bytes_max {
                break;
            }
            sum = more;
        }
        sum.len
    }

    /// Bytes of its allocation.
    pub fn memory_usage(&self) -> usize {
        self.bytes.memory_usage()
    }

    /// Gives an entry another score that leaves its place in the order.
    pub fn set_score(&mut self, slot: usize, score: f64) {
        let key = key_of(score);
        let view = self.view();
        if !view.form.fits(0, key) {
            let changed = |(index, entry)| if index == slot { Entry { key, ..entry } } else { entry };
            *self = build(view.entries(0..view.len).enumerate().map(changed));
            return;
        }
        let width = usize::from(view.form.width);
        let at = view.offsets + slot * width;
        let raw = ((key - view.form.base) >> view.form.shift).to_le_bytes();
        if self.bytes.is_shared() {
            self.splice(slot..slot, None, usize::MAX);
        }
        if let Some(payload) = self.bytes.payload_mut() {
            payload[at..at + width].copy_from_slice(&raw[..width]);
        }
    }

    /// Adds an entry before the one at `slot`, unless the payload would then take more than `bytes_max`
    /// bytes. Whether it was added.
    pub fn insert(&mut self, slot: usize, member: &[u8], score: f64, tag: u8, bytes_max: usize) -> bool {
        let view = self.view();
        let entry = Entry { member, key: key_of(score), tag };
        // A form with a base is looked for while there are few entries, and a better one where this one takes
        // too much; every split looks for one as well.
        let has_base = usize::from(view.form.width) != FULL_WIDTH;
        let is_early = !has_base && view.len <= FORM_SOUGHT_MAX && view.len.is_power_of_two();
        let fits_form = !is_early && view.len > 0 && view.form.fits(member.len(), entry.key);
        (fits_form && self.splice(slot..slot, Some(entry), bytes_max))
            || self.insert_anew(slot, entry, bytes_max)
    }

    /// The same, in the form that takes the fewest bytes.
    #[cold]
    fn insert_anew(&mut self, slot: usize, entry: Entry<'_>, bytes_max: usize) -> bool {
        let view = self.view();
        let (before, after) = (view.entries(0..slot), view.entries(slot..view.len));
        let add = |sum: Measure, entry: Entry<'_>| sum.add(entry.member.len(), entry.key);
        let measure = after.clone().fold(add(before.clone().fold(Measure::default(), add), entry), add);
        let fits = measure.size() <= bytes_max;
        if fits {
            let entries = before.chain(std::iter::once(entry)).chain(after);
            *self = build_as(&measure, entries);
        }
        fits
    }

    /// Removes entries.
    pub fn remove(&mut self, slots: Range<usize>) {
        match self.view().len - slots.len() {
            0 => *self = Leaf::default(),
            _ => {
                self.splice(slots, None, usize::MAX);
            }
        }
    }

    /// Takes the entries from `slot` on into a leaf of their own.
    pub fn split_off(&mut self, slot: usize) -> Leaf {
        let view = self.view();
        let part = |slots: Range<usize>| match view.suits(&slots) {
            true => view.copy(slots),
            false => build(view.entries(slots)),
        };
        let (head, tail) = (part(0..slot), part(slot..view.len));
        *self = head;
        tail
    }

    /// Adds the entries of the leaf that follows this one.
    pub fn append(&mut self, next: &Leaf) {
        let (own, next) = (self.view(), next.view());
        *self = build(own.entries(0..own.len).chain(next.entries(0..next.len)));
    }

    /// Puts an entry, which fits the form, in the place of some, unless the payload would then take more than
    /// `bytes_max` bytes: in place if the bytes are not shared and have the right size, else in new ones.
    /// Whether it was done.
    fn splice(&mut self, slots: Range<usize>, added: Option<Entry<'_>>, bytes_max: usize) -> bool {
        let old = self.view();
        let form = old.form;
        let start = old.start(slots.start);
        let end = match slots.len() {
            0 => start,
            1 => start + old.length(slots.start),
            _ => old.start(slots.end),
        };
        let used = end + old.members_bytes(slots.end..old.len);
        let count = usize::from(added.is_some());
        let len = old.len - slots.len() + count;
        let (length, offset, tag) = match added {
            Some(entry) => {
                let offset = (entry.key - form.base) >> form.shift;
                ((entry.member.len() as u64).to_le_bytes(), offset.to_le_bytes(), [entry.tag])
            }
            None => Default::default(),
        };
        let (length_bytes, width) = (1 << form.length_bits, usize::from(form.width));
        let gone = |at: usize, size: usize| at + slots.start * size..at + slots.end * size;
        let changes = [
            Change { gone: gone(old.lengths, length_bytes), added: &length[..length_bytes * count] },
            Change { gone: gone(old.tags, 1), added: &tag[..count] },
            Change { gone: gone(old.offsets, width), added: &offset[..width * count] },
            Change { gone: start..end, added: added.map_or(&[], |entry| entry.member) },
        ];
        let size = changes.iter().fold(used, |size, change| size - change.gone.len() + change.added.len());
        if size > bytes_max {
            return false;
        }
        let (class, capacity) = (SharedBytes::allocation_bytes(size), self.bytes.memory_usage());
        let has_size = class <= capacity && capacity - class <= SLACK_MAX.min(capacity / 8);
        if has_size && !self.bytes.is_shared() {
            if let Some(payload) = self.bytes.payload_mut() {
                move_parts(payload, &changes, used, size);
                form.write(len, payload);
            }
            return true;
        }
        let [lengths, tags, offsets, members] = &changes;
        let mut bytes = SharedBytes::joined(&[
            &old.payload[..lengths.gone.start],
            lengths.added,
            &old.payload[lengths.gone.end..tags.gone.start],
            tags.added,
            &old.payload[tags.gone.end..offsets.gone.start],
            offsets.added,
            &old.payload[offsets.gone.end..members.gone.start],
            members.added,
            &old.payload[members.gone.end..used],
        ]);
        form.write(len, bytes.payload_mut().expect("new bytes have one reference"));
        self.bytes = bytes;
        true
    }
}

/// A range of a payload that is replaced, and its replacement.
struct Change<'a> {
    gone: Range<usize>,
    added: &'a [u8],
}

/// Makes changes, by rising place, to a payload that is used up to `used`, and then up to `end`. Either bytes
/// only come, or they only go.
#[inline]
fn move_parts(payload: &mut [u8], changes: &[Change<'_>; 4], used: usize, end: usize) {
    if end >= used {
        let (mut from, mut to) = (used, end);
        for change in changes.iter().rev() {
            let kept = change.gone.end..from;
            to -= kept.len();
            from = change.gone.start;
            payload.copy_within(kept, to);
            to -= change.added.len();
            match change.added {
                [byte] => payload[to] = *byte,
                added => payload[to..to + added.len()].copy_from_slice(added),
            }
        }
    } else {
        let mut to = changes[0].gone.start;
        for (index, change) in changes.iter().enumerate() {
            let next = changes.get(index + 1).map_or(used, |next| next.gone.start);
            payload.copy_within(change.gone.end..next, to);
            to += next - change.gone.end;
        }
    }
}

/// The leaf of these entries in the form that takes the fewest bytes.
fn build<'e>(entries: impl Iterator<Item = Entry<'e>> + Clone) -> Leaf {
    build_as(&Measure::of(entries.clone()), entries)
}

/// The same, of entries that have been measured.
fn build_as<'e>(measure: &Measure, entries: impl Iterator<Item = Entry<'e>>) -> Leaf {
    let &Measure { len, member_bytes, .. } = measure;
    if len == 0 {
        return Leaf::default();
    }
    let form = measure.form();
    let mut bytes = SharedBytes::zeroed(form.header_bytes() + len * form.entry_bytes() + member_bytes);
    let payload = bytes.payload_mut().expect("new bytes have one reference");
    form.write(len, payload);
    let (width, length_bytes) = (usize::from(form.width), 1 << form.length_bits);
    let mut length = form.header_bytes();
    let tags = length + len * length_bytes;
    let mut offset = tags + len;
    let mut member = offset + len * width;
    let mut tag = tags;
    entries.for_each(|entry| {
        let size = entry.member.len();
        payload[length..length + length_bytes].copy_from_slice(&size.to_le_bytes()[..length_bytes]);
        payload[tag] = entry.tag;
        let raw = ((entry.key - form.base) >> form.shift).to_le_bytes();
        payload[offset..offset + width].copy_from_slice(&raw[..width]);
        payload[member..member + size].copy_from_slice(entry.member);
        length += length_bytes;
        offset += width;
        member += size;
        tag += 1;
    });
    Leaf { bytes }
}

/// A place between entries of a leaf, moving both ways.
#[derive(Clone)]
pub(super) struct Cursor<'a> {
    view: View<'a>,
    slot: usize,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Member and score after the place.
    #[inline]
    pub fn next(&mut self) -> Option<(&'a [u8], f64)> {
        if self.slot == self.view.len {
            return None;
        }
        let member = &self.view.payload[self.at..self.at + self.view.length(self.slot)];
        let score = score_of(self.view.key(self.slot));
        self.slot += 1;
        self.at += member.len();
        Some((member, score))
    }

    /// Member and score before the place.
    #[inline]
    pub fn next_back(&mut self) -> Option<(&'a [u8], f64)> {
        self.slot = self.slot.checked_sub(1)?;
        let end = self.at;
        self.at -= self.view.length(self.slot);
        Some((&self.view.payload[self.at..end], score_of(self.view.key(self.slot))))
    }
}

impl<'a> Cursor<'a> {
    /// Up to `count` entries after the place.
    pub fn next_run(&mut self, count: usize) -> Run<'a> {
        let slots = self.slot..self.view.len.min(self.slot + count);
        let end = self.at + self.view.members_bytes(slots.clone());
        let members = &self.view.payload[self.at..end];
        (self.slot, self.at) = (slots.end, end);
        Run { view: self.view, slots, members }
    }
}

/// Neighbouring entries of a leaf, column by column.
pub struct Run<'a> {
    view: View<'a>,
    slots: Range<usize>,
    members: &'a [u8],
}

impl<'a> Run<'a> {
    /// The number of entries.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The members, back to back.
    pub fn members(&self) -> &'a [u8] {
        self.members
    }

    /// The lengths of the members.
    pub fn lengths(&self) -> impl ExactSizeIterator<Item = usize> + use<'a> {
        let view = self.view;
        self.slots.clone().map(move |slot| view.length(slot))
    }

    /// The lengths, where they are kept in a byte each.
    pub fn short_lengths(&self) -> Option<&'a [u8]> {
        let (lengths, slots) = (self.view.lengths, &self.slots);
        let is_short = self.view.form.length_bits == 0;
        is_short.then(|| &self.view.payload[lengths + slots.start..lengths + slots.end])
    }

    /// The scores.
    pub fn scores(&self) -> impl ExactSizeIterator<Item = f64> + use<'a> {
        let view = self.view;
        self.slots.clone().map(move |slot| view.score(slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_order_of_scores() {
        let scores =
            [f64::NEG_INFINITY, -1e300, -1.0, -5e-324, -0.0, 0.0, 5e-324, 0.1, 1.0, 1e300, f64::INFINITY];
        for pair in scores.windows(2) {
            assert!(key_of(pair[0]) < key_of(pair[1]));
        }
        assert!(scores.iter().all(|&score| score_of(key_of(score)).to_bits() == score.to_bits()));
    }

    #[test]
    fn scores_take_the_bytes_that_they_need() {
        let size =
            |scores: &[f64]| Leaf::build(scores.iter().map(|&score| (&b""[..], score, 0))).view().size();
        // Header and base, length and tag of each.
        let fixed = |len: usize| 12 + 2 * len;
        assert_eq!(size(&[7.5; 30]), fixed(30));
        assert_eq!(size(&Vec::from_iter((0..200).map(|n| f64::from(n) + 1e9))), fixed(200) + 200);
        assert_eq!(size(&Vec::from_iter((0..100).map(|n| f64::from(n) * 1000.0 + 1e6))), fixed(100) + 200);
        assert_eq!(size(&[1.0, 1.1]), fixed(2) - 8 + 16);
    }

    #[test]
    fn any_lengths_and_scores_read_back() {
        let lengths = [0, 1, 255, 256, 65_535, 65_536, 3];
        let scores = [-1e9, -0.0, 0.0, 1.0, 1.5, 2.0, f64::INFINITY];
        let members: Vec<Vec<u8>> = lengths.iter().map(|&len| vec![b'x'; len]).collect();
        let mut leaf = Leaf::default();
        for (slot, (member, &score)) in members.iter().zip(&scores).enumerate() {
            assert!(leaf.insert(slot, member, score, slot as u8, usize::MAX));
            let copy = leaf.clone();
            for at in 0..=slot {
                assert_eq!(copy.view().member(at), members[at]);
                assert_eq!(copy.view().score(at).to_bits(), scores[at].to_bits());
                assert_eq!(leaf.view().find(&members[at], at as u8), Some(at));
            }
        }
        let clone = leaf.clone();
        leaf.set_score(3, 0.25);
        assert_eq!((leaf.view().score(3), clone.view().score(3)), (0.25, 1.0));
        leaf.remove(2..6);
        assert_eq!((leaf.view().len(), leaf.view().member(2), clone.view().len()), (3, &members[6][..], 7));
    }
}
