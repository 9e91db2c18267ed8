//! Memory: bandwidth by threads, the cache line by strides, latency by working set, and huge pages.
//!
//! Bandwidth counts what a loop reads and writes, as STREAM does, without lines that a write reads first.
//! Latency is that of a chain of loads over a random cycle, one number in each 64 bytes.

use std::hint::black_box;
use std::io;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use mantissa_sys::pages::Pages;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::findings::{Plot, Section, bytes};
use super::statistics::{Figure, Pace};

/// Numbers in a cache line of 64 bytes.
const LINE_NUMBERS: usize = 8;
const WORKING_SET_MIN_BYTES: usize = 4 << 10;
const CHASE_STEPS: usize = 50_000;

/// The kernels: name, arrays that count.
const KERNELS: [(&str, usize); 3] = [("read", 1), ("copy", 2), ("triad", 3)];

/// All measurements of memory, in so many bytes at most.
pub(crate) fn measure(pace: &Pace, memory_bytes: usize) -> io::Result<Section> {
    let mut section = Section::new("memory", "Memory");
    bandwidth(pace, memory_bytes, &mut section)?;
    strides(pace, memory_bytes, &mut section)?;
    latency(pace, memory_bytes, &mut section)?;
    if cfg!(debug_assertions) && !is_optimised(pace)? {
        section.notes.push("The program is built without optimisation: its own loops are the limit.".into());
    }
    Ok(section)
}

/// Whether a loop over numbers in a cache takes less than a nanosecond for each.
fn is_optimised(pace: &Pace) -> io::Result<bool> {
    let values = vec![1_u64; 1024];
    let taken = pace.nanoseconds(0.0, 1000, || {
        black_box(read(black_box(&values)));
    })?;
    Ok(taken.median < 1024.0)
}

/// 1, 2, 4 ... and the number of processors.
fn thread_counts() -> Vec<usize> {
    let most = std::thread::available_parallelism().map_or(1, usize::from);
    let mut counts: Vec<usize> = (0..usize::BITS).map(|i| 1 << i).take_while(|count| *count < most).collect();
    counts.push(most);
    counts
}

fn bandwidth(pace: &Pace, memory_bytes: usize, section: &mut Section) -> io::Result<()> {
    let counts = thread_counts();
    let mut curves: Vec<(String, Vec<(f64, f64)>)> =
        KERNELS.iter().map(|(name, _)| ((*name).to_owned(), Vec::new())).collect();
    let part = 0.18 / counts.len() as f64;
    for threads in &counts {
        let len = memory_bytes / 3 / size_of::<u64>() / threads;
        let figures = bandwidths(pace, part, *threads, len)?;
        for (((name, _), curve), figure) in KERNELS.iter().zip(&mut curves).zip(figures) {
            curve.1.push((*threads as f64, figure.median));
            let plural = if *threads == 1 { "" } else { "s" };
            section.add(
                &format!("{name}_{threads}"),
                &format!("{name}, {threads} thread{plural}"),
                "bytes/s",
                figure,
            );
        }
    }
    let title = format!("Bandwidth by threads, three arrays of {} together", bytes(memory_bytes as f64));
    section.plots.push(Plot { name: "bandwidth", title, x: "threads", unit: "bytes/s", curves });
    Ok(())
}

/// The bandwidth of each kernel.
///
/// A pass takes from the first thread that begins to the last that ends, by their own clocks: the thread that
/// waits for them may run late.
fn bandwidths(pace: &Pace, part: f64, threads: usize, len: usize) -> io::Result<Vec<Figure>> {
    let mut arrays = (0..threads * 3).map(|_| Pages::new(len, true)).collect::<io::Result<Vec<_>>>()?;
    let (start, end) = (Barrier::new(threads + 1), Barrier::new(threads + 1));
    let kernel_now = AtomicUsize::new(KERNELS.len());
    let (base, first, last) = (Instant::now(), AtomicU64::new(0), AtomicU64::new(0));
    let nanoseconds = || u64::try_from(base.elapsed().as_nanos()).unwrap_or(u64::MAX);
    std::thread::scope(|scope| {
        for arrays in arrays.chunks_exact_mut(3) {
            let (start, end, kernel_now, first, last) = (&start, &end, &kernel_now, &first, &last);
            scope.spawn(move || {
                let [a, b, c] = arrays else { return };
                // The first write decides on which node memory lies.
                for array in [&mut *a, &mut *b, &mut *c] {
                    array.fill(1.0_f64.to_bits());
                }
                loop {
                    start.wait();
                    first.fetch_min(nanoseconds(), Relaxed);
                    match kernel_now.load(Relaxed) {
                        0 => {
                            black_box(read(b));
                        }
                        1 => a.copy_from_slice(b),
                        2 => triad(a, b, c),
                        3 => {}
                        _ => return,
                    }
                    last.fetch_max(nanoseconds(), Relaxed);
                    end.wait();
                }
            });
        }
        let pass = || {
            first.store(u64::MAX, Relaxed);
            last.store(0, Relaxed);
            start.wait();
            end.wait();
            last.load(Relaxed).saturating_sub(first.load(Relaxed)).max(1) as f64 / 1e9
        };
        // One that does nothing: all have filled their arrays then.
        pass();
        let figures = KERNELS.iter().enumerate().map(|(i, (_, counted))| {
            kernel_now.store(i, Relaxed);
            let total = (counted * threads * len * size_of::<u64>()) as f64;
            pass();
            pace.repeat(part / KERNELS.len() as f64, || Ok(total / pass()))
        });
        let figures: io::Result<Vec<Figure>> = figures.collect();
        kernel_now.store(usize::MAX, Relaxed);
        start.wait();
        figures
    })
}

