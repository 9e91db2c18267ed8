//! `mantissa import` and `mantissa export`: data from and to servers and files.
//!
//! A live server is copied by SCAN, DUMP and RESTORE over several pairs of connections; values travel as they
//! are, with the time at which they expire. Keys that are written meanwhile arrive in one of their states.
//! Files are RDB, append-only files, JSON lines and CSV. A copy that was cut off goes on where it was
//! (`--resume`), and what arrived can be compared with what was sent (`--verify`).
//!
//! | module | what it does |
//! | --- | --- |
//! | `options` | the command lines |
//! | `source` | the keys of a server, in batches |
//! | `sink` | keys into a server, in batches |
//! | `copy` | from server to server |
//! | `resume` | how far a copy has come, in a file |
//! | `verify` | comparing two servers |
//! | `beside` | libraries of functions and ACL users |
//! | `dump` | RDB files |
//! | `aof` | append-only files |
//! | `postpone` | keys that expire while the commands of an append-only file are run |
//! | `document`, `rows` | JSON and CSV as they stand in a file |
//! | `item` | values as text: JSON lines and CSV |
//! | `stream` | what a stream has beside its entries, as text |
//! | `text` | text files |
//! | `small` | small collections for text files, many at a time |

mod aof;
mod beside;
mod copy;
mod document;
mod dump;
mod item;
mod options;
mod postpone;
mod resume;
mod rows;
mod sink;
mod small;
mod source;
mod stream;
mod text;
mod verify;

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Parser;
use indicatif::{HumanCount, ProgressBar, ProgressState, ProgressStyle};

use self::beside::{LIBRARY, USER, counted, tell_what_export_drops};
use self::options::{FileForm, Place};
use self::sink::Tally;

pub(crate) use self::options::{ExportOptions, ImportOptions};
use crate::output::{self, tell};
use crate::target::Target;
use crate::usage;

/// How often the progress is drawn anew.
const DRAW_INTERVAL: Duration = Duration::from_millis(200);

/// Runs `mantissa import` with these arguments, of which the first is the name it was called by.
pub fn import(args: impl Iterator<Item = OsString>) -> ExitCode {
    finish(parse::<ImportOptions>(args), |options| {
        let target = options.target().map_err(io::Error::other)?;
        let source = options.source().map_err(io::Error::other)?;
        if let Place::File(path, form) = &source {
            options.refuse_for_file(path, *form).map_err(io::Error::other)?;
        }
        let start = Instant::now();
        let tally = match &source {
            Place::Server(source) => return copy::run(&options, source, &target),
            Place::File(path, FileForm::Rdb) => dump::import(&options, path, &target)?,
            Place::File(path, FileForm::Aof) => return aof::import(&options, path, &target),
            Place::File(path, form) => text::import(&options, path, *form, &target)?,
        };
        report("imported", &tally, start.elapsed())
    })
}

/// Runs `mantissa export` with these arguments, of which the first is the name it was called by.
pub fn export(args: impl Iterator<Item = OsString>) -> ExitCode {
    finish(parse::<ExportOptions>(args), |options| {
        let source = options.source().map_err(io::Error::other)?;
        let start = Instant::now();
        let destination = options.destination().map_err(io::Error::other)?;
        if let Place::File(_, form) = &destination {
            let is_text = matches!(form, FileForm::Json | FileForm::Csv);
            tell_what_export_drops(&source, is_text || options.is_part())?;
        }
        let tally = match destination {
            Place::Server(_) => {
                let text = "export writes files; `mantissa import` copies from one server to another";
                return Err(io::Error::other(text));
            }
            Place::File(path, FileForm::Rdb) => dump::export(&options, &source, &path, false)?,
            Place::File(path, FileForm::Aof) => aof::export(&options, &source, &path)?,
            Place::File(path, form) => text::export(&options, &source, &path, form)?,
        };
        if options.is_quiet() {
            return Ok(tally.failed == 0);
        }
        report("exported", &tally, start.elapsed())
    })
}

