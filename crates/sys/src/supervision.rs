//! What a process tells the init system that supervises it: systemd's notifications (sd_notify(3)) and
//! Upstart's `expect stop`.
//!
//! Which one it is comes from the environment, which is read once, before there are threads.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use signal_hook::consts::SIGSTOP;

/// How long a notification may wait for the supervisor to read those before it.
const WRITE_TIME_MAX: Duration = Duration::from_secs(1);

/// The supervisor of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Supervisor {
    /// Upstart, which waits for SIGSTOP.
    Upstart,
    /// systemd, or a supervisor with its protocol.
    Systemd,
}

impl Supervisor {
    /// The one that the environment names.
    pub fn detect() -> Option<Supervisor> {
        if std::env::var_os("UPSTART_JOB").is_some() {
            return Some(Supervisor::Upstart);
        }
        std::env::var_os("NOTIFY_SOCKET").map(|_| Supervisor::Systemd)
    }

    /// As the configuration calls it.
    pub fn name(self) -> &'static str {
        match self {
            Supervisor::Upstart => "upstart",
            Supervisor::Systemd => "systemd",
        }
    }
}

static SUPERVISOR: OnceLock<Supervisor> = OnceLock::new();

/// Notes the supervisor of this process. The first call counts.
pub fn set_supervisor(supervisor: Supervisor) {
    let _the_first_counts = SUPERVISOR.set(supervisor);
}

/// The supervisor of this process, if that was noted.
pub fn supervisor() -> Option<Supervisor> {
    SUPERVISOR.get().copied()
}

/// Stops this process until its supervisor lets it go on: how Upstart is told that it is ready.
pub fn stop_until_continued() -> io::Result<()> {
    signal_hook::low_level::raise(SIGSTOP)
}

/// The way to systemd.
#[derive(Debug)]
pub struct Notifier {
    socket: UnixDatagram,
    watchdog: Option<Duration>,
}

impl Notifier {
    /// The socket that NOTIFY_SOCKET names: a path, or an abstract name behind `@`. `None` where it names
    /// none.
    pub fn from_environment() -> io::Result<Option<Notifier>> {
        let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return Ok(None) };
        let number = |name| std::env::var(name).ok().and_then(|text: String| text.parse::<u64>().ok());
        let watchdog = watchdog_period(
            number("WATCHDOG_USEC"),
            std::env::var_os("WATCHDOG_PID").map(|_| number("WATCHDOG_PID").unwrap_or(0)),
        );
        Notifier::new(name.as_bytes(), watchdog).map(Some)
    }

    /// Notifies at the socket with this name; `watchdog` is how often it wants to hear.
    pub fn new(name: &[u8], watchdog: Option<Duration>) -> io::Result<Notifier> {
        let socket = UnixDatagram::unbound()?;
        socket.set_write_timeout(Some(WRITE_TIME_MAX))?;
        socket.connect_addr(&address(name)?)?;
        Ok(Notifier { socket, watchdog })
    }

    /// The time within which the watchdog wants to hear of this process, if it does.
    pub fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// Sends one notification: lines of `NAME=VALUE`.
    pub fn send(&self, lines: &str) -> io::Result<()> {
        self.socket.send(lines.as_bytes()).map(drop)
    }
}

/// Whether, and within which time, the watchdog wants to hear of this process.
fn watchdog_period(period_us: Option<u64>, process: Option<u64>) -> Option<Duration> {
    let is_meant = process.is_none_or(|process| process == u64::from(std::process::id()));
    let period_us = period_us.filter(|&period_us| period_us > 0 && is_meant)?;
    Some(Duration::from_micros(period_us))
}

#[cfg(target_os = "linux")]
fn address(name: &[u8]) -> io::Result<SocketAddr> {
    use std::os::linux::net::SocketAddrExt;
    match name {
        [b'@', name @ ..] if !name.is_empty() => SocketAddr::from_abstract_name(name),
        _ => path_address(name),
    }
}

#[cfg(not(target_os = "linux"))]
fn address(name: &[u8]) -> io::Result<SocketAddr> {
    path_address(name)
}

fn path_address(name: &[u8]) -> io::Result<SocketAddr> {
    if name.first() != Some(&b'/') {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "neither a path nor an abstract name"));
    }
    SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(name))
}

/// The monotonic clock in microseconds, as RELOADING=1 states it.
pub fn monotonic_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0) / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notifications_reach_paths_and_abstract_names() {
        let path = std::env::temp_dir().join(format!("mantissa-notify-{}", std::process::id()));
        let listener = UnixDatagram::bind(&path).expect("the temporary folder is writable");
        let notifier = Notifier::new(path.as_os_str().as_bytes(), None).expect("the socket is there");
        notifier.send("READY=1\nSTATUS=ready").expect("somebody listens");
        let mut buffer = [0; 64];
        let length = listener.recv(&mut buffer).expect("it was sent");
        assert_eq!(&buffer[..length], b"READY=1\nSTATUS=ready");
        std::fs::remove_file(path).expect("the file is ours");
        #[cfg(target_os = "linux")]
        {
            let name = format!("@mantissa-notify-{}", std::process::id());
            let address = address(name.as_bytes()).expect("the name is short");
            let listener = UnixDatagram::bind_addr(&address).expect("the name is free");
            let notifier = Notifier::new(name.as_bytes(), None).expect("the socket is there");
            notifier.send("STOPPING=1").expect("somebody listens");
            let length = listener.recv(&mut buffer).expect("it was sent");
            assert_eq!(&buffer[..length], b"STOPPING=1");
        }
    }

    #[test]
    fn other_addresses_are_refused() {
        for name in [&b""[..], b"@", b"vsock:2:1234", b"relative"] {
            assert!(Notifier::new(name, None).is_err(), "{}", String::from_utf8_lossy(name));
        }
    }

    #[test]
    fn the_watchdog_means_one_process() {
        let own = u64::from(std::process::id());
        assert_eq!(watchdog_period(Some(2_000_000), None), Some(Duration::from_secs(2)));
        assert_eq!(watchdog_period(Some(1), Some(own)), Some(Duration::from_micros(1)));
        assert_eq!(watchdog_period(Some(1), Some(own + 1)), None);
        assert_eq!(watchdog_period(Some(1), Some(0)), None);
        assert_eq!(watchdog_period(Some(0), None), None);
        assert_eq!(watchdog_period(None, Some(own)), None);
    }
}