#[inline(never)]
fn read(values: &[u64]) -> u64 {
    values.iter().fold(0, |sum, value| sum ^ value)
}

/// STREAM's triad: `a = b + 3 c`, of doubles.
#[inline(never)]
fn triad(a: &mut [u64], b: &[u64], c: &[u64]) {
    for ((a, b), c) in a.iter_mut().zip(b).zip(c) {
        *a = (f64::from_bits(*b) + 3.0 * f64::from_bits(*c)).to_bits();
    }
}

/// Time for each access with a stride: it rises until each access is a line of its own.
fn strides(pace: &Pace, memory_bytes: usize, section: &mut Section) -> io::Result<()> {
    let len = (memory_bytes / 2).min(64 << 20) / size_of::<u64>();
    let mut values = Pages::new(len, true)?;
    values.fill(1);
    let mut curve = Vec::new();
    for shift in 0..8_u32 {
        let stride = 1_usize << shift;
        let count = (len / stride).max(1);
        let figure = pace.repeat(0.01, || {
            let began = Instant::now();
            let sum = values.iter().step_by(stride).fold(0_u64, |sum, value| sum.wrapping_add(*value));
            black_box(sum);
            Ok(began.elapsed().as_secs_f64() * 1e9 / count as f64)
        })?;
        // Disturbed rounds would look like a line that ends.
        curve.push(((stride * size_of::<u64>()) as f64, figure.min));
    }
    section.add("cache_line", "what is fetched at once, by strides", "bytes", Figure::once(line_of(&curve)));
    if let Some(line) = line_by_system() {
        section.add("cache_line_by_system", "cache line, as the system says", "bytes", Figure::once(line));
        if line_of(&curve) > line {
            let note = "By strides a line looks longer than it is where processors fetch lines in pairs.";
            section.notes.push(note.to_owned());
        }
    }
    section.plots.push(Plot {
        name: "strides",
        title: "Time for an access by stride".to_owned(),
        x: "bytes",
        unit: "ns",
        curves: vec![("access".to_owned(), curve)],
    });
    Ok(())
}

/// The stride after which an access costs no longer twice as much for twice the stride. Prefetchers fetch
/// lines in pairs, so that the rise may go on to twice the line.
fn line_of(curve: &[(f64, f64)]) -> f64 {
    let rises = curve.windows(2).filter(|pair| pair[1].1 >= 1.5 * pair[0].1);
    rises.map(|pair| pair[1].0).fold(8.0, f64::max)
}

