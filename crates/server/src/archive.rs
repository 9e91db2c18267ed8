//! Snapshots into an archive, by a schedule or when somebody asks, and the log between them.
//!
//! The background thread looks a few times a second whether a snapshot is due ([`Archiver::tick`]); a thread
//! of its own makes it. The data come from the same snapshot as those of BGSAVE, without a fork or a file
//! between, and are sorted, cut and stored at low priority. With `archive-log` another thread stores what is
//! written from the instant of a snapshot on ([`journal`]).

mod journal;

use std::io::{self, BufWriter, PipeReader, PipeWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Instant;

use mantissa_archive::{Archive, Facts, KeyFile, Origin, Retention, Snapshot, Store, store_at};
use mantissa_engine::config::Config;
use mantissa_engine::config::schedule::Schedule;
use mantissa_engine::snapshot::{self, Cut};
use mantissa_engine::state::archive::{ArchiveState, ArchivedSnapshot};
use mantissa_engine::{Engine, notice, warning};
use mantissa_persist::storage::OutputFile;
use mantissa_store::LockedShards;
use mantissa_sys::clock::unix_ms;
use mantissa_sys::{process, scheduling};
use parking_lot::Mutex;

use journal::Journal;

/// How long after a failure the next try is made.
const RETRY_MS: i64 = 30_000;
const BUFFER_BYTES: usize = 256 << 10;
/// Snapshots that MANTISSA.ARCHIVE LIST shows. Their manifests are read, in a bucket with a request each.
const LISTED_MAX: usize = 100;
const DAY_S: u64 = 86_400;

/// Makes snapshots for an archive.
#[derive(Default)]
pub struct Archiver {
    /// The archive whose snapshots are known.
    known: Mutex<String>,
    /// They are being looked at.
    is_looking: AtomicBool,
    journal: Arc<Journal>,
}

/// What a thread is started for.
#[derive(Clone, Copy)]
enum Task {
    /// To look which snapshots there are.
    Look,
    /// To make one.
    Make {
        /// Somebody wants it now; else it is due.
        is_asked_for: bool,
    },
}

/// Where an archive is, and the file with its keys, which may be empty.
#[derive(Clone, PartialEq, Eq, Default)]
struct Place {
    url: String,
    key_file: String,
}

impl Place {
    /// What the configuration names.
    fn of(config: &Config) -> Self {
        Place { url: config.archive_url.clone(), key_file: config.archive_key_file.clone() }
    }

    fn open(&self) -> io::Result<Archive<Box<dyn Store>>> {
        let key_file = Some(self.key_file.as_str()).filter(|path| !path.is_empty());
        let key = key_file.map(|path| KeyFile::read(Path::new(path))).transpose()?;
        Archive::open(store_at(Path::new(&self.url))?, key.as_ref())
    }
}

impl Archiver {
    /// Begins a snapshot if one is due. To be called from time to time.
    pub fn tick(self: &Arc<Self>, engine: &Engine) {
        let (archive, active) = (&engine.archive, engine.active_config());
        let config = &active.config;
        let has_archive = !config.archive_url.is_empty();
        let is_loading = engine.persistence.loading.load(Ordering::Acquire);
        if !(has_archive && config.archive_log) || self.journal.goes_elsewhere(&Place::of(config)) {
            self.journal.end();
        }
        let is_busy = archive.is_running.load(Ordering::Acquire) || self.is_looking.load(Ordering::Acquire);
        if !has_archive || is_loading || is_busy {
            return;
        }
        let schedule = Schedule::parse(&config.archive_schedule).ok().flatten();
        let now_ms = unix_ms();
        let next_ms = schedule.as_ref().map_or(0, |schedule| schedule.next(now_ms as u64));
        archive.next_ms.store(next_ms as i64, Ordering::Relaxed);
        let is_asked_for = archive.is_asked_for.load(Ordering::Acquire);
        let is_waiting = !archive.error.lock().is_empty()
            && now_ms - archive.last_try_ms.load(Ordering::Relaxed) < RETRY_MS;
        if is_waiting && !is_asked_for {
            return;
        }
        let is_known = *self.known.lock() == config.archive_url;
        let slot_ms = schedule.map_or(0, |schedule| schedule.last(now_ms as u64) as i64);
        let is_due = archive.last_ms.load(Ordering::Relaxed) < slot_ms;
        let begins_log = config.archive_log && !self.journal.is_on();
        if is_asked_for || begins_log || (slot_ms > 0 && is_due && is_known) {
            self.start(engine, Task::Make { is_asked_for });
        } else if !is_known {
            self.start(engine, Task::Look);
        }
    }

    /// Starts the thread that does this.
    fn start(self: &Arc<Self>, engine: &Engine, task: Task) {
        let archive = &engine.archive;
        match task {
            Task::Look => self.is_looking.store(true, Ordering::Release),
            Task::Make { .. } => {
                archive.is_running.store(true, Ordering::Release);
                archive.is_asked_for.store(false, Ordering::Release);
            }
        }
        archive.last_try_ms.store(unix_ms(), Ordering::Relaxed);
        let archiver = Arc::clone(self);
        let body = move |engine: &Engine| {
            scheduling::lower_priority();
            let done = match task {
                Task::Look => archiver.look(engine),
                Task::Make { is_asked_for } => archiver.make_and_tell(engine, is_asked_for),
            };
            let archive = &engine.archive;
            *archive.error.lock() = done.as_ref().err().map(io::Error::to_string).unwrap_or_default();
            if let Err(error) = done {
                archive.failures.fetch_add(1, Ordering::Relaxed);
                warning!("Archiving failed: {error}");
            }
            archiver.end(engine);
        };
        if let Err(error) = engine.spawn("archiver", body) {
            warning!("Archiving failed: a thread could not be started: {error}");
            *archive.error.lock() = error.to_string();
            self.end(engine);
        }
    }

    fn end(&self, engine: &Engine) {
        engine.archive.is_running.store(false, Ordering::Release);
        self.is_looking.store(false, Ordering::Release);
    }

    /// Finds out which snapshots there are.
    fn look(&self, engine: &Engine) -> io::Result<()> {
        let active = engine.active_config();
        list(&Place::of(&active.config).open()?, &engine.archive, None)?;
        // Those of other servers do not count for the schedule of this one.
        let own = source(engine);
        let newest = engine.archive.newest.lock();
        let newest_ms = newest.iter().filter(|snapshot| snapshot.source == own).map(|it| it.time_ms).max();
        drop(newest);
        engine.archive.last_ms.store(newest_ms.unwrap_or(0) as i64, Ordering::Relaxed);
        self.known.lock().clone_from(&active.config.archive_url);
        Ok(())
    }

    fn make_and_tell(&self, engine: &Engine, is_asked_for: bool) -> io::Result<()> {
        let (began, active) = (Instant::now(), engine.active_config());
        let config = &active.config;
        let archive = Place::of(config).open()?;
        notice!("Archiving to {} started", config.archive_url);
        let snapshot = self.make(engine, config, &archive, is_asked_for)?;
        let (facts, state) = (&snapshot.facts, &engine.archive);
        let duration_ms = began.elapsed().as_millis() as u64;
        state.last_duration_ms.store(duration_ms, Ordering::Relaxed);
        state.last_keys.store(facts.keys, Ordering::Relaxed);
        state.last_bytes.store(facts.bytes, Ordering::Relaxed);
        state.last_new_bytes.store(facts.new_bytes, Ordering::Relaxed);
        state.last_stored_bytes.store(facts.stored_bytes, Ordering::Relaxed);
        state.last_name.lock().clone_from(&snapshot.name);
        state.last_ms.store(facts.created_ms as i64, Ordering::Relaxed);
        state.count.fetch_add(1, Ordering::Relaxed);
        self.known.lock().clone_from(&config.archive_url);
        notice!(
            "Archived {} keys as {}: {} bytes, {} of them new, stored in {}; {:.3} seconds",
            facts.keys,
            snapshot.name,
            facts.bytes,
            facts.new_bytes,
            facts.stored_bytes,
            duration_ms as f64 / 1000.0
        );
        prune(&archive, config)?;
        list(&archive, state, Some(snapshot))
    }

    fn make(
        &self,
        engine: &Engine,
        config: &Config,
        archive: &Archive<impl Store>,
        is_asked_for: bool,
    ) -> io::Result<Snapshot> {
        let source = source(engine);
        let scratch = archive.scratch(PathBuf::from(&config.dir))?;
        let origin = Origin {
            source: &source,
            tag: if is_asked_for { "" } else { "scheduled" },
            now_ms: &|| unix_ms() as u64,
            bytes: None,
            folder: &scratch,
        };
        let was_on = self.journal.is_on();
        let (reader, writer) = io::pipe()?;
        let made = std::thread::scope(|scope| {
            let write = move || {
                let mut pipe = Pipe(BufWriter::with_capacity(BUFFER_BYTES, writer));
                let at_cut = |locked: &mut LockedShards<'_>| {
                    if config.archive_log {
                        self.journal.begin(engine, locked, Place::of(config));
                    }
                };
                let cut = snapshot::write_for_archive(engine, &mut pipe, at_cut)?;
                pipe.0.flush().map(|()| cut)
            };
            let mut dump = Dump { scope, write: Some(write), writing: None, reader: Some(reader) };
            let made = archive.create(&mut dump, &origin, &mut |_, _| {});
            // Whoever still writes learns that nobody reads.
            dump.reader = None;
            let written = match dump.writing {
                Some(writing) => writing.join().unwrap_or_else(|_| Err(io::Error::other("encoding failed"))),
                None => return made,
            };
            match (made, written) {
                (Err(_), Err(error)) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
                (made, _) => made,
            }
        });
        if made.is_err() && !was_on {
            // A log without the snapshot that it follows is of no use.
            self.journal.end();
        }
        made
    }

    /// Stores what is left of the log. To be called at the end, when nothing is written any more.
    pub fn finish(&self) {
        self.journal.finish();
    }
}