/// Writes all data of a server to an RDB file, or to standard output if the path is `-`.
pub(crate) fn save(source: &Target, path: &Path) -> io::Result<()> {
    let options = ExportOptions::for_dump(path).map_err(io::Error::other)?;
    let tally = dump::export(&options, source, path, false)?;
    match tally.first_error {
        Some(error) => Err(io::Error::other(error)),
        None => Ok(()),
    }
}

/// Writes all data of a server as a dump.
pub(crate) fn write_dump(source: &Target, out: &mut dyn io::Write) -> io::Result<()> {
    let options = ExportOptions::for_dump(Path::new("-")).map_err(io::Error::other)?;
    let tally = dump::write(&options, source, out, false)?;
    tally.first_error.map_or(Ok(()), |error| Err(io::Error::other(error)))
}

/// Stores a dump of about `bytes` bytes in a server, and says what was done; whether nothing failed.
pub(crate) fn restore(
    dump: impl io::Read,
    bytes: u64,
    target: &Target,
    options: &ImportOptions,
) -> io::Result<bool> {
    let start = Instant::now();
    let bar = progress(bytes, "bytes");
    let stored = dump::store(options, dump, None, target, None, &bar)?;
    bar.finish_and_clear();
    match stored.damage {
        None => report("restored", &stored.tally, start.elapsed()),
        Some(error) => {
            let text = format!("{error} ({} keys before that are stored)", stored.tally.stored);
            Err(io::Error::new(io::ErrorKind::InvalidData, text))
        }
    }
}

fn parse<T: Parser>(args: impl Iterator<Item = OsString>) -> Result<T, ExitCode> {
    let args: Vec<OsString> = args.collect();
    T::try_parse_from(&args).map_err(|error| usage::explain::<T>(&args, &error))
}

fn finish<T>(options: Result<T, ExitCode>, run: impl FnOnce(T) -> io::Result<bool>) -> ExitCode {
    let options = match options {
        Ok(options) => options,
        Err(code) => return code,
    };
    match run(options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => output::fail(&error),
    }
}

/// Says what was done; whether nothing failed.
fn report(done: &str, tally: &Tally, taken: Duration) -> io::Result<bool> {
    let seconds = taken.as_secs_f64();
    let mut what = format!("{} keys", tally.stored);
    for (count, noun) in [(tally.libraries, LIBRARY), (tally.users, USER)] {
        if count > 0 {
            what += &format!(", {}", counted(count, noun));
        }
    }
    let rate = speed(tally.stored as f64 / seconds.max(1e-9));
    // A shorter time says nothing of the speed.
    let rate = if seconds >= 0.1 { format!(" ({rate} keys/s)") } else { String::new() };
    let told = tell!("{done} {what} in {seconds:.2} seconds{rate}{}", tally.notes());
    if let Some(error) = &tally.first_error {
        eprintln!("The first failure: {error}");
    }
    told.map(|()| tally.is_complete())
}

/// A number for people, with three digits that count and its thousands apart.
fn speed(rate: f64) -> String {
    let digits = rate.max(1.0).log10().floor();
    let unit = 10_f64.powf((digits - 2.0).max(0.0));
    HumanCount(((rate / unit).round() * unit) as u64).to_string()
}

/// A bar on standard error, shown on terminals only.
fn progress(total: u64, unit: &str) -> ProgressBar {
    let bar = ProgressBar::new(total);
    let template =
        format!("{{bar:30}} {{human_pos}}/{{human_len}} {unit} ({{percent}} %), {{speed}}/s, {{eta}} left");
    if let Ok(style) = ProgressStyle::with_template(&template) {
        let per_second = |state: &ProgressState, out: &mut dyn std::fmt::Write| {
            // Writing to the screen's text does not fail.
            let _ = write!(out, "{}", speed(state.per_sec()));
        };
        bar.set_style(style.with_key("speed", per_second));
    }
    bar.enable_steady_tick(DRAW_INTERVAL);
    bar
}

/// The present, as unix time in milliseconds.
fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