fn line_by_system() -> Option<f64> {
    let path = "/sys/devices/system/cpu/cpu0/cache/index0/coherency_line_size";
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// A random cycle through the lines (Sattolo's algorithm); each line holds where the next one is.
fn make_cycle(values: &mut [u64], random: &mut SmallRng) {
    let lines = values.len() / LINE_NUMBERS;
    for line in 0..lines {
        values[line * LINE_NUMBERS] = (line * LINE_NUMBERS) as u64;
    }
    for line in (1..lines).rev() {
        values.swap(line * LINE_NUMBERS, random.random_range(0..line) * LINE_NUMBERS);
    }
}

/// Nanoseconds for a step of the cycle.
fn chase(pace: &Pace, part: f64, values: &[u64]) -> io::Result<Figure> {
    let mut place = 0;
    let mut steps = |count: usize| {
        let began = Instant::now();
        for _ in 0..count {
            place = values[place] as usize;
        }
        black_box(place);
        began.elapsed().as_secs_f64() * 1e9 / count as f64
    };
    // So that what fits a cache is there.
    steps((values.len() / LINE_NUMBERS).min(1 << 20));
    pace.repeat(part, || Ok(steps(CHASE_STEPS)))
}

fn latency(pace: &Pace, memory_bytes: usize, section: &mut Section) -> io::Result<()> {
    let mut random = SmallRng::seed_from_u64(1);
    let most = memory_bytes / 2;
    let sizes: Vec<usize> =
        (0..32).map(|i| WORKING_SET_MIN_BYTES << i).take_while(|size| *size <= most).collect();
    let mut curves = Vec::new();
    let mut last = Vec::new();
    for (name, huge) in [("4 KiB pages", false), ("huge pages", true)] {
        let mut values = Pages::new(most / size_of::<u64>(), huge)?;
        values.fill(0);
        if let Some(given) = huge_bytes().filter(|_| huge) {
            let (given, asked) = (bytes(given), bytes(most as f64));
            section.notes.push(format!("Huge pages: {given} were given, {asked} were asked for."));
        }
        let mut curve = Vec::new();
        for size in &sizes {
            let values = &mut values[..size / size_of::<u64>()];
            make_cycle(values, &mut random);
            // The last one is memory's, and advice depends on it.
            let shares = if Some(size) == sizes.last() { 4.0 } else { 1.0 };
            let figure = chase(pace, shares * 0.1 / (sizes.len() + 3) as f64, values)?;
            curve.push((*size as f64, figure.median));
            if size == &WORKING_SET_MIN_BYTES && huge {
                section.add("latency_cache", "latency, first cache", "ns", figure);
            }
            if Some(size) == sizes.last() {
                last.push(figure);
            }
        }
        curves.push((name.to_owned(), curve));
    }
    if let [small, huge] = last[..] {
        section.add("latency_small_pages", "latency, memory, 4 KiB pages", "ns", small);
        section.add("latency_huge_pages", "latency, memory, huge pages", "ns", huge);
        let gain = Figure::once(small.median / huge.median.max(1e-9));
        section.add("huge_pages_gain", "4 KiB pages / huge pages", "x", gain);
    }
    section.plots.push(Plot {
        name: "latency",
        title: "Latency of a load by working set".to_owned(),
        x: "bytes",
        unit: "ns",
        curves,
    });
    Ok(())
}

/// What this process has in huge pages.
fn huge_bytes() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("AnonHugePages:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<f64>().ok()? * 1024.0)
}

/// How much memory to use: more than four times the last cache, but no more than a quarter of what there is.
pub(crate) fn memory_bytes(quick: bool) -> usize {
    let cache = std::fs::read_to_string("/sys/devices/system/cpu/cpu0/cache/index3/size")
        .ok()
        .and_then(|text| text.trim().strip_suffix('K')?.parse::<usize>().ok())
        .map_or(16 << 20, |kib| kib << 10);
    let most = if quick { 96 << 20 } else { 768 << 20 };
    let available = mantissa_sys::process::available_memory().unwrap_or(1 << 30);
    let wished = (12 * cache).clamp(96 << 20, most);
    wished.min(usize::try_from(available / 4).unwrap_or(wished)).max(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_goes_through_all_lines() {
        let mut values = vec![0; 100 * LINE_NUMBERS];
        make_cycle(&mut values, &mut SmallRng::seed_from_u64(7));
        let mut place = 0;
        for step in 1..=100 {
            place = values[place] as usize;
            assert_eq!(place == 0, step == 100);
        }
    }

    #[test]
    fn the_line_is_where_the_rise_ends() {
        let curve = |times: &[f64]| -> Vec<(f64, f64)> {
            times.iter().enumerate().map(|(i, time)| ((8 << i) as f64, *time)).collect()
        };
        assert_eq!(line_of(&curve(&[1.0, 2.0, 4.0, 8.0, 9.0, 9.5, 9.0, 9.0])), 64.0);
        assert_eq!(line_of(&[]), 8.0);
    }

    #[test]
    fn the_triad_is_a_sum_of_doubles() {
        let bits = |value: f64| vec![value.to_bits(); 9];
        let mut a = bits(0.0);
        triad(&mut a, &bits(1.5), &bits(2.0));
        assert_eq!(a, bits(7.5));
    }
}
