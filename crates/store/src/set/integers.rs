//! A sorted array of integers of the least width (2, 4 or 8 bytes) that has held them all, in one allocation.
//!
//! Finding costs O(log n), adding and removing move what follows.

use crate::allocator::class_size;

/// See the module's description.
#[derive(Clone)]
pub(super) struct Integers {
    bytes: Vec<u8>,
    /// Bytes of each.
    width: u8,
}

impl Default for Integers {
    fn default() -> Self {
        Integers { bytes: Vec::new(), width: 2 }
    }
}

fn width_of(integer: i64) -> u8 {
    if i16::try_from(integer).is_ok() {
        2
    } else if i32::try_from(integer).is_ok() {
        4
    } else {
        8
    }
}

impl Integers {
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.bytes.len() / usize::from(self.width)
    }

    /// Bytes of the allocation.
    pub(super) fn memory_usage(&self) -> usize {
        if self.bytes.capacity() == 0 { 0 } else { class_size(self.bytes.capacity()) }
    }

    /// The integer at an index, which must be below the length.
    #[inline]
    pub(super) fn get(&self, index: usize) -> i64 {
        let width = usize::from(self.width);
        let at = index * width;
        let raw = &self.bytes[at..at + width];
        let mut wide = if raw[width - 1] & 0x80 != 0 { [0xff; 8] } else { [0; 8] };
        wide[..width].copy_from_slice(raw);
        i64::from_le_bytes(wide)
    }

    pub(super) fn contains(&self, integer: i64) -> bool {
        self.find(integer).is_ok()
    }

    /// False if it is there already.
    pub(super) fn add(&mut self, integer: i64) -> bool {
        let Err(index) = self.find(integer) else { return false };
        self.widen(width_of(integer));
        let width = usize::from(self.width);
        let at = index * width;
        if self.bytes.capacity() < self.bytes.len() + width {
            self.bytes.reserve_exact(class_size(self.bytes.len() + width) - self.bytes.len());
        }
        let end = self.bytes.len();
        self.bytes.resize(end + width, 0);
        self.bytes.copy_within(at..end, at + width);
        self.bytes[at..at + width].copy_from_slice(&integer.to_le_bytes()[..width]);
        true
    }

    /// False if it is not there.
    pub(super) fn remove(&mut self, integer: i64) -> bool {
        let Ok(index) = self.find(integer) else { return false };
        let width = usize::from(self.width);
        self.bytes.drain(index * width..(index + 1) * width);
        if self.bytes.len() < self.bytes.capacity() / 2 {
            self.bytes.shrink_to(class_size(self.bytes.len()));
        }
        true
    }

    /// The index of an integer, or the one at which it would have to stand.
    fn find(&self, integer: i64) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.get(middle).cmp(&integer) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Ok(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    fn widen(&mut self, width: u8) {
        if width <= self.width {
            return;
        }
        let mut wide = Vec::with_capacity(class_size((self.len() + 1) * usize::from(width)));
        for index in 0..self.len() {
            wide.extend_from_slice(&self.get(index).to_le_bytes()[..usize::from(width)]);
        }
        self.bytes = wide;
        self.width = width;
    }
}
