//! Loading the append-only file: the base, then the increments, each command through its handler.
//!
//! Commands run without any of the checks that clients meet, and log nothing. Nothing expires meanwhile: what
//! had expired when the log was written was removed by a command of the log. The commands of a transaction
//! are run once its end has been read, so one that the file does not hold whole leaves no trace.
//!
//! A file that ends within a command or a transaction, as a crash leaves it, is truncated there if it is the
//! last one and `aof-load-truncated` allows it; any other damage stops the start. No file is changed then.
//! Zeros where a command should begin, or within a line, are such damage, as in Redis 8.2. A power loss can
//! leave them with another policy than `always`, where a file's length became durable before its pages did.

use mantissa_sys::clock;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mantissa_commands::{Access, parse};
use mantissa_persist::aof::preallocation::{self, Patches};
use mantissa_persist::aof::{AofError, Item, Manifest, Position, Reader};
use mantissa_persist::delay::KeyDelay;
use mantissa_persist::storage::{Storage, directory_of};
use mantissa_persist::write::ReplicationFacts;
use mantissa_protocol::{Args, OwnedArgs};

use crate::active_config::ActiveConfig;
use crate::call::{self, Call};
use crate::context::Context;
use crate::engine::Engine;
use crate::loading::{self, Present};
use crate::replay::{self, Origin};
use crate::session::Session;
use crate::state::aof::Files;
use crate::tier::offload;
use crate::{notice, warning};

/// Commands between two looks at the clock.
const PROGRESS_COMMANDS: u64 = 10_000;
/// Seconds between two messages about the progress.
const PROGRESS_SECONDS: u64 = 2;

/// What the files say beside the data.
pub struct Loaded {
    /// Where replication stands at their end.
    pub replication: Option<ReplicationFacts>,
}

/// Loads all files that there are. `None` if there are none.
///
/// With `access`, in which all shards are locked, everything is put there, in the place of nothing.
pub fn load(engine: &Engine, mut access: Option<&mut Access<'_>>) -> Result<Option<Loaded>, String> {
    let active = engine.active_config();
    let storage = &*engine.storage;
    let mut files = Files::find(storage, &active.config)?;
    adopt_old_file(storage, &active, &mut files)?;
    let names: Vec<_> = files.manifest.files().map(|file| file.name.clone()).collect();
    if names.is_empty() {
        return Ok(None);
    }
    let mut position = Position::default();
    let started = clock::now();
    for (number, name) in names.iter().enumerate() {
        let path = files.path(name);
        if !storage.exists(&path).unwrap_or(false) {
            return Err(format!(
                "The AOF file {} is named in the manifest but does not exist: No such file or directory",
                path.display()
            ));
        }
        let is_base = number == 0 && files.manifest.base.is_some();
        let is_last = number + 1 == names.len();
        load_file(engine, access.as_deref_mut(), &path, is_base, is_last, &mut position)?;
    }
    notice!("DB loaded from append only file: {:.3} seconds", clock::since(started).as_secs_f64());
    Ok(Some(Loaded { replication: position.facts() }))
}

/// The bytes of all files that [`load`] would load; `None` if there are none, or they can not be told.
pub fn byte_count(engine: &Engine) -> Option<u64> {
    let (active, storage) = (engine.active_config(), &*engine.storage);
    let files = Files::find(storage, &active.config).ok()?;
    if let Some(old) = old_file(storage, &active, &files) {
        return Some(storage.length_of(&old));
    }
    let lengths = files.manifest.files().map(|file| storage.length_of(&files.path(&file.name)));
    lengths.reduce(|sum, length| sum + length)
}

/// An append-only file as Redis wrote it before version 7, if it is to be taken over.
fn old_file(storage: &dyn Storage, active: &ActiveConfig, files: &Files) -> Option<PathBuf> {
    let old = Path::new(&active.config.dir).join(&files.name);
    let is_known = |files: &Files| match (&files.manifest.base, files.manifest.increments.is_empty()) {
        (None, is_empty) => !is_empty,
        (Some(base), is_empty) => {
            let is_moved = || storage.exists(&files.path(&files.name)).unwrap_or(false);
            base.name != files.name || !is_empty || is_moved()
        }
    };
    (storage.is_file(&old) && !is_known(files)).then_some(old)
}

