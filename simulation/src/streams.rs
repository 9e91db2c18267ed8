//! What nodes hold, against the streams of their histories.
//!
//! Every byte that comes into the log of a node is put at its place: a history and an offset. Two nodes that
//! put something at the same place must put the same. In the end the streams are applied from their begin,
//! byte by byte: so what a node must hold is known for each history and offset, and is compared with what
//! nodes held when they were looked at.
//!
//! A history that begins with a promotion or a restart goes on where its parent was: the same place has
//! several names. A history without a parent begins with no data, but for one that a start begins with data
//! whose place in their former history has not come to the disk: that one is not compared.

use std::collections::BTreeMap;
use std::sync::Arc;

use mantissa_engine::Engine;
use mantissa_engine::replication::apply::Applier;
use mantissa_engine::replication::backlog;
use mantissa_persist::log::{Lsn, Reader, Start};
use mantissa_persist::storage::MemoryStorage;
use mantissa_store::LockedShards;

use crate::crash::{self, Policy};
use crate::graphs;

/// Reads the log of a node from its start on.
pub struct Tap(Reader);

impl Tap {
    /// Begins while nobody writes.
    pub fn new(engine: &Engine) -> Tap {
        Tap(engine.log.register(Start::Here, u64::MAX, None).expect("the log ends somewhere"))
    }
}

/// A place in a history: its name, and the number of bytes before.
pub type Place = (String, u64);

#[derive(Default)]
struct Stream {
    /// Where it goes on.
    parent: Option<Place>,
    /// It begins with data, which nobody has noted.
    begins_with_data: bool,
    /// The bytes from the begin of the oldest ancestor on, as far as they are known.
    bytes: Vec<Option<u8>>,
}

/// What a node held.
struct Look {
    node: usize,
    digest: [u8; 20],
}

/// The histories of a run.
#[derive(Default)]
pub struct Streams {
    streams: BTreeMap<String, Stream>,
    looks: BTreeMap<Place, Look>,
}

impl Streams {
    /// Notes what has come into the log of a node since the last time, under its present history.
    pub fn drain(&mut self, node: usize, engine: &Engine, tap: &mut Tap) {
        let replication = &engine.replication;
        let history = replication.history();
        let first = replication.kept.lock().as_ref().map_or(Lsn::MAX, |kept| kept.first);
        self.note_history(&history.id, history.second.as_ref());
        let mut chunks = Vec::new();
        tap.0.read(Lsn::MAX, usize::MAX, &mut chunks).expect("it has no limit");
        for chunk in chunks {
            for (lsn, byte) in (chunk.lsn()..).zip(chunk.bytes()).filter(|(lsn, _)| *lsn >= first) {
                self.put(node, &history.id, replication.offset_of(lsn), *byte);
            }
        }
    }

    fn note_history(&mut self, id: &str, second: Option<&(String, u64)>) {
        let stream = self.streams.entry(id.to_owned()).or_default();
        if let Some((former, end)) = second {
            // The first byte that is no longer the former's, counted from 1. A replica that is told of the
            // change says how far it was itself, which is less.
            let present = stream.parent.as_ref().map_or(0, |(_, end)| *end);
            stream.parent = Some((former.clone(), present.max(end - 1)));
            self.streams.entry(former.clone()).or_default();
        }
    }

    /// Notes the history of a node that has been started with data.
    pub fn note_start(&mut self, engine: &Engine) {
        let history = engine.replication.history();
        let is_new = !self.streams.contains_key(&history.id) && history.second.is_none();
        self.note_history(&history.id, history.second.as_ref());
        if let Some(stream) = self.streams.get_mut(&history.id) {
            stream.begins_with_data |= is_new;
        }
    }

    /// Whether what a history begins with is known.
    fn is_known(&self, id: &str) -> bool {
        let stream = &self.streams[id];
        match &stream.parent {
            Some((parent, _)) => self.is_known(parent),
            None => !stream.begins_with_data,
        }
    }

