//! The registration of the transaction commands.

use mantissa_commands::spec::{Categories, Flags, Group, InStream, KeyFlags, KeySpec, Traits};

use crate::invocation::EngineSpec;
use crate::transaction::{discard, exec, multi, unwatch, watch};

const FLAGS: Flags =
    Flags::NOSCRIPT.or(Flags::LOADING).or(Flags::STALE).or(Flags::FAST).or(Flags::ALLOW_BUSY);

/// The registration table.
pub(super) const COMMANDS: &[EngineSpec] = &[
    EngineSpec::new("multi", 1, multi, FLAGS)
        .traits(Traits::NOT_QUEUED)
        .in_stream(InStream::Begins)
        .categories(Categories::TRANSACTION)
        .docs(Group::Transactions, "1.2.0", "O(1)", "Begins a transaction: further commands are queued."),
    EngineSpec::new(
        "exec",
        1,
        exec,
        Flags::NOSCRIPT.or(Flags::LOADING).or(Flags::STALE).or(Flags::SKIP_SLOWLOG),
    )
    .traits(Traits::NOT_QUEUED.or(Traits::RUNS_QUEUE).or(Traits::RUNS_SCRIPTS))
    .in_stream(InStream::Ends)
    .categories(Categories::TRANSACTION)
    .docs(
        Group::Transactions,
        "1.2.0",
        "That of the queued commands",
        "Runs the queued commands as one.",
    ),
    EngineSpec::new("discard", 1, discard, FLAGS)
        .traits(Traits::NOT_QUEUED)
        .categories(Categories::TRANSACTION)
        .docs(
            Group::Transactions,
            "2.0.0",
            "O(N), N being the queued commands",
            "Drops the queued commands.",
        ),
    EngineSpec::new("watch", -2, watch, FLAGS)
        .traits(Traits::NOT_QUEUED.or(Traits::LEAVES_VALUES))
        .categories(Categories::TRANSACTION)
        .keys(&[KeySpec::range(1, -1, 1, KeyFlags::RO)])
        .docs(
            Group::Transactions,
            "2.2.0",
            "O(1) for each key",
            "Lets EXEC run only if the keys stay as they are.",
        )
        .arguments("key:key#0*"),
    EngineSpec::new("unwatch", 1, unwatch, FLAGS).categories(Categories::TRANSACTION).docs(
        Group::Transactions,
        "2.2.0",
        "O(1)",
        "Forgets all watched keys.",
    ),
];
