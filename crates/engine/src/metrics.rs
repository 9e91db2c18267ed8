//! Metrics for Prometheus: the figures of INFO and more, in the Prometheus text format 0.0.4 or OpenMetrics
//! 1.0.
//!
//! [`table`] registers every metric once, with its name, type, description, and where its value comes from.
//! Those called `redis_` have the names and labels of redis_exporter, so that its dashboards and alerts work;
//! what only this server has is called `mantissa_`. A figure that INFO shows is taken from what writes INFO.
//! A metric without samples is left out.
//!
//! A scrape costs O(commands called * workers), O(clients) and O(shards). It waits for no shard: of one that
//! is in use for long, the figures are those of an earlier scrape.

mod labelled;
mod replica;
mod replicas;
mod table;
mod text;

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mantissa_commands::Outcome;
use mantissa_sys::clock::{self, unix_ms};
use mantissa_sys::process::CpuTimes;

use crate::commands::info::{self, Calls, KeyspaceTotals, Source};
use crate::engine::Engine;
use crate::latency::Distribution;
use crate::registry::Command;
use crate::{admission, eviction};
use table::{Get, METRICS};
pub use text::Format;
use text::{Exposition, Samples};

/// How often a scrape tries again to look at shards that are in use, all together.
const ATTEMPTS_MAX: usize = 20;
/// Between two attempts, with what the system adds to it.
const PAUSE: Duration = Duration::from_micros(20);

/// Writes scrapes, one after another.
pub struct Scraper {
    /// When the process started, Unix time in ms.
    started_ms: i64,
    scrapes: u64,
    /// How long the last scrape took.
    last_duration: Duration,
    /// Of each shard, the sums when it was last looked at.
    shards: Vec<KeyspaceTotals>,
    random_state: u64,
}

/// What a scrape has found.
struct Figures<'e> {
    source: Source<'e>,
    commands: Vec<CommandFigures>,
    /// Shards that were in use: their sums are those of an earlier scrape.
    stale_shards: usize,
    scrapes: u64,
    last_duration: Duration,
    started_ms: i64,
}

/// What is known of a command that was called or refused.
struct CommandFigures {
    command: &'static Command,
    calls: Calls,
    /// How long its calls took, if that is recorded.
    distribution: Option<Distribution>,
}

impl Scraper {
    /// For an engine that has just started, or runs already.
    pub fn new(engine: &Engine) -> Scraper {
        let now_ms = unix_ms();
        Scraper {
            started_ms: now_ms - clock::since(engine.started).as_millis() as i64,
            scrapes: 0,
            last_duration: Duration::ZERO,
            shards: vec![KeyspaceTotals::default(); engine.keyspace.shard_count()],
            random_state: now_ms as u64,
        }
    }

    /// The text of all metrics. `cpu` is processor time, with that of the thread that stands for all that
    /// serve clients. No shard may be locked by the caller.
    pub fn scrape(&mut self, engine: &Engine, cpu: CpuTimes, format: Format) -> Vec<u8> {
        let began = clock::now();
        self.scrapes += 1;
        let now_ms = unix_ms();
        let (keyspace, stale_shards) = self.look_at_shards(engine, now_ms);
        let source = Source::new(engine, now_ms, keyspace, cpu);
        let figures = Figures {
            source,
            commands: figures_of_commands(engine),
            stale_shards,
            scrapes: self.scrapes,
            last_duration: self.last_duration,
            started_ms: self.started_ms,
        };
        let lines = info::figures(&figures.source);
        let fields: HashMap<&str, &str> = lines.fields().collect();
        let mut exposition = Exposition::new(format);
        for metric in METRICS {
            exposition.family(metric.name, metric.kind, metric.help, |samples| match metric.get {
                Get::Field(name) => add_number(samples, fields.get(name).copied()),
                Get::Microseconds(name) => {
                    if let Some(Ok(us)) = fields.get(name).map(|text| text.parse::<f64>()) {
                        samples.add(&[], us / 1e6);
                    }
                }
                Get::Status(name) => {
                    if let Some(word) = fields.get(name) {
                        samples.add(&[], u8::from(*word == "ok"));
                    }
                }
                Get::Info(labels) => {
                    let value = |(name, field)| (name, fields.get(field).copied().unwrap_or_default());
                    let labels: Vec<(&str, &str)> = labels.iter().copied().map(value).collect();
                    samples.add(&labels, 1);
                }
                Get::Samples(write) => write(&figures, samples),
            });
        }
        self.last_duration = clock::since(began);
        exposition.finish()
    }

