//! MANTISSA.KEYS: which keys are used most, and which are the biggest. Redis 8.2 has no such command.

use mantissa_commands::spec::{Categories, Databases, Flags, Group};
use mantissa_commands::{Error, Locks, Outcome, memory_usage, parse};
use mantissa_protocol::{Args, Reply};
use mantissa_store::{Entry, ShardSet};

use crate::invocation::{EngineSpec, Invocation};
use crate::key_sizes::{BigKey, Findings, SMALL_KEYS};

/// Keys that are shown if the caller does not say how many.
const COUNT: usize = 10;
/// The most keys that are known.
const COUNT_MAX: i64 = 100;

/// What `note` finds of the sizes of keys: by a walk now if there are few, else nothing.
pub(super) fn findings_of_few(
    invocation: &mut Invocation<'_, '_, '_>,
    note: fn(&mut Findings, usize, &Entry),
) -> Option<Findings> {
    invocation.with_access(ShardSet::EMPTY, |access| {
        let mut count = 0;
        for index in 0..access.shard_count() {
            count += access.visit_shard(index, |shard| {
                shard.databases.iter().map(|database| database.len()).sum::<usize>()
            });
        }
        (count <= SMALL_KEYS).then(|| {
            let mut findings = Findings::default();
            for index in 0..access.shard_count() {
                access.visit_shard(index, |shard| {
                    for (number, database) in shard.databases.iter().enumerate() {
                        database.iter().for_each(|entry| note(&mut findings, number, entry));
                    }
                });
            }
            findings
        })
    })
}

fn count_of(args: Args<'_>) -> Outcome<usize> {
    match args.len() {
        2 => Ok(COUNT),
        4 if parse::is(args.at(2), "COUNT") => {
            let count = parse::integer(args.at(3))?;
            if (1..=COUNT_MAX).contains(&count) {
                return Ok(count as usize);
            }
            Err(Error::new(format!("ERR COUNT must be from 1 to {COUNT_MAX}")))
        }
        _ => Err(Error::SYNTAX),
    }
}

fn hot(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let count = count_of(args)?;
    let now_ms = invocation.context.now_ms;
    let keys = invocation.engine().hot_keys.hottest(now_ms, count);
    reply.array(keys.len());
    for found in keys {
        reply.map(3);
        reply.bulk(b"database");
        reply.integer(found.database as i64);
        reply.bulk(b"key");
        reply.bulk(&found.key);
        reply.bulk(b"accesses-per-second");
        reply.double((found.per_second * 10.0).round() / 10.0);
    }
    Ok(())
}

/// A big key as it is now.
struct Measured {
    bytes: usize,
    elements: u64,
    kind: &'static str,
    encoding: &'static str,
    found: BigKey,
}

fn big(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let count = count_of(args)?;
    let found = match findings_of_few(invocation, Findings::note) {
        Some(findings) => findings.into_biggest(),
        None => invocation.engine().key_sizes.biggest(),
    };
    // Some more than are wanted: their order is that of estimates.
    let mut measured: Vec<_> =
        found.into_iter().take(2 * count).filter_map(|found| measure(invocation, found)).collect();
    measured.sort_by_key(|key| std::cmp::Reverse(key.bytes));
    measured.truncate(count);
    reply.array(measured.len());
    for key in measured {
        reply.map(6);
        reply.bulk(b"database");
        reply.integer(key.found.database as i64);
        reply.bulk(b"key");
        reply.bulk(&key.found.key);
        reply.bulk(b"type");
        reply.bulk(key.kind.as_bytes());
        reply.bulk(b"encoding");
        reply.bulk(key.encoding.as_bytes());
        reply.bulk(b"elements");
        reply.integer(key.elements as i64);
        reply.bulk(b"bytes");
        reply.integer(key.bytes as i64);
    }
    Ok(())
}

fn measure(invocation: &mut Invocation<'_, '_, '_>, found: BigKey) -> Option<Measured> {
    let keyspace = &invocation.engine().keyspace;
    let shard = ShardSet::one(keyspace.shard_of(keyspace.hash(&found.key)));
    invocation.with_access(shard, |access| {
        let database = access.database();
        access.select(found.database);
        let measured = access.peek(&found.key).map(|entry| {
            let elements = entry.element_count().unwrap_or(0);
            (memory_usage(entry), elements, entry.kind().name(), entry.encoding())
        });
        access.select(database);
        measured.map(|(bytes, elements, kind, encoding)| Measured { bytes, elements, kind, encoding, found })
    })
}

fn reset(invocation: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    invocation.engine().hot_keys.reset();
    reply.ok();
    Ok(())
}

fn help(_session: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    super::write_help(
        reply,
        "MANTISSA.KEYS",
        &[
            ("BIG [COUNT <count>]", "The keys that take the most memory, as of the last walk over all keys."),
            ("HOT [COUNT <count>]", "The keys that are used most, estimated from samples of some seconds."),
            ("RESET", "Forgets which keys have been used."),
        ],
    );
    Ok(())
}

const SUBCOMMANDS: &[EngineSpec] = &[
    EngineSpec::new("help", 2, help, Flags::LOADING.or(Flags::STALE)).locks(Locks::Nothing).docs(
        Group::Server,
        "0.1.0",
        "O(1)",
        "Lists the subcommands.",
    ),
    EngineSpec::new("hot", -2, hot, Flags::ADMIN.or(Flags::NOSCRIPT))
        .databases(Databases::All)
        .locks(Locks::Nothing)
        .categories(Categories::DANGEROUS)
        .docs(Group::Server, "0.1.0", "O(N), N being the workers", "Shows the keys that are used most.")
        .tips(&["nondeterministic_output"])
        .arguments("count:integer@COUNT?"),
    EngineSpec::new("big", -2, big, Flags::ADMIN.or(Flags::NOSCRIPT))
        .databases(Databases::All)
        .locks(Locks::Sweep)
        .categories(Categories::DANGEROUS)
        .docs(
            Group::Server,
            "0.1.0",
            "O(N), N being the nodes of the values shown",
            "Shows the keys that take the most memory.",
        )
        .tips(&["nondeterministic_output"])
        .arguments("count:integer@COUNT?"),
    EngineSpec::new("reset", 2, reset, Flags::ADMIN.or(Flags::NOSCRIPT))
        .locks(Locks::Nothing)
        .categories(Categories::DANGEROUS)
        .docs(Group::Server, "0.1.0", "O(1)", "Forgets which keys have been used."),
];

/// The registration table.
pub(super) const COMMANDS: &[EngineSpec] = &[EngineSpec::container("mantissa.keys", -2, Flags::NONE)
    .docs(Group::Server, "0.1.0", "Depends on the subcommand.", "Shows the hottest and the biggest keys.")
    .subcommands(SUBCOMMANDS)];
