//! Reading what a primary's commands need before they are applied.
//!
//! Of the commands at hand, those before the first that needs a value on disk can be applied at once. The
//! values of that one and of those behind it are read meanwhile by the threads that read for clients, up to
//! [`BYTES_MAX`] at a time. No shard is locked while the disk works, and only the link waits.
//!
//! Which values a command needs is seen before the commands ahead of it have run, so it is a guess: it costs
//! time where it is wrong, and nothing else. A command that has waited [`WAITS_MAX`] times counts as ready,
//! and so does one with a value that can not be read. What it still lacks it reads itself with its shards
//! locked ([`super::fetch::bring`]), and fails if that fails. So every command is ready some time.
//!
//! The keys of a command are looked up one at a time, each with its shard locked for that, which is all that
//! this costs where the values are in memory.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use mantissa_commands::spec::Traits;
use mantissa_commands::{Outcome, Unread};
use mantissa_protocol::Args;
use mantissa_store::Entry;
use mantissa_store::series::are_there_links;
use mantissa_sys::simulation;

use super::fetch::{visit_needed, with_entry};
use crate::engine::Engine;
use crate::invocation::Command;
use crate::state::tier::{Waiter, Waiting};

/// How often a command waits for values.
const WAITS_MAX: u32 = 4;
/// Bytes on disk of values that are read together, unless one command needs more.
const BYTES_MAX: usize = 8 << 20;

/// What the link to a primary waits for.
#[derive(Default)]
pub struct ReadAhead {
    waiting: Option<Arc<Waiting>>,
    /// How often it has waited for the command at the front.
    waits: u32,
}

/// A look at the commands at hand, in their order.
pub struct Search<'e> {
    engine: &'e Engine,
    /// Commands seen.
    seen: usize,
    /// Commands before the first that has to wait.
    ready: Option<usize>,
    missing: Vec<Unread>,
    bytes: usize,
    /// The first command waits no longer.
    is_first_ready: bool,
}

impl ReadAhead {
    /// Whether values are still to come.
    pub fn is_waiting(&self) -> bool {
        self.waiting.as_ref().is_some_and(|waiting| waiting.is_waiting())
    }

    /// Waits until all values have been read, or for so long. It may return early. For the thread that has
    /// begun the search.
    pub fn wait(&self, time_max: Duration) {
        if self.is_waiting() && !simulation::wait(Some(time_max)) {
            thread::park_timeout(time_max);
        }
    }

    /// Begins a look at the commands at hand.
    pub fn search<'e>(&self, engine: &'e Engine) -> Search<'e> {
        let is_first_ready = self.waits >= WAITS_MAX;
        Search { engine, seen: 0, ready: None, missing: Vec::new(), bytes: 0, is_first_ready }
    }

    /// Has the values read that were found missing. How many of the commands can be applied before that;
    /// `None`: all of them, and nothing is waited for.
    pub fn end(&mut self, search: Search<'_>) -> Option<usize> {
        let Search { engine, ready, missing, .. } = search;
        self.waits = match ready {
            Some(0) => self.waits + 1,
            Some(_) => 1,
            None => 0,
        };
        self.waiting = ready.map(|_| engine.tier.reads.add(Waiter::Thread(thread::current()), missing));
        ready
    }
}

impl Search<'_> {
    /// Adds the next command, to run in a database; `None` is one that does not run. False if no more are to
    /// be added.
    pub fn add(&mut self, database: usize, command: Option<&Command>, args: Args<'_>) -> bool {
        let before = self.missing.len();
        if let Some(command) = command.filter(|_| self.seen > 0 || !self.is_first_ready) {
            // An error is that a slow script has the shard: who applies the command waits for that.
            let _ = self.find_missing(database, command, args);
        }
        let is_missing = self.missing.len() > before;
        if is_missing && self.engine.tier.reads.failure(&self.missing[before..]).is_some() {
            self.missing.truncate(before);
        } else if is_missing {
            self.ready.get_or_insert(self.seen);
            self.bytes += self.missing[before..].iter().map(|(_, cold)| cold.place().len()).sum::<usize>();
        }
        self.seen += 1;
        self.bytes < BYTES_MAX
    }

    /// Adds the values of a command that are on disk alone.
    fn find_missing(&mut self, database: usize, command: &Command, args: Args<'_>) -> Outcome {
        let follows_links = command.info.traits.has(Traits::FOLLOWS_LINKS) && are_there_links();
        visit_needed(command, args, |key| {
            let links = self.look(database, key, follows_links)?;
            links.iter().try_for_each(|key| self.look(database, key, false).map(drop))
        })
    }

    /// Adds the value of a key if it is on disk alone. On request, the keys of the series that it is linked
    /// to. Keys that have expired are looked up as well: they are there until the primary deletes them.
    fn look(&mut self, database: usize, key: &[u8], with_links: bool) -> Outcome<Vec<Box<[u8]>>> {
        let hash = self.engine.keyspace.hash(key);
        let see = |entry: &Entry| {
            let links = || entry.series_source().into_iter().chain(entry.series_destinations());
            let links = if with_links { links().map(Box::from).collect() } else { Vec::new() };
            (entry.cold_only(), links)
        };
        let Some((cold, links)) = with_entry(self.engine, database, (hash, key), see)? else {
            return Ok(Vec::new());
        };
        self.missing.extend(cold.map(|cold| ((database, hash), cold)));
        Ok(links)
    }
}
