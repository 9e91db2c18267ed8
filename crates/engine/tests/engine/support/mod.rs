//! What the tests of the engine share: an engine in a fresh folder, a clock that the test moves, and short
//! forms of replies.
#![allow(dead_code, reason = "each test uses some of it")]

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mantissa_engine::embedded::{Embedded, LocalClient};
use mantissa_protocol::Value;
use mantissa_sys::simulation::{self, Entered, Scheduler, Task};

/// When the virtual clock starts: 2026-01-01, in ms.
pub const START_MS: i64 = 1_767_225_600_000;

/// A clock that stands still but where the test moves it, or waits for something.
pub struct Clock {
    now_us: AtomicI64,
    /// What happens at a point where other threads may go on, and how many come before that.
    interruption: Mutex<Option<(usize, Interruption)>>,
}

/// What happens then.
pub type Interruption = Box<dyn FnOnce() + Send>;

impl Clock {
    /// Puts the calling thread on a virtual clock until the result is dropped.
    pub fn enter() -> (Arc<Clock>, Entered) {
        let clock =
            Arc::new(Clock { now_us: AtomicI64::new(START_MS * 1000), interruption: Mutex::default() });
        let scheduler: Arc<dyn Scheduler> = Arc::clone(&clock) as Arc<dyn Scheduler>;
        (clock, simulation::enter(scheduler))
    }

    /// Unix time in ms.
    pub fn now_ms(&self) -> i64 {
        self.now_us.load(Ordering::Relaxed) / 1000
    }

    /// Has something happen at a point where other threads may go on, after so many of them.
    pub fn interrupt_after(&self, points: usize, interruption: Interruption) {
        *self.interruption.lock().unwrap_or_else(PoisonError::into_inner) = Some((points, interruption));
    }

    /// Moves the clock.
    pub fn advance_ms(&self, ms: i64) {
        self.now_us.fetch_add(ms * 1000, Ordering::Relaxed);
    }
}

impl Scheduler for Clock {
    fn yield_point(&self) {
        let mut waiting = self.interruption.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *waiting {
            None => {}
            Some((points, _)) if *points > 0 => *points -= 1,
            Some(_) => {
                let interruption = waiting.take();
                drop(waiting);
                if let Some((_, interrupt)) = interruption {
                    interrupt();
                }
            }
        }
    }

    /// Who waits for the log waits for a real thread: the clock goes on and so does that.
    fn wait(&self, time_max: Option<Duration>) {
        let us = time_max.map_or(0, |time| time.as_micros() as i64);
        self.now_us.fetch_add(us, Ordering::Relaxed);
        std::thread::yield_now();
    }

    fn unix_us(&self) -> i64 {
        self.now_us.load(Ordering::Relaxed)
    }

    /// A real thread, on the real clock: that of the log, and dumps.
    fn spawn(&self, name: &str, task: Task) {
        let started = std::thread::Builder::new().name(name.to_owned()).spawn(task);
        assert!(started.is_ok(), "a thread can be started");
    }
}

/// A fresh folder, removed when it is dropped.
pub struct Folder(PathBuf);

impl Folder {
    /// A new one.
    pub fn new() -> io::Result<Folder> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("mantissa-engine-test-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path)?;
        Ok(Folder(path.canonicalize()?))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// All of the append-only file's increments as text.
    pub fn log_text(&self) -> io::Result<String> {
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(self.0.join("appendonlydir"))? {
            paths.push(entry?.path());
        }
        paths.retain(|path| path.to_string_lossy().ends_with(".incr.aof"));
        paths.sort();
        let texts = paths.iter().map(std::fs::read).collect::<io::Result<Vec<_>>>()?;
        Ok(String::from_utf8_lossy(&texts.concat()).into_owned())
    }

    /// The commands in these increments, each as its words between blanks.
    pub fn log(&self) -> io::Result<Vec<String>> {
        let text = self.log_text()?;
        // A line that begins with `#` is an annotation.
        let mut lines = text.split("\r\n").filter(|line| !line.starts_with('#'));
        let mut commands = Vec::new();
        while let Some(count) = lines.next().and_then(|line| line.strip_prefix('*')?.parse::<usize>().ok()) {
            let words: Vec<&str> = (0..count).filter_map(|_| lines.by_ref().nth(1)).collect();
            commands.push(words.join(" "));
        }
        Ok(commands)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _what_is_left_does_no_harm = std::fs::remove_dir_all(&self.0);
    }
}

/// An engine without background in a fresh folder, on a virtual clock. Parts are dropped in this order.
pub struct Bench {
    /// The engine.
    pub store: Embedded,
    /// Its clock.
    pub clock: Arc<Clock>,
    entered: Entered,
    /// Its folder.
    pub folder: Folder,
}

impl Bench {
    /// Opens it.
    pub fn open(directives: &[(&str, &str)]) -> Bench {
        let folder = Folder::new().unwrap_or_else(|error| panic!("a folder can be made: {error}"));
        let (clock, entered) = Clock::enter();
        let store = Embedded::open_without_background(folder.path(), directives)
            .unwrap_or_else(|error| panic!("the engine can be opened: {error}"));
        Bench { store, clock, entered, folder }
    }

    /// A new client.
    pub fn client(&self) -> LocalClient<'_> {
        self.store.client().unwrap_or_else(|error| panic!("a client is free: {error}"))
    }
}

/// The words of a line, which blanks divide.
pub fn words(line: &str) -> Vec<&str> {
    line.split_ascii_whitespace().collect()
}

/// What tests do with a client.
pub trait Ask {
    /// Runs a line, whose words blanks divide, and shows the reply: `OK`, `(error) ERR ..`, `7`, `nil`,
    /// `[a, b]`.
    fn ask(&mut self, line: &str) -> String;

    /// The same for a command that may wait: `None` if it does.
    fn start(&mut self, line: &str) -> Option<String>;

    /// The reply of a command that waits, if it has come.
    fn served(&mut self) -> Option<String>;

    /// All messages that have come.
    fn heard(&mut self) -> Vec<String>;
}

impl Ask for LocalClient<'_> {
    fn ask(&mut self, line: &str) -> String {
        show(&self.call(&words(line)))
    }

    fn start(&mut self, line: &str) -> Option<String> {
        self.submit(&words(line)).as_ref().map(show)
    }

    fn served(&mut self) -> Option<String> {
        self.poll().as_ref().map(show)
    }

    fn heard(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.message(Duration::ZERO)).map(|value| show(&value)).collect()
    }
}

/// A reply as a short text.
pub fn show(value: &Value) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let list = |values: &[Value]| format!("[{}]", values.iter().map(show).collect::<Vec<_>>().join(", "));
    match value {
        Value::Simple(bytes) | Value::Bulk(bytes) => text(bytes),
        Value::Error(bytes) => format!("(error) {}", text(bytes)),
        Value::Integer(number) => number.to_string(),
        Value::NullBulk | Value::Null | Value::NullArray => "nil".to_owned(),
        Value::Array(values) | Value::Set(values) => list(values),
        Value::Push(values) => format!(">{}", list(values)),
        other => format!("{other:?}"),
    }
}
