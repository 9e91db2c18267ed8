//! How far a group has come: counting entries by the few numbers that a stream keeps of itself.

use super::{Group, Stream, StreamId};

/// The numbers of a stream from which positions in it follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Live entries.
    pub length: u64,
    /// Entries ever added.
    pub entries_added: u64,
    /// The oldest live entry, or 0-0.
    pub first_id: StreamId,
    /// The newest entry ever added.
    pub last_id: StreamId,
    /// The largest identifier that was deleted by name.
    pub max_deleted_id: StreamId,
}

impl Stream {
    /// The stream's numbers.
    pub fn extent(&self) -> Extent {
        Extent {
            length: self.len(),
            entries_added: self.entries_added,
            first_id: self.first_id(),
            last_id: self.last_id,
            max_deleted_id: self.max_deleted_id,
        }
    }
}

impl Stream {
    /// How many nodes the radix tree has in which Redis would keep this stream's nodes by their identifiers:
    /// leaves, forks, and one for each run of bytes between those. O(nodes).
    pub fn radix_node_count(&self) -> u64 {
        const KEY_BYTES: usize = 16;
        let mut count = 0;
        // The depths of the forks above the last key, from the root down, each deeper than the one before.
        let mut forks: Vec<usize> = Vec::new();
        // A leaf or fork at `depth` below `parent` comes with the run of bytes between them, if any.
        let nodes = |parent: Option<usize>, depth: usize| {
            let run = depth - parent.map_or(0, |parent| parent + 1);
            1 + u64::from(run > 0)
        };
        let mut previous: Option<[u8; KEY_BYTES]> = None;
        for node in self.nodes.iter() {
            let key = node.first().to_be_bytes();
            if let Some(previous) = previous {
                let common = std::iter::zip(previous, key).take_while(|(one, other)| one == other).count();
                let mut below = KEY_BYTES;
                while let Some(fork) = forks.pop_if(|fork| *fork > common) {
                    count += nodes(Some(fork), below);
                    below = fork;
                }
                count += nodes(Some(common), below);
                if forks.last() != Some(&common) {
                    forks.push(common);
                }
            }
            previous = Some(key);
        }
        if previous.is_none() {
            return 1;
        }
        let mut below = KEY_BYTES;
        while let Some(fork) = forks.pop() {
            count += nodes(Some(fork), below);
            below = fork;
        }
        count + nodes(None, below)
    }
}

impl Extent {
    /// How many entries were added up to and including `id`, where the numbers allow to tell.
    pub fn entries_read_at(&self, id: StreamId) -> Option<u64> {
        if self.entries_added == 0 {
            return Some(0);
        }
        if self.length == 0 && id <= self.last_id {
            return Some(self.entries_added);
        }
        if id != StreamId::MIN && id < self.max_deleted_id {
            return None;
        }
        if id == self.last_id {
            return Some(self.entries_added);
        }
        let has_hole = self.max_deleted_id != StreamId::MIN && self.max_deleted_id >= self.first_id;
        if id > self.last_id || has_hole || id > self.first_id {
            return None;
        }
        let before_first = self.entries_added.saturating_sub(self.length);
        Some(before_first + u64::from(id == self.first_id))
    }

    /// Whether an entry from `start` on may have been deleted by name.
    fn has_hole_from(&self, start: StreamId) -> bool {
        self.length > 0 && self.max_deleted_id != StreamId::MIN && start <= self.max_deleted_id
    }

    /// How many entries a group has yet to read, where that can be told.
    pub fn lag(&self, group: &Group) -> Option<i64> {
        if self.entries_added == 0 || self.length == 0 {
            return Some(0);
        }
        if group.last_delivered < self.first_id && self.max_deleted_id < self.first_id {
            return Some(self.length as i64);
        }
        let counted = group.entries_read.filter(|_| !self.has_hole_from(group.last_delivered));
        let read = counted.or_else(|| self.entries_read_at(group.last_delivered))?;
        Some(self.entries_added.wrapping_sub(read) as i64)
    }
}

impl Group {
    /// Notes that entry `id` of a stream has been delivered. Nothing changes unless it is beyond the last.
    pub fn advance(&mut self, id: StreamId, extent: &Extent) {
        if id <= self.last_delivered {
            return;
        }
        let follows = self.last_delivered >= extent.first_id && !extent.has_hole_from(self.last_delivered);
        match self.entries_read.filter(|_| follows) {
            Some(count) => self.entries_read = Some(count.wrapping_add(1)),
            None if extent.entries_added > 0 => self.entries_read = extent.entries_read_at(id),
            None => {}
        }
        self.last_delivered = id;
    }
}
