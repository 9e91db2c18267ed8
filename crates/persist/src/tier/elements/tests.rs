//! Tests of elements that are read alone, against the collections that they are of.

use mantissa_store::cold::Cold;
use mantissa_store::stream::NodeLimits;
use mantissa_store::{Collection, Entry};

use super::super::tests::file_in;
use super::super::{RecordEncoder, TierFile};
use super::*;
use crate::storage::MemoryStorage;

const SEED: u64 = 0x5EED_0003;
/// Elements of the collections, of which a record has more than 8 MiB.
const LEN: usize = 36_000;

/// Numbers that depend on the seed alone.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % bound
    }
}

/// Names of which some are integers.
fn name(number: usize) -> Vec<u8> {
    match number % 5 {
        0 => number.to_string().into_bytes(),
        1 => format!("-{number}").into_bytes(),
        _ => format!("name:{number}").into_bytes(),
    }
}

/// A text of 240 to 319 bytes, and sometimes a long one.
fn text(number: usize) -> Vec<u8> {
    let len = if number.is_multiple_of(5_003) { 20_000 } else { 240 + number % 80 };
    format!("{number}:").bytes().chain((0..len).map(|at| b'a' + (at % 26) as u8)).collect()
}

fn on_disk(file: &TierFile, value: Value) -> Cold {
    let entry = Entry::new(b"key", value, None, 0);
    let bytes = entry.memory_usage();
    let cold = file.append_large(&mut RecordEncoder::default(), (&entry, bytes), &|| false);
    let cold = cold.expect("there is room");
    assert!(cold.place().len() > 8 << 20, "a record with slots of its own");
    cold
}

/// The elements, and how many there are beside those that were asked for.
fn selected<T: Collection + Clone>(cold: &Cold, elements: &Elements) -> (T, usize, u64) {
    if cold.bytes_of_elements(elements).is_none() {
        // As much as the whole has been read in parts.
        cold.read().expect("it can be read");
    }
    let bytes = cold.bytes_of_elements(elements).expect("they are found");
    assert!(bytes <= cold.place().len() / 2);
    let part = cold.read_elements(elements).expect("they are read").expect("they are found");
    assert!(part.cold().is_same(cold));
    let (asked, selected) = part.elements().expect("elements");
    assert_eq!(asked, elements);
    let collection = T::of(selected.value.borrow()).expect("of the type").clone();
    (collection, selected.first, selected.len)
}

fn named(numbers: &[usize]) -> Elements {
    Elements::Named(numbers.iter().map(|&number| name(number).into_boxed_slice()).collect())
}

#[test]
fn fields_and_members_are_found_by_their_names() {
    let limits = EncodingLimits::default();
    for has_expiries in [false, true] {
        let (mut hash, mut set) = (Hash::new(), Set::new());
        for number in 0..LEN {
            hash.set(&name(number), &text(number), &limits);
            set.add(&[name(number), text(7)].concat(), &limits);
            set.add(&name(number), &limits);
        }
        if has_expiries {
            for number in (0..LEN).step_by(3) {
                hash.set_expiry(&name(number), Some(10_000_000 + number as i64));
            }
        }
        let file = file_in(&MemoryStorage::new(), 16);
        let (hash_cold, set_cold) =
            (on_disk(&file, Value::Hash(hash.clone())), on_disk(&file, Value::Set(set.clone())));
        let mut numbers = Numbers(SEED);
        for round in 0..60 {
            // Beyond the length there are none.
            let asked: Vec<usize> = (0..1 + round % 7).map(|_| numbers.below(LEN * 5 / 4)).collect();
            let elements = named(&asked);
            let (fields, _, len) = selected::<Hash>(&hash_cold, &elements);
            let (members, _, _) = selected::<Set>(&set_cold, &elements);
            assert_eq!(len, LEN as u64);
            for number in asked {
                assert_eq!(fields.get(&name(number)), hash.get(&name(number)), "{number}");
                assert_eq!(members.contains(&name(number)), number < LEN, "{number}");
            }
        }
        let count = hash_cold.bytes_of_elements(&Elements::Count);
        assert_eq!(count, (!has_expiries).then_some(0), "fields may have expired");
        assert_eq!(selected::<Set>(&set_cold, &Elements::Count).2, set.len() as u64);
        // So many are read faster with all others.
        let many: Vec<usize> = (0..2_000).map(|_| numbers.below(LEN)).collect();
        assert_eq!(hash_cold.bytes_of_elements(&named(&many)), None);
        assert!(selected::<Hash>(&hash_cold, &Elements::Places(0, 1)).0.is_empty(), "it is no list");
    }
}

