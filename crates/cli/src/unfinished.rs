//! Files and folders that are being made: none is left when Ctrl-C, SIGTERM or a closed terminal
//! ends the program.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once, PoisonError, mpsc};
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// How often a folder is removed into which other threads still write.
const REMOVALS: usize = 5;

/// What to remove.
static PATHS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
static WATCH: Once = Once::new();

/// Removes a file or a folder if a signal ends the program before this is dropped.
pub(crate) struct Unfinished {
    path: PathBuf,
}

impl Unfinished {
    /// Has `make` make the file or the folder.
    pub fn make<T>(path: &Path, make: impl FnOnce() -> io::Result<T>) -> io::Result<(Self, T)> {
        WATCH.call_once(watch);
        // Nothing is made from the moment on in which a signal was taken.
        let mut paths = PATHS.lock().unwrap_or_else(PoisonError::into_inner);
        let made = make()?;
        paths.push(path.to_owned());
        Ok((Unfinished { path: path.to_owned() }, made))
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let mut paths = PATHS.lock().unwrap_or_else(PoisonError::into_inner);
        let place = paths.iter().position(|path| *path == self.path);
        place.map(|place| paths.swap_remove(place));
    }
}

/// Starts a thread that waits for the signals, those of them that are not ignored.
fn watch() {
    let signals = [SIGHUP, SIGINT, SIGTERM].into_iter().filter(|signal| !is_ignored(*signal));
    let signals: Vec<_> = signals.collect();
    let (ready, is_ready) = mpsc::channel::<()>();
    // The thread installs the handlers: without one the signals do what they did.
    let waiting = thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let Ok(mut signals) = Signals::new(signals) else { return };
        drop(ready);
        for signal in signals.forever() {
            let paths = PATHS.lock().unwrap_or_else(PoisonError::into_inner);
            paths.iter().for_each(|path| remove(path));
            // The program ends as it would have without all this.
            let _ = emulate_default_handler(signal);
        }
    });
    // The other end is dropped when the handlers are there, or will not be.
    let _ = is_ready.recv();
    drop(waiting);
}

fn remove(path: &Path) {
    if !path.is_dir() {
        let _ = fs::remove_file(path);
        return;
    }
    for _ in 0..REMOVALS {
        if fs::remove_dir_all(path).is_ok() {
            return;
        }
    }
}

/// Whether the shell had the program ignore a signal, as it does for those in the background.
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok()).unwrap_or_default();
    mask >> (signal - 1) & 1 != 0
}
