//! Latency: the monitor of latency spikes behind LATENCY LATEST, HISTORY, GRAPH, DOCTOR
//! and RESET, and the [`Histogram`] of each command's time behind LATENCY HISTOGRAM and INFO latencystats.
//!
//! The monitor keeps, for each kind of event, at most 160 samples of one second each, so it stays small; it
//! is for its owner to lock, and only when something took longer than `latency-monitor-threshold`.

mod doctor;
mod graph;
mod histogram;

pub use histogram::{Distribution, Histogram};

use mantissa_commands::{Error, Outcome};
use mantissa_protocol::Reply;
use std::collections::{BTreeMap, VecDeque};

/// Samples kept of one event.
const SAMPLES_MAX: usize = 160;

/// What LATENCY HELP says.
pub const HELP: &[&str] = &[
    "LATENCY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "DOCTOR",
    "    Explain in words what was slow and what to do about it.",
    "GRAPH <event>",
    "    Draw the samples of an event with characters.",
    "HISTORY <event>",
    "    Show the samples of an event: Unix time in seconds, milliseconds.",
    "LATEST",
    "    Show for each event the time of the last sample, its milliseconds, and the most ever.",
    "RESET [<event> ...]",
    "    Forget the samples of these events, of all if none is given.",
    "HISTOGRAM [COMMAND ...]",
    "    Show how long calls of these commands took, of all commands if none is given.",
    "HELP",
    "    Show this help.",
];

/// The worst of one second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sample {
    unix_seconds: i64,
    milliseconds: u64,
}

/// The samples of one event.
#[derive(Debug, Default)]
struct Series {
    /// Oldest first; each of another second.
    samples: VecDeque<Sample>,
    milliseconds_max: u64,
}

impl Series {
    fn add(&mut self, sample: Sample) {
        self.milliseconds_max = self.milliseconds_max.max(sample.milliseconds);
        match self.samples.back_mut() {
            Some(last) if last.unix_seconds == sample.unix_seconds => {
                last.milliseconds = last.milliseconds.max(sample.milliseconds);
            }
            _ => {
                if self.samples.len() == SAMPLES_MAX {
                    self.samples.pop_front();
                }
                self.samples.push_back(sample);
            }
        }
    }
}

/// The spikes of latency, by event.
#[derive(Debug, Default)]
pub struct LatencyMonitor {
    events: BTreeMap<&'static str, Series>,
}

impl LatencyMonitor {
    /// A monitor that has seen nothing.
    pub fn new() -> LatencyMonitor {
        LatencyMonitor::default()
    }

    /// Adds a spike of an event: `command` and `fast-command` for commands, other names for other work of the
    /// engine.
    pub fn add(&mut self, event: &'static str, milliseconds: u64, unix_seconds: i64) {
        self.events.entry(event).or_default().add(Sample { unix_seconds, milliseconds });
    }

    /// The last spike of each event: its name, the time in Unix seconds, the milliseconds that it took, and
    /// the most milliseconds ever.
    pub fn latest(&self) -> impl ExactSizeIterator<Item = (&'static str, i64, u64, u64)> {
        self.events.iter().map(|(event, series)| {
            let last = series.samples.back().copied().unwrap_or(Sample { unix_seconds: 0, milliseconds: 0 });
            (*event, last.unix_seconds, last.milliseconds, series.milliseconds_max)
        })
    }

    /// The reply of LATENCY LATEST.
    pub fn reply_latest(&self, reply: &mut Reply) {
        let latest = self.latest();
        reply.array(latest.len());
        for (event, unix_seconds, milliseconds, milliseconds_max) in latest {
            reply.array(4);
            reply.bulk(event.as_bytes());
            reply.integer(unix_seconds);
            reply.integer(count(milliseconds));
            reply.integer(count(milliseconds_max));
        }
    }

    /// The reply of LATENCY HISTORY.
    pub fn reply_history(&self, event: &[u8], reply: &mut Reply) {
        let Some(series) = self.series(event) else { return reply.array(0) };
        reply.array(series.samples.len());
        for sample in &series.samples {
            reply.array(2);
            reply.integer(sample.unix_seconds);
            reply.integer(count(sample.milliseconds));
        }
    }

    /// The reply of LATENCY GRAPH.
    pub fn reply_graph(&self, event: &[u8], now_unix_seconds: i64, reply: &mut Reply) -> Outcome {
        let Some(series) = self.series(event) else {
            return Err(Error::quoting("ERR No samples available for event '", event, "'"));
        };
        let text = graph::draw(&String::from_utf8_lossy(event), series, now_unix_seconds);
        reply.verbatim("txt", text.as_bytes());
        Ok(())
    }

    /// The reply of LATENCY DOCTOR. A threshold of 0 means that nothing is watched.
    pub fn reply_doctor(
        &self,
        now_unix_seconds: i64,
        threshold_ms: u64,
        slower_than_us: i64,
        reply: &mut Reply,
    ) {
        let text = doctor::explain(&self.events, now_unix_seconds, threshold_ms, slower_than_us);
        reply.verbatim("txt", text.as_bytes());
    }

