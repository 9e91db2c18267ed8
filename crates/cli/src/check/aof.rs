//! Checking an append-only file, and truncating its last file where the end is damaged or too new.
//!
//! The lines about files are those of redis-check-aof, and so are the exit codes: 0 if everything is valid or
//! has been made so, else 1. Only the last file may be truncated: what comes in later files builds on those
//! before. Before a file is truncated a copy is made and made durable.

use std::ffi::OsString;
use std::io::{self, BufRead};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use mantissa_persist::aof::{has_preamble, preallocation};
use mantissa_persist::storage::{FileSystem, Storage, directory_of};

use super::analysis::{Analysis, Tally, analyze};
use super::{AofOptions, progress_bar};
use crate::aof_files::{AofPart, Role, parts_of};
use crate::output::{self, tell};

/// Why there is nothing more to do; printed to the error output.
struct Failure(io::Error);

impl Failure {
    fn new(reason: String) -> Self {
        Failure(io::Error::other(reason))
    }

    fn of_file(path: &Path, error: &io::Error) -> Self {
        Failure::new(format!("{}: {error}", path.display()))
    }
}

/// What cannot be printed ends the check, so that nothing is truncated without a word.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure(error)
    }
}

/// A file to check.
struct Target {
    path: PathBuf,
    /// How it is called in what is printed.
    name: String,
    role: Role,
    bytes: u64,
}

/// Checks, prints and repairs as the options ask for.
pub(super) fn check(options: &AofOptions) -> ExitCode {
    match Check::new(options).and_then(Check::run) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(Failure(error)) => output::fail(&error),
    }
}

struct Check<'a> {
    options: &'a AofOptions,
    storage: FileSystem,
    targets: Vec<Target>,
    is_old_style: bool,
    tally: Tally,
    /// The keys of bases, as lines.
    bases: Vec<String>,
}

impl<'a> Check<'a> {
    fn new(options: &'a AofOptions) -> Result<Self, Failure> {
        let storage = FileSystem;
        let parts = parts_of(&options.path).map_err(Failure::new)?;
        let is_old_style = parts.iter().any(|part| part.role == Role::OldStyle);
        let mut targets = Vec::new();
        for AofPart { path, name, role } in parts {
            let bytes = storage
                .open(&path)
                .and_then(|file| file.length())
                .map_err(|error| Failure::of_file(&path, &error))?;
            targets.push(Target { path, name, role, bytes });
        }
        let tally = Tally::new();
        Ok(Check { options, storage, targets, is_old_style, tally, bases: Vec::new() })
    }

    /// Whether everything is valid, or has been made so.
    fn run(mut self) -> Result<bool, Failure> {
        tell!("Start checking {} AOF", if self.is_old_style { "Old-Style" } else { "Multi Part" })?;
        let targets = std::mem::take(&mut self.targets);
        let bar = progress_bar(targets.iter().map(|target| target.bytes).sum());
        let mut before = 0;
        let mut has_increments = false;
        for (index, target) in targets.iter().enumerate() {
            let has_preamble = self.open(target, |storage| has_preamble(storage, &target.path))?;
            match target.role {
                Role::Base => {
                    let format = if has_preamble { "RDB" } else { "RESP" };
                    bar.suspend(|| tell!("Start to check BASE AOF ({format} format)."))?;
                }
                Role::Increment if !has_increments => {
                    has_increments = true;
                    bar.suspend(|| tell!("Start to check INCR files."))?;
                }
                _ => {}
            }
            let input = self.open(target, |storage| storage.open(&target.path))?;
            let until_s = self.options.truncate_to_timestamp;
            let progress = |offset| bar.set_position(before + offset);
            let analysis = analyze(input, target.bytes, has_preamble, until_s, &mut self.tally, progress);
            before += target.bytes;
            self.note_base(&analysis);
            let is_last = index + 1 == targets.len();
            let is_valid = bar.suspend(|| self.settle(target, &analysis, is_last))?;
            if !is_valid {
                bar.finish_and_clear();
                self.print_summary()?;
                return Ok(false);
            }
        }
        bar.finish_and_clear();
        self.print_summary()?;
        if !self.is_old_style {
            tell!("All AOF files and manifest are valid")?;
        }
        Ok(true)
    }

    fn open<T>(&self, target: &Target, open: impl Fn(&FileSystem) -> io::Result<T>) -> Result<T, Failure> {
        open(&self.storage).map_err(|error| Failure::of_file(&target.path, &error))
    }

