//! Sorted sets, blocking pops included.

mod change;
mod combine;
mod pop;
mod query;
mod range;
mod scan;
mod select;
mod table;

use mantissa_protocol::Reply;

use crate::access::Access;
use crate::effects::EventClass;

pub(crate) use change::zadd;
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

/// Says that members were removed from a sorted set, which goes if none is left.
fn removed(access: &mut Access<'_>, key: &[u8], event: &'static str, (count, is_empty): (usize, bool)) {
    access.event(EventClass::SORTED_SET, event, key);
    access.remove_if_empty(key, is_empty);
    access.changed_by(key, count as u64);
}

#[cfg(test)]
mod tests;
