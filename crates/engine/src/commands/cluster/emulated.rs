//! CLUSTER of an emulated cluster: one primary with all slots, and its replicas.

use mantissa_commands::slots::{SLOT_COUNT, slot_of};
use mantissa_commands::{Access, Error, Outcome, parse};
use mantissa_config::{Config, EndpointType};
use mantissa_protocol::{Args, Reply};
use mantissa_store::ShardSet;
use mantissa_sys::clock::unix_ms;

use super::DISABLED;
use crate::invocation::Invocation;
use crate::replication::topology::{self, Node};

const INVALID_SLOT: Error = Error::fixed("ERR Invalid slot");
const FIXED: Error =
    Error::fixed("ERR The cluster is emulated: its nodes and slots are those of the replication");
const LAST_SLOT: i64 = SLOT_COUNT as i64 - 1;

type Call<'c, 's, 'k, 'e> = &'c mut Invocation<'s, 'k, 'e>;

fn check(invocation: &Invocation<'_, '_, '_>) -> Outcome {
    match invocation.context.active.config.cluster_emulated {
        true => Ok(()),
        false => Err(DISABLED),
    }
}

/// The nodes as the client sees them, the primary first.
fn nodes(invocation: &Invocation<'_, '_, '_>) -> Outcome<Vec<Node>> {
    check(invocation)?;
    let config = &invocation.context.active.config;
    Ok(topology::nodes(invocation.engine(), config, &invocation.session.shared.peer))
}

/// What would change the cluster.
pub(super) fn fixed(invocation: Call<'_, '_, '_, '_>, _args: Args<'_>, _reply: &mut Reply) -> Outcome {
    check(invocation)?;
    Err(FIXED)
}

/// CLUSTER SAVECONFIG and ASKING: there is nothing to do.
pub(super) fn nothing(invocation: Call<'_, '_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    check(invocation)?;
    reply.ok();
    Ok(())
}

pub(super) fn info(invocation: Call<'_, '_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    let count = nodes(invocation)?.len();
    let text = format!(
        "cluster_state:ok\r\ncluster_slots_assigned:{SLOT_COUNT}\r\ncluster_slots_ok:{SLOT_COUNT}\r\n\
         cluster_slots_pfail:0\r\ncluster_slots_fail:0\r\ncluster_known_nodes:{count}\r\ncluster_size:1\r\n\
         cluster_current_epoch:1\r\ncluster_my_epoch:1\r\ncluster_stats_messages_sent:0\r\n\
         cluster_stats_messages_received:0\r\ntotal_cluster_links_buffer_limit_exceeded:0\r\n"
    );
    reply.verbatim("txt", text.as_bytes());
    Ok(())
}

pub(super) fn myid(invocation: Call<'_, '_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    let nodes = nodes(invocation)?;
    let myself = nodes.iter().find(|node| node.is_myself);
    reply.bulk(myself.map_or("", |node| &node.id).as_bytes());
    Ok(())
}

/// The shard has the name of its primary.
pub(super) fn myshardid(invocation: Call<'_, '_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    let nodes = nodes(invocation)?;
    reply.bulk(nodes.first().map_or("", |node| &node.id).as_bytes());
    Ok(())
}

pub(super) fn links(invocation: Call<'_, '_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    check(invocation)?;
    reply.array(0);
    Ok(())
}

pub(super) fn list(invocation: Call<'_, '_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    let nodes = nodes(invocation)?;
    let text: String = (0..nodes.len()).map(|index| line_of(&nodes, index) + "\n").collect();
    reply.verbatim("txt", text.as_bytes());
    Ok(())
}

pub(super) fn replicas(invocation: Call<'_, '_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let nodes = nodes(invocation)?;
    match index_of(&nodes, args.at(2))? {
        0 => {
            reply.array(nodes.len() - 1);
            (1..nodes.len()).for_each(|index| reply.bulk(line_of(&nodes, index).as_bytes()));
            Ok(())
        }
        _ => Err(Error::fixed("ERR The specified node is not a master")),
    }
}

