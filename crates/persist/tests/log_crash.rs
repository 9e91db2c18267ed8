//! The log on a disk that fails and loses power: what was acknowledged is there, in order, in whole units,
//! and the files say where in the stream of replication they end.

use mantissa_persist::aof::{
    AofError, Item, Manifest, NextFile, Position, Reader, SyncPolicy, Writer, WriterControl, WriterError,
};
use mantissa_persist::log::{Log, Lsn, Unit};
use mantissa_persist::storage::{MemoryStorage, Storage};
use mantissa_persist::write::ReplicationFacts;
use mantissa_protocol::encode_request;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const DIRECTORY: &str = "dir";
const NAME: &str = "log";
const ADD: &[u8] = b"ADD";
/// The bytes of a SELECT, which is whole where the rest of its unit may not be.
const SELECT_BYTES: u64 = 23;

/// A linear congruential generator; its upper bits are good enough here.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// A server that only appends numbered units.
struct Server {
    storage: MemoryStorage,
    log: Arc<Log>,
    control: Arc<WriterControl>,
    writer: Writer,
    manifest: Arc<Mutex<Manifest>>,
    /// The LSN behind each unit, and the unit's number of commands.
    units: Vec<(Lsn, usize)>,
    /// The histories so far, each with the offset of its LSN 0.
    histories: Vec<(String, u64)>,
    now: Instant,
}

fn words_of(unit: usize, part: usize, filler: usize) -> [Vec<u8>; 4] {
    [ADD.to_vec(), unit.to_string().into_bytes(), part.to_string().into_bytes(), vec![b'x'; filler]]
}

impl Server {
    fn start(storage: &MemoryStorage, policy: SyncPolicy, preallocation: u64) -> io::Result<Server> {
        let directory = Path::new(DIRECTORY);
        let mut manifest = Manifest::default();
        let increment = manifest.next_increment(OsStr::new(NAME), None);
        let file = storage.append(&directory.join(increment))?;
        manifest.store(storage, directory, OsStr::new(NAME))?;
        let log = Arc::new(Log::default());
        let control = Arc::new(WriterControl::new(Arc::clone(&log)));
        control.set_policy(policy);
        control.set_preallocation(preallocation);
        control.set_notes_time(true);
        let writer = Writer::new(Arc::clone(&control));
        let manifest = Arc::new(Mutex::new(manifest));
        let (storage, now) = (storage.clone(), Instant::now());
        let histories = vec![("a".repeat(40), 7)];
        let server = Server { storage, log, control, writer, manifest, units: Vec::new(), histories, now };
        server.control.switch_at(Box::new(move |_| Ok(Some(file))), &server.facts());
        Ok(server)
    }

    fn facts(&self) -> ReplicationFacts {
        let (id, shift) = self.histories.last().expect("it begins with one").clone();
        let database = self.log.database().map_or(-1, |database| database as i64);
        ReplicationFacts { database, id, offset: (self.log.end() + shift) as i64 }
    }

    /// Goes on in another history, at another offset.
    fn change_history(&mut self) {
        let number = self.histories.len() as u64;
        self.histories.push((format!("{number:040}"), number * 1_000_000_000));
        self.control.note_position(Some(&self.facts()));
    }

    fn append(&mut self, random: &mut Random) {
        let number = self.units.len();
        let mut unit = Unit::default();
        let commands = if random.below(3) == 0 { 2 + random.below(4) } else { 1 };
        for part in 0..commands {
            let filler = match random.below(20) {
                0 => 70_000,
                1 => 5000,
                _ => random.below(600),
            };
            let words = words_of(number, part as usize, filler as usize);
            unit.push(random.below(3) as usize, words.iter().map(Vec::as_slice));
        }
        let now_s = if random.below(2) == 0 { 1_700_000_000 + number as i64 } else { 0 };
        let end = self.log.append(&mut unit, now_s);
        self.units.push((end, commands as usize));
    }

    /// Time passes, then the writer does what is due.
    fn write_later(&mut self, random: &mut Random) -> Result<(), WriterError> {
        self.now += Duration::from_millis(random.below(3000));
        self.writer.write_and_sync(self.now)
    }