/// Takes over such a file, if there is one.
fn adopt_old_file(storage: &dyn Storage, active: &ActiveConfig, files: &mut Files) -> Result<(), String> {
    let Some(old) = old_file(storage, active, files) else { return Ok(()) };
    let failed = |error: io::Error| format!("The AOF file {} can not be moved: {error}", old.display());
    storage.create_directory(&files.directory).map_err(failed)?;
    files.manifest = Manifest::of_old_file(files.name.clone());
    files.store(storage)?;
    let new = files.path(&files.name);
    storage.rename(&old, &new).map_err(failed)?;
    storage.sync_directory(&files.directory).map_err(failed)?;
    storage.sync_directory(directory_of(&old)).map_err(failed)?;
    notice!("Successfully migrated an old-style AOF file {} to {}", old.display(), new.display());
    Ok(())
}

/// Loads one file.
fn load_file(
    engine: &Engine,
    mut access: Option<&mut Access<'_>>,
    path: &Path,
    is_base: bool,
    is_last: bool,
    position: &mut Position,
) -> Result<(), String> {
    let unreadable = |error: io::Error| format!("The AOF file {} can not be read: {error}", path.display());
    let storage = &*engine.storage;
    let mut start = 0;
    if is_base && mantissa_persist::aof::has_preamble(storage, path).map_err(unreadable)? {
        let summary = match access.as_deref_mut() {
            None => loading::load_file(engine, &engine.keyspace, path, Present::None, true)?,
            Some(access) => loading::load_base(engine, access, path)?,
        };
        start = summary.bytes;
        position.behind_base(summary.replication.as_ref());
        notice!("Reading RDB base file on AOF loading...");
    }
    let mut file = storage.open(path).map_err(unreadable)?;
    let total = file.length().map_err(unreadable)?;
    if start == total {
        return Ok(());
    }
    file.go_to(start).map_err(unreadable)?;
    let mut reader = Reader::resume(Vec::new(), file, start, total);
    let mut replayer = Replayer::new(engine, access, path.to_owned());
    position.begin_file();
    match replayer.run(&mut reader, total, position) {
        Ok(()) if is_last => trim(storage, path, total, reader.whole_end(), reader.patches()),
        Ok(()) => Ok(()),
        Err(AofError::Truncated { whole, reason }) if is_last => {
            truncate(engine, path, whole, &reason, reader.patches())
        }
        Err(AofError::Truncated { whole, reason }) => Err(format!(
            "The AOF file {} is truncated: {reason}. It is whole up to byte {whole}, but it is not the last \
             one, so what follows it can't be loaded without the rest. {}",
            path.display(),
            repair(path)
        )),
        Err(AofError::Damaged { offset, reason }) if replayer.has_refused => Err(format!(
            "{} reading the append only file {} at byte {offset}. Make a backup of your AOF file, then {}",
            capitalized(&reason),
            path.display(),
            repair(path)
        )),
        Err(error) => Err(format!(
            "Bad file format reading the append only file {}: {error}. Make a backup of your AOF file, then \
             {}",
            path.display(),
            repair(path)
        )),
    }
}

fn capitalized(text: &str) -> String {
    let (first, rest) = text.split_at(text.chars().next().map_or(0, char::len_utf8));
    first.to_uppercase() + rest
}

/// What to do about a damaged file.
fn repair(path: &Path) -> String {
    format!("look at it with `mantissa check aof {0}`, or use `mantissa check aof --fix {0}`", path.display())
}

/// Truncates the last file where it is whole, if that is allowed.
fn truncate(engine: &Engine, path: &Path, whole: u64, reason: &str, patches: &Patches) -> Result<(), String> {
    if !engine.active_config().config.aof_load_truncated {
        return Err(format!(
            "Unexpected end of file reading the append only file {}: {reason}. You can: 1) Make a backup of \
             your AOF file, then use `mantissa check aof --fix {0}`. 2) Alternatively you can set the \
             'aof-load-truncated' configuration option to yes and restart the server.",
            path.display()
        ));
    }
    warning!("!!! Warning: short read while loading the AOF file {}: {reason} !!!", path.display());
    warning!("AOF loaded anyway because aof-load-truncated is enabled");
    truncate_file(&*engine.storage, path, whole, patches)
        .map_err(|error| format!("Error truncating the AOF file {}: {error}", path.display()))?;
    warning!("Truncating the AOF file {} to {whole} bytes", path.display());
    Ok(())
}

