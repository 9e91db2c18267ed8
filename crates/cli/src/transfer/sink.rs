//! Keys into a server, in batches.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;

use super::beside::{LIBRARY, USER, counted};
use super::item::Item;
use super::options::ImportOptions;
use super::source::select;
use crate::connection::Connection;
use crate::target::Target;
use mantissa_commands::glob;
use mantissa_persist::payload::module_type_of;
use mantissa_protocol::put_quoted;

/// A key to store.
pub(crate) enum Job {
    /// A value as DUMP gives it.
    Payload { database: u32, key: Vec<u8>, payload: Vec<u8>, expires_at_ms: Option<i64> },
    /// A value by its elements, and the line of the file with which it begins.
    Item(Item, u64),
}

impl Job {
    fn database(&self) -> u32 {
        match self {
            Job::Payload { database, .. } => *database,
            Job::Item(item, _) => item.database,
        }
    }

    fn key(&self) -> &[u8] {
        match self {
            Job::Payload { key, .. } => key,
            Job::Item(item, _) => &item.key,
        }
    }
}

/// What became of keys.
#[derive(Default, Debug)]
pub(crate) struct Tally {
    pub(crate) stored: u64,
    /// Those that were there already and not to be replaced.
    pub(crate) existing: u64,
    /// Those that were gone when they were to be read.
    pub(crate) gone: u64,
    /// Those of module types that were left out as asked for.
    pub(crate) unknown: u64,
    /// Libraries of functions that were loaded, and that were there already.
    pub(crate) libraries: u64,
    pub(crate) libraries_existing: u64,
    /// ACL users that were set, and that were there already.
    pub(crate) users: u64,
    pub(crate) users_existing: u64,
    pub(crate) failed: u64,
    pub(crate) first_error: Option<String>,
}

impl Tally {
    /// Adds another one.
    pub(crate) fn add(&mut self, other: Tally) {
        self.stored += other.stored;
        self.existing += other.existing;
        self.gone += other.gone;
        self.unknown += other.unknown;
        self.libraries += other.libraries;
        self.libraries_existing += other.libraries_existing;
        self.users += other.users;
        self.users_existing += other.users_existing;
        self.failed += other.failed;
        self.first_error = self.first_error.take().or(other.first_error);
    }

    /// Counts a key whose type only a module knows, and tells of it if it is to be left out.
    pub(crate) fn unknown(&mut self, database: u32, key: &[u8], type_name: &str, skip: bool) {
        if !skip {
            let reason = format!("it is of the module type '{type_name}' (see --skip-unknown-types)");
            return self.fail(key, &reason);
        }
        self.unknown += 1;
        let mut quoted = Vec::new();
        put_quoted(&mut quoted, key);
        let quoted = String::from_utf8_lossy(&quoted);
        eprintln!("Left out: {quoted} of database {database}, of the module type '{type_name}'");
    }

    /// What is to be said beside the number of keys stored.
    pub(crate) fn notes(&self) -> String {
        let mut notes = String::new();
        for (count, noun, what) in [
            (self.existing, None, "were there already (see --replace)"),
            (self.libraries_existing, Some(LIBRARY), "there already (see --replace)"),
            (self.users_existing, Some(USER), "there already (see --replace)"),
            (self.gone, None, "went meanwhile"),
            (self.unknown, None, "of module types were left out"),
            (self.failed, None, "failed"),
        ] {
            if count > 0 {
                let things = noun.map_or_else(|| count.to_string(), |noun| counted(count, noun));
                notes += &format!(", {things} {what}");
            }
        }
        notes
    }

    /// Whether everything was stored that was to be.
    pub(crate) fn is_complete(&self) -> bool {
        self.failed + self.existing + self.libraries_existing + self.users_existing == 0
    }

    /// Counts a key that failed.
    pub(crate) fn fail(&mut self, key: &[u8], reason: &str) {
        self.failed += 1;
        self.first_error.get_or_insert_with(|| format!("'{}': {reason}", key.escape_ascii()));
    }
}

/// A connection that stores keys.
pub(crate) struct Sink {
    connection: Connection,
    selected: Option<u32>,
    replace: bool,
    skips_unknown: bool,
}

impl Sink {
    /// Connects.
    pub(crate) fn open(target: &Target, options: &ImportOptions) -> io::Result<Sink> {
        let ImportOptions { replace, skip_unknown_types: skips_unknown, .. } = *options;
        Ok(Sink { connection: target.open()?, selected: None, replace, skips_unknown })
    }

    /// Stores keys.
    pub(crate) fn store(&mut self, jobs: Vec<Job>) -> io::Result<Tally> {
        let mut tally = Tally::default();
        let mut jobs = jobs.into_iter().peekable();
        while let Some(first) = jobs.peek() {
            let database = first.database();
            select(&mut self.connection, &mut self.selected, database).map_err(|error| match first {
                Job::Payload { .. } => error,
                Job::Item(_, line) => {
                    io::Error::new(error.kind(), format!("line {line}: database {database}: {error}"))
                }
            })?;
            let mut run = Vec::new();
            while let Some(job) = jobs.next_if(|job| job.database() == database) {
                run.push(job);
            }
            self.store_run(&run, &mut tally)?;
        }
        Ok(tally)
    }