    /// The history that a byte behind an offset belongs to.
    fn owner(&self, id: &str, offset: u64) -> String {
        let mut id = id;
        while let Some((parent, end)) = &self.streams[id].parent
            && offset < *end
        {
            id = parent;
        }
        id.to_owned()
    }

    /// Whether two names are those of one place.
    pub fn is_same(&self, one: &Place, other: &Place) -> bool {
        let last = |place: &Place| self.owner(&place.0, place.1.saturating_sub(1));
        one.1 == other.1 && last(one) == last(other)
    }

    fn put(&mut self, node: usize, id: &str, offset: u64, byte: u8) {
        let owner = self.owner(id, offset);
        let bytes = &mut self.streams.entry(owner).or_default().bytes;
        let at = offset as usize;
        if bytes.len() <= at {
            bytes.resize(at + 1, None);
        }
        let known = *bytes[at].get_or_insert(byte);
        assert_eq!(known, byte, "node {node} has another byte {offset} of history {id}");
    }

    /// Looks at what a node holds, whose shards are all locked. `None` while it has nothing: its data are
    /// being loaded.
    pub fn look(
        &mut self,
        node: usize,
        engine: &Engine,
        tap: &mut Tap,
        all: &mut LockedShards<'_>,
    ) -> Option<Place> {
        if engine.persistence.loading.load(std::sync::atomic::Ordering::Acquire) {
            return None;
        }
        self.drain(node, engine, tap);
        let digest = graphs::digest(all);
        let offset = engine.replication.offset_of(engine.log.end());
        let id = engine.replication.history().id;
        let place = (if offset > 0 { self.owner(&id, offset - 1) } else { id.clone() }, offset);
        let other = self.looks.entry(place).or_insert(Look { node, digest });
        assert_eq!(
            other.digest, digest,
            "nodes {} and {node} hold different data at byte {offset} of history {id}",
            other.node
        );
        Some((id, offset))
    }

    /// Compares all looks with what the streams lead to. Returns how many could be compared.
    pub fn check(&self) -> usize {
        let mut compared = 0;
        for id in self.streams.keys().filter(|id| self.is_known(id)) {
            let range = (id.clone(), 0)..=(id.clone(), u64::MAX);
            let looks: Vec<_> = self.looks.range(range).map(|((_, offset), look)| (*offset, look)).collect();
            let Some((end, _)) = looks.last() else { continue };
            let bytes: Option<Vec<u8>> = (0..*end).map(|offset| self.byte(id, offset)).collect();
            // Of what came to no node that was looked at in time there is no record.
            let Some(bytes) = bytes else { continue };
            compare(id, &bytes, &looks);
            compared += looks.len();
        }
        compared
    }

    fn byte(&self, id: &str, offset: u64) -> Option<u8> {
        self.streams[&self.owner(id, offset)].bytes.get(offset as usize).copied().flatten()
    }
}

/// Applies a stream, and compares what comes of it with the looks, by rising offset.
fn compare(id: &str, bytes: &[u8], looks: &[(u64, &Look)]) {
    let store = crash::open(Arc::new(MemoryStorage::new()), Policy::Unlogged, 1).expect("it opens");
    let engine = store.engine();
    {
        let locked = engine.keyspace.lock(engine.keyspace.all_shards());
        engine.set_replica(true);
        backlog::begin(engine, &locked);
    }
    let (mut applier, mut at) = (Applier::new(engine, 0), 0);
    for (offset, look) in looks {
        let end = *offset as usize;
        while at < end {
            let applied = applier.apply(&bytes[at..end]).unwrap_or_else(|error| panic!("{error}"));
            at += applied.used;
            assert!(
                applied.used > 0 || applied.ack,
                "node {} is in the middle of a unit: byte {offset} of history {id}",
                look.node
            );
        }
        let (_, digest) = crash::look(engine);
        assert_eq!(
            digest, look.digest,
            "node {} does not hold what byte {offset} of history {id} leads to",
            look.node
        );
    }
    engine.set_replica(false);
}
