//! Fetching ahead of their use what the requests of a batch will look at.

use mantissa_store::Ahead;
use smallvec::SmallVec;

use super::{BATCH_MAX, Worker};
use crate::connection::Connection;

/// Batches after one that used no large collections until it is looked again whether one does.
const UNFETCHED_BATCHES: u32 = 64;

impl Worker<'_> {
    /// Hashes the keys of the batch's requests and fetches their buckets, then their entries.
    pub(super) fn prefetch(&mut self, connection: &Connection, input: &[u8]) {
        let keyspace = &self.context.engine.keyspace;
        for request in &mut self.requests {
            if request.count >= 2 {
                let key = &input[self.slices[request.first + 1].range()];
                let hash = keyspace.hash(key);
                request.hash = Some(hash);
                keyspace.prefetch_bucket(connection.session.database, hash);
            }
        }
        for hash in self.requests.iter().filter_map(|request| request.hash) {
            keyspace.prefetch_entry(connection.session.database, hash);
        }
    }

    /// Fetches what the batch's requests will look at in large collections, as long as it finds that many of
    /// them do. When they do not, it looks again now and then.
    pub(super) fn fetch_ahead(&mut self, connection: &Connection, input: &[u8]) {
        if self.until_fetching > 0 {
            self.until_fetching -= 1;
            return;
        }
        let keyspace = &self.context.engine.keyspace;
        let mut commands: SmallVec<[Ahead<'_>; BATCH_MAX]> = SmallVec::new();
        for request in self.requests.iter_mut().filter(|request| request.count >= 3) {
            let first = request.first;
            let argument = |index: usize| &input[self.slices[first + index].range()];
            let key = *request.hash.get_or_insert_with(|| keyspace.hash(argument(1)));
            let second: &[u8] = if request.count > 3 { argument(3) } else { &[] };
            commands.push(Ahead { key, arguments: [argument(2), second] });
        }
        let large = keyspace.fetch_ahead(connection.session.database, &mut commands);
        self.until_fetching = if 2 * large >= self.requests.len() { 0 } else { UNFETCHED_BATCHES };
    }
}
