//! One filter of a chain: its bits, and where those of an item lie.

use std::cell::Cell;

use smallvec::SmallVec;

use super::Hashed;
use crate::divisor::Divisor;
use crate::paged_bytes::PagedBytes;

/// Most bytes of a filter.
pub(crate) const BYTES_MAX: u64 = 1 << 36;
/// Most bits that are set for an item. The smallest double as an error rate takes fewer.
const HASHES_MAX: u32 = 1100;
/// The square of the natural logarithm of 2, with the digits that Redis's module has.
const LN_2_SQUARED: f64 = 0.480_453_013_918_201;
/// The natural logarithm of 2, likewise.
#[expect(clippy::approx_constant, reason = "the module has no more digits")]
const LN_2: f64 = 0.693_147_180_559_945;

/// What a filter was made for, and what follows from that.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BloomShape {
    /// How many items it takes before the chain grows.
    pub entries: u64,
    /// The rate of wrong positives that it then has.
    pub error: f64,
    /// Bits that are set for an item.
    pub hashes: u32,
    /// Bits for each item, before rounding.
    pub bits_per_entry: f64,
    /// Its bits: a multiple of eight.
    pub bits: u64,
    /// If not 0, only 2 to the power of this number of bits are used: filters of very old versions.
    pub power: u8,
}

/// The bits for each item at a rate of wrong positives.
fn bits_per_entry(error: f64) -> f64 {
    (error.ln() / LN_2_SQUARED).abs()
}

fn hashes_for(bits_per_entry: f64) -> f64 {
    (LN_2 * bits_per_entry).ceil()
}

impl BloomShape {
    /// The shape for so many items at a rate of wrong positives; none if that is too large or no rate.
    pub fn new(entries: u64, error: f64) -> Option<Self> {
        if entries == 0 || !(error > 0.0 && error < 1.0) {
            return None;
        }
        let bits_per_entry = bits_per_entry(error);
        let bits = (entries as f64 * bits_per_entry) as u64;
        if bits > BYTES_MAX * 8 - 64 {
            return None;
        }
        let bits = bits.max(1).next_multiple_of(64);
        let hashes = hashes_for(bits_per_entry) as u32;
        Some(BloomShape { entries, error, hashes, bits_per_entry, bits, power: 0 })
    }

    /// Whether the parts fit together, for shapes from files and clients.
    pub(super) fn is_sound(&self) -> bool {
        let used = if self.power == 0 { Some(1) } else { 1u64.checked_shl(u32::from(self.power)) };
        self.error > 0.0
            && self.error < 1.0
            && f64::from(self.hashes) == hashes_for(self.bits_per_entry)
            && (1..=HASHES_MAX).contains(&self.hashes)
            && self.bits.is_multiple_of(8)
            && self.bits / 8 <= BYTES_MAX
            && used.is_some_and(|used| used <= self.bits)
    }

    /// The number that places are remainders of.
    fn modulus(&self) -> u64 {
        if self.power == 0 { self.bits } else { 1 << self.power }
    }

    /// Its bytes.
    pub(super) fn bytes(&self) -> usize {
        (self.bits / 8) as usize
    }
}

/// A filter of a chain.
#[derive(Clone, Debug)]
pub(super) struct Layer {
    pub shape: BloomShape,
    /// Items that were added.
    pub size: u64,
    pub bytes: PagedBytes,
    modulus: Divisor,
}

/// Bits that are fetched together, at least those of one item.
const BITS_TOGETHER: usize = 128;
/// Bits that are looked at without a branch between them.
const UNBRANCHED: usize = 8;

/// A bit: its byte, and its place there.
pub(super) type Bit<T> = (T, u8);
/// The bits of several items, one after the other.
pub(super) type Bits<T> = SmallVec<[Bit<T>; BITS_TOGETHER]>;

/// Sets bits. Whether one was not set before.
#[inline]
pub(super) fn set_all<'a>(bits: impl Iterator<Item = Bit<&'a Cell<u8>>>) -> bool {
    let mut set = 1;
    bits.for_each(|(byte, bit)| {
        let value = byte.get();
        set &= value >> bit;
        byte.set(value | 1 << bit);
    });
    set == 0
}

