//! Replication, as far as it is about this server's role. What replicas ask for is in [`serving`].

use mantissa_commands::spec::{Categories, Flags, Group, InStream};
use mantissa_commands::{Locks, Outcome};
use mantissa_protocol::{Args, Reply};

use super::failover::failover;
use super::replicaof::{replicaof, role_of_replica};
use super::serving;
use crate::invocation::{EngineSpec, Invocation};
use crate::replication::primary;

fn role(invocation: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    if role_of_replica(invocation.engine(), reply) {
        return Ok(());
    }
    primary::write_role(invocation.engine(), reply);
    Ok(())
}

const ADMIN: Flags = Flags::ADMIN.or(Flags::NOSCRIPT);
const CHANGES_ROLE: Flags = ADMIN.or(Flags::STALE).or(Flags::NO_ASYNC_LOADING);
const STREAMS: Flags = ADMIN.or(Flags::NO_ASYNC_LOADING).or(Flags::NO_MULTI);
const MASTER: &str = "args:oneof(host-port:block(host:string port:integer) no-one:block(no:pure-token@NO \
                      one:pure-token@ONE))";
const CONFIRMATIONS: &[&str] = &["request_policy:all_shards", "response_policy:agg_min"];

/// The registration table.
pub(super) const COMMANDS: &[EngineSpec] = &[
    EngineSpec::new("wait", 3, serving::wait, Flags::BLOCKING)
        .locks(Locks::Nothing)
        .categories(Categories::CONNECTION)
        .docs(Group::Generic, "3.0.0", "O(1)", "Waits until replicas have confirmed this client's writes.")
        .tips(CONFIRMATIONS)
        .arguments("numreplicas:integer timeout:integer"),
    EngineSpec::new("waitaof", 4, serving::waitaof, Flags::BLOCKING)
        .locks(Locks::Nothing)
        .categories(Categories::CONNECTION)
        .docs(Group::Generic, "7.2.0", "O(1)", "Waits until this client's writes are in append-only files.")
        .tips(CONFIRMATIONS)
        .arguments("numlocal:integer numreplicas:integer timeout:integer"),
    EngineSpec::new("failover", -1, failover, ADMIN.or(Flags::STALE))
        .locks(Locks::All)
        .docs(Group::Server, "6.2.0", "O(1)", "Hands the role of master to a replica.")
        .arguments(
            "target:block(host:string port:integer force:pure-token@FORCE?)@TO? abort:pure-token@ABORT? \
             milliseconds:integer@TIMEOUT?",
        ),
    EngineSpec::new("replicaof", 3, replicaof, CHANGES_ROLE)
        .locks(Locks::All)
        .docs(Group::Server, "5.0.0", "O(1)", "Makes the server a replica, or a master again.")
        .arguments(MASTER),
    EngineSpec::new("slaveof", 3, replicaof, CHANGES_ROLE)
        .locks(Locks::All)
        .docs(Group::Server, "1.0.0", "O(1)", "Makes the server a replica, or a master again.")
        .deprecated("5.0.0", "`REPLICAOF`")
        .arguments(MASTER),
    EngineSpec::new("role", 1, role, Flags::NOSCRIPT.or(Flags::LOADING).or(Flags::STALE).or(Flags::FAST))
        .locks(Locks::Nothing)
        .categories(Categories::ADMIN.or(Categories::DANGEROUS))
        .docs(Group::Server, "2.8.12", "O(1)", "Tells the role in replication."),
    EngineSpec::new("psync", -3, serving::psync, STREAMS)
        .locks(Locks::Nothing)
        .docs(Group::Server, "2.8.0", "", "What a replica asks for the stream of changes with.")
        .arguments("replicationid:string offset:integer"),
    EngineSpec::new("sync", 1, serving::sync, STREAMS).locks(Locks::Nothing).docs(
        Group::Server,
        "1.0.0",
        "",
        "What replicas of old asked for all data with.",
    ),
    EngineSpec::new("replconf", -1, serving::replconf, ADMIN.or(ANY_TIME).or(Flags::ALLOW_BUSY))
        .locks(Locks::Nothing)
        .in_stream(InStream::Talks)
        .docs(Group::Server, "3.0.0", "O(1)", "How replicas and their master talk about the stream.")
        .internal(),
];

const ANY_TIME: Flags = Flags::LOADING.or(Flags::STALE);
