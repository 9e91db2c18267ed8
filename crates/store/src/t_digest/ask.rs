//! What a compressed digest is asked: quantiles, shares, ranks, trimmed means.
//!
//! A node of weight 1 is a number itself. Between others the numbers are taken to lie evenly, half of a
//! node's on each side of its mean; one of the first node's is the least of all, and one of the last node's
//! the largest.

use smallvec::{SmallVec, smallvec};

use super::{Node, TDigest};

/// Where a walk over the nodes has come to, for quantiles in ascending order.
struct Walk {
    /// The weight up to the mean of the node.
    before: f64,
    node: usize,
}

/// Sums of weights below this are computed exactly, doubled and in any order.
const EXACT_WEIGHT_MAX: i64 = 1 << 51;

/// [`TDigest::advance`], rounding as the module does.
fn advance_by_doubles(nodes: &[Node], index: f64, walk: &mut Walk) -> Option<f64> {
    for two in nodes.windows(2) {
        let between = (two[0].weight as f64 + two[1].weight as f64) / 2.0;
        if walk.before + between > index {
            return Some(between);
        }
        walk.before += between;
        walk.node += 1;
    }
    None
}

/// A number as an integer. As in the module, what no integer is near, NaN included, is the least.
fn integer(number: f64) -> i64 {
    const END: f64 = (1_u64 << 63) as f64;
    if (-END..END).contains(&number) { number as i64 } else { i64::MIN }
}

/// A number between two, by weights; never outside them.
fn weighted(first: (f64, f64), second: (f64, f64)) -> f64 {
    let (low, high) = if first.0 <= second.0 { (first, second) } else { (second, first) };
    let mean = (low.0 * low.1 + high.0 * high.1) / (low.1 + high.1);
    let bounded = if mean < high.0 { mean } else { high.0 };
    if low.0 > bounded { low.0 } else { bounded }
}

impl TDigest {
    fn mean(&self, node: usize) -> f64 {
        self.body.nodes[node].mean
    }

    fn weight(&self, node: usize) -> f64 {
        self.body.nodes[node].weight as f64
    }

    fn walk(&self) -> Walk {
        Walk { before: self.weight(0) / 2.0, node: 0 }
    }

    /// The number below which a part of all lies: NaN of an empty digest. The part is from 0 to 1.
    pub fn quantile(&self, part: f64) -> f64 {
        match self.body.merged {
            0 => f64::NAN,
            1 => self.mean(0),
            _ => {
                let index = part * self.body.merged_weight as f64;
                if index < 1.0 { self.body.min } else { self.at(index, &mut self.walk()) }
            }
        }
    }

    /// The same for several parts. Those that ascend cost one walk over the nodes together.
    pub fn quantiles(&self, parts: &[f64]) -> SmallVec<[f64; 16]> {
        match self.body.merged {
            0 => return smallvec![f64::NAN; parts.len()],
            1 => return smallvec![self.mean(0); parts.len()],
            _ => {}
        }
        let mut walk = self.walk();
        let mut last = f64::NEG_INFINITY;
        let number_of = |&part: &f64| {
            if part < last {
                walk = self.walk();
            }
            last = part;
            self.at(part * self.body.merged_weight as f64, &mut walk)
        };
        parts.iter().map(number_of).collect()
    }

    /// The number at an index among all in order, of two nodes or more.
    fn at(&self, index: f64, walk: &mut Walk) -> f64 {
        let (min, max, total) = (self.body.min, self.body.max, self.body.merged_weight as f64);
        let first = self.weight(0);
        if first > 1.0 && index < first / 2.0 {
            return min + (index - 1.0) / (first / 2.0 - 1.0) * (self.mean(0) - min);
        }
        if index > (self.body.merged_weight - 1) as f64 {
            return max;
        }
        let end = self.body.merged - 1;
        let last = self.weight(end);
        if last > 1.0 && total - index <= last / 2.0 {
            return max - (total - index - 1.0) / (last / 2.0 - 1.0) * (max - self.mean(end));
        }
        if let Some(between) = self.advance(index, walk) {
            return self.between(index, walk, between);
        }
        let beyond = index - total - last / 2.0;
        weighted((self.mean(end), beyond), (max, last / 2.0 - beyond))
    }

    /// Walks to the node between whose mean and the next one's an index lies, and returns the weight between
    /// these; `None` if the last node is reached.
    fn advance(&self, index: f64, walk: &mut Walk) -> Option<f64> {
        let nodes = &self.body.nodes[walk.node..self.body.merged];
        if self.body.merged_weight >= EXACT_WEIGHT_MAX {
            return advance_by_doubles(nodes, index, walk);
        }
        // Twice the weights are integers, and exact in doubles as well.
        let (twice_index, mut twice_before) = ((2.0 * index).floor() as i64, (2.0 * walk.before) as i64);
        let mut found = None;
        for two in nodes.windows(2) {
            let twice_between = two[0].weight + two[1].weight;
            if twice_before + twice_between > twice_index {
                found = Some(twice_between as f64 / 2.0);
                break;
            }
            twice_before += twice_between;
            walk.node += 1;
        }
        walk.before = twice_before as f64 / 2.0;
        found
    }

