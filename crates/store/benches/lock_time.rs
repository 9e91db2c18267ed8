//! How long single operations take, at worst: what a shard's lock is held for.
//!
//!     cargo bench -p mantissa-store --bench lock_time [-- [TYPE] [ELEMENTS [ROUNDS]]]
//!
//! Each operation is timed by the processor time of its thread, page faults included, so that other programs
//! on the machine do not count, or little: a switch to another thread and back, interrupts, and what a
//! hypervisor takes count as time of the thread that they hit. Prints percentiles and a histogram in powers
//! of two for each work: a keyspace of ELEMENTS keys (10 million if not given) in one shard grows and
//! shrinks, and so does one collection of each type; what a command frees under the lock is the handle, the
//! rest goes to another thread. A second thread has memory ready, as the server's background thread does.
//!
//! The machine takes its part: an interrupt or a hypervisor that gives the processor to somebody else makes
//! any operation take milliseconds. So everything is done ROUNDS times, which is the same work to the byte,
//! and of each operation the least time counts: what an operation costs by itself it costs in every round.
//! What may come in one round only is told one by one: operations of [`SLOW_NS`] or more in which pages
//! were touched first, or for which the thread gave up the processor, as for a lock. What neither of these
//! explains, the machine did; it is counted.

use std::hint::black_box;
use std::time::{Duration, Instant};

use mantissa_store::{EncodingLimits, Entry, Hash, Keyspace, List, Set, ShardSet, SortedSet, slab};

/// Operations that take so long are told of one by one.
const SLOW_NS: u64 = 500_000;

/// The operations of a work.
struct Work {
    name: String,
    /// The least time of each operation so far, in ns.
    least_ns: Vec<u32>,
    /// The next operation of this round.
    next: usize,
    explained: Vec<Slow>,
    unexplained: usize,
}

/// An operation that took long in one round, and what happened meanwhile.
struct Slow {
    number: usize,
    spent_ns: u64,
    elapsed_ns: u64,
    happened: Happened,
}

/// What has happened to this thread.
#[derive(Clone, Copy)]
struct Happened {
    /// Switches to another thread because this one waited.
    waits: i64,
    /// Pages touched first.
    faults: i64,
}

impl Happened {
    fn now() -> Happened {
        // SAFETY: all bytes zero are a value of the structure, which the call fills in.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
            usage
        };
        Happened { waits: usage.ru_nvcsw, faults: usage.ru_minflt }
    }

    fn since(before: Happened) -> Happened {
        let now = Happened::now();
        Happened { waits: now.waits - before.waits, faults: now.faults - before.faults }
    }
}

/// Processor time of this thread, in ns.
fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills in the structure.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl Work {
    fn new(name: String) -> Self {
        Work { name, least_ns: Vec::new(), next: 0, explained: Vec::new(), unexplained: 0 }
    }

    fn time<R>(&mut self, work: impl FnOnce() -> R) -> R {
        let (before, clock) = (Happened::now(), Instant::now());
        let began = now_ns();
        let result = work();
        let mut spent_ns = now_ns() - began;
        if spent_ns >= SLOW_NS || clock.elapsed().as_nanos() as u64 >= SLOW_NS {
            let (elapsed_ns, happened) = (clock.elapsed().as_nanos() as u64, Happened::since(before));
            if happened.faults > 0 || happened.waits > 0 {
                self.explained.push(Slow { number: self.next, spent_ns, elapsed_ns, happened });
            } else {
                self.unexplained += usize::from(spent_ns >= SLOW_NS);
            }
            if happened.waits > 0 {
                spent_ns = elapsed_ns;
            }
        }
        let spent_ns = u32::try_from(spent_ns).unwrap_or(u32::MAX);
        match self.least_ns.get_mut(self.next) {
            Some(least) => *least = spent_ns.min(*least),
            None => self.least_ns.push(spent_ns),
        }
        self.next += 1;
        result
    }

    fn print(&self) {
        let longest = self.least_ns.iter().enumerate().max_by_key(|(_, least)| **least);
        let (number, longest_ns) = longest.map_or((0, 0), |(number, least)| (number, *least));
        println!(
            "{}: {} operations, longest {:.1} us (number {number})",
            self.name,
            self.least_ns.len(),
            f64::from(longest_ns) / 1e3
        );
        let mut buckets = [0_usize; 32];
        self.least_ns.iter().for_each(|least| buckets[(*least).max(1).ilog2() as usize] += 1);
        let mut passed = 0;
        for (power, &count) in buckets.iter().enumerate().filter(|(_, count)| **count > 0) {
            passed += count;
            let below_us = (1_u64 << (power + 1)) as f64 / 1e3;
            let percent = passed as f64 * 100.0 / self.least_ns.len() as f64;
            println!("    < {below_us:>9.1} us  {percent:>9.5} %  {count}");
        }
        for Slow { number, spent_ns, elapsed_ns, happened } in &self.explained {
            println!(
                "    number {number} once took {:.1} us ({:.1} us on the wall): {} waits, {} page faults",
                *spent_ns as f64 / 1e3,
                *elapsed_ns as f64 / 1e3,
                happened.waits,
                happened.faults
            );
        }
        let slow_us = SLOW_NS / 1000;
        println!("    took {slow_us} us once without a wait or a page fault: {}", self.unexplained);
    }
}

