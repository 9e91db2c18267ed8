//! The report of a crash in the log, in the form of redis-server's, and the watchdog.
//!
//! A thread waits for a crash ([`mantissa_sys::crash`]) and writes about it: where every thread is,
//! registers, what the crashed thread was doing, INFO, the clients. Each part is written when it is complete,
//! those that need no lock first: whatever the crashed thread holds, the report has at least these.

use std::ffi::{CString, c_void};
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mantissa_protocol::{Args, put_quoted};
use mantissa_sys::crash::{self, Crash, Doing, Note};
use parking_lot::Mutex;

use mantissa_engine::commands::{self, REDIS_VERSION};
use mantissa_engine::config::Config;
use mantissa_engine::context::Context;
use mantissa_engine::host::{ConnId, Peer, Target};
use mantissa_engine::invocation::Invocation;
use mantissa_engine::session::SharedSession;
use mantissa_engine::{Engine, Session, log, warning};
use mantissa_sys::clock::unix_ms;

/// What ends a server on purpose.
static MESSAGE: Mutex<Option<String>> = Mutex::new(None);
/// The threads of the workers.
static WORKERS: Mutex<Vec<i32>> = Mutex::new(Vec::new());
/// The watchdog's period in ms; 0 where it is off.
static WATCHDOG_PERIOD_MS: AtomicI32 = AtomicI32::new(0);
static IS_WATCHED: AtomicBool = AtomicBool::new(false);

/// Settings that a report shows.
const SETTINGS: [&str; 12] = [
    "lazyfree-lazy-user-del",
    "lazyfree-lazy-user-flush",
    "lazyfree-lazy-server-del",
    "lazyfree-lazy-eviction",
    "lazyfree-lazy-expire",
    "activedefrag",
    "list-compress-depth",
    "proto-max-bulk-len",
    "client-query-buffer-limit",
    "io-driver",
    "worker-threads",
    "appendfsync",
];

/// The call of a command, for the report.
pub struct Call<'a> {
    /// The client's number.
    pub client: u64,
    /// The command.
    pub args: Args<'a>,
}

impl Note for Call<'_> {
    fn describe(&self, tell: &mut dyn FnMut(Doing<'_>)) {
        let words: Vec<&[u8]> = self.args.iter().collect();
        tell(Doing { client: self.client, words: &words });
    }
}

/// Has crashes be reported, and the watchdog run, as the configuration says.
pub fn start(engine: &Engine) -> std::io::Result<()> {
    let (sender, installed) = std::sync::mpsc::channel();
    let body = move |engine: &Engine| {
        let _the_start_waits = sender.send(crash::install());
        if let Some(crash) = crash::wait() {
            report(engine, &crash);
            crash::reported();
        }
    };
    engine.spawn("crash-report", body)?;
    installed.recv().unwrap_or(Ok(()))?;
    crash::note_alarms()?;
    crash::prepare_thread();
    log::observe(set_output);
    configure(engine, &engine.active_config().config);
    Ok(())
}

/// Puts changed settings in force.
pub fn configure(engine: &Engine, config: &Config) {
    crash::enable(config.crash_log_enabled);
    // An idle worker's event loop iterates `hz` times a second.
    let period_ms = match config.watchdog_period {
        0 => 0,
        period_ms => period_ms.max(2000 / config.hz.max(1)),
    };
    WATCHDOG_PERIOD_MS.store(i32::try_from(period_ms).unwrap_or(i32::MAX), Ordering::Relaxed);
    if period_ms > 0
        && !IS_WATCHED.swap(true, Ordering::AcqRel)
        && let Err(error) = engine.spawn("watchdog", watch)
    {
        IS_WATCHED.store(false, Ordering::Release);
        warning!("The watchdog could not be started: {error}");
    }
}

/// To be called by the thread of a worker when it begins.
pub fn enter_worker(number: usize) {
    let mut workers = WORKERS.lock();
    if workers.len() <= number {
        workers.resize(number + 1, 0);
    }
    workers[number] = crash::prepare_thread();
}

/// Where the log goes.
fn set_output(path: Option<&std::path::Path>) {
    use std::os::unix::ffi::OsStrExt;
    crash::set_output(path.and_then(|path| CString::new(path.as_os_str().as_bytes()).ok()));
}

/// Ends the server as after a failure that can not be handled, with these lines in the report.
pub fn abort(message: String) -> ! {
    *MESSAGE.lock() = Some(message);
    std::process::abort()
}

