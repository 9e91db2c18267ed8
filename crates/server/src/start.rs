//! Starting and ending the server.

use std::ffi::OsString;
use std::io::Write;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use mantissa_engine::commands::REDIS_VERSION;
use mantissa_engine::config::{Config, IoDriver};
use mantissa_engine::replication::{role, waits};
use mantissa_engine::{Engine, Host, aof, background, log, notice, persistence, warning};
use mantissa_net::{Bound, Driver, DriverKind, Listener};
use mantissa_persist::storage::FileSystem;
use mantissa_sys::signals::{Signal, Signals};
use mantissa_sys::{ThreadClock, process, scheduling};

use crate::archive::Archiver;
use crate::balance::Balancer;
use crate::handover::successor::Successor;
use crate::inbox::{Inbox, Message};
use crate::loading::{Loader, Progress};
use crate::network::{self, Network};
use crate::service::Service;
use crate::supervision::Supervision;
use crate::worker::{METRICS_CONNECTIONS_MAX, STACK_BYTES, Worker};
use crate::{crash, daemon, handover, title, tls};

/// File descriptors needed beside those of clients and of metrics.
const DESCRIPTORS_RESERVED: u64 = 32;
/// How long the start waits for an address that is in use: a killed server's sockets may outlive it for some
/// milliseconds, until the kernel has ended the operations on them.
const ADDRESS_RETRY_TIME: Duration = Duration::from_secs(1);

/// The exit code where the last changes could not be saved.
const EXIT_UNSAVED: u8 = 1;

const USAGE: &str = "\
Usage:
  mantissa server [CONFIG-FILE] [--DIRECTIVE VALUE ...] [-]
  mantissa server --version
  mantissa server --help

The configuration file has the directives of redis.conf. Those on standard input, if the last argument is a
dash, come after it, and those on the command line last.

Examples:
  mantissa server                                      Run with the defaults, on port 6379
  mantissa server --port 7777 --appendonly yes         Another port, with an append-only file
  mantissa server /etc/redis/redis.conf --maxmemory 2gb
  echo 'maxmemory 128mb' | mantissa server -           Directives from standard input
  mantissa cli CONFIG GET '*'                          All directives of a running server
";

/// Runs the server with the arguments of `mantissa server` until it is told to end.
pub fn run(arguments: &[OsString]) -> ExitCode {
    if let [only] = arguments
        && let Some(text) = answer(only)
    {
        let _nobody_may_read_it = std::io::stdout().write_all(text.as_bytes());
        return ExitCode::SUCCESS;
    }
    let taken = handover::successor::inherited().and_then(|inherited| match inherited {
        Some((successor, config)) => Ok((Some(successor), config, Vec::new())),
        None => {
            let parsed = Config::from_args(arguments).map_err(|error| error.to_string());
            parsed.map(|(config, warnings)| (None, config, warnings))
        }
    });
    let (successor, config, warnings) = match taken {
        Ok(taken) => taken,
        Err(error) => {
            let _nobody_may_read_it = writeln!(std::io::stderr(), "{error}");
            return ExitCode::FAILURE;
        }
    };
    log::set_level(config.loglevel);
    log::set_file(&log_path(&config));
    for warning in &warnings {
        warning!("{warning}");
    }
    let limit = config.maxmemory;
    if 0 < limit && limit < 1 << 20 {
        warning!(
            "WARNING: You specified a maxmemory value that is less than 1MB (current value is {limit} \
             bytes). Are you sure this is what you really want?"
        );
    }
    match start(config, successor) {
        Ok(code) => ExitCode::from(code),
        Err(reason) => {
            warning!("{reason}");
            ExitCode::FAILURE
        }
    }
}

/// The file of the log as it is found from the folder that the server is started in: it lies in `dir`, where
/// the server works later.
fn log_path(config: &Config) -> String {
    match &config.logfile[..] {
        "" => String::new(),
        name => Path::new(&config.dir).join(name).to_string_lossy().into_owned(),
    }
}

/// What is printed instead of running the server, if this is the only argument.
fn answer(argument: &OsString) -> Option<String> {
    match argument.to_str()? {
        "--help" | "-h" => Some(USAGE.to_owned()),
        "--version" | "-v" => Some(format!(
            "Redis server v={REDIS_VERSION} sha=00000000:0 malloc=jemalloc-5.3.0 bits={} build=0, by \
             Mantissa server v={}\n",
            usize::BITS,
            env!("CARGO_PKG_VERSION"),
        )),
        _ => None,
    }
}

