//! The process that takes over: see [`super::predecessor`] for the messages.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mantissa_engine::config::Config;
use mantissa_engine::context::Context;
use mantissa_engine::replication::{backlog, primary, role};
use mantissa_engine::session::{SharedSession, flag};
use mantissa_engine::state::replication::{Address, Former};
use mantissa_engine::{Engine, aof, engine_state, host, notice, tracking, warning};
use mantissa_net::{Listener, LocalAddress};
use mantissa_persist::log::{Reader, Start};
use mantissa_protocol::OwnedArgs;
use mantissa_sys::descriptors;

use super::channel::Channel;
use super::client::{self, Arrival};
use super::{BACKLOG, ENVIRONMENT, LOG_BEGINS, PREDECESSOR, TAKES_WEB, await_placed, number};
use crate::inbox::Message;
use crate::network::Network;
use crate::service::Service;
use crate::tls;

/// How long the data may take to arrive, and each step before the server is to serve.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// How long the predecessor may be silent while it stops.
const STEP_MAX: Duration = Duration::from_secs(60);

/// Directives that say where is listened.
const OF_LISTENERS: [&str; 9] = [
    "port",
    "bind",
    "tls-port",
    "unixsocket",
    "http-port",
    "http-tls-port",
    "http-bind",
    "metrics-port",
    "metrics-bind",
];

/// Directives of what goes over as it is: another value would have no effect, and what changes it.
const OF_STATE: [(&str, &str); 3] =
    [("requirepass", "CONFIG SET"), ("aclfile", "a restart"), ("replicaof", "REPLICAOF")];

/// What a process that takes over has inherited.
pub struct Successor {
    channel: Channel,
    stream: Option<UnixStream>,
    /// The configuration that is to be in force when the hand-over is done.
    config: Config,
    clients: Vec<Arrival>,
    listeners: Vec<(Service, Listener)>,
    state: Vec<(Vec<u8>, Vec<u8>)>,
    /// What the predecessor's backlog had from before this process's log.
    former: Former,
    /// Keeps the log from the hand-over on, for replicas that come late.
    held: Option<Reader>,
    /// The number of the client that has asked for the upgrade, which may come late too; 0 if not known.
    told: u64,
}

/// What this process has inherited, and the configuration to start with, if it is to take over from another.
/// To be called before there are threads.
pub fn inherited() -> Result<Option<(Successor, Config)>, String> {
    let Some(numbers) = std::env::var(ENVIRONMENT).ok() else { return Ok(None) };
    let mut sockets =
        numbers.split(',').map(|number| number.parse().ok().and_then(descriptors::inherited_socket));
    let (Some(Some(channel)), Some(Some(stream))) = (sockets.next(), sockets.next()) else {
        return Err(format!("{ENVIRONMENT} does not name two sockets: it is for upgrades, unset it"));
    };
    let mut channel = Channel::new(channel);
    let message =
        channel.receive(STEP_MAX).map_err(|error| format!("the hand-over did not begin: {error}"))?;
    let config = configuration(&message).inspect_err(|reason| {
        let _it_may_be_gone = channel.send(&[b"failed", reason.as_bytes()], None);
    })?;
    let mut first = config.clone();
    // The predecessor is followed first, over a connection that needs no login.
    (first.replicaof, first.masteruser, first.masterauth) = (None, String::new(), Vec::new());
    first.appendonly = false;
    let (clients, listeners, state) = (Vec::new(), Vec::new(), Vec::new());
    let stream = Some(stream);
    let (former, held, told) = (Former::default(), None, 0);
    Ok(Some((Successor { channel, stream, config, clients, listeners, state, former, held, told }, first)))
}

fn configuration(message: &OwnedArgs) -> Result<Config, String> {
    let message = message.as_args();
    let value = |name: &[u8]| {
        (1..message.len()).step_by(2).find(|&at| message.at(at) == name).map(|at| message.at(at + 1))
    };
    let text = value(b"configuration").ok_or("the hand-over brings no configuration")?;
    let file = value(b"file").filter(|path| !path.is_empty());
    let file = file.map(|path| PathBuf::from(String::from_utf8_lossy(path).into_owned()));
    let options = client::unpack(value(b"options").unwrap_or_default());
    let parse = |options: &[Vec<u8>]| {
        let parsed = Config::from_text_and_arguments(text, file.clone(), options);
        parsed.map(|(config, _)| config).map_err(|error| error.to_string())
    };
    let config = parse(&options)?;
    let former = parse(&[])?;
    for directive in config.differences(&former) {
        let name = directive.name;
        if OF_LISTENERS.contains(&name) {
            let what = "the sockets that are listened on go over as they are";
            return Err(format!("{name}: {what}; CONFIG SET changes them"));
        }
        if let Some((_, how)) = OF_STATE.iter().find(|(other, _)| *other == name) {
            return Err(format!("{name}: what this sets goes over as it is; {how} changes it"));
        }
    }
    if config.users.len() != former.users.len() {
        return Err("user: users go over as they are; ACL SETUSER changes them".to_owned());
    }
    Ok(config)
}

