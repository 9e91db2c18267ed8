//! Two servers side by side: rounds on one and the other in turn, so that what else the machine does falls on
//! both, and ratios of each round with the interval in which their mean lies with 95 % confidence.

use std::io::{self, IsTerminal, Write};

use mantissa_protocol::Value;

use super::options::{Form, Options};
use super::report::{as_value, milliseconds, number, text};
use super::workload::Test;
use super::{Measured, Subject, measure, page};
use crate::format;
use crate::output::tell;

/// Student's t for 95 % confidence, by degrees of freedom from 1; beyond the last, the normal distribution's.
const STUDENT_T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];
const NORMAL_T: f64 = 1.96;

/// A ratio, and the interval in which it lies with 95 % confidence.
#[derive(Clone, Copy, Debug)]
struct Ratio {
    mean: f64,
    low: f64,
    high: f64,
}

impl Ratio {
    /// The geometric mean of ratios; `None` unless there are two or more, all positive.
    fn of(ratios: &[f64]) -> Option<Ratio> {
        if ratios.len() < 2 || ratios.iter().any(|ratio| !ratio.is_finite() || *ratio <= 0.0) {
            return None;
        }
        let logs: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
        let count = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / count;
        let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let t = STUDENT_T.get(logs.len() - 2).copied().unwrap_or(NORMAL_T);
        let reach = t * (variance / count).sqrt();
        Some(Ratio { mean: mean.exp(), low: (mean - reach).exp(), high: (mean + reach).exp() })
    }

    fn show(ratio: Option<Ratio>) -> String {
        ratio.map_or("-".to_owned(), |Ratio { mean, low, high }| format!("{mean:.3} [{low:.3}, {high:.3}]"))
    }

    fn value(ratio: Option<Ratio>) -> Value {
        ratio.map_or(Value::Null, |Ratio { mean, low, high }| {
            Value::Map(vec![
                (text("mean"), number(mean)),
                (text("low"), number(low)),
                (text("high"), number(high)),
            ])
        })
    }
}

/// A test on both servers, a pair for each round.
struct Pairs {
    title: String,
    rounds: Vec<(Measured, Measured)>,
}

impl Pairs {
    /// The ratio of a figure, the first server's over the second's.
    fn ratio(&self, figure: impl Fn(&Measured) -> Option<f64>) -> Option<Ratio> {
        let ratios: Option<Vec<f64>> =
            self.rounds.iter().map(|(one, other)| Some(figure(one)? / figure(other)?)).collect();
        Ratio::of(&ratios?)
    }