fn start(mut config: Config, mut successor: Option<Successor>) -> Result<u8, String> {
    std::env::set_current_dir(&config.dir)
        .map_err(|error| format!("Can't chdir to '{}': {error}", config.dir))?;
    title::prepare(&config);
    let mut supervision = Supervision::begin(&config);
    let mut pid_file = None;
    if successor.is_none() {
        daemon::daemonize(&config).map_err(|error| format!("Could not go to the background: {error}"))?;
        pid_file = daemon::write_pid_file(&mut config);
    }
    title::show(&config);
    adjust_client_limit(&mut config);
    let worker_count = match config.worker_threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        count => count,
    };
    let (version, pid) = (env!("CARGO_PKG_VERSION"), std::process::id());
    notice!("Mantissa {version} starts, as Redis {REDIS_VERSION} to its clients, PID: {pid}");
    let mut signals = Signals::install().map_err(|error| format!("Could not take over signals: {error}"))?;
    let (shutdown, stop_receiver) = stopping(&signals)?;
    let network = Network::new(worker_count, config.worker_packing, shutdown);
    let engine = Engine::new(config, Arc::new(FileSystem), Arc::clone(&network) as Arc<dyn Host>)?;
    crash::start(&engine).map_err(|error| format!("Could not take over crashes: {error}"))?;
    network.oom_score.follow_role(&engine);
    engine.start_lazy_free().map_err(|error| format!("Could not start a thread: {error}"))?;
    mantissa_engine::tier::start(&engine)?;
    engine.startup_bytes.store(mantissa_store::allocator::allocated_bytes() as u64, Ordering::Relaxed);
    engine.acl.load_at_start(engine.registry, &engine.active_config().config, &*engine.storage)?;
    match successor {
        None => aof::begin_loading(&engine),
        Some(_) => engine.persistence.begin_loading(0),
    }
    let listeners = match successor {
        None => listen(&engine, &network)?,
        Some(_) => Vec::new(),
    };
    tell_place(&engine.active_config().config, &network);
    let mut workers = start_workers(&engine, &network, listeners)?;
    notice!("Server initialized");
    supervision.repeat(&engine).map_err(|error| format!("Could not start a thread: {error}"))?;
    if let Some(successor) = &mut successor {
        workers.go();
        aof::start_without_files(&engine)?;
        engine.persistence.loading.store(false, Ordering::Release);
        successor.take_over(&engine, &network)?;
        pid_file = daemon::write_pid_file(&mut engine.active_config().config.clone());
        successor.serve(&engine, &network);
    } else if let Some(code) = load(&engine, &mut workers, &mut signals, &stop_receiver)? {
        return Ok(code);
    }
    let (balancer, balanced) = (Balancer::new(workers.clocks), Arc::clone(&network));
    let archiver = Arc::new(Archiver::default());
    let archives = Arc::clone(&archiver);
    background::start(&engine, move |engine: &Engine| archives.tick(engine))
        .and_then(|()| engine.spawn("balancer", move |engine| balancer.run(engine, &balanced)))
        .map_err(|error| format!("Could not start a thread: {error}"))?;
    notice!("Ready to accept connections");
    supervision.ready();
    if let Some(successor) = successor {
        let network = Arc::clone(&network);
        let late = move |engine: &Engine| successor.take_late(engine, &network);
        engine.spawn("late-clients", late).map_err(|error| format!("Could not start a thread: {error}"))?;
    }
    let code = wait_for_end(&engine, &mut signals, &stop_receiver, &supervision);
    let is_saved = end(&engine, &network, &supervision, workers.threads, pid_file);
    archiver.finish();
    Ok(if is_saved { code } else { code.max(EXIT_UNSAVED) })
}

/// What has the main thread end with an exit code, and where it learns that.
fn stopping(signals: &Signals) -> Result<(impl Fn(u8) + Send + Sync + 'static, mpsc::Receiver<u8>), String> {
    let waker = signals.waker().map_err(|error| format!("Could not copy a socket: {error}"))?;
    let (sender, receiver) = mpsc::channel();
    let shutdown = move |code| {
        let _already_stopping = sender.send(code);
        waker.wake();
    };
    Ok((shutdown, receiver))
}

