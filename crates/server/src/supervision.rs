//! What the init system is told: that the server loads, is ready, reloads, ends, and that it lives.
//!
//! With systemd a thread of its own sends what has to be repeated. While data are loaded and while the last
//! dump is written it asks for more time as long as bytes move, so that `TimeoutStartSec` and
//! `TimeoutStopSec` need not be guessed from the size of the data. The watchdog hears of the server while at
//! least one event loop iterates.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use mantissa_engine::config::{Config, Supervised};
use mantissa_engine::{Engine, notice, verbose, warning};
use mantissa_sys::supervision::{self, Notifier, Supervisor};

/// How often more time is asked for, and how much.
const EXTEND_EVERY: Duration = Duration::from_secs(5);
const EXTENSION_US: u64 = 60_000_000;
/// An event loop without work iterates within this time, whatever `hz` says.
const ITERATION_EVERY: Duration = Duration::from_secs(2);

/// The link to the init system; for a server without one every call does nothing.
pub struct Supervision {
    supervisor: Option<Supervisor>,
    notifier: Option<Arc<Notifier>>,
    /// The last dump is being written, or the server ends.
    is_ending: Arc<AtomicBool>,
    /// Ends the thread that repeats, when dropped.
    repeating: Option<mpsc::Sender<()>>,
}

impl Supervision {
    /// Finds the supervisor of the process, if the configuration says that there is one. To be called before
    /// there are threads.
    pub fn begin(config: &Config) -> Supervision {
        let mut own = Supervision {
            supervisor: None,
            notifier: None,
            is_ending: Arc::new(AtomicBool::new(false)),
            repeating: None,
        };
        let wanted = match config.supervised {
            Supervised::No => None,
            Supervised::Upstart => Some(Supervisor::Upstart),
            Supervised::Systemd => Some(Supervisor::Systemd),
            Supervised::Auto => {
                let found = Supervisor::detect();
                if let Some(supervisor) = found {
                    verbose!("{} supervision detected.", supervisor.name());
                }
                found
            }
        };
        match wanted {
            None => return own,
            Some(Supervisor::Upstart) if std::env::var_os("UPSTART_JOB").is_none() => {
                warning!("upstart supervision requested, but UPSTART_JOB not found!");
                return own;
            }
            Some(Supervisor::Upstart) => notice!("supervised by upstart, will stop to signal readiness."),
            Some(Supervisor::Systemd) => match Notifier::from_environment() {
                Ok(Some(notifier)) => {
                    own.notifier = Some(Arc::new(notifier));
                    notice!(
                        "Supervised by systemd. Please make sure you set appropriate values for \
                         TimeoutStartSec and TimeoutStopSec in your service unit."
                    );
                }
                Ok(None) => {
                    warning!("systemd supervision error: NOTIFY_SOCKET not found!");
                    return own;
                }
                Err(error) => {
                    warning!("systemd supervision error: NOTIFY_SOCKET can not be used: {error}");
                    return own;
                }
            },
        }
        own.supervisor = wanted;
        if let Some(supervisor) = wanted {
            supervision::set_supervisor(supervisor);
        }
        own.tell("STATUS=Mantissa is starting...");
        own
    }

    /// Begins to repeat what has to be repeated. To be called before anything is loaded.
    pub fn repeat(&mut self, engine: &Arc<Engine>) -> std::io::Result<()> {
        let Some(notifier) = self.notifier.clone() else { return Ok(()) };
        let (sender, ended) = mpsc::channel();
        let mut watch = Watch::new(Arc::clone(engine), Arc::clone(&self.is_ending));
        let body = move || watch.run(&notifier, &ended);
        std::thread::Builder::new().name("supervision".to_owned()).spawn(body)?;
        self.repeating = Some(sender);
        Ok(())
    }

    /// The server accepts commands.
    pub fn ready(&self) {
        self.tell(&format!("READY=1\nMAINPID={}\nSTATUS=Ready to accept connections", std::process::id()));
        if self.supervisor == Some(Supervisor::Upstart)
            && let Err(error) = supervision::stop_until_continued()
        {
            warning!("Could not stop to signal readiness to upstart: {error}");
        }
    }

