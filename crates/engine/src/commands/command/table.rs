//! What COMMAND INFO says of a command.

use mantissa_commands::spec::{BeginSearch, FindKeys, Flags, Info, KeyFlags, KeySpec};
use mantissa_protocol::Reply;

use crate::invocation::Command;

/// Writes a command with its subcommands: an array of ten elements.
pub(super) fn write(reply: &mut Reply, command: &Command) {
    let info = command.info;
    let range = KeyRange::of(info);
    let flags = if range.is_all { info.flags } else { info.flags.or(Flags::MOVABLE_KEYS) };
    reply.array(10);
    reply.bulk(command.name.as_bytes());
    reply.integer(i64::from(info.arity));
    let is_shown = |name: &&str| !matches!(*name, "may_replicate" | "protected" | "sentinel");
    write_set(reply, flags.names().filter(is_shown), "");
    reply.integer(i64::from(range.first));
    reply.integer(i64::from(range.last));
    reply.integer(i64::from(range.step));
    write_set(reply, info.categories().names(), "@");
    reply.set(info.tips.len());
    info.tips.iter().for_each(|tip| reply.bulk(tip.as_bytes()));
    reply.set(info.keys.len());
    info.keys.iter().for_each(|spec| write_key_spec(reply, spec));
    match command.subcommands.len() {
        0 => reply.set(0),
        count => reply.array(count),
    }
    command.subcommands.iter().for_each(|subcommand| write(reply, subcommand));
}

fn write_set<'a>(reply: &mut Reply, names: impl Iterator<Item = &'a str>, prefix: &str) {
    let names: Vec<&str> = names.collect();
    reply.set(names.len());
    names.into_iter().for_each(|name| reply.simple(&format!("{prefix}{name}")));
}

/// The one range of keys that clients from before key specifications know.
struct KeyRange {
    first: i32,
    last: i32,
    step: i32,
    /// Whether it has all keys.
    is_all: bool,
}

impl KeyRange {
    /// The range of a single specification that is a range, or the union of those that are ranges of single
    /// keys and follow upon each other.
    fn of(info: &Info) -> KeyRange {
        let none = KeyRange { first: 0, last: 0, step: 0, is_all: true };
        if let [spec] = info.keys
            && let (BeginSearch::Index(first), FindKeys::Range { last, step, .. }) = (spec.begin, spec.find)
        {
            let last = if last >= 0 { first + last } else { last };
            return KeyRange { first, last, step, is_all: !spec.flags.has(KeyFlags::INCOMPLETE) };
        }
        let mut union = KeyRange { is_all: true, ..none };
        for spec in info.keys {
            let (BeginSearch::Index(first), FindKeys::Range { last, step: 1, .. }) = (spec.begin, spec.find)
            else {
                union.is_all = false;
                continue;
            };
            let follows = union.first == 0 || first == union.last + 1;
            union.is_all &= follows && !spec.flags.has(KeyFlags::INCOMPLETE);
            if follows {
                union.first = if union.first == 0 { first } else { union.first };
                union.last = if last >= 0 { first + last } else { last };
                union.step = 1;
            }
        }
        union
    }
}

/// Writes a key specification: a map.
fn write_key_spec(reply: &mut Reply, spec: &KeySpec) {
    reply.map(3 + usize::from(!spec.notes.is_empty()));
    if !spec.notes.is_empty() {
        reply.bulk(b"notes");
        reply.bulk(spec.notes.as_bytes());
    }
    reply.bulk(b"flags");
    write_set(reply, spec.flags.names(), "");
    reply.bulk(b"begin_search");
    match spec.begin {
        BeginSearch::Index(index) => write_search(reply, "index", &[("index", index)]),
        BeginSearch::Keyword(keyword, from) => {
            write_kind(reply, "keyword");
            reply.map(2);
            reply.bulk(b"keyword");
            reply.bulk(keyword.as_bytes());
            reply.bulk(b"startfrom");
            reply.integer(i64::from(from));
        }
        BeginSearch::Unknown => write_search(reply, "unknown", &[]),
    }
    reply.bulk(b"find_keys");
    match spec.find {
        FindKeys::Range { last, step, limit } => {
            write_search(reply, "range", &[("lastkey", last), ("keystep", step), ("limit", limit)]);
        }
        FindKeys::Count { count_index, first, step } => {
            let numbers = [("keynumidx", count_index), ("firstkey", first), ("keystep", step)];
            write_search(reply, "keynum", &numbers);
        }
        FindKeys::Unknown => write_search(reply, "unknown", &[]),
    }
}

fn write_kind(reply: &mut Reply, kind: &str) {
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(kind.as_bytes());
    reply.bulk(b"spec");
}

fn write_search(reply: &mut Reply, kind: &str, numbers: &[(&str, i32)]) {
    write_kind(reply, kind);
    reply.map(numbers.len());
    for (name, number) in numbers {
        reply.bulk(name.as_bytes());
        reply.integer(i64::from(*number));
    }
}