/// Ends workers, links and files in order. Whether the data are saved where they are to be.
fn end(
    engine: &Arc<Engine>,
    network: &Network,
    supervision: &Supervision,
    threads: Vec<std::thread::JoinHandle<()>>,
    pid_file: Option<daemon::PidFile>,
) -> bool {
    let successor = network.successor.load(Ordering::Acquire);
    if successor != 0 {
        supervision.replaced_by(successor);
        // The successor's clients do not wait while this process frees its memory.
        scheduling::lower_priority();
    } else {
        supervision.stopping();
    }
    engine.stopping.store(true, Ordering::Relaxed);
    persistence::end_background(engine);
    Service::ALL.iter().for_each(|service| network.listening(*service).lock().clear());
    // The first worker has the listeners. It ends before the others, so that a client whose connection ends
    // finds nobody listening.
    let mut threads = threads.into_iter();
    for workers in [0..1, 1..network.worker_count()] {
        workers.clone().for_each(|worker| network.post(worker, Message::Stop));
        for thread in threads.by_ref().take(workers.len()) {
            let _failed_worker_has_logged = thread.join();
        }
    }
    role::end(engine);
    aof::backup::end(engine);
    aof::finish(engine);
    let is_saved = persistence::save_the_rest(engine);
    persistence::wait_for_background(engine);
    drop(pid_file);
    if let Some(path) = engine.active_config().config.unixsocket.as_ref().filter(|_| successor == 0) {
        let _may_be_gone = std::fs::remove_file(path);
    }
    notice!("Mantissa is now ready to exit, bye bye...");
    is_saved
}

/// Loads what there is. Clients of a small file wait, others are told. The exit code if the server is to end
/// before that is done: nothing is to be saved then.
fn load(
    engine: &Engine,
    workers: &mut Workers,
    signals: &mut Signals,
    stop: &mpsc::Receiver<u8>,
) -> Result<Option<u8>, String> {
    let loader = Loader::start(engine)?;
    let mut progress = loader.begin(engine, signals, stop)?;
    workers.go();
    if let Progress::GoesOn = progress {
        progress = loader.finish(engine, signals, stop)?;
    }
    match progress {
        Progress::Ends(code) => Ok(Some(code)),
        Progress::Loaded | Progress::GoesOn => Ok(None),
    }
}

/// File descriptors needed beside those of clients.
pub fn descriptors_reserved(config: &Config) -> u64 {
    let for_metrics = if config.metrics_port == 0 { 0 } else { METRICS_CONNECTIONS_MAX as u64 };
    DESCRIPTORS_RESERVED + for_metrics
}

/// Raises the limit on open files to what `maxclients` needs, or lowers `maxclients` to what the system
/// grants.
fn adjust_client_limit(config: &mut Config) {
    let reserved = descriptors_reserved(config);
    let wanted = u64::from(config.maxclients) + reserved;
    let granted = process::raise_nofile_limit(wanted).map_or(1024, |(soft, _)| soft);
    if granted < wanted {
        let clients = granted.saturating_sub(reserved).max(1);
        warning!("The system allows {granted} open files: maxclients is reduced to {clients}");
        config.maxclients = u32::try_from(clients).unwrap_or(u32::MAX);
    }
}

/// Tells what runs where: ports, the configuration file, the folder of the data.
fn tell_place(config: &Config, network: &Network) {
    let mut places = format!("port={}", network.port.load(Ordering::Relaxed));
    if config.tls_port != 0 {
        places.push_str(&format!(", tls-port={}", config.tls_port));
    }
    for (name, port) in [("http-port", config.http_port), ("http-tls-port", config.http_tls_port)] {
        if port != 0 {
            places.push_str(&format!(", {name}={port}"));
        }
    }
    if let Some(path) = config.unixsocket.as_deref().filter(|path| !path.is_empty()) {
        places.push_str(&format!(", unixsocket={path}"));
    }
    notice!("Running mode={}, {places}, process {}.", config.mode(), std::process::id());
    match config.file() {
        Some(file) => notice!("Configuration file: {}", file.display()),
        None => notice!("No configuration file: defaults, and what the command line says"),
    }
    notice!("Folder of the data: {}", config.dir);
}

