//! `mantissa archive`: snapshots of servers in a folder, equal data stored once.
//!
//! Files that it writes appear when they are whole. Progress is shown on terminals only.

mod keys_in_time;
mod options;
mod point_in_time;
mod repair;
mod show;
mod time;

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, PipeWriter, Read, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Parser;
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use mantissa_archive::{Archive, KeyFile, Origin, Segment, Snapshot, Store, store_at};
use mantissa_sys::process;

use self::options::{Create, Export, Init, List, Place, Prune, Restore, Show, Verify, What};
use crate::connection::Address;
use crate::mode;
use crate::output::{self, tell};
use crate::target::Target;
use crate::transfer::{self, ImportOptions};
use crate::usage;
use crate::whole_file::{self, named};

pub(crate) use self::options::ArchiveOptions;

/// How often the progress is drawn anew.
const DRAW_INTERVAL: Duration = Duration::from_millis(200);
const BUFFER_BYTES: usize = 256 << 10;

/// Runs it with these arguments, of which the first is the name it was called by.
pub fn run(args: impl Iterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.collect();
    let options = match ArchiveOptions::try_parse_from(&args) {
        Ok(options) => options,
        Err(error) => return usage::explain::<ArchiveOptions>(&args, &error),
    };
    let done = match options.what {
        What::Init(options) => init(&options),
        What::Create(options) => create(&options),
        What::List(options) => list(&options),
        What::Show(options) => show(&options),
        What::Restore(options) => restore(&options),
        What::Verify(options) => verify(&options),
        What::Repair(options) => repair::repair(&options),
        What::Prune(options) => prune(&options),
        What::Export(options) => export(&options),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => output::fail(&error),
    }
}

impl Place {
    fn open(&self) -> io::Result<Archive<Box<dyn Store>>> {
        let key = self.key_file.as_deref().map(KeyFile::read).transpose()?;
        Archive::open(store_at(&self.archive)?, key.as_ref())
    }
}

fn init(options: &Init) -> io::Result<bool> {
    let store = store_at(&options.archive)?;
    let Some(path) = &options.new_key_file else {
        Archive::init(store, None)?;
        tell!("made the archive {}", options.archive.display())?;
        return Ok(true);
    };
    let key = KeyFile::generate()?;
    write_secret(path, &key)?;
    if let Some(path) = &options.new_write_key_file {
        write_secret(path, &key.without_read())?;
    }
    Archive::init(store, Some(&key))?;
    tell!("made the archive {}, encrypted", options.archive.display())?;
    tell!("keep {} safe: without it nothing can be read", path.display())?;
    Ok(true)
}

/// Writes keys to a new file that nobody else can read.
fn write_secret(path: &Path, key: &KeyFile) -> io::Result<()> {
    let file = File::options().write(true).create_new(true).mode(0o600).open(path);
    let written = file.and_then(|mut file| {
        file.write_all(key.to_text().as_bytes())?;
        file.sync_all()
    });
    written.map_err(|error| named(path, error))
}

fn create(options: &Create) -> io::Result<bool> {
    let archive = options.place.open()?;
    let scratch = archive.scratch(env::temp_dir())?;
    let make = |dump: &mut dyn Read, source: &str, bytes: Option<u64>| {
        let source = options.source_name.as_deref().unwrap_or(source);
        let origin = Origin { source, tag: &options.tag, now_ms: &now_ms, bytes, folder: &scratch };
        let bar = bar("reading", bytes.unwrap_or(0));
        let mut is_reading = true;
        let made = archive.create(bar.wrap_read(dump), &origin, &mut |done, total| {
            if is_reading {
                is_reading = false;
                restart(&bar, "storing", total);
            }
            bar.set_position(done);
        });
        bar.finish_and_clear();
        made
    };
    let snapshot = match &options.source {
        None => {
            let target = options.target.target().map_err(io::Error::other)?;
            of_server(&target, |dump| make(dump, &source_of(&target.address), None))?
        }
        Some(path) if path == Path::new("-") => make(&mut io::stdin().lock(), "standard input", None)?,
        Some(path) => {
            let file = File::open(path).map_err(|error| named(path, error))?;
            let bytes = file.metadata()?;
            let bytes = bytes.is_file().then_some(bytes.len());
            make(&mut &file, &path.to_string_lossy(), bytes).map_err(|error| match error.kind() {
                io::ErrorKind::InvalidData => named(path, error),
                _ => error,
            })?
        }
    };
    let facts = &snapshot.facts;
    let [all, new, stored] = [facts.bytes, facts.new_bytes, facts.stored_bytes].map(show::size);
    let keys = HumanCount(facts.keys);
    tell!("{}: {keys} keys, {all}, of which {new} are new and take {stored}", snapshot.name)?;
    Ok(true)
}

