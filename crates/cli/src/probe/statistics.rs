//! Rounds of a measurement until its time is up, and what they say together.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::benchmark::Estimate;

const ROUNDS_MAX: usize = 1000;

/// What a measurement came to, over all rounds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Figure {
    pub(crate) median: f64,
    /// The interval in which the median lies, with 95 % confidence where there are 6 rounds.
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// The least and the greatest.
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) rounds: usize,
}

impl Figure {
    /// The figure of these rounds; `None` without any.
    pub(crate) fn of(rounds: &[f64]) -> Option<Figure> {
        let Estimate { median, low, high } = Estimate::of(rounds.iter().copied())?;
        Some(Figure {
            median,
            low,
            high,
            min: rounds.iter().copied().fold(f64::INFINITY, f64::min),
            max: rounds.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            rounds: rounds.len(),
        })
    }

    /// The figure of something that was looked up or counted once.
    pub(crate) fn once(value: f64) -> Figure {
        Figure { median: value, low: value, high: value, min: value, max: value, rounds: 1 }
    }
}

/// The time for the rounds of all measurements, and whether somebody has asked to end.
#[derive(Clone)]
pub(crate) struct Pace {
    total: Duration,
    ends: Arc<AtomicBool>,
}

impl Pace {
    pub(crate) fn new(total: Duration, ends: Arc<AtomicBool>) -> Pace {
        Pace { total, ends }
    }

    /// An error if it was asked to end.
    pub(crate) fn check(&self) -> io::Result<()> {
        if self.ends.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        Ok(())
    }

    /// The time for a measurement that may take such a part of all; what is set up for it comes on top.
    pub(crate) fn part(&self, part: f64) -> Duration {
        self.total.mul_f64(part)
    }

    /// Repeats a round until its part of the time is used, at least once.
    pub(crate) fn repeat(&self, part: f64, mut round: impl FnMut() -> io::Result<f64>) -> io::Result<Figure> {
        let until = Instant::now() + self.part(part);
        let mut rounds = Vec::new();
        loop {
            self.check()?;
            rounds.push(round()?);
            if Instant::now() >= until || rounds.len() >= ROUNDS_MAX {
                break;
            }
        }
        Figure::of(&rounds).ok_or_else(|| io::Error::other("nothing was measured"))
    }

    /// Nanoseconds for one of the calls, of which a round makes so many.
    pub(crate) fn nanoseconds(&self, part: f64, calls: u32, mut call: impl FnMut()) -> io::Result<Figure> {
        self.repeat(part, || {
            let began = Instant::now();
            for _ in 0..calls {
                call();
            }
            Ok(began.elapsed().as_secs_f64() * 1e9 / f64::from(calls))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_medians_with_their_bounds() {
        assert_eq!(Figure::of(&[]), None);
        let figure = Figure::of(&[3.0, 1.0, 2.0, 9.0]).expect("there are rounds");
        assert_eq!((figure.median, figure.min, figure.max, figure.rounds), (2.5, 1.0, 9.0, 4));
        assert!(figure.low <= figure.median && figure.median <= figure.high);
    }

    #[test]
    fn rounds_end_with_the_time_or_when_asked() {
        let ends = Arc::new(AtomicBool::new(false));
        let pace = Pace::new(Duration::ZERO, Arc::clone(&ends));
        assert_eq!(pace.repeat(0.5, || Ok(7.0)).expect("one round is run").rounds, 1);
        let pace = Pace::new(Duration::from_secs(3600), Arc::clone(&ends));
        assert_eq!(pace.repeat(1.0, || Ok(7.0)).expect("rounds are run").rounds, ROUNDS_MAX);
        ends.store(true, Ordering::Relaxed);
        assert!(pace.repeat(1.0, || Ok(7.0)).is_err());
    }
}
