//! The signals that ask a server to end, delivered where a thread can poll or wait for them.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::{flag, low_level};

/// A signal that the server acts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM: end.
    Terminate,
    /// SIGINT: end; somebody pressed Ctrl-C.
    Interrupt,
    /// SIGHUP: the terminal is gone, or files shall be opened anew.
    Hangup,
}

impl Signal {
    /// Its name in C.
    pub fn name(self) -> &'static str {
        match self {
            Signal::Terminate => "SIGTERM",
            Signal::Interrupt => "SIGINT",
            Signal::Hangup => "SIGHUP",
        }
    }
}

const HANDLED: [(i32, Signal); 3] =
    [(SIGTERM, Signal::Terminate), (SIGINT, Signal::Interrupt), (SIGHUP, Signal::Hangup)];

/// The signals sent to this process, with a descriptor that can be polled.
///
/// Signals of one kind that come faster than they are read count as one. A second SIGINT ends the process at
/// once with status 1, so that a shutdown that hangs can be broken off.
#[derive(Debug)]
pub struct Signals {
    /// Has a byte for each signal that came and for each time it was woken.
    bytes: UnixStream,
    /// The other end of `bytes`.
    writer: UnixStream,
    /// Which signals came, in the order of [`HANDLED`]; set before the byte is written.
    came: [Arc<AtomicBool>; HANDLED.len()],
    /// The next SIGINT ends the process.
    interrupted: Arc<AtomicBool>,
}

impl Signals {
    /// Takes over SIGTERM, SIGINT and SIGHUP. SIGXFSZ does nothing from then on: a write past the limit of
    /// the size of files (`ulimit -f`) is an error. To be called once.
    pub fn install() -> io::Result<Signals> {
        let (bytes, writer) = UnixStream::pair()?;
        let interrupted = Arc::new(AtomicBool::new(false));
        // The actions of a signal run in the order of their registration.
        flag::register_conditional_shutdown(SIGINT, 1, Arc::clone(&interrupted))?;
        flag::register(SIGINT, Arc::clone(&interrupted))?;
        let came = HANDLED.map(|_| Arc::new(AtomicBool::new(false)));
        for ((number, _), came) in HANDLED.iter().zip(&came) {
            flag::register(*number, Arc::clone(came))?;
            low_level::pipe::register(*number, writer.try_clone()?)?;
        }
        flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
        Ok(Signals { bytes, writer, came, interrupted })
    }

    /// What ends a wait of another thread.
    pub fn waker(&self) -> io::Result<Waker> {
        Ok(Waker(self.writer.try_clone()?))
    }

    /// Waits for a signal. `None` when the time has passed or somebody has woken it; with no time given, it
    /// waits for ever.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<Option<Signal>> {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            if self.poll(deadline)? {
                self.bytes.read_exact(&mut [0])?;
                return Ok(self.take());
            } else if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Ok(None);
            }
        }
    }

    /// A signal that came and was not taken; `None` where one byte stands for what an earlier one reported.
    fn take(&self) -> Option<Signal> {
        let came = |came: &Arc<AtomicBool>| came.swap(false, Ordering::SeqCst);
        let index = self.came.iter().position(came)?;
        Some(HANDLED[index].1)
    }

    /// Whether there is something to read; false also if a signal ended the wait early.
    fn poll(&self, deadline: Option<Instant>) -> io::Result<bool> {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let left =
            left.map(|left| Timespec::try_from(left).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 }));
        match poll(&mut [PollFd::new(&self.bytes, PollFlags::IN)], left.as_ref()) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes the next SIGINT ask again rather than end the process: the shutdown that the last one asked for
    /// was given up.
    pub fn forgive_interrupt(&self) {
        self.interrupted.store(false, Ordering::SeqCst);
    }
}

/// Ends a wait for signals.
#[derive(Debug)]
pub struct Waker(UnixStream);

impl Waker {
    /// Makes the wait, or the next one, return.
    pub fn wake(&self) {
        let _full_is_awake = (&self.0).write(&[0]);
    }
}

impl AsFd for Signals {
    /// Readable when a signal has come.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bytes.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_arrives() {
        let mut signals = Signals::install().expect("a socket pair and three handlers");
        assert_eq!(signals.wait(Some(Duration::ZERO)).expect("poll works"), None);
        for (number, signal) in HANDLED {
            low_level::raise(number).expect("the signal is handled");
            assert_eq!(signals.wait(None).expect("poll works"), Some(signal));
        }
        signals.waker().expect("a copy of a socket").wake();
        assert_eq!(signals.wait(None).expect("poll works"), None);
        signals.forgive_interrupt();
        low_level::raise(SIGINT).expect("the interrupt before was forgiven");
        assert_eq!(signals.wait(None).expect("poll works"), Some(Signal::Interrupt));
        for number in [SIGHUP, SIGTERM, SIGTERM, SIGHUP] {
            low_level::raise(number).expect("the signal is handled");
        }
        let mut rest = || signals.wait(Some(Duration::from_millis(1))).expect("poll works");
        assert_eq!([rest(), rest(), rest()], [Some(Signal::Terminate), Some(Signal::Hangup), None]);
    }
}