    /// Says what a file is like and repairs it where that is asked for; whether it is valid then.
    fn settle(&self, target: &Target, analysis: &Analysis, is_last: bool) -> Result<bool, Failure> {
        let name = &target.name;
        let label = match target.role {
            Role::Base => "BASE AOF",
            Role::Increment => "INCR AOF",
            Role::OldStyle => "AOF",
        };
        if target.bytes == 0 {
            tell!("{label} {name} is empty")?;
            return Ok(true);
        }
        if analysis.preamble.is_some() && !analysis.is_preamble_damaged() {
            tell!("RDB preamble is OK, proceeding with AOF tail...")?;
        }
        if let (Some(until_s), None) = (self.options.truncate_to_timestamp, &analysis.damage) {
            if analysis.truncation.is_none() {
                tell!("Truncate nothing in AOF {name} to timestamp {until_s}")?;
                tell!("{label} {name} is valid")?;
                return Ok(true);
            }
            return self.truncate_to_time(target, analysis, until_s, is_last);
        }
        if let Some(damage) = &analysis.damage {
            tell!("AOF {name}: {damage}")?;
        }
        let Analysis { bytes, whole_end, .. } = *analysis;
        tell!(
            "AOF analyzed: filename={name}, size={bytes}, ok_up_to={whole_end}, ok_up_to_line={}, diff={}",
            self.tally.line,
            bytes - whole_end
        )?;
        if analysis.damage.is_none() {
            if whole_end < bytes {
                tell!("AOF {name}: its last {} bytes are preallocated for more", bytes - whole_end)?;
            }
            tell!("{label} {name} is valid")?;
            return Ok(true);
        }
        if analysis.is_preamble_damaged() {
            tell!("The RDB part of AOF {name} is damaged: this cannot be repaired by cutting.")?;
            return Ok(false);
        }
        if !self.options.fix {
            tell!("AOF {name} is not valid. Use the --fix option to try fixing it.")?;
            return Ok(false);
        }
        if !is_last {
            tell!("Failed to truncate AOF {name} because it is not the last file")?;
            self.explain_order(target)?;
            return Ok(false);
        }
        self.repair(target, analysis)
    }

    fn truncate_to_time(
        &self,
        target: &Target,
        analysis: &Analysis,
        until_s: i64,
        is_last: bool,
    ) -> Result<bool, Failure> {
        let (name, length) = (&target.name, analysis.whole_end);
        if length == 0 {
            tell!("AOF {name} has nothing before timestamp {until_s}, aborting...")?;
            return Ok(false);
        }
        if !is_last {
            tell!(
                "Failed to truncate AOF {name} to timestamp {until_s} to offset {length} because it is not \
                 the last file."
            )?;
            self.explain_order(target)?;
            return Ok(false);
        }
        self.truncate(target, analysis, &format!(" to timestamp {until_s}"))
    }

    fn explain_order(&self, target: &Target) -> io::Result<()> {
        tell!(
            "The files after it build on it. To give them up, remove their lines from the manifest, move \
             them away, and check again; then {} can be truncated.",
            target.name
        )
    }

    /// Asks, and truncates the file where it is whole. True if that was done.
    fn repair(&self, target: &Target, analysis: &Analysis) -> Result<bool, Failure> {
        let Target { name, bytes, .. } = target;
        let length = analysis.whole_end;
        let lost = bytes - length;
        tell!("This will shrink the AOF {name} from {bytes} bytes, with {lost} bytes, to {length} bytes")?;
        if !self.options.yes && !confirmed() {
            tell!("Aborting...")?;
            return Ok(false);
        }
        self.truncate(target, analysis, "")
    }

    /// Keeps a copy, and truncates the file where it is whole. True if that was done.
    fn truncate(&self, target: &Target, analysis: &Analysis, to_what: &str) -> Result<bool, Failure> {
        let (Target { path, name, .. }, length) = (target, analysis.whole_end);
        let failed =
            |what: &str, error: &io::Error| Failure::new(format!("Failed to {what} AOF {name}: {error}"));
        let copy = self.copy_path(path).map_err(|error| failed("copy", &error))?;
        self.storage
            .copy(path, &copy)
            .and_then(|_| self.storage.sync_directory(directory_of(&copy)))
            .map_err(|error| failed("copy", &error))?;
        tell!("The file as it was is kept as {}", copy.display())?;
        let mut file = self.storage.append(path).map_err(|error| failed("truncate", &error))?;
        preallocation::truncate(&mut *file, length, &analysis.patches)
            .map_err(|error| failed("truncate", &error))?;
        tell!("Successfully truncated AOF {name}{to_what}")?;
        Ok(true)
    }

    /// A name beside `path` that is free.
    fn copy_path(&self, path: &Path) -> io::Result<PathBuf> {
        for number in 1_u64.. {
            let mut name = path.file_name().map(OsString::from).unwrap_or_default();
            name.push(format!(".before-fix-{number}"));
            let copy = path.with_file_name(name);
            if !self.storage.exists(&copy)? {
                return Ok(copy);
            }
        }
        Err(io::Error::from(io::ErrorKind::AlreadyExists))
    }

    fn note_base(&mut self, analysis: &Analysis) {
        for ((database, kind), seen) in analysis.preamble.iter().flat_map(|report| &report.counter.seen) {
            let line =
                format!("base, database {database}: {} keys of type {kind}, {} bytes", seen.keys, seen.bytes);
            self.bases.push(line);
        }
    }

    fn print_summary(&self) -> io::Result<()> {
        for line in &self.bases {
            tell!("{line}")?;
        }
        let mut last = None;
        for ((database, kind), count) in &self.tally.commands {
            if last.replace(database) != Some(database) {
                tell!("commands, database {database}: they name {}", self.tally.keys_of(*database))?;
            }
            tell!("commands, database {database}: {count} on type {kind}")?;
        }
        if self.tally.transactions > 0 {
            tell!("transactions: {}", self.tally.transactions)?;
        }
        if let Some((first_s, last_s)) = self.tally.times_s {
            tell!("timestamps: {first_s} to {last_s}")?;
        }
        Ok(())
    }
}

fn confirmed() -> bool {
    let mut answer = String::new();
    // Without an answer the answer is no.
    let read = output::print(b"Continue? [y/N]: ").and_then(|()| io::stdin().lock().read_line(&mut answer));
    read.is_ok() && answer.starts_with(['y', 'Y'])
}
