//! A page with charts, whole in one file: requests a second as bars, latencies by percentile as curves.

use std::fmt::Write as _;

use super::options::Options;
use super::report::{milliseconds, quantiles};
use super::{Measured, Subject};

const COLOURS: [&str; 2] = ["#2563eb", "#ea580c"];
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 260.0;
const MARGIN: f64 = 48.0;
const BAR_HEIGHT: f64 = 18.0;

/// The page for one server or two.
pub(crate) fn write(options: &Options, sides: &[(&Subject, &Vec<Measured>)]) -> String {
    let mut page = String::from(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Benchmark</title>\n<style>\
         body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}\
         table{border-collapse:collapse}td,th{padding:.2rem .8rem;text-align:right;border-bottom:\
         1px solid #ddd}\
         td:first-child,th:first-child{text-align:left}svg{max-width:100%}text{font-size:11px}\
         </style></head><body>\n<h1>Benchmark</h1>\n",
    );
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(
        page,
        "<p>{} clients, pipelines of {}, values of {} bytes.</p>",
        options.clients, options.pipeline, options.sizes
    );
    for (i, (subject, _)) in sides.iter().enumerate() {
        let _ = writeln!(
            page,
            "<p><span style=\"color:{}\">&#9632;</span> {}</p>",
            COLOURS[i % 2],
            escape(&subject.name)
        );
    }
    page.push_str("<h2>Requests per second</h2>\n");
    bars(&mut page, sides);
    table(&mut page, sides);
    let tests = sides.first().map_or(0, |(_, results)| results.len());
    for test in 0..tests {
        let results: Vec<&Measured> = sides.iter().filter_map(|(_, results)| results.get(test)).collect();
        if let Some(first) = results.first() {
            let _ = writeln!(page, "<h2>{}: latency by percentile</h2>", escape(&first.title));
        }
        curves(&mut page, &results);
    }
    page.push_str("</body></html>\n");
    page
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn bars(page: &mut String, sides: &[(&Subject, &Vec<Measured>)]) {
    let rows: Vec<(usize, &Measured)> = (0..sides.first().map_or(0, |(_, results)| results.len()))
        .flat_map(|test| sides.iter().enumerate().map(move |(i, (_, results))| (i, results.get(test))))
        .filter_map(|(i, measured)| Some((i, measured?)))
        .collect();
    let most = rows.iter().map(|(_, one)| one.outcome.rate()).fold(1.0, f64::max);
    let height = rows.len() as f64 * (BAR_HEIGHT + 4.0) + 8.0;
    let _ = writeln!(page, "<svg viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\">");
    for (row, (side, measured)) in rows.into_iter().enumerate() {
        let (y, rate) = (row as f64 * (BAR_HEIGHT + 4.0), measured.outcome.rate());
        let (width, text_y) = (rate / most * (WIDTH - 300.0), y + BAR_HEIGHT - 5.0);
        let _ = writeln!(
            page,
            "<text x=\"0\" y=\"{text_y}\">{}</text><rect x=\"200\" y=\"{y}\" width=\"{width:.1}\" \
             height=\"{BAR_HEIGHT}\" fill=\"{}\"/><text x=\"{:.1}\" y=\"{text_y}\">{rate:.0}</text>",
            escape(&measured.title),
            COLOURS[side % 2],
            206.0 + width
        );
    }
    page.push_str("</svg>\n");
}

fn table(page: &mut String, sides: &[(&Subject, &Vec<Measured>)]) {
    page.push_str(
        "<table><tr><th>test</th><th>server</th><th>requests/s</th><th>p50 ms</th><th>p99 ms</th>\
         <th>p99.9 ms</th><th>max ms</th><th>server CPU, us/request</th></tr>\n",
    );
    for (i, (_, results)) in sides.iter().enumerate() {
        for measured in *results {
            let latency_us = &measured.outcome.latency_us;
            let at = |quantile| milliseconds(latency_us.value_at_quantile(quantile));
            let processor = measured.processor_us.map_or("-".to_owned(), |us| format!("{us:.3}"));
            let _ = writeln!(
                page,
                "<tr><td>{}</td><td>{}</td><td>{:.0}</td><td>{:.3}</td><td>{:.3}</td><td>{:.3}</td>\
                 <td>{:.3}</td><td>{processor}</td></tr>",
                escape(&measured.title),
                ["A", "B"][i % 2],
                measured.outcome.rate(),
                at(0.5),
                at(0.99),
                at(0.999),
                milliseconds(latency_us.max())
            );
        }
    }
    page.push_str("</table>\n");
}

/// Latencies over percentiles; each step to the right halves what is above.
fn curves(page: &mut String, results: &[&Measured]) {
    let all: Vec<Vec<(f64, f64)>> = results
        .iter()
        .map(|measured| {
            quantiles(&measured.outcome.latency_us)
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
