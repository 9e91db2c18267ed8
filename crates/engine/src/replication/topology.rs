//! What clients of a cluster are told while `cluster-emulated` is on: one primary, which has all slots, and
//! its replicas.
//!
//! A primary knows its replicas, a replica its primary and itself. Both call a node alike: the primary by the
//! name of its history, a replica by a hash of the address that its primary knows.

use std::sync::atomic::Ordering;

use mantissa_config::Config;
use mantissa_scripting::hexadecimal;
use sha1::{Digest, Sha1};

use super::primary;
use crate::client::Peer;
use crate::engine::Engine;
use crate::state::replication::{Address, ReplicaState};

/// What is added to a port for that of the cluster bus, at which nobody listens.
const BUS_PORT_DISTANCE: u16 = 10_000;

/// A node as clients see it.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// 40 hexadecimal digits.
    pub id: String,
    /// Its IP address, or the name that the replica follows. Empty if clients are to use the address that
    /// they have.
    pub ip: String,
    /// `cluster-announce-hostname`, known of the server itself.
    pub hostname: String,
    /// Its port; 0 if it listens for TLS only.
    pub port: u16,
    /// Its port for TLS; 0 if it is unknown or there is none.
    pub tls_port: u16,
    /// The port that this client reaches it at.
    pub client_port: u16,
    /// The port of its cluster bus.
    pub bus_port: u16,
    /// Whether it is the server itself.
    pub is_myself: bool,
    /// Whether the data of a replica are complete.
    pub is_online: bool,
    /// The offset that it has reached.
    pub offset: u64,
}

/// The nodes as a client with this peer sees them, the primary first.
pub fn nodes(engine: &Engine, config: &Config, peer: &Peer) -> Vec<Node> {
    let mut nodes = Vec::new();
    let mut myself = myself(engine, config, peer);
    let following = engine.replication.primary.lock().clone();
    if let Some(address) = following {
        let Address { host: ip, port } = engine.replication.link.endpoint(&address);
        let id = engine.replication.history().id;
        nodes.push(Node { id, is_online: true, offset: myself.offset, ..other(ip, port) });
        let seen = match announced_ip(config) {
            "" => engine.replication.link.peer.lock().as_ref().map_or_else(String::new, local_ip),
            ip => ip.to_owned(),
        };
        myself.id = replica_id(&seen, listening_port(engine, config));
    }
    nodes.push(myself);
    let replicas = primary::shown(engine).into_iter().map(|replica| {
        let (ip, port) = (primary::address_of(&replica), replica.port.load(Ordering::Relaxed));
        let port = u16::try_from(port).unwrap_or(0);
        let id = replica_id(&ip, port);
        let is_online = replica.state() == ReplicaState::Online;
        Node { id, is_online, offset: replica.acked.load(Ordering::Relaxed), ..other(ip, port) }
    });
    nodes.extend(replicas);
    nodes
}

/// The address that a replica tells its primary; empty for that of the link.
pub fn announced_ip(config: &Config) -> &str {
    match &*config.replica_announce_ip {
        "" if config.cluster_emulated => &config.cluster_announce_ip,
        ip => ip,
    }
}

/// The port that a replica tells its primary.
pub fn listening_port(engine: &Engine, config: &Config) -> u16 {
    let cluster_port = if config.cluster_emulated { config.cluster_announce_port } else { 0 };
    match (config.replica_announce_port, cluster_port) {
        (0, 0) if config.tls_replication && config.tls_port != 0 => config.tls_port,
        (0, 0) => engine.host().facts().port,
        (0, port) | (port, _) => port,
    }
}

fn myself(engine: &Engine, config: &Config, peer: &Peer) -> Node {
    let own_port = engine.host().facts().port;
    let reached = match peer {
        Peer::Tcp { local, .. } => local.port(),
        _ if own_port == 0 => config.tls_port,
        _ => own_port,
    };
    let told = |announced: u16, own: u16| if announced == 0 { own } else { announced };
    let port = told(config.cluster_announce_port, own_port);
    let tls_port = told(config.cluster_announce_tls_port, config.tls_port);
    let client_port = match reached {
        reached if reached == own_port => port,
        reached if reached == config.tls_port => tls_port,
        reached => reached,
    };
    let ip = match &*config.cluster_announce_ip {
        "" => local_ip(peer),
        ip => ip.to_owned(),
    };
    let bus_port = told(config.cluster_announce_bus_port, bus_port_of(client_port));
    Node {
        id: engine.replication.history().id,
        ip,
        hostname: config.cluster_announce_hostname.clone(),
        port,
        tls_port,
        client_port,
        bus_port,
        is_myself: true,
        is_online: !engine.replication.is_replica() || engine.replication.link.is_up(),
        offset: primary::offset(engine),
    }
}

fn other(ip: String, port: u16) -> Node {
    Node { ip, port, client_port: port, bus_port: bus_port_of(port), ..Node::default() }
}

fn bus_port_of(port: u16) -> u16 {
    port.saturating_add(BUS_PORT_DISTANCE)
}

fn replica_id(ip: &str, port: u16) -> String {
    hexadecimal(&Sha1::digest(format!("{ip}:{port}")))
}

/// The address of this end; empty without one.
fn local_ip(peer: &Peer) -> String {
    match peer {
        Peer::Tcp { local, .. } => local.ip().to_canonical().to_string(),
        _ => String::new(),
    }
}
