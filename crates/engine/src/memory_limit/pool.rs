//! The best candidates for eviction that samples have brought up so far.
//!
//! The pool is kept between evictions, so that few samples are enough: with five entries drawn for each key
//! that is evicted, the pool holds the worst of the last hundred or more (an idea of Salvatore Sanfilippo,
//! known from Redis). A candidate is checked again before it is evicted, so one that has been used meanwhile
//! stays.

use mantissa_store::KeyHash;

/// Candidates that are kept.
const CANDIDATES_MAX: usize = 32;

/// A key that may be evicted.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// Its place in the order of eviction when it was drawn: the lowest goes first.
    pub rank: i64,
    /// The hash of its key.
    pub hash: KeyHash,
    /// Its database.
    pub database: usize,
}

impl Candidate {
    /// Whether both are the same key.
    pub fn is_same_key(&self, other: &Candidate) -> bool {
        self.hash == other.hash && self.database == other.database
    }
}

/// The best candidates for eviction that have been seen.
#[derive(Default)]
pub struct Pool {
    /// The best is the last.
    candidates: Vec<Candidate>,
}

impl Pool {
    /// Whether a candidate of this rank would be kept.
    #[inline]
    pub fn would_keep(&self, rank: i64) -> bool {
        self.candidates.len() < CANDIDATES_MAX
            || self.candidates.first().is_some_and(|worst| rank < worst.rank)
    }

    /// Adds a candidate if it is among the best.
    pub fn offer(&mut self, candidate: Candidate) {
        if let Some(at) = self.candidates.iter().position(|other| other.is_same_key(&candidate)) {
            self.candidates.remove(at);
        }
        if !self.would_keep(candidate.rank) {
            return;
        }
        if self.candidates.len() == CANDIDATES_MAX {
            self.candidates.remove(0);
        }
        let at = self.candidates.partition_point(|other| other.rank > candidate.rank);
        self.candidates.insert(at, candidate);
    }

    /// Takes the best out.
    pub fn take_best(&mut self) -> Option<Candidate> {
        self.candidates.pop()
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.candidates.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_ranks_are_kept_once_each_and_come_first() {
        let mut pool = Pool::default();
        for number in (0..200_i64).rev().chain(0..200) {
            let rank = number * 37 % 200;
            pool.offer(Candidate { rank, hash: KeyHash(rank as u64), database: 0 });
        }
        let ranks: Vec<_> = std::iter::from_fn(|| pool.take_best()).map(|taken| taken.rank).collect();
        assert_eq!(ranks, (0..CANDIDATES_MAX as i64).collect::<Vec<_>>());
    }
}
