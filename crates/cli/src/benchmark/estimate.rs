//! The median of some rounds, and the interval in which the median of all possible rounds lies.
//!
//! The interval is one of order statistics, so it needs no assumption about how figures are distributed: of n
//! rounds, k + 1 or more lie on each side of the median but for a probability of 2 P(B <= k), where B is
//! binomial with n and 1/2.

/// The confidence that intervals have where there are rounds enough: 6 or more.
const CONFIDENCE: f64 = 0.95;

/// A median with its interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Estimate {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Estimate {
    /// The estimate from figures; `None` without any.
    pub(crate) fn of(figures: impl Iterator<Item = f64>) -> Option<Estimate> {
        let mut sorted: Vec<f64> = figures.collect();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len();
        let (low, high) = (*sorted.get((count.max(1) - 1) / 2)?, *sorted.get(count / 2)?);
        let (outside, _) = interval(count);
        Some(Estimate {
            median: f64::midpoint(low, high),
            low: sorted[outside],
            high: sorted[count - 1 - outside],
        })
    }
}

/// How many of the figures are left out on each side of the interval, and with which probability it holds the
/// median.
pub(crate) fn interval(count: usize) -> (usize, f64) {
    // P(B = 0), and from it the next.
    let mut exactly = 0.5_f64.powi(i32::try_from(count).unwrap_or(i32::MAX));
    let mut at_most = exactly;
    let (mut outside, mut confidence) = (0, 1.0 - 2.0 * at_most);
    while 2 * (outside + 1) < count {
        exactly *= (count - outside) as f64 / (outside + 1) as f64;
        at_most += exactly;
        if 1.0 - 2.0 * at_most < CONFIDENCE {
            break;
        }
        (outside, confidence) = (outside + 1, 1.0 - 2.0 * at_most);
    }
    (outside, confidence.max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_the_tables() {
        // Rounds, figures left out on each side, confidence in percent.
        for (count, outside, percent) in
            [(1, 0, 0.0), (2, 0, 50.0), (5, 0, 93.75), (6, 0, 96.875), (9, 1, 96.1), (20, 5, 95.9)]
        {
            let (found, confidence) = interval(count);
            assert_eq!(found, outside, "{count}");
            assert!((confidence * 100.0 - percent).abs() < 0.05, "{count}: {confidence}");
        }
    }

    #[test]
    fn medians_lie_in_the_middle() {
        let of = |figures: &[f64]| Estimate::of(figures.iter().copied());
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[3.0, 1.0, 2.0]), Some(Estimate { median: 2.0, low: 1.0, high: 3.0 }));
        assert_eq!(of(&[4.0, 1.0]), Some(Estimate { median: 2.5, low: 1.0, high: 4.0 }));
    }
}