impl Successor {
    /// Takes everything over. Nobody is served yet, nothing is read from a client, and no connection is
    /// accepted: what this process has read is lost if it fails. After an error the predecessor goes on.
    pub fn take_over(&mut self, engine: &Engine, network: &Arc<Network>) -> Result<(), String> {
        let outcome = self.prepare(engine, network);
        if let Err(reason) = &outcome {
            let _it_may_be_gone = self.channel.send(&[b"failed", reason.as_bytes()], None);
        }
        outcome
    }

    /// Has the workers serve. If the predecessor is gone by now, nobody else does.
    pub fn serve(&mut self, engine: &Engine, network: &Network) {
        if let Err(error) = self.channel.send(&[b"serving"], None) {
            warning!("Upgrade: the process before has gone already: {error}");
        }
        network.listen(std::mem::take(&mut self.listeners));
        network.post_all(|| Message::Thaw);
        role::start_link(engine);
        notice!("Upgrade: this process serves, in the place of the one before");
    }

    fn prepare(&mut self, engine: &Engine, network: &Arc<Network>) -> Result<(), String> {
        let freeze = Arc::default();
        network.post_all(|| Message::Freeze(Arc::clone(&freeze)));
        *network.predecessor.lock() = self.stream.take();
        self.follow(engine)?;
        let begins = backlog::log_offset(engine).unwrap_or(0).to_string();
        self.send(&[b"synced", TAKES_WEB, LOG_BEGINS, begins.as_bytes()])?;
        loop {
            let message = self.channel.receive(Duration::MAX.min(Duration::from_secs(3600)));
            let message = message.map_err(|error| format!("the predecessor is gone: {error}"))?;
            let words = message.as_args();
            match words.at(0) {
                b"catch-up" | b"finish" => {
                    let end = number(words.at(1)).ok_or("the end is no offset")?;
                    await_end(engine, end)?;
                    self.send(&[b"caught-up"])?;
                }
                BACKLOG => {
                    let offset = number(words.at(1)).ok_or("a part of the backlog has no offset")?;
                    self.former.push(offset, words.at(2).to_vec());
                }
                b"state" => self.state.push((words.at(1).to_vec(), words.at(2).to_vec())),
                b"listener" => {
                    self.take_listener(words.at(1), words.at(2)).map_err(|error| error.to_string())?
                }
                client::CLIENT => self.take_client(&message)?,
                b"take-over" => return self.finish(engine, network, words.at(2)),
                _ => {}
            }
        }
    }

    fn send(&self, words: &[&[u8]]) -> Result<(), String> {
        self.channel.send(words, None).map_err(|error| format!("the predecessor is gone: {error}"))
    }

