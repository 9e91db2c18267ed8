//! MEMORY and its subcommands: where the memory goes.

use std::fmt::Write;
use std::sync::atomic::Ordering;

use mantissa_commands::spec::{Flags, Group, KeyFlags, KeySpec, Traits};
use mantissa_commands::{Error, Locks, Outcome, parse};
use mantissa_protocol::{Args, Reply};
use mantissa_store::{ShardSet, allocator, heap, slab};

use super::info::{ClientTotals, MemoryFigures, human, ratio};
use crate::invocation::{EngineSpec, Invocation};

/// Below this nothing is worth a diagnosis.
const DIAGNOSED_BYTES_MIN: u64 = 5 << 20;
/// Fragmentation below this is what page sizes explain.
const FRAGMENTATION_BYTES_MIN: i64 = 10 << 20;

/// Values are measured whole, so the number of samples is checked and otherwise has no effect.
fn usage(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    for at in (3..args.len()).step_by(2) {
        let count = args.get(at + 1).filter(|_| parse::is(args.at(at), "SAMPLES")).ok_or(Error::SYNTAX)?;
        if parse::integer(count)? < 0 {
            return Err(Error::SYNTAX);
        }
    }
    let keyspace = &invocation.engine().keyspace;
    let shard = ShardSet::one(keyspace.shard_of(keyspace.hash(args.at(2))));
    let bytes =
        invocation.with_access(shard, |access| access.peek(args.at(2)).map(mantissa_commands::memory_usage));
    match bytes {
        Some(bytes) => reply.integer(bytes as i64),
        None => reply.null(),
    }
    Ok(())
}

/// A figure of MEMORY STATS.
enum Figure {
    Count(i64),
    Ratio(f64),
}

fn stats(invocation: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    let figures = MemoryFigures::collect(invocation);
    let databases: Vec<_> =
        figures.keyspace.databases.iter().enumerate().filter(|(_, database)| database.keys > 0).collect();
    let (before, after) = (memory_before_databases(&figures), memory_after_databases(&figures));
    reply.map(before.len() + databases.len() + after.len());
    write_figures(reply, &before);
    for (number, database) in databases {
        reply.bulk(format!("db.{number}").as_bytes());
        reply.map(2);
        reply.bulk(b"overhead.hashtable.main");
        reply.integer(database.table_bytes as i64);
        reply.bulk(b"overhead.hashtable.expires");
        reply.integer(0);
    }
    write_figures(reply, &after);
    Ok(())
}

fn write_figures(reply: &mut Reply, figures: &[(&str, Figure)]) {
    for (name, figure) in figures {
        reply.bulk(name.as_bytes());
        match figure {
            Figure::Count(count) => reply.integer(*count),
            Figure::Ratio(ratio) => reply.double(*ratio),
        }
    }
}

fn memory_before_databases(figures: &MemoryFigures) -> Vec<(&'static str, Figure)> {
    let count = |bytes: u64| Figure::Count(bytes as i64);
    vec![
        ("peak.allocated", count(figures.peak)),
        ("total.allocated", count(figures.used)),
        ("startup.allocated", count(figures.startup)),
        ("replication.backlog", count(0)),
        ("replica.fullsync.buffer", count(0)),
        ("clients.slaves", count(0)),
        ("clients.normal", count(figures.clients)),
        ("cluster.links", count(0)),
        ("aof.buffer", count(0)),
        ("lua.caches", count(figures.scripts)),
        ("functions.caches", count(figures.functions)),
        ("script.VMs", count(figures.machines)),
    ]
}

