//! The findings as text, with plots.

use std::fmt::Write as _;

use super::findings::{Findings, Named, Section, bytes, shown};
use crate::interactive::{Curve, draw_curves};

const NAME_WIDTH: usize = 40;

/// All of it.
pub(crate) fn write(findings: &Findings, has_colours: bool) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail, here and below.
    for (name, value) in &findings.machine {
        let _ = writeln!(text, "{name:<NAME_WIDTH$}{value}");
    }
    text.push_str(
        "\nMedians of rounds with their intervals (95 %); the best round is the one that other work on the\n\
         machine disturbed the least. Plots have powers of two from left to right.\n",
    );
    for section in &findings.sections {
        write_section(&mut text, section, has_colours);
    }
    if !findings.advice.is_empty() {
        text.push_str("\nWhat to change on this machine\n\n");
    }
    for advice in &findings.advice {
        let change = if advice.change.is_empty() { "nothing to change" } else { &advice.change };
        let _ = writeln!(text, "{}: {}\n  {change}\n  {}", advice.what, advice.state, advice.gain);
    }
    text
}

fn write_section(text: &mut String, section: &Section, has_colours: bool) {
    let _ = writeln!(text, "\n{}", section.title);
    let _ = writeln!(text, "{:<NAME_WIDTH$}{:>12}{:>12}   interval", "", "median", "best");
    for named in &section.figures {
        let Named { title, unit, figure, .. } = named;
        let value = shown(figure.median, unit);
        let (best, range) = if figure.rounds > 1 {
            let range = format!("{} to {}", shown(figure.low, unit), shown(figure.high, unit));
            (shown(named.best(), unit), range)
        } else {
            (String::new(), String::new())
        };
        let line = format!("{title:<NAME_WIDTH$}{value:>12}{best:>12}   {range}");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    for plot in &section.plots {
        // One point makes no curve.
        if plot.curves.iter().all(|(_, points)| points.len() < 2) {
            continue;
        }
        let curves: Vec<Curve> = plot
            .curves
            .iter()
            .map(|(name, points)| (name.clone(), points.iter().map(|(x, y)| (x.log2(), *y)).collect()))
            .collect();
        // The middle between one thread and two has no name.
        let x_of = |x: f64| match plot.x {
            _ if x > 0.0 && x < 1.0 => String::new(),
            "bytes" => bytes(x.exp2().round()),
            _ => format!("{:.0}", x.exp2()),
        };
        let title = format!("{}: {} over {}", plot.title, unit_name(plot.unit), plot.x);
        text.push_str(&draw_curves(&title, &curves, has_colours, x_of, |y| shown(y, plot.unit)));
    }
    for note in &section.notes {
        let _ = writeln!(text, "{note}");
    }
}

fn unit_name(unit: &str) -> &str {
    if unit == "ns" { "nanoseconds" } else { unit }
}
