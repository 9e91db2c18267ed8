//! The command line of `mantissa probe`.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// Measure what this machine can do
///
/// Memory, caches, system calls, clocks, instruction sets, loopback round trips and the disk are measured for
/// about 30 seconds. Nothing is changed, and nothing remains on the disk. Other programs that run meanwhile
/// make the figures worse.
#[derive(Parser, Debug)]
#[command(name = "mantissa probe", bin_name = "mantissa probe", version, disable_help_flag = true)]
pub(crate) struct ProbeOptions {
    /// Take about 5 seconds, with less memory and a smaller file
    #[arg(long)]
    pub(crate) quick: bool,
    /// Measure for about so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) seconds: Option<u64>,
    /// Measure these only
    #[arg(long, value_name = "PART,...", value_delimiter = ',')]
    pub(crate) only: Vec<Area>,
    /// The folder for the file that the disk is measured with
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pub(crate) folder: PathBuf,
    /// Bytes of that file, in MiB
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=65_536))]
    pub(crate) file_size: Option<u64>,
    /// Memory to measure with, in MiB; else twelve times the last cache, a quarter of what is free at most
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=65_536))]
    pub(crate) memory: Option<u64>,
    /// Also measure a server: HOST:PORT, redis://USER:PASSWORD@HOST:PORT/DATABASE or the path of a socket
    ///
    /// Keys that begin with `mantissa:probe:` are written there, and deleted afterwards. REDISCLI_AUTH may
    /// have the password.
    #[arg(long, value_name = "PLACE")]
    pub(crate) server: Option<String>,
    /// Show results as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a page with charts
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Print this help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

/// What can be measured by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Area {
    /// Bandwidth, cache lines, latency, huge pages
    Memory,
    /// System calls and clocks
    System,
    /// Instruction sets and energy
    Simd,
    /// Loopback round trips
    Network,
    /// The disk
    Disk,
}

impl ProbeOptions {
    /// Whether an area is to be measured.
    pub(crate) fn wants(&self, area: Area) -> bool {
        self.only.is_empty() || self.only.contains(&area)
    }
}
