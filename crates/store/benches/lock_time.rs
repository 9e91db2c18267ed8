//! How long single operations take, at worst: what a shard's lock is held for.
//!
//!     cargo bench -p mantissa-store --bench lock_time [-- ELEMENTS]
//!
//! Each operation is timed by the processor time of its thread, page faults included, so that other programs
//! on the machine do not count, or little: a switch to another thread and back, interrupts, and what a
//! hypervisor takes count as time of the thread that they hit. Prints percentiles and a histogram in powers
//! of two for each work: a keyspace of ELEMENTS keys (10 million if not given) in one shard grows and
//! shrinks, and so does one collection of each type; what a command frees under the lock is the handle, the
//! rest goes to another thread. A second thread has memory ready, as the server's background thread does.
//!
//! Two things tell what is the machine's doing from what is an operation's. Behind each work comes a control
//! that does nothing but read the clock, for as long as all its operations took together: what it shows
//! between two readings happens without any work. And of each operation that takes [`SLOW_NS`] or more it is
//! told how often the thread was switched from against its will and how many pages it touched first
//! meanwhile.

use std::hint::black_box;
use std::time::{Duration, Instant};

use mantissa_store::{EncodingLimits, Entry, Hash, Keyspace, List, Set, ShardSet, SortedSet, slab};

/// Operations that take so long are told of one by one.
const SLOW_NS: u64 = 500_000;

/// Counts of durations, by the power of two that holds them.
struct Histogram {
    buckets: [u64; 40],
    longest_ns: u64,
    total_ns: u64,
    count: u64,
    slow: Vec<Slow>,
}

/// An operation that took long, and what happened meanwhile.
struct Slow {
    number: u64,
    spent_ns: u64,
    elapsed_ns: u64,
    happened: Happened,
}

/// What has happened to this thread.
#[derive(Clone, Copy)]
struct Happened {
    switches: i64,
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
        Happened { switches: usage.ru_nivcsw, faults: usage.ru_minflt }
    }

    fn since(before: Happened) -> Happened {
        let now = Happened::now();
        Happened { switches: now.switches - before.switches, faults: now.faults - before.faults }
    }
}

/// Processor time of this thread, in ns.
fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills in the structure.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl Histogram {
    fn new() -> Self {
        Histogram { buckets: [0; 40], longest_ns: 0, total_ns: 0, count: 0, slow: Vec::new() }
    }

    fn time<R>(&mut self, work: impl FnOnce() -> R) -> R {
        let (before, clock) = (Happened::now(), Instant::now());
        let began = now_ns();
        let result = work();
        let spent_ns = now_ns() - began;
        if spent_ns >= SLOW_NS {
            let (elapsed_ns, happened) = (clock.elapsed().as_nanos() as u64, Happened::since(before));
            self.slow.push(Slow { number: self.count, spent_ns, elapsed_ns, happened });
        }
        self.note(spent_ns);
        result
    }

    fn note(&mut self, spent_ns: u64) {
        self.buckets[spent_ns.max(1).ilog2() as usize] += 1;
        self.longest_ns = self.longest_ns.max(spent_ns);
        self.total_ns += spent_ns;
        self.count += 1;
    }

    /// What lies between two readings of the clock when nothing is done between them, for so long.
    fn control(total_ns: u64) -> Histogram {
        let mut control = Histogram::new();
        while control.total_ns < total_ns {
            control.time(|| ());
        }
        control
    }

    /// Prints the work's histogram and that of its control.
    fn print_with_control(&self, name: &str) {
        self.print(name);
        Histogram::control(self.total_ns).print("    control, reading the clock");
    }

    fn print(&self, name: &str) {
        println!("{name}: {} operations, longest {:.1} us", self.count, self.longest_ns as f64 / 1e3);
        let mut passed = 0;
        for (power, &count) in self.buckets.iter().enumerate().filter(|(_, count)| **count > 0) {
            passed += count;
            let below_us = (1_u64 << (power + 1)) as f64 / 1e3;
            println!(
                "    < {below_us:>9.1} us  {:>9.5} %  {count}",
                passed as f64 * 100.0 / self.count as f64
            );
        }
        for Slow { number, spent_ns, elapsed_ns, happened } in &self.slow {
            println!(
                "    number {number} took {:.1} us ({:.1} us on the wall): {} involuntary switches, \
                 {} page faults",
                *spent_ns as f64 / 1e3,
                *elapsed_ns as f64 / 1e3,
                happened.switches,
                happened.faults
            );
        }
    }
}

fn mixed(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB)
}

fn keyspace(elements: u64) {
    let keyspace = Keyspace::new(1, 2);
    let (mut insert, mut remove) = (Histogram::new(), Histogram::new());
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
    insert.print_with_control("keys, inserting");
    for number in 0..elements {
        let key = format!("key:{number:012}");
        let hash = keyspace.hash(key.as_bytes());
        let index = keyspace.shard_of(hash);
        drop(remove.time(|| {
            let mut locked = keyspace.lock(ShardSet::one(index));
            locked.shard_mut(index).expect("locked").databases[0].remove(hash, key.as_bytes())
        }));
    }
    remove.print_with_control("keys, removing");
}

fn collection<C, R>(
    name: &str,
    elements: u64,
    mut whole: C,
    mut add: impl FnMut(&mut C, u64),
    mut take: impl FnMut(&mut C, u64) -> R,
) {
    let (mut adding, mut taking) = (Histogram::new(), Histogram::new());
    for number in 0..elements {
        adding.time(|| add(&mut whole, number));
    }
    adding.print_with_control(&format!("{name}, adding"));
    for number in 0..elements {
        // What is to be freed later is freed when the time is taken.
        drop(taking.time(|| take(&mut whole, number)));
    }
    taking.print_with_control(&format!("{name}, removing"));
    black_box(whole);
}

fn main() {
    let elements =
        std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(10_000_000_u64);
    std::thread::spawn(|| {
        loop {
            slab::prepare();
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    let limits = EncodingLimits::default();
    let member = |number: u64| format!("member:{number:012}");
    keyspace(elements);
    collection(
        "set",
        elements,
        Set::default(),
        |set, number| _ = black_box(set.add(member(number).as_bytes(), &limits)),
        |set, number| _ = black_box(set.remove(member(number).as_bytes())),
    );
    collection(
        "hash",
        elements,
        Hash::default(),
        |hash, number| _ = black_box(hash.set(member(number).as_bytes(), b"a value of 16 b.", &limits)),
        |hash, number| _ = black_box(hash.remove(member(number).as_bytes())),
    );
    collection(
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
        "list",
        elements,
        List::default(),
        |list, number| list.push_back(member(number).as_bytes(), &limits),
        |list, _| list.remove(0, 1),
    );
}