fn memory_after_databases(figures: &MemoryFigures) -> Vec<(&'static str, Figure)> {
    let count = |bytes: u64| Figure::Count(bytes as i64);
    let percent = |part: u64, whole: u64| Figure::Ratio(ratio(part, whole) * 100.0);
    let keys = figures.keys();
    let fragmentation = ratio(figures.resident, figures.used);
    let (active, resident) = (figures.heap.active, figures.heap.resident);
    let beyond = |part: u64, whole: u64| Figure::Count(part as i64 - whole as i64);
    vec![
        ("overhead.db.hashtable.lut", count(figures.tables())),
        ("overhead.db.hashtable.rehashing", count(0)),
        ("overhead.total", count(figures.overhead())),
        ("db.dict.rehashing.count", count(0)),
        ("keys.count", count(keys)),
        ("keys.bytes-per-key", count(figures.since_startup().checked_div(keys).unwrap_or(0))),
        ("dataset.bytes", count(figures.dataset())),
        ("dataset.percentage", percent(figures.dataset(), figures.since_startup())),
        ("peak.percentage", percent(figures.used, figures.peak)),
        ("allocator.allocated", count(figures.used)),
        ("allocator.active", count(active)),
        ("allocator.resident", count(resident)),
        ("allocator.muzzy", count(figures.heap.muzzy)),
        ("allocator-fragmentation.ratio", Figure::Ratio(ratio(active, figures.used))),
        ("allocator-fragmentation.bytes", beyond(active, figures.used)),
        ("allocator-rss.ratio", Figure::Ratio(ratio(resident, active))),
        ("allocator-rss.bytes", beyond(resident, active)),
        ("rss-overhead.ratio", Figure::Ratio(ratio(figures.resident, resident))),
        ("rss-overhead.bytes", beyond(figures.resident, resident)),
        ("fragmentation", Figure::Ratio(fragmentation)),
        ("fragmentation.bytes", Figure::Count(figures.fragmentation_bytes())),
    ]
}

fn doctor(invocation: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    let figures = MemoryFigures::collect(invocation);
    let clients = ClientTotals::collect(invocation.engine());
    let text = diagnose(&figures, clients.connected as u64);
    reply.verbatim("txt", text.as_bytes());
    Ok(())
}

/// What is worth saying about these figures.
fn diagnose(figures: &MemoryFigures, client_count: u64) -> String {
    const CLIENT_BYTES_MAX: u64 = 200 << 10;
    if figures.used < DIAGNOSED_BYTES_MIN {
        return format!("Only {} are in use: too little for a diagnosis.\n", human(figures.used));
    }
    let mut findings = String::new();
    let mut add = |finding: String| {
        let _to_memory = writeln!(findings, "- {finding}");
    };
    if ratio(figures.peak, figures.used) > 1.5 {
        add(format!(
            "Peak: {} were once in use, now it is {}. What has been freed is kept for reuse for a while, so \
             more may \
             be resident than is used; it is no leak.",
            human(figures.peak),
            human(figures.used)
        ));
    }
    let (active, kept) = (figures.heap.active, figures.heap.resident);
    let is_far_beyond = |part: u64, whole: u64| {
        ratio(part, whole) > 1.1 && part as i64 - whole as i64 > FRAGMENTATION_BYTES_MIN
    };
    if is_far_beyond(active, figures.used) {
        add(format!(
            "Fragmentation: {} of pages hold {} in use. Values of changing sizes leave gaps; saving and \
             starting anew closes them.",
            human(active),
            human(figures.used)
        ));
    }
    if is_far_beyond(kept, active) {
        add(format!(
            "Kept pages: the allocator has {} in memory and uses {} of it. The rest goes back to the system \
             within seconds, or by MEMORY PURGE at once.",
            human(kept),
            human(active)
        ));
    }
    if is_far_beyond(figures.resident, kept) {
        add(format!(
            "Other memory: {} are resident, of which the allocator has {}. Threads, buffers of the kernel \
             and huge pages that are used in part take the rest.",
            human(figures.resident),
            human(kept)
        ));
    }
    if figures.fragmentation_bytes() < 0 {
        add(format!(
            "Swapping: only {} of {} in use are resident. The machine is short of memory and commands wait \
             for \
             its disk.",
            human(figures.resident),
            human(figures.used)
        ));
    }
    if figures.clients / client_count.max(1) > CLIENT_BYTES_MAX {
        add(format!(
            "Clients: {client_count} clients take {}. Look for those with a large omem or qbuf in CLIENT \
             LIST: they \
             read or send too slowly, or use very large requests.",
            human(figures.clients)
        ));
    }
    if findings.is_empty() {
        return "Nothing unusual about the memory of this server.\n".to_owned();
    }
    format!("Findings about the memory of this server:\n\n{findings}")
}