/// The name of a server in an archive. One of this machine has the name that its own snapshots have: other
/// machines have a server at this address, too.
fn source_of(address: &Address) -> String {
    let is_here = |host: &str| {
        host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(|host: IpAddr| host.is_loopback())
    };
    let plain = address.plain();
    match address {
        Address::Tcp(host, port) | Address::Tls(host, port, _) if is_here(host) => {
            process::host_name().map_or(plain, |name| format!("{name}:{port}"))
        }
        Address::Unix(_) => {
            process::host_name().map_or_else(|| plain.clone(), |name| format!("{name}:{plain}"))
        }
        Address::Tcp(..) | Address::Tls(..) => plain,
    }
}

/// Calls `make` with a dump of a server, while it comes.
fn of_server(
    target: &Target,
    make: impl FnOnce(&mut dyn Read) -> io::Result<Snapshot>,
) -> io::Result<Snapshot> {
    let (mut reader, writer): (_, PipeWriter) = io::pipe()?;
    thread::scope(|scope| {
        let receiving =
            scope.spawn(move || mode::receive(target, &mut BufWriter::with_capacity(BUFFER_BYTES, writer)));
        let made = make(&mut reader);
        // Whoever still writes learns that nobody reads.
        drop(reader);
        let received = receiving.join().map_err(|_| io::Error::other("receiving the dump failed"))?;
        match (made, received) {
            (Ok(snapshot), _) => Ok(snapshot),
            (Err(error), Err(reason)) if reason.kind() == io::ErrorKind::BrokenPipe => Err(error),
            (Err(_), Err(reason)) => Err(reason),
            (Err(error), Ok(())) => Err(error),
        }
    })
}

fn list(options: &List) -> io::Result<bool> {
    let (mut out, mut is_whole) = (String::new(), true);
    let archive = options.place.open()?;
    let snapshots = archive.each_snapshot()?;
    if !options.json && !snapshots.is_empty() {
        out += &format!("{}\n", show::HEADING);
    }
    for (name, snapshot) in snapshots {
        match snapshot {
            Ok(snapshot) if options.json => out += &format!("{}\n", show::object(&snapshot)),
            Ok(snapshot) => out += &format!("{}\n", show::line(&snapshot)),
            Err(error) => {
                is_whole = false;
                eprintln!("{name}: {error}");
            }
        }
    }
    if !options.json {
        let segments = segments(&archive, &mut is_whole)?;
        segments.chunk_by(Segment::is_followed_by).for_each(|range| out += &show::range(range));
    }
    output::print(out.as_bytes())?;
    Ok(is_whole)
}

/// The segments of the log that can be read. Names the others, without which the archive is not whole.
fn segments(archive: &Archive<impl Store>, is_whole: &mut bool) -> io::Result<Vec<Segment>> {
    let (segments, damage) = archive.readable_segments()?;
    *is_whole &= damage.is_empty();
    damage.iter().for_each(|error| eprintln!("{error}"));
    Ok(segments)
}

fn show(options: &Show) -> io::Result<bool> {
    let snapshot = options.place.open()?.find(&options.snapshot)?;
    if options.json {
        tell!("{}", show::object(&snapshot))?;
    } else {
        tell!("{}", show::page(&snapshot))?;
    }
    Ok(true)
}

fn restore(options: &Restore) -> io::Result<bool> {
    let archive = options.place.open()?;
    let name = options.snapshot.as_deref().unwrap_or_default();
    if let Some(time_s) = options.at {
        return restore_at(options, &archive, time_s);
    }
    let snapshot = archive.find(name)?;
    let (selection, bytes) = (options.selection(), snapshot.facts.bytes);
    let Some(path) = &options.file else {
        let target = options.target.target().map_err(io::Error::other)?;
        let import = ImportOptions::for_dump(options.replace).map_err(io::Error::other)?;
        let expected = if selection.is_all() { bytes } else { 0 };
        let store = |dump| transfer::restore(dump, expected, &target, &import);
        let (restored, is_whole) = archive.read(&snapshot, &selection, &mut |_| {}, store)?;
        return Ok(tell_gaps(restored.gaps) && is_whole);
    };
    let bar = bar("restoring", bytes);
    let restored = whole_file::write(path, |out| {
        archive.restore(&snapshot, &selection, out, &mut |done| bar.set_position(done))
    })?;
    bar.finish_and_clear();
    tell_written(path, restored.keys)?;
    Ok(tell_gaps(restored.gaps))
}

/// Says how much was left out; whether nothing was.
fn tell_gaps(gaps: usize) -> bool {
    match gaps {
        0 => {}
        1 => eprintln!("left out what is lost at one place"),
        gaps => eprintln!("left out what is lost at {gaps} places"),
    }
    gaps == 0
}

