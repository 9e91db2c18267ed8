//! INFO: what there is to know about the server, in sections of lines `name:value`.
//!
//! The names are Redis's, so that clients and monitors find what they look for. A figure of a mechanism that
//! this server does not have (forks, defragmentation) is what Redis shows
//! while it is idle.
//!
//! Costs O(clients) for the sections clients, memory and threads, and O(shards) for clients, memory and
//! keyspace, whose shards are looked at one at a time.

mod activity;
mod append_only;
mod figures;
mod keysizes;
mod memory;
mod state;

use mantissa_commands::spec::{Categories, Flags, Group};
use mantissa_commands::{Locks, Outcome};
use mantissa_protocol::{Args, Reply};

pub(super) use figures::{ClientTotals, KeyspaceTotals};

pub(super) use memory::MemoryFigures;

use crate::invocation::{EngineSpec, Invocation};

/// A section: its name as an argument, its title, when it is shown, and what writes its lines.
struct Section {
    name: &'static str,
    title: &'static str,
    shown: Shown,
    /// What writes it looks at shards.
    visits: bool,
    write: fn(&mut Lines, &mut Invocation<'_, '_, '_>),
}

/// Whether a section that is not named is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    ByDefault,
    WithAll,
    IfNamed,
}

const SECTIONS: &[Section] = &[
    section("server", "Server", Shown::ByDefault, state::server),
    visiting(section("clients", "Clients", Shown::ByDefault, state::clients)),
    visiting(section("memory", "Memory", Shown::ByDefault, memory::section)),
    section("persistence", "Persistence", Shown::ByDefault, state::persistence),
    section("threads", "Threads", Shown::ByDefault, state::threads),
    section("stats", "Stats", Shown::ByDefault, activity::stats),
    section("replication", "Replication", Shown::ByDefault, state::replication),
    section("cpu", "CPU", Shown::ByDefault, activity::cpu),
    section("modules", "Modules", Shown::ByDefault, |_, _| {}),
    section("commandstats", "Commandstats", Shown::WithAll, activity::commandstats),
    section("errorstats", "Errorstats", Shown::ByDefault, activity::errorstats),
    section("latencystats", "Latencystats", Shown::WithAll, activity::latencystats),
    section("cluster", "Cluster", Shown::ByDefault, state::cluster),
    visiting(section("keyspace", "Keyspace", Shown::ByDefault, state::keyspace)),
    visiting(section("keysizes", "Keysizes", Shown::ByDefault, keysizes::section)),
    section("debug", "Debug", Shown::IfNamed, activity::debug),
];

const fn section(
    name: &'static str,
    title: &'static str,
    shown: Shown,
    write: fn(&mut Lines, &mut Invocation<'_, '_, '_>),
) -> Section {
    Section { name, title, shown, visits: false, write }
}

const fn visiting(section: Section) -> Section {
    Section { visits: true, ..section }
}

/// The text so far.
#[derive(Default)]
struct Lines(String);

impl Lines {
    /// Adds a line.
    fn add(&mut self, name: &str, value: impl std::fmt::Display) {
        use std::fmt::Write;
        let _to_memory = write!(self.0, "{name}:{value}\r\n");
    }

    /// Adds lines that all have the value 0.
    fn zeros(&mut self, names: &[&str]) {
        names.iter().for_each(|name| self.add(name, 0));
    }

    /// Adds a size in bytes, and again as people read it.
    fn size(&mut self, name: &str, bytes: u64) {
        self.add(name, bytes);
        self.add(&format!("{name}_human"), human(bytes));
    }
}

/// A size as people read it.
pub(super) fn human(bytes: u64) -> String {
    let mut text = Vec::new();
    mantissa_number::human::write_human_size(&mut text, bytes);
    String::from_utf8_lossy(&text).into_owned()
}

/// `part / whole`, 0 for a part of nothing.
pub(super) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn is_wanted(section: &Section, args: Args<'_>) -> bool {
    let names = args.from(1);
    if names.is_empty() {
        return section.shown == Shown::ByDefault;
    }
    names.iter().any(|name| match &name.to_ascii_lowercase()[..] {
        b"all" | b"everything" => section.shown != Shown::IfNamed,
        b"default" => section.shown == Shown::ByDefault,
        name => name == section.name.as_bytes(),
    })
}

/// Writes all sections, one after another; without `visits` those that need no shard.
pub fn write_all(invocation: &mut Invocation<'_, '_, '_>, visits: bool, mut write: impl FnMut(&str)) {
    for section in SECTIONS.iter().filter(|section| visits || !section.visits) {
        let mut lines = Lines(format!("# {}\r\n", section.title));
        (section.write)(&mut lines, invocation);
        lines.0.push_str("\r\n");
        write(&lines.0);
    }
}

fn info(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let mut lines = Lines::default();
    for section in SECTIONS.iter().filter(|section| is_wanted(section, args)) {
        if !lines.0.is_empty() {
            lines.0.push_str("\r\n");
        }
        lines.0.push_str("# ");
        lines.0.push_str(section.title);
        lines.0.push_str("\r\n");
        (section.write)(&mut lines, invocation);
    }
    reply.verbatim("txt", lines.0.as_bytes());
    Ok(())
}

/// The registration table.
pub(super) const COMMANDS: &[EngineSpec] =
    &[EngineSpec::new("info", -1, info, Flags::LOADING.or(Flags::STALE))
        .locks(Locks::Sweep)
        .categories(Categories::DANGEROUS)
        .docs(Group::Server, "1.0.0", "O(1)", "Shows the state and the statistics of the server.")
        .history(&[("7.0.0", "Several sections may be named.")])
        .tips(&["nondeterministic_output", "request_policy:all_shards", "response_policy:special"])
        .arguments("section:string?*")];
