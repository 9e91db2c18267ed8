//! Publish and subscribe.

use std::sync::atomic::Ordering;

use indexmap::IndexSet;
use mantissa_commands::spec::{Channels, Flags, Group, KeyFlags, KeySpec, Traits};
use mantissa_commands::{Error, Locks, Outcome};
use mantissa_protocol::{Args, Reply};
use mantissa_store::ShardSet;

use crate::engine::Engine;
use crate::invocation::{EngineSpec, Invocation};
use crate::locking::lock;
use crate::pubsub::Scope;
use crate::session::{Session, Subscriptions, flag};

fn names(subscriptions: &mut Subscriptions, scope: Scope) -> &mut IndexSet<Vec<u8>> {
    match scope {
        Scope::Channel => &mut subscriptions.channels,
        Scope::Pattern => &mut subscriptions.patterns,
        Scope::Shard => &mut subscriptions.shard_channels,
    }
}

/// Bytes that a name takes in the list of its client.
fn bytes_of(name: &[u8]) -> usize {
    const BYTES_PER_NAME: usize = 2 * size_of::<Vec<u8>>();
    BYTES_PER_NAME + name.len()
}

/// The count that a reply gives: shard channels are counted apart.
fn count(session: &Session, scope: Scope) -> i64 {
    let Some(subscriptions) = &session.subscriptions else { return 0 };
    let count =
        if scope == Scope::Shard { subscriptions.shard_channels.len() } else { subscriptions.count() };
    count as i64
}

/// Brings the figures that others see up to date.
fn show(session: &mut Session) {
    let subscriptions = session.subscriptions.take().filter(|subscriptions| !subscriptions.is_empty());
    let counts = subscriptions.as_ref().map_or((0, 0, 0), |subscriptions| {
        (subscriptions.channels.len(), subscriptions.patterns.len(), subscriptions.shard_channels.len())
    });
    session.shared.channel_count.store(counts.0 as u32, Ordering::Relaxed);
    session.shared.pattern_count.store(counts.1 as u32, Ordering::Relaxed);
    session.shared.shard_channel_count.store(counts.2 as u32, Ordering::Relaxed);
    session.shared.mark(flag::PUBSUB, subscriptions.is_some());
    session.subscriptions = subscriptions;
}

/// Tells the client of one change of its subscriptions. This is a message: it is sent although CLIENT REPLY
/// is off.
fn confirm(
    invocation: &mut Invocation<'_, '_, '_>,
    reply: &mut Reply,
    kind: &[u8],
    name: Option<&[u8]>,
    scope: Scope,
) {
    let count = count(invocation.session, scope);
    invocation.push(reply, |message| {
        message.push(3);
        message.bulk(kind);
        match name {
            Some(name) => message.bulk(name),
            None => message.null(),
        }
        message.integer(count);
    });
}

fn join(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply, scope: Scope) -> Outcome {
    let kind: &[u8] = match scope {
        Scope::Channel => b"subscribe",
        Scope::Pattern => b"psubscribe",
        Scope::Shard => b"ssubscribe",
    };
    let engine = invocation.engine();
    for name in args.from(1) {
        let subscriptions = invocation.session.subscriptions.get_or_insert_default();
        if names(subscriptions, scope).insert(name.to_vec()) {
            subscriptions.bytes += bytes_of(name);
            engine.pubsub.subscribe(scope, name, &invocation.session.shared);
        }
        confirm(invocation, reply, kind, Some(name), scope);
    }
    show(invocation.session);
    // A change of rights that began before has not seen these subscriptions: check again.
    if !invocation.session.user.allows_channels(args.from(1).iter(), scope == Scope::Pattern) {
        invocation.session.closing = true;
    }
    Ok(())
}

fn leave(
    invocation: &mut Invocation<'_, '_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
    scope: Scope,
) -> Outcome {
    let kind: &[u8] = match scope {
        Scope::Channel => b"unsubscribe",
        Scope::Pattern => b"punsubscribe",
        Scope::Shard => b"sunsubscribe",
    };
    let mut leaving: Vec<Vec<u8>> = args.from(1).iter().map(<[u8]>::to_vec).collect();
    if leaving.is_empty()
        && let Some(subscriptions) = &mut invocation.session.subscriptions
    {
        let all = names(subscriptions, scope);
        leaving = all.iter().cloned().collect();
        // The last of them is taken out at no cost.
        all.reverse();
    }
    if leaving.is_empty() {
        confirm(invocation, reply, kind, None, scope);
    }
    let (engine, id) = (invocation.engine(), invocation.session.shared.id);
    for name in leaving {
        if let Some(subscriptions) = &mut invocation.session.subscriptions
            && names(subscriptions, scope).swap_remove(&name)
        {
            subscriptions.bytes -= bytes_of(&name);
            engine.pubsub.unsubscribe(scope, &name, id);
        }
        confirm(invocation, reply, kind, Some(&name), scope);
    }
    show(invocation.session);
    Ok(())
}