fn report(engine: &Engine, crash: &Crash) {
    let parts: [&dyn Fn(); 7] = [
        &|| cause(crash),
        &|| stacks(crash),
        &|| registers(crash),
        &|| client(engine, crash, "CURRENT CLIENT INFO"),
        &|| info(engine),
        &|| clients(engine),
        &|| settings(engine),
    ];
    for part in parts {
        if catch_unwind(AssertUnwindSafe(part)).is_err() {
            log::write_raw("(This part failed.)\n");
        }
    }
    let config = &engine.active_config().config;
    if let (true, Some(path)) = (config.daemonize, &config.pidfile) {
        let _may_be_gone = std::fs::remove_file(path);
    }
    log::write_raw(
        "\n=== REDIS BUG REPORT END. Make sure to include from START to END. ===\n\n       \
         Please report the crash to the project, with this log.\n\n  \
         Memory that fails is a frequent cause: test that of the machine.\n\n",
    );
}

fn cause(crash: &Crash) {
    if let Some(message) = MESSAGE.try_lock().and_then(|message| message.clone()) {
        message.lines().for_each(|line| warning!("{line}"));
        return;
    }
    let own = concat!("Mantissa ", env!("CARGO_PKG_VERSION"));
    warning!("{own}, as Redis {REDIS_VERSION}, crashed by signal: {}, si_code: {}", crash.signal, crash.code);
    if crash.code > 0 {
        warning!("Accessing address: {:#x}", crash.address);
    } else {
        warning!("Killed by PID: {}, UID: {}", crash.sender.0, crash.sender.1);
    }
    warning!("Crashed running the instruction at: {:#x}", crash.instruction);
}

fn stacks(crash: &Crash) {
    log::write_raw("\n------ STACK TRACE ------\n");
    let mut others = crash::other_threads();
    others.sort_by_key(|(thread, _)| *thread != crash.thread);
    let (mut told, expected) = (0, others.len());
    for (thread, name) in others {
        let is_crashed = thread == crash.thread;
        let frames = if is_crashed { Some(crash.frames.clone()) } else { crash::capture(thread) };
        let mark = if is_crashed { " *" } else { "" };
        let mut text = format!("\n{thread} {name}{mark}\n");
        match frames {
            Some(frames) => {
                told += 1;
                write_frames(&mut text, &frames);
            }
            None => text.push_str("(it does not answer)\n"),
        }
        log::write_raw(&text);
    }
    log::write_raw(&format!("\n{told}/{expected} expected stacktraces.\n\n------ STACK TRACE DONE ------\n"));
}

/// Appends a line for each function: those that were inlined have the address of the one that they are in.
fn write_frames(text: &mut String, frames: &[usize]) {
    for (index, &address) in frames.iter().enumerate() {
        // A return address is that behind the call, which may belong to another line.
        let within = if index == 0 { address } else { address.saturating_sub(1) };
        let mut is_known = false;
        backtrace::resolve(within as *mut c_void, |symbol| {
            let Some(name) = symbol.name() else { return };
            is_known = true;
            let _to_memory = write!(text, "{name:#}");
            if let (Some(file), Some(line)) = (symbol.filename(), symbol.lineno()) {
                let _to_memory = write!(text, " at {}:{line}", file.display());
            }
            let _to_memory = writeln!(text, " [{address:#x}]");
        });
        if !is_known {
            let _to_memory = writeln!(text, "[{address:#x}]");
        }
    }
}

fn registers(crash: &Crash) {
    log::write_raw("\n------ REGISTERS ------\n");
    let mut text = String::new();
    for pair in crash.registers.chunks(2) {
        let shown: Vec<String> = pair.iter().map(|(name, value)| format!("{name}:{value:016x}")).collect();
        let _to_memory = writeln!(text, "{}", shown.join(" "));
    }
    for (address, word) in crash.stack.iter().rev() {
        let _to_memory = writeln!(text, "({address:016x}) -> {word:016x}");
    }
    log::write_raw(&text);
}

/// The client whose command the crashed thread was running.
fn client(engine: &Engine, crash: &Crash, title: &str) {
    crash.describe(&mut |Doing { client, words }| {
        log::write_raw(&format!("\n------ {title} ------\n"));
        let hides = engine.active_config().config.hide_user_data_from_log;
        let mut shown = format!("id={client}\nargc: '{}'\n", words.len()).into_bytes();
        for (index, word) in words.iter().take(32).enumerate() {
            let word = if hides && index > 0 { &b"*redacted*"[..] } else { &word[..word.len().min(128)] };
            shown.extend_from_slice(format!("argv[{index}]: '").as_bytes());
            put_quoted(&mut shown, word);
            shown.extend_from_slice(b"'\n");
        }
        log::write_raw(&String::from_utf8_lossy(&shown));
    });
}

