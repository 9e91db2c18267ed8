//! Fetching ahead of their use what several searches of a large set will look at.
//!
//! A change of a set that the caches do not hold waits for memory a dozen times, each time for what the last
//! one has told where to find. Searches that are known together go side by side: each takes a step, which
//! asks the processor to fetch what the next one needs, and when all others have taken theirs it has come.

use std::cmp::Ordering;

use mantissa_memory::NodeId;

use super::tree::Tree;
use crate::member_index::hash_of;

/// Most searches that go side by side: what they fetch is to stay in the nearest cache.
const TOGETHER: usize = 8;

/// How far a search has come.
#[derive(Clone, Copy, Default)]
struct Search {
    hash: u64,
    /// The leaf that the member is in, very likely.
    leaf: Option<NodeId>,
    /// The lowest branch on the way to where the new score belongs, and the leaf.
    branch: Option<u32>,
    target: Option<NodeId>,
}

impl Tree {
    /// Fetches what it takes to find these members, and to give them these scores.
    pub fn fetch_ahead(&self, aims: &[(&[u8], Option<f64>)]) {
        aims.chunks(TOGETHER).for_each(|aims| self.fetch_together(aims));
    }

    fn fetch_together(&self, aims: &[(&[u8], Option<f64>)]) {
        let mut searches = [Search::default(); TOGETHER];
        let searches = &mut searches[..aims.len()];
        for (&(member, score), search) in aims.iter().zip(searches.iter_mut()) {
            search.hash = hash_of(member);
            self.index.prefetch(search.hash);
            search.branch = score.and_then(|score| self.tree.prefetch_lowest(order_of(score)));
        }
        for search in searches.iter_mut() {
            search.leaf = self.index.find(search.hash, Some);
            if let Some(leaf) = search.leaf {
                self.leaves.prefetch(leaf as usize);
                self.tree.prefetch_parent_number(leaf);
            }
            if let Some(branch) = search.branch {
                self.tree.prefetch_children(branch);
            }
        }
        for (&(_, score), search) in aims.iter().zip(searches.iter_mut()) {
            if let Some(leaf) = search.leaf {
                self.leaves.get(leaf as usize).prefetch();
                self.tree.prefetch_parent(leaf);
            }
            if let (Some(branch), Some(score)) = (search.branch, score) {
                search.target = self.tree.child_before(branch, order_of(score));
                search.target.into_iter().for_each(|target| self.leaves.prefetch(target as usize));
            }
        }
        for search in searches.iter() {
            if let Some(leaf) = search.leaf {
                self.leaves.get(leaf as usize).prefetch_rest();
                self.tree.prefetch_siblings(leaf);
            }
            search.target.into_iter().for_each(|target| self.leaves.get(target as usize).prefetch());
        }
        for target in searches.iter().filter_map(|search| search.target) {
            self.leaves.get(target as usize).prefetch_rest();
        }
    }
}

/// How a key compares with a score. They are never equal, so that no member has to be looked at.
fn order_of(score: f64) -> impl Fn(f64) -> Ordering {
    move |key| if key < score { Ordering::Less } else { Ordering::Greater }
}
