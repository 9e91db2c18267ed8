//! Engines that are nodes of a network: they are started, killed, and serve each other as replicas.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use mantissa_engine::embedded::{Embedded, LocalClient, Opening};
use mantissa_engine::host::Stream;
use mantissa_engine::replication::backlog;
use mantissa_engine::replication::sending::{self, Fate, Outlet};
use mantissa_engine::session::flag;
use mantissa_engine::state::replication::Address;
use mantissa_persist::log::Chunk;
use mantissa_persist::storage::MemoryStorage;
use mantissa_protocol::{Decoder, Value};
use mantissa_sys::simulation;

use crate::crash::{FOLDER, Policy};
use crate::disk::Disk;
use crate::network::{End, Identity, Network};
use crate::scenario::start;
use crate::scheduler::Random;
use crate::streams::{Place, Streams, Tap};

/// The port of node 0.
pub const PORT: u16 = 7000;
/// Clients of a node, with the connections of replicas.
const CLIENTS_MAX: usize = 60;
/// Bytes that wait for the network before a replica is given no more.
const UNSENT_BYTES_MAX: usize = 2000;
/// How often who serves looks for more.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How often the background thread works.
const ROUND: Duration = Duration::from_millis(100);

/// All nodes of a run.
pub struct Nodes {
    pub network: Network,
    pub streams: Mutex<Streams>,
    places: Vec<Mutex<Option<Arc<Node>>>>,
    directives: Vec<Vec<(&'static str, String)>>,
    /// The connections of replicas: the node and client that serves one, and who it is.
    served: Mutex<Vec<(Identity, u64, Identity)>>,
    pub is_over: AtomicBool,
}

/// An engine that runs.
pub struct Node {
    pub identity: Identity,
    pub store: Embedded,
    pub policy: Policy,
    disk: Disk,
    tap: Mutex<Tap>,
    /// It has been killed: what it does has no effect, and nobody hears of it.
    pub is_dead: AtomicBool,
}

pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Nodes {
    /// So many nodes, none of which runs.
    pub fn new(count: usize, random: &mut Random) -> Arc<Nodes> {
        Arc::new(Nodes {
            network: Network::new(random.draw()),
            streams: Mutex::default(),
            places: (0..count).map(|_| Mutex::default()).collect(),
            directives: (0..count).map(|number| directives(number, random)).collect(),
            served: Mutex::default(),
            is_over: AtomicBool::new(false),
        })
    }

    pub fn count(&self) -> usize {
        self.places.len()
    }

    /// The node with this number, if it runs.
    pub fn get(&self, number: usize) -> Option<Arc<Node>> {
        locked(&self.places[number]).clone()
    }

    /// Starts a node from what is on its disk. `primary` is what its configuration says.
    pub fn open(self: &Arc<Self>, identity: Identity, disk: &Disk, policy: Policy, primary: Option<usize>) {
        let mut directives = self.directives[identity.0].clone();
        directives.push(("appendonly", if policy == Policy::Unlogged { "no" } else { "yes" }.to_owned()));
        directives
            .push(("appendfsync", if policy == Policy::Always { "always" } else { "everysec" }.to_owned()));
        if let Some(primary) = primary {
            directives.push(("replicaof", format!("node {}", PORT + primary as u16)));
        }
        let directives: Vec<_> = directives.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let nodes = Arc::downgrade(self);
        let opening = Opening::default()
            .storage(Arc::new(disk.clone()))
            .clients(CLIENTS_MAX)
            .without_background()
            .connector(move |address, timeout| connect(&nodes, identity, address, timeout));
        let store = opening.open(FOLDER, &directives).unwrap_or_else(|error| panic!("{error}"));
        {
            // From the first byte on: so the streams begin with no data.
            let engine = store.engine();
            backlog::begin(engine, &engine.keyspace.lock(engine.keyspace.all_shards()));
            if identity.1 > 0 {
                locked(&self.streams).note_start(engine);
            }
        }
        let tap = Mutex::new(Tap::new(store.engine()));
        let node = Node { identity, store, policy, disk: disk.clone(), tap, is_dead: AtomicBool::new(false) };
        let node = Arc::new(node);
        *locked(&self.places[identity.0]) = Some(Arc::clone(&node));
        let nodes = Arc::clone(self);
        start("rounds", move || {
            let mut background = node.store.background();
            while !nodes.is_over.load(Ordering::Relaxed) && !node.is_dead.load(Ordering::Relaxed) {
                background.round();
                simulation::sleep(ROUND);
            }
        });
    }

    /// Kills a node. Returns what is on its disk then.
    pub fn kill(&self, number: usize, random: &mut Random) -> Option<Disk> {
        let node = locked(&self.places[number]).take()?;
        self.drain(&node);
        node.is_dead.store(true, Ordering::Relaxed);
        self.network.disconnect(number);
        let files = node.disk.copy();
        if random.below(2) == 0 {
            // A log without checksums can not tell where it ends if bytes are lost between others.
            match node.policy {
                Policy::EverySecond => files.crash_in_order(random.draw()),
                _ => files.crash_anyhow(random.draw()),
            }
        }
        Some(Disk::with_files(files))
    }

    /// Notes what has come into a node's log.
    pub fn drain(&self, node: &Node) {
        locked(&self.streams).drain(node.identity.0, node.store.engine(), &mut locked(&node.tap));
    }

    /// Looks at what a node holds. `None` if it can not be looked at now.
    pub fn look(&self, node: &Node) -> Option<Place> {
        let engine = node.store.engine();
        let mut all = engine.keyspace.try_lock(engine.keyspace.all_shards()).ok()?;
        // Other threads go on while shards are locked and unlocked, and not in between.
        locked(&self.streams).look(node.identity.0, engine, &mut locked(&node.tap), &mut all)
    }

    /// The nodes that have acknowledged an offset to a node.
    pub fn holders(&self, node: &Node, offset: u64) -> Vec<Identity> {
        let served = locked(&self.served);
        let replicas = node.store.engine().replication.replicas.lock();
        let have = replicas.iter().filter(|replica| replica.acked.load(Ordering::Relaxed) >= offset);
        let holder = |client: u64| {
            served.iter().find(|(at, id, _)| (*at, *id) == (node.identity, client)).map(|(.., who)| *who)
        };
        have.filter_map(|replica| holder(replica.session.id)).collect()
    }
}

impl Node {
    /// What a process leaves that is killed now.
    pub fn copy_files(&self) -> MemoryStorage {
        self.disk.copy()
    }
}

/// What the configuration of a node says for the whole run.
fn directives(number: usize, random: &mut Random) -> Vec<(&'static str, String)> {
    let mut choose = |values: &[&str]| values[random.below(values.len() as u64) as usize].to_owned();
    vec![
        ("repl-diskless-load", choose(&["swapdb", "disabled"])),
        ("repl-diskless-sync", choose(&["yes", "no"])),
        ("repl-backlog-size", choose(&["200", "3000", "100000"])),
        ("repl-timeout", choose(&["3", "20"])),
        ("aof-use-rdb-preamble", choose(&["yes", "no"])),
        ("replica-announce-port", (PORT + number as u16).to_string()),
        ("replica-announce-ip", "node".to_owned()),
        ("repl-diskless-sync-delay", "0".to_owned()),
        ("repl-ping-replica-period", "1".to_owned()),
        ("aof-reserve-size", "4kb".to_owned()),
        ("save", "\"\"".to_owned()),
        ("databases", "2".to_owned()),
        ("shards", "8".to_owned()),
    ]
}

/// Connects a node to another, whose thread serves it from then on.
fn connect(
    nodes: &Weak<Nodes>,
    from: Identity,
    address: &Address,
    timeout: Duration,
) -> io::Result<Box<dyn Stream>> {
    const REFUSAL_TIME: Duration = Duration::from_millis(300);
    let refused = || io::Error::from(ErrorKind::ConnectionRefused);
    let nodes = nodes.upgrade().ok_or_else(refused)?;
    let to = usize::from(address.port - PORT);
    if let Some(node) = nodes.get(from.0).filter(|node| node.identity == from) {
        // It may take over other data now.
        nodes.drain(&node);
    }
    if !nodes.network.reaches(from.0, to) {
        simulation::sleep(timeout.min(REFUSAL_TIME));
        return Err(io::Error::from(ErrorKind::TimedOut));
    }
    let is_alive = nodes.get(from.0).is_some_and(|node| node.identity == from);
    let node = nodes.get(to).filter(|_| is_alive).ok_or_else(refused)?;
    let (near, far) = nodes.network.connect(from, node.identity);
    start("connection", move || serve(&nodes, &node, from, far));
    Ok(Box::new(near))
}

/// What is to be sent on a connection.
#[derive(Default)]
struct Queue(Vec<u8>);

impl Outlet for Queue {
    fn room(&self) -> usize {
        UNSENT_BYTES_MAX.saturating_sub(self.0.len())
    }

