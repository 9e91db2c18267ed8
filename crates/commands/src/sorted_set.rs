//! Sorted sets, blocking pops included.

mod change;
mod combine;
mod pop;
mod query;
mod range;
mod scan;
mod select;
mod table;

use std::ops::Range;

use mantissa_protocol::Reply;
use mantissa_store::{SortedSet, Value};

use crate::access::Access;
use crate::effects::EventClass;

pub(crate) use change::{add_all, zadd};
pub(crate) use table::COMMANDS;

/// Replies the header of an array of members, with their scores or without.
fn members_header(reply: &mut Reply, len: usize, with_scores: bool) {
    let is_flat = with_scores && !reply.is_resp3();
    reply.array(if is_flat { len * 2 } else { len });
}

/// Replies a member of such an array.
#[inline]
fn write_member(reply: &mut Reply, member: &[u8], score: f64, with_scores: bool) {
    if !with_scores {
        reply.bulk(member);
        return;
    }
    if reply.is_resp3() {
        reply.array(2);
    }
    reply.bulk(member);
    reply.double(score);
}

/// What is to be done after members were removed from a sorted set.
struct Removal {
    count: usize,
    is_empty: bool,
    rest: Option<SortedSet>,
}

impl Removal {
    /// After `count` members were removed.
    fn of(count: usize, set: &mut SortedSet) -> Self {
        Removal { count, is_empty: set.is_empty(), rest: set.take_rest() }
    }

    /// Removes the members of these ranks; all of a large set at once.
    fn of_ranks(ranks: Range<usize>, set: &mut SortedSet) -> Self {
        const FREED_AT_ONCE_MAX: usize = 64;
        let count = ranks.len();
        if count == set.len() && count > FREED_AT_ONCE_MAX {
            return Removal { count, is_empty: true, rest: Some(std::mem::take(set)) };
        }
        set.remove_ranks(ranks);
        Removal::of(count, set)
    }
}

/// Says that members were removed from a sorted set, which goes if none is left.
fn removed(access: &mut Access<'_>, key: &[u8], event: &'static str, removal: Removal) {
    if let Some(rest) = removal.rest {
        access.free_later(Value::SortedSet(rest));
    }
    access.event(EventClass::SORTED_SET, event, key);
    access.remove_if_empty(key, removal.is_empty);
    access.changed_by(key, removal.count as u64);
}

#[cfg(test)]
mod tests;
