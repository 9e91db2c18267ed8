//! The findings as a page with charts, whole in one file.

use std::fmt::Write as _;

use super::findings::{Findings, Named, Plot, Section, bytes, shown};
use crate::benchmark::escape;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 280.0;
const MARGIN: f64 = 72.0;
const COLOURS: [&str; 4] = ["#2563eb", "#ea580c", "#16a34a", "#9333ea"];

const HEAD: &str = "<!doctype html>
<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Probe</title>
<style>
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse}td,th{padding:.2rem .8rem;text-align:right;border-bottom:1px solid #ddd}
td:first-child,th:first-child{text-align:left}svg{max-width:100%}text{font-size:11px}
code{background:#f3f3f3;padding:.1rem .3rem}.left td{text-align:left}
</style></head><body>
<h1>What this machine can do</h1>
";

/// The page.
pub(crate) fn write(findings: &Findings) -> String {
    let mut page = String::from(HEAD);
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(page, "<p>{}: <code>{}</code></p>", findings.date, escape(&findings.command));
    page.push_str("<table class=\"left\">\n");
    for (name, value) in &findings.machine {
        let _ = writeln!(page, "<tr><td>{name}</td><td>{}</td></tr>", escape(value));
    }
    page.push_str("</table>\n<p>Medians of rounds with their intervals (95 %); the best round is the one ");
    page.push_str("that other work on the machine disturbed the least.</p>\n");
    for section in &findings.sections {
        write_section(&mut page, section);
    }
    page.push_str("<h2>What to change on this machine</h2>\n<table class=\"left\">\n");
    page.push_str("<tr><td>what</td><td>is</td><td>change</td><td>gain</td></tr>\n");
    for advice in &findings.advice {
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            advice.what,
            escape(&advice.state),
            escape(&advice.change),
            escape(&advice.gain)
        );
    }
    page.push_str("</table>\n</body></html>\n");
    page
}

fn write_section(page: &mut String, section: &Section) {
    let _ = writeln!(page, "<h2>{}</h2>", escape(section.title));
    page.push_str(
        "<table><tr><th></th><th>median</th><th>best</th><th>from</th><th>to</th><th>rounds</th></tr>\n",
    );
    for named in &section.figures {
        let Named { title, unit, figure, .. } = named;
        let [median, best, low, high] =
            [figure.median, named.best(), figure.low, figure.high].map(|value| shown(value, unit));
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td>{median}</td><td>{best}</td><td>{low}</td><td>{high}</td><td>{}</td></tr>",
            escape(title),
            figure.rounds
        );
    }
    page.push_str("</table>\n");
    for plot in &section.plots {
        draw(page, plot);
    }
    for note in &section.notes {
        let _ = writeln!(page, "<p>{}</p>", escape(note));
    }
}

fn draw(page: &mut String, plot: &Plot) {
    let points = || plot.curves.iter().flat_map(|(_, points)| points);
    let (first, last) = points()
        .map(|(x, _)| x.log2())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
    let most = points().map(|(_, y)| *y).fold(1e-9, f64::max);
    let width = if last > first { last - first } else { 1.0 };
    let x_of = |x: f64| MARGIN + (x.log2() - first) / width * (WIDTH - 2.0 * MARGIN);
    let y_of = |y: f64| HEIGHT - 24.0 - y / most * (HEIGHT - 48.0);
    let _ = writeln!(page, "<h3>{}</h3>", escape(&plot.title));
    let _ = writeln!(page, "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\">");
    for part in 0..=4 {
        let value = most * f64::from(part) / 4.0;
        let y = y_of(value);
        let _ = writeln!(
            page,
            "<line x1=\"{MARGIN}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>\
             <text x=\"0\" y=\"{y:.1}\">{}</text>",
            WIDTH - MARGIN,
            shown(value, plot.unit)
        );
    }
    let xs: Vec<f64> =
        plot.curves.first().map_or(Vec::new(), |(_, points)| points.iter().map(|p| p.0).collect());
    // So many labels that they do not overlap.
    for x in xs.iter().step_by(xs.len().div_ceil(9).max(1)) {
        let label = if plot.x == "bytes" { bytes(*x) } else { format!("{x}") };
        let _ = writeln!(page, "<text x=\"{:.1}\" y=\"{:.1}\">{label}</text>", x_of(*x) - 12.0, HEIGHT - 4.0);
    }
    for (i, (name, points)) in plot.curves.iter().enumerate() {
        let path: String = points.iter().map(|(x, y)| format!("{:.1},{:.1} ", x_of(*x), y_of(*y))).collect();
        let colour = COLOURS[i % COLOURS.len()];
        let _ = writeln!(
            page,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" fill=\"{colour}\">{}</text>",
            path.trim_end(),
            MARGIN + 130.0 * i as f64,
            12.0,
            escape(name)
        );
    }
    page.push_str("</svg>\n");
}
