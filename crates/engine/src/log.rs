//! The log: lines of `pid:role day month year hour:minute:second.millisecond level message`, as Redis writes
//! them, so that tools that read its logs read ours.
//!
//! One line is one write, whole or not at all. A log file is opened for each line, so that it may be moved or
//! removed at any time; a line below the level costs one load. Nothing here fails or panics: a line that can
//! not be written is lost.

use mantissa_config::LogLevel;
use mantissa_sys::clock::local_time;
use parking_lot::RwLock;
use std::fmt::{self, Write as _};
use std::fs::OpenOptions;
use std::io::{self, IsTerminal, Write as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The writer of a line, as the letter behind the process id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A server that takes writes.
    Master = b'M' as isize,
    /// A server that follows another.
    Replica = b'S' as isize,
    /// A process of its own that saves or loads.
    Child = b'C' as isize,
}

enum Target {
    StandardOutput { colours: bool },
    File(PathBuf),
}

/// A log of its own; the process has one, [`LOG`].
struct Log {
    level: AtomicU8,
    role: AtomicU8,
    target: RwLock<Option<Target>>,
}

static LOG: Log = Log::new();

impl Log {
    const fn new() -> Log {
        Log {
            level: AtomicU8::new(LogLevel::Notice as u8),
            role: AtomicU8::new(Role::Master as u8),
            target: RwLock::new(None),
        }
    }

    fn set_file(&self, path: &str) {
        let target = match path {
            "" => standard_output(),
            path => Target::File(std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path))),
        };
        *self.target.write() = Some(target);
    }

    fn write(&self, level: LogLevel, message: fmt::Arguments<'_>) {
        if (level as u8) < self.level.load(Ordering::Relaxed) {
            return;
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let role = char::from(self.role.load(Ordering::Relaxed));
        let colours = matches!(&*self.target.read(), Some(Target::StandardOutput { colours: true }));
        self.put(format_line(std::process::id(), role, since, level, colours, message).as_bytes());
    }

    fn put(&self, bytes: &[u8]) {
        // A log that can not be written is no reason to stop serving, and there is nowhere to complain.
        let _ = match &*self.target.read() {
            Some(Target::File(path)) => {
                let file = OpenOptions::new().append(true).create(true).open(path);
                file.and_then(|mut file| file.write_all(bytes))
            }
            _ => {
                let mut output = io::stdout().lock();
                output.write_all(bytes).and_then(|()| output.flush())
            }
        };
    }
}

/// Who is told where lines go.
static OBSERVER: OnceLock<fn(Option<&Path>)> = OnceLock::new();

/// Has a function be told where lines go, now and after each change: to a file, or to standard output.
pub fn observe(observer: fn(Option<&Path>)) {
    let _one_program_has_one = OBSERVER.set(observer);
    match &*LOG.target.read() {
        Some(Target::File(path)) => observer(Some(path)),
        _ => observer(None),
    }
}

/// Says from which level on lines are written.
pub fn set_level(level: LogLevel) {
    LOG.level.store(level as u8, Ordering::Relaxed);
}

/// Sets the writer.
pub fn set_role(role: Role) {
    LOG.role.store(role as u8, Ordering::Relaxed);
}

/// Says where lines go: to a file, or to standard output if there is no path. A relative path is taken from
/// the folder the process is in now.
pub fn set_file(path: &str) {
    LOG.set_file(path);
    if let Some(observer) = OBSERVER.get() {
        match &*LOG.target.read() {
            Some(Target::File(path)) => observer(Some(path)),
            _ => observer(None),
        }
    }
}

/// Colours are for people: only on a terminal, and not if `NO_COLOR` is set to anything.
fn standard_output() -> Target {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    Target::StandardOutput { colours: !refused && io::stdout().is_terminal() }
}

/// Whether lines of this level are written.
#[inline]
pub fn is_on(level: LogLevel) -> bool {
    level as u8 >= LOG.level.load(Ordering::Relaxed)
}

/// Writes a line, if its level is on. The macros of this module are the comfortable way here.
pub fn write(level: LogLevel, message: fmt::Arguments<'_>) {
    LOG.write(level, message);
}

