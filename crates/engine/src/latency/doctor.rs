//! LATENCY DOCTOR, a report in words about latency spikes: numbers for each event, and advice that follows
//! from them.

use super::Series;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The numbers of one event.
struct Statistics {
    spikes: u64,
    average_ms: u64,
    deviation_ms: u64,
    period_seconds: f64,
    worst_ms: u64,
}

impl Statistics {
    /// None without samples.
    fn of(series: &Series, now_unix_seconds: i64) -> Option<Statistics> {
        let first = series.samples.front()?;
        let spikes = series.samples.len() as u64;
        let values = || series.samples.iter().map(|sample| sample.milliseconds);
        let mean = |sum: u128| (sum / u128::from(spikes)) as u64;
        let average_ms = mean(values().map(u128::from).sum());
        let deviation_ms = mean(values().map(|value| u128::from(value.abs_diff(average_ms))).sum());
        let elapsed = now_unix_seconds.saturating_sub(first.unix_seconds);
        let period_seconds = elapsed as f64 / spikes as f64;
        Some(Statistics {
            spikes,
            average_ms,
            deviation_ms,
            period_seconds,
            worst_ms: series.milliseconds_max,
        })
    }
}

/// The whole report. A threshold of 0 means that nothing is watched; `slower_than_us` is the bound of the
/// slow log.
pub(super) fn explain(
    events: &BTreeMap<&'static str, Series>,
    now_unix_seconds: i64,
    threshold_ms: u64,
    slower_than_us: i64,
) -> String {
    if threshold_ms == 0 {
        return "Latency is not monitored. To find what is slow, choose how many milliseconds are too many:\n\
            CONFIG SET latency-monitor-threshold <milliseconds>\n"
            .to_owned();
    }
    let statistics = events.iter().filter_map(|(event, series)| {
        let statistics = Statistics::of(series, now_unix_seconds)?;
        Some((*event, statistics))
    });
    let statistics: Vec<(&str, Statistics)> = statistics.collect();
    if statistics.is_empty() {
        return format!("No latency spike of {threshold_ms} ms or more since the last LATENCY RESET.\n");
    }
    let mut text = "These events took longer than latency-monitor-threshold allows:\n\n".to_owned();
    for (index, (event, numbers)) in statistics.iter().enumerate() {
        // Writing into a string does not fail.
        let _ = writeln!(
            text,
            "{}. {event}: {} latency spikes (average {}ms, mean deviation {}ms, period {:.2} sec). \
             Worst all time event {}ms.",
            index + 1,
            numbers.spikes,
            numbers.average_ms,
            numbers.deviation_ms,
            numbers.period_seconds,
            numbers.worst_ms,
        );
    }
    text.push_str("\nWhat may help:\n\n");
    for advice in advise(&statistics, threshold_ms, slower_than_us) {
        text.push_str("- ");
        text.push_str(&advice);
        text.push('\n');
    }
    text
}

fn advise(statistics: &[(&str, Statistics)], threshold_ms: u64, slower_than_us: i64) -> Vec<String> {
    let has = |events: &[&str]| statistics.iter().any(|(event, _)| events.contains(event));
    let threshold_us = i64::try_from(threshold_ms.saturating_mul(1000)).unwrap_or(i64::MAX);
    let mut advice = Vec::new();
    if has(&["command"]) {
        if !(0..=threshold_us).contains(&slower_than_us) {
            advice.push(format!(
                "The slow log misses some of these commands. To see them all: \
                 CONFIG SET slowlog-log-slower-than {threshold_us}"
            ));
        } else {
            advice.push("SLOWLOG GET shows which commands were slow, with their arguments.".to_owned());
        }
        advice.push(
            "Commands that walk a whole collection take time in proportion to it: SCAN, HSCAN, SSCAN, ZSCAN \
             or ranges, do the same in parts."
                .to_owned(),
        );
    }
    if has(&["fast-command"]) {
        advice.push(
            "Commands that do little were slow, so the process itself was held up: look for a busy machine, \
             swapping, or a virtual machine that is denied its processors."
                .to_owned(),
        );
    }
    if has(&["expire-cycle", "expire-del", "eviction-cycle", "eviction-del", "eviction-lazyfree"]) {
        advice.push(
            "Removing expired or evicted keys took long: spread their expiry over time, and let big values \
             be freed in the background with lazyfree-lazy-expire and lazyfree-lazy-eviction."
                .to_owned(),
        );
    }
    if statistics.iter().any(|(event, _)| event.starts_with("aof-") || event.starts_with("rdb-")) {
        advice.push("The disk is slow or shared: give the folder of the data a disk of its own.".to_owned());
    }
    if advice.is_empty() {
        advice.push("LATENCY GRAPH and LATENCY HISTORY show when it happened.".to_owned());
    }
    advice
}
