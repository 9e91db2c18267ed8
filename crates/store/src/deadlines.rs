//! A bound of the earliest expiry in each group of a table's entries, for finding expired keys without a look
//! at all of them.
//!
//! A group has the entries whose hashes end in the same bits: those of [`GROUP_BUCKETS`] buckets or somewhat
//! more, some 200 entries. There is no index of the keys with an expiry: the entries of a group are looked at
//! once its bound has passed.
//!
//! # Invariant
//!
//! The bound of a group is at most the expiry of each of its entries. It is exact after a visit, and too
//! early where a key has gone or got a later expiry since: such a group is looked at once in vain.
//!
//! 8 bytes a group, 0.05 an entry; nothing while no key has had an expiry.

use crate::key_hash::KeyHash;

/// Buckets of a group, at the least, unless the table has fewer. Larger groups cost more where keys expire
/// one by one, smaller ones more where nothing expires: 100 million keys have half a million bounds.
const GROUP_BUCKETS: usize = 32;
/// The bound of a group without keys with an expiry.
const NEVER: i64 = i64::MAX;

/// The bounds of a table, Unix times in ms.
#[derive(Default)]
pub(crate) struct Deadlines {
    /// A power of two of them, or none. That of a hash is chosen by its low bits.
    bounds: Vec<i64>,
    /// The group from which the search goes on for one whose bound has passed.
    next: usize,
    /// How many visits may be in vain because groups were split: both parts have the bound of the whole.
    split: usize,
}

impl Deadlines {
    /// Notes that the key with this hash has an expiry.
    #[inline]
    pub fn note(&mut self, hash: KeyHash, expiry: i64) {
        if self.bounds.is_empty() {
            self.bounds.push(NEVER);
        }
        let group = hash.0 as usize & (self.bounds.len() - 1);
        self.bounds[group] = self.bounds[group].min(expiry);
    }

    /// Makes groups of the right size for a table of so many buckets. A group never is smaller than a part of
    /// the table that a scan visits in one step.
    pub fn fit(&mut self, bucket_count: usize) {
        let wanted = match bucket_count / GROUP_BUCKETS {
            0 => 1,
            groups => 1 << groups.ilog2(),
        };
        while (1..wanted).contains(&self.bounds.len()) {
            self.bounds.extend_from_within(..);
            self.split = self.bounds.len();
        }
        while self.bounds.len() > 2 * wanted {
            let half = self.bounds.len() / 2;
            let (low, high) = self.bounds.split_at_mut(half);
            low.iter_mut().zip(high).for_each(|(low, high)| *low = (*low).min(*high));
            self.bounds.truncate(half);
            self.bounds.shrink_to_fit();
        }
    }

    /// The number of groups.
    pub fn len(&self) -> usize {
        self.bounds.len()
    }

    /// The next group whose bound has passed, each in turn.
    pub fn next_due(&mut self, now_ms: i64) -> Option<usize> {
        let group = self.find_from(self.next, |bound| bound <= now_ms)?;
        self.next = group + 1;
        self.split = self.split.saturating_sub(1);
        Some(group)
    }

    /// Whether groups may be visited in vain because they were split.
    pub fn is_split(&self) -> bool {
        self.split > 0
    }

    /// The first group with keys that have an expiry from a place on that `random` chooses.
    pub fn random(&self, random: u64) -> Option<usize> {
        let place = (u128::from(random) * self.bounds.len() as u128) >> 64;
        self.find_from(place as usize, |bound| bound != NEVER)
    }

    fn find_from(&self, place: usize, is_wanted: impl Fn(i64) -> bool) -> Option<usize> {
        let (before, after) = self.bounds.split_at_checked(place).unwrap_or((&self.bounds, &[]));
        let behind = after.iter().position(|&bound| is_wanted(bound)).map(|index| place + index);
        behind.or_else(|| before.iter().position(|&bound| is_wanted(bound)))
    }

    /// Sets the bound of a group: `None` if none of its keys has an expiry.
    pub fn settle(&mut self, group: usize, earliest: Option<i64>) {
        if let Some(bound) = self.bounds.get_mut(group) {
            *bound = earliest.unwrap_or(NEVER);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_hold_while_groups_are_split_and_joined() {
        let mut deadlines = Deadlines::default();
        let mut state = 7_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 20
        };
        let mut noted: Vec<(KeyHash, i64)> = Vec::new();
        for step in 0..2_000 {
            let (hash, expiry) = (KeyHash(random()), (random() % 10_000) as i64);
            deadlines.note(hash, expiry);
            noted.push((hash, expiry));
            if step % 50 == 0 {
                deadlines.fit(random() as usize % 20_000);
            }
            let group = |hash: KeyHash| hash.0 as usize & (deadlines.len() - 1);
            assert!(noted.iter().all(|&(hash, expiry)| deadlines.bounds[group(hash)] <= expiry));
        }
    }

    #[test]
    fn every_group_that_is_due_gets_its_turn() {
        let mut deadlines = Deadlines::default();
        assert_eq!((deadlines.next_due(i64::MAX - 1), deadlines.random(1)), (None, None));
        deadlines.note(KeyHash(0), 5);
        deadlines.fit(8 * GROUP_BUCKETS);
        let mut found: Vec<_> = (0..8).filter_map(|_| deadlines.next_due(5)).collect();
        found.sort_unstable();
        assert_eq!(found, (0..8).collect::<Vec<_>>());
        (0..8).for_each(|group| deadlines.settle(group, (group == 6).then_some(9)));
        assert_eq!(
            (deadlines.next_due(8), deadlines.next_due(9), deadlines.next_due(9)),
            (None, Some(6), Some(6))
        );
        assert!((0..100).all(|random| deadlines.random(random << 58) == Some(6)));
    }
}