/// Restores the state of a second into a folder, or keys of it as those of a snapshot.
fn restore_at(options: &Restore, archive: &Archive<impl Store>, time_s: u64) -> io::Result<bool> {
    let (selection, path) = (options.selection(), options.snapshot.as_deref().map(Path::new));
    if selection.is_all() {
        let folder = path.ok_or_else(|| {
            io::Error::other("--at takes a folder: mantissa archive restore ARCHIVE --at TIME FOLDER")
        })?;
        tell!("{}", point_in_time::restore(archive, time_s, folder)?)?;
        return Ok(true);
    }
    let (found, is_whole) = match path {
        Some(path) => {
            let found = whole_file::write(path, |out| keys_in_time::write(archive, time_s, &selection, out))?;
            tell_written(path, found.keys)?;
            (found, true)
        }
        None => {
            let target = options.target.target().map_err(io::Error::other)?;
            let import = ImportOptions::for_dump(options.replace).map_err(io::Error::other)?;
            let (found, dump, bytes) = keys_in_time::write_scratch(archive, time_s, &selection)?;
            let is_whole = transfer::restore(dump, bytes, &target, &import)?;
            (found, is_whole)
        }
    };
    if path != Some(Path::new("-")) {
        tell!("from {}{}", found.snapshot.name, point_in_time::reached(&found.replayed, time_s))?;
    }
    Ok(is_whole)
}

fn export(options: &Export) -> io::Result<bool> {
    let archive = options.place.open()?;
    let snapshot = archive.find(&options.snapshot)?;
    let bar = bar("exporting", snapshot.facts.bytes);
    let exported = whole_file::write(&options.file, |out| {
        archive.export(&snapshot, out, &mut |done| bar.set_position(done))
    })?;
    bar.finish_and_clear();
    tell_written(&options.file, exported.keys)?;
    Ok(true)
}

fn tell_written(path: &Path, keys: u64) -> io::Result<()> {
    if path == Path::new("-") {
        return Ok(());
    }
    tell!("wrote {} keys to {}", HumanCount(keys), path.display())
}

fn verify(options: &Verify) -> io::Result<bool> {
    let archive = options.place.open()?;
    let snapshots = if options.snapshots.is_empty() {
        archive.each_snapshot()?
    } else {
        options.snapshots.iter().map(|name| (name.clone(), archive.find(name))).collect()
    };
    let (mut is_whole, mut is_damaged) = (true, false);
    for (name, snapshot) in snapshots {
        let checked = snapshot.and_then(|snapshot| {
            let bar = bar("verifying", snapshot.facts.bytes);
            let checked = archive.verify(&snapshot, &mut |done| bar.set_position(done));
            bar.finish_and_clear();
            checked.map(|checked| (snapshot.name, checked))
        });
        match checked {
            Ok((name, checked)) => tell!("{name}: {} keys are right", HumanCount(checked.keys))?,
            Err(error) => {
                is_whole = false;
                is_damaged |= error.kind() == io::ErrorKind::InvalidData;
                eprintln!("{name}: {error}");
            }
        }
    }
    if is_damaged {
        eprintln!(
            "`mantissa archive repair` removes what is damaged, so that the next snapshot stores it anew"
        );
    }
    if options.snapshots.is_empty() {
        for segment in segments(&archive, &mut is_whole)? {
            if let Err(error) = archive.frames(&segment) {
                is_whole = false;
                eprintln!("{error}");
            }
        }
    }
    Ok(is_whole)
}

fn prune(options: &Prune) -> io::Result<bool> {
    let pruned = options.place.open()?.prune(&options.retention(now_ms() / 1000), !options.dry_run)?;
    let removed = if options.dry_run { "would remove" } else { "removed" };
    for name in &pruned.snapshots {
        tell!("{removed} {name}")?;
    }
    let (snapshots, packs) = (pruned.snapshots.len(), pruned.packs);
    let (bytes, kept) = (show::size(pruned.bytes), pruned.kept);
    tell!("{removed} {snapshots} snapshots and {packs} packs, which frees {bytes}; {kept} snapshots stay")?;
    if pruned.rewritten > 0 {
        let moved = if options.dry_run { "would be" } else { "was" };
        tell!("what was needed of {} packs {moved} written to others", pruned.rewritten)?;
    }
    Ok(true)
}

/// The present as unix time in milliseconds.
fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

/// A bar on standard error, shown on terminals only.
fn bar(what: &'static str, bytes: u64) -> ProgressBar {
    let bar = ProgressBar::new(0).with_message(what);
    restart(&bar, what, bytes);
    bar.enable_steady_tick(DRAW_INTERVAL);
    bar
}

/// Begins a bar anew. No number of bytes means that nobody knows.
fn restart(bar: &ProgressBar, what: &'static str, bytes: u64) {
    let known = "{msg} {bar:30} {decimal_bytes}/{decimal_total_bytes}, {decimal_bytes_per_sec}, {eta} left";
    let unknown = "{msg} {spinner} {decimal_bytes}, {decimal_bytes_per_sec}";
    bar.reset();
    bar.set_message(what);
    bar.set_length(bytes);
    if let Ok(style) = ProgressStyle::with_template(if bytes > 0 { known } else { unknown }) {
        bar.set_style(style);
    }
}