/// Whether all bits are set.
#[inline]
pub(super) fn are_set<'a>(mut bits: impl ExactSizeIterator<Item = Bit<&'a u8>>) -> bool {
    while bits.len() > 0 {
        let set = bits.by_ref().take(UNBRANCHED).fold(1, |set, (byte, bit)| set & byte >> bit);
        if set == 0 {
            return false;
        }
    }
    true
}

/// The bits of an item: place `i` is the sum of the first hash and `i` times the second, in 64 bits, modulo
/// the number of bits.
#[inline]
fn places(modulus: Divisor, hashes: u32, item: Hashed) -> impl ExactSizeIterator<Item = (usize, u8)> {
    let mut sum = item.first;
    (0..hashes).map(move |_| {
        let place = modulus.remainder(sum);
        sum = sum.wrapping_add(item.second);
        ((place / 8) as usize, (place % 8) as u8)
    })
}

impl Layer {
    /// An empty one. The shape is sound.
    pub fn new(shape: BloomShape) -> Self {
        let modulus = Divisor::new(shape.modulus());
        Layer { shape, size: 0, bytes: PagedBytes::zeroed(shape.bytes()), modulus }
    }

    #[inline]
    fn places(&self, item: Hashed) -> impl ExactSizeIterator<Item = (usize, u8)> + use<> {
        places(self.modulus, self.shape.hashes, item)
    }

    /// How many items are looked up or added together so that their bits are waited for together.
    #[inline]
    pub fn items_together(&self) -> usize {
        BITS_TOGETHER.checked_div(self.shape.hashes as usize).unwrap_or(1).max(1)
    }

    /// The bits of items, which are fetched.
    #[inline]
    pub fn bits(&self, items: &[Hashed]) -> Bits<&u8> {
        let mut bits = Bits::new();
        for item in items {
            // Extending takes a call for each bit.
            for (at, bit) in self.places(*item) {
                let byte = self.bytes.number(at);
                mantissa_memory::prefetch(byte);
                bits.push((byte, bit));
            }
        }
        bits
    }

    /// The bits of items to change, which are fetched.
    #[inline]
    pub fn own_bits(&mut self, items: impl Iterator<Item = Hashed>) -> Bits<&Cell<u8>> {
        let (modulus, hashes) = (self.modulus, self.shape.hashes);
        let mut bytes = self.bytes.own();
        let mut bits = Bits::new();
        for item in items {
            for (at, bit) in places(modulus, hashes, item) {
                let byte = bytes.cell(at);
                mantissa_memory::prefetch(byte.as_ptr());
                bits.push((byte, bit));
            }
        }
        bits
    }

    /// Whether all bits of an item are set.
    #[inline]
    pub fn contains(&self, item: Hashed) -> bool {
        let places = self.places(item);
        match self.bytes.only_page() {
            Some([]) => false,
            Some(page) => are_set(places.map(|(at, bit)| (&page[at], bit))),
            None => are_set(places.map(|(at, bit)| (self.bytes.number(at), bit))),
        }
    }

    /// Sets all bits of an item. Whether one was not set before.
    #[inline]
    pub fn add(&mut self, item: Hashed) -> bool {
        let places = self.places(item);
        let is_new = if let Some(page) = self.bytes.only_page_mut() {
            let page = Cell::from_mut(page).as_slice_of_cells();
            set_all(places.map(|(at, bit)| (&page[at], bit)))
        } else {
            let mut bytes = self.bytes.own();
            set_all(places.map(|(at, bit)| (bytes.cell(at), bit)))
        };
        self.size += u64::from(is_new);
        is_new
    }

    /// Fetches all bits of an item ahead of their use.
    #[inline]
    pub fn fetch(&self, item: Hashed) {
        self.places(item).for_each(|(at, _)| mantissa_memory::prefetch(self.bytes.number(at)));
    }

    /// Whether there are several pages: then it pays to find the bits of items together.
    #[inline]
    pub fn has_pages(&self) -> bool {
        self.bytes.page_count() > 1
    }

    /// How many items it takes still.
    #[inline]
    pub fn room(&self) -> u64 {
        self.shape.entries.saturating_sub(self.size)
    }

    /// Whether it has as many items as it is made for.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.room() == 0
    }
}