/// What this server's snapshots name as their source. The name of the machine tells its servers from those of
/// others in the same archive.
fn source(engine: &Engine) -> String {
    let host = process::host_name().unwrap_or_else(|| "127.0.0.1".to_owned());
    format!("{host}:{}", engine.host().facts().port)
}

/// Notes which snapshots there are. Reads the manifests of those that are not known; `made` is.
fn list(archive: &Archive<impl Store>, state: &ArchiveState, made: Option<Snapshot>) -> io::Result<()> {
    let names = archive.names()?;
    state.kept.store(names.len() as u64, Ordering::Relaxed);
    let mut known = state.newest.lock().clone();
    known.retain(|snapshot| snapshot.error.is_empty());
    known.extend(made.map(|made| archived(made.name, made.facts)));
    let newest = names.into_iter().rev().take(LISTED_MAX).map(|name| {
        match known.iter().position(|snapshot| snapshot.name == name) {
            Some(at) => known.swap_remove(at),
            None => match archive.facts(&name) {
                Ok(facts) => archived(name, facts),
                Err(error) => ArchivedSnapshot { name, error: error.to_string(), ..Default::default() },
            },
        }
    });
    let newest = newest.collect();
    *state.newest.lock() = newest;
    Ok(())
}

fn archived(name: String, facts: Facts) -> ArchivedSnapshot {
    let Facts { source, tag, keys, bytes, new_bytes, stored_bytes, .. } = facts;
    let time_ms = facts.created_ms;
    ArchivedSnapshot {
        name,
        time_ms,
        source,
        tag,
        keys,
        bytes,
        new_bytes,
        stored_bytes,
        error: String::new(),
    }
}