pub(super) fn failures(invocation: Call<'_, '_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    index_of(&nodes(invocation)?, args.at(2))?;
    reply.integer(0);
    Ok(())
}

fn index_of(nodes: &[Node], id: &[u8]) -> Outcome<usize> {
    let index = nodes.iter().position(|node| node.id.as_bytes().eq_ignore_ascii_case(id));
    index.ok_or_else(|| Error::quoting("ERR Unknown node ", id, ""))
}

/// A node as its line in the file of nodes: <https://redis.io/docs/latest/commands/cluster-nodes/>.
fn line_of(nodes: &[Node], index: usize) -> String {
    let node = &nodes[index];
    let Node { id, ip, client_port, bus_port, .. } = node;
    let hostname = match &*node.hostname {
        "" => String::new(),
        name => format!(",{name}"),
    };
    let myself = if node.is_myself { "myself," } else { "" };
    let (role, primary, slots) = match index {
        0 => ("master", "-", format!(" 0-{LAST_SLOT}")),
        _ => ("slave", &*nodes[0].id, String::new()),
    };
    let heard_ms = if node.is_myself { 0 } else { unix_ms() };
    let link = if node.is_online { "connected" } else { "disconnected" };
    format!(
        "{id} {ip}:{client_port}@{bus_port}{hostname} {myself}{role} {primary} 0 {heard_ms} 1 {link}{slots}"
    )
}

/// How clients are to reach a node, as `cluster-preferred-endpoint-type` says; `None` at the address that
/// they have.
fn endpoint<'n>(node: &'n Node, config: &Config) -> Option<&'n str> {
    match config.cluster_preferred_endpoint_type {
        EndpointType::Ip => Some(&node.ip),
        EndpointType::Hostname if node.hostname.is_empty() => Some("?"),
        EndpointType::Hostname => Some(&node.hostname),
        EndpointType::UnknownEndpoint => None,
    }
}

pub(super) fn slots(invocation: Call<'_, '_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    let mut nodes = nodes(invocation)?;
    nodes.retain(|node| node.is_online);
    let config = &invocation.context.active.config;
    reply.array(1);
    reply.array(2 + nodes.len());
    reply.integer(0);
    reply.integer(LAST_SLOT);
    for node in &nodes {
        reply.array(4);
        match endpoint(node, config) {
            Some(text) => reply.bulk(text.as_bytes()),
            None => reply.null(),
        }
        reply.integer(node.client_port.into());
        reply.bulk(node.id.as_bytes());
        let preferred = config.cluster_preferred_endpoint_type;
        let mut more: Vec<(&str, &str)> = Vec::new();
        if preferred != EndpointType::Ip {
            more.push(("ip", &node.ip));
        }
        if preferred != EndpointType::Hostname && !node.hostname.is_empty() {
            more.push(("hostname", &node.hostname));
        }
        reply.map(more.len());
        more.into_iter().for_each(|(name, value)| pair(reply, name, value));
    }
    Ok(())
}

fn pair(reply: &mut Reply, name: &str, value: &str) {
    reply.bulk(name.as_bytes());
    reply.bulk(value.as_bytes());
}