#[test]
fn elements_are_found_by_their_places() {
    let limits = EncodingLimits::default();
    let (mut list, mut set) = (List::new(), SortedSet::new());
    for number in 0..LEN {
        list.push_back(&text(number), &limits);
        let score = match number {
            0 => f64::NEG_INFINITY,
            1..100 => -0.0,
            100..200 => 0.0,
            _ => (number / 10) as f64,
        };
        set.insert(&text(number), score, &limits);
    }
    let file = file_in(&MemoryStorage::new(), 16);
    let (list_cold, set_cold) =
        (on_disk(&file, Value::List(list.clone())), on_disk(&file, Value::SortedSet(set.clone())));
    let mut numbers = Numbers(SEED);
    for round in 0..60 {
        let from = numbers.below(LEN) as i64;
        let to = from + numbers.below(40) as i64 - 2;
        let len = LEN as i64;
        // The same places, counted from the end.
        let (from, to) = if round % 2 == 0 { (from, to) } else { (from - len, (to - len).min(-1)) };
        let places = (from.rem_euclid(len) as usize, (to.rem_euclid(len) as usize + 1).min(LEN));
        let (elements, first, whole) = selected::<List>(&list_cold, &Elements::Places(from, to));
        let (scored, first_scored, _) = selected::<SortedSet>(&set_cold, &Elements::Places(from, to));
        assert_eq!(whole, LEN as u64);
        for place in places.0..places.1 {
            assert_eq!(elements.get(place - first), list.get(place), "{from} {to}");
            assert_eq!(scored.get(place - first_scored), set.get(place), "{from} {to}");
        }
    }
    assert_eq!(selected::<List>(&list_cold, &Elements::Places(5, 4)).0.len(), 0);
    assert_eq!(selected::<List>(&list_cold, &Elements::Places(LEN as i64, -1)).0.len(), 0);
    assert_eq!(list_cold.bytes_of_elements(&Elements::Places(0, -1)), None);
    for count in [1, 25, 1_000] {
        for _ in 0..12 {
            let low = numbers.below(LEN / 10) as f64 - 1.0;
            let high = if count < 1_000 { f64::INFINITY } else { low + numbers.below(100) as f64 };
            for is_reversed in [false, true] {
                let asked = Elements::Scores(Scores::between(low, high, count, is_reversed));
                let (found, first, _) = selected::<SortedSet>(&set_cold, &asked);
                let within = |set: &SortedSet| -> Vec<(Vec<u8>, u64)> {
                    let all = set.iter().filter(|(_, score)| *score >= low && *score <= high);
                    let mut all: Vec<_> = all.map(|(text, score)| (text.to_vec(), score.to_bits())).collect();
                    if is_reversed {
                        all.reverse();
                    }
                    all.truncate(count);
                    all
                };
                assert_eq!(within(&found), within(&set), "{low} {high} {count}");
                assert_eq!(found.get(0), set.get(first));
            }
        }
    }
}

#[test]
fn entries_are_found_by_their_identifiers() {
    let mut stream = Stream::new();
    let limits = NodeLimits { bytes_max: 4096, entries_max: 100 };
    let id = |number: usize| StreamId { ms: number as u64 / 3 * 10, seq: number as u64 % 3 };
    for number in 1..LEN {
        assert!(stream.append(id(number), &[(b"field", &text(number))], limits));
    }
    (1..LEN).filter(|number| number % 7 == 0).for_each(|number| _ = stream.delete(id(number)));
    let file = file_in(&MemoryStorage::new(), 16);
    let cold = on_disk(&file, Value::Stream(stream.clone()));
    let mut numbers = Numbers(SEED);
    for round in 0..60 {
        let from = id(numbers.below(LEN));
        let (to, count) = match round % 3 {
            0 => (StreamId { ms: from.ms + 200, seq: 0 }, usize::MAX),
            1 => (StreamId::MAX, 1 + numbers.below(50)),
            _ => (StreamId { ms: from.ms.saturating_sub(1), seq: 0 }, 10),
        };
        for is_reversed in [false, true] {
            let asked = Elements::Entries(Interval { from, to, count, is_reversed });
            let (found, _, len) = selected::<Stream>(&cold, &asked);
            assert_eq!(len, stream.len());
            let ids = |stream: &Stream| -> Vec<StreamId> {
                match is_reversed {
                    false => stream.range(from, to).take(count).map(|entry| entry.id).collect(),
                    true => stream.range_reversed(from, to).take(count).map(|entry| entry.id).collect(),
                }
            };
            assert_eq!(ids(&found), ids(&stream));
        }
    }
}

/// A value that is asked for again and again is to be in memory.
#[test]
fn parts_are_read_until_they_are_as_much_as_the_whole() {
    let mut set = Set::new();
    (0..LEN * 2)
        .for_each(|number| _ = set.add(&[name(number), text(3)].concat(), &EncodingLimits::default()));
    let file = file_in(&MemoryStorage::new(), 16);
    let cold = on_disk(&file, Value::Set(set));
    let elements = named(&[1]);
    let bytes = cold.bytes_of_elements(&elements).expect("it is found");
    let reads = (0..).take_while(|_| {
        let may_be_read = cold.bytes_of_elements(&elements).is_some();
        may_be_read && cold.read_elements(&elements).expect("it can be read").is_some()
    });
    assert_eq!(reads.count(), cold.place().len().div_ceil(bytes));
    cold.read().expect("it can be read");
    assert_eq!(cold.bytes_of_elements(&elements), Some(bytes));
}
