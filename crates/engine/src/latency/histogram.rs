//! How long calls took, as counts in classes that are at most 1/128 of their value wide (the layout that
//! HdrHistogram describes, for values up to a second with two significant digits), so that any percentile can
//! be told to within 1%.
//!
//! ```text
//! class:  0 1 2 ... 255 | 256 258 260 ... 510 | 512 516 ... 1020 | 1024 ...      nanoseconds it begins at
//! width:  1             | 2                   | 4                | 8
//! ```
//!
//! The counts of the classes of one width take 1 KB, which is made when the first such call is counted: those
//! of a command take some 5 KB, of 24. Recording costs a few instructions: one class is counted up. One
//! thread records, any thread may read: counts are read one by one, so that a reader sees calls that happened
//! while it read, or not.

use mantissa_protocol::Reply;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Classes of one width: half of those that two digits need, because the lower half is in finer ones.
const HALF: u64 = 128;
const HALF_BITS: u32 = HALF.trailing_zeros();
/// Longer calls are counted as this long.
const NANOSECONDS_MAX: u64 = 1_000_000_000;
/// Classes up to the width of the one that holds the longest time.
const CLASSES: usize = ROWS * HALF as usize;
/// Widths, of which the narrowest has twice as many classes.
const ROWS: usize = 24;
const _: () = assert!(class_of(NANOSECONDS_MAX) < CLASSES);
const _: () = assert!(highest_of(CLASSES - 1) == (1 << 30) - 1);

/// The class that a time belongs to.
const fn class_of(nanoseconds: u64) -> usize {
    // The power of two by which the classes there are wide.
    let width_bits = (nanoseconds | (2 * HALF - 1)).ilog2() - HALF_BITS;
    (width_bits as u64 * HALF + (nanoseconds >> width_bits)) as usize
}

/// The longest time of a class.
const fn highest_of(class: usize) -> u64 {
    let class = class as u64;
    let width_bits = (class / HALF).saturating_sub(1);
    ((class - width_bits * HALF + 1) << width_bits) - 1
}

/// The counts of [`HALF`] classes that follow each other.
type Row = [AtomicU64; HALF as usize];

/// The first class at which LATENCY HISTOGRAM tells of a step, from a class on: the first of a row, of more
/// than a microsecond, or the last of all.
fn step_of(class: usize) -> usize {
    let first = class.next_multiple_of(HALF as usize).max(class_of(1024));
    first.min(CLASSES - 1)
}

#[cold]
fn first_of_row(row: &OnceLock<Box<Row>>) -> &Row {
    row.get_or_init(new_row)
}

fn new_row() -> Box<Row> {
    Box::new(std::array::from_fn(|_| AtomicU64::new(0)))
}

/// How long the calls of one command took.
#[derive(Default)]
pub struct Histogram {
    rows: [OnceLock<Box<Row>>; ROWS],
}

impl Histogram {
    /// A histogram without calls.
    pub fn new() -> Histogram {
        Histogram::default()
    }