/// Writes text as it is, whatever its level: a logo, a report of many lines.
pub fn write_raw(text: &str) {
    LOG.put(text.as_bytes());
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DIM: &str = "\x1b[2m";
const YELLOW: &str = "\x1b[33m";
const PLAIN: &str = "\x1b[0m";

/// A line with its end.
fn format_line(
    pid: u32,
    role: char,
    since_1970: Duration,
    level: LogLevel,
    colours: bool,
    message: fmt::Arguments<'_>,
) -> String {
    let time = local_time(i64::try_from(since_1970.as_secs()).unwrap_or(0));
    let month = MONTHS.get(time.month.wrapping_sub(1) as usize).copied().unwrap_or("???");
    let (sign, colour) = match level {
        LogLevel::Debug => ('.', DIM),
        LogLevel::Verbose => ('-', DIM),
        LogLevel::Notice => ('*', ""),
        LogLevel::Warning | LogLevel::Nothing => ('#', YELLOW),
    };
    let (dim, colour, plain) = if colours { (DIM, colour, PLAIN) } else { ("", "", "") };
    let mut line = String::with_capacity(128);
    // Writing into a string does not fail; a message's own formatting might, and then ends early.
    let _ = write!(
        line,
        "{dim}{pid}:{role} {:02} {month} {:04} {:02}:{:02}:{:02}.{:03}{plain} {colour}{sign} ",
        time.day,
        time.year,
        time.hour,
        time.minute,
        time.second,
        since_1970.subsec_millis(),
    );
    let _ = line.write_fmt(message);
    line.push_str(plain);
    line.push('\n');
    line
}

/// Logs what only developers want to know.
#[macro_export]
macro_rules! debug {
    ($($message:tt)+) => {
        $crate::log::write($crate::config::LogLevel::Debug, format_args!($($message)+))
    };
}

/// Logs what is rarely needed.
#[macro_export]
macro_rules! verbose {
    ($($message:tt)+) => {
        $crate::log::write($crate::config::LogLevel::Verbose, format_args!($($message)+))
    };
}

/// Logs what an operator wants to know.
#[macro_export]
macro_rules! notice {
    ($($message:tt)+) => {
        $crate::log::write($crate::config::LogLevel::Notice, format_args!($($message)+))
    };
}

/// Logs what an operator must know.
#[macro_export]
macro_rules! warning {
    ($($message:tt)+) => {
        $crate::log::write($crate::config::LogLevel::Warning, format_args!($($message)+))
    };
}

pub use crate::{debug, notice, verbose, warning};

#[cfg(test)]
mod tests {
    use super::*;

    fn line(level: LogLevel, colours: bool) -> String {
        let since = Duration::from_millis(1_795_293_859_007);
        format_line(1234, 'M', since, level, colours, format_args!("Ready to {} connections", "accept"))
    }

    #[test]
    fn a_line_is_as_redis_writes_it() {
        let line = line(LogLevel::Notice, false);
        let (head, message) = line.split_once(" * ").expect("the sign of a notice");
        assert_eq!(message, "Ready to accept connections\n");
        // Days and hours depend on the time zone of the machine.
        let words: Vec<&str> = head.split(' ').collect();
        assert!(matches!(words[..], ["1234:M", _, "Nov", "2026", _]), "{line}");
        assert!(words[4].ends_with(":19.007") && words[4].len() == 12, "{line}");
    }

    #[test]
    fn each_level_has_its_sign() {
        let signs = [
            (LogLevel::Debug, " . "),
            (LogLevel::Verbose, " - "),
            (LogLevel::Notice, " * "),
            (LogLevel::Warning, " # "),
        ];
        for (level, sign) in signs {
            assert!(line(level, false).contains(sign));
            assert!(!line(level, false).contains('\x1b'));
            assert!(line(level, true).ends_with("\x1b[0m\n"));
        }
    }

    #[test]
    fn the_log_file_may_be_moved_at_any_time() {
        let folder = std::env::temp_dir().join(format!("mantissa-log-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("the temporary folder is writable");
        let (path, moved) = (folder.join("log"), folder.join("log.1"));
        let log = Log::new();
        log.set_file(path.to_str().expect("the temporary folder has a plain name"));
        log.write(LogLevel::Warning, format_args!("first"));
        std::fs::rename(&path, &moved).expect("the log file was made");
        log.write(LogLevel::Warning, format_args!("second"));
        log.write(LogLevel::Debug, format_args!("third"));
        log.level.store(LogLevel::Nothing as u8, Ordering::Relaxed);
        log.write(LogLevel::Warning, format_args!("fourth"));
        let read = |path| std::fs::read_to_string(path).expect("the log file was made");
        let (first, second) = (read(&moved), read(&path));
        assert!(first.ends_with(" # first\n") && first.lines().count() == 1, "{first}");
        assert!(second.ends_with(" # second\n") && second.lines().count() == 1, "{second}");
        std::fs::remove_dir_all(folder).expect("the folder is ours");
    }
}