/// Opens the listening sockets that the configuration names.
fn listen(engine: &Engine, network: &Network) -> Result<Vec<(Service, Listener)>, String> {
    let active = engine.active_config();
    let config = &active.config;
    let mut listeners = Vec::new();
    let mut open = |service| {
        let (_, opened) = listen_tcp(config, service, &[], ADDRESS_RETRY_TIME)?;
        *network.listening(service).lock() = network::bound(&opened);
        listeners.extend(opened.into_iter().map(|listener| (service, listener)));
        Ok::<(), String>(())
    };
    if config.port != 0 {
        open(Service::Resp)?;
        network.port.store(usize::from(config.port), Ordering::Relaxed);
    }
    if tls::is_wanted(config) {
        tls::configure(network, config)
            .map_err(|reason| format!("{reason}\nFailed to configure TLS. Check logs for more info."))?;
    }
    for service in [Service::Tls, Service::HttpTls] {
        if port(config, service) != 0 {
            open(service)?;
        }
    }
    for service in [Service::Metrics, Service::Http] {
        if port(config, service) != 0 {
            open(service)?;
        }
    }
    if let Some(path) = config.unixsocket.as_deref().filter(|path| !path.is_empty()) {
        let permissions = (config.unixsocketperm != 0).then_some(config.unixsocketperm);
        let listener = Listener::unix(Path::new(path), permissions, config.tcp_backlog)
            .map_err(|error| format!("Failed opening Unix socket: bind: {path}: {error}"))?;
        listeners.push((Service::Resp, listener));
    }
    if listeners.iter().all(|(service, _)| *service == Service::Metrics) {
        return Err("Configured to not listen anywhere, exiting.".to_owned());
    }
    Ok(listeners)
}

/// The port that is configured for a service; 0 is none.
pub fn port(config: &Config, service: Service) -> u16 {
    match service {
        Service::Resp => config.port,
        Service::Tls => config.tls_port,
        Service::Metrics => config.metrics_port,
        Service::Http => config.http_port,
        Service::HttpTls => config.http_tls_port,
    }
}

/// Opens a TCP socket for each address of a service. Those that are `open` already are returned instead. An
/// address that starts with `-` may be missing; one in use is tried again for `retry_time`.
pub fn listen_tcp(
    config: &Config,
    service: Service,
    open: &[Bound],
    retry_time: Duration,
) -> Result<(Vec<SocketAddr>, Vec<Listener>), String> {
    let deadline = Instant::now() + retry_time;
    let (mut kept, mut listeners) = (Vec::new(), Vec::new());
    let port = port(config, service);
    let names = match service {
        Service::Resp | Service::Tls => &config.bind,
        Service::Metrics => &config.metrics_bind,
        Service::Http | Service::HttpTls => &config.http_bind,
    };
    for name in names {
        let (name, optional) = name.strip_prefix('-').map_or((name.as_str(), false), |name| (name, true));
        let host = match name {
            "*" => "0.0.0.0",
            "::*" => "::",
            name => name,
        };
        let addresses: Vec<SocketAddr> = match (host, port).to_socket_addrs() {
            Ok(addresses) => addresses.collect(),
            Err(_) if optional => continue,
            Err(error) => return Err(format!("Could not resolve {name}: {error}")),
        };
        for address in addresses.into_iter().take(1) {
            if open.iter().any(|bound| bound.address() == address) {
                kept.push(address);
                continue;
            }
            match listen_at(address, config.tcp_backlog, open, deadline) {
                Ok(listener) => listeners.push(listener),
                Err(error) if optional && error.kind() != std::io::ErrorKind::AddrInUse => {}
                Err(error) => {
                    return Err(format!(
                        "Could not create server TCP listening socket {name}:{port}: bind: {error}"
                    ));
                }
            }
        }
    }
    Ok((kept, listeners))
}

/// Listens on an address, which may overlap with those that are open, and waits until the deadline for one
/// that is in use to become free.
fn listen_at(
    address: SocketAddr,
    backlog: u32,
    open: &[Bound],
    deadline: Instant,
) -> std::io::Result<Listener> {
    loop {
        let opened = Listener::tcp(address, backlog);
        match opened.or_else(|error| Listener::tcp_beside(address, backlog, open).map_err(|_| error)) {
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(10));
            }
            result => return result,
        }
    }
}

/// The threads of the workers.
struct Workers {
    threads: Vec<std::thread::JoinHandle<()>>,
    clocks: Vec<ThreadClock>,
    go_senders: Vec<mpsc::Sender<()>>,
}

impl Workers {
    /// Has them accept and serve connections.
    fn go(&mut self) {
        for go in self.go_senders.drain(..) {
            let _worker_lives = go.send(());
        }
    }
}

