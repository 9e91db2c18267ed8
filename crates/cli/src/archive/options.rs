//! The command line of `mantissa archive`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use mantissa_archive::{Retention, Selection};

use crate::target::TargetOptions;

/// Keep snapshots of servers in an archive, where equal data is stored once
///
/// An archive is a folder, or a bucket (`s3://BUCKET/PREFIX?endpoint=URL&region=NAME`).
/// Snapshots are made of dumps or of running servers; each of them is whole, and
/// takes room for what has changed only.
#[derive(Parser, Debug)]
#[command(name = "mantissa archive", bin_name = "mantissa archive", version)]
pub(crate) struct ArchiveOptions {
    #[command(subcommand)]
    pub(crate) what: What,
}

#[derive(Subcommand, Debug)]
pub(crate) enum What {
    /// Make an empty archive
    Init(Init),
    /// Make a snapshot of a dump or of a running server
    Create(Create),
    /// List the snapshots
    List(List),
    /// Say what is known of a snapshot
    Show(Show),
    /// Put a snapshot, or some of its keys, into a running server or into a dump
    Restore(Restore),
    /// Read snapshots as a server would, and compare their digests
    Verify(Verify),
    /// Remove what is damaged, so that the next snapshot stores it anew
    ///
    /// Reads all packs. What is whole of a damaged one is written to another pack, and the
    /// damaged one is removed. Snapshots that need what is lost are incomplete until a snapshot
    /// of the same data is made; they are named, with the keys that are between what is left.
    /// Manifests, indexes and segments of the log that can not be read are moved to `damaged/`
    /// in the archive: if another copy has them, put them back first. The exit code is 1 if a
    /// snapshot stays incomplete, or could not be read.
    Repair(Repair),
    /// Remove old snapshots, and what no snapshot needs
    Prune(Prune),
    /// Write a snapshot as a server would save it: an RDB file with compressed strings
    Export(Export),
}

/// Which archive.
#[derive(Args, Debug)]
pub(crate) struct Place {
    /// The folder or the bucket of the archive
    #[arg(value_name = "ARCHIVE")]
    pub(crate) archive: PathBuf,
    /// The file with the keys of an encrypted archive
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct Init {
    /// The folder, which is made if it is not there
    #[arg(value_name = "ARCHIVE")]
    pub(crate) archive: PathBuf,
    /// Encrypt, and write new keys to this file: who has it can read everything, and nobody can without it
    #[arg(long, value_name = "FILE")]
    pub(crate) new_key_file: Option<PathBuf>,
    /// Write keys to this file, too, with which snapshots can be made, listed and pruned, but not read
    #[arg(long, value_name = "FILE", requires = "new_key_file")]
    pub(crate) new_write_key_file: Option<PathBuf>,
}

#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct Create {
    #[command(flatten)]
    pub(crate) place: Place,
    /// The dump, or `-` for standard input; the server that the options name, if this is not given
    #[arg(value_name = "FILE")]
    pub(crate) source: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) target: TargetOptions,
    /// A word to know the snapshot by
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) tag: String,
    /// Whose snapshot it is; without this the host and the port of the server, or the file
    #[arg(long = "source", value_name = "TEXT")]
    pub(crate) source_name: Option<String>,
    /// Print this help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

#[derive(Args, Debug)]
pub(crate) struct List {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Print JSON: an object for each snapshot, one a line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Show {
    #[command(flatten)]
    pub(crate) place: Place,
    /// The beginning of its name, or of the digits at the end of the name, or `latest`
    #[arg(value_name = "SNAPSHOT", default_value = "latest")]
    pub(crate) snapshot: String,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct Restore {
    #[command(flatten)]
    pub(crate) place: Place,
    /// The beginning of its name, or of the digits at the end of the name, or `latest`
    #[arg(value_name = "SNAPSHOT", required_unless_present = "at")]
    pub(crate) snapshot: Option<String>,
    /// The state of this time: `2026-11-25T07:00:00Z`, or Unix time in seconds. In place of a snapshot comes
    /// a folder, in which a server with `appendonly yes` finds it as an append-only file; or, if keys are
    /// chosen, the dump to write or nothing
    #[arg(long, value_name = "TIME", value_parser = time_of, conflicts_with = "file")]
    pub(crate) at: Option<u64>,
    /// The dump to write, or `-` for standard output; the server that the options name, if this is not given
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Only this key; may be given several times
    #[arg(long = "only-key", value_name = "KEY")]
    only_keys: Vec<OsString>,
    /// Only keys that begin with this; may be given several times
    #[arg(long = "only-prefix", value_name = "PREFIX")]
    only_prefixes: Vec<OsString>,
    /// Only keys of this database
    #[arg(short = 'n', long, value_name = "NUMBER")]
    pub(crate) database: Option<u32>,
    /// Leave out what is lost of a snapshot that is damaged, and tell at how many places. The exit code is 1
    /// if anything was left out
    #[arg(long, conflicts_with = "at")]
    skip_lost: bool,
    /// Replace keys that are in the server already
    #[arg(long)]
    pub(crate) replace: bool,
    #[command(flatten)]
    pub(crate) target: TargetOptions,
    /// Print this help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

fn time_of(text: &str) -> Result<u64, String> {
    super::time::parse(text).ok_or_else(|| "it is no time such as 2026-11-25T07:00:00Z".to_owned())
}

impl Restore {
    /// What of the snapshot is wanted.
    pub(crate) fn selection(&self) -> Selection {
        let bytes = |words: &[OsString]| words.iter().map(|word| word.as_encoded_bytes().to_vec()).collect();
        let (keys, prefixes) = (bytes(&self.only_keys), bytes(&self.only_prefixes));
        Selection { database: self.database, keys, prefixes, skips_lost: self.skip_lost }
    }
}

#[derive(Args, Debug)]
pub(crate) struct Verify {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Snapshots, as for `show`; all of them, if none is named
    #[arg(value_name = "SNAPSHOT")]
    pub(crate) snapshots: Vec<String>,
}

#[derive(Args, Debug)]
pub(crate) struct Repair {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Only say what would be removed
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Prune {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Keep so many of the newest snapshots
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    keep_last: usize,
    /// Keep the newest snapshot of each hour, for so many hours that have one
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    keep_hourly: usize,
    /// Keep the newest snapshot of each day (UTC), for so many days that have one
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    keep_daily: usize,
    /// The same for weeks, which begin on Monday
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    keep_weekly: usize,
    /// The same for months
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    keep_monthly: usize,
    /// Remove what the log says of the time before so many days; 0 keeps all that follows a snapshot
    #[arg(long, value_name = "DAYS", default_value_t = 0)]
    keep_log: u64,
    /// Only say what would be removed
    #[arg(long)]
    pub(crate) dry_run: bool,
}

impl Prune {
    /// What to keep; all snapshots, if nothing is said.
    pub(crate) fn retention(&self, now_s: u64) -> Retention {
        let log_s = self.keep_log.saturating_mul(86_400);
        Retention {
            last: self.keep_last,
            hourly: self.keep_hourly,
            daily: self.keep_daily,
            weekly: self.keep_weekly,
            monthly: self.keep_monthly,
            log_since_s: if log_s > 0 { now_s.saturating_sub(log_s) } else { 0 },
        }
    }
}

#[derive(Args, Debug)]
pub(crate) struct Export {
    #[command(flatten)]
    pub(crate) place: Place,
    /// The beginning of its name, or of the digits at the end of the name, or `latest`
    #[arg(value_name = "SNAPSHOT")]
    pub(crate) snapshot: String,
    /// The file to write, or `-` for standard output
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}
