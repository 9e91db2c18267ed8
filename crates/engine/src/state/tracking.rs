//! Which clients track keys, beside the keys in the shards.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::RwLock;

/// The clients with tracking on, beside the keys in the shards.
#[derive(Default)]
pub struct Tracking {
    /// Clients with tracking on.
    pub client_count: AtomicUsize,
    /// The prefixes of broadcasting clients.
    pub prefixes: RwLock<BTreeMap<Box<[u8]>, BTreeSet<u64>>>,
}

/// What a client that tracks knows itself.
#[derive(Default)]
pub struct Tracker {
    /// Its prefixes in the broadcasting mode.
    pub prefixes: BTreeSet<Box<[u8]>>,
    /// What CLIENT CACHING has said about the next command.
    pub caching: Option<bool>,
}

impl Tracking {
    /// The number of clients with tracking on.
    pub fn client_count(&self) -> usize {
        self.client_count.load(Ordering::Relaxed)
    }

    /// The number of different prefixes.
    pub fn prefix_count(&self) -> usize {
        self.prefixes.read().len()
    }
}
