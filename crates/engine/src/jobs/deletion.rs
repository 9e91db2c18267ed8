//! Deleting keys: what has been deleted so far.

use mantissa_protocol::Reply;

use super::tally::Tally;

/// What a deletion has done, or would have done.
#[derive(Default)]
pub struct Deletion {
    /// Nothing is deleted, only counted.
    pub is_dry_run: bool,
    /// The keys.
    pub tally: Tally,
    /// Why it ended before the end of the walk.
    pub failure: Option<Box<[u8]>>,
}

impl Deletion {
    /// The pairs that [`Deletion::write`] writes.
    pub const PAIRS: usize = Tally::PAIRS + 2;

    /// Writes it as pairs of a map.
    pub fn write(&self, is_stopped: bool, reply: &mut Reply) {
        reply.bulk(b"state");
        match &self.failure {
            Some(failure) => reply.bulk(&[b"failed: ", &failure[..]].concat()),
            None => reply.bulk(if is_stopped { b"stopped" } else { b"done" }),
        }
        reply.bulk(b"dryrun");
        reply.integer(i64::from(self.is_dry_run));
        self.tally.write(reply);
    }
}
