//! What the program does besides running commands: mass insertion, listing and weighing keys, watching a
//! server, measuring latency, saving a dump.

mod dump;
mod keys;
pub(crate) mod latency;
mod pipe;
mod scan;
mod spectrum;
pub(crate) mod stat;

use std::io::{self, IsTerminal};

use mantissa_protocol::Value;

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
        Mode::HotKeys => keys::hottest(session),
        Mode::Stat if io::stdout().is_terminal() => crate::dashboard::run(session),
        Mode::Stat => stat::run(session),
        Mode::Latency => latency::run(session),
        Mode::LatencyHistory => latency::history(session),
        Mode::LatencySpectrum => spectrum::run(session),
        Mode::IntrinsicLatency(seconds) => latency::intrinsic(seconds),
        Mode::Dump(path, functions_only) => dump::run(session, &path, functions_only),
    }
}

/// The reply to a command that must not fail.
fn expect(session: &mut Session, command: &[impl AsRef<[u8]>]) -> io::Result<Value> {
    let reply = session.connection()?.ask(command)?;
    match reply.as_error() {
        Some(error) => Err(io::Error::other(String::from_utf8_lossy(error).into_owned())),
        None => Ok(reply),
    }
}

/// A batch of keys by SCAN.
pub(crate) struct Batch {
    /// Where the next batch begins; `0` means that there is none.
    pub(crate) next: Vec<u8>,
    /// The keys.
    pub(crate) keys: Vec<Vec<u8>>,
}

impl Batch {
    /// Takes the reply to SCAN apart.
    pub(crate) fn new(reply: Value) -> io::Result<Batch> {
        let parts: Option<[Value; 2]> = match reply {
            Value::Array(parts) => parts.try_into().ok(),
            _ => None,
        };
        let Some([Value::Bulk(next), Value::Array(keys)]) = parts else {
            let text = "the reply to SCAN is not a cursor and keys";
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        };
        let keys = keys.into_iter().filter_map(|key| match key {
            Value::Bulk(key) => Some(key),
            _ => None,
        });
        Ok(Batch { next, keys: keys.collect() })
    }

    /// Asks for the batch at a cursor.
    fn fetch(session: &mut Session, cursor: &[u8]) -> io::Result<Batch> {
        let mut command = vec![b"SCAN".to_vec(), cursor.to_vec()];
        command.extend(session.settings().scan_options.iter().cloned());
        Batch::new(expect(session, &command)?)
    }

    /// Whether there are no more.
    pub(crate) fn is_last(&self) -> bool {
        self.next == b"0"
    }
}