    /// Follows the predecessor until the stream is applied.
    fn follow(&self, engine: &Engine) -> Result<(), String> {
        let locked = engine.keyspace.lock(engine.keyspace.all_shards());
        role::follow(engine, &locked, Address { host: PREDECESSOR.to_owned(), port: 0 });
        drop(locked);
        while !engine.replication.link.is_up() {
            if engine.replication.link.attempts_total.load(Ordering::Relaxed) > 1 {
                return Err("the data did not arrive".to_owned());
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    fn take_listener(&mut self, service: &[u8], address: &[u8]) -> io::Result<()> {
        let descriptor = self.channel.take_descriptor()?;
        let text = String::from_utf8_lossy(address);
        let address = match text.parse() {
            Ok(address) => LocalAddress::Tcp(address),
            Err(_) => LocalAddress::Unix(PathBuf::from(text.as_ref())),
        };
        if let Some(service) = Service::ALL.into_iter().find(|it| it.name().as_bytes() == service) {
            self.listeners.push((service, Listener::received(descriptor, address)));
        }
        Ok(())
    }

    fn take_client(&mut self, message: &OwnedArgs) -> Result<(), String> {
        let arrival = self.channel.take_descriptor().and_then(|it| client::receive(message.as_args(), it));
        let arrival = arrival.map_err(|error| error.to_string())?;
        let (id, used, count) = (arrival.id(), arrival.highest_database(), self.config.databases);
        if used >= count {
            return Err(format!("client {id} uses database {used}, and there would be {count}"));
        }
        self.clients.push(arrival);
        Ok(())
    }

    /// Registers everything that has arrived, becomes what the predecessor was, and opens the files.
    fn finish(&mut self, engine: &Engine, network: &Arc<Network>, told: &[u8]) -> Result<(), String> {
        self.told = number(told).unwrap_or(0);
        let locked = engine.keyspace.lock(engine.keyspace.all_shards());
        role::succeed(engine, &locked);
        engine.set_config(self.config.clone());
        match self.primary() {
            Some(address) => role::become_replica(engine, &locked, address),
            // Replicas go on where they are: which database is selected there is not known here.
            None => drop(engine.log.restart()),
        }
        drop(locked);
        let mut keeps_backlog = false;
        for (name, value) in std::mem::take(&mut self.state) {
            keeps_backlog |= name == b"backlog";
            engine_state::restore(engine, &name, &value)
                .map_err(|reason| format!("{}: {reason}", String::from_utf8_lossy(&name)))?;
        }
        self.settle_log(engine, keeps_backlog)?;
        let mut context = Context::new(engine, engine.worker_count());
        let mut clients = std::mem::take(&mut self.clients);
        clients.sort_by_key(Arrival::place);
        let place = |arrival| place(&mut context, network, arrival, self.told);
        let sessions: Vec<_> = clients.into_iter().filter_map(place).collect();
        await_placed(&sessions, STEP_MAX)?;
        if engine.tracking.client_count() > 0 {
            // Which keys they have read is not known here.
            tracking::invalidate_all(&mut context.outbox);
            context.outbox.end_iteration(false);
        }
        if tls::is_wanted(&self.config) {
            tls::configure(network, &self.config)?;
        }
        Ok(())
    }

    /// The primary that is to be followed: that of the predecessor, which REPLICAOF may have named.
    fn primary(&self) -> Option<Address> {
        let (_, value) = self.state.iter().find(|(name, _)| name == b"primary")?;
        let (host, port) = std::str::from_utf8(value).ok()?.split_once(' ')?;
        Some(Address { host: host.to_owned(), port: port.parse().ok()? })
    }

    /// Keeps the log for those who need it: the append-only file, which is opened, and replicas.
    fn settle_log(&mut self, engine: &Engine, keeps_backlog: bool) -> Result<(), String> {
        if keeps_backlog || engine.replication.is_replica() {
            let bytes_max = primary::log_bytes_max(&self.config);
            self.held = engine.log.register(Start::Here, bytes_max, None).ok();
            backlog::adopt(engine, std::mem::take(&mut self.former));
            backlog::note_idle(engine);
        } else {
            backlog::end(engine, &engine.keyspace.lock(engine.keyspace.all_shards()));
        }
        engine.aof.configure(&self.config);
        if self.config.appendonly {
            aof::files::open_at_start(engine)?;
        }
        aof::backup::adopt(engine);
        Ok(())
    }

    /// Takes clients that come after the others, until the predecessor ends.
    pub fn take_late(mut self, engine: &Engine, network: &Arc<Network>) {
        let mut context = Context::new(engine, engine.worker_count());
        loop {
            let Ok(message) = self.channel.receive(STEP_MAX) else { return };
            let words = message.as_args();
            if words.at(0) != client::CLIENT {
                return;
            }
            let arrival = self.channel.take_descriptor().and_then(|it| client::receive(words, it));
            context.refresh();
            match arrival {
                Ok(mut arrival) => {
                    arrival.come_late();
                    let session = place(&mut context, network, arrival, self.told);
                    network.post_all(|| Message::Thaw);
                    tell_late(&mut context, session);
                }
                Err(error) => warning!("A client could not be taken over: {error}"),
            }
        }
    }
}

/// Has a client forget what it keeps of keys, if it does: they may have changed before it came. Which keys it
/// has read is not known, nor who else is told with it.
fn tell_late(context: &mut Context, session: Option<Arc<SharedSession>>) {
    let Some(session) = session.filter(|session| session.has(flag::TRACKING)) else { return };
    if let Err(reason) = await_placed(&[session], STEP_MAX) {
        return warning!("{reason}");
    }
    tracking::invalidate_all(&mut context.outbox);
    context.outbox.end_iteration(false);
}

/// Gives a client to a worker. `told` is the number of the client that has asked for the upgrade.
fn place(
    context: &mut Context,
    network: &Arc<Network>,
    arrival: Arrival,
    told: u64,
) -> Option<Arc<SharedSession>> {
    let id = arrival.id();
    match arrival.restore(context) {
        Ok((mut connection, socket)) => {
            let worker = network.choose_worker();
            network.open_count.fetch_add(1, Ordering::Relaxed);
            let session = Arc::clone(&connection.session.shared);
            if id == told {
                connection.first_bytes = answer();
            }
            network.post(worker, Message::Move(connection, socket));
            Some(session)
        }
        Err(reason) => {
            warning!("Client {id} is closed, since it could not be taken over: {reason}");
            None
        }
    }
}

/// What the client gets that has asked for the upgrade.
fn answer() -> Vec<u8> {
    format!("+OK process {} serves\r\n", std::process::id()).into_bytes()
}

/// Waits until the stream is applied up to an offset at least.
fn await_end(engine: &Engine, end: u64) -> Result<(), String> {
    let began = Instant::now();
    while engine.replication.offset_of(engine.log.end()) < end {
        if began.elapsed() > STEP_MAX || !engine.replication.link.is_up() {
            let reached = engine.replication.offset_of(engine.log.end());
            return Err(format!("the stream ends at offset {end}, and only {reached} was reached"));
        }
        std::thread::sleep(LOOK_EVERY / 10);
    }
    Ok(())
}

/// A connection to the predecessor.
pub fn connect(network: &Network, timeout: Duration) -> io::Result<Box<dyn host::Stream>> {
    let stream = network.predecessor.lock().take();
    let gone = || io::Error::new(io::ErrorKind::NotConnected, "the predecessor was connected to once");
    crate::outgoing::local(stream.ok_or_else(gone)?, timeout)
}
