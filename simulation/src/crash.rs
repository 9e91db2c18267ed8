//! What is left after crashes, against the log of commits.
//!
//! A reader takes the whole log of a run. An engine without a log runs its units one after the other: so the
//! state after each of them is known. These hold:
//!
//! - What a crash leaves opens, and is the state after some unit: not before what had been promised.
//! - A dump is the state after some unit.
//! - The log up to any unit, loaded as a file, is the state after it; so was the memory at that moment.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use mantissa_engine::Engine;
use mantissa_engine::embedded::{Embedded, Opening};
use mantissa_persist::aof::Manifest;
use mantissa_persist::log::{Lsn, Reader, Start};
use mantissa_persist::storage::{MemoryStorage, Storage};
use mantissa_protocol::{Decoder, Value};

use crate::disk::{Crash, Image};
use crate::graphs;
use crate::scheduler::Random;

/// Where the files are.
pub const FOLDER: &str = "/data";

/// When replies may leave.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Policy {
    /// There is no log.
    Unlogged,
    /// When the log is in the file.
    EverySecond,
    /// When the log is durable.
    Always,
}

/// Opens the engine whose files are on a disk.
pub fn open(storage: Arc<dyn Storage>, policy: Policy, clients: usize) -> Result<Embedded, String> {
    let directives = [
        ("appendonly", if policy == Policy::Unlogged { "no" } else { "yes" }),
        ("appendfsync", if policy == Policy::Always { "always" } else { "everysec" }),
        ("aof-reserve-size", "4kb"),
        ("save", "\"\""),
        ("databases", "2"),
        ("shards", "16"),
        ("enable-debug-command", "yes"),
    ];
    let opening = Opening::default().storage(storage).clients(clients).without_background();
    opening.open(FOLDER, &directives).map_err(|error| error.to_string())
}

/// The digest of what an engine holds, and the end of its log at the same moment.
pub fn look(engine: &Engine) -> (Lsn, [u8; 20]) {
    let mut locked = engine.keyspace.lock(engine.keyspace.all_shards());
    let digest = graphs::digest(&mut locked);
    (engine.log.end(), digest)
}

fn digest_of(storage: MemoryStorage, policy: Policy) -> Result<[u8; 20], String> {
    let store = open(Arc::new(storage), policy, 1)?;
    let digest = look(store.engine()).1;
    store.close().map_err(|error| error.to_string())?;
    Ok(digest)
}

/// The log of a run, from its begin.
pub struct Recording {
    reader: Reader,
    begin: Lsn,
}

/// The states that a run went through.
pub struct States {
    bytes: Vec<u8>,
    begin: Lsn,
    /// After each unit, and at first before all: the LSN and the digest.
    states: Vec<(Lsn, [u8; 20])>,
}

impl Recording {
    /// Begins while nobody writes.
    pub fn begin(engine: &Engine) -> Recording {
        let reader = engine.log.register(Start::Fresh, u64::MAX, None).expect("the log ends somewhere");
        let begin = reader.lsn();
        Recording { reader, begin }
    }

    /// Runs what was recorded, unit by unit.
    pub fn finish(mut self) -> States {
        let mut chunks = Vec::new();
        self.reader.read(Lsn::MAX, usize::MAX, &mut chunks).expect("it has no limit");
        let bytes: Vec<u8> = chunks.iter().flat_map(|chunk| chunk.bytes()).copied().collect();
        let store = open(Arc::new(MemoryStorage::new()), Policy::Unlogged, 1).expect("the engine opens");
        let mut client = store.client().expect("there is room");
        let mut states = vec![(self.begin, look(store.engine()).1)];
        let (mut at, mut is_open) = (0, false);
        while let Ok(Some((Value::Array(words), size))) = Decoder::default().decode(&bytes[at..]) {
            at += size;
            let words = words.into_iter().map(|word| match word {
                Value::Bulk(bytes) => bytes,
                other => panic!("{other:?} in the log"),
            });
            let words: Vec<Vec<u8>> = words.collect();
            let reply = client.call(&words);
            assert!(!matches!(reply, Value::Error(_)), "{reply:?} to a command of the log");
            let is_end = match words[0].as_slice() {
                b"SELECT" => false,
                b"MULTI" => {
                    is_open = true;
                    false
                }
                b"EXEC" => {
                    is_open = false;
                    true
                }
                _ => !is_open,
            };
            if is_end {
                states.push((self.begin + at as u64, look(store.engine()).1));
            }
        }
        assert_eq!(at, bytes.len(), "the log consists of commands");
        States { bytes, begin: self.begin, states }
    }
}

impl States {
    /// Whether this was the state at some moment, not before `lsn`.
    fn has(&self, digest: [u8; 20], lsn: Lsn) -> bool {
        self.states.iter().any(|&(end, state)| state == digest && end >= lsn)
    }

    /// The memory of the run, seen at some moment.
    pub fn check_look(&self, (lsn, digest): (Lsn, [u8; 20])) {
        let found = self.states.iter().find(|(end, _)| *end == lsn).map(|(_, state)| *state);
        assert_eq!(found, Some(digest), "the memory at byte {lsn} of the log");
    }

    /// The log up to some unit, loaded.
    pub fn check_replay(&self, random: &mut Random) {
        let (lsn, digest) = self.states[random.below(self.states.len() as u64) as usize];
        let storage = MemoryStorage::new();
        let directory = Path::new(FOLDER).join("appendonlydir");
        let mut manifest = Manifest::default();
        let name = manifest.next_increment("appendonly.aof".as_ref(), Some(0));
        let length = (lsn - self.begin) as usize;
        let mut file = storage.create(&directory.join(name)).expect("no fault is set");
        file.write_all(&self.bytes[..length]).and_then(|()| file.sync()).expect("no fault is set");
        manifest.store(&storage, &directory, "appendonly.aof".as_ref()).expect("no fault is set");
        let loaded = digest_of(storage, Policy::EverySecond);
        assert_eq!(loaded, Ok(digest), "the log up to byte {lsn}, loaded");
    }

    /// What a crash has left.
    pub fn check_image(&self, image: &Image, policy: Policy) {
        let crash = image.crash;
        let promised = match (policy, crash.is_power_loss) {
            (Policy::Unlogged, _) => 0,
            (Policy::Always, _) | (_, true) => image.promise.durable,
            (Policy::EverySecond, false) => image.promise.written,
        };
        let dump = image.files.copy();
        match digest_of(image.files.copy(), policy) {
            Ok(digest) => assert!(self.has(digest, promised), "no state after byte {promised}: {crash:?}"),
            Err(error) => panic!("{error}: {crash:?}"),
        }
        let digest = digest_of(dump, Policy::Unlogged).unwrap_or_else(|error| panic!("{error}: {crash:?}"));
        assert!(self.has(digest, self.begin), "a dump is no state that there was: {crash:?}");
    }
}

/// Chooses when crashes come.
pub fn choose(random: &mut Random, count: u64, operations: u64, name_operations: u64) -> Vec<Crash> {
    let crash = |random: &mut Random| {
        let counts_names = random.below(2) == 0;
        Crash {
            operation: random.below(if counts_names { name_operations } else { operations }),
            counts_names,
            is_power_loss: random.below(2) == 0,
            seed: random.draw(),
        }
    };
    (0..count).map(|_| crash(random)).collect()
}