    /// A rewrite: a base with everything so far, and another increment for what follows.
    fn rewrite(&mut self, random: &mut Random) -> Result<(), WriterError> {
        let (storage, directory, name) = (self.storage.clone(), Path::new(DIRECTORY), OsStr::new(NAME));
        let manifest = Arc::clone(&self.manifest);
        let switched = Arc::new(Mutex::new(false));
        let (is_switched, units) = (Arc::clone(&switched), self.units.clone());
        let facts = self.facts();
        let next: NextFile = Box::new(move |_| {
            let mut manifest = manifest.lock().expect("nobody panics with it");
            let mut next = manifest.clone();
            let increment = next.next_increment(name, None);
            let file = storage.append(&directory.join(increment))?;
            next.store(&storage, directory, name)?;
            *manifest = next;
            *is_switched.lock().expect("nobody panics with it") = true;
            Ok(Some(file))
        });
        // Without facts the log begins anew, and the file says nothing.
        match random.below(6) {
            0 => self.control.switch(next),
            _ => self.control.switch_at(next, &facts),
        }
        let outcome = self.write_later(random);
        if *switched.lock().expect("nobody panics with it") {
            // A base that can not be written changes nothing.
            let _ = self.write_base(&units);
        }
        outcome
    }

    fn write_base(&mut self, units: &[(Lsn, usize)]) -> io::Result<()> {
        let (storage, directory, name) = (&self.storage, Path::new(DIRECTORY), OsStr::new(NAME));
        let mut manifest = self.manifest.lock().expect("nobody panics with it");
        let mut next = manifest.clone();
        let base = directory.join(next.next_base(name, false));
        next.retire_increments(1);
        let mut bytes = Vec::new();
        for (number, (_, commands)) in units.iter().enumerate() {
            (0..*commands).for_each(|part| encode_request(&mut bytes, words_of(number, part, 10)));
        }
        let mut file = storage.create(&base)?;
        file.write_all(&bytes)?;
        file.sync()?;
        next.store(storage, directory, name)?;
        *manifest = next.clone();
        for old in std::mem::take(&mut next.history) {
            storage.remove(&directory.join(old.name))?;
        }
        next.store(storage, directory, name)?;
        *manifest = next;
        Ok(())
    }
}

/// What a start finds: the commands in order, as numbers of units and parts, where replication stands, and
/// what is wrong at the end.
type Found = (Vec<(usize, usize)>, Option<ReplicationFacts>, Option<AofError>);

fn load(storage: &MemoryStorage, seed: u64) -> Found {
    let directory = Path::new(DIRECTORY);
    let manifest = Manifest::load(storage, directory, OsStr::new(NAME)).expect("it is whole");
    let files: Vec<_> = manifest.iter().flat_map(Manifest::files).map(|file| file.name.clone()).collect();
    let (mut found, mut position) = (Vec::new(), Position::default());
    for (index, name) in files.iter().enumerate() {
        position.begin_file();
        let file = storage.open(&directory.join(name)).expect("what the manifest names is there");
        let total = file.length().expect("the disk is repaired");
        let mut reader = Reader::new(file, total);
        let mut pending = Vec::new();
        let failure = loop {
            let item = reader.next_item();
            if let Ok(Some(item)) = &item {
                position.see(item);
            }
            match item {
                Ok(Some(Item::Command(command))) if command.get(0) == Some(ADD) => {
                    let number = |at| {
                        let text = command.get(at).and_then(|word| std::str::from_utf8(word).ok());
                        text.and_then(|text| text.parse().ok()).expect("a number was written")
                    };
                    // Where the file has only been lengthened, a part may have come to be zeros.
                    let filler = command.get(3).unwrap_or_default();
                    let is_own = filler.iter().all(|byte| matches!(byte, b'x' | 0));
                    assert!(is_own, "seed {seed}: what no command had is in one");
                    pending.push((number(1), number(2)));
                }
                Ok(Some(_)) => {}
                Ok(None) => break None,
                Err(failure) => break Some(failure),
            }
            position.pass(reader.offset() - reader.item_offset(), reader.in_transaction());
            if !reader.in_transaction() {
                found.append(&mut pending);
            }
        };
        if let Some(failure) = failure {
            assert_eq!(index + 1, files.len(), "seed {seed}: {failure} in {name:?}, which is not the last");
            return (found, position.facts(), Some(failure));
        }
        found.append(&mut pending);
    }
    (found, position.facts(), None)
}

