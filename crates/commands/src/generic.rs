//! Commands on keys of any type: removing, renaming, copying and moving them, and emptying databases.

use mantissa_protocol::{Args, Reply};
use mantissa_store::Kind;

use crate::DataSpec;
use crate::access::Access;
use crate::effects::EventClass;
use crate::error::{Error, Outcome};
use crate::parse;
use crate::spec::{Categories, Databases, Flags, Group, KeyFlags, KeySpec, Locks, Traits};

const SAME_OBJECT: Error = Error::fixed("ERR source and destination objects are the same");

fn del(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let is_lazy = access.settings().lazy_user_del;
    let mut count = 0;
    for key in args.from(1) {
        count += i64::from(access.delete_as(is_lazy, key));
    }
    reply.integer(count);
    Ok(())
}

fn unlink(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let count = args.from(1).iter().filter(|key| access.delete_as(true, key)).count();
    reply.integer(count as i64);
    Ok(())
}

fn exists(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let count = args.from(1).iter().filter(|key| access.read_untouched(key).is_some()).count();
    reply.integer(count as i64);
    Ok(())
}

fn touch(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let count = args.from(1).iter().filter(|key| access.touch(key)).count();
    reply.integer(count as i64);
    Ok(())
}

fn type_of(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    reply.simple(access.read_untouched(args.at(1)).map_or("none", |entry| entry.kind().name()));
    Ok(())
}

fn rename(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (old, new) = (args.at(1), args.at(2));
    if access.find_mut(old).is_none() {
        return Err(Error::NO_SUCH_KEY);
    }
    if old != new {
        give_name(access, old, new)?;
    }
    reply.ok();
    Ok(())
}

fn renamenx(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (old, new) = (args.at(1), args.at(2));
    if access.find_mut(old).is_none() {
        return Err(Error::NO_SUCH_KEY);
    }
    if old == new || access.find_mut(new).is_some() {
        reply.integer(0);
        return Ok(());
    }
    give_name(access, old, new)?;
    reply.integer(1);
    Ok(())
}

/// Gives a key that is there another name.
fn give_name(access: &mut Access<'_>, old: &[u8], new: &[u8]) -> Outcome {
    crate::access::check_key(new)?;
    crate::series::bring_links_of(access, old)?;
    let Some(entry) = access.take(old) else { return Err(Error::NO_SUCH_KEY) };
    let kind = entry.kind();
    let before = access.put_entry_as_new(entry.renamed(new))?;
    if kind == Kind::Series {
        crate::series::renamed(access, old, new);
    }
    access.changed_by(old, 0);
    access.changed(new);
    access.event(EventClass::GENERIC, "rename_from", old);
    access.event(EventClass::GENERIC, "rename_to", new);
    if let Some(before) = before {
        access.overwritten(new, before, kind);
    }
    Ok(())
}

/// A database number. Too large a number for a C `int` has an error of its own.
fn database_number(argument: &[u8], access: &Access<'_>) -> Outcome<usize> {
    let number = parse::integer(argument)?;
    if i32::try_from(number).is_err() {
        let text = "ERR value is out of range, value must between -2147483648 and 2147483647";
        return Err(Error::fixed(text));
    }
    let number = usize::try_from(number).ok().filter(|&number| number < access.database_count());
    number.ok_or(Error::DATABASE_OUT_OF_RANGE)
}

fn copy(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (source, target) = (args.at(1), args.at(2));
    let here = access.database();
    let (mut there, mut replace) = (here, false);
    let mut at = 3;
    while let Some(option) = args.get(at) {
        if parse::is(option, "REPLACE") {
            replace = true;
            at += 1;
        } else if parse::is(option, "DB") && at + 1 < args.len() {
            there = database_number(args.at(at + 1), access)?;
            at += 2;
        } else {
            return Err(Error::SYNTAX);
        }
    }
    if source == target && here == there {
        return Err(SAME_OBJECT);
    }
    crate::access::check_key(target)?;
    let copied = access.read(source).is_some() && copy_to(access, source, target, there, replace)?;
    access.select(here);
    reply.integer(i64::from(copied));
    Ok(())
}

/// Copies a key to another database, which is then selected. False if the target is there and must not be
/// replaced.
fn copy_to(
    access: &mut Access<'_>,
    source: &[u8],
    target: &[u8],
    there: usize,
    replace: bool,
) -> Outcome<bool> {
    let here = access.database();
    access.select(there);
    if access.find_mut(target).is_some() && !replace {
        return Ok(false);
    }
    access.select(here);
    let Some(entry) = access.peek(source) else { return Ok(false) };
    let copy = entry.duplicate(target, entry.expiry());
    let kind = copy.kind();
    access.select(there);
    let before = access.put_entry_as_new(copy)?;
    if kind == Kind::Series {
        crate::series::unlink(access, target);
    }
    access.modified(target, EventClass::GENERIC, "copy_to");
    if let Some(before) = before {
        access.overwritten(target, before, kind);
    }
    Ok(true)
}

