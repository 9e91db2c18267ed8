//! What was found: figures and curves in sections, in a form that text, JSON and pages are made from.

use serde_json::{Value, json};

use super::statistics::Figure;

/// A figure with its name.
pub(crate) struct Named {
    /// As JSON names it.
    pub(crate) name: String,
    /// As people read it.
    pub(crate) title: String,
    pub(crate) unit: &'static str,
    pub(crate) figure: Figure,
}

impl Named {
    /// The round that other work on the machine disturbed the least: the shortest time, the highest rate.
    pub(crate) fn best(&self) -> f64 {
        if self.unit.ends_with("/s") { self.figure.max } else { self.figure.min }
    }
}

/// A curve over bytes, strides or threads.
pub(crate) struct Plot {
    pub(crate) name: &'static str,
    pub(crate) title: String,
    /// What x is; it is drawn by powers of two.
    pub(crate) x: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) curves: Vec<(String, Vec<(f64, f64)>)>,
}

/// What belongs together.
pub(crate) struct Section {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) figures: Vec<Named>,
    pub(crate) plots: Vec<Plot>,
    /// What could not be measured, and other remarks.
    pub(crate) notes: Vec<String>,
}

impl Section {
    pub(crate) fn new(name: &'static str, title: &'static str) -> Section {
        Section { name, title, figures: Vec::new(), plots: Vec::new(), notes: Vec::new() }
    }

    pub(crate) fn add(&mut self, name: &str, title: &str, unit: &'static str, figure: Figure) {
        self.figures.push(Named { name: name.to_owned(), title: title.to_owned(), unit, figure });
    }

    /// The best round of a figure.
    pub(crate) fn best(&self, name: &str) -> Option<f64> {
        self.figures.iter().find(|named| named.name == name).map(Named::best)
    }

    /// The median of a figure.
    #[cfg(test)]
    pub(crate) fn median(&self, name: &str) -> Option<f64> {
        self.figures.iter().find(|named| named.name == name).map(|named| named.figure.median)
    }
}

/// A setting of the machine, and what changing it would gain.
pub(crate) struct Advice {
    pub(crate) what: &'static str,
    pub(crate) state: String,
    /// What to do; empty where nothing is.
    pub(crate) change: String,
    pub(crate) gain: String,
    pub(crate) measured: bool,
}

/// All of it.
pub(crate) struct Findings {
    pub(crate) date: String,
    pub(crate) command: String,
    pub(crate) machine: Vec<(&'static str, String)>,
    pub(crate) sections: Vec<Section>,
    pub(crate) advice: Vec<Advice>,
}

impl Findings {
    /// The best round of a figure of a section.
    pub(crate) fn best(&self, section: &str, name: &str) -> Option<f64> {
        self.sections.iter().find(|one| one.name == section)?.best(name)
    }

    pub(crate) fn to_json(&self) -> Value {
        let machine: serde_json::Map<String, Value> =
            self.machine.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        let sections: serde_json::Map<String, Value> =
            self.sections.iter().map(|section| (section.name.to_owned(), section_json(section))).collect();
        let advice: Vec<Value> = self.advice.iter().map(advice_json).collect();
        json!({
            "version": env!("CARGO_PKG_VERSION"), "date": self.date, "command": self.command,
            "machine": machine, "sections": sections, "advice": advice,
        })
    }
}

fn section_json(section: &Section) -> Value {
    let figures: serde_json::Map<String, Value> = section
        .figures
        .iter()
        .map(|Named { name, unit, figure, .. }| {
            let value = json!({
                "median": figure.median, "low": figure.low, "high": figure.high, "min": figure.min,
                "max": figure.max, "rounds": figure.rounds, "unit": unit,
            });
            (name.clone(), value)
        })
        .collect();
    let plots: serde_json::Map<String, Value> = section
        .plots
        .iter()
        .map(|plot| {
            let curves: serde_json::Map<String, Value> =
                plot.curves.iter().map(|(name, points)| (name.clone(), json!(points))).collect();
            (plot.name.to_owned(), json!({ "x": plot.x, "unit": plot.unit, "curves": curves }))
        })
        .collect();
    json!({ "figures": figures, "curves": plots, "notes": section.notes })
}

fn advice_json(advice: &Advice) -> Value {
    json!({
        "what": advice.what, "state": advice.state, "change": advice.change, "gain": advice.gain,
        "measured": advice.measured,
    })
}

/// A number with its unit, short enough to read.
pub(crate) fn shown(value: f64, unit: &str) -> String {
    let scaled = |steps: &[&str]| {
        let mut value = value;
        let mut name = steps.first().copied().unwrap_or_default();
        for step in &steps[1.min(steps.len())..] {
            if value.abs() < 1000.0 {
                break;
            }
            value /= 1000.0;
            name = step;
        }
        let decimals = if value.abs() < 10.0 { 2 } else { usize::from(value.abs() < 100.0) };
        format!("{value:.decimals$} {name}").trim_end().to_owned()
    };
    match unit {
        "bytes/s" => scaled(&["B/s", "KB/s", "MB/s", "GB/s"]),
        "ns" => scaled(&["ns", "us", "ms", "s"]),
        "1/s" => scaled(&["/s", "K/s", "M/s", "G/s"]),
        "bytes" => bytes(value),
        "" => scaled(&[""]),
        unit => format!("{} {unit}", scaled(&[""])),
    }
}

/// Bytes by powers of 1024.
pub(crate) fn bytes(value: f64) -> String {
    let (mut value, mut name) = (value, "B");
    for step in ["KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            break;
        }
        (value, name) = (value / 1024.0, step);
    }
    let text = format!("{value:.1}");
    format!("{} {name}", text.trim_end_matches(".0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(shown(12_345_000_000.0, "bytes/s"), "12.3 GB/s");
        assert_eq!(shown(1.5, "ns"), "1.50 ns");
        assert_eq!(shown(123_456.0, "ns"), "123 us");
        assert_eq!(shown(65_536.0, "bytes"), "64 KiB");
        assert_eq!(shown(1536.0, "bytes"), "1.5 KiB");
        assert_eq!(shown(3.0, "x"), "3.00 x");
    }
}
