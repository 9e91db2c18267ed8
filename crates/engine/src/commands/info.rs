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
mod archive;
mod figures;
mod keysizes;
mod memory;
mod replica;
mod replication;
mod state;
mod tier;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mantissa_commands::spec::{Categories, Flags, Group};
use mantissa_commands::{Locks, Outcome};
use mantissa_protocol::{Args, Reply};
use mantissa_store::Kind;
use mantissa_sys::process::{self, CpuTimes};

pub(crate) use activity::{Calls, distribution_of, each_command};
pub(crate) use figures::{ClientTotals, KeyspaceTotals};
pub(super) use memory::MemoryFigures;

use super::key_reports::findings_of_few;
use crate::active_config::ActiveConfig;
use crate::engine::Engine;
use crate::invocation::{EngineSpec, Invocation};
use crate::key_sizes::{Distribution, Findings};

/// A section: its name as an argument, its title, when it is shown, and what writes its lines.
struct Section {
    name: &'static str,
    title: &'static str,
    shown: Shown,
    /// What writes it looks at shards.
    visits: bool,
    /// Each of its lines is one figure or word.
    is_of_figures: bool,
    write: fn(&mut Lines, &Source),
}

fn modules(lines: &mut Lines, _source: &Source) {
    super::modules::facts().for_each(|(name, value)| lines.add(name, value));
}

/// Whether a section that is not named is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    ByDefault,
    WithAll,
    IfNamed,
}

const KEYSIZES: &str = "keysizes";

const SECTIONS: &[Section] = &[
    of_figures(section("server", "Server", Shown::ByDefault, state::server)),
    visiting(of_figures(section("clients", "Clients", Shown::ByDefault, state::clients))),
    visiting(of_figures(section("memory", "Memory", Shown::ByDefault, memory::section))),
    of_figures(section("persistence", "Persistence", Shown::ByDefault, state::persistence)),
    of_figures(section("tier", "Tier", Shown::ByDefault, tier::section)),
    section("threads", "Threads", Shown::ByDefault, state::threads),
    of_figures(section("stats", "Stats", Shown::ByDefault, activity::stats)),
    of_figures(section("replication", "Replication", Shown::ByDefault, replication::section)),
    of_figures(section("cpu", "CPU", Shown::ByDefault, activity::cpu)),
    section("modules", "Modules", Shown::ByDefault, modules),
    section("commandstats", "Commandstats", Shown::WithAll, activity::commandstats),
    section("errorstats", "Errorstats", Shown::ByDefault, activity::errorstats),
    section("latencystats", "Latencystats", Shown::WithAll, activity::latencystats),
    of_figures(section("cluster", "Cluster", Shown::ByDefault, state::cluster)),
    visiting(section("keyspace", "Keyspace", Shown::ByDefault, state::keyspace)),
    visiting(section(KEYSIZES, "Keysizes", Shown::ByDefault, keysizes::section)),
    of_figures(section("debug", "Debug", Shown::IfNamed, activity::debug)),
];

const fn section(
    name: &'static str,
    title: &'static str,
    shown: Shown,
    write: fn(&mut Lines, &Source),
) -> Section {
    Section { name, title, shown, visits: false, is_of_figures: false, write }
}

const fn visiting(section: Section) -> Section {
    Section { visits: true, ..section }
}

const fn of_figures(section: Section) -> Section {
    Section { is_of_figures: true, ..section }
}

/// What the sections are written from.
pub(crate) struct Source<'e> {
    /// The engine.
    pub engine: &'e Engine,
    /// The configuration in force.
    pub active: Arc<ActiveConfig>,
    /// The clock: Unix time in ms.
    pub now_ms: i64,
    /// Sums over the shards, for the sections that visit them.
    pub keyspace: KeyspaceTotals,
    /// How large values are, by database and type.
    pub sizes: BTreeMap<(usize, Kind), Box<Distribution>>,
    /// Processor time, with that of the thread that serves the caller.
    pub cpu: CpuTimes,
    clients: OnceCell<ClientTotals>,
}

impl<'e> Source<'e> {
    /// For a command; visits the shards if `wants` says so of a section.
    fn of(invocation: &mut Invocation<'_, '_, 'e>, wants: impl Fn(&Section) -> bool) -> Source<'e> {
        let (mut keyspace, mut sizes) = (KeyspaceTotals::default(), BTreeMap::new());
        let engine = invocation.engine();
        let visiting = SECTIONS.iter().filter(|section| section.visits && wants(section));
        for section in visiting {
            if section.name != KEYSIZES {
                if keyspace.databases.is_empty() {
                    keyspace = KeyspaceTotals::collect(invocation);
                }
                continue;
            }
            let is_loading = engine.persistence.loading.load(Ordering::Relaxed);
            let of_few = if is_loading { None } else { findings_of_few(invocation, Findings::note_size) };
            sizes = of_few.map_or_else(|| engine.key_sizes.sizes(), |findings| findings.sizes);
        }
        let active = Arc::clone(&invocation.context.active);
        let now_ms = invocation.context.now_ms;
        Source { active, sizes, ..Source::new(engine, now_ms, keyspace, process::cpu_times()) }
    }

    /// For metrics, which ask for no sizes of values.
    pub fn new(engine: &'e Engine, now_ms: i64, keyspace: KeyspaceTotals, cpu: CpuTimes) -> Source<'e> {
        let (active, sizes, clients) = (engine.active_config(), BTreeMap::new(), OnceCell::new());
        Source { engine, active, now_ms, keyspace, sizes, cpu, clients }
    }

    /// Sums over the clients.
    pub fn clients(&self) -> &ClientTotals {
        self.clients.get_or_init(|| ClientTotals::collect(self.engine))
    }
}

/// The text so far.
#[derive(Default)]
pub(crate) struct Lines {
    text: String,
    /// Of each line, where its name and its value begin and where it ends.
    fields: Vec<[usize; 3]>,
}

impl Lines {
    /// Adds a line.
    fn add(&mut self, name: &str, value: impl std::fmt::Display) {
        use std::fmt::Write;
        let begin = self.text.len();
        let _to_memory = write!(self.text, "{name}:{value}");
        self.fields.push([begin, begin + name.len() + 1, self.text.len()]);
        self.text.push_str("\r\n");
    }

    /// All names with their values.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        let part = |from: usize, to: usize| self.text.get(from..to).unwrap_or_default();
        self.fields.iter().map(move |&[name, value, end]| (part(name, value - 1), part(value, end)))
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
    let source = Source::of(invocation, |_| visits);
    for section in SECTIONS.iter().filter(|section| visits || !section.visits) {
        let mut lines = Lines { text: format!("# {}\r\n", section.title), ..Lines::default() };
        (section.write)(&mut lines, &source);
        lines.text.push_str("\r\n");
        write(&lines.text);
    }
}

/// The fields of the sections whose values are single figures.
pub(crate) fn figures(source: &Source) -> Lines {
    let mut lines = Lines::default();
    for section in SECTIONS.iter().filter(|section| section.is_of_figures) {
        (section.write)(&mut lines, source);
    }
    lines
}

fn info(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let source = Source::of(invocation, |section| is_wanted(section, args));
    let mut lines = Lines::default();
    for section in SECTIONS.iter().filter(|section| is_wanted(section, args)) {
        if !lines.text.is_empty() {
            lines.text.push_str("\r\n");
        }
        lines.text.push_str("# ");
        lines.text.push_str(section.title);
        lines.text.push_str("\r\n");
        (section.write)(&mut lines, &source);
    }
    reply.verbatim("txt", lines.text.as_bytes());
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
