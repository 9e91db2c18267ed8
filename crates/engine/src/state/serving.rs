//! What a server keeps in order to serve replicas.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;

/// What serving replicas needs beside the replicas themselves.
pub struct Serving {
    /// Workers with replicas that have read all of the log: they are woken when more is appended.
    pub sleeping: Box<[AtomicBool]>,
    /// Somebody waits for acknowledgements: the log is to have REPLCONF GETACK.
    pub wants_acks: AtomicBool,
    /// Since when there has been no replica, Unix time in ms; 0 while there are, or before the first.
    pub idle_since_ms: AtomicI64,
    /// When the log last got a PING, Unix time in ms.
    pub pinged_ms: AtomicI64,
    /// When the replicas were last looked at, Unix time in ms.
    pub looked_ms: AtomicI64,
    /// A dump for replicas is under way.
    pub is_dumping: AtomicBool,
    /// When the last one began, Unix time in seconds.
    pub dumping_since_s: AtomicI64,
    /// Changed with each dump, for the names of its files.
    pub dump_count: AtomicU64,
    /// When a shutdown goes on that waits for replicas, Unix time in ms; 0 if none does.
    pub ends_ms: AtomicI64,
    /// Shutdowns that hold writes back, and until when CLIENT PAUSE did so before the first of them.
    pub holding: Mutex<(usize, i64)>,
    /// How many times shutdowns were called off.
    pub aborts: AtomicU64,
    /// Full synchronisations so far: `sync_full`.
    pub full_syncs: AtomicU64,
    /// Partial resynchronisations so far: `sync_partial_ok`.
    pub partial_syncs: AtomicU64,
    /// Requests for a partial resynchronisation that became a full one: `sync_partial_err`.
    pub refused_partial_syncs: AtomicU64,
    /// Bytes that were sent to replicas.
    pub sent_bytes: AtomicU64,
}

impl Serving {
    /// CONFIG RESETSTAT.
    pub fn reset(&self) {
        [&self.full_syncs, &self.partial_syncs, &self.refused_partial_syncs, &self.sent_bytes]
            .into_iter()
            .for_each(|figure| figure.store(0, Ordering::Relaxed));
    }

    /// For this many workers.
    pub fn new(worker_count: usize) -> Self {
        Serving {
            sleeping: (0..worker_count).map(|_| AtomicBool::new(false)).collect(),
            wants_acks: AtomicBool::new(false),
            idle_since_ms: AtomicI64::new(0),
            pinged_ms: AtomicI64::new(0),
            looked_ms: AtomicI64::new(0),
            is_dumping: AtomicBool::new(false),
            holding: Mutex::default(),
            dumping_since_s: AtomicI64::new(0),
            dump_count: AtomicU64::new(0),
            ends_ms: AtomicI64::new(0),
            aborts: AtomicU64::new(0),
            full_syncs: AtomicU64::new(0),
            partial_syncs: AtomicU64::new(0),
            refused_partial_syncs: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
        }
    }
}
