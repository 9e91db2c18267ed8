//! Sorted sets, lists and streams give back every byte, whatever has been done with them and their clones.
//!
//! One test alone in its process, as it reads the sum of all that the process has allocated.

use mantissa_store::allocator::{CountingAllocator, allocated_bytes};
use mantissa_store::stream::{NodeLimits, References, StreamId, Trim, TrimTo};
use mantissa_store::{EncodingLimits, List, ListEnd, SortedSet, Sought, Stream};

#[allow(dead_code, reason = "each test uses a part of it")]
#[path = "../../memory/src/test_random.rs"]
mod test_random;

use test_random::random_numbers;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn text(number: u64) -> Vec<u8> {
    match number % 5 {
        0 => (number >> 50).to_string().into_bytes(),
        1 => vec![b'x'; 200 + (number >> 56) as usize],
        _ => format!("text:{}", number >> 51).into_bytes(),
    }
}

fn churn(seed: u64, limits: &EncodingLimits) {
    let mut random = random_numbers(seed);
    let (mut set, mut list, mut stream) = (SortedSet::new(), List::new(), Stream::new());
    let mut clones = Vec::new();
    for ms in 1..8_000 {
        let member = text(random());
        let at = random() as usize % (list.len() + 1);
        match random() % 16 {
            0..4 => _ = set.insert(&member, (random() % 1000) as f64 / 8.0, limits),
            4 => _ = set.remove(&member),
            5 if random().is_multiple_of(50) => set.remove_ranks(at..at + 300),
            6..9 => list.push_back(&member, limits),
            9 => list.push_front(&member, limits),
            10 if at < list.len() => list.insert(at, true, &member, limits),
            11 => list.remove(at, at + 2),
            12 => _ = list.remove_equal(ListEnd::Tail, 2, Sought::new(&member)),
            13 => {
                let id = StreamId { ms, seq: 0 };
                assert!(stream.append(id, &[(b"name", &member)], NodeLimits::default()));
            }
            14 if random().is_multiple_of(40) => {
                let to = TrimTo::Length(random() % 300);
                let trim = Trim { to, whole_nodes: false, limit: 0, references: References::Keep };
                drop(stream.trim(&trim));
            }
            14 => _ = stream.delete(StreamId { ms: random() % ms, seq: 0 }),
            _ if random().is_multiple_of(32) => clones.push((set.clone(), list.clone(), stream.clone())),
            _ => {}
        }
        if clones.len() > 4 {
            clones.swap_remove(random() as usize % 5);
        }
    }
    set.compact(0);
    list.compact(0);
    std::thread::spawn(move || drop(clones)).join().expect("dropping does not panic");
}

#[test]
fn what_was_taken_is_given_back() {
    let small = EncodingLimits { list_node_size: 20, ..EncodingLimits::default() };
    for limits in [small, EncodingLimits::default()] {
        // What threads and tables take once.
        churn(1, &limits);
        let before = allocated_bytes();
        (2..6).for_each(|seed| churn(seed, &limits));
        assert_eq!(allocated_bytes(), before);
    }
}
