//! Sets of shard numbers.

/// Most shards that a keyspace may have.
pub const SHARD_COUNT_MAX: usize = 1024;

/// A set of shard numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ShardSet([u64; SHARD_COUNT_MAX / 64]);

impl ShardSet {
    /// No shard.
    pub const EMPTY: ShardSet = ShardSet([0; SHARD_COUNT_MAX / 64]);

    /// One shard.
    #[inline]
    pub fn one(index: usize) -> Self {
        let mut set = Self::EMPTY;
        set.insert(index);
        set
    }

    /// The shards `0..count`.
    pub fn first(count: usize) -> Self {
        let bits_of = |word: usize| match count.saturating_sub(word * 64) {
            bits @ 0..64 => (1 << bits) - 1,
            _ => u64::MAX,
        };
        ShardSet(std::array::from_fn(bits_of))
    }

    /// Adds a shard.
    #[inline]
    pub fn insert(&mut self, index: usize) {
        self.0[index / 64] |= 1 << (index % 64);
    }

    /// Takes a shard out.
    pub fn remove(&mut self, index: usize) {
        self.0[index / 64] &= !(1 << (index % 64));
    }

    /// Whether the shard is in the set.
    #[inline]
    pub fn contains(&self, index: usize) -> bool {
        self.0[index / 64] & (1 << (index % 64)) != 0
    }

    /// Whether the set is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0 == [0; SHARD_COUNT_MAX / 64]
    }

    /// The number of shards in the set.
    pub fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// The shard, if there is exactly one. Counting bits takes long where the processor is not known to have
    /// an instruction for it.
    #[inline]
    pub fn only(&self) -> Option<usize> {
        let mut found = None;
        for (number, &word) in self.0.iter().enumerate() {
            if word != 0 {
                if found.is_some() || !word.is_power_of_two() {
                    return None;
                }
                found = Some(number * 64 + word.trailing_zeros() as usize);
            }
        }
        found
    }

    /// The shards in either set.
    #[inline]
    pub fn union(self, other: ShardSet) -> ShardSet {
        let mut union = self;
        union.0.iter_mut().zip(other.0).for_each(|(word, more)| *word |= more);
        union
    }

    /// Whether all shards of `other` are in this set.
    #[inline]
    pub fn covers(&self, other: ShardSet) -> bool {
        self.union(other) == *self
    }

    /// Calls `visit` with the shard numbers in ascending order.
    #[inline]
    pub fn for_each(&self, mut visit: impl FnMut(usize)) {
        for (number, &word) in self.0.iter().enumerate() {
            let mut rest = word;
            while rest != 0 {
                visit(number * 64 + rest.trailing_zeros() as usize);
                rest &= rest - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shard_sets_iterate_in_order() {
        let mut set = ShardSet::EMPTY;
        for index in [200, 3, 64, 63, 255, 0] {
            set.insert(index);
        }
        let mut found = Vec::new();
        set.for_each(|index| found.push(index));
        assert_eq!(found, [0, 3, 63, 64, 200, 255]);
        assert!(set.covers(ShardSet::one(64)) && !set.covers(ShardSet::one(65)));
        assert_eq!((ShardSet::EMPTY.only(), ShardSet::one(200).only(), set.only()), (None, Some(200), None));
        let apart = |one, other| ShardSet::one(one).union(ShardSet::one(other));
        assert_eq!((apart(0, 63).only(), apart(63, 64).only(), apart(64, 64).only()), (None, None, Some(64)));
        for count in [0, 1, 63, 64, 65, 256, SHARD_COUNT_MAX] {
            let mut next = 0;
            ShardSet::first(count).for_each(|index| {
                assert_eq!(index, next);
                next += 1;
            });
            assert_eq!(next, count);
        }
    }
}
