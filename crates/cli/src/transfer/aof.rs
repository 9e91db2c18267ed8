//! Append-only files into a server and out of it.
//!
//! An import stores the dump that a file begins with and then runs the commands, in their order, over one
//! connection. As they build on what was there, the server has to be empty, unless `--replace` says
//! otherwise. A transaction that the file ends within is not run. Commands are sent before the replies to
//! earlier ones are there, so another connection tries each database before the first command that names it:
//! what follows would change another one if the server does not have it.
//!
//! An export writes a dump as the base of an append-only file: a directory with its manifest and an empty
//! increment, or a single file as before Redis 7.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::Path;
use std::time::Instant;

use indicatif::ProgressBar;
use mantissa_persist::aof::{Item, Manifest, Reader, has_preamble};
use mantissa_persist::storage::{FileSystem, Storage, StorageFile};
use mantissa_protocol::{Args, Value, encode_request};

use super::beside::counted;
use super::options::{ExportOptions, ImportOptions};
use super::postpone::Postponed;
use super::sink::Tally;
use super::source::databases;
use super::{dump, now_ms, progress};
use crate::aof_files::{AofPart, parts_of};
use crate::connection::Connection;
use crate::output::tell;
use crate::target::Target;

/// How many bytes of commands are sent at a time, but for one that is longer.
const SENT_BYTES: usize = 1 << 20;
/// The name that Redis gives an append-only file.
const NAME: &str = "appendonly.aof";

/// Runs commands on a server.
struct Replay {
    connection: Connection,
    batch: usize,
    postponed: Postponed,
    database: u32,
    /// A connection that tries databases, and those that the server has.
    prober: Connection,
    usable: HashSet<Vec<u8>>,
    /// Commands to send, and how many.
    encoded: Vec<u8>,
    waiting: usize,
    /// Commands of the files that were run, but for SELECT, and that failed.
    run: u64,
    failed: u64,
    first_error: Option<String>,
}

impl Replay {
    /// Connects.
    fn new(target: &Target, batch: usize) -> io::Result<Self> {
        Ok(Replay {
            connection: target.open()?,
            batch,
            postponed: Postponed::new(now_ms()),
            database: 0,
            prober: target.open()?,
            usable: HashSet::new(),
            encoded: Vec::new(),
            waiting: 0,
            run: 0,
            failed: 0,
            first_error: None,
        })
    }

    /// Adds a command; gives the reason why it and what follows cannot be run.
    fn add(&mut self, command: Args<'_>) -> io::Result<Option<String>> {
        for index in databases_of(command) {
            if let Some(reason) = self.refusal(index)? {
                return Ok(Some(reason));
            }
        }
        let is_select = command.get(0).is_some_and(|name| name.eq_ignore_ascii_case(b"select"));
        if let Some(index) = command.get(1).filter(|_| is_select) {
            let index = std::str::from_utf8(index).ok().and_then(|text| text.parse().ok());
            self.database = index.unwrap_or(self.database);
        }
        self.run += u64::from(!is_select);
        match self.postponed.rewrite(self.database, command) {
            Some(words) => encode_request(&mut self.encoded, &words),
            None => encode_request(&mut self.encoded, command.iter()),
        }
        self.waiting += 1;
        if self.waiting >= self.batch || self.encoded.len() >= SENT_BYTES {
            self.flush()?;
        }
        Ok(None)
    }

    /// Why the server does not let a database be selected, if it does not.
    fn refusal(&mut self, index: &[u8]) -> io::Result<Option<String>> {
        if self.usable.contains(index) {
            return Ok(None);
        }
        let reply = self.prober.ask(&[&b"SELECT"[..], index])?;
        let Some(error) = reply.as_error() else {
            self.usable.insert(index.to_vec());
            return Ok(None);
        };
        let error = String::from_utf8_lossy(error);
        Ok(Some(format!("the server refuses database {}: {error}", index.escape_ascii())))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.connection.send_encoded(&self.encoded)?;
        self.encoded.clear();
        for _ in 0..std::mem::take(&mut self.waiting) {
            match self.connection.receive_reply()? {
                // What a transaction did.
                Value::Array(replies) => replies.iter().for_each(|reply| self.look_at(reply)),
                reply => self.look_at(&reply),
            }
        }
        Ok(())
    }

    fn look_at(&mut self, reply: &Value) {
        if let Some(error) = reply.as_error() {
            self.failed += 1;
            self.first_error.get_or_insert_with(|| String::from_utf8_lossy(error).into_owned());
        }
    }

