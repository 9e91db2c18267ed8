//! How fast bytes are cut into chunks and hashed on one core, beside the crate fastcdc and a plain
//! Rabin-Karp.
//!
//! `cargo bench -p mantissa-archive --bench chunking` prints a table of medians of processor time. Large
//! values are 64 MB of bytes without a pattern; records have keys of 16 bytes and values of 100. `new` is how
//! much has to be stored after eight bytes were inserted at 64 places of the 64 MB.

use std::collections::HashSet;
use std::hint::black_box;

use mantissa_archive::chunker::{Cuts, Gear};
use mantissa_archive::hashes::{BATCH_BYTES, Hasher};

const BYTES: usize = 64 << 20;
const ROUNDS: usize = 7;
const MIN: usize = 4 << 10;
const MEAN: usize = 16 << 10;
const MAX: usize = 64 << 10;
const WINDOW: usize = 64;
const RECORD_BYTES: usize = 116;

fn noise(seed: u64, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    blake3::Hasher::new_derive_key("bench").update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

/// How long this thread has had a processor, in seconds: what other programs take does not count.
fn processor_s() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("the kernel counts it");
    let nanoseconds = text.split(' ').next().and_then(|word| word.parse::<u64>().ok());
    nanoseconds.expect("the first word is a number") as f64 / 1e9
}

/// The median of several runs, in GB for a second of the processor.
fn rate(bytes: usize, mut run: impl FnMut()) -> f64 {
    let mut rates: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = processor_s();
            run();
            bytes as f64 / (processor_s() - start) / 1e9
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    rates[ROUNDS / 2]
}

/// The lengths of chunks that `cut` makes, which gives the length of the first one of what is left.
fn lengths(mut bytes: &[u8], mut cut: impl FnMut(&[u8]) -> usize) -> Vec<usize> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let length = cut(bytes);
        all.push(length);
        bytes = &bytes[length..];
    }
    all
}

/// A polynomial over the last bytes modulo 2^64 (Karp and Rabin 1987), cut where 14 high bits are zero.
fn rabin_karp(bytes: &[u8]) -> usize {
    const BASE: u64 = 0x0000_0100_0000_01b3;
    let end = bytes.len().min(MAX);
    if end <= MIN {
        return end;
    }
    let oldest = BASE.wrapping_pow(WINDOW as u32 - 1);
    let mut hash = 0_u64;
    for &byte in &bytes[MIN - WINDOW..MIN] {
        hash = hash.wrapping_mul(BASE).wrapping_add(u64::from(byte) + 1);
    }
    for at in MIN..end {
        let gone = u64::from(bytes[at - WINDOW]) + 1;
        hash = hash.wrapping_sub(gone.wrapping_mul(oldest));
        hash = hash.wrapping_mul(BASE).wrapping_add(u64::from(bytes[at]) + 1);
        if hash >> 50 == 0 {
            return at + 1;
        }
    }
    end
}

/// The part of `after` that is in no chunk of `before`, in percent.
fn new_percent(before: &[u8], after: &[u8], cut: impl Fn(&[u8]) -> Vec<usize>) -> f64 {
    let chunks = |bytes: &[u8]| -> Vec<(usize, [u8; 32])> {
        let mut at = 0;
        let cut = cut(bytes).into_iter().map(|length| {
            at += length;
            (length, *blake3::hash(&bytes[at - length..at]).as_bytes())
        });
        cut.collect()
    };
    let known: HashSet<_> = chunks(before).into_iter().map(|(_, hash)| hash).collect();
    let new: usize =
        chunks(after).iter().filter(|(_, hash)| !known.contains(hash)).map(|(length, _)| length).sum();
    100.0 * new as f64 / after.len() as f64
}

fn fast_cdc(bytes: &[u8]) -> Vec<usize> {
    fastcdc::v2020::FastCDC::new(bytes, MIN, MEAN, MAX).map(|chunk| chunk.length).collect()
}

/// The lengths of chunks of records.
fn record_chunks(bytes: &[u8]) -> Vec<usize> {
    let (mut cuts, mut lengths, mut length) = (Cuts::new(7), Vec::new(), 0);
    for record in bytes.chunks(RECORD_BYTES) {
        if cuts.before(&record[..16.min(record.len())], record.len()) {
            lengths.push(length);
            length = 0;
        }
        length += record.len();
    }
    lengths.push(length);
    lengths
}

fn hash_all(bytes: &[u8], lengths: &[usize]) {
    let mut rest = bytes;
    for length in lengths {
        let (chunk, after) = rest.split_at(*length);
        black_box(blake3::keyed_hash(&[1; 32], chunk));
        rest = after;
    }
}

/// The same many at once, as chunks of records are named.
fn hash_batches(hasher: &mut Hasher, bytes: &[u8], lengths: &[usize]) {
    let (mut rest, mut lengths) = (bytes, lengths);
    while !lengths.is_empty() {
        let (mut count, mut size) = (0, 0);
        while count < lengths.len() && size < BATCH_BYTES {
            size += lengths[count];
            count += 1;
        }
        black_box(hasher.hash(&rest[..size], &lengths[..count]));
        (rest, lengths) = (&rest[size..], &lengths[count..]);
    }
}

fn main() {
    let before = noise(1, BYTES);
    let mut after = Vec::new();
    for (number, piece) in before.chunks(BYTES / 64).enumerate() {
        after.extend_from_slice(piece);
        after.extend_from_slice(&(number as u64 + 1).to_le_bytes());
    }
    let gear = Gear::new(7);
    let own = |bytes: &[u8]| lengths(bytes, |rest| gear.cut(rest));
    let plain = |bytes: &[u8]| lengths(bytes, rabin_karp);
    let row = |name: &str, cut: &dyn Fn(&[u8]) -> Vec<usize>| {
        let cuts = cut(&before);
        let cutting = rate(BYTES, || drop(black_box(cut(&before))));
        let both = rate(BYTES, || hash_all(&before, &cut(&before)));
        let new = new_percent(&before, &after, cut);
        let mean = BYTES / cuts.len();
        println!("| {name} | {mean} | {cutting:.2} | {both:.2} | {new:.2} % |");
    };
    println!("| how | mean chunk, bytes | cutting, GB/s | cutting and BLAKE3, GB/s | new |");
    println!("| --- | --- | --- | --- | --- |");
    row("large values, mantissa", &own);
    row("large values, fastcdc 2020", &fast_cdc);
    row("large values, Rabin-Karp", &plain);
    let cuts = record_chunks(&before);
    let cutting = rate(BYTES, || drop(black_box(record_chunks(&before))));
    let alone = rate(BYTES, || hash_all(&before, &record_chunks(&before)));
    let mut hasher = Hasher::new(&[1; 32]);
    let batches = rate(BYTES, || hash_batches(&mut hasher, &before, &record_chunks(&before)));
    let mean = BYTES / cuts.len();
    println!("| records, mantissa | {mean} | {cutting:.2} | {batches:.2} | |");
    println!("| records, each chunk hashed alone | {mean} | {cutting:.2} | {alone:.2} | |");
}
