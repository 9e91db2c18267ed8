//! Answers of the module, and what holds of all digests.

use super::*;
use crate::types::Sample;

impl Sample for TDigest {
    fn add_sample(&mut self, text: &[u8], _: &crate::EncodingLimits) {
        let number = text.iter().fold(0.0, |sum, byte| sum * 31.0 + f64::from(*byte));
        self.add(&[number]).expect("they are few");
    }

    fn remove_sample(&mut self, text: &[u8]) {
        self.add_sample(text, &crate::EncodingLimits::default());
    }
}

fn digest(compression: i64, numbers: &[f64]) -> TDigest {
    let mut digest = TDigest::new(compression).expect("it is one");
    digest.add(numbers).expect("they are few");
    digest
}

fn noise(count: usize) -> Vec<f64> {
    let mut state = 1u64;
    let next = |_| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 40) as f64 / f64::from(1 << 24)
    };
    (0..count).map(next).collect()
}

#[test]
fn few_numbers_are_answered_as_by_the_module() {
    // As RedisBloom 2.8.2 does.
    let few = digest(100, &[1.0, 2.0, 3.0, 4.5, 1e300, -1e300, 1e-320]).compressed();
    let parts: Vec<f64> = (0..=10).map(|tenths| f64::from(tenths) / 10.0).collect();
    let expected = [-1e300, -1e300, 1e-320, 1.0, 1.0, 2.0, 3.0, 3.0, 4.5, 1e300, 1e300];
    assert_eq!(few.quantiles(&parts).as_slice(), expected);
    let below = [1.0, 2.0, 4.0, 5.0, 0.0, -1e301, 1e301].map(|number| few.part_below(number));
    let expected = [2.5, 3.5, 5.0, 6.0, 1.0, 0.0, 7.0].map(|rank: f64| rank / 7.0);
    assert_eq!(below, expected);
    let ranks = [1.0, 4.0, 5.0, -1e301, 1e301, 1e300, -1e300];
    assert_eq!(ranks.map(|number| few.rank(number, false)), [2, 5, 6, -1, 7, 6, 0]);
    assert_eq!(ranks.map(|number| few.rank(number, true)), [4, 2, 1, 7, -1, 0, 6]);
    assert_eq!([0, 1, 6, 7].map(|rank| few.by_rank(rank, false)), [-1e300, 1e-320, 1e300, f64::INFINITY]);
    assert_eq!([0, 1, 6, 7].map(|rank| few.by_rank(rank, true)), [1e300, 4.5, -1e300, f64::NEG_INFINITY]);
    let empty = TDigest::new(100).expect("it is one");
    assert!(
        empty.quantile(0.5).is_nan()
            && empty.part_below(1.0).is_nan()
            && empty.trimmed_mean(0.0, 1.0).is_nan()
    );
    assert_eq!((empty.rank(1.0, false), empty.range()), (-2, None));
}

#[test]
fn many_numbers_are_close_and_nodes_few() {
    let numbers = noise(100_000);
    let many = digest(100, &numbers).compressed();
    assert!(many.nodes().len() < 200 && many.count() == 100_000);
    let weights: i64 = many.nodes().iter().map(|node| node.weight).sum();
    assert_eq!(weights, many.count());
    for part in [0.0, 0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0] {
        let close = 0.001 + 0.02 * part * (1.0 - part);
        assert!((many.quantile(part) - part).abs() < close, "{part}: {}", many.quantile(part));
        assert!((many.part_below(part) - part).abs() < close, "{part}: {}", many.part_below(part));
    }
    assert!((many.trimmed_mean(0.1, 0.9) - 0.5).abs() < 0.01);
}

#[test]
fn equal_means_keep_the_module_s_order_and_cost_no_square_of_large_digests() {
    let mut nodes: Vec<Node> = (0..100)
        .map(|number| Node { mean: f64::from(number / 10), weight: 1 + i64::from(number % 3) })
        .collect();
    let expected = nodes.clone();
    nodes.reverse();
    order::sort(&mut nodes, 0);
    assert!(nodes.windows(2).all(|two| two[0].mean <= two[1].mean));
    let count = |nodes: &[Node]| nodes.iter().map(|node| node.weight).sum::<i64>();
    assert_eq!(count(&nodes), count(&expected));
    let mut equal = vec![Node { mean: 1.0, weight: 2 }; 1 << 20];
    equal.extend([Node { mean: 1.0, weight: 1 }]);
    order::sort(&mut equal, 1);
}

#[test]
fn merges_and_clones() {
    let (first, mut second) = (digest(50, &noise(5000)).compressed(), digest(100, &[7.0; 3]));
    let kept = second.clone();
    second.merge(&first).expect("they are few");
    assert_eq!((second.count(), kept.count(), second.range()), (5003, 3, Some((first.shape().min, 7.0))));
    second.reset();
    assert_eq!((second.count(), second.compression(), second.nodes().len()), (0, 100, 0));
    let mut heavy =
        TDigest::from_parts(kept.compressed().shape(), vec![Node { mean: 1.0, weight: i64::MAX }]);
    assert_eq!(heavy.as_mut().expect("it is one").add(&[1.0]), Err(Overflow));
}

#[test]
fn what_does_not_fit_is_refused() {
    for compression in [0, -1, COMPRESSION_MAX + 1, i64::MAX] {
        assert!(TDigest::new(compression).is_none());
    }
    assert!(TDigest::new(COMPRESSION_MAX).is_some());
    let shape = digest(1, &[1.0]).shape();
    let nodes =
        |weights: &[i64]| weights.iter().map(|&weight| Node { mean: 1.0, weight }).collect::<Vec<_>>();
    assert!(TDigest::from_parts(shape, nodes(&[1, 2])).is_some());
    for weights in [&[0][..], &[-1], &[i64::MAX, 1], &[1; 17]] {
        assert!(TDigest::from_parts(shape, nodes(weights)).is_none());
    }
}