    /// Runs the commands of a file; gives the reason why not all of them were.
    fn run_file<R: Read>(
        &mut self,
        mut reader: Reader<R>,
        before: u64,
        bar: &ProgressBar,
    ) -> io::Result<Option<String>> {
        self.database = 0;
        encode_request(&mut self.encoded, ["SELECT", "0"]);
        self.waiting += 1;
        loop {
            let reason = match reader.next_item() {
                Ok(Some(Item::Command(command))) => self.add(command)?,
                Ok(Some(_)) => None,
                Ok(None) => {
                    self.flush()?;
                    return Ok(None);
                }
                Err(failure) => Some(failure.to_string()),
            };
            if reason.is_some() {
                if reader.in_transaction() {
                    encode_request(&mut self.encoded, ["DISCARD"]);
                    self.waiting += 1;
                }
                self.flush()?;
                return Ok(reason);
            }
            bar.set_position(before + reader.offset());
        }
    }
}

/// The databases that a command names.
fn databases_of<'a>(command: Args<'a>) -> impl Iterator<Item = &'a [u8]> {
    let name = command.get(0).unwrap_or_default();
    let is = |other: &[u8]| name.eq_ignore_ascii_case(other);
    let places = match () {
        () if is(b"select") => [Some(1), None],
        () if is(b"move") => [Some(2), None],
        () if is(b"swapdb") => [Some(1), Some(2)],
        () if is(b"copy") => {
            let is_option =
                |&at: &usize| command.get(at).is_some_and(|word| word.eq_ignore_ascii_case(b"db"));
            [(3..command.len()).find(is_option).map(|at| at + 1), None]
        }
        () => [None, None],
    };
    places.into_iter().flatten().filter_map(move |at| command.get(at))
}

/// Stores what the file at `path` comes to; whether all of it could be.
pub(crate) fn import(options: &ImportOptions, path: &Path, target: &Target) -> io::Result<bool> {
    let target = Target { database: 0, ..target.clone() };
    let parts = parts_of(path).map_err(io::Error::other)?;
    if !options.replace && !databases(&target, None)?.is_empty() {
        let text = "the server is not empty, and the commands of the file build on what is there; \
                    --replace runs them all the same";
        return Err(io::Error::other(text));
    }
    let start = Instant::now();
    let mut total = 0;
    for part in &parts {
        total += open(part)?.length()?;
    }
    let bar = progress(total, "bytes");
    let mut replay = Replay::new(&target, options.batch)?;
    let mut keys = Tally::default();
    let mut damage = None;
    for part in &parts {
        let file = open(part)?;
        let bytes = file.length()?;
        let before = bar.position();
        let reason = if has_preamble(&FileSystem, &part.path)? {
            let stored = dump::store(options, file, Some(bytes), &target, Some(&mut replay.postponed), &bar)?;
            keys.add(stored.tally);
            match stored.damage {
                Some(damage) => Some(damage.to_string()),
                None => {
                    let (ahead, rest) = stored.rest;
                    replay.run_file(Reader::resume(ahead, rest, stored.end, bytes), before, &bar)?
                }
            }
        } else {
            replay.run_file(Reader::new(file, bytes), before, &bar)?
        };
        if let Some(reason) = reason {
            damage = Some(format!("{}: {reason} (what comes before that is stored)", part.path.display()));
            break;
        }
        bar.set_position(before + bytes);
    }
    bar.finish_and_clear();
    replay.postponed.settle(&mut target.open()?)?;
    let told = tell!(
        "imported {} keys and ran {} in {:.2} seconds{}{}",
        keys.stored,
        counted(replay.run, ("command", "commands")),
        start.elapsed().as_secs_f64(),
        keys.notes(),
        if replay.failed > 0 { format!(", {} failed", replay.failed) } else { String::new() }
    );
    let first_error = keys.first_error.as_ref().or(replay.first_error.as_ref());
    if let Some(error) = first_error {
        eprintln!("The first failure: {error}");
    }
    match damage {
        Some(damage) => Err(io::Error::new(io::ErrorKind::InvalidData, damage)),
        None => told.map(|()| keys.is_complete() && replay.failed == 0),
    }
}

fn open(part: &AofPart) -> io::Result<Box<dyn StorageFile>> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", part.path.display()));
    FileSystem.open(&part.path).map_err(named)
}

/// Writes a server's data as an append-only file: a single file if the name ends in `.aof`, else a directory.
pub(crate) fn export(options: &ExportOptions, source: &Target, path: &Path) -> io::Result<Tally> {
    if options.is_quiet() {
        return Err(io::Error::other(
            "an append-only file needs a name: a directory, or a file ending in .aof",
        ));
    }
    if path.extension().is_some_and(|extension| extension == "aof") && !path.is_dir() {
        return dump::export(options, source, path, true);
    }
    FileSystem.create_directory(path)?;
    let name = OsStr::new(NAME);
    if Manifest::load(&FileSystem, path, name)?.is_some() {
        let text = format!("{}: there is an append-only file in this directory", path.display());
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
    }
    let mut manifest = Manifest::default();
    let base = path.join(manifest.next_base(name, true));
    let increment = path.join(manifest.next_increment(name, None));
    let tally = dump::export(options, source, &base, true)?;
    FileSystem.create(&increment)?.sync()?;
    manifest.store(&FileSystem, path, name)?;
    Ok(tally)
}
