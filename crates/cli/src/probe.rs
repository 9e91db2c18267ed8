//! `mantissa probe`: what this machine can do.
//!
//! Every figure is a median of rounds with its interval. The time is bounded by the options, the memory by a
//! quarter of what is free; the file that the disk is measured with has no name while it is used. What a
//! machine does not have or does not tell (io_uring, RAPL, files in /sys) becomes a note.
//!
//! | module | what it does |
//! | --- | --- |
//! | `options` | the command line |
//! | `statistics` | rounds and their medians, the time that there is |
//! | `findings` | figures and curves in sections, as JSON |
//! | `memory`, `system`, `disk` | the measurements |
//! | `server` | a running server beside them |
//! | `advice` | what to change on this machine |
//! | `text`, `page` | the findings for people |

mod advice;
mod disk;
mod findings;
mod memory;
mod options;
mod page;
mod server;
mod statistics;
mod system;
mod text;

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Parser;
use indicatif::ProgressBar;
use signal_hook::consts::{SIGINT, SIGTERM};

use self::findings::{Findings, Section};
use self::options::Area;
pub(crate) use self::options::ProbeOptions;
use self::statistics::Pace;
use crate::benchmark::provenance::{command_line, now};
use crate::target::Target;
use crate::usage;

const SECONDS: u64 = 30;
const SECONDS_QUICK: u64 = 5;
const FILE_MIB: u64 = 256;
const FILE_MIB_QUICK: u64 = 32;
/// The exit code of a shell's command that SIGINT has ended.
const INTERRUPTED: u8 = 130;

/// Runs it with these arguments, of which the first is the name it was called by.
pub fn run(args: impl Iterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.collect();
    let options = match ProbeOptions::try_parse_from(&args) {
        Ok(options) => options,
        Err(error) => return usage::explain::<ProbeOptions>(&args, &error),
    };
    match run_with(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
        Err(error) if error.kind() == io::ErrorKind::Interrupted => ExitCode::from(INTERRUPTED),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run_with(options: &ProbeOptions) -> io::Result<()> {
    let ends = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&ends))?;
    }
    let seconds = options.seconds.unwrap_or(if options.quick { SECONDS_QUICK } else { SECONDS });
    let pace = Pace::new(Duration::from_secs(seconds), ends);
    let place = options.server.as_deref();
    let target = place.map(|place| Target::parse(place, None)).transpose().map_err(io::Error::other)?;
    if let Some(target) = &target {
        // Whether there is a server is better known before all is measured.
        target.open()?;
    }
    let mut findings = measure(options, &pace)?;
    if let Some(target) = &target {
        findings.sections.push(server::measure(&pace, target, &limits(&findings))?);
    }
    findings.advice = advice::of(&findings);
    if let Some(path) = &options.html {
        std::fs::write(path, page::write(&findings)).map_err(|error| {
            let text = format!("{}: {}", path.display(), crate::options::without_number(&error));
            io::Error::new(error.kind(), text)
        })?;
    }
    let has_colours = io::stdout().is_terminal() && !crate::dashboard::is_plain();
    let text = if options.json {
        format!("{:#}\n", findings.to_json())
    } else {
        text::write(&findings, has_colours)
    };
    crate::output::print(text.as_bytes())
}

/// Measures what the options ask for, and says on a terminal what is being measured.
fn measure(options: &ProbeOptions, pace: &Pace) -> io::Result<Findings> {
    let memory_bytes = match options.memory {
        Some(mib) => usize::try_from(mib << 20).map_err(io::Error::other)?,
        None => memory::memory_bytes(options.quick),
    };
    let file_bytes = options.file_size.unwrap_or(if options.quick { FILE_MIB_QUICK } else { FILE_MIB }) << 20;
    let bar = ProgressBar::new_spinner();
    bar.enable_steady_tick(Duration::from_millis(100));
    let mut sections = Vec::new();
    for (area, name) in [
        (Area::System, "system calls and clocks"),
        (Area::Simd, "instruction sets"),
        (Area::Network, "loopback round trips"),
        (Area::Memory, "memory"),
        (Area::Disk, "disk"),
    ] {
        if !options.wants(area) {
            continue;
        }
        bar.set_message(name);
        let measured: io::Result<Section> = match area {
            Area::System => system::calls(pace),
            Area::Simd => system::sums(pace),
            Area::Network => system::round_trips(pace),
            Area::Memory => memory::measure(pace, memory_bytes),
            Area::Disk => disk::measure(pace, &options.folder, file_bytes),
        };
        sections.push(measured.inspect_err(|_| bar.finish_and_clear())?);
    }
    bar.finish_and_clear();
    Ok(Findings { date: now(), command: command_line(), machine: machine(), sections, advice: Vec::new() })
}

/// What costs of a server are multiples of, as far as it was measured.
fn limits(findings: &Findings) -> Vec<server::Limit> {
    let trip = ["epoll", "io_uring"].map(|name| findings.best("network", name));
    let trip = trip.into_iter().flatten().reduce(f64::min);
    [
        ("round_trip", "round trip", trip),
        ("system_call", "system call", findings.best("system", "system_call")),
        ("load", "load from memory", findings.best("memory", "latency_small_pages")),
    ]
    .into_iter()
    .filter_map(|(name, words, nanoseconds)| Some((name, words, nanoseconds.filter(|one| *one > 0.0)?)))
    .collect()
}

/// What the machine is.
fn machine() -> Vec<(&'static str, String)> {
    let unknown = || "unknown".to_owned();
    let processor = std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    });
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    vec![
        ("processor", processor.unwrap_or_else(unknown)),
        ("processors", processors.to_string()),
        ("architecture", std::env::consts::ARCH.to_owned()),
        ("memory", findings::bytes(mantissa_sys::process::machine_memory_bytes() as f64)),
        ("kernel", system::line("/proc/sys/kernel/osrelease").unwrap_or_else(unknown)),
    ]
}
