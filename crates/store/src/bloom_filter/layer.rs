//! One filter of a chain: its bits, and where those of an item lie.

use super::Hashed;
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
    modulus: u64,
    /// 2 to the power of 64, modulo `modulus`.
    wrap: u64,
}

/// The bits of an item: place `i` is the sum of the first hash and `i` times the second, in 64 bits, modulo
/// the number of bits. Only the first place takes divisions.
struct Places {
    place: u64,
    step: u64,
    sum: u64,
    addend: u64,
    modulus: u64,
    wrap: u64,
    left: u32,
}

impl Iterator for Places {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        let place = self.place;
        let (sum, is_wrapped) = self.sum.overflowing_add(self.addend);
        self.sum = sum;
        self.place += self.step;
        if self.place >= self.modulus {
            self.place -= self.modulus;
        }
        if is_wrapped {
            let below = self.place < self.wrap;
            self.place =
                self.place.wrapping_sub(self.wrap).wrapping_add(if below { self.modulus } else { 0 });
        }
        Some(place as usize)
    }
}

impl Layer {
    /// An empty one. The shape is sound.
    pub fn new(shape: BloomShape) -> Self {
        let modulus = shape.modulus();
        let wrap = ((1u128 << 64) % u128::from(modulus)) as u64;
        Layer { shape, size: 0, bytes: PagedBytes::zeroed(shape.bytes()), modulus, wrap }
    }

    #[inline]
    fn places(&self, item: Hashed) -> Places {
        Places {
            place: item.first % self.modulus,
            step: item.second % self.modulus,
            sum: item.first,
            addend: item.second,
            modulus: self.modulus,
            wrap: self.wrap,
            left: self.shape.hashes,
        }
    }

    /// Whether all bits of an item are set.
    #[inline]
    pub fn contains(&self, item: Hashed) -> bool {
        let mut places = self.places(item);
        match self.bytes.only_page() {
            Some([]) => false,
            Some(page) => places.all(|place| page[place / 8] & 1 << (place % 8) != 0),
            None => places.all(|place| self.bytes.get(place / 8) & 1 << (place % 8) != 0),
        }
    }

    /// Sets all bits of an item. Whether one was not set before.
    #[inline]
    pub fn add(&mut self, item: Hashed) -> bool {
        let mut set = 1u8;
        let places = self.places(item);
        let mut mark = |byte: &mut u8, place: usize| {
            set &= *byte >> (place % 8);
            *byte |= 1 << (place % 8);
        };
        match self.bytes.only_page_mut() {
            Some(page) => places.for_each(|place| mark(&mut page[place / 8], place)),
            None => places.for_each(|place| mark(self.bytes.get_mut(place / 8), place)),
        }
        self.size += u64::from(set == 0);
        set == 0
    }

    /// Fetches all bits of an item ahead of their use.
    #[inline]
    pub fn fetch(&self, item: Hashed) {
        self.places(item).for_each(|place| self.bytes.prefetch(place / 8));
    }

    /// Whether it has as many items as it is made for.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.size >= self.shape.entries
    }
}