fn info(engine: &Engine) {
    log::write_raw("\n------ INFO OUTPUT ------\n");
    let mut context = Context::new(engine, engine.worker_count());
    let user = engine.acl.default_user();
    let shared = SharedSession::new(0, Peer::Embedded, -1, context.now_ms, Target::NOWHERE, user);
    let mut session = Session::new(Arc::new(shared), ConnId::NONE, true);
    let mut invocation = Invocation { context: &mut context, session: &mut session, access: None };
    // Some sections visit the shards, which the crashed thread may hold.
    let began = Instant::now();
    let give_up = || began.elapsed() > Duration::from_millis(500);
    let is_free = engine.keyspace.lock_unless(engine.keyspace.all_shards(), give_up).is_some();
    commands::write_info(&mut invocation, is_free, |section| log::write_raw(&section.replace('\r', "")));
}

fn clients(engine: &Engine) {
    log::write_raw("\n------ CLIENT LIST OUTPUT ------\n");
    let Some(clients) = engine.clients.try_read_for(Duration::from_millis(500)) else { return };
    let mut lines = Vec::new();
    let figures = commands::ClientFigures::new(engine);
    clients.values().for_each(|client| figures.write_line(&mut lines, client, unix_ms()));
    log::write_raw(&String::from_utf8_lossy(&lines));
}

fn settings(engine: &Engine) {
    log::write_raw("\n------ MODULES INFO OUTPUT ------\n\n------ CONFIG DEBUG OUTPUT ------\n");
    for (name, value) in engine.active_config().config.get(&SETTINGS) {
        log::write_raw(&format!("{} {}\n", String::from_utf8_lossy(&name), String::from_utf8_lossy(&value)));
    }
}

// ---- The watchdog -----------------------------------------------------------------------------------------

/// A worker as the watchdog knows it.
struct Watched {
    iterations: u64,
    since: Instant,
    is_told: bool,
}

/// Logs the stack of a worker whose event-loop iteration lasts longer than the period, once for each
/// iteration. Ends when the watchdog is switched off.
fn watch(engine: &Engine) {
    let fresh = |worker: usize| Watched {
        iterations: iterations(engine, worker),
        since: Instant::now(),
        is_told: false,
    };
    let mut watched: Vec<Watched> = (0..engine.worker_count()).map(fresh).collect();
    loop {
        let period_ms = u64::try_from(WATCHDOG_PERIOD_MS.load(Ordering::Relaxed)).unwrap_or(0);
        if period_ms == 0 || engine.stopping.load(Ordering::Relaxed) {
            break;
        }
        std::thread::sleep(Duration::from_millis((period_ms / 4).clamp(1, 50)));
        if watched.len() < engine.worker_count() {
            watched = (0..engine.worker_count()).map(fresh).collect();
        }
        for (worker, state) in watched.iter_mut().enumerate() {
            if state.iterations != iterations(engine, worker) {
                *state = fresh(worker);
            } else if !state.is_told && state.since.elapsed() >= Duration::from_millis(period_ms) {
                state.is_told = true;
                tell("WATCHDOG TIMER EXPIRED", &[worker]);
            }
        }
    }
    IS_WATCHED.store(false, Ordering::Release);
}

/// Logs the stacks of all workers if a SIGALRM has come.
pub fn look_for_alarm(engine: &Engine) {
    if crash::take_alarm() {
        tell("Received SIGALRM", &(0..engine.worker_count()).collect::<Vec<_>>());
    }
}

/// Event-loop iterations of a worker so far.
fn iterations(engine: &Engine, worker: usize) -> u64 {
    engine.stats.workers.get(worker).map_or(0, |counters| counters.iterations.load(Ordering::Relaxed))
}

/// Writes where these workers are.
fn tell(reason: &str, workers: &[usize]) {
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let begin = format!("{}:signal-handler ({now_s})", std::process::id());
    let mut text = format!("\n{begin}\n--- {reason} ---\n\n------ STACK TRACE ------\n");
    for &worker in workers {
        let thread = WORKERS.lock().get(worker).copied().unwrap_or(0);
        let _to_memory = writeln!(text, "\n{thread} worker-{worker} *");
        match crash::capture(thread) {
            Some(frames) => write_frames(&mut text, &frames),
            None => text.push_str("(it does not answer)\n"),
        }
    }
    let _to_memory = writeln!(text, "\n------ STACK TRACE DONE ------\n{begin} --------");
    log::write_raw(&text);
}
