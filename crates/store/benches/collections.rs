//! What one operation on a collection costs, at each size, called directly.
//!
//!     cargo bench -p mantissa-store --bench collections [-- NAME] [SIZE ...]
//!
//! Members come in random order. A collection smaller than [`OPERATIONS_MIN`] is built and emptied many times
//! over. Prints ns for an operation, by the processor time of the thread. NAME chooses by a part of the name
//! of the collection; sizes are 1,000, 100,000 and 5,000,000 if not given.

use std::hint::black_box;

use mantissa_store::allocator::CountingAllocator;
use mantissa_store::{EncodingLimits, Hash, List, ListEnd, Set, SortedSet};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Operations that each figure is the mean of, at least.
const OPERATIONS_MIN: usize = 1_000_000;
/// Bytes of a member's text, at most.
const TEXT_BYTES: usize = 24;

/// Processor time of this thread, in ns.
fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills in the structure.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn mixed(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB)
}

/// Texts one after the other, in the order in which they are used.
struct Texts {
    bytes: Vec<[u8; TEXT_BYTES]>,
    len: Vec<u8>,
}

impl Texts {
    fn new(count: usize, text: impl Fn(u64) -> String) -> Texts {
        let mut texts = Texts { bytes: Vec::with_capacity(count), len: Vec::with_capacity(count) };
        let mut order: Vec<u32> = (0..count as u32).collect();
        for at in (1..count).rev() {
            order.swap(at, mixed(at as u64) as usize % (at + 1));
        }
        for number in order {
            let text = text(u64::from(number));
            let mut bytes = [0; TEXT_BYTES];
            bytes[..text.len()].copy_from_slice(text.as_bytes());
            texts.bytes.push(bytes);
            texts.len.push(text.len() as u8);
        }
        texts
    }

    fn get(&self, at: usize) -> &[u8] {
        &self.bytes[at][..usize::from(self.len[at])]
    }
}

