//! The two text formats: what they have in common, and where they differ.
//!
//! | | Prometheus 0.0.4 | OpenMetrics 1.0 |
//! | --- | --- | --- |
//! | family of a counter | `x_total` | `x`, its sample `x_total` |
//! | escaped in HELP | `\`, line feed | `\`, `"`, line feed |
//! | `# UNIT` | no | where the name ends in a unit |
//! | whole numbers as `le` | `1` | `1.0` |
//! | a summary with quantiles in percent | a summary | three gauges: quantiles may be from 0 to 1 only |
//! | end | none | `# EOF` |

use std::collections::HashSet;
use std::fmt::{Display, Write};

/// A text format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// The Prometheus text format, version 0.0.4.
    Prometheus,
    /// OpenMetrics, version 1.0.
    OpenMetrics,
}

impl Format {
    /// The media type of the text.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// The type of a metric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Goes up and down.
    Gauge,
    /// Goes up, until the process ends or CONFIG RESETSTAT is called.
    Counter,
    /// Counts of what is at most as large as each of some bounds.
    Histogram,
    /// Percentiles, with `quantile` in percent.
    Summary,
}

impl Kind {
    /// The name, as both formats spell it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Gauge => "gauge",
            Kind::Counter => "counter",
            Kind::Histogram => "histogram",
            Kind::Summary => "summary",
        }
    }
}

/// Units that OpenMetrics names; the name of the family ends in one.
const UNITS: [&str; 3] = ["seconds", "bytes", "ratio"];

/// The text so far.
pub struct Exposition {
    format: Format,
    text: String,
}

impl Exposition {
    /// An empty text.
    pub fn new(format: Format) -> Exposition {
        Exposition { format, text: String::with_capacity(64 << 10) }
    }

    /// Adds a metric whose samples `write` adds; nothing if there are none.
    pub fn family(&mut self, name: &str, kind: Kind, help: &str, write: impl Fn(&mut Samples)) {
        if (self.format, kind) != (Format::OpenMetrics, Kind::Summary) {
            return self.family_of(name, kind, help, None, write);
        }
        for part in ["", "_sum", "_count"] {
            self.family_of(&format!("{name}{part}"), Kind::Gauge, help, Some(part), &write);
        }
    }

    /// As [`Self::family`]; if `part` is given, it has the samples of the summary with this suffix only.
    fn family_of(
        &mut self,
        name: &str,
        kind: Kind,
        help: &str,
        part: Option<&'static str>,
        write: impl Fn(&mut Samples),
    ) {
        let begin = self.text.len();
        let family = match (self.format, kind) {
            (Format::OpenMetrics, Kind::Counter) => name.strip_suffix("_total").unwrap_or(name),
            _ => name,
        };
        self.text.push_str("# HELP ");
        self.text.push_str(family);
        self.text.push(' ');
        escape(&mut self.text, help, self.format == Format::OpenMetrics);
        let _to_memory = write!(self.text, "\n# TYPE {family} {}\n", kind.name());
        let unit = UNITS.iter().find(|unit| family.rsplit('_').next() == Some(unit));
        if let (Format::OpenMetrics, Some(unit)) = (self.format, unit) {
            let _to_memory = writeln!(self.text, "# UNIT {family} {unit}");
        }
        let head = self.text.len();
        let mut samples = Samples { exposition: self, name, part, seen: HashSet::new() };
        write(&mut samples);
        if self.text.len() == head {
            self.text.truncate(begin);
        }
    }

    /// The whole text.
    pub fn finish(mut self) -> Vec<u8> {
        if self.format == Format::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text.into_bytes()
    }
}

/// Takes the samples of one metric.
pub struct Samples<'x> {
    exposition: &'x mut Exposition,
    name: &'x str,
    /// The suffix of what is written of a summary; `None` for all.
    part: Option<&'static str>,
    /// Labels that may come twice, as far as they have come.
    seen: HashSet<String>,
}

impl Samples<'_> {
    /// Adds a sample.
    pub fn add(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.line("", labels, None, value);
    }

    /// Adds a sample whose labels come from data; a second one with the same labels is left out.
    pub fn add_once(&mut self, labels: &[(&str, &str)], value: impl Display) {
        let mut text = String::new();
        labels.iter().for_each(|(name, value)| write_label(&mut text, name, value));
        if self.seen.insert(text) {
            self.add(labels, value);
        }
    }

    /// Adds a summary: quantiles in percent, which may come twice, with their values; the number of all, and
    /// their sum.
    pub fn summary(
        &mut self,
        labels: &[(&str, &str)],
        quantiles: impl Iterator<Item = (String, f64)>,
        (count, sum): (u64, u64),
    ) {
        let part = self.part;
        let has = |suffix: &str| part.is_none_or(|part| part == suffix);
        for (quantile, value) in quantiles.filter(|_| has("")) {
            let labels: Vec<_> = labels.iter().copied().chain([("quantile", quantile.as_str())]).collect();
            self.add_once(&labels, value);
        }
        for (suffix, value) in [("_sum", sum), ("_count", count)] {
            if has(suffix) {
                // The name of a part has it already.
                self.line(if part.is_some() { "" } else { suffix }, labels, None, value);
            }
        }
    }

    /// Adds a histogram: bounds in ascending order, each with the number of what is at most as large; the
    /// number of all, and their sum.
    pub fn histogram(
        &mut self,
        labels: &[(&str, &str)],
        buckets: impl Iterator<Item = (impl Display, u64)>,
        (count, sum): (u64, f64),
    ) {
        let mut bound_text = String::new();
        for (bound, below) in buckets {
            self.write_bound(&mut bound_text, bound);
            self.line("_bucket", labels, Some(("le", &bound_text)), below);
        }
        self.line("_bucket", labels, Some(("le", "+Inf")), count);
        self.line("_sum", labels, None, sum);
        self.line("_count", labels, None, count);
    }

    fn write_bound(&self, text: &mut String, bound: impl Display) {
        text.clear();
        let _to_memory = write!(text, "{bound}");
        let is_whole = text.bytes().all(|byte| byte.is_ascii_digit());
        if is_whole && self.exposition.format == Format::OpenMetrics {
            text.push_str(".0");
        }
    }

    fn line(
        &mut self,
        suffix: &str,
        labels: &[(&str, &str)],
        bound: Option<(&str, &str)>,
        value: impl Display,
    ) {
        let text = &mut self.exposition.text;
        text.push_str(self.name);
        text.push_str(suffix);
        let begin = text.len();
        for (name, value) in labels.iter().copied().chain(bound) {
            text.push(if text.len() == begin { '{' } else { ',' });
            write_label(text, name, value);
        }
        if text.len() > begin {
            text.push('}');
        }
        let _to_memory = writeln!(text, " {value}");
    }
}