    /// Sums over the shards, and how many of them were in use.
    fn look_at_shards(&mut self, engine: &Engine, now_ms: i64) -> (KeyspaceTotals, usize) {
        let (mut totals, mut stale_shards) = (KeyspaceTotals::default(), 0);
        let mut attempts_left = ATTEMPTS_MAX;
        for (index, known) in self.shards.iter_mut().enumerate() {
            let locked = loop {
                let locked = engine.keyspace.try_lock_one(index);
                if locked.is_some() || attempts_left == 0 {
                    break locked;
                }
                attempts_left -= 1;
                std::thread::sleep(PAUSE);
            };
            match locked.as_ref().and_then(|locked| locked.shard(index)) {
                Some(shard) => *known = KeyspaceTotals::of_shard(shard, now_ms, &mut self.random_state),
                None => stale_shards += 1,
            }
            drop(locked);
            totals.merge(known);
        }
        (totals, stale_shards)
    }
}

/// A number as INFO writes it.
fn add_number(samples: &mut Samples, text: Option<&str>) {
    if let Some(text) = text.filter(|text| text.parse::<f64>().is_ok_and(f64::is_finite)) {
        samples.add(&[], text);
    }
}

fn figures_of_commands(engine: &Engine) -> Vec<CommandFigures> {
    let mut commands = Vec::new();
    info::each_command(engine, |command| {
        let calls = Calls::of(engine, command);
        if calls.calls + calls.rejected + calls.failed > 0 {
            let distribution = info::distribution_of(engine, command);
            commands.push(CommandFigures { command, calls, distribution });
        }
    });
    commands
}

/// Why the engine is not to be sent writes now; nothing if it is.
pub fn readiness(engine: &Engine) -> Outcome {
    if engine.persistence.loading.load(Ordering::Acquire) {
        return Err(admission::LOADING);
    }
    let active = engine.active_config();
    admission::write_refusal(engine, &active.config)?;
    if eviction::is_full(engine, &active.config) {
        return Err(admission::OUT_OF_MEMORY);
    }
    Ok(())
}

/// All metrics as rows of a table in Markdown: name, type, description.
pub fn describe() -> String {
    let mut rows = String::from("| metric | type | what it is |\n| --- | --- | --- |\n");
    for metric in METRICS {
        rows.push_str(&format!("| `{}` | {} | {} |\n", metric.name, metric.kind.name(), metric.help));
    }
    rows
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::table::METRICS;
    use super::text::Kind;

    #[test]
    fn names_are_unique_and_say_the_type() {
        let mut seen = HashSet::new();
        for metric in METRICS {
            assert!(seen.insert(metric.name), "{}", metric.name);
            // Redis calls a number of bytes `used_memory_vm_total`.
            let says_total = metric.name.ends_with("_total") && metric.name != "redis_memory_used_vm_total";
            assert_eq!(says_total, metric.kind == Kind::Counter, "{}", metric.name);
            assert!(metric.help.ends_with('.') && metric.help.len() > 8, "{}", metric.name);
        }
        let family = |name: &'static str| name.strip_suffix("_total").unwrap_or(name);
        let families: HashSet<&str> = METRICS.iter().map(|metric| family(metric.name)).collect();
        assert_eq!(families.len(), METRICS.len(), "two metrics are one family in OpenMetrics");
    }

    #[test]
    fn the_page_lists_every_metric() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
        let page = std::fs::read_to_string(path).expect("the page is part of the sources");
        let (begin, end) = ("<!-- metrics -->\n", "<!-- end of metrics -->\n");
        let (head, rest) = page.split_once(begin).expect("the table begins");
        let (table, tail) = rest.split_once(end).expect("the table ends");
        if std::env::var_os("MANTISSA_WRITE_DOCS").is_some() {
            let text = [head, begin, &super::describe(), end, tail].concat();
            std::fs::write(path, text).expect("the page can be written");
        } else {
            assert!(table == super::describe(), "run this test with MANTISSA_WRITE_DOCS=1");
        }
    }
}
