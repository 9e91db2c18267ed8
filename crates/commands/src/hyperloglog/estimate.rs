//! How many elements a sketch has seen, from the histogram of its registers: the estimator of Otmar Ertl
//! ("New cardinality estimation algorithms for HyperLogLog sketches", arXiv:1702.01284), which needs no
//! tables and no cases by size.

use super::sketch::{Histogram, REGISTERS, RUN_BITS};

/// 1 / (2 ln 2).
const ALPHA: f64 = 0.721_347_520_444_481_7;

/// The estimate.
pub(super) fn cardinality(histogram: &Histogram) -> u64 {
    let count = REGISTERS as f64;
    let mut sum = count * tau((count - f64::from(histogram[RUN_BITS + 1])) / count);
    for value in (1..=RUN_BITS).rev() {
        sum = (sum + f64::from(histogram[value])) * 0.5;
    }
    sum += count * sigma(f64::from(histogram[0]) / count);
    (ALPHA * count * count / sum).round() as u64
}

/// What the full registers add, `share` being that of the others.
fn tau(share: f64) -> f64 {
    if share == 0.0 || share == 1.0 {
        return 0.0;
    }
    let (mut root, mut weight, mut sum) = (share, 1.0, 1.0 - share);
    loop {
        root = root.sqrt();
        weight *= 0.5;
        let next = sum - (1.0 - root) * (1.0 - root) * weight;
        if next == sum {
            return sum / 3.0;
        }
        sum = next;
    }
}

/// What the empty registers add, `share` being theirs.
fn sigma(share: f64) -> f64 {
    if share == 1.0 {
        return f64::INFINITY;
    }
    let (mut power, mut weight, mut sum) = (share, 1.0, share);
    loop {
        power *= power;
        let next = sum + power * weight;
        weight += weight;
        if next == sum {
            return sum;
        }
        sum = next;
    }
}

#[cfg(test)]
mod tests {
    use super::super::sketch;
    use super::*;

    #[test]
    fn estimates_are_near() {
        let mut bytes = sketch::new();
        assert_eq!(cardinality(&sketch::histogram(&bytes).expect("it is whole")), 0);
        let mut next = 1u64;
        for number in 1..=200_000u64 {
            sketch::add(&mut bytes, &number.to_le_bytes(), 3000).expect("it is whole");
            if number == next {
                let estimate = cardinality(&sketch::histogram(&bytes).expect("it is whole"));
                let error = (estimate as f64 - number as f64).abs();
                assert!(error <= (number as f64 * 0.04).ceil(), "{number}: {estimate}");
                next = next * 3 / 2 + 1;
            }
        }
    }

    #[test]
    fn extremes_end() {
        let mut histogram = [0; 64];
        histogram[RUN_BITS + 1] = REGISTERS as u32;
        assert!(cardinality(&histogram) > 1 << 50);
    }
}
