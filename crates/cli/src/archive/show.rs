//! What is said of snapshots, as text and as JSON.

use indicatif::{DecimalBytes, HumanCount};
use mantissa_archive::{Facts, Segment, Snapshot};
use serde_json::{Value, json};

/// The heading of [`line`].
pub(crate) const HEADING: &str =
    "SNAPSHOT                              KEYS        SIZE         NEW      STORED  TAG";

/// A snapshot as a line of a table.
pub(crate) fn line(snapshot: &Snapshot) -> String {
    let Facts { keys, bytes, new_bytes, stored_bytes, tag, .. } = &snapshot.facts;
    let [bytes, new, stored] = [bytes, new_bytes, stored_bytes].map(|bytes| size(*bytes));
    let line = format!("{}  {keys:>9}  {bytes:>10}  {new:>10}  {stored:>10}  {tag}", snapshot.name);
    line.trim_end().to_owned()
}

/// Segments of the log that follow each other, as a line.
pub(crate) fn range(segments: &[Segment]) -> String {
    let [first, .., last] = segments else {
        return segments.first().map_or(String::new(), |only| range_line(only, only, 1));
    };
    range_line(first, last, segments.len())
}

fn range_line(first: &Segment, last: &Segment, count: usize) -> String {
    let [from, to] = [first.first_s, last.last_s].map(super::time::text);
    format!("log of {from} to {to}: {} in {count} segments\n", size(last.end - first.start))
}

/// All that is known of a snapshot, a fact a line.
pub(crate) fn page(snapshot: &Snapshot) -> String {
    let facts = &snapshot.facts;
    let share = 100.0 * facts.new_bytes as f64 / (facts.bytes.max(1) as f64);
    let mut lines = vec![
        ("snapshot", snapshot.name.clone()),
        ("source", facts.source.clone()),
        ("tag", facts.tag.clone()),
        ("keys", HumanCount(facts.keys).to_string()),
        ("functions", facts.functions.to_string()),
        ("size", format!("{} in {} chunks", size(facts.bytes), HumanCount(facts.chunks))),
        ("new", format!("{} ({share:.2} %), stored in {}", size(facts.new_bytes), size(facts.stored_bytes))),
        ("digest", digest(facts)),
    ];
    for (database, keys, with_expiry) in &facts.databases {
        let counts = format!("{} keys, {} expire", HumanCount(*keys), HumanCount(*with_expiry));
        lines.push(("database", format!("{database}: {counts}")));
    }
    lines.retain(|(_, what)| !what.is_empty());
    let lines: Vec<_> = lines.into_iter().map(|(name, what)| format!("{name:<10}{what}")).collect();
    lines.join("\n")
}

/// All that is known of a snapshot as an object.
pub(crate) fn object(snapshot: &Snapshot) -> Value {
    let facts = &snapshot.facts;
    let databases: Vec<_> = facts
        .databases
        .iter()
        .map(|(number, keys, with_expiry)| json!({"database": number, "keys": keys, "expire": with_expiry}))
        .collect();
    json!({
        "snapshot": snapshot.name,
        "created_ms": facts.created_ms,
        "source": facts.source,
        "tag": facts.tag,
        "keys": facts.keys,
        "functions": facts.functions,
        "databases": databases,
        "bytes": facts.bytes,
        "new_bytes": facts.new_bytes,
        "stored_bytes": facts.stored_bytes,
        "chunks": facts.chunks,
        "digest": digest(facts),
    })
}

pub(crate) fn size(bytes: u64) -> String {
    DecimalBytes(bytes).to_string()
}

fn digest(facts: &Facts) -> String {
    facts.digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
