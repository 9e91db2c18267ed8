//! Keys as they were at a point in time, as a dump.
//!
//! An engine in a folder for temporary files loads a snapshot and runs the commands of the log that follow
//! it. Of both it gets what the wanted keys depend on: a look at the commands tells from which other keys
//! they got values (RENAME, COPY, SUNIONSTORE and so on). Where commands do not say that, it gets everything.
//!
//! Cost: the log is read twice or more, and memory for the keys that the engine gets.

use std::collections::HashSet;
use std::env;
use std::fs::{self, DirBuilder, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process;

use mantissa_archive::{Archive, Replayed, Selection, Snapshot, Store};
use mantissa_commands::spec::{Flags, Group, KeyFlags, Traits};
use mantissa_commands::{find_keys, key_flags, parse};
use mantissa_config::LogLevel;
use mantissa_engine::embedded::Embedded;
use mantissa_engine::invocation::Registry;
use mantissa_engine::{log, registry};
use mantissa_persist::write::{FileFacts, WriteOptions, Writer};
use mantissa_protocol::{Args, Parsed, RequestLimits, RequestParser, encode_request};
use mantissa_store::{Entry, Kind};

use super::point_in_time;
use crate::unfinished::Unfinished;

/// Databases that a server has if nothing is said.
const DATABASES: usize = 16;

/// What was found.
pub(super) struct Found {
    /// The snapshot that was the base.
    pub(super) snapshot: Snapshot,
    /// The log behind it.
    pub(super) replayed: Replayed,
    /// Keys that were written.
    pub(super) keys: u64,
}

/// Writes what is wanted of the state of a second as a dump whose strings are not compressed.
pub(super) fn write(
    archive: &Archive<impl Store>,
    time_s: u64,
    selection: &Selection,
    out: impl Write,
) -> io::Result<Found> {
    let snapshot = archive.find_at(time_s)?;
    let registry = registry::build(&[]).map_err(io::Error::other)?;
    let scan = |learn: &mut dyn FnMut(Args<'_>)| match &snapshot.facts.position {
        Some(position) => archive.replay(position, time_s, |commands| each_command(commands, &mut *learn)),
        None => Ok(Replayed::default()),
    };
    let mut needed = Needed::new(registry, selection);
    loop {
        let known = needed.names.keys.len();
        scan(&mut |command| needed.learn(command))?;
        if needed.names.everything || needed.names.keys.len() == known {
            break;
        }
    }
    let folder = Temporary::new()?;
    let mut loaded = load(archive, &snapshot, time_s, &needed, &folder.path.join("part"))?;
    if needed.has_linked_series && !needed.names.everything && has_series(&loaded.0) {
        needed.names.everything = true;
        drop(loaded);
        loaded = load(archive, &snapshot, time_s, &needed, &folder.path.join("all"))?;
    }
    let (engine, replayed) = loaded;
    let keys = dump(&engine, time_s, selection, out)?;
    engine.close().map_err(io::Error::other)?;
    Ok(Found { snapshot, replayed, keys })
}

/// Calls `take` with each of some commands.
fn each_command(bytes: &[u8], mut take: impl FnMut(Args<'_>)) -> io::Result<()> {
    let (mut parser, mut slices, mut at) = (RequestParser::default(), Vec::new(), 0);
    while at < bytes.len() {
        slices.clear();
        match parser.parse_at(bytes, at, &RequestLimits::TRUSTED, &mut slices) {
            Parsed::Request { consumed } => {
                take(Args::new(bytes, &slices));
                at += consumed;
            }
            Parsed::Empty { consumed } => at += consumed,
            Parsed::Inline { consumed, arguments } => {
                take(arguments.as_args());
                at += consumed;
            }
            Parsed::Incomplete { .. } | Parsed::Error(_) => {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the log holds what is no command"));
            }
        }
    }
    Ok(())
}

/// Keys by their names, in whatever database.
struct Names {
    everything: bool,
    keys: HashSet<Vec<u8>>,
    prefixes: Vec<Vec<u8>>,
}

impl Names {
    fn of(selection: &Selection) -> Self {
        let (keys, prefixes) = (&selection.keys, &selection.prefixes);
        let everything = keys.is_empty() && prefixes.is_empty();
        Names { everything, keys: keys.iter().cloned().collect(), prefixes: prefixes.clone() }
    }

    fn has(&self, key: &[u8]) -> bool {
        let begins = || self.prefixes.iter().any(|prefix| key.starts_with(prefix));
        self.everything || self.keys.contains(key) || begins()
    }
}

/// What the wanted keys depend on. Databases do not count: keys can be moved between them.
struct Needed {
    registry: &'static Registry,
    names: Names,
    /// The log changes time series, which can change others that are linked to them.
    has_linked_series: bool,
    /// How many databases the log knows of.
    databases: usize,
}

impl Needed {
    fn new(registry: &'static Registry, selection: &Selection) -> Self {
        let names = Names::of(selection);
        Needed { registry, names, has_linked_series: false, databases: DATABASES }
    }

    /// Takes in on what a command makes the needed keys depend.
    fn learn(&mut self, args: Args<'_>) {
        self.note_databases(args);
        let command = self.registry.resolve(args);
        let found =
            command.ok().and_then(|command| Some((command.info, find_keys(command.info, args).ok()?)));
        let Some((info, positions)) = found.filter(|(info, _)| !info.traits.has(Traits::RUNS_SCRIPTS)) else {
            self.names.everything = true;
            return;
        };
        if !info.flags.has(Flags::WRITE) {
            return;
        }
        let keys = || positions.iter().map(|at| (args.at(at.index), key_flags(info, at, args)));
        let is_series = info.flags.has(Flags::MODULE) && info.traits.has(Traits::FOLLOWS_LINKS);
        self.has_linked_series |= is_series;
        if !keys().any(|(key, flags)| !flags.has(KeyFlags::RO) && self.names.has(key)) {
            return;
        }
        let reads_others = [Traits::READS_BY_PATTERN, Traits::READS_BY_LABEL, Traits::LINKS_KEYS];
        if is_series || reads_others.iter().any(|&reads| info.traits.has(reads)) {
            self.names.everything = true;
            return;
        }
        // What is only overwritten or removed does not change what becomes of other keys. Whether a key is
        // there that is to be new does.
        let counts = [KeyFlags::RO, KeyFlags::ACCESS, KeyFlags::INSERT];
        for (key, flags) in keys() {
            if counts.iter().any(|&flag| flags.has(flag)) && !self.names.has(key) {
                self.names.keys.insert(key.to_vec());
            }
        }
    }

    /// Counts the databases that a command names.
    fn note_databases(&mut self, args: Args<'_>) {
        let name = args.at(0);
        if ["SELECT", "SWAPDB", "MOVE", "COPY"].iter().any(|one| parse::is(name, one)) {
            let numbers = args.iter().skip(1).filter_map(|word| parse::integer(word).ok());
            let most = numbers.filter_map(|number| u16::try_from(number).ok()).max().unwrap_or(0);
            self.databases = self.databases.max(usize::from(most) + 1);
        }
    }

    /// Whether a command has a part in what becomes of the needed keys.
    fn needs(&self, args: Args<'_>) -> bool {
        let Ok(command) = self.registry.resolve(args) else { return true };
        let info = command.info;
        if !info.flags.has(Flags::WRITE) {
            return parse::is(args.at(0), "SELECT");
        }
        let positions = find_keys(info, args).unwrap_or_default();
        if positions.is_empty() {
            // FLUSHALL, FLUSHDB, SWAPDB; not libraries of functions.
            return info.group != Group::Scripting;
        }
        let is_changed =
            |at| !key_flags(info, at, args).has(KeyFlags::RO) && self.names.has(args.at(at.index));
        positions.iter().any(is_changed)
    }
}

/// Has an engine load what is needed.
fn load(
    archive: &Archive<impl Store>,
    snapshot: &Snapshot,
    time_s: u64,
    needed: &Needed,
    folder: &Path,
) -> io::Result<(Embedded, Replayed)> {
    let last = snapshot.facts.databases.iter().map(|counts| counts.0 as usize).max();
    let databases = last.map_or(0, |last| last + 1).max(needed.databases);
    let log_folder = folder.join(point_in_time::FOLDER);
    fs::create_dir_all(&log_folder)?;
    let mut chosen = Vec::new();
    let choose = |commands: &[u8], out: &mut BufWriter<&File>| {
        if needed.names.everything {
            return out.write_all(commands);
        }
        chosen.clear();
        each_command(commands, |command| {
            if needed.needs(command) {
                encode_request(&mut chosen, command.iter());
            }
        })?;
        out.write_all(&chosen)
    };
    let names = &needed.names;
    let of_snapshot = match names.everything {
        true => Selection::default(),
        false => {
            let keys = names.keys.iter().cloned().collect();
            Selection { keys, prefixes: names.prefixes.clone(), ..Selection::default() }
        }
    };
    let replayed = point_in_time::write(archive, (snapshot, &of_snapshot), time_s, &log_folder, choose)?;
    let databases = databases.to_string();
    let directives = [("appendonly", "yes"), ("save", ""), ("databases", &*databases)];
    log::set_level(LogLevel::Nothing);
    let engine = Embedded::open_without_background(folder, &directives).map_err(io::Error::other)?;
    Ok((engine, replayed))
}

fn has_series(engine: &Embedded) -> bool {
    let keyspace = &engine.engine().keyspace;
    let shards = keyspace.lock(keyspace.all_shards());
    let databases = (0..keyspace.shard_count()).filter_map(|index| shards.shard(index));
    databases
        .flat_map(|shard| shard.databases.iter())
        .any(|database| database.iter().any(|entry| entry.kind() == Kind::Series))
}

/// Writes the wanted keys of an engine, in the order of database and key. Their number.
fn dump(engine: &Embedded, time_s: u64, selection: &Selection, out: impl Write) -> io::Result<u64> {
    let keyspace = &engine.engine().keyspace;
    let shards = keyspace.lock(keyspace.all_shards());
    let options = WriteOptions { compress: false, ..WriteOptions::default() };
    let mut writer = Writer::new(out, options, None);
    let created_s = i64::try_from(time_s).unwrap_or(i64::MAX);
    writer.begin(&FileFacts { created_s, ..FileFacts::default() })?;
    let names = Names::of(selection);
    let (mut keys, mut buffer) = (0, Vec::new());
    for database in 0..keyspace.database_count() {
        if selection.database.is_some_and(|wanted| wanted as usize != database) {
            continue;
        }
        let mut entries: Vec<&Entry> = Vec::new();
        for shard in (0..keyspace.shard_count()).filter_map(|index| shards.shard(index)) {
            entries.extend(shard.databases[database].iter().filter(|entry| names.has(entry.key())));
        }
        if entries.is_empty() {
            continue;
        }
        entries.sort_by(|one, other| one.key().cmp(other.key()));
        buffer.clear();
        writer.encoder().select(database, &mut buffer);
        writer.chunk(&buffer)?;
        for entry in entries {
            writer.entry(entry)?;
            keys += 1;
        }
    }
    writer.finish()?.0.flush()?;
    Ok(keys)
}

/// A folder for temporary files that nobody else can read. It is removed when this is dropped, or a signal
/// ends the program.
struct Temporary {
    path: PathBuf,
    _until_dropped: Unfinished,
}

impl Temporary {
    fn new() -> io::Result<Temporary> {
        let folder = env::temp_dir();
        for number in 0..100 {
            let path = folder.join(format!("mantissa-archive.{}.{number}", process::id()));
            match Unfinished::make(&path, || DirBuilder::new().mode(0o700).create(&path)) {
                Ok((unfinished, ())) => return Ok(Temporary { path, _until_dropped: unfinished }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(super::named(&path, error)),
            }
        }
        Err(super::named(&folder, io::Error::other("there are too many temporary folders")))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _what_is_left_does_no_harm = fs::remove_dir_all(&self.path);
    }
}

/// The wanted keys as a dump in a file without a name, with its size in bytes.
pub(super) fn write_scratch(
    archive: &Archive<impl Store>,
    time_s: u64,
    selection: &Selection,
) -> io::Result<(Found, File, u64)> {
    let folder = Temporary::new()?;
    let path = folder.path.join("keys.rdb");
    let file = File::create(&path)?;
    let found = write(archive, time_s, selection, BufWriter::with_capacity(super::BUFFER_BYTES, &file))?;
    let bytes = file.metadata()?.len();
    Ok((found, File::open(&path)?, bytes))
}
