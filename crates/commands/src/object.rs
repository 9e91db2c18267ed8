//! OBJECT: how values are encoded and used.

use mantissa_protocol::{Args, Reply};
use mantissa_store::Entry;

use crate::DataSpec;
use crate::access::{Access, decayed_frequency, idle_seconds};
use crate::error::{Error, Outcome};
use crate::settings::AccessClock;
use crate::spec::{Categories, Flags, Group, KeyFlags, KeySpec, Locks, Traits};

const FREQUENCY_NOT_KEPT: Error = Error::fixed(
    "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when \
     switching between policies at runtime LRU and LFU data will take some time to adjust.",
);
const IDLE_TIME_NOT_KEPT: Error = Error::fixed(
    "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching \
     between policies at runtime LRU and LFU data will take some time to adjust.",
);

/// Bytes that a key takes with its value, as MEMORY USAGE reports them: its entry with all that it owns, and
/// its place in the table.
pub fn memory_usage(entry: &Entry) -> usize {
    const TABLE_BYTES_PER_KEY: usize = 13;
    entry.memory_usage() + TABLE_BYTES_PER_KEY
}

fn object_encoding(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    match access.read_silently(args.at(2)) {
        Some(entry) => reply.bulk(entry.encoding().as_bytes()),
        None => reply.null(),
    }
    Ok(())
}

fn object_refcount(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    match access.read_silently(args.at(2)) {
        Some(_) => reply.integer(1),
        None => reply.null(),
    }
    Ok(())
}

fn object_freq(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    match (access.read_silently(args.at(2)), access.settings().access_clock) {
        (None, _) => reply.null(),
        (Some(_), AccessClock::LeastRecentlyUsed | AccessClock::LeastRecentlyModified) => {
            return Err(FREQUENCY_NOT_KEPT);
        }
        (Some(entry), AccessClock::LeastFrequentlyUsed { decay_minutes, .. }) => {
            let count = decayed_frequency(entry.clock(), access.now_ms(), decay_minutes);
            reply.integer(i64::from(count));
        }
    }
    Ok(())
}

fn object_idletime(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    match (access.read_silently(args.at(2)), access.settings().access_clock) {
        (None, _) => reply.null(),
        (Some(_), AccessClock::LeastFrequentlyUsed { .. }) => return Err(IDLE_TIME_NOT_KEPT),
        (Some(entry), AccessClock::LeastRecentlyUsed | AccessClock::LeastRecentlyModified) => {
            reply.integer(i64::from(idle_seconds(entry.clock(), access.now_ms())));
        }
    }
    Ok(())
}

fn location(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    match access.peek(args.at(1)).map(|entry| (entry.is_cold(), entry.is_in_memory())) {
        None => reply.null(),
        Some((true, true)) => reply.bulk(b"both"),
        Some((true, false)) => reply.bulk(b"disk"),
        Some((false, _)) => reply.bulk(b"memory"),
    }
    Ok(())
}

fn object_help(_: &mut Access<'_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    const LINES: &[&str] = &[
        "OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "ENCODING <key>",
        "    How the value of the key is encoded.",
        "FREQ <key>",
        "    How often the key is used, as a logarithmic count.",
        "IDLETIME <key>",
        "    For how many seconds the key has not been used.",
        "REFCOUNT <key>",
        "    How many references the value of the key has.",
        "HELP",
        "    This text.",
    ];
    reply.array(LINES.len());
    LINES.iter().for_each(|line| reply.simple(line));
    Ok(())
}

/// The registration table.
pub(crate) const COMMANDS: &[DataSpec] = &[
    DataSpec::container("object", -2, Flags::NONE)
        .docs(Group::Generic, "2.2.3", "Depends on the subcommand.", "Looks behind the values.")
        .subcommands(&[
            DataSpec::new("help", 2, object_help, Flags::LOADING.or(Flags::STALE))
                .locks(Locks::Nothing)
                .categories(Categories::KEYSPACE)
                .docs(Group::Generic, "6.2.0", "O(1)", "Lists the subcommands."),
            DataSpec::new("refcount", 3, object_refcount, Flags::READONLY)
                .traits(Traits::LEAVES_VALUES)
                .categories(Categories::KEYSPACE)
                .keys(&[KeySpec::one(2, KeyFlags::RO)])
                .docs(Group::Generic, "2.2.3", "O(1)", "Tells how many references a value has.")
                .tips(&["nondeterministic_output"])
                .arguments("key:key#0"),
            DataSpec::new("encoding", 3, object_encoding, Flags::READONLY)
                .traits(Traits::LEAVES_VALUES)
                .categories(Categories::KEYSPACE)
                .keys(&[KeySpec::one(2, KeyFlags::RO)])
                .docs(Group::Generic, "2.2.3", "O(1)", "Tells how a value is encoded.")
                .tips(&["nondeterministic_output"])
                .arguments("key:key#0"),
            DataSpec::new("freq", 3, object_freq, Flags::READONLY)
                .traits(Traits::LEAVES_VALUES)
                .categories(Categories::KEYSPACE)
                .keys(&[KeySpec::one(2, KeyFlags::RO)])
                .docs(
                    Group::Generic,
                    "4.0.0",
                    "O(1)",
                    "Tells how often a key is used, as a logarithmic count.",
                )
                .tips(&["nondeterministic_output"])
                .arguments("key:key#0"),
            DataSpec::new("idletime", 3, object_idletime, Flags::READONLY)
                .traits(Traits::LEAVES_VALUES)
                .categories(Categories::KEYSPACE)
                .keys(&[KeySpec::one(2, KeyFlags::RO)])
                .docs(Group::Generic, "2.2.3", "O(1)", "Tells for how many seconds a key has not been used.")
                .tips(&["nondeterministic_output"])
                .arguments("key:key#0"),
        ]),
    DataSpec::new("mantissa.location", 2, location, Flags::READONLY.or(Flags::FAST))
        .traits(Traits::LEAVES_VALUES)
        .categories(Categories::KEYSPACE)
        .keys(&[KeySpec::one(1, KeyFlags::RO)])
        .docs(Group::Generic, "0.1.0", "O(1)", "Tells whether a value is in memory, on disk, or both.")
        .tips(&["nondeterministic_output"])
        .arguments("key:key#0"),
];
