//! `mantissa check`: looks through files without a server, and repairs the ends of append-only files.

mod analysis;
mod aof;
mod kinds;
mod rdb;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};

use crate::usage;

/// Look through a file without a server.
#[derive(Parser, Debug)]
#[command(name = "mantissa check", bin_name = "mantissa check", version)]
pub(crate) struct CheckOptions {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Check a dump: the types and numbers of keys, the first damage
    Rdb {
        /// The file
        file: PathBuf,
        /// Show the result as JSON
        #[arg(long)]
        json: bool,
        /// List so many of the biggest keys, by their size in the file without compression
        #[arg(long, value_name = "NUMBER", default_value_t = 0)]
        top: usize,
    },
    /// Check an append-only file: what its commands are about, the first damage; and repair its end
    Aof(AofOptions),
}

/// What to do with an append-only file.
#[derive(Args, Debug)]
pub(crate) struct AofOptions {
    /// The directory, the manifest, or a single file
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// Truncate the last file behind its last whole command or transaction, if anything follows that
    #[arg(long)]
    fix: bool,
    /// Truncate the last file before the first command that was written after this time, in seconds of unix
    /// time; needs timestamps in the file (`aof-timestamp-enabled yes`)
    #[arg(long, value_name = "SECONDS", conflicts_with = "fix", allow_negative_numbers = true)]
    truncate_to_timestamp: Option<i64>,
    /// Truncate without asking
    #[arg(long)]
    yes: bool,
}

/// Runs `mantissa check` with these arguments, of which the first is the name it was called by.
pub fn check(args: impl Iterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.collect();
    let options = match CheckOptions::try_parse_from(&args) {
        Ok(options) => options,
        Err(error) if error.kind() == ErrorKind::InvalidSubcommand => {
            let word = args.get(1).map(|word| word.to_string_lossy()).unwrap_or_default();
            eprintln!(
                "What is '{word}'? Say `mantissa check rdb FILE` for a dump, `mantissa check aof PATH` for \
                 an append-only file."
            );
            return ExitCode::FAILURE;
        }
        Err(error) => return usage::explain::<CheckOptions>(&args, &error),
    };
    match options.what {
        What::Rdb { file, json, top } => rdb::check(&file, json, top),
        What::Aof(options) => aof::check(&options),
    }
}

/// A bar that shows how much of `total` bytes has been read; nothing where no terminal shows it.
fn progress_bar(total: u64) -> ProgressBar {
    let bar = ProgressBar::new(total);
    if let Ok(style) =
        ProgressStyle::with_template("{bar:30} {bytes}/{total_bytes}, {bytes_per_sec}, {eta} left")
    {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// The present, as unix time in milliseconds.
fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}
