//! Strings and counters.

use mantissa_protocol::{Args, Reply};

use crate::DataSpec;
use crate::access::{Access, NewExpiry};
use crate::effects::EventClass;
use crate::error::Outcome;
use crate::spec::{Categories, Flags, Group, KeyFlags, KeySpec};

fn get(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    match access.string(args.at(1))? {
        Some(text) => reply.bulk(text.text(&mut [0; 20])),
        None => reply.null(),
    }
    Ok(())
}

fn set(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let key = args.at(1);
    access.set_string(key, args.at(2), NewExpiry::Clear)?;
    access.modified(key, EventClass::STRING, "set");
    reply.ok();
    Ok(())
}

/// The registration table.
pub(crate) const COMMANDS: &[DataSpec] = &[
    DataSpec::new("get", 2, get, Flags::READONLY.or(Flags::FAST))
        .categories(Categories::STRING)
        .keys(&[KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS))])
        .docs(Group::String, "1.0.0", "O(1)", "Returns the string stored at a key.")
        .arguments("key:key#0"),
    DataSpec::new("set", -3, set, Flags::WRITE.or(Flags::DENYOOM))
        .categories(Categories::STRING)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::UPDATE))])
        .docs(Group::String, "1.0.0", "O(1)", "Stores a string at a key, whatever was there.")
        .arguments("key:key#0 value:string"),
];