/// The engine's own figures, and then the allocator's report.
fn malloc_stats(invocation: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    let figures = MemoryFigures::collect(invocation);
    let text = format!(
        "Counted by the server: {} bytes in use, {} at start, {} at most; {} values to be freed in the \
         background.\nCounted by the kernel: {} bytes resident.\nSlabs:\n{}By {} itself:\n{}",
        figures.used,
        figures.startup,
        figures.peak,
        invocation.engine().lazyfree_pending.load(Ordering::Relaxed),
        figures.resident,
        slab::report(),
        allocator::NAME,
        heap::report()
    );
    reply.verbatim("txt", text.as_bytes());
    Ok(())
}

/// Gives back to the system what is free. It is given back by itself as well, some seconds later.
fn purge(_session: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    heap::give_back();
    reply.ok();
    Ok(())
}

fn help(_session: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    super::write_help(
        reply,
        "MEMORY",
        &[
            ("DOCTOR", "What is unusual about the memory of this server, in words."),
            ("MALLOC-STATS", "What the allocator says of itself."),
            ("PURGE", "Gives unused memory back to the system now rather than some seconds later."),
            ("STATS", "Where the memory of this server goes."),
            (
                "USAGE <key> [SAMPLES <count>]",
                "The bytes that a key takes with its value, all of it counted.",
            ),
        ],
    );
    Ok(())
}

const SPECIAL: &[&str] = &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"];

const SUBCOMMANDS: &[EngineSpec] = &[
    EngineSpec::new("help", 2, help, Flags::LOADING.or(Flags::STALE)).locks(Locks::Nothing).docs(
        Group::Server,
        "4.0.0",
        "O(1)",
        "Lists the subcommands.",
    ),
    EngineSpec::new("usage", -3, usage, Flags::READONLY)
        .traits(Traits::WAITS_FOR_SHARDS.or(Traits::LEAVES_VALUES))
        .keys(&[KeySpec::one(2, KeyFlags::RO)])
        .docs(
            Group::Server,
            "4.0.0",
            "O(N), N being the elements of the value",
            "Tells the bytes that a key takes with its value.",
        )
        .arguments("key:key#0 count:integer@SAMPLES?"),
    EngineSpec::new("stats", 2, stats, Flags::NONE)
        .locks(Locks::Sweep)
        .docs(Group::Server, "4.0.0", "O(N), N being the clients", "Shows where the memory goes.")
        .tips(SPECIAL),
    EngineSpec::new("malloc-stats", 2, malloc_stats, Flags::NONE)
        .locks(Locks::Sweep)
        .docs(Group::Server, "4.0.0", "O(N), N being the clients", "Shows what is known of the allocator.")
        .tips(SPECIAL),
    EngineSpec::new("doctor", 2, doctor, Flags::NONE)
        .locks(Locks::Sweep)
        .docs(Group::Server, "4.0.0", "O(N), N being the clients", "Explains the use of memory in words.")
        .tips(SPECIAL),
    EngineSpec::new("purge", 2, purge, Flags::NONE)
        .locks(Locks::Nothing)
        .docs(Group::Server, "4.0.0", "O(1)", "Gives unused memory back to the system at once.")
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"]),
];

/// The registration table.
pub(super) const COMMANDS: &[EngineSpec] = &[EngineSpec::container("memory", -2, Flags::NONE)
    .docs(Group::Server, "4.0.0", "Depends on the subcommand", "Shows where the memory goes.")
    .subcommands(SUBCOMMANDS)];