/// Compares where replication stands with the units that were found. True if the files say it.
fn check_position(server: &Server, units: usize, facts: Option<ReplicationFacts>, seed: u64) -> bool {
    let Some(facts) = facts else { return false };
    let end = units.checked_sub(1).map_or(0, |last| server.units[last].0);
    let shift = server.histories.iter().find(|(id, _)| *id == facts.id).expect("it was noted").1;
    let found = facts.offset as u64 - shift;
    assert!((end..=end + SELECT_BYTES).contains(&found), "seed {seed}: at {found}, the units end at {end}");
    true
}

/// Runs a server until something breaks or the power goes; what was found broken at the start, and whether
/// the files say where replication stands.
fn run(seed: u64, policy: SyncPolicy) -> (Option<AofError>, bool) {
    let mut random = Random(seed);
    let storage = MemoryStorage::new();
    let preallocation = [0, 1, 9_000, 200_000][(seed / 4 % 4) as usize];
    let mut server = Server::start(&storage, policy, preallocation).expect("no fault is set");
    server.write_later(&mut random).expect("no fault is set");
    let steps = 5 + random.below(60);
    match seed % 4 {
        0 => storage.fail_at(storage.operations() + random.below(80)),
        1 => storage.fail_sync(storage.syncs() + random.below(15)),
        2 => storage.fill_up_after(Some(random.below(300_000))),
        _ => {}
    }
    for _ in 0..steps {
        for _ in 0..random.below(5) {
            server.append(&mut random);
        }
        if random.below(10) == 0 {
            server.change_history();
        }
        let outcome =
            if random.below(8) == 0 { server.rewrite(&mut random) } else { server.write_later(&mut random) };
        match outcome {
            // A server that can not keep what it promised ends. What a sync that failed should have made
            // durable is lost, so nothing can be told of it afterwards.
            Err(WriterError::Write(_)) if policy == SyncPolicy::Always => break,
            Err(WriterError::Sync(_)) => break,
            Err(WriterError::Write(_)) if random.below(3) == 0 => storage.fill_up_after(None),
            Err(WriterError::Write(_) | WriterError::NextFile(_) | WriterError::Closed(_)) | Ok(()) => {}
        }
    }
    if seed % 4 == 3 {
        // The power goes between a write and what would make it durable.
        storage.fail_at(storage.operations() + 1 + random.below(2));
        (0..3).for_each(|_| server.append(&mut random));
        let _ = server.write_later(&mut random);
    }
    let durable = server.control.durable();
    storage.crash_anyhow(seed);
    let (found, facts, failure) = load(&storage, seed);
    let expected = server
        .units
        .iter()
        .enumerate()
        .flat_map(|(number, (_, commands))| (0..*commands).map(move |part| (number, part)));
    let expected: Vec<_> = expected.take(found.len()).collect();
    assert_eq!(found, expected, "seed {seed} {policy:?} {preallocation}: not a prefix of what was appended");
    let units = found.last().map_or(0, |(number, _)| number + 1);
    assert!(
        found.last().is_none_or(|(number, part)| part + 1 == server.units[*number].1),
        "seed {seed}: half a unit"
    );
    let acknowledged = server.units.iter().filter(|(end, _)| *end <= durable).count();
    assert!(units >= acknowledged, "seed {seed}: {acknowledged} were acknowledged, {units} are there");
    // What is larger than a frame only lengthens the file.
    let is_frame = server.log.end() - durable <= 256 << 10;
    if policy == SyncPolicy::Always && preallocation > 0 && seed % 4 == 3 && is_frame {
        let is_damaged = matches!(failure, Some(AofError::Damaged { .. }));
        assert!(!is_damaged, "seed {seed}: a loss of power is taken for damage: {failure:?}");
    }
    let has_position = check_position(&server, units, facts, seed);
    (failure, has_position)
}

#[test]
fn what_was_acknowledged_survives() {
    for policy in [SyncPolicy::Always, SyncPolicy::EverySecond, SyncPolicy::Never] {
        let outcomes: Vec<_> = (0..600).map(|seed| run(seed, policy)).collect();
        let truncated =
            outcomes.iter().filter(|outcome| matches!(outcome.0, Some(AofError::Truncated { .. }))).count();
        let whole = outcomes.iter().filter(|outcome| outcome.0.is_none()).count();
        let with_position = outcomes.iter().filter(|outcome| outcome.1).count();
        assert!(with_position > 200, "{policy:?}: {with_position} say where replication stands");
        assert!(truncated > 3 && whole > 3, "{policy:?}: {truncated} truncated, {whole} whole");
    }
}