    /// LATENCY RESET: forgets these events, or all if none is given, and tells how many there were.
    pub fn reset<E: AsRef<[u8]>>(&mut self, events: &[E]) -> usize {
        let before = self.events.len();
        match events.is_empty() {
            true => self.events.clear(),
            false => {
                self.events.retain(|name, _| !events.iter().any(|event| event.as_ref() == name.as_bytes()))
            }
        }
        before - self.events.len()
    }

    fn series(&self, event: &[u8]) -> Option<&Series> {
        self.events.get(std::str::from_utf8(event).ok()?)
    }
}

fn count(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mantissa_protocol::Protocol;

    fn text(write: impl FnOnce(&mut Reply)) -> String {
        let mut reply = Reply::new(Protocol::Resp2);
        write(&mut reply);
        String::from_utf8(reply.into_bytes()).expect("the replies are text")
    }

    fn monitor() -> LatencyMonitor {
        let mut monitor = LatencyMonitor::new();
        for (second, milliseconds) in [10, 20, 50, 10, 100, 30].into_iter().enumerate() {
            monitor.add("command", milliseconds, 1000 + second as i64);
        }
        monitor
    }

    #[test]
    fn a_second_keeps_its_worst() {
        let mut monitor = monitor();
        monitor.add("command", 25, 1005);
        monitor.add("fork", 7, 1005);
        monitor.add("fork", 9, 1005);
        let latest =
            "*2\r\n*4\r\n$7\r\ncommand\r\n:1005\r\n:30\r\n:100\r\n*4\r\n$4\r\nfork\r\n:1005\r\n:9\r\n:9\r\n";
        assert_eq!(text(|reply| monitor.reply_latest(reply)), latest);
        assert_eq!(text(|reply| monitor.reply_history(b"fork", reply)), "*1\r\n*2\r\n:1005\r\n:9\r\n");
        assert!(
            text(|reply| monitor.reply_history(b"command", reply))
                .starts_with("*6\r\n*2\r\n:1000\r\n:10\r\n")
        );
        assert_eq!(text(|reply| monitor.reply_history(b"COMMAND", reply)), "*0\r\n");
    }

    #[test]
    fn the_oldest_samples_go_but_the_worst_is_remembered() {
        let mut monitor = LatencyMonitor::new();
        for second in 0..1000 {
            monitor.add("command", if second == 3 { 500 } else { 5 }, second);
        }
        assert!(text(|reply| monitor.reply_history(b"command", reply)).starts_with("*160\r\n*2\r\n:840\r\n"));
        assert!(text(|reply| monitor.reply_latest(reply)).ends_with(":999\r\n:5\r\n:500\r\n"));
    }

    #[test]
    fn reset_forgets_what_it_is_told() {
        let mut monitor = monitor();
        monitor.add("fork", 7, 1005);
        assert_eq!(monitor.reset(&[&b"nothing"[..], b"command", b"command"]), 1);
        assert_eq!(monitor.reset::<&[u8]>(&[]), 1);
        assert_eq!(text(|reply| monitor.reply_latest(reply)), "*0\r\n");
    }

    #[test]
    fn a_graph_is_drawn_as_redis_draws_it() {
        let dashes = "-".repeat(80);
        let expected = format!(
            "command - high 100 ms, low 10 ms (all time high 100 ms)\n{dashes}\n\
             \x20   # \n\
             \x20   | \n\
             \x20 # | \n\
             _o|_|#\n\
             \x20     \n\
             765432\n\
             ssssss\n"
        );
        let reply = text(|reply| assert!(monitor().reply_graph(b"command", 1007, reply).is_ok()));
        assert_eq!(reply, format!("${}\r\n{expected}\r\n", expected.len()));
        let missing = monitor().reply_graph(b"a\r\nb", 1007, &mut Reply::new(Protocol::Resp2));
        assert_eq!(missing, Err(Error::fixed("ERR No samples available for event 'a\r\nb'")));
    }

    #[test]
    fn the_doctor_tells_the_numbers() {
        let report = text(|reply| monitor().reply_doctor(1007, 5, 10_000, reply));
        let line = "command: 6 latency spikes (average 36ms, mean deviation 25ms, period 1.17 sec). \
            Worst all time event 100ms.";
        assert!(report.contains(line), "{report}");
        assert!(report.contains("CONFIG SET slowlog-log-slower-than 5000"), "{report}");
        let off = text(|reply| monitor().reply_doctor(1007, 0, 10_000, reply));
        assert!(off.contains("CONFIG SET latency-monitor-threshold"), "{off}");
        let quiet = text(|reply| LatencyMonitor::new().reply_doctor(1007, 5, 10_000, reply));
        assert!(quiet.contains("No latency spike"), "{quiet}");
    }
}
