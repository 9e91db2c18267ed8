//! Places of bits, growth, and dumps.

use super::*;
use crate::types::Sample;

impl Sample for BloomFilter {
    fn add_sample(&mut self, text: &[u8], _: &crate::EncodingLimits) {
        if self.body.layers.is_empty() {
            *self = BloomFilter::new(10, 0.01, 2, false).expect("it is one");
        }
        self.add(text);
    }

    fn remove_sample(&mut self, _: &[u8]) {
        _ = self.load_piece(3, &[0, 0]);
    }
}

fn item(number: usize) -> Vec<u8> {
    format!("item {number}").into_bytes()
}

/// The bytes of all filters.
fn bits(filter: &BloomFilter) -> Vec<Vec<u8>> {
    let bytes = |part: BloomPart<'_>| {
        let mut out = Vec::new();
        part.append_bytes(0, part.byte_len(), &mut out);
        out
    };
    filter.parts().map(bytes).collect()
}

#[test]
fn shapes_are_those_of_the_module() {
    // As BF.DEBUG of RedisBloom 2.8.2 tells them.
    for (entries, error, bytes, hashes) in [
        (100, 0.005, 144, 8),
        (200, 0.0025, 312, 9),
        (9, 0.05, 8, 5),
        (1, 0.495, 8, 2),
        (1, 0.99, 8, 1),
        (100, 5e-301, 17_992, 998),
    ] {
        let shape = BloomShape::new(entries, error).expect("it is one");
        assert_eq!((shape.bytes(), shape.hashes), (bytes, hashes), "{entries} at {error}");
        assert!(shape.is_sound());
    }
    for (entries, error) in [(0, 0.1), (1, 0.0), (1, 1.0), (1, f64::NAN), (1 << 50, 0.1), (u64::MAX, 0.1)] {
        assert_eq!(BloomShape::new(entries, error), None);
    }
}

#[test]
fn bits_lie_where_divisions_put_them() {
    for (power, bits) in [(0, 1152), (0, 1 << 12), (0, (1 << 20) + 64), (10, 1024), (12, 8192)] {
        let shape = BloomShape { bits, power, ..BloomShape::new(100, 0.005).expect("it is one") };
        let mut layer = Layer::new(shape);
        let mut expected = vec![0u8; shape.bytes()];
        for number in 0..200 {
            let hashed = Hashed::new(&item(number), number % 2 == 0);
            let mut is_new = false;
            for index in 0..u64::from(shape.hashes) {
                let sum = hashed.first.wrapping_add(index.wrapping_mul(hashed.second));
                let place = (sum % if power == 0 { bits } else { 1 << power }) as usize;
                is_new |= expected[place / 8] & 1 << (place % 8) == 0;
                expected[place / 8] |= 1 << (place % 8);
            }
            assert_eq!(layer.contains(hashed), !is_new);
            assert_eq!(layer.add(hashed), is_new);
            assert!(layer.contains(hashed));
        }
        let mut found = Vec::new();
        layer.bytes.append_to(0, expected.len(), &mut found);
        assert!(found == expected, "{bits} bits, power {power}");
    }
}

#[test]
fn what_was_added_is_found_and_rates_hold() {
    let mut filter = BloomFilter::new(100, 0.01, 2, false).expect("it is one");
    let mut wrong = 0;
    for number in 0..20_000 {
        let added = filter.add(&item(number));
        wrong += usize::from(added == BloomAdded::Present);
        assert!(filter.contains(&item(number)) && added != BloomAdded::Full);
    }
    let sizes: Vec<u64> = filter.parts().map(|part| part.shape().entries).collect();
    assert_eq!(sizes, [100, 200, 400, 800, 1600, 3200, 6400, 12_800]);
    assert_eq!(filter.items() as usize + wrong, 20_000);
    let wrong = (20_000..40_000).filter(|&number| filter.contains(&item(number))).count();
    assert!(wrong < 400, "{wrong} wrong positives of 20,000");
}

#[test]
fn adding_together_is_adding_one_by_one() {
    // Filters of one page and of several; with more bits of an item than are fetched together.
    for (entries, error) in [(100, 0.01), (60_000, 0.001), (3_000, 1e-60)] {
        let empty = BloomFilter::new(entries, error, 2, false).expect("it is one");
        let (mut alone, mut together) = (empty.clone(), empty.clone());
        let mut wrong = 0;
        for start in (0..3 * entries as usize).step_by(997) {
            // Some come again.
            let items: Vec<Vec<u8>> = (start..start + 1500).map(item).collect();
            let items = || items.iter().map(Vec::as_slice);
            let expected: Vec<BloomAdded> = items().map(|item| alone.add(item)).collect();
            let (mut added, mut found) = (Vec::new(), Vec::new());
            together.add_all(items(), |outcome| {
                added.push(outcome);
                ControlFlow::Continue(())
            });
            assert_eq!(added, expected);
            together.look_up_all(items(), |is_there| found.push(is_there));
            assert_eq!(found, vec![true; 1500]);
            together.look_up_all(std::iter::once(&item(start + 10_000_000)[..]), |is| wrong += u32::from(is));
        }
        assert!(bits(&together) == bits(&alone) && together.dump_header() == alone.dump_header());
        assert!(together.parts().len() > 1 && wrong < 10 && !empty.contains(&item(0)));
        assert_eq!(empty.items(), 0);
    }
}

