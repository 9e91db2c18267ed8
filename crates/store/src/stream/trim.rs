//! Removing entries from a stream's old end, and what becomes of groups that know them.

use super::{Node, Stream, StreamId};
use std::sync::Arc;

use mantissa_memory::CowMap;

/// What removing an entry does about the groups in which it is pending.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum References {
    /// It stays pending there.
    #[default]
    Keep,
    /// It is taken off their lists.
    Delete,
    /// It is removed only once every group has been delivered it and has acknowledged it.
    Acknowledged,
}

/// Up to where to trim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TrimTo {
    /// To this number of entries.
    Length(u64),
    /// Until no entry is before this one.
    From(StreamId),
}

/// How to trim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trim {
    /// Up to where.
    pub to: TrimTo,
    /// Only whole nodes go.
    pub whole_nodes: bool,
    /// Most entries to look at; 0 is no limit.
    pub limit: u64,
    /// What becomes of pending entries.
    pub references: References,
}

/// What groups know of entries, asked for once by who removes many.
#[derive(Debug, Default)]
pub struct Referrers {
    /// The entry up to which the group that is furthest behind has got them.
    least_delivered: Option<StreamId>,
    /// The names of the groups that have pending entries.
    with_pending: Vec<Box<[u8]>>,
}

/// Up to this number nodes are removed one by one; more are removed at once.
const SINGLE_NODES_MAX: usize = 16;

impl Stream {
    /// Trims. Returns the number of removed entries, and the nodes to be freed, if any.
    pub fn trim(&mut self, trim: &Trim) -> (u64, Option<Stream>) {
        if trim.references != References::Keep {
            return (self.trim_referenced(trim), None);
        }
        let (gone, nodes) = self.whole_nodes_before(trim);
        let rest = self.remove_first(nodes);
        self.length -= gone;
        let limited =
            trim.limit > 0 && self.nodes.first().is_some_and(|node| gone + node.live() as u64 > trim.limit);
        if trim.whole_nodes || limited {
            return (gone, rest);
        }
        let mut excess = self.excess(trim);
        let within = self.nodes.first_mut().map_or(0, |node| {
            let mut goes = |id| match trim.to {
                TrimTo::Length(_) => excess > 0,
                TrimTo::From(start) => id < start,
            };
            if !node.first_live().is_some_and(&mut goes) {
                return 0;
            }
            Arc::make_mut(node).delete_where(|id| {
                let goes = match trim.to {
                    TrimTo::Length(_) => excess > 0,
                    TrimTo::From(start) => id < start,
                };
                excess = excess.saturating_sub(1);
                goes.then_some(true)
            })
        });
        self.length -= within as u64;
        (gone + within as u64, rest)
    }

    /// Entries beyond the length to trim to.
    fn excess(&self, trim: &Trim) -> u64 {
        match trim.to {
            TrimTo::Length(length) => self.length.saturating_sub(length),
            TrimTo::From(_) => 0,
        }
    }

    /// How many live entries, in how many nodes, can go without touching another node.
    fn whole_nodes_before(&self, trim: &Trim) -> (u64, usize) {
        let (mut gone, mut nodes) = (0, 0);
        for node in self.nodes.iter() {
            let next = gone + node.live() as u64;
            let goes = match trim.to {
                TrimTo::Length(length) => self.length - gone > length && self.length - next >= length,
                TrimTo::From(start) => node.last() < start,
            };
            if !goes || (trim.limit > 0 && next > trim.limit) {
                break;
            }
            (gone, nodes) = (next, nodes + 1);
        }
        (gone, nodes)
    }

    /// Removes the first nodes. If they are many they are returned, to be freed elsewhere.
    fn remove_first(&mut self, nodes: usize) -> Option<Stream> {
        if nodes <= SINGLE_NODES_MAX {
            (0..nodes).for_each(|_| drop(self.nodes.pop_first()));
            return None;
        }
        let left = self.nodes.len() - nodes;
        let mut gone = Stream::new();
        if left > nodes {
            // They are shared for the moment, and freed by the one that is returned.
            gone.nodes = self.nodes.clone();
            (0..nodes).for_each(|_| drop(self.nodes.pop_first()));
        } else {
            let kept = self.nodes.iter().rev().take(left).cloned().collect::<Vec<_>>();
            let kept = CowMap::build(kept.into_iter().rev().map(|node| (node.first(), node)));
            gone.nodes = std::mem::replace(&mut self.nodes, kept);
        }
        Some(gone)
    }

    /// Trims entry by entry, asking the groups about each. That is never done by whole nodes: as in Redis,
    /// nothing goes then.
    fn trim_referenced(&mut self, trim: &Trim) -> u64 {
        if trim.whole_nodes {
            return 0;
        }
        let mut gone = 0;
        let referrers = self.referrers(trim.references);
        let mut nodes = std::mem::take(&mut self.nodes);
        let mut emptied = Vec::new();
        nodes.change_each(|shared| {
            let excess = self.excess(trim);
            let first = shared.first();
            let is_done = match trim.to {
                TrimTo::Length(_) => excess == 0,
                TrimTo::From(start) => first >= start,
            };
            if is_done {
                return false;
            }
            let node = Arc::make_mut(shared);
            let removed = self.trim_node(node, trim, excess, &referrers);
            gone += removed;
            self.length -= removed;
            if node.live() == 0 {
                emptied.push(first);
            }
            true
        });
        emptied.iter().for_each(|&first| drop(nodes.remove_floor(first)));
        self.nodes = nodes;
        gone
    }

    fn trim_node(&mut self, node: &mut Node, trim: &Trim, excess: u64, referrers: &Referrers) -> u64 {
        let mut left = excess;
        let removed = node.delete_where(|id| {
            let wanted = match trim.to {
                TrimTo::Length(_) => left > 0,
                TrimTo::From(start) => id < start,
            };
            if !wanted {
                return None;
            }
            if trim.references == References::Acknowledged && self.is_referenced(id, referrers) {
                return Some(false);
            }
            if trim.references == References::Delete {
                self.acknowledge_everywhere(id, referrers);
            }
            left = left.saturating_sub(1);
            Some(true)
        });
        removed as u64
    }

    /// What groups know of entries at present, as far as that matters. O(groups).
    pub fn referrers(&self, references: References) -> Referrers {
        if references == References::Keep {
            return Referrers::default();
        }
        let with_pending = self.groups.iter().filter(|(_, group)| !group.pending().is_empty());
        Referrers {
            least_delivered: self.groups.values().map(|group| group.last_delivered).min(),
            with_pending: with_pending.map(|(name, _)| name.clone()).collect(),
        }
    }

    /// Whether a group has yet to be delivered entry `id` or to acknowledge it. O(groups with pending
    /// entries). Entries may have been acknowledged since `referrers`, and none delivered.
    pub fn is_referenced(&self, id: StreamId, referrers: &Referrers) -> bool {
        let is_pending = |name| self.groups.get(name).is_some_and(|group| group.pending().contains(id));
        referrers.least_delivered.is_some_and(|least| least < id)
            || referrers.with_pending.iter().any(is_pending)
    }

    /// Takes `id` off the pending entries of all groups: see [`Stream::is_referenced`].
    pub fn acknowledge_everywhere(&mut self, id: StreamId, referrers: &Referrers) {
        for name in &referrers.with_pending {
            if let Some(group) = self.groups.get_mut(name).filter(|group| group.pending().contains(id)) {
                Arc::make_mut(group).acknowledge(id);
            }
        }
    }
}