/// Removes snapshots that no rule keeps, and what none needs.
fn prune(archive: &Archive<impl Store>, config: &Config) -> io::Result<()> {
    let log_s = u64::from(config.archive_keep_log_days) * DAY_S;
    let retention = Retention {
        last: config.archive_keep_last as usize,
        hourly: config.archive_keep_hourly as usize,
        daily: config.archive_keep_daily as usize,
        weekly: config.archive_keep_weekly as usize,
        monthly: config.archive_keep_monthly as usize,
        log_since_s: if log_s > 0 { (unix_ms() as u64 / 1000).saturating_sub(log_s) } else { 0 },
    };
    if retention.is_empty() && log_s == 0 {
        return Ok(());
    }
    let pruned = archive.prune(&retention, true)?;
    if !pruned.snapshots.is_empty() || pruned.segments > 0 {
        notice!(
            "Removed {} snapshots and {} segments of the log from the archive: {} bytes",
            pruned.snapshots.len(),
            pruned.segments,
            pruned.bytes
        );
    }
    Ok(())
}

/// A pipe that a snapshot is written to.
struct Pipe(BufWriter<PipeWriter>);

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl OutputFile for Pipe {
    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A snapshot, which begins when it is first read: then the archive is locked.
struct Dump<'scope, 'env, F> {
    scope: &'scope Scope<'scope, 'env>,
    write: Option<F>,
    writing: Option<ScopedJoinHandle<'scope, io::Result<Cut>>>,
    reader: Option<PipeReader>,
}

impl<'scope, F: FnOnce() -> io::Result<Cut> + Send + 'scope> Read for Dump<'scope, '_, F> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if let Some(write) = self.write.take() {
            self.writing =
                Some(std::thread::Builder::new().name("saver".to_owned()).spawn_scoped(self.scope, write)?);
        }
        self.reader.as_mut().map_or(Ok(0), |reader| reader.read(bytes))
    }
}
