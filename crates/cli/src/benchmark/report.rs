//! Figures as text, comma-separated values and JSON.

use std::io::{self, Write};

use hdrhistogram::Histogram;
use mantissa_protocol::Value;

use super::options::{Form, Options};
use super::{Measured, Subject};
use crate::format;

/// Steps of the cumulative distribution: up to so many microseconds, steps of so many.
const STEPS: [(u64, u64); 4] = [(2_000, 100), (100_000, 1_000), (1_000_000, 10_000), (u64::MAX, 1_000_000)];

/// A latency in milliseconds.
pub(crate) fn milliseconds(taken_us: u64) -> f64 {
    taken_us as f64 / 1000.0
}

fn average(latency_us: &Histogram<u64>) -> f64 {
    latency_us.mean() / 1000.0
}

/// Shows a result in the form that is wanted; JSON waits for all.
pub(crate) fn print(
    options: &Options,
    subject: &Subject,
    measured: &Measured,
    out: impl Write,
) -> io::Result<()> {
    match options.form() {
        Form::Quiet => print_line(options, measured, out),
        Form::Csv => print_csv(measured, out),
        Form::Full => print_full(options, subject, measured, out),
        Form::Json => Ok(()),
    }
}

fn print_line(options: &Options, measured: &Measured, mut out: impl Write) -> io::Result<()> {
    let latency_us = &measured.outcome.latency_us;
    let (precision, median) = (options.precision, milliseconds(latency_us.value_at_quantile(0.5)));
    let Measured { title, outcome, .. } = measured;
    writeln!(out, "{title}: {:.2} requests per second, p50={median:.precision$} msec", outcome.rate())
}

/// The first line of comma-separated values.
pub(crate) fn print_csv_heading(mut out: impl Write) -> io::Result<()> {
    writeln!(
        out,
        "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\
         \"p99_latency_ms\",\"max_latency_ms\""
    )
}

fn print_csv(measured: &Measured, mut out: impl Write) -> io::Result<()> {
    let Measured { title, outcome, .. } = measured;
    let latency_us = &outcome.latency_us;
    let at = |quantile| milliseconds(latency_us.value_at_quantile(quantile));
    let title = title.replace('"', "\"\"");
    write!(out, "\"{title}\",\"{:.2}\",\"{:.3}\"", outcome.rate(), average(latency_us))?;
    let (least, most) = (milliseconds(latency_us.min()), milliseconds(latency_us.max()));
    for figure in [least, at(0.5), at(0.95), at(0.99), most] {
        write!(out, ",\"{figure:.3}\"")?;
    }
    writeln!(out)
}

fn print_full(
    options: &Options,
    subject: &Subject,
    measured: &Measured,
    mut out: impl Write,
) -> io::Result<()> {
    let Measured { title, outcome, processor_us } = measured;
    let latency_us = &outcome.latency_us;
    writeln!(out, "====== {title} ======")?;
    let seconds = outcome.taken.as_secs_f64();
    writeln!(out, "  {} requests completed in {seconds:.2} seconds", outcome.requests())?;
    writeln!(out, "  {} parallel clients", options.clients)?;
    writeln!(out, "  {} bytes payload", options.sizes)?;
    writeln!(out, "  keep alive: {}", options.keep_alive)?;
    writeln!(out, "  host configuration \"save\": {}", subject.save)?;
    writeln!(out, "  host configuration \"appendonly\": {}", subject.append_only)?;
    writeln!(out, "  multi-thread: {}", if options.threads.is_some() { "yes" } else { "no" })?;
    if let Some(threads) = options.threads {
        writeln!(out, "  threads: {threads}")?;
    }
    if let Some(rate) = options.rate {
        writeln!(out, "  rate: {rate} requests per second, latency since a request was due")?;
    }
    writeln!(out, "\nLatency by percentile distribution:")?;
    for (quantile, taken_us, count) in quantiles(latency_us) {
        let (percent, taken_ms) = (quantile * 100.0, milliseconds(taken_us));
        writeln!(out, "{percent:.3}% <= {taken_ms:.3} milliseconds (cumulative count {count})")?;
    }
    writeln!(out, "\nCumulative distribution of latencies:")?;
    for (taken_us, count) in cumulative(latency_us) {
        let percent = 100.0 * count as f64 / latency_us.len().max(1) as f64;
        let taken_ms = milliseconds(taken_us);
        writeln!(out, "{percent:.3}% <= {taken_ms:.3} milliseconds (cumulative count {count})")?;
    }
    writeln!(out, "\nSummary:")?;
    writeln!(out, "  throughput summary: {:.2} requests per second", outcome.rate())?;
    if let Some(processor_us) = processor_us {
        writeln!(out, "  server processor time: {processor_us:.3} microseconds per request")?;
    }
    if outcome.errors > 0 {
        writeln!(out, "  errors: {}", outcome.errors)?;
    }
    writeln!(out, "  latency summary (msec):")?;
    let names = ["avg", "min", "p50", "p95", "p99", "max"];
    writeln!(out, "  {}", names.map(|name| format!("{name:>9} ")).concat().trim_end())?;
    let at = |quantile| milliseconds(latency_us.value_at_quantile(quantile));
    let (least, most) = (milliseconds(latency_us.min()), milliseconds(latency_us.max()));
    let figures = [average(latency_us), least, at(0.5), at(0.95), at(0.99), most];
    writeln!(out, "  {}", figures.map(|figure| format!("{figure:>9.3} ")).concat().trim_end())
}