    fn ratios(&self) -> [(&'static str, Option<Ratio>); 4] {
        let latency = |quantile: f64| {
            self.ratio(|one| Some(milliseconds(one.outcome.latency_us.value_at_quantile(quantile))))
        };
        [
            ("requests per second", self.ratio(|one| Some(one.outcome.rate()))),
            ("latency p50", latency(0.5)),
            ("latency p99", latency(0.99)),
            ("processor time per request", self.ratio(|one| one.processor_us)),
        ]
    }
}

/// Runs the tests on both servers and shows the ratios; whether no request failed.
pub(crate) fn run(options: &Options, one: &Subject, other: &Subject, tests: &[Test]) -> io::Result<bool> {
    let shows_progress = io::stdout().is_terminal();
    let mut all = Vec::new();
    if options.form() == Form::Csv {
        tell!("\"test\",\"figure\",\"ratio\",\"low\",\"high\"")?;
    } else if options.form() != Form::Json {
        tell!("A: {}\nB: {}\n{} rounds\n", one.name, other.name, options.rounds)?;
    }
    for test in tests {
        let mut pairs = Pairs { title: test.title.clone(), rounds: Vec::new() };
        for round in 0..options.rounds {
            // Each goes first in half of the rounds.
            let pair = if round % 2 == 0 {
                let first = measure(options, one, test, shows_progress)?;
                (first, measure(options, other, test, shows_progress)?)
            } else {
                let first = measure(options, other, test, shows_progress)?;
                (measure(options, one, test, shows_progress)?, first)
            };
            pairs.rounds.push(pair);
        }
        show(options, &pairs, io::stdout().lock())?;
        all.push(pairs);
    }
    if options.form() == Form::Json {
        print_json(one, other, &all, io::stdout().lock())?;
    }
    let errors: u64 =
        all.iter().flat_map(|pairs| &pairs.rounds).map(|(a, b)| a.outcome.errors + b.outcome.errors).sum();
    if let Some(path) = &options.html {
        let side = |subject, choose: fn(&(Measured, Measured)) -> &Measured| page::Side {
            subject,
            tests: all.iter().map(|pairs| pairs.rounds.iter().map(choose).collect()).collect(),
        };
        let shown = |pairs: &Pairs| pairs.ratios().map(|(name, ratio)| (name, Ratio::show(ratio))).to_vec();
        let ratios: Vec<page::Ratios> = all.iter().map(shown).collect();
        let sides = [side(one, |pair| &pair.0), side(other, |pair| &pair.1)];
        std::fs::write(path, page::write(options, &sides, &ratios))?;
    }
    Ok(errors == 0)
}

fn show(options: &Options, pairs: &Pairs, mut out: impl Write) -> io::Result<()> {
    let title = &pairs.title;
    match options.form() {
        Form::Json => {}
        Form::Csv => {
            for (name, ratio) in pairs.ratios() {
                let figures = match ratio {
                    None => ["", "", ""].map(str::to_owned),
                    Some(Ratio { mean, low, high }) => [mean, low, high].map(|figure| format!("{figure:.4}")),
                };
                let [mean, low, high] = figures;
                writeln!(out, "\"{title}\",\"{name}\",\"{mean}\",\"{low}\",\"{high}\"")?;
            }
        }
        Form::Quiet => {
            let [(_, rate), ..] = pairs.ratios();
            writeln!(out, "{title}: A/B {} requests per second", Ratio::show(rate))?;
        }
        Form::Full => {
            writeln!(out, "====== {title} ======")?;
            for (i, (one, other)) in pairs.rounds.iter().enumerate() {
                let (a, b) = (one.outcome.rate(), other.outcome.rate());
                writeln!(out, "  round {}: A {a:.0}, B {b:.0} requests per second", i + 1)?;
            }
            writeln!(out, "  ratio A/B, with the interval of 95 % confidence:")?;
            for (name, ratio) in pairs.ratios() {
                writeln!(out, "    {name:<27} {}", Ratio::show(ratio))?;
            }
            writeln!(out)?;
        }
    }
    Ok(())
}

fn print_json(one: &Subject, other: &Subject, all: &[Pairs], mut out: impl Write) -> io::Result<()> {
    let tests = all.iter().map(|pairs| {
        let ratios = pairs.ratios().into_iter().map(|(name, ratio)| (text(name), Ratio::value(ratio)));
        let side = |choose: fn(&(Measured, Measured)) -> &Measured| {
            Value::Array(pairs.rounds.iter().map(|pair| as_value(choose(pair))).collect())
        };
        Value::Map(vec![
            (text("test"), text(&pairs.title)),
            (text("ratios"), Value::Map(ratios.collect())),
            (text("a"), side(|pair| &pair.0)),
            (text("b"), side(|pair| &pair.1)),
        ])
    });
    let facts = Value::Map(vec![
        (text("a"), text(&one.name)),
        (text("b"), text(&other.name)),
        (text("tests"), Value::Array(tests.collect())),
    ]);
    let mut bytes = format::json(&facts);
    bytes.push(b'\n');
    out.write_all(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_lies_in_its_interval() {
        let ratio = Ratio::of(&[2.0, 2.0, 2.0]).expect("positive ratios");
        assert!((ratio.mean - 2.0).abs() < 1e-9 && (ratio.high - ratio.low).abs() < 1e-9);
        let ratio = Ratio::of(&[0.5, 2.0]).expect("positive ratios");
        assert!((ratio.mean - 1.0).abs() < 1e-9 && ratio.low < 0.1 && ratio.high > 10.0);
        assert!(Ratio::of(&[1.0]).is_none() && Ratio::of(&[1.0, 0.0]).is_none());
    }
}