fn truncate_file(storage: &dyn Storage, path: &Path, length: u64, patches: &Patches) -> io::Result<()> {
    preallocation::truncate(&mut *storage.append(path)?, length, patches)
}

/// Truncates the last file by what is preallocated, and changes what must be before anything is written on.
fn trim(storage: &dyn Storage, path: &Path, total: u64, whole: u64, patches: &Patches) -> Result<(), String> {
    if whole == total && patches.is_empty() {
        return Ok(());
    }
    truncate_file(storage, path, whole, patches)
        .map_err(|error| format!("Error trimming the AOF file {}: {error}", path.display()))
}

/// Runs the commands of a file.
struct Replayer<'a, 'k, 'e> {
    context: Context<'e>,
    /// All shards, where they are locked already.
    access: Option<&'a mut Access<'k>>,
    session: Session,
    path: PathBuf,
    /// The commands of the transaction at hand.
    transaction: Option<Vec<OwnedArgs>>,
    /// A whole command could not be run.
    has_refused: bool,
    shown: Instant,
}

impl<'a, 'k, 'e> Replayer<'a, 'k, 'e> {
    fn new(engine: &'e Engine, access: Option<&'a mut Access<'k>>, path: PathBuf) -> Self {
        let mut context = Context::new(engine, engine.worker_count());
        context.is_loading = true;
        let session = replay::session(&context);
        Replayer {
            context,
            access,
            session,
            path,
            transaction: None,
            has_refused: false,
            shown: clock::now(),
        }
    }

    fn run(
        &mut self,
        reader: &mut Reader<impl Read>,
        total: u64,
        position: &mut Position,
    ) -> Result<(), AofError> {
        let (mut count, mut reported) = (0, reader.offset());
        while let Some(item) = reader.next_item()? {
            position.see(&item);
            if let Item::Command(args) = item
                && let Err(reason) = self.take(args)
            {
                self.has_refused = true;
                return Err(AofError::Damaged { offset: reader.item_offset(), reason });
            }
            position.pass(reader.offset() - reader.item_offset(), reader.in_transaction());
            count += 1;
            KeyDelay(self.context.active.config.key_load_delay).wait();
            if count % PROGRESS_COMMANDS == 0 {
                self.context.refresh();
                self.context.engine.persistence.load.loaded(reader.offset() - reported);
                reported = reader.offset();
                self.show_progress(reported, total);
                self.make_room();
            }
        }
        Ok(())
    }

    /// Moves values to disk where memory is full: nobody else does so while data are loaded.
    fn make_room(&mut self) {
        let limit = self.context.active.config.maxmemory;
        if limit > 0 && self.access.is_none() {
            offload::make_room(&mut self.context, limit, Duration::MAX, |_| false);
        }
    }

    fn show_progress(&mut self, offset: u64, total: u64) {
        if clock::since(self.shown).as_secs() >= PROGRESS_SECONDS {
            self.shown = clock::now();
            let percent = offset as f64 * 100.0 / total.max(1) as f64;
            notice!("Loading {}: {percent:.0} % of {total} bytes", self.path.display());
        }
    }

    /// Runs a command, or keeps it until the end of its transaction. An error says why it can not be run.
    fn take(&mut self, args: Args<'_>) -> Result<(), String> {
        let name = args.get(0).unwrap_or_default();
        if parse::is(name, "MULTI") {
            self.transaction = Some(Vec::new());
            return Ok(());
        }
        if parse::is(name, "EXEC") {
            for queued in self.transaction.take().unwrap_or_default() {
                self.execute(queued.as_args())?;
            }
            return Ok(());
        }
        if ["PING", "REPLCONF", "PUBLISH", "SPUBLISH"].iter().any(|other| parse::is(name, other)) {
            // The log of a replica has all that its primary has sent. Messages were for who listened then.
            return Ok(());
        }
        match &mut self.transaction {
            Some(transaction) => transaction.push(args.to_owned()),
            None => self.execute(args)?,
        }
        Ok(())
    }

    fn execute(&mut self, args: Args<'_>) -> Result<(), String> {
        let command = replay::command_of(&mut self.context, args)?;
        let access = self.access.as_deref_mut();
        let outcome = call::replay(&mut self.context, &mut self.session, access, Call::new(command, args));
        match outcome {
            Ok(()) => Ok(()),
            Err(error) => replay::note_failure(&self.context, Origin::File, &command.name, &error.text()),
        }
    }
}
