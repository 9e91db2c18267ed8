//! A page with charts, whole in one file: requests a second as bars, all figures as medians of the rounds
//! with their intervals, ratios, latencies by percentile as curves; and where they come from.

use std::fmt::Write as _;

use super::estimate::{Estimate, interval};
use super::options::Options;
use super::provenance::{command_line, now};
use super::report::{milliseconds, quantiles};
use super::{Measured, Subject};

const COLOURS: [&str; 2] = ["#2563eb", "#ea580c"];
const LETTERS: [&str; 2] = ["A", "B"];
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 260.0;
const MARGIN: f64 = 48.0;
const BAR_HEIGHT: f64 = 18.0;

/// A server, and for each test its rounds.
pub(crate) struct Side<'a> {
    pub(crate) subject: &'a Subject,
    pub(crate) tests: Vec<Vec<&'a Measured>>,
}

/// The ratios of a test: the name of a figure, the ratio with its interval.
pub(crate) type Ratios = Vec<(&'static str, String)>;

const HEAD: &str = "<!doctype html>
<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Benchmark</title>
<style>
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse}td,th{padding:.2rem .8rem;text-align:right;border-bottom:1px solid #ddd}
td:first-child,th:first-child{text-align:left}svg{max-width:100%}text{font-size:11px}
code{background:#f3f3f3;padding:.1rem .3rem}
</style></head><body>
<h1>Benchmark</h1>
";

/// The page for one server, or for two with the ratios of each test.
pub(crate) fn write(options: &Options, sides: &[Side<'_>], ratios: &[Ratios]) -> String {
    let mut page = String::from(HEAD);
    let rounds = sides.first().and_then(|side| side.tests.first()).map_or(0, Vec::len);
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(page, "<p>{}: <code>{}</code></p>", now(), escape(&command_line()));
    let _ = writeln!(
        page,
        "<p>{} clients, pipelines of {}, values of {} bytes.</p>",
        options.clients, options.pipeline, options.sizes
    );
    if rounds > 1 {
        let percent = interval(rounds).1 * 100.0;
        let _ = writeln!(
            page,
            "<p>Figures are medians of {rounds} rounds; in brackets the interval in which the median lies \
             with {percent:.0} % confidence.</p>"
        );
    }
    for (i, side) in sides.iter().enumerate() {
        let _ = writeln!(
            page,
            "<p><span style=\"color:{}\">&#9632;</span> {}: {}</p>",
            COLOURS[i % 2],
            LETTERS[i % 2],
            escape(&side.subject.name)
        );
    }
    page.push_str("<h2>Requests per second</h2>\n");
    bars(&mut page, sides);
    table(&mut page, sides);
    if !ratios.is_empty() {
        ratio_table(&mut page, sides, ratios);
    }
    for (test, title) in titles(sides).enumerate() {
        let _ = writeln!(page, "<h2>{}: latency by percentile, in milliseconds</h2>", escape(title));
        let results: Vec<&[&Measured]> =
            sides.iter().filter_map(|side| side.tests.get(test)).map(Vec::as_slice).collect();
        curves(&mut page, &results);
    }
    page.push_str("</body></html>\n");
    page
}

/// The titles of the tests.
fn titles<'s>(sides: &'s [Side<'_>]) -> impl Iterator<Item = &'s str> {
    let tests = sides.first().map_or(&[][..], |side| &side.tests);
    tests.iter().map(|rounds| rounds.first().map_or("", |measured| measured.title.as_str()))
}

/// The median of a figure over rounds.
fn estimate(rounds: &[&Measured], figure: impl Fn(&Measured) -> Option<f64>) -> Option<Estimate> {
    Estimate::of(rounds.iter().filter_map(|measured| figure(measured)))
}

/// A median with so many decimals, and its interval if there are several rounds.
fn shown(estimate: Option<Estimate>, decimals: usize, rounds: usize) -> String {
    let Some(Estimate { median, low, high }) = estimate else { return "-".to_owned() };
    if rounds < 2 {
        return format!("{median:.decimals$}");
    }
    format!("{median:.decimals$} [{low:.decimals$}, {high:.decimals$}]")
}

pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn bars(page: &mut String, sides: &[Side<'_>]) {
    let tests = sides.first().map_or(0, |side| side.tests.len());
    let rows: Vec<(usize, &str, Estimate)> = (0..tests)
        .flat_map(|test| sides.iter().enumerate().map(move |(i, side)| (i, side.tests.get(test))))
        .filter_map(|(i, rounds)| {
            let rounds = rounds?;
            let rate = estimate(rounds, |measured| Some(measured.outcome.rate()))?;
            Some((i, rounds.first()?.title.as_str(), rate))
        })
        .collect();
    let most = rows.iter().map(|(.., rate)| rate.high).fold(1.0, f64::max);
    let x_of = |rate: f64| 200.0 + rate / most * (WIDTH - 300.0);
    let height = rows.len() as f64 * (BAR_HEIGHT + 4.0) + 8.0;
    let _ = writeln!(page, "<svg viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\">");
    for (row, (side, title, Estimate { median, low, high })) in rows.into_iter().enumerate() {
        let y = row as f64 * (BAR_HEIGHT + 4.0);
        let (text_y, middle) = (y + BAR_HEIGHT - 5.0, y + BAR_HEIGHT / 2.0);
        let _ = writeln!(
            page,
            "<text x=\"0\" y=\"{text_y}\">{}</text><rect x=\"200\" y=\"{y}\" width=\"{:.1}\" \
             height=\"{BAR_HEIGHT}\" fill=\"{}\"/><line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{middle}\" \
             y2=\"{middle}\" stroke=\"#111\"/><text x=\"{:.1}\" y=\"{text_y}\">{median:.0}</text>",
            escape(title),
            x_of(median) - 200.0,
            COLOURS[side % 2],
            x_of(low),
            x_of(high),
            x_of(high) + 6.0
        );
    }
    page.push_str("</svg>\n");
}

fn table(page: &mut String, sides: &[Side<'_>]) {
    page.push_str(
        "<table><tr><th>test</th><th>server</th><th>requests/s</th><th>p50, ms</th><th>p99, ms</th>\
         <th>p99.9, ms</th><th>max, ms</th><th>server CPU, us/request</th></tr>\n",
    );
    for (test, title) in titles(sides).enumerate() {
        for (i, side) in sides.iter().enumerate() {
            let Some(rounds) = side.tests.get(test) else { continue };
            let cell = |decimals: usize, figure: &dyn Fn(&Measured) -> Option<f64>| {
                shown(estimate(rounds, figure), decimals, rounds.len())
            };
            let latency = |quantile: f64| {
                cell(3, &|one| Some(milliseconds(one.outcome.latency_us.value_at_quantile(quantile))))
            };
            let _ = writeln!(
                page,
                "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
                 <td>{}</td></tr>",
                escape(title),
                LETTERS[i % 2],
                cell(0, &|one| Some(one.outcome.rate())),
                latency(0.5),
                latency(0.99),
                latency(0.999),
                cell(3, &|one| Some(milliseconds(one.outcome.latency_us.max()))),
                cell(3, &|one| one.processor_us)
            );
        }
    }
    page.push_str("</table>\n");
}

fn ratio_table(page: &mut String, sides: &[Side<'_>], ratios: &[Ratios]) {
    page.push_str(
        "<h2>Ratios A/B</h2>\n<p>Geometric means over the pairs of rounds; in brackets the interval of 95 % \
         confidence. One that holds 1 is no difference.</p>\n<table><tr><th>test</th>",
    );
    for (name, _) in ratios.first().into_iter().flatten() {
        let _ = write!(page, "<th>{name}</th>");
    }
    page.push_str("</tr>\n");
    for (title, ratios) in titles(sides).zip(ratios) {
        let _ = write!(page, "<tr><td>{}</td>", escape(title));
        for (_, ratio) in ratios {
            let _ = write!(page, "<td>{ratio}</td>");
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table>\n");
}

/// Latencies over percentiles, of all rounds together; each step to the right halves what is above.
fn curves(page: &mut String, results: &[&[&Measured]]) {
    let all: Vec<Vec<(f64, f64)>> = results
        .iter()
        .filter_map(|rounds| {
            let mut together = rounds.first()?.outcome.latency_us.clone();
            for other in rounds.iter().skip(1) {
                // All have the same range.
                let _ = together.add(&other.outcome.latency_us);
            }
            Some(together)
        })
        .map(|latency_us| {
            quantiles(&latency_us)
                .into_iter()
                .filter(|(quantile, ..)| *quantile < 1.0)
                .map(|(quantile, taken_us, _)| (-(1.0 - quantile).log2(), milliseconds(taken_us)))
                .collect()
        })
        .collect();
    let points = || all.iter().flatten();
    let halvings = points().map(|(x, _)| *x).fold(1.0, f64::max);
    let most_ms = points().map(|(_, y)| *y).fold(0.001, f64::max);
    let x_of = |x: f64| MARGIN + x / halvings * (WIDTH - 2.0 * MARGIN);
    let y_of = |y: f64| HEIGHT - MARGIN / 2.0 - y / most_ms * (HEIGHT - MARGIN);
    let _ = writeln!(page, "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\">");
    for part in 0..=4 {
        let value = most_ms * f64::from(part) / 4.0;
        let y = y_of(value);
        let _ = writeln!(
            page,
            "<line x1=\"{MARGIN}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>\
             <text x=\"0\" y=\"{y:.1}\">{value:.3}</text>",
            WIDTH - MARGIN
        );
    }
    for percent in [50.0, 90.0, 99.0, 99.9, 99.99, 99.999] {
        let x = -(1.0 - percent / 100.0_f64).log2();
        if x <= halvings {
            let _ = writeln!(page, "<text x=\"{:.1}\" y=\"{HEIGHT}\">{percent} %</text>", x_of(x) - 12.0);
        }
    }
    for (i, curve) in all.iter().enumerate() {
        let path: String = curve.iter().map(|(x, y)| format!("{:.1},{:.1} ", x_of(*x), y_of(*y))).collect();
        let colour = COLOURS[i % 2];
        let _ = writeln!(
            page,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            path.trim_end()
        );
    }
    page.push_str("</svg>\n");
}
