//! t-digests: quantiles of numbers that were seen, most exact at the ends (the merging form of Dunning, "The
//! t-digest: Efficient estimates of distributions", 2021).
//!
//! ```text
//! | merged nodes, ascending by mean | unmerged nodes, as they came |     a node: mean, weight
//! ```
//!
//! Numbers are appended as nodes of weight 1. A compression sorts all nodes and merges neighbours as far as
//! the scale function lets a node grow: small at the ends, large in the middle. One is due when there is no
//! place left, of [`TDigest::capacity`], and before a question.
//!
//! Means, weights and answers are those of Redis's module, operation by operation, so that dumps go both
//! ways and every digit agrees.
//!
//! Adding costs O(log capacity) each on average; a question O(nodes), and a compression if one is due. A
//! clone costs O(1); the first change of a shared digest copies its nodes, up to 16 bytes * capacity.
//!
//! Invariants: nodes before `merged` were left by a compression; there are no more than capacity of them;
//! weights are 1 or more and their sum is below 2^63.

mod ask;
mod order;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::Collection;
use crate::room::make_room;

/// Most compression: with it the capacity fits 31 bits, as in the module.
pub const COMPRESSION_MAX: i64 = (i32::MAX as i64 - 10) / 6;
/// Bytes that the module counts for a digest beside 16 for each node of the capacity.
const MODULE_BYTES: i64 = 8;

/// A t-digest.
#[derive(Clone, Debug, Default)]
#[repr(transparent)]
pub struct TDigest {
    body: Arc<Body>,
}

const _: () = assert!(size_of::<TDigest>() == 8);

/// Neighbouring numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Node {
    /// Their mean.
    pub mean: f64,
    /// How many they are.
    pub weight: i64,
}

#[derive(Clone, Debug)]
struct Body {
    compression: i64,
    min: f64,
    max: f64,
    nodes: Vec<Node>,
    /// How many of the nodes a compression has left.
    merged: usize,
    merged_weight: i64,
    unmerged_weight: i64,
    compressions: i64,
}

impl Default for Body {
    fn default() -> Self {
        Body {
            compression: 1,
            min: f64::MAX,
            max: -f64::MAX,
            nodes: Vec::new(),
            merged: 0,
            merged_weight: 0,
            unmerged_weight: 0,
            compressions: 0,
        }
    }
}

/// A sum of weights leaves its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overflow;

/// What a dump has of a digest, which has been compressed.
#[derive(Clone, Copy, Debug)]
pub struct TDigestShape {
    /// The compression.
    pub compression: i64,
    /// The least number; `f64::MAX` without any.
    pub min: f64,
    /// The largest number; `-f64::MAX` without any.
    pub max: f64,
    /// How many compressions there have been.
    pub compressions: i64,
}

impl TDigest {
    /// An empty digest. `None` if the compression is not from 1 to [`COMPRESSION_MAX`].
    pub fn new(compression: i64) -> Option<Self> {
        let body = Body { compression, ..Body::default() };
        (1..=COMPRESSION_MAX).contains(&compression).then(|| TDigest { body: Arc::new(body) })
    }

    /// One with these nodes, for files. `None` if they do not fit together.
    pub fn from_parts(shape: TDigestShape, nodes: Vec<Node>) -> Option<Self> {
        let empty = TDigest::new(shape.compression)?;
        let weight = |sum: i64, node: &Node| sum.checked_add(node.weight).filter(|_| node.weight > 0);
        let merged_weight = nodes.iter().try_fold(0, weight)?;
        if nodes.len() > empty.capacity() || shape.compressions < 0 {
            return None;
        }
        let body = Body {
            compression: shape.compression,
            min: shape.min,
            max: shape.max,
            merged: nodes.len(),
            nodes,
            merged_weight,
            unmerged_weight: 0,
            compressions: shape.compressions,
        };
        Some(TDigest { body: Arc::new(body) })
    }

    /// One with these nodes, of which the first so many are merged, as [`TDigest::merged`] and
    /// [`TDigest::unmerged`] tell with their weights, which may have been rounded. `None` if they do not fit
    /// together.
    pub fn from_state(
        shape: TDigestShape,
        nodes: Vec<Node>,
        (merged, merged_weight): (usize, i64),
        unmerged_weight: i64,
    ) -> Option<Self> {
        let empty = TDigest::new(shape.compression)?;
        let are_sound = merged <= nodes.len() && nodes.len() <= empty.capacity();
        let TDigestShape { compression, min, max, compressions } = shape;
        let body =
            Body { compression, min, max, nodes, merged, merged_weight, unmerged_weight, compressions };
        are_sound.then(|| TDigest { body: Arc::new(body) })
    }

    /// What a dump has beside the nodes.
    pub fn shape(&self) -> TDigestShape {
        let Body { compression, min, max, compressions, .. } = *self.body;
        TDigestShape { compression, min, max, compressions }
    }

    /// All nodes: those that are merged, then the others.
    pub fn nodes(&self) -> &[Node] {
        &self.body.nodes
    }

    /// The compression.
    pub fn compression(&self) -> i64 {
        self.body.compression
    }

    /// How many nodes there are places for.
    pub fn capacity(&self) -> usize {
        (6 * self.body.compression + 10) as usize
    }