/// Sums of times by name, in the order in which names came.
#[derive(Default)]
struct Times(Vec<(&'static str, u64, u64)>);

impl Times {
    /// Times `count` calls.
    fn each(&mut self, name: &'static str, count: usize, mut operation: impl FnMut(usize)) {
        let began = now_ns();
        (0..count).for_each(&mut operation);
        let spent = now_ns() - began;
        match self.0.iter_mut().find(|(other, ..)| *other == name) {
            Some((_, sum, calls)) => {
                *sum += spent;
                *calls += count as u64;
            }
            None => self.0.push((name, spent, count as u64)),
        }
    }

    fn print(&self, collection: &str, size: usize, bytes: usize) {
        println!("{collection}, {size} ({:.1} bytes each)", bytes as f64 / size as f64);
        for (name, spent, calls) in &self.0 {
            println!("    {name:<12} {:>8.1} ns", *spent as f64 / *calls as f64);
        }
    }
}

fn rounds(size: usize) -> usize {
    OPERATIONS_MIN.div_ceil(size)
}

fn set(name: &str, size: usize, text: impl Fn(u64) -> String) {
    let (limits, texts) = (EncodingLimits::default(), Texts::new(2 * size, text));
    let (mut times, mut bytes) = (Times::default(), 0);
    for _ in 0..rounds(size) {
        let mut set = Set::new();
        times.each("SADD", size, |at| _ = black_box(set.add(texts.get(at), &limits)));
        bytes = set.memory_usage();
        times.each("SISMEMBER", size, |at| _ = black_box(set.contains(texts.get(at))));
        times.each("  missing", size, |at| _ = black_box(set.contains(texts.get(size + at))));
        times.each("SADD again", size, |at| _ = black_box(set.add(texts.get(at), &limits)));
        times.each("replacing", size, |at| {
            set.remove(texts.get(at));
            black_box(set.add(texts.get(size + at), &limits));
        });
        times.each("SREM", size, |at| _ = black_box(set.remove(texts.get(size + at))));
    }
    times.print(name, size, bytes);
}

fn hash(size: usize) {
    let texts = Texts::new(2 * size, |number| format!("field:{number:010}"));
    let (limits, mut times, mut bytes) = (EncodingLimits::default(), Times::default(), 0);
    for _ in 0..rounds(size) {
        let mut hash = Hash::new();
        times.each("HSET", size, |at| _ = black_box(hash.set(texts.get(at), b"a value of 16 b.", &limits)));
        bytes = hash.memory_usage();
        times.each("HGET", size, |at| _ = black_box(hash.get(texts.get(at))));
        times.each("HSET again", size, |at| {
            black_box(hash.set(texts.get(at), b"b value of 16 b.", &limits));
        });
        times.each("HSET longer", size, |at| {
            black_box(hash.set(texts.get(at), b"a value of 18 bytes", &limits));
        });
        times.each("replacing", size, |at| {
            hash.remove(texts.get(at));
            black_box(hash.set(texts.get(size + at), b"a value of 16 b.", &limits));
        });
        times.each("HDEL", size, |at| _ = black_box(hash.remove(texts.get(size + at))));
    }
    times.print("hash", size, bytes);
}

fn sorted_set(size: usize) {
    let texts = Texts::new(2 * size, |number| format!("member:{number:012}"));
    let score = |at: usize| mixed(at as u64) as f64 / 1e13;
    let (limits, mut times, mut bytes) = (EncodingLimits::default(), Times::default(), 0);
    for _ in 0..rounds(size) {
        let mut set = SortedSet::new();
        times.each("ZADD", size, |at| _ = black_box(set.insert(texts.get(at), score(at), &limits)));
        bytes = set.memory_usage();
        times.each("ZSCORE", size, |at| _ = black_box(set.score(texts.get(at))));
        times.each("  missing", size, |at| _ = black_box(set.score(texts.get(size + at))));
        times.each("ZRANK", size, |at| _ = black_box(set.rank(texts.get(at))));
        times.each("ZINCRBY", size, |at| {
            black_box(set.update(texts.get(at), &limits, |old| old.map(|old| old + 1.0)));
        });
        times.each("ZADD update", size, |at| {
            black_box(set.insert(texts.get(at), score(size + at), &limits));
        });
        times.each("ZRANGE one", size, |at| {
            black_box(set.get(mixed(at as u64) as usize % size));
        });
        times.each("replacing", size, |at| {
            set.remove(texts.get(at));
            black_box(set.insert(texts.get(size + at), score(at), &limits));
        });
        times.each("ZREM", size, |at| _ = black_box(set.remove(texts.get(size + at))));
    }
    times.print("sorted set", size, bytes);
}

fn list(size: usize) {
    let texts = Texts::new(size, |number| format!("element:{number:08}"));
    let (limits, mut times, mut bytes) = (EncodingLimits::default(), Times::default(), 0);
    for _ in 0..rounds(size) {
        let mut list = List::new();
        times.each("RPUSH", size, |at| list.push_back(texts.get(at), &limits));
        bytes = list.memory_usage();
        let index = |at: usize| mixed(at as u64) as usize % size;
        times.each("LINDEX", size, |at| _ = black_box(list.get(index(at))));
        times.each("LSET", size, |at| list.set(index(at), texts.get(at), &limits));
        times.each("LPOP RPUSH", size, |at| {
            black_box(list.get(0).map(|element| element.to_vec()));
            list.remove(0, 1);
            list.shrink(&limits);
            list.extend(ListEnd::Tail, std::iter::once(texts.get(at)), &limits);
        });
        times.each("RPOP", size, |_| {
            black_box(list.get(list.len() - 1).map(|element| element.to_vec()));
            list.remove(list.len() - 1, list.len());
            list.shrink(&limits);
        });
        times.each("LPUSH", size, |at| list.push_front(texts.get(at), &limits));
        times.each("LPOP", size, |_| {
            black_box(list.get(0).map(|element| element.to_vec()));
            list.remove(0, 1);
            list.shrink(&limits);
        });
    }
    times.print("list", size, bytes);
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|text| !text.starts_with('-')).collect();
    let mut sizes: Vec<usize> = arguments.iter().filter_map(|text| text.parse().ok()).collect();
    if sizes.is_empty() {
        sizes = vec![1_000, 100_000, 5_000_000];
    }
    let names: Vec<&String> = arguments.iter().filter(|text| text.parse::<usize>().is_err()).collect();
    let wants = |name: &str| names.is_empty() || names.iter().any(|part| name.contains(part.as_str()));
    for size in sizes {
        if wants("set of integers") {
            set("set of integers", size, |number| (number * 97 + 1_000_000_000_000).to_string());
        }
        if wants("set of texts") {
            set("set of texts", size, |number| format!("member:{number:012}"));
        }
        if wants("hash") {
            hash(size);
        }
        if wants("sorted") {
            sorted_set(size);
        }
        if wants("list") {
            list(size);
        }
    }
}
