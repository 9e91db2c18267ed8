//! What keys take: by type, the biggest of all, and how sizes are distributed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io::{self, Write};

use hdrhistogram::Histogram;
use mantissa_protocol::{Value, put_quoted};

use super::keys::{Measure, TYPES, Walk, ask_all, with_types};
use crate::observe::human_bytes;
use crate::output::print;
use crate::session::Session;

/// Percentiles of the distribution.
const PERCENTILES: [f64; 8] = [0.0, 50.0, 75.0, 90.0, 99.0, 99.9, 99.99, 100.0];

/// What was seen of a type.
#[derive(Default)]
struct Seen {
    keys: u64,
    bytes: u64,
    elements: u64,
    elements_max: u64,
}

/// A key: its bytes, its elements, its type, its name.
type Key = (u64, u64, usize, Vec<u8>);

/// Walks through the keyspace, and shows so many of the biggest keys.
pub(crate) fn run(session: &mut Session, top: usize, samples: Option<u64>) -> io::Result<bool> {
    let mut walk = Walk::begin(session, "biggest")?;
    let mut seen: BTreeMap<usize, Seen> = BTreeMap::new();
    let mut biggest: BinaryHeap<Reverse<Key>> = BinaryHeap::new();
    let mut sizes = Histogram::<u64>::new(3).map_err(io::Error::other)?;
    while let Some(keys) = walk.next(session)? {
        let known = with_types(session, &keys)?;
        let memory = Measure::Memory(samples);
        let questions: Vec<_> = known
            .iter()
            .flat_map(|(key, kind)| [memory.command(key, *kind), Measure::Elements.command(key, *kind)])
            .collect();
        let answers = ask_all(session, &questions)?;
        for ((key, kind), answers) in known.into_iter().zip(answers.chunks_exact(2)) {
            // A key that is gone meanwhile has no size.
            let [Some(bytes), Some(elements)] = [size(&answers[0]), size(&answers[1])] else { continue };
            let of_type = seen.entry(kind).or_default();
            of_type.keys += 1;
            of_type.bytes += bytes;
            of_type.elements += elements;
            of_type.elements_max = of_type.elements_max.max(elements);
            sizes.record(bytes).map_err(io::Error::other)?;
            biggest.push(Reverse((bytes, elements, kind, key)));
            if biggest.len() > top {
                biggest.pop();
            }
        }
        walk.count(keys.len())?;
    }
    print(&describe(walk.sampled, &seen, biggest.into_sorted_vec(), &sizes)?)?;
    Ok(true)
}

fn size(answer: &Value) -> Option<u64> {
    answer.as_integer().and_then(|size| u64::try_from(size).ok())
}

fn describe(
    sampled: u64,
    seen: &BTreeMap<usize, Seen>,
    biggest: Vec<Reverse<Key>>,
    sizes: &Histogram<u64>,
) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    writeln!(out, "--- {sampled} keys ---\n")?;
    writeln!(
        out,
        "{:<8}{:>12}{:>12}{:>12}{:>14}{:>14}",
        "type", "keys", "memory", "a key", "elements", "most"
    )?;
    for (kind, Seen { keys, bytes, elements, elements_max }) in seen {
        let (name, average) = (TYPES[*kind].0, human_bytes(bytes / keys.max(&1)));
        let total = human_bytes(*bytes);
        writeln!(out, "{name:<8}{keys:>12}{total:>12}{average:>12}{elements:>14}{elements_max:>14}")?;
    }
    writeln!(out, "\n--- the biggest keys ---\n")?;
    for Reverse((bytes, elements, kind, key)) in &biggest {
        let (name, _, unit) = TYPES[*kind];
        write!(out, "{:>10}  {name:<7} {elements:>10} {unit:<8} ", human_bytes(*bytes))?;
        put_quoted(&mut out, key);
        out.push(b'\n');
    }
    writeln!(out, "\n--- memory of a key ---\n")?;
    for percentile in PERCENTILES {
        let bytes = sizes.value_at_percentile(percentile);
        let count = sizes.count_between(0, bytes);
        writeln!(
            out,
            "{percentile:>7} % of the keys take at most {:>9}  ({count} keys)",
            human_bytes(bytes)
        )?;
    }
    Ok(out)
}