fn write_label(text: &mut String, name: &str, value: &str) {
    text.push_str(name);
    text.push_str("=\"");
    escape(text, value, true);
    text.push('"');
}

/// Writes text with what ends a line or a string escaped.
fn escape(out: &mut String, text: &str, quotes: bool) {
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '"' if quotes => out.push_str("\\\""),
            character => out.push(character),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(format: Format, write: impl FnOnce(&mut Exposition)) -> String {
        let mut exposition = Exposition::new(format);
        write(&mut exposition);
        String::from_utf8(exposition.finish()).expect("the text is UTF-8")
    }

    #[test]
    fn counters_and_units_differ_between_the_formats() {
        let write = |exposition: &mut Exposition| {
            exposition
                .family("x_seconds_total", Kind::Counter, "A \"b\"\\\n.", |samples| samples.add(&[], 1.5));
            exposition.family("none", Kind::Gauge, "Nothing.", |_| {});
        };
        assert_eq!(
            text(Format::Prometheus, write),
            "# HELP x_seconds_total A \"b\"\\\\\\n.\n# TYPE x_seconds_total counter\nx_seconds_total 1.5\n"
        );
        assert_eq!(
            text(Format::OpenMetrics, write),
            "# HELP x_seconds A \\\"b\\\"\\\\\\n.\n# TYPE x_seconds counter\n# UNIT x_seconds seconds\n\
             x_seconds_total 1.5\n# EOF\n"
        );
    }

    #[test]
    fn labels_are_escaped_and_unique() {
        let write = |exposition: &mut Exposition| {
            exposition.family("x", Kind::Gauge, "X.", |samples| {
                samples.add_once(&[("db", "db0"), ("key", "a\"\\\nb")], 1);
                samples.add_once(&[("db", "db0"), ("key", "a\"\\\nb")], 2);
            });
        };
        let expected = "# HELP x X.\n# TYPE x gauge\nx{db=\"db0\",key=\"a\\\"\\\\\\nb\"} 1\n";
        assert_eq!(text(Format::Prometheus, write), expected);
    }

    #[test]
    fn summaries_in_percent_are_gauges_to_openmetrics() {
        let write = |exposition: &mut Exposition| {
            exposition.family("s", Kind::Summary, "S.", |samples| {
                let quantiles = [("50".to_owned(), 1.5), ("50".to_owned(), 1.5)];
                samples.summary(&[("c", "get")], quantiles.into_iter(), (2, 3));
            });
        };
        let samples = ["{c=\"get\",quantile=\"50\"} 1.5\n", "_sum{c=\"get\"} 3\n", "_count{c=\"get\"} 2\n"];
        let [value, sum, count] = samples.map(|sample| format!("s{sample}"));
        assert_eq!(
            text(Format::Prometheus, write),
            format!("# HELP s S.\n# TYPE s summary\n{value}{sum}{count}")
        );
        let head = |name: &str| format!("# HELP {name} S.\n# TYPE {name} gauge\n");
        let [one, other, last] = ["s", "s_sum", "s_count"].map(head);
        assert_eq!(text(Format::OpenMetrics, write), format!("{one}{value}{other}{sum}{last}{count}# EOF\n"));
    }

    #[test]
    fn histograms_have_bounds_sum_and_count() {
        let write = |exposition: &mut Exposition| {
            exposition.family("h", Kind::Histogram, "H.", |samples| {
                samples.histogram(&[("c", "get")], [("0.5", 1), ("1", 2)].into_iter(), (3, 2.5));
            });
        };
        let expected = "# HELP h H.\n# TYPE h histogram\nh_bucket{c=\"get\",le=\"0.5\"} 1\n\
                        h_bucket{c=\"get\",le=\"1.0\"} 2\nh_bucket{c=\"get\",le=\"+Inf\"} 3\n\
                        h_sum{c=\"get\"} 2.5\nh_count{c=\"get\"} 3\n# EOF\n";
        assert_eq!(text(Format::OpenMetrics, write), expected);
        let expected = expected.replace("1.0\"", "1\"").replace("# EOF\n", "");
        assert_eq!(text(Format::Prometheus, write), expected);
    }
}
