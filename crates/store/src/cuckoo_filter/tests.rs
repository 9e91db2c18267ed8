//! What was added is found, what was deleted is not counted, and dumps.

use super::*;
use crate::types::Sample;
use std::collections::HashMap;

impl Sample for CuckooFilter {
    fn add_sample(&mut self, text: &[u8], _: &crate::EncodingLimits) {
        if self.body.layers.is_empty() {
            *self = filter(16, 2, 20, 1);
        }
        self.add(text, true);
    }

    fn remove_sample(&mut self, text: &[u8]) {
        self.remove(text);
    }
}

fn filter(capacity: u64, bucket_size: u16, steps: u16, growth: u16) -> CuckooFilter {
    let shape = CuckooShape::new(capacity, bucket_size, steps, growth).expect("it is a shape");
    CuckooFilter::new(shape).expect("it is not too large")
}

fn item(number: usize) -> Vec<u8> {
    format!("item {number}").into_bytes()
}

fn slots(filter: &CuckooFilter) -> Vec<Vec<u8>> {
    let slots = |(index, (_, count)): (usize, (u64, usize))| {
        let mut out = Vec::new();
        filter.append_slots(index, 0, count, &mut out);
        out
    };
    filter.parts().enumerate().map(slots).collect()
}

#[test]
fn items_are_found_counted_and_deleted() {
    for (capacity, bucket_size, steps, growth) in
        [(16, 2, 20, 1), (64, 1, 5, 2), (1000, 255, 3, 4), (100_000, 4, 500, 1)]
    {
        let mut filter = filter(capacity, bucket_size, steps, growth);
        let mut model: HashMap<usize, u64> = HashMap::new();
        let mut state = capacity;
        let mut items = 0;
        for _ in 0..3_000 {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            let number = (state >> 33) as usize % 400;
            let times = model.entry(number).or_default();
            if state >> 62 == 3 && *times > 0 {
                assert!(filter.remove(&item(number)));
                (*times, items) = (*times - 1, items - 1);
            } else if filter.add(&item(number), *times > 0) == CuckooAdded::New {
                (*times, items) = (*times + 1, items + 1);
            }
            assert_eq!(filter.items(), items);
        }
        for (&number, &times) in &model {
            assert!(filter.count(&item(number)) >= times, "{number}");
            assert!(filter.contains(&item(number)) || times == 0);
        }
        let filled: usize = slots(&filter).concat().iter().filter(|&&slot| slot != 0).count();
        assert_eq!(filled as u64, items);
    }
}

#[test]
fn a_filter_that_may_not_grow_is_full_and_keeps_what_it_has() {
    let mut filter = filter(4, 1, 20, 0);
    let added: Vec<CuckooAdded> = (0..50).map(|number| filter.add(&item(number), false)).collect();
    let before = slots(&filter);
    assert!(added.contains(&CuckooAdded::Full) && filter.filters() == 1);
    for (number, added) in added.iter().enumerate() {
        assert!(*added == CuckooAdded::Full || filter.contains(&item(number)));
    }
    assert_eq!(filter.add(&item(99), false), CuckooAdded::Full);
    assert_eq!(slots(&filter), before);
}

#[test]
fn chains_are_pulled_together() {
    let mut filter = filter(8, 1, 20, 2);
    (0..40).for_each(|number| _ = filter.add(&item(number), false));
    let filters = filter.filters();
    let kept = filter.clone();
    (0..38).for_each(|number| assert!(filter.remove(&item(number))));
    filter.pull_together(true);
    assert!(filter.filters() < filters && filter.items() == 2 && filter.deletions() == 0);
    assert!(filter.contains(&item(38)) && filter.contains(&item(39)));
    assert!((0..40).all(|number| kept.contains(&item(number))) && kept.filters() == filters);
}

#[test]
fn dumps_read_back_and_what_does_not_fit_is_refused() {
    let mut filter = filter(1 << 16, 2, 20, 2);
    (0..100_000).for_each(|number| _ = filter.add(&item(number), false));
    assert!(filter.filters() > 1);
    let header = filter.dump_header();
    let mut copy = CuckooFilter::from_header(&header).flatten().expect("it is a header");
    let mut place = 1;
    while let Some((next, piece)) = filter.dump_piece(place) {
        for (index, part) in piece.chunks(1000).enumerate() {
            copy.load_piece(place + (index * 1000 + part.len()) as i64, part).expect("it fits");
        }
        place = next;
    }
    assert!(slots(&copy) == slots(&filter) && copy.dump_header() == header);
    assert!(CuckooFilter::from_header(&header[1..]).is_none());
    // Buckets, filters, slots of a bucket, steps, growth.
    for (at, value) in [(8, 3), (15, 0x80), (24, 0), (31, 1), (33, 1), (32, 0), (36, 0)] {
        let mut header = header.clone();
        header[at] = value;
        assert!(CuckooFilter::from_header(&header).flatten().is_none(), "byte {at}");
    }
    let size = slots(&copy)[0].len() as i64;
    for (after, len) in [(1, 1), (3, 3), (size + 2, 3), (i64::MAX, 3), (i64::MIN, 3), (0, 0), (5, 0)] {
        assert!(copy.load_piece(after, &vec![1; len]).is_none(), "{len} bytes before {after}");
    }
    assert!(copy.load_piece(size + 1, &[1]).is_some() && copy.load_piece(2, &[1]).is_some());
}

#[test]
fn shapes_have_bounds() {
    assert_eq!(CuckooShape::new(1 << 40, 2, 20, 1), None);
    assert_eq!(CuckooShape::new(u64::MAX, 1, 20, 1), None);
    assert_eq!(CuckooShape::new(8, 0, 20, 1), None);
    assert_eq!(CuckooShape::new(8, 256, 20, 1), None);
    assert_eq!(CuckooShape::new(8, 2, 0, 1), None);
    let shape = CuckooShape::new(10, 2, 20, 3).expect("it is one");
    assert_eq!((shape.buckets, shape.growth), (8, 4));
    assert!(filter(1 << 36, 1, 1, 1).memory_usage() < 64 << 20);
}
