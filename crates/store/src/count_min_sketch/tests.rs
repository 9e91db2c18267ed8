//! Estimates, overflow and merges, beside cells in a vector.

use super::*;
use crate::murmur::murmur_2;
use crate::types::Sample;

impl Sample for CountMinSketch {
    fn add_sample(&mut self, text: &[u8], _: &crate::EncodingLimits) {
        if self.body.grid.width == 0 {
            *self = CountMinSketch::new(2000, 3).expect("it is one");
        }
        self.increment(text, 1);
    }

    fn remove_sample(&mut self, text: &[u8]) {
        self.add_sample(text, &crate::EncodingLimits::default());
    }
}

fn cells(sketch: &CountMinSketch) -> Vec<u32> {
    let mut bytes = Vec::new();
    sketch.append_bytes(0, usize::MAX, &mut bytes);
    bytes.as_chunks().0.iter().map(|cell| u32::from_le_bytes(*cell)).collect()
}

#[test]
fn counters_are_those_of_a_vector_and_clones_keep_theirs() {
    for (width, depth) in [(1, 1), (10, 3), (5000, 4), (1 << 20, 2)] {
        let mut sketch = CountMinSketch::new(width, depth).expect("it is one");
        let mut model = vec![0u32; (width * depth) as usize];
        let mut kept = Vec::new();
        for number in 0..2000u64 {
            let item = format!("item {}", number * number % 300);
            let by = [0, 1, 7, 1 << 31, u64::from(u32::MAX), 1 << 32, u64::MAX][(number / 300) as usize % 7];
            let mut least = u32::MAX;
            for row in 0..depth {
                let column = u64::from(murmur_2(item.as_bytes(), row as u32)) % width;
                let cell = &mut model[(row * width + column) as usize];
                *cell = u64::from(*cell).saturating_add(by).min(u64::from(u32::MAX)) as u32;
                least = least.min(*cell);
            }
            assert_eq!(sketch.increment(item.as_bytes(), by), least);
            assert_eq!(sketch.estimate(item.as_bytes()), least);
            if number % 500 == 0 {
                kept.push((sketch.clone(), model.clone()));
            }
        }
        for (sketch, model) in kept.into_iter().chain([(sketch, model)]) {
            assert!(cells(&sketch) == model);
        }
    }
}

#[test]
fn sums_are_exact_or_none() {
    let [mut first, mut second] = [(); 2].map(|()| CountMinSketch::new(5000, 2).expect("it is one"));
    first.increment(b"a", 3_000_000_000);
    second.increment(b"a", 5);
    second.increment(b"b", 7);
    let merged = |weights: [i64; 2]| first.merged(&[(&first, weights[0]), (&second, weights[1])]);
    let sum = merged([1, 2]).expect("it fits");
    assert_eq!((sum.estimate(b"a"), sum.estimate(b"b"), sum.count()), (3_000_000_010, 14, 3_000_000_024));
    assert_eq!((sum.width(), sum.depth()), (5000, 2));
    assert!(merged([-1, 700_000_000]).is_none(), "b leaves 32 bits");
    assert!(merged([2, 0]).is_none());
    assert!(merged([0, -1]).is_none());
    assert!(merged([i64::MAX, 0]).is_none());
    let none = merged([0, 0]).expect("zeros");
    assert_eq!((none.count(), none.memory_usage() < 1000), (0, true));
}

#[test]
fn a_merge_sums_every_cell() {
    let fill = |first: u64, last: u64| {
        let mut sketch = CountMinSketch::new(20_011, 3).expect("it is one");
        (first..last).for_each(|number| _ = sketch.increment(&number.to_le_bytes(), number * number));
        sketch
    };
    let sketches = [fill(0, 3000), fill(500, 505), fill(0, 0)];
    for weights in [[1, 1, 1], [3, 1000, -7], [1, -1, 1 << 40], [0, 1 << 13, 1], [1 << 33, 1, 1]] {
        let sources: Vec<WeightedSketch<'_>> = sketches.iter().zip(weights).collect();
        let columns = sketches.each_ref().map(cells);
        let sum = |at: usize| {
            let cells =
                columns.iter().zip(weights).map(|(cells, weight)| i128::from(cells[at]) * i128::from(weight));
            u32::try_from(cells.sum::<i128>()).ok()
        };
        let expected: Option<Vec<u32>> = (0..columns[0].len()).map(sum).collect();
        assert_eq!(sketches[0].merged(&sources).map(|merged| cells(&merged)), expected, "{weights:?}");
    }
    let few = &sketches[1];
    let large = few.merged(&[(few, 1 << 33), (few, -1 << 33), (few, 1)]).expect("it fits");
    assert_eq!((cells(&large), large.count()), (cells(few), few.count()));
}

#[test]
fn sides_that_can_not_be_are_refused() {
    for (width, depth) in [(0, 1), (1, 0), (1 << 40, 1), (u64::MAX, u64::MAX), (1 << 32, 1 << 32)] {
        assert!(CountMinSketch::new(width, depth).is_none());
    }
    assert!(CountMinSketch::from_parts(2, 2, 0, &[0; 15]).is_none());
    assert!(CountMinSketch::from_parts(1 << 62, 1, 0, &[]).is_none());
    let sketch = CountMinSketch::from_parts(2, 2, 5, &[1, 0, 0, 0, 2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1]);
    assert_eq!(cells(&sketch.expect("it is one")), [1, 2, 256, 1 << 24]);
    let large = CountMinSketch::new(1 << 28, 1).expect("a GB");
    assert!(large.memory_usage() < 1 << 20, "zeros take no memory");
}