/// All that is done in a round, in order.
struct Works {
    works: Vec<Work>,
    next: usize,
    /// The type that alone is wanted, if not all are.
    only: Option<String>,
}

impl Works {
    fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only == name)
    }

    /// The next work, which has the same name in each round.
    fn next(&mut self, name: &str) -> &mut Work {
        if self.works.len() == self.next {
            self.works.push(Work::new(name.to_owned()));
        }
        let work = &mut self.works[self.next];
        (self.next, work.next) = (self.next + 1, 0);
        work
    }
}

fn mixed(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB)
}

fn keyspace(works: &mut Works, elements: u64) {
    let keyspace = Keyspace::new(1, 2);
    let insert = works.next("keys, inserting");
    for number in 0..elements {
        let key = format!("key:{number:012}");
        let hash = keyspace.hash(key.as_bytes());
        let index = keyspace.shard_of(hash);
        let entry = Entry::string(key.as_bytes(), &[b'v'; 40], None, 0);
        insert.time(|| {
            let mut locked = keyspace.lock(ShardSet::one(index));
            locked.shard_mut(index).expect("locked").databases[0].insert(hash, entry);
        });
    }
    let remove = works.next("keys, removing");
    for number in 0..elements {
        let key = format!("key:{number:012}");
        let hash = keyspace.hash(key.as_bytes());
        let index = keyspace.shard_of(hash);
        drop(remove.time(|| {
            let mut locked = keyspace.lock(ShardSet::one(index));
            locked.shard_mut(index).expect("locked").databases[0].remove(hash, key.as_bytes())
        }));
    }
}

fn collection<C, R>(
    works: &mut Works,
    name: &str,
    elements: u64,
    mut whole: C,
    mut add: impl FnMut(&mut C, u64),
    mut take: impl FnMut(&mut C, u64) -> R,
) {
    if !works.wants(name) {
        return;
    }
    let adding = works.next(&format!("{name}, adding"));
    for number in 0..elements {
        adding.time(|| add(&mut whole, number));
    }
    let taking = works.next(&format!("{name}, removing"));
    for number in 0..elements {
        // What is to be freed later is freed when the time is taken.
        drop(taking.time(|| take(&mut whole, number)));
    }
    black_box(whole);
}

fn round(works: &mut Works, elements: u64) {
    works.next = 0;
    let limits = EncodingLimits::default();
    let member = |number: u64| format!("member:{number:012}");
    if works.wants("keys") {
        keyspace(works, elements);
    }
    collection(
        works,
        "set",
        elements,
        Set::default(),
        |set, number| _ = black_box(set.add(member(number).as_bytes(), &limits)),
        |set, number| _ = black_box(set.remove(member(number).as_bytes())),
    );
    collection(
        works,
        "hash",
        elements,
        Hash::default(),
        |hash, number| _ = black_box(hash.set(member(number).as_bytes(), b"a value of 16 b.", &limits)),
        |hash, number| _ = black_box(hash.remove(member(number).as_bytes())),
    );
    collection(
        works,
        "sorted set",
        elements,
        SortedSet::default(),
        |set, number| {
            black_box(set.insert(member(number).as_bytes(), mixed(number) as f64 / 1e6, &limits));
        },
        |set, number| {
            black_box(set.remove(member(number).as_bytes()));
            set.take_rest()
        },
    );
    collection(
        works,
        "list",
        elements,
        List::default(),
        |list, number| list.push_back(member(number).as_bytes(), &limits),
        |list, _| list.remove(0, 1),
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let only = arguments.first().filter(|word| word.parse::<u64>().is_err()).cloned();
    let mut numbers = arguments.iter().filter_map(|word| word.parse().ok());
    let elements = numbers.next().unwrap_or(10_000_000_u64);
    let rounds = numbers.next().unwrap_or(3);
    std::thread::spawn(|| {
        loop {
            slab::prepare();
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    let mut works = Works { works: Vec::new(), next: 0, only };
    for number in 1..=rounds {
        round(&mut works, elements);
        eprintln!("round {number} of {rounds} is done");
    }
    works.works.iter().for_each(Work::print);
}
