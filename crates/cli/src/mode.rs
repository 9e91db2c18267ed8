//! What the program does besides running commands: mass insertion, listing and weighing keys, watching a
//! server, measuring latency, saving a dump.

mod dump;
mod keys;
mod latency;
mod pipe;
mod scan;
mod sizes;
mod spectrum;
mod stat;

pub(crate) use self::dump::receive;

use std::io::{self, IsTerminal};

use crate::options::Mode;
use crate::session::Session;

/// Runs a mode other than that of commands; whether it succeeded.
pub(crate) fn run(mode: Mode, mut session: Session) -> io::Result<bool> {
    let session = match mode {
        Mode::Pipe => return pipe::run(session),
        _ => &mut session,
    };
    match mode {
        Mode::Commands | Mode::Pipe => Ok(true),
        Mode::Scan => scan::run(session),
        Mode::BigKeys => keys::biggest(session, keys::Measure::Elements),
        Mode::MemoryKeys(samples) => keys::biggest(session, keys::Measure::Memory(samples)),
        Mode::KeyStatistics(top, samples) => sizes::run(session, top, samples),
        Mode::HotKeys => keys::hottest(session),
        Mode::Stat if io::stdout().is_terminal() => crate::dashboard::run(session),
        Mode::Stat => stat::run(session),
        Mode::Latency => latency::run(session),
        Mode::LatencyHistory => latency::history(session),
        Mode::LatencySpectrum => spectrum::run(session),
        Mode::IntrinsicLatency(seconds) => latency::intrinsic(seconds),
        Mode::Dump(path, functions_only) => dump::run(session, &path, functions_only),
        Mode::Replica => dump::follow(session),
    }
}