fn move_key(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (key, here) = (args.at(1), access.database());
    let there = database_number(args.at(2), access)?;
    if here == there {
        return Err(SAME_OBJECT);
    }
    let is_here = access.find_mut(key).is_some();
    access.select(there);
    let is_there = access.find_mut(key).is_some();
    access.select(here);
    if !is_here || is_there {
        reply.integer(0);
        return Ok(());
    }
    crate::series::bring_if_linked(access, key)?;
    if let Some(entry) = access.take(key) {
        let kind = entry.kind();
        access.select(there);
        access.put_entry_as_new(entry)?;
        if kind == Kind::Series {
            crate::series::unlink(access, key);
        }
        access.changed_by(key, 0);
        access.select(here);
    }
    access.modified(key, EventClass::GENERIC, "move_from");
    access.select(there);
    access.event(EventClass::GENERIC, "move_to", key);
    access.select(here);
    reply.integer(1);
    Ok(())
}

fn swapdb(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let number = |argument: &[u8], error: &'static str| {
        parse::integer_in(argument, i64::from(i32::MIN), i64::from(i32::MAX), error)
    };
    let first = number(args.at(1), "ERR invalid first DB index")?;
    let second = number(args.at(2), "ERR invalid second DB index")?;
    let in_range = |number: i64| {
        let number = usize::try_from(number).ok().filter(|&number| number < access.database_count());
        number.ok_or(Error::DATABASE_OUT_OF_RANGE)
    };
    let (first, second) = (in_range(first)?, in_range(second)?);
    access.swap_databases(first, second);
    reply.ok();
    Ok(())
}

fn flushall(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let is_lazy = flushes_lazily(access, args)?;
    let count = access.flush_all(is_lazy);
    log_flush(access, args, count);
    reply.ok();
    Ok(())
}

fn flushdb(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let is_lazy = flushes_lazily(access, args)?;
    let count = access.flush(access.database()..access.database() + 1, is_lazy);
    log_flush(access, args, count);
    reply.ok();
    Ok(())
}

/// Logs the command also where it has changed nothing: it empties whoever follows the log.
fn log_flush(access: &mut Access<'_>, args: Args<'_>, count: u64) {
    if count == 0 {
        let words: Vec<&[u8]> = args.iter().collect();
        access.log_instead(&words);
    }
}

/// Whether keys count as freed in the background. Taking the tables out takes no time, and they always are;
/// Redis does that inside a transaction or a script only with `ASYNC`.
fn flushes_lazily(access: &Access<'_>, args: Args<'_>) -> Outcome<bool> {
    let is_async = match (args.len(), args.get(1)) {
        (1, _) => access.settings().lazy_user_flush,
        (2, Some(option)) if parse::is(option, "SYNC") => false,
        (2, Some(option)) if parse::is(option, "ASYNC") => true,
        _ => return Err(Error::SYNTAX),
    };
    Ok(is_async || access.mode().may_block)
}