    fn send<'p>(&mut self, parts: impl Iterator<Item = &'p [u8]>) {
        parts.for_each(|part| self.0.extend_from_slice(part));
    }
}

/// Serves a connection, as a worker of the server does.
fn serve(nodes: &Nodes, node: &Node, from: Identity, mut end: End) {
    let Ok(mut client) = node.store.client() else { return };
    locked(&nodes.served).push((node.identity, client.session().shared.id, from));
    let (mut input, mut queue, mut chunks) = (Vec::new(), Queue::default(), Vec::new());
    let ends = || nodes.is_over.load(Ordering::Relaxed) || node.is_dead.load(Ordering::Relaxed);
    while !ends() {
        let is_served = receive(&mut client, &mut end, &mut input, &mut queue)
            && feed(node, &mut client, &mut chunks, &mut queue)
            && flush(&mut end, &mut queue);
        if !is_served {
            return;
        }
        simulation::wait(Some(LOOK_EVERY));
    }
}

/// Runs what has come. False if the connection is to end.
fn receive(client: &mut LocalClient<'_>, end: &mut End, input: &mut Vec<u8>, queue: &mut Queue) -> bool {
    let mut buffer = [0; 512];
    match end.read(&mut buffer) {
        Ok(0) => return false,
        Ok(count) => input.extend_from_slice(&buffer[..count]),
        Err(error) if error.kind() == ErrorKind::WouldBlock => {}
        Err(_) => return false,
    }
    let mut at = 0;
    loop {
        at += input[at..].iter().take_while(|byte| **byte == b'\n').count();
        let Ok(Some((Value::Array(words), size))) = Decoder::default().decode(&input[at..]) else { break };
        at += size;
        let word = |word| match word {
            Value::Bulk(bytes) => bytes,
            other => panic!("{other:?} in a request"),
        };
        let words: Vec<Vec<u8>> = words.into_iter().map(word).collect();
        let reply = client.call_raw(&words);
        if client.session().shared.has(flag::REPLICA) && !reply.is_empty() {
            return false;
        }
        queue.0.extend(reply);
    }
    input.drain(..at);
    // What others have to say to it: that it is to end.
    let _no_command_waits = client.poll();
    !client.session().killed && !client.session().closing
}

/// Gives a replica what there is for it. False if the connection is to end.
fn feed(node: &Node, client: &mut LocalClient<'_>, chunks: &mut Vec<Chunk>, queue: &mut Queue) -> bool {
    let session = client.session();
    let Some(replica) = session.replica.clone().filter(|_| session.shared.has(flag::REPLICA)) else {
        return true;
    };
    let engine = node.store.engine();
    let fate = sending::send(engine, &replica, &engine.active_config().config, chunks, queue);
    matches!(fate, Fate::Served | Fate::Waits)
}

/// Sends what the network takes. False if the connection is lost.
fn flush(end: &mut End, queue: &mut Queue) -> bool {
    if queue.0.is_empty() {
        return true;
    }
    match end.write(&queue.0) {
        Ok(count) => {
            queue.0.drain(..count);
            true
        }
        Err(error) => error.kind() == ErrorKind::WouldBlock,
    }
}