pub(super) fn shards(invocation: Call<'_, '_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    let nodes = nodes(invocation)?;
    let config = &invocation.context.active.config;
    reply.array(1);
    reply.map(2);
    reply.bulk(b"slots");
    reply.array(2);
    reply.integer(0);
    reply.integer(LAST_SLOT);
    reply.bulk(b"nodes");
    reply.array(nodes.len());
    for (index, node) in nodes.iter().enumerate() {
        let ports = [("port", node.port), ("tls-port", node.tls_port)];
        let ports: Vec<_> = ports.into_iter().filter(|(_, port)| *port != 0).collect();
        let has_name = !node.hostname.is_empty();
        reply.map(6 + ports.len() + usize::from(has_name));
        pair(reply, "id", &node.id);
        for (name, port) in ports {
            reply.bulk(name.as_bytes());
            reply.integer(port.into());
        }
        pair(reply, "ip", &node.ip);
        pair(reply, "endpoint", endpoint(node, config).unwrap_or_default());
        if has_name {
            pair(reply, "hostname", &node.hostname);
        }
        pair(reply, "role", if index == 0 { "master" } else { "replica" });
        reply.bulk(b"replication-offset");
        reply.integer(node.offset as i64);
        reply.bulk(b"health");
        reply.bulk(if node.is_online { b"online" } else { b"loading" });
    }
    Ok(())
}

pub(super) fn keyslot(invocation: Call<'_, '_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    check(invocation)?;
    reply.integer(slot_of(args.at(2)).into());
    Ok(())
}

fn parse_slot(argument: &[u8]) -> Outcome<Option<u16>> {
    let number = parse::integer(argument)?;
    Ok(u16::try_from(number).ok().filter(|&slot| slot < SLOT_COUNT))
}

pub(super) fn count_keys(invocation: Call<'_, '_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    check(invocation)?;
    let slot = parse_slot(args.at(2))?.ok_or(INVALID_SLOT)?;
    let mut count = 0;
    each_key(invocation, slot, |_| {
        count += 1;
        true
    });
    reply.integer(count);
    Ok(())
}

pub(super) fn keys_of(invocation: Call<'_, '_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    const INVALID: Error = Error::fixed("ERR Invalid slot or number of keys");
    check(invocation)?;
    let slot = parse_slot(args.at(2))?;
    let wanted = usize::try_from(parse::integer(args.at(3))?).ok();
    let (Some(slot), Some(wanted)) = (slot, wanted) else { return Err(INVALID) };
    let list = reply.defer();
    let mut count = 0;
    if wanted > 0 {
        each_key(invocation, slot, |key| {
            reply.bulk(key);
            count += 1;
            count < wanted
        });
    }
    reply.finish_array(list, count);
    Ok(())
}

/// Visits the keys of a slot in the client's database, one shard at a time, until `visit` returns false.
fn each_key(invocation: Call<'_, '_, '_, '_>, slot: u16, mut visit: impl FnMut(&[u8]) -> bool) {
    invocation.with_access(ShardSet::EMPTY, |access: &mut Access<'_>| {
        let (database, now_ms) = (access.database(), access.now_ms());
        for index in 0..access.shard_count() {
            let goes_on = access.visit_shard(index, |shard| {
                let mut found = shard.databases[database].iter().filter(|entry| slot_of(entry.key()) == slot);
                found.all(|entry| entry.has_expired(now_ms) || visit(entry.key()))
            });
            if !goes_on {
                break;
            }
        }
    });
}

pub(super) fn help(invocation: Call<'_, '_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    check(invocation)?;
    super::super::write_help(
        reply,
        "CLUSTER",
        &[
            ("COUNTKEYSINSLOT <slot>", "The number of keys of a slot."),
            ("COUNT-FAILURE-REPORTS <node-id>", "0, for each node."),
            ("GETKEYSINSLOT <slot> <count>", "So many keys of a slot."),
            ("INFO", "The state of the cluster."),
            ("KEYSLOT <key>", "The slot of a key."),
            ("LINKS", "Nothing: nodes have no connections but those of the replication."),
            ("MYID", "The name of this node."),
            ("MYSHARDID", "The name of the shard of this node."),
            ("NODES", "The nodes, a line for each."),
            ("REPLICAS <node-id>", "The replicas of the primary."),
            ("SAVECONFIG", "Does nothing."),
            ("SHARDS", "The shard with its slots and nodes."),
            ("SLOTS", "The slots with their nodes."),
        ],
    );
    Ok(())
}