/// The registration table.
pub(crate) const COMMANDS: &[DataSpec] = &[
    DataSpec::new("del", -2, del, Flags::WRITE)
        .categories(Categories::KEYSPACE)
        .keys(&[KeySpec::range(1, -1, 1, KeyFlags::RM.or(KeyFlags::DELETE))])
        .docs(
            Group::Generic,
            "1.0.0",
            "O(N) for N keys; what is large is freed in the background",
            "Removes keys.",
        )
        .tips(&["request_policy:multi_shard", "response_policy:agg_sum"])
        .arguments("key:key#0*"),
    DataSpec::new("unlink", -2, unlink, Flags::WRITE.or(Flags::FAST))
        .categories(Categories::KEYSPACE)
        .keys(&[KeySpec::range(1, -1, 1, KeyFlags::RM.or(KeyFlags::DELETE))])
        .docs(
            Group::Generic,
            "4.0.0",
            "O(N) for N keys; what is large is freed in the background",
            "Removes keys without waiting until their memory is free.",
        )
        .tips(&["request_policy:multi_shard", "response_policy:agg_sum"])
        .arguments("key:key#0*"),
    DataSpec::new("exists", -2, exists, Flags::READONLY.or(Flags::FAST))
        .traits(Traits::LEAVES_VALUES)
        .categories(Categories::KEYSPACE)
        .keys(&[KeySpec::range(1, -1, 1, KeyFlags::RO)])
        .docs(Group::Generic, "1.0.0", "O(N) for N keys", "Counts how many of the keys are there.")
        .history(&[("3.0.3", "Several keys.")])
        .tips(&["request_policy:multi_shard", "response_policy:agg_sum"])
        .arguments("key:key#0*"),
    DataSpec::new("touch", -2, touch, Flags::READONLY.or(Flags::FAST))
        .traits(Traits::LEAVES_VALUES)
        .categories(Categories::KEYSPACE)
        .keys(&[KeySpec::range(1, -1, 1, KeyFlags::RO)])
        .docs(
            Group::Generic,
            "3.2.1",
            "O(N) for N keys",
            "Marks keys as used now and counts how many are there.",
        )
        .tips(&["request_policy:multi_shard", "response_policy:agg_sum"])
        .arguments("key:key#0*"),
    DataSpec::new("type", 2, type_of, Flags::READONLY.or(Flags::FAST))
        .traits(Traits::LEAVES_VALUES)
        .categories(Categories::KEYSPACE)
        .keys(&[KeySpec::one(1, KeyFlags::RO)])
        .docs(Group::Generic, "1.0.0", "O(1)", "Tells the type of the value at a key.")
        .arguments("key:key#0"),
    DataSpec::new("rename", 3, rename, Flags::WRITE)
        .categories(Categories::KEYSPACE)
        .keys(&[
            KeySpec::one(1, KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::DELETE)),
            KeySpec::one(2, KeyFlags::OW.or(KeyFlags::UPDATE)),
        ])
        .traits(Traits::FOLLOWS_LINKS.or(Traits::LEAVES_VALUES))
        .docs(Group::Generic, "1.0.0", "O(1)", "Gives a key another name, replacing what had that name.")
        .arguments("key:key#0 newkey:key#1"),
    DataSpec::new("renamenx", 3, renamenx, Flags::WRITE.or(Flags::FAST))
        .categories(Categories::KEYSPACE)
        .keys(&[
            KeySpec::one(1, KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::DELETE)),
            KeySpec::one(2, KeyFlags::OW.or(KeyFlags::INSERT)),
        ])
        .traits(Traits::FOLLOWS_LINKS.or(Traits::LEAVES_VALUES))
        .docs(Group::Generic, "1.0.0", "O(1)", "Gives a key another name that is not taken.")
        .history(&[("3.2.0", "The same name twice is no error.")])
        .arguments("key:key#0 newkey:key#1"),
    DataSpec::new("copy", -3, copy, Flags::WRITE.or(Flags::DENYOOM))
        .categories(Categories::KEYSPACE)
        .keys(&[
            KeySpec::one(1, KeyFlags::RO.or(KeyFlags::ACCESS)),
            KeySpec::one(2, KeyFlags::OW.or(KeyFlags::UPDATE)),
        ])
        .databases(Databases::CurrentAndOption("DB"))
        .docs(
            Group::Generic,
            "6.2.0",
            "O(N) for N elements; O(1) for a string",
            "Copies a key to another name or database.",
        )
        .arguments("source:key#0 destination:key#1 destination-db:integer@DB? replace:pure-token@REPLACE?"),
    DataSpec::new("move", 3, move_key, Flags::WRITE.or(Flags::FAST))
        .traits(Traits::LEAVES_VALUES)
        .categories(Categories::KEYSPACE)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::UPDATE))])
        .databases(Databases::CurrentAndArgument(2))
        .docs(Group::Generic, "1.0.0", "O(1)", "Moves a key to another database.")
        .arguments("key:key#0 db:integer"),
    DataSpec::new("swapdb", 3, swapdb, Flags::WRITE.or(Flags::FAST))
        .locks(Locks::All)
        .databases(Databases::Arguments)
        .categories(Categories::KEYSPACE.or(Categories::DANGEROUS))
        .docs(
            Group::Server,
            "4.0.0",
            "O(N) for N watched or awaited keys of both databases",
            "Exchanges two databases.",
        )
        .arguments("index1:integer index2:integer"),
    DataSpec::new("flushall", -1, flushall, Flags::WRITE)
        .locks(Locks::All)
        .databases(Databases::All)
        .traits(Traits::REPLIES_LAST)
        .categories(Categories::KEYSPACE.or(Categories::DANGEROUS))
        .docs(
            Group::Server,
            "1.0.0",
            "O(1); the memory is freed in the background",
            "Removes all keys of all databases.",
        )
        .history(&[("4.0.0", "ASYNC."), ("6.2.0", "SYNC.")])
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"])
        .arguments("flush-type:oneof(async:pure-token@ASYNC<4.0.0 sync:pure-token@SYNC<6.2.0)?"),
    DataSpec::new("flushdb", -1, flushdb, Flags::WRITE)
        .locks(Locks::All)
        .traits(Traits::REPLIES_LAST)
        .categories(Categories::KEYSPACE.or(Categories::DANGEROUS))
        .docs(
            Group::Server,
            "1.0.0",
            "O(1); the memory is freed in the background",
            "Removes all keys of the database.",
        )
        .history(&[("4.0.0", "ASYNC."), ("6.2.0", "SYNC.")])
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"])
        .arguments("flush-type:oneof(async:pure-token@ASYNC<4.0.0 sync:pure-token@SYNC<6.2.0)?"),
];