#[test]
fn a_fixed_filter_fills_and_a_clone_keeps_its_own() {
    let mut filter = BloomFilter::new(3, 0.01, 2, true).expect("it is one");
    let empty = filter.clone();
    assert_eq!([0, 1, 1, 2, 3].map(|number| filter.add(&item(number))), {
        use BloomAdded::{Full, New, Present};
        [New, New, Present, New, Full]
    });
    assert!(!empty.contains(&item(0)) && empty.items() == 0);
    assert!(bits(&empty).concat().iter().all(|&byte| byte == 0));
    let mut other = BloomFilter::new(1, 0.3, 0, false).expect("it is one");
    assert_eq!([0, 1].map(|number| other.add(&item(number))), [BloomAdded::New, BloomAdded::TooLarge]);
}

#[test]
fn dumps_read_back_in_any_pieces() {
    let mut filter = BloomFilter::new(500, 0.001, 3, false).expect("it is one");
    (0..20_000).for_each(|number| _ = filter.add(&item(number)));
    let mut copy = BloomFilter::from_header(&filter.dump_header()).expect("it is a header");
    let (mut place, mut pieces) = (1, Vec::new());
    loop {
        let (next, piece) = filter.dump_piece(place);
        if next == 0 {
            break;
        }
        for (index, part) in piece.chunks(1000).enumerate() {
            copy.load_piece(place + (index * 1000 + part.len()) as i64, part).expect("it fits");
        }
        pieces.push(piece);
        place = next;
    }
    assert!(bits(&copy) == bits(&filter) && pieces == bits(&filter));
    assert_eq!(copy.dump_header(), filter.dump_header());
    assert_eq!(filter.dump_piece(place), (0, Vec::new()));
    assert_eq!(filter.dump_piece(-1), (0, Vec::new()));
}

#[test]
fn a_union_holds_what_both_hold() {
    for entries in [100, 100_000] {
        let made = BloomFilter::new(entries, 0.01, 2, false).expect("it is one");
        let (mut left, mut right) = (made.clone(), made);
        (0..50).for_each(|number| _ = left.add(&item(number)));
        (40..90).for_each(|number| _ = right.add(&item(number)));
        let before = bits(&right);
        assert!(left.unite(&right));
        assert!((0..90).all(|number| left.contains(&item(number))));
        assert!(left.items() >= 90 && left.is_sound() && bits(&right) == before);
        left.add(b"more");
        assert_eq!(bits(&right), before);
        let mut other = BloomFilter::new(entries + 1, 0.01, 2, false).expect("it is one");
        assert!(!other.unite(&right) && other.items() == 0);
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let filter = BloomFilter::new(100, 0.01, 2, false).expect("it is one");
    let header = filter.dump_header();
    assert!(BloomFilter::from_header(&header).is_ok());
    let refused = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut header = header.clone();
        change(&mut header);
        BloomFilter::from_header(&header).is_err()
    };
    // Items, options, bytes, bits, error, bits per entry, hashes, power.
    for at in [0, 13, 20, 28, 36, 51, 59, 63, 72] {
        assert!(refused(&|header| header[at] ^= 0x40), "byte {at}");
    }
    assert!(refused(&|header| header[8] = 0) && refused(&|header| header[8] = 2));
    assert!(refused(&|header| header.truncate(72)) && refused(&|header| header.push(0)));
    assert!(refused(&|header| header.truncate(20)) && refused(&Vec::clear));
    let mut filter = filter;
    assert!(filter.load_piece(144, &[1; 144]).is_err() && filter.load_piece(146, &[1; 145]).is_err());
    assert!(filter.load_piece(146, &[1; 144]).is_err() && filter.load_piece(145, &[1; 144]).is_ok());
    assert!(filter.load_piece(i64::MAX, &[1]).is_err() && filter.load_piece(i64::MIN, &[1]).is_err());
}

#[test]
fn a_large_filter_costs_little_until_it_is_used() {
    let mut filter = BloomFilter::new(700_000_000, 0.01, 2, false).expect("it is one");
    assert!(filter.memory_usage() < 2 << 20, "{}", filter.memory_usage());
    assert_eq!(filter.add(b"an item"), BloomAdded::New);
    let before = filter.clone();
    assert_eq!(filter.add(b"another"), BloomAdded::New);
    assert!(before.contains(b"an item") && !before.contains(b"another"));
}