/// Quantiles, each half as far from 1 as the one before, with their latency and how many were as fast.
pub(crate) fn quantiles(latency_us: &Histogram<u64>) -> Vec<(f64, u64, u64)> {
    let mut found: Vec<(f64, u64, u64)> = Vec::new();
    for step in latency_us.iter_quantiles(1) {
        let (quantile, taken_us) = (step.quantile_iterated_to(), step.value_iterated_to());
        let count = latency_us.count_between(0, taken_us);
        found.push((quantile, taken_us, count));
    }
    found
}

/// Latencies in even steps, with how many were as fast; steps that add none are left out.
fn cumulative(latency_us: &Histogram<u64>) -> Vec<(u64, u64)> {
    let (mut found, mut limit_us, mut before) = (Vec::new(), 0, 0);
    while before < latency_us.len() {
        let step = STEPS.iter().find(|(most_us, _)| limit_us < *most_us).map_or(1_000_000, |step| step.1);
        limit_us += step;
        let count = latency_us.count_between(0, limit_us);
        if count > before {
            found.push((limit_us, count));
        }
        before = count;
    }
    found
}

/// Shows results as JSON.
pub(crate) fn print_json(
    options: &Options,
    subject: &Subject,
    results: &[Measured],
    mut out: impl Write,
) -> io::Result<()> {
    let facts = Value::Map(vec![
        (text("server"), text(&subject.name)),
        (text("clients"), number(options.clients as f64)),
        (text("pipeline"), number(options.pipeline as f64)),
        (text("sizes"), text(&options.sizes.to_string())),
        (text("threads"), number(options.threads.unwrap_or(1) as f64)),
        (text("rate"), options.rate.map_or(Value::Null, number)),
        (text("tests"), Value::Array(results.iter().map(as_value).collect())),
    ]);
    let mut bytes = format::json(&facts);
    bytes.push(b'\n');
    out.write_all(&bytes)
}

/// A result as a value to be shown as JSON.
pub(crate) fn as_value(measured: &Measured) -> Value {
    let latency_us = &measured.outcome.latency_us;
    let at = |quantile| number(milliseconds(latency_us.value_at_quantile(quantile)));
    let latencies = Value::Map(vec![
        (text("avg"), number(average(latency_us))),
        (text("min"), number(milliseconds(latency_us.min()))),
        (text("p50"), at(0.5)),
        (text("p95"), at(0.95)),
        (text("p99"), at(0.99)),
        (text("p99.9"), at(0.999)),
        (text("max"), number(milliseconds(latency_us.max()))),
    ]);
    Value::Map(vec![
        (text("test"), text(&measured.title)),
        (text("requests"), Value::Integer(measured.outcome.requests() as i64)),
        (text("errors"), Value::Integer(measured.outcome.errors as i64)),
        (text("seconds"), number(measured.outcome.taken.as_secs_f64())),
        (text("rps"), number(measured.outcome.rate())),
        (text("server_processor_us"), measured.processor_us.map_or(Value::Null, number)),
        (text("latency_ms"), latencies),
    ])
}

/// A text as a value.
pub(crate) fn text(text: &str) -> Value {
    Value::Bulk(text.as_bytes().to_vec())
}

/// A number as a value.
pub(crate) fn number(value: f64) -> Value {
    let mut text = Vec::new();
    mantissa_number::write_f64(&mut text, value);
    Value::Double { value, text }
}