    /// How many nodes are merged, and their weight.
    pub fn merged(&self) -> (usize, i64) {
        (self.body.merged, self.body.merged_weight)
    }

    /// How many nodes are not merged yet, and their weight.
    pub fn unmerged(&self) -> (usize, i64) {
        (self.body.nodes.len() - self.body.merged, self.body.unmerged_weight)
    }

    /// How many numbers were added.
    pub fn count(&self) -> i64 {
        self.body.merged_weight.saturating_add(self.body.unmerged_weight)
    }

    /// The least number and the largest, if any was added.
    pub fn range(&self) -> Option<(f64, f64)> {
        (self.count() > 0).then_some((self.body.min, self.body.max))
    }

    /// Whether every node is merged, so that it can be asked.
    pub fn is_compressed(&self) -> bool {
        self.body.merged == self.body.nodes.len()
    }

    /// The bytes that Redis's module counts.
    pub fn module_bytes(&self) -> i64 {
        MODULE_BYTES + 16 * self.capacity() as i64
    }

    /// Forgets everything but the compression.
    pub fn reset(&mut self) {
        let compression = self.body.compression;
        self.body = Arc::new(Body { compression, ..Body::default() });
    }

    /// Adds finite numbers. What comes before an overflow stays.
    pub fn add(&mut self, numbers: &[f64]) -> Result<(), Overflow> {
        let body = Arc::make_mut(&mut self.body);
        numbers.iter().try_for_each(|&mean| body.push(Node { mean, weight: 1 }))
    }

    /// Merges the nodes that are not merged yet.
    pub fn compress(&mut self) -> Result<(), Overflow> {
        if self.is_compressed() { Ok(()) } else { Arc::make_mut(&mut self.body).compress() }
    }

    /// The same digest, compressed.
    pub fn compressed(&self) -> Self {
        let mut other = self.clone();
        // What overflows stays as it is.
        _ = other.compress();
        other
    }

    /// Adds the nodes of another one, which has been compressed.
    pub fn merge(&mut self, other: &TDigest) -> Result<(), Overflow> {
        let body = Arc::make_mut(&mut self.body);
        body.compress()?;
        other.nodes().iter().try_for_each(|&node| body.push(node))
    }
}

impl Body {
    fn capacity(&self) -> usize {
        (6 * self.compression + 10) as usize
    }

    #[inline]
    fn push(&mut self, node: Node) -> Result<(), Overflow> {
        if self.nodes.len() >= self.capacity() - 1 {
            self.compress()?;
            if self.nodes.len() >= self.capacity() {
                return Err(Overflow);
            }
        }
        let unmerged_weight = self.unmerged_weight.checked_add(node.weight).ok_or(Overflow)?;
        unmerged_weight.checked_add(self.merged_weight).ok_or(Overflow)?;
        if node.mean < self.min {
            self.min = node.mean;
        }
        if node.mean > self.max {
            self.max = node.mean;
        }
        let places = self.capacity();
        make_room(&mut self.nodes, places);
        self.nodes.push(node);
        self.unmerged_weight = unmerged_weight;
        Ok(())
    }

    fn compress(&mut self) -> Result<(), Overflow> {
        if self.merged == self.nodes.len() {
            return Ok(());
        }
        order::sort(&mut self.nodes, self.merged);
        let total = self.merged_weight as f64 + self.unmerged_weight as f64;
        if total > 1.0 {
            let denominator = 2.0 * std::f64::consts::PI * total * total.ln();
            self.merge_neighbours(self.compression as f64 / denominator, total);
        }
        self.merged = self.nodes.len();
        self.merged_weight = total as i64;
        self.unmerged_weight = 0;
        self.compressions += 1;
        Ok(())
    }

    /// Merges nodes in ascending order where the scale function allows it.
    fn merge_neighbours(&mut self, normalizer: f64, total: f64) {
        let nodes = &mut self.nodes[..];
        let mut current = 0;
        let mut before = 0.0;
        for index in 1..nodes.len() {
            let Node { mean, weight } = nodes[index];
            let proposed = nodes[current].weight as f64 + weight as f64;
            let size = proposed * normalizer;
            let (low, high) = (before / total, (before + proposed) / total);
            let node = &mut nodes[current];
            if size <= low * (1.0 - low) && size <= high * (1.0 - high) {
                node.weight += weight;
                node.mean += ((mean - node.mean) * weight as f64) / node.weight as f64;
            } else {
                before += node.weight as f64;
                current += 1;
                nodes[current] = Node { mean, weight };
            }
        }
        self.nodes.truncate(current + 1);
    }
}

impl Collection for TDigest {
    fn element_count(&self) -> u64 {
        self.count().cast_unsigned()
    }

    fn encoding(&self) -> &'static str {
        "raw"
    }

    fn memory_usage(&self) -> usize {
        size_of::<Body>() + 2 * size_of::<usize>() + self.body.nodes.capacity() * size_of::<Node>()
    }

    fn free_effort(&self) -> usize {
        1
    }

    fn redis_free_effort(&self, _: usize) -> usize {
        1
    }

    fn is_large_form(&self) -> bool {
        self.body.nodes.len() > 1000
    }
}