    /// Stores keys of the current database. What becomes a part of a value only is removed again.
    fn store_run(&mut self, jobs: &[Job], tally: &mut Tally) -> io::Result<()> {
        // RESTORE knows by itself whether a key is there.
        let items = jobs.iter().filter(|job| matches!(job, Job::Item(..)));
        let first = if self.replace { b"UNLINK" } else { b"EXISTS" };
        let questions: Vec<_> = items.map(|job| vec![first.to_vec(), job.key().to_vec()]).collect();
        self.connection.send_all(&questions)?;
        let mut taken = Vec::new();
        for _ in &questions {
            let there = self.connection.receive_reply()?.as_integer() == Some(1);
            taken.push(there && !self.replace);
        }
        let mut taken = taken.into_iter();
        let mut sent = Vec::new();
        for job in jobs {
            let commands = match job {
                Job::Payload { key, payload, expires_at_ms, .. } => {
                    vec![restore(key, payload, *expires_at_ms, self.replace)]
                }
                Job::Item(..) if taken.next() == Some(true) => {
                    tally.existing += 1;
                    continue;
                }
                Job::Item(item, _) => item.commands(),
            };
            self.connection.send_all(&commands)?;
            sent.push((job, commands.len()));
        }
        let mut unfinished = Vec::new();
        for (job, count) in sent {
            let (mut error, mut done) = (None, 0);
            for _ in 0..count {
                let reply = self.connection.receive_reply()?;
                let text = reply.as_error().map(|error| String::from_utf8_lossy(error).into_owned());
                done += usize::from(text.is_none());
                error = error.or(text);
            }
            if error.is_some() && done > 0 {
                unfinished.push(vec![b"UNLINK".to_vec(), job.key().to_vec()]);
            }
            match error {
                None => tally.stored += 1,
                Some(error) if error.starts_with("BUSYKEY") => tally.existing += 1,
                Some(error) => match job {
                    Job::Payload { database, key, payload, .. } => match module_type_of(payload) {
                        Some(name) => tally.unknown(*database, key, &name, self.skips_unknown),
                        None => tally.fail(key, &error),
                    },
                    Job::Item(item, _) => tally.fail(&item.key, &error),
                },
            }
        }
        self.connection.send_all(&unfinished)?;
        for _ in &unfinished {
            self.connection.receive_reply()?;
        }
        Ok(())
    }
}

fn restore(key: &[u8], payload: &[u8], expires_at_ms: Option<i64>, replace: bool) -> Vec<Vec<u8>> {
    let expires_at_ms = expires_at_ms.unwrap_or(0).to_string().into_bytes();
    let mut command = vec![b"RESTORE".to_vec(), key.to_vec(), expires_at_ms, payload.to_vec()];
    command.push(b"ABSTTL".to_vec());
    if replace {
        command.push(b"REPLACE".to_vec());
    }
    command
}

/// Threads that store what comes from one place.
pub(crate) struct Pool {
    sender: SyncSender<Vec<Job>>,
    workers: Vec<thread::JoinHandle<io::Result<Tally>>>,
    pending: Vec<Job>,
    batch: usize,
    /// Other keys are left out.
    pattern: Option<String>,
}

impl Pool {
    /// Connects as often as the options say.
    pub(crate) fn new(target: &Target, options: &ImportOptions) -> io::Result<Pool> {
        let ImportOptions { threads, batch, .. } = *options;
        let (sender, receiver) = sync_channel::<Vec<Job>>(threads * 2);
        let receiver = Arc::new(Mutex::new(receiver));
        let workers = (0..threads)
            .map(|_| {
                let (mut sink, receiver) = (Sink::open(target, options)?, Arc::clone(&receiver));
                Ok(thread::spawn(move || {
                    let mut tally = Tally::default();
                    while let Some(jobs) = next(&receiver) {
                        tally.add(sink.store(jobs)?);
                    }
                    Ok(tally)
                }))
            })
            .collect::<io::Result<_>>()?;
        Ok(Pool { sender, workers, pending: Vec::new(), batch, pattern: options.pattern.clone() })
    }

    /// Hands a key to a thread, waiting until one has time. Fails if all have ended; [`Pool::finish`] then
    /// tells why.
    pub(crate) fn add(&mut self, job: Job) -> Result<(), String> {
        if self.pattern.as_ref().is_some_and(|pattern| !glob::matches(pattern.as_bytes(), job.key())) {
            return Ok(());
        }
        self.pending.push(job);
        if self.pending.len() < self.batch {
            return Ok(());
        }
        self.sender.send(std::mem::take(&mut self.pending)).map_err(|_| "the connection is lost".to_owned())
    }

    /// Waits until all is stored.
    pub(crate) fn finish(self) -> io::Result<Tally> {
        // If all threads have ended, each tells why below.
        let _ = self.sender.send(self.pending);
        drop(self.sender);
        let mut tally = Tally::default();
        for worker in self.workers {
            tally.add(worker.join().map_err(|_| io::Error::other("a thread failed"))??);
        }
        Ok(tally)
    }
}

/// The next jobs; `None` after the last.
fn next(receiver: &Mutex<Receiver<Vec<Job>>>) -> Option<Vec<Job>> {
    receiver.lock().ok()?.recv().ok()
}