/// Removes a client's subscriptions from the tables.
pub(super) fn forget(engine: &Engine, session: u64, subscriptions: &Subscriptions) {
    let lists = [
        (Scope::Channel, &subscriptions.channels),
        (Scope::Pattern, &subscriptions.patterns),
        (Scope::Shard, &subscriptions.shard_channels),
    ];
    for (scope, names) in lists {
        names.iter().for_each(|name| engine.pubsub.unsubscribe(scope, name, session));
    }
}

fn subscribe(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    join(invocation, args, reply, Scope::Channel)
}

fn psubscribe(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    join(invocation, args, reply, Scope::Pattern)
}

fn ssubscribe(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if invocation.in_transaction() {
        return Err(Error::fixed("ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client"));
    }
    join(invocation, args, reply, Scope::Shard)
}

fn unsubscribe(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    leave(invocation, args, reply, Scope::Channel)
}

fn punsubscribe(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    leave(invocation, args, reply, Scope::Pattern)
}

fn sunsubscribe(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    leave(invocation, args, reply, Scope::Shard)
}

fn send(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply, scope: Scope) -> Outcome {
    let engine = invocation.engine();
    let outbox = &mut invocation.context.outbox;
    let send = |target, bytes| outbox.push(target, bytes);
    let receivers = engine.pubsub.publish(scope, args.at(1), args.at(2), send);
    reply.integer(receivers as i64);
    log_for_replicas(invocation, args);
    Ok(())
}

/// Puts the command into the log where there are replicas: their subscribers get the message as well.
fn log_for_replicas(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>) {
    let engine = invocation.engine();
    if engine.replication.replica_count.load(Ordering::Relaxed) == 0 || engine.replication.is_replica() {
        return;
    }
    let is_part = invocation.in_transaction() || invocation.context.in_script;
    // A shard is held, so that nothing comes between the cut of a dump, or a change of role, and the offset
    // that is told for it. Where a slow script holds it there is neither.
    let _held = if is_part { None } else { lock(engine, ShardSet::one(0), false).ok() };
    if engine.replication.is_replica() {
        return;
    }
    let context = &mut *invocation.context;
    context.outbox.unit.push(invocation.session.database, args);
    if !is_part {
        crate::aof::append_unfinished(context);
    }
}

fn publish(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    send(invocation, args, reply, Scope::Channel)
}

fn spublish(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    send(invocation, args, reply, Scope::Shard)
}

fn list(invocation: &Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply, scope: Scope) -> Outcome {
    if args.len() > 3 {
        return Err(super::wrong_subcommand(args));
    }
    let found = invocation.engine().pubsub.matching(scope, args.get(2));
    reply.array(found.len());
    found.iter().for_each(|name| reply.bulk(name));
    Ok(())
}

fn list_channels(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    list(invocation, args, reply, Scope::Channel)
}