    /// Another process is the server from now on. Where only the main process is heard, it is not yet.
    pub fn replaced_by(&self, process: u32) {
        self.tell(&format!("MAINPID={process}"));
    }

    /// Tells that `reload` is under way, and when it is done.
    pub fn reload(&self, reload: impl FnOnce()) {
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={}", supervision::monotonic_us()));
        reload();
        self.tell("READY=1");
    }

    /// The server ends, or tries to: it may have to save first.
    pub fn stopping(&self) {
        if !self.is_ending.swap(true, Ordering::Relaxed) {
            self.tell("STOPPING=1\nSTATUS=Saving and ending");
        }
    }

    /// It does not, since its data could not be saved.
    pub fn goes_on(&self) {
        self.is_ending.store(false, Ordering::Relaxed);
        self.tell("STATUS=Error trying to save the DB, can't exit.");
    }

    fn tell(&self, lines: &str) {
        if let Some(notifier) = &self.notifier {
            send(notifier, lines);
        }
    }
}

fn send(notifier: &Notifier, lines: &str) {
    if let Err(error) = notifier.send(lines) {
        verbose!("systemd could not be notified: {error}");
    }
}

/// What shows that the server gets on.
struct Watch {
    engine: Arc<Engine>,
    is_ending: Arc<AtomicBool>,
    /// The iterations of all event loops, and when they last changed.
    iterations: u64,
    advanced: Instant,
    /// How far the load, or the dump at the end, had come.
    position: u64,
}

impl Watch {
    fn new(engine: Arc<Engine>, is_ending: Arc<AtomicBool>) -> Watch {
        Watch { engine, is_ending, iterations: 0, advanced: Instant::now(), position: 0 }
    }

    /// Tells the watchdog that the server lives, and asks for more time, until `ended`.
    fn run(&mut self, notifier: &Notifier, ended: &mpsc::Receiver<()>) {
        let period = notifier.watchdog();
        let every = period.map_or(EXTEND_EVERY, |period| (period / 3).min(EXTEND_EVERY));
        let mut extended = Instant::now();
        while ended.recv_timeout(every) == Err(mpsc::RecvTimeoutError::Timeout) {
            if period.is_some_and(|period| self.is_alive(period)) {
                send(notifier, "WATCHDOG=1");
            }
            if extended.elapsed() >= EXTEND_EVERY {
                extended = Instant::now();
                self.ask_for_time(notifier);
            }
        }
    }

    /// Whether an event loop has iterated within the watchdog's period, or none has to.
    fn is_alive(&mut self, period: Duration) -> bool {
        let workers = &self.engine.stats.workers;
        let iterations = workers.iter().map(|counters| counters.iterations.load(Ordering::Relaxed)).sum();
        if self.iterations != iterations || self.is_loading() || self.is_ending() || self.saves_for_a_client()
        {
            (self.iterations, self.advanced) = (iterations, Instant::now());
        }
        self.advanced.elapsed() <= period.max(ITERATION_EVERY)
    }

    fn is_loading(&self) -> bool {
        self.engine.persistence.loading.load(Ordering::Relaxed)
    }

    fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }

    /// Whether a worker is in SAVE or SHUTDOWN.
    fn saves_for_a_client(&self) -> bool {
        let persistence = &self.engine.persistence;
        !persistence.saving.load(Ordering::Relaxed) && persistence.writing.is_locked()
    }

    /// Asks for more time to start or to end, if the load or the dump has moved.
    fn ask_for_time(&mut self, notifier: &Notifier) {
        let persistence = &self.engine.persistence;
        let (position, status) = if self.is_ending() {
            let keys = persistence.progress.keys_processed();
            (keys, format!("Saving and ending: {keys} of {} keys", persistence.progress.keys_total()))
        } else if self.is_loading() {
            let load = &persistence.load;
            let status = format!("Loading: {:.0} % of {} bytes", load.percent(), load.total_bytes());
            (load.loaded_bytes(), status)
        } else {
            return;
        };
        if std::mem::replace(&mut self.position, position) != position {
            send(notifier, &format!("EXTEND_TIMEOUT_USEC={EXTENSION_US}\nSTATUS={status}"));
        }
    }
}