/// Starts the workers, which serve nobody yet. The first one will accept connections for all.
fn start_workers(
    engine: &Arc<Engine>,
    network: &Arc<Network>,
    listeners: Vec<(Service, Listener)>,
) -> Result<Workers, String> {
    let kind = match engine.active_config().config.io_driver {
        IoDriver::Auto => None,
        IoDriver::Epoll => Some(DriverKind::Epoll),
        IoDriver::IoUring => Some(DriverKind::IoUring),
    };
    let (count, (ready_sender, ready_receiver)) = (network.worker_count(), mpsc::channel());
    let (mut threads, mut go_senders) = (Vec::new(), Vec::new());
    let mut listeners = Some(listeners);
    for number in 0..count {
        let (go_sender, go_receiver) = mpsc::channel::<()>();
        go_senders.push(go_sender);
        let ready_sender = ready_sender.clone();
        let (engine, network) = (Arc::clone(engine), Arc::clone(network));
        let own_listeners = listeners.take().unwrap_or_default();
        let body = move || {
            let ready = Driver::new(kind).and_then(|driver| Ok((driver, ThreadClock::current()?)));
            let (mut driver, clock) = match ready {
                Ok(ready) => ready,
                Err(error) => {
                    let _receiver_lives = ready_sender.send((number, Err(error.to_string())));
                    return;
                }
            };
            let _receiver_lives = ready_sender.send((number, Ok((driver.waker(), driver.kind(), clock))));
            drop(ready_sender);
            if go_receiver.recv().is_err() {
                return;
            }
            scheduling::use_short_time_slices();
            crash::enter_worker(number);
            let mut worker = Worker::new(&engine, &network, number);
            worker.listen(&mut driver, own_listeners);
            if let Err(error) = worker.run(&mut driver) {
                warning!("Worker {number} ends: {error}");
            }
        };
        let thread =
            std::thread::Builder::new().name(format!("worker-{number}")).stack_size(STACK_BYTES).spawn(body);
        threads.push(thread.map_err(|error| format!("Could not start a thread: {error}"))?);
    }
    drop(ready_sender);
    let mut wakers: Vec<_> = (0..count).map(|_| None).collect();
    let mut clocks = vec![None; count];
    let mut kinds = Vec::new();
    for (number, result) in ready_receiver {
        let (waker, kind, clock) =
            result.map_err(|error| format!("Could not start worker {number}: {error}"))?;
        wakers[number] = Some(waker);
        clocks[number] = Some(clock);
        kinds.push(kind.name());
    }
    notice!(
        "{count} worker threads, {} shards, {}",
        engine.keyspace.shard_count(),
        kinds.first().unwrap_or(&"-")
    );
    if let Some(kind) = kinds.first() {
        let _set_once = network.driver_name.set(kind);
    }
    network.set_inboxes(wakers.into_iter().flatten().map(Inbox::new).collect());
    Ok(Workers { threads, clocks: clocks.into_iter().flatten().collect(), go_senders })
}

/// Waits for SHUTDOWN or a signal, and returns the exit code.
fn wait_for_end(
    engine: &Engine,
    signals: &mut Signals,
    stop: &mpsc::Receiver<u8>,
    supervision: &Supervision,
) -> u8 {
    loop {
        if let Ok(code) = stop.try_recv() {
            return code;
        }
        crash::look_for_alarm(engine);
        match signals.wait(Some(Duration::from_millis(50))) {
            Ok(Some(Signal::Hangup)) => {
                supervision.reload(|| log::set_file(&engine.active_config().config.logfile));
            }
            Ok(Some(signal)) => {
                if let Ok(code) = stop.try_recv() {
                    // SHUTDOWN has ended everything already.
                    return code;
                }
                notice!("Received {}, scheduling shutdown...", signal.name());
                supervision.stopping();
                engine.scripting.kill_slow();
                let config = &engine.active_config().config;
                let flags = match signal {
                    Signal::Interrupt => config.shutdown_on_sigint,
                    _ => config.shutdown_on_sigterm,
                };
                let is_loading = engine.persistence.loading.load(Ordering::Acquire);
                // What has been loaded so far is not what there is.
                if is_loading {
                    return 0;
                }
                let waited = waits::before_shutdown(engine, &waits::begin_shutdown(engine, flags));
                if waited.is_some() && persistence::save_before_exit(engine, flags) {
                    return 0;
                }
                warning!("{}", persistence::FAILED_SHUTDOWN_LOG);
                waits::after_failed_shutdown(engine, waited);
                supervision.goes_on();
                signals.forgive_interrupt();
            }
            Ok(None) => {}
            Err(error) => {
                warning!("Waiting for signals failed: {error}");
                return 1;
            }
        }
    }
}