    /// The number at an index between the means of a node and the next, which lie this weight apart.
    fn between(&self, index: f64, walk: &Walk, between: f64) -> f64 {
        let [here, next] = [walk.node, walk.node + 1];
        let (mut left, mut right) = (0.0, 0.0);
        if self.body.nodes[here].weight == 1 {
            if index - walk.before < 0.5 {
                return self.mean(here);
            }
            left = 0.5;
        }
        if self.body.nodes[next].weight == 1 {
            if walk.before + between - index <= 0.5 {
                return self.mean(next);
            }
            right = 0.5;
        }
        let from_here = index - walk.before - left;
        let to_next = walk.before + between - index - right;
        weighted((self.mean(here), to_next), (self.mean(next), from_here))
    }

    /// The part of all numbers that lies below one, half of those equal to it included: NaN of an empty
    /// digest.
    pub fn part_below(&self, number: f64) -> f64 {
        let (min, max, count) = (self.body.min, self.body.max, self.body.merged);
        if count == 0 {
            return f64::NAN;
        }
        if number < min {
            return 0.0;
        }
        if number > max {
            return 1.0;
        }
        if count == 1 {
            let width = max - min;
            return if number - min <= width { 0.5 } else { (number - min) / width };
        }
        let total = self.body.merged_weight as f64;
        let (first, last) = (self.mean(0), self.mean(count - 1));
        if number < first {
            let width = first - min;
            return match () {
                () if width <= 0.0 => 0.0,
                () if number == min => 0.5 / total,
                () => (1.0 + (number - min) / width * (self.weight(0) / 2.0 - 1.0)) / total,
            };
        }
        if number > last {
            let width = max - last;
            return match () {
                () if width <= 0.0 => 1.0,
                () if number == max => 1.0 - 0.5 / total,
                () => {
                    let weight = self.weight(count - 1);
                    1.0 - (1.0 + (max - number) / width * (weight / 2.0 - 1.0)) / total
                }
            };
        }
        self.part_below_inner(number, total)
    }

    /// The same for a number from the first mean to the last.
    fn part_below_inner(&self, number: f64, total: f64) -> f64 {
        let mut before = 0.0;
        for (index, two) in self.body.nodes[..self.body.merged].windows(2).enumerate() {
            let [here, next] = [two[0], two[1]];
            let weight = here.weight as f64;
            if here.mean == number {
                let equal = self.body.nodes[index..].iter().take_while(|node| node.mean == number);
                let weight: f64 = equal.map(|node| node.weight as f64).sum();
                return (before + weight / 2.0) / total;
            }
            if here.mean <= number && number < next.mean {
                let between = (weight + next.weight as f64) / 2.0;
                if next.mean - here.mean <= 0.0 {
                    return (before + between) / total;
                }
                if here.weight == 1 && next.weight == 1 {
                    return (before + 1.0) / total;
                }
                let left = if here.weight == 1 { 0.5 } else { 0.0 };
                let right = if here.weight != 1 && next.weight == 1 { 0.5 } else { 0.0 };
                let base = before + weight / 2.0 + left;
                let inside = between - left - right;
                return (base + inside * (number - here.mean) / (next.mean - here.mean)) / total;
            }
            before += weight;
        }
        1.0 - 0.5 / total
    }

    /// How many numbers lie below one, or above it if `reverse`, half of those equal to it included: -1 and
    /// the count of all beyond the ends, -2 of an empty digest.
    pub fn rank(&self, number: f64, reverse: bool) -> i64 {
        let count = self.count();
        match () {
            () if count == 0 => -2,
            () if number < self.body.min => {
                if reverse {
                    count
                } else {
                    -1
                }
            }
            () if number > self.body.max => {
                if reverse {
                    -1
                } else {
                    count
                }
            }
            () => {
                let below = self.part_below(number) * count as f64;
                if reverse {
                    integer((count as f64 - below.round()).round())
                } else if below.fract().abs() <= 0.5 {
                    integer(below.trunc())
                } else {
                    integer(below.trunc() + 1.0)
                }
            }
        }
    }

    /// The number that has a rank, counted from the largest if `reverse`: NaN of an empty digest, an infinity
    /// beyond the end.
    pub fn by_rank(&self, rank: i64, reverse: bool) -> f64 {
        let (count, rank) = (self.count() as f64, rank as f64);
        match () {
            () if count == 0.0 => f64::NAN,
            () if rank == 0.0 => {
                if reverse {
                    self.body.max
                } else {
                    self.body.min
                }
            }
            () if rank >= count => {
                if reverse {
                    f64::NEG_INFINITY
                } else {
                    f64::INFINITY
                }
            }
            () => self.quantile(if reverse { count - rank - 1.0 } else { rank } / count),
        }
    }

    /// The mean of the numbers between two quantiles, of parts from 0 to 1: NaN of an empty digest.
    pub fn trimmed_mean(&self, from: f64, to: f64) -> f64 {
        match self.body.merged {
            0 => return f64::NAN,
            1 => return self.mean(0),
            _ => {}
        }
        let total = self.body.merged_weight as f64;
        let (from, to) = ((total * from).floor(), (total * to).ceil());
        // The comparisons of C's macros, which tell zeros and NaN apart in their own way.
        let clamp = |value: f64, limit: f64| {
            let value = if 0.0 > value { 0.0 } else { value };
            if value < limit { value } else { limit }
        };
        let (mut done, mut sum, mut taken) = (0.0, 0.0, 0.0);
        for node in &self.body.nodes[..self.body.merged] {
            let weight = node.weight as f64;
            let mut part = weight - clamp(from - done, weight);
            part = clamp(to - done, part);
            done += weight;
            sum += node.mean * part;
            taken += part;
            if done >= to {
                break;
            }
        }
        sum / taken
    }
}