fn list_shard_channels(
    invocation: &mut Invocation<'_, '_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Outcome {
    list(invocation, args, reply, Scope::Shard)
}

fn counts(invocation: &Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply, scope: Scope) -> Outcome {
    let names = args.from(2);
    reply.array(names.len() * 2);
    for name in names {
        reply.bulk(name);
        reply.integer(invocation.engine().pubsub.subscriber_count(scope, name) as i64);
    }
    Ok(())
}

fn count_channels(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    counts(invocation, args, reply, Scope::Channel)
}

fn count_shard_channels(
    invocation: &mut Invocation<'_, '_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Outcome {
    counts(invocation, args, reply, Scope::Shard)
}

fn count_patterns(invocation: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    reply.integer(invocation.engine().pubsub.name_count(Scope::Pattern) as i64);
    Ok(())
}

fn help(_session: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    super::write_help(
        reply,
        "PUBSUB",
        &[
            ("CHANNELS [<pattern>]", "Channels that have subscribers, all or those that match a pattern."),
            ("NUMPAT", "How many patterns have subscribers."),
            ("NUMSUB [<channel> ...]", "How many subscribers each of the channels has."),
            ("SHARDCHANNELS [<pattern>]", "Shard channels that have subscribers."),
            ("SHARDNUMSUB [<shardchannel> ...]", "How many subscribers each of the shard channels has."),
        ],
    );
    Ok(())
}

const JOIN: Flags = Flags::PUBSUB.or(Flags::NOSCRIPT).or(Flags::LOADING).or(Flags::STALE);
const LOOK: Flags = Flags::PUBSUB.or(Flags::LOADING).or(Flags::STALE);
const SEND: Flags = LOOK.or(Flags::FAST);
const ALL_NAMES: &[KeySpec] = &[KeySpec::range(1, -1, 1, KeyFlags::NOT_KEY)];

const SUBCOMMANDS: &[EngineSpec] = &[
    EngineSpec::new("shardnumsub", -2, count_shard_channels, LOOK)
        .docs(
            Group::PubSub,
            "7.0.0",
            "O(N), N being the names given",
            "Counts subscribers of shard channels.",
        )
        .arguments("shardchannel:string?*"),
    EngineSpec::new("help", 2, help, Flags::LOADING.or(Flags::STALE)).docs(
        Group::PubSub,
        "6.2.0",
        "O(1)",
        "Lists the subcommands.",
    ),
    EngineSpec::new("channels", -2, list_channels, LOOK)
        .docs(Group::PubSub, "2.8.0", "O(N), N being all channels", "Lists channels that have subscribers.")
        .arguments("pattern:pattern?"),
    EngineSpec::new("numsub", -2, count_channels, LOOK)
        .docs(Group::PubSub, "2.8.0", "O(N), N being the names given", "Counts subscribers of channels.")
        .arguments("channel:string?*"),
    EngineSpec::new("shardchannels", -2, list_shard_channels, LOOK)
        .docs(Group::PubSub, "7.0.0", "O(N), N being all shard channels", "Lists shard channels in use.")
        .arguments("pattern:pattern?"),
    EngineSpec::new("numpat", 2, count_patterns, LOOK).docs(
        Group::PubSub,
        "2.8.0",
        "O(1)",
        "Counts distinct patterns that are subscribed to.",
    ),
];

/// The registration table.
pub(super) const COMMANDS: &[EngineSpec] = &[
    EngineSpec::new("subscribe", -2, subscribe, JOIN)
        .traits(Traits::WHILE_SUBSCRIBED)
        .channels(Channels::All)
        .docs(Group::PubSub, "2.0.0", "O(N), N being the names given", "Receives what is sent to channels.")
        .arguments("channel:string*"),
    EngineSpec::new("unsubscribe", -1, unsubscribe, JOIN)
        .traits(Traits::WHILE_SUBSCRIBED)
        .docs(Group::PubSub, "2.0.0", "O(N), N being the names left", "Leaves channels; without names, all.")
        .arguments("channel:string?*"),
    EngineSpec::new("psubscribe", -2, psubscribe, JOIN)
        .traits(Traits::WHILE_SUBSCRIBED)
        .channels(Channels::Patterns)
        .docs(Group::PubSub, "2.0.0", "O(N), N being the patterns", "Receives what channels that match get.")
        .arguments("pattern:pattern*"),
    EngineSpec::new("punsubscribe", -1, punsubscribe, JOIN)
        .traits(Traits::WHILE_SUBSCRIBED)
        .docs(Group::PubSub, "2.0.0", "O(N), N being the patterns left", "Leaves patterns; without any, all.")
        .arguments("pattern:pattern?*"),
    EngineSpec::new("ssubscribe", -2, ssubscribe, JOIN)
        .traits(Traits::WHILE_SUBSCRIBED)
        .channels(Channels::All)
        .keys(ALL_NAMES)
        .docs(Group::PubSub, "7.0.0", "O(N), N being the names given", "Receives what shard channels get.")
        .arguments("shardchannel:string*"),
    EngineSpec::new("sunsubscribe", -1, sunsubscribe, JOIN)
        .traits(Traits::WHILE_SUBSCRIBED)
        .keys(ALL_NAMES)
        .docs(
            Group::PubSub,
            "7.0.0",
            "O(N), N being the names left",
            "Leaves shard channels; without names, all.",
        )
        .arguments("shardchannel:string?*"),
    EngineSpec::new("publish", 3, publish, SEND.or(Flags::MAY_REPLICATE))
        .channels(Channels::First)
        .locks(Locks::Nothing)
        .docs(
            Group::PubSub,
            "2.0.0",
            "O(N+M): N receivers, M patterns in use",
            "Sends a message to a channel.",
        )
        .arguments("channel:string message:string"),
    EngineSpec::new("spublish", 3, spublish, SEND.or(Flags::MAY_REPLICATE))
        .channels(Channels::First)
        .locks(Locks::Nothing)
        .keys(&[KeySpec::one(1, KeyFlags::NOT_KEY)])
        .docs(Group::PubSub, "7.0.0", "O(N), N being the receivers", "Sends a message to a shard channel.")
        .arguments("shardchannel:string message:string"),
    EngineSpec::container("pubsub", -2, Flags::NONE)
        .docs(Group::PubSub, "2.8.0", "Depends on the subcommand", "Looks at channels and their subscribers.")
        .subcommands(SUBCOMMANDS),
];
