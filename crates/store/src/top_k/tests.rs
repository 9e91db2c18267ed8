//! Decisions of the module where chance has no say, and the same outcome of the same commands where it has.

use super::*;
use crate::types::Sample;

impl Sample for TopK {
    fn add_sample(&mut self, text: &[u8], _: &crate::EncodingLimits) {
        if self.body.grid.width == 0 {
            *self = TopK::new(50, 500, 5, 0.9).expect("it is one");
        }
        self.add(text, 1);
    }

    fn remove_sample(&mut self, text: &[u8]) {
        self.add_sample(text, &crate::EncodingLimits::default());
    }
}

fn expelled(sketch: &mut TopK, item: &str, increment: u32) -> Option<String> {
    let added = sketch.add(item.as_bytes(), increment);
    added.expelled.map(|item| String::from_utf8_lossy(&item).into_owned())
}

fn listed(sketch: &TopK) -> Vec<(String, u32)> {
    let text = |item: TopItem<'_>| (String::from_utf8_lossy(item.item).into_owned(), item.count);
    sketch.list().into_iter().map(text).collect()
}

fn pairs(expected: &[(&str, u32)]) -> Vec<(String, u32)> {
    expected.iter().map(|(item, count)| ((*item).to_owned(), *count)).collect()
}

#[test]
fn a_single_bucket_is_fought_for_as_in_the_module() {
    // As RedisBloom 2.8.2 does.
    let mut sketch = TopK::new(2, 1, 1, 1.0).expect("it is one");
    assert_eq!(expelled(&mut sketch, "a", 3), None);
    assert_eq!(expelled(&mut sketch, "b", 10), None);
    assert_eq!(listed(&sketch), pairs(&[("b", 8), ("a", 3)]));
    assert_eq!(expelled(&mut sketch, "c", 0), None);
    assert_eq!(expelled(&mut sketch, "c", 1), None);
    let estimates = ["a", "b", "c"].map(|item| sketch.estimate(item.as_bytes()));
    assert_eq!(estimates, [0, 7, 0]);
    assert_eq!(expelled(&mut sketch, "b", 4), None);
    assert_eq!(expelled(&mut sketch, "b", 4), None);
    assert_eq!(expelled(&mut sketch, "c", 300), Some("a".to_owned()));
    assert_eq!(listed(&sketch), pairs(&[("c", 286), ("b", 15)]));
    assert_eq!(expelled(&mut sketch, "d", 600), Some("b".to_owned()));
    assert_eq!(listed(&sketch), pairs(&[("d", 315), ("c", 286)]));
}

#[test]
fn ties_are_broken_as_in_the_module() {
    let mut sketch = TopK::new(2, 100, 2, 1.0).expect("it is one");
    let gone: Vec<_> = ["a", "b", "c", "d"].map(|item| expelled(&mut sketch, item, 1)).into();
    assert_eq!(gone, [None, None, Some("a".to_owned()), Some("b".to_owned())]);
    assert_eq!(listed(&sketch), pairs(&[("c", 1), ("d", 1)]));
    assert_eq!(expelled(&mut sketch, "a", 1), Some("c".to_owned()));
    assert_eq!(listed(&sketch), pairs(&[("a", 2), ("d", 1)]));
    let mut sketch = TopK::new(3, 100, 2, 1.0).expect("it is one");
    let gone: Vec<_> = ["x", "y", "z"].map(|item| expelled(&mut sketch, item, 0)).into();
    assert_eq!(gone, [None, None, Some("x".to_owned())]);
    assert!(listed(&sketch).is_empty());
    assert_eq!(["x", "y", "z"].map(|item| sketch.contains(item.as_bytes())), [false, true, true]);
}

#[test]
fn chance_is_part_of_the_sketch() {
    let mut sketch = TopK::new(10, 20, 3, 0.9).expect("it is one");
    let step = |sketch: &mut TopK, number: u32| {
        let item = format!("item {}", number * number % 97 % (1 + number % 40));
        sketch.add(item.as_bytes(), 1 + number % 3);
    };
    (0..5000).for_each(|number| step(&mut sketch, number));
    assert_ne!(sketch.chance_state(), 0);
    let mut buckets = Vec::new();
    sketch.append_bytes(0, usize::MAX, &mut buckets);
    let mut other = TopK::from_parts(10, 20, 3, 0.9, &buckets).expect("it is one");
    for (place, item) in sketch.places().enumerate() {
        let Some(item) = item else { continue };
        other.set_item(place as u32, item.item, item.count);
    }
    other.set_chance_state(sketch.chance_state());
    let kept = (sketch.clone(), listed(&sketch));
    for number in 5000..10_000 {
        step(&mut sketch, number);
        step(&mut other, number);
    }
    assert_eq!(listed(&sketch), listed(&other));
    assert_eq!(listed(&kept.0), kept.1);
    let places = |sketch: &TopK| format!("{:?}", sketch.places().collect::<Vec<_>>());
    assert_eq!(places(&sketch), places(&other));
}

#[test]
fn frequent_items_are_found() {
    let mut sketch = TopK::new(5, 200, 5, 0.9).expect("it is one");
    let mut state = 1u64;
    for _ in 0..50_000 {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        // The share of number n is about 1 / (n + 1).
        let uniform = (state >> 40) as f64 / f64::from(1 << 24);
        let number = (2000f64.powf(uniform) - 1.0) as u64;
        sketch.add(number.to_string().as_bytes(), 1);
    }
    let mut items: Vec<_> = listed(&sketch).into_iter().map(|(item, _)| item).collect();
    items.sort_unstable();
    assert_eq!(items, ["0", "1", "2", "3", "4"]);
}

#[test]
fn what_can_not_be_is_refused() {
    for (k, width, depth, decay) in
        [(0, 1, 1, 0.5), (1, 0, 1, 0.5), (1, 1, 0, 0.5), (1, u32::MAX, u32::MAX, 0.5), (1, 1, 1, 0.0)]
    {
        assert!(TopK::new(k, width, depth, decay).is_none());
    }
    for decay in [f64::NAN, -1.0, 1.5, f64::INFINITY] {
        assert!(TopK::new(1, 1, 1, decay).is_none());
    }
    assert!(TopK::from_parts(1, 2, 2, 0.5, &[0; 31]).is_none());
}