    /// Counts a call. Only one thread at a time may do so: others' calls could get lost.
    #[inline]
    pub fn record(&self, nanoseconds: u64) {
        let class = class_of(nanoseconds.clamp(1, NANOSECONDS_MAX));
        let (row, column) = (class / HALF as usize, class % HALF as usize);
        if let Some(row) = self.rows.get(row) {
            let counts: &Row = match row.get() {
                Some(counts) => counts,
                None => first_of_row(row),
            };
            let count = &counts[column];
            count.store(count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        }
    }

    /// Adds the calls of another histogram, such as another thread's.
    pub fn add(&self, other: &Histogram) {
        for (row, more) in self.rows.iter().zip(&other.rows) {
            let Some(more) = more.get() else { continue };
            for (count, more) in row.get_or_init(new_row).iter().zip(&**more) {
                count.fetch_add(more.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
    }

    /// Forgets all calls.
    pub fn reset(&self) {
        for count in self.rows.iter().filter_map(OnceLock::get).flat_map(|row| row.iter()) {
            count.store(0, Ordering::Relaxed);
        }
    }

    /// The number of calls.
    pub fn calls(&self) -> u64 {
        self.counts().map(|(_, calls)| calls).sum()
    }

    /// The classes that have had calls, in ascending order, and the number of calls of each, which may be 0.
    fn counts(&self) -> impl Iterator<Item = (usize, u64)> {
        let rows = self.rows.iter().enumerate().filter_map(|(number, row)| Some((number, row.get()?)));
        rows.flat_map(|(number, row)| {
            let classes = number * HALF as usize..;
            classes.zip(row.iter().map(|count| count.load(Ordering::Relaxed)))
        })
    }

    /// What LATENCY HISTOGRAM says of a command: the number of calls, and for each power of two from 1024
    /// nanoseconds to the number of calls that took at most that long, where that number rises.
    pub fn reply(&self, reply: &mut Reply) {
        reply.map(2);
        reply.bulk(b"calls");
        let mut steps: Vec<(u64, u64)> = Vec::new();
        let mut sum = 0;
        for (class, calls) in self.counts().filter(|(_, calls)| *calls > 0) {
            sum += calls;
            let step = highest_of(step_of(class)) / 1000;
            match steps.last_mut().filter(|(last, _)| *last == step) {
                Some((_, told)) => *told = sum,
                None => steps.push((step, sum)),
            }
        }
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        reply.integer(number(sum));
        reply.bulk(b"histogram_usec");
        reply.map(steps.len());
        for (microseconds, calls) in steps {
            reply.integer(number(microseconds));
            reply.integer(number(calls));
        }
    }
}

/// How many calls took at most how long, over several histograms.
pub struct Distribution {
    /// Of each class, the calls in it and in those before it.
    sums: Vec<u64>,
}

impl Distribution {
    /// Adds histograms up, such as those of several threads; nothing if they hold no calls.
    pub fn of<'h>(histograms: impl Iterator<Item = &'h Histogram>) -> Option<Distribution> {
        let mut sums: Vec<u64> = Vec::new();
        for histogram in histograms {
            sums.resize(CLASSES, 0);
            for (class, calls) in histogram.counts() {
                if let Some(sum) = sums.get_mut(class) {
                    *sum += calls;
                }
            }
        }
        let mut all = 0;
        for sum in &mut sums {
            all += *sum;
            *sum = all;
        }
        (all > 0).then_some(Distribution { sums })
    }

    /// The number of calls.
    pub fn calls(&self) -> u64 {
        self.sums.last().copied().unwrap_or(0)
    }

    /// The calls that took at most so long, to the width of a class; longer ones than can be told apart, of a
    /// second or more, are never among them.
    pub fn within(&self, nanoseconds: u64) -> u64 {
        let end = class_of(nanoseconds.saturating_add(1).min(NANOSECONDS_MAX));
        end.checked_sub(1).and_then(|class| self.sums.get(class)).copied().unwrap_or(0)
    }

    /// The steps of LATENCY HISTOGRAM: microseconds, and how many calls took at most as long. All of them,
    /// also where the number does not rise.
    pub fn steps(&self) -> impl Iterator<Item = (u64, u64)> {
        let powers = (0..CLASSES).step_by(HALF as usize).filter(|&class| highest_of(class) >= 1024);
        powers
            .chain([CLASSES - 1])
            .map(|class| (highest_of(class) / 1000, self.sums.get(class).copied().unwrap_or(0)))
    }

    /// The microseconds within which `percent` of the calls were done; 0 without calls. To the width of a
    /// class.
    pub fn percentile_us(&self, percent: f64) -> f64 {
        let wanted = ((percent.clamp(0.0, 100.0) / 100.0) * self.calls() as f64 + 0.5) as u64;
        let class = self.sums.partition_point(|&sum| sum < wanted.max(1));
        if class < self.sums.len() { highest_of(class) as f64 / 1000.0 } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mantissa_protocol::Protocol;

    #[test]
    fn classes_follow_each_other_and_are_narrow() {
        let mut next = 0;
        for class in 0..CLASSES {
            let highest = highest_of(class);
            assert_eq!((class_of(next), class_of(highest)), (class, class));
            assert!(highest - next <= highest / 128, "{class}");
            next = highest + 1;
        }
    }

    fn text(histogram: &Histogram) -> String {
        let mut reply = Reply::new(Protocol::Resp3);
        histogram.reply(&mut reply);
        String::from_utf8(reply.into_bytes()).expect("the reply is text").replace("\r\n", " ")
    }

    #[test]
    fn the_reply_has_the_steps_of_redis() {
        let histogram = Histogram::new();
        assert_eq!(text(&histogram), "%2 $5 calls :0 $14 histogram_usec %0 ");
        // The microseconds that Redis 8.2.3 shows for calls of about as long.
        let steps = [1, 2, 4, 8, 16, 33, 66, 132, 264, 528, 1056, 2113, 4227, 8454, 16908, 33816];
        let steps = [&steps[..], &[67633, 135266, 270532, 541065, 1073741]].concat();
        let mut expected = String::new();
        for (index, step) in steps.iter().enumerate() {
            histogram.record(1024 << index);
            expected.push_str(&format!(":{step} :{} ", index + 1));
        }
        assert_eq!(text(&histogram), format!("%2 $5 calls :21 $14 histogram_usec %21 {expected}"));
        histogram.reset();
        for nanoseconds in [0, 1023, 1031, 1032, u64::MAX] {
            histogram.record(nanoseconds);
        }
        assert_eq!(text(&histogram), "%2 $5 calls :5 $14 histogram_usec %3 :1 :3 :2 :4 :1073741 :5 ");
    }

    #[test]
    fn percentiles_are_those_of_redis() {
        let histogram = Histogram::new();
        assert!(Distribution::of([&histogram].into_iter()).is_none());
        histogram.record(129_000);
        let percentile = |histograms: &[&Histogram], percent: f64| {
            let distribution = Distribution::of(histograms.iter().copied()).expect("there are calls");
            distribution.percentile_us(percent)
        };
        assert_eq!(percentile(&[&histogram], 99.9), 129.023);
        histogram.reset();
        let other = Histogram::new();
        for milliseconds in [400, 700, 1200] {
            other.record(milliseconds * 1_000_000 + 100_000);
        }
        assert_eq!(percentile(&[&histogram, &other], 50.0), 700_448.767);
        assert_eq!(percentile(&[&histogram, &other], 99.0), 1_002_438.655);
    }

    #[test]
    fn calls_within_a_bound_are_counted_to_the_width_of_a_class() {
        let histogram = Histogram::new();
        for nanoseconds in [1, 999, 1_000, 1_003, 1_004, 900_000_000, 999_999_999, u64::MAX] {
            histogram.record(nanoseconds);
        }
        let distribution = Distribution::of([&histogram].into_iter()).expect("there are calls");
        let within = |nanoseconds| distribution.within(nanoseconds);
        assert_eq!((within(0), within(1), within(999), within(1_000)), (0, 1, 2, 2));
        assert_eq!((within(1_003), within(1_007), within(910_000_000)), (4, 5, 6));
        assert_eq!((within(1_000_000_000), within(u64::MAX), distribution.calls()), (6, 6, 8));
        let mut steps = distribution.steps();
        assert_eq!(steps.next(), Some((1, 5)));
        assert_eq!(steps.last(), Some((1_073_741, 8)));
    }

    #[test]
    fn percentiles_are_close_to_the_truth() {
        let mut seed = 0x2545_f491_4f6c_dd1du64;
        println!("seed {seed:#x}");
        let histogram = Histogram::new();
        let mut values = Vec::new();
        for _ in 0..20_000 {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            let value = 1 + (seed >> 34 >> (seed % 30));
            histogram.record(value);
            values.push(value.min(NANOSECONDS_MAX));
        }
        values.sort_unstable();
        let distribution = Distribution::of([&histogram].into_iter()).expect("there are calls");
        for percent in [1.0, 25.0, 50.0, 90.0, 99.0, 99.9, 100.0] {
            let rank = (percent / 100.0 * values.len() as f64 + 0.5) as usize;
            let truth = values[rank.max(1) - 1] as f64 / 1000.0;
            let told = distribution.percentile_us(percent);
            assert!(told >= truth && told <= truth * 1.01, "{percent}: {told} {truth}");
        }
    }
}
