//! Sorting nodes by their means, with the order of equal means that Redis's module comes to.
//!
//! The module's quicksort takes the middle as its pivot. The order in which it leaves nodes of equal mean
//! matters only if their weights differ, as those of merged nodes do: then its steps are repeated here. They
//! are quadratic where many means are equal, so they are counted, and a stable order is taken if there are
//! too many, as of digests far larger than usual.

use std::cmp::Ordering;

use super::Node;

/// Comparisons of the module's sort beyond which it is given up, and those of each node that it gets anyhow.
const COMPARISONS_MAX: usize = 1 << 24;
const COMPARISONS_PER_NODE: usize = 64;

/// Sorts nodes, of which the first `merged` are in order.
pub(super) fn sort(nodes: &mut [Node], merged: usize) {
    let by_mean = |one: &Node, other: &Node| one.mean.total_cmp(&other.mean);
    let (front, back) = nodes.split_at(merged);
    let mut back = back.to_vec();
    back.sort_unstable_by(by_mean);
    let sorted = merge(front, &back);
    let is_open = |two: &[Node]| {
        let is_same = two[0].weight == two[1].weight && two[0].mean.to_bits() == two[1].mean.to_bits();
        // Unordered as well: a mean that is no number.
        !is_same && two[0].mean.partial_cmp(&two[1].mean) != Some(Ordering::Less)
    };
    if sorted.windows(2).any(is_open) {
        let mut budget = COMPARISONS_MAX.max(nodes.len() * COMPARISONS_PER_NODE);
        let mut as_the_module = nodes.to_vec();
        if quicksort(&mut as_the_module, &mut budget) {
            nodes.copy_from_slice(&as_the_module);
            return;
        }
    }
    nodes.copy_from_slice(&sorted);
}

/// Two sorted runs as one, the first before the second where means are equal.
fn merge(mut front: &[Node], mut back: &[Node]) -> Vec<Node> {
    let mut merged = Vec::with_capacity(front.len() + back.len());
    while let ([first, front_rest @ ..], [second, back_rest @ ..]) = (front, back) {
        if second.mean < first.mean {
            merged.push(*second);
            back = back_rest;
        } else {
            merged.push(*first);
            front = front_rest;
        }
    }
    merged.extend_from_slice(front);
    merged.extend_from_slice(back);
    merged
}

/// The steps of the module's sort. False if the budget was not enough.
fn quicksort(nodes: &mut [Node], budget: &mut usize) -> bool {
    let mut rest = vec![(0, nodes.len())];
    while let Some((start, end)) = rest.pop() {
        let part = &mut nodes[start..end];
        match part {
            [] | [_] => continue,
            [first, second] => {
                if first.mean > second.mean {
                    std::mem::swap(first, second);
                }
                continue;
            }
            _ => {}
        }
        match budget.checked_sub(part.len()) {
            Some(left) => *budget = left,
            None => return false,
        }
        let pivot = start + partition(part);
        rest.extend([(start, pivot), (pivot + 1, end)]);
    }
    true
}

/// Moves what is below the middle node before it, and returns where that is then.
fn partition(nodes: &mut [Node]) -> usize {
    let last = nodes.len() - 1;
    let middle = last / 2;
    let pivot = nodes[middle].mean;
    nodes.swap(middle, last);
    let mut below = 0;
    for index in 0..last {
        if nodes[index].mean < pivot {
            nodes.swap(below, index);
            below += 1;
        }
    }
    nodes.swap(below, last);
    below
}
