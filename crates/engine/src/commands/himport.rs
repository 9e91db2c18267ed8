//! HIMPORT: hashes with the same fields, of which a connection names the fields once (`field_sets.rs`).

use std::sync::Arc;

use mantissa_commands::spec::{Categories, Flags, Group, KeyFlags, KeySpec};
use mantissa_commands::{Error, Locks, Outcome, import_hash};
use mantissa_protocol::{Args, OwnedArgs, Reply};

use crate::call;
use crate::invocation::{EngineSpec, Invocation};

fn prepare(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let sets = invocation.session.field_sets.get_or_insert_default();
    let inserted = sets.insert(args.at(2), args.from(3).iter());
    inserted.map_err(|_| Error::fixed("ERR duplicate field name in fieldset"))?;
    reply.ok();
    Ok(())
}

fn set(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (name, values) = (args.at(3), args.from(4));
    let sets = invocation.session.field_sets.as_deref();
    let fields = sets.and_then(|sets| sets.get(name)).ok_or(Error::fixed("ERR no such fieldset"))?;
    if fields.len() != values.len() {
        return Err(Error::fixed("ERR value count does not match fieldset field count"));
    }
    let fields = Arc::clone(fields);
    let pairs = fields.iter().zip(values).flat_map(|(field, value)| [&field[..], value]);
    let words: Vec<&[u8]> = args.range(0..4).iter().chain(pairs).collect();
    call::run_on_data(invocation, OwnedArgs::from_slices(&words).as_args(), import_hash, reply)
}

fn discard(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let sets = invocation.session.field_sets.as_mut();
    let is_removed = sets.is_some_and(|sets| sets.remove(args.at(2)));
    reply.integer(i64::from(is_removed));
    Ok(())
}

fn discard_all(invocation: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    let sets = invocation.session.field_sets.take();
    reply.integer(sets.map_or(0, |sets| sets.len()) as i64);
    Ok(())
}

fn help(_invocation: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    super::write_help(
        reply,
        "HIMPORT",
        &[
            ("PREPARE <fieldset> <field> [<field> ...]", "Names a list of fields, for this connection."),
            ("SET <key> <fieldset> <value> [<value> ...]", "Makes a hash of these fields with these values."),
            ("DISCARD <fieldset>", "Forgets a list of fields."),
            ("DISCARDALL", "Forgets all lists of fields of this connection."),
        ],
    );
    Ok(())
}

const SINCE: &str = "8.10.0";
const ALL_SHARDS: &[&str] = &["request_policy:all_shards"];

const SUBCOMMANDS: &[EngineSpec] = &[
    EngineSpec::new("discard", 3, discard, Flags::NONE)
        .locks(Locks::Nothing)
        .categories(Categories::HASH)
        .docs(Group::Hash, SINCE, "O(N) for N fields", "Forgets a list of fields of the connection.")
        .tips(ALL_SHARDS)
        .arguments("fieldset-name:string"),
    EngineSpec::new("discardall", 2, discard_all, Flags::NONE)
        .locks(Locks::Nothing)
        .categories(Categories::HASH)
        .docs(Group::Hash, SINCE, "O(N) for N fields", "Forgets all lists of fields of the connection.")
        .tips(ALL_SHARDS),
    EngineSpec::new("help", 2, help, Flags::LOADING.or(Flags::STALE))
        .locks(Locks::Nothing)
        .categories(Categories::HASH)
        .docs(Group::Hash, SINCE, "O(1)", "Lists the subcommands."),
    EngineSpec::new("prepare", -4, prepare, Flags::DENYOOM)
        .locks(Locks::Nothing)
        .categories(Categories::HASH)
        .docs(Group::Hash, SINCE, "O(N) for N fields", "Names a list of fields for the connection.")
        .tips(ALL_SHARDS)
        .arguments("fieldset-name:string field:string*"),
    EngineSpec::new("set", -5, set, Flags::WRITE.or(Flags::DENYOOM))
        .categories(Categories::HASH)
        .keys(&[KeySpec::one(2, KeyFlags::OW.or(KeyFlags::UPDATE))])
        .docs(
            Group::Hash,
            SINCE,
            "O(N) for N fields",
            "Makes a hash of the fields of a list that the connection has named and of values.",
        )
        .arguments("key:key#0 fieldset-name:string value:string*"),
];

/// The registration table.
pub(super) const COMMANDS: &[EngineSpec] = &[EngineSpec::container("himport", -2, Flags::NONE)
    .categories(Categories::HASH)
    .docs(Group::Hash, SINCE, "Depends on the subcommand.", "Makes hashes of fields that are named once.")
    .subcommands(SUBCOMMANDS)];
