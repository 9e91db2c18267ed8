//! Looking for keys that stand out: with the most elements, the most memory, or the most uses.
//!
//! The whole keyspace is walked by SCAN, a pipeline of questions for each batch. Memory stays the same
//! however many keys there are.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use mantissa_number::parse_f64;
use mantissa_protocol::{Value, put_quoted};

use crate::output::print;
use crate::scan::Batch;
use crate::session::Session;

/// By what keys are compared.
#[derive(Clone, Copy)]
pub(crate) enum Measure {
    /// The number of elements, or the length of a string.
    Elements,
    /// Bytes of memory, looking at so many elements.
    Memory(Option<u64>),
}

/// How many of the hottest keys are shown.
const HOT_KEYS_SHOWN_MAX: usize = 16;
/// After how many steps of SCAN there is a pause, if one is asked for.
const STEPS_BETWEEN_PAUSES: u64 = 100;
/// After how many keys a line tells how far it is.
const KEYS_BETWEEN_REPORTS: u64 = 1_000_000;

/// A type of value: its name, the command for its size, and what that counts.
pub(crate) const TYPES: [(&str, &str, &str); 6] = [
    ("string", "STRLEN", "bytes"),
    ("list", "LLEN", "items"),
    ("hash", "HLEN", "fields"),
    ("stream", "XLEN", "entries"),
    ("set", "SCARD", "members"),
    ("zset", "ZCARD", "members"),
];

/// What was seen of a type.
#[derive(Default)]
struct Seen {
    keys: u64,
    total: u64,
    biggest: Option<(Vec<u8>, u64)>,
}

/// A walk through the keyspace.
pub(crate) struct Walk {
    cursor: Vec<u8>,
    steps: u64,
    pub(crate) sampled: u64,
    total: u64,
}

impl Walk {
    pub(crate) fn begin(session: &mut Session, what: &str) -> io::Result<Walk> {
        let intro = format!(
            "\n# Scanning the entire keyspace to find {what} keys as well as\n\
             # average sizes per key type.  You can use -i 0.1 to sleep 0.1 sec\n\
             # per 100 SCAN commands (not usually needed).\n\n"
        );
        print(intro.as_bytes())?;
        let total = session.expect(&["DBSIZE"])?.as_integer().and_then(|count| u64::try_from(count).ok());
        Ok(Walk { cursor: b"0".to_vec(), steps: 0, sampled: 0, total: total.unwrap_or(0) })
    }

    /// The next keys; `None` after the last.
    pub(crate) fn next(&mut self, session: &mut Session) -> io::Result<Option<Vec<Vec<u8>>>> {
        if self.steps > 0 && self.cursor == b"0" {
            return Ok(None);
        }
        let pause = session.settings().interval.unwrap_or(Duration::ZERO);
        if self.steps > 0 && self.steps.is_multiple_of(STEPS_BETWEEN_PAUSES) {
            std::thread::sleep(pause);
        }
        let batch = Batch::fetch(session, &self.cursor)?;
        self.cursor = batch.next;
        self.steps += 1;
        Ok(Some(batch.keys))
    }

    fn percent(&self) -> f64 {
        if self.total == 0 { 0.0 } else { 100.0 * self.sampled as f64 / self.total as f64 }
    }

    /// Counts a batch, and says now and then how far it is.
    pub(crate) fn count(&mut self, keys: usize) -> io::Result<()> {
        let before = self.sampled / KEYS_BETWEEN_REPORTS;
        self.sampled += keys as u64;
        if self.sampled / KEYS_BETWEEN_REPORTS > before {
            let text = format!("[{:05.2}%] Sampled {} keys so far\n", self.percent(), self.sampled);
            print(text.as_bytes())?;
        }
        Ok(())
    }
}

/// The replies to a pipeline of commands.
pub(crate) fn ask_all(session: &mut Session, commands: &[Vec<Vec<u8>>]) -> io::Result<Vec<Value>> {
    let connection = session.connection()?;
    connection.send_all(commands)?;
    commands.iter().map(|_| connection.receive_reply()).collect()
}

/// The keys whose type is one of [`TYPES`], with its index. Others, and keys that are gone, are left out.
pub(crate) fn with_types(session: &mut Session, keys: &[Vec<u8>]) -> io::Result<Vec<(Vec<u8>, usize)>> {
    let questions: Vec<_> = keys.iter().map(|key| vec![b"TYPE".to_vec(), key.clone()]).collect();
    let types = ask_all(session, &questions)?;
    let typed = keys.iter().zip(&types).filter_map(|(key, kind)| {
        let kind = kind.as_bytes()?;
        Some((key.clone(), TYPES.iter().position(|(name, ..)| name.as_bytes() == kind)?))
    });
    Ok(typed.collect())
}

/// Looks for the biggest key of each type, and sums up.
pub(crate) fn biggest(session: &mut Session, measure: Measure) -> io::Result<bool> {
    let mut walk = Walk::begin(session, "biggest")?;
    let mut seen: BTreeMap<usize, Seen> = BTreeMap::new();
    let (mut key_bytes, mut skipped) = (0, 0);
    while let Some(keys) = walk.next(session)? {
        let known = with_types(session, &keys)?;
        skipped += keys.len() - known.len();
        let sizes: Vec<_> = known.iter().map(|(key, kind)| measure.command(key, *kind)).collect();
        let sizes = ask_all(session, &sizes)?;
        for ((key, kind), size) in known.into_iter().zip(sizes) {
            // A key that is gone meanwhile has no size.
            let size = size.as_integer().and_then(|size| u64::try_from(size).ok()).unwrap_or(0);
            key_bytes += key.len() as u64;
            note(seen.entry(kind).or_default(), key, kind, size, measure, &walk)?;
        }
        walk.count(keys.len())?;
    }
    summarize(&walk, &seen, key_bytes, measure)?;
    if skipped > 0 {
        print(format!("\n{skipped} keys of other types were left out\n").as_bytes())?;
    }
    Ok(true)
}

impl Measure {
    pub(crate) fn command(self, key: &[u8], kind: usize) -> Vec<Vec<u8>> {
        match self {
            Measure::Elements => vec![TYPES[kind].1.as_bytes().to_vec(), key.to_vec()],
            Measure::Memory(samples) => {
                let mut command = vec![b"MEMORY".to_vec(), b"USAGE".to_vec(), key.to_vec()];
                if let Some(samples) = samples {
                    command.extend([b"SAMPLES".to_vec(), samples.to_string().into_bytes()]);
                }
                command
            }
        }
    }

    fn unit(self, kind: usize) -> &'static str {
        match self {
            Measure::Elements => TYPES[kind].2,
            Measure::Memory(_) => "bytes",
        }
    }
}

/// Counts a key, and tells if it is the biggest of its type so far.
fn note(
    seen: &mut Seen,
    key: Vec<u8>,
    kind: usize,
    size: u64,
    measure: Measure,
    walk: &Walk,
) -> io::Result<()> {
    seen.keys += 1;
    seen.total += size;
    if seen.biggest.as_ref().is_none_or(|(_, biggest)| size > *biggest) {
        let (name, unit) = (TYPES[kind].0, measure.unit(kind));
        let mut line = format!("[{:05.2}%] Biggest {name:<6} found so far '", walk.percent()).into_bytes();
        put_quoted(&mut line, &key);
        line.extend_from_slice(format!("' with {size} {unit}\n").as_bytes());
        print(&line)?;
        seen.biggest = Some((key, size));
    }
    Ok(())
}

fn summarize(walk: &Walk, seen: &BTreeMap<usize, Seen>, key_bytes: u64, measure: Measure) -> io::Result<()> {
    let average = |total: u64, count: u64| if count == 0 { 0.0 } else { total as f64 / count as f64 };
    let mut out = format!(
        "\n-------- summary -------\n\nSampled {} keys in the keyspace!\n\
         Total key length in bytes is {key_bytes} (avg len {:.2})\n\n",
        walk.sampled,
        average(key_bytes, walk.sampled)
    )
    .into_bytes();
    for (kind, (name, ..)) in TYPES.iter().enumerate() {
        if let Some((key, size)) = seen.get(&kind).and_then(|seen| seen.biggest.as_ref()) {
            write!(out, "Biggest {name:>6} found '")?;
            put_quoted(&mut out, key);
            writeln!(out, "' has {size} {}", measure.unit(kind))?;
        }
    }
    out.push(b'\n');
    let nothing = Seen::default();
    for (kind, (name, ..)) in TYPES.iter().enumerate() {
        let Seen { keys, total, .. } = seen.get(&kind).unwrap_or(&nothing);
        let (share, unit) = (100.0 * average(*keys, walk.sampled), measure.unit(kind));
        writeln!(
            out,
            "{keys} {name}s with {total} {unit} ({share:05.2}% of keys, avg size {:.2})",
            average(*total, *keys)
        )?;
    }
    print(&out)
}

/// The keys that a server which counts uses by itself says are used most; `None` of other servers.
fn known_hottest(session: &mut Session) -> io::Result<Option<Vec<u8>>> {
    let count = HOT_KEYS_SHOWN_MAX.to_string();
    let reply = session.connection()?.ask(&["MANTISSA.KEYS", "HOT", "COUNT", &count])?;
    let Some(found) = reply.as_elements() else { return Ok(None) };
    let mut out =
        b"\n# The server knows its hot keys: accesses per second, over the last half minute.\n\n".to_vec();
    for key in found {
        let field = |name: &str| field(key, name);
        let rate = match field("accesses-per-second") {
            Some(Value::Double { value, .. }) => *value,
            Some(value) => value.as_bytes().and_then(parse_f64).unwrap_or(0.0),
            None => 0.0,
        };
        let database = field("database").and_then(Value::as_integer).unwrap_or(0);
        write!(out, "hot key found with {rate:.0} accesses/s\tdatabase: {database}\tkeyname: ")?;
        put_quoted(&mut out, field("key").and_then(Value::as_bytes).unwrap_or_default());
        out.push(b'\n');
    }
    if found.is_empty() {
        out.extend_from_slice(b"No key was used often enough.\n");
    }
    Ok(Some(out))
}

/// A field of a map, which RESP2 sends as an array.
fn field<'v>(entry: &'v Value, name: &str) -> Option<&'v Value> {
    match entry {
        Value::Map(pairs) => Some(&pairs.iter().find(|(key, _)| key.as_bytes() == Some(name.as_bytes()))?.1),
        entry => {
            let mut pairs = entry.as_elements()?.chunks_exact(2);
            pairs.find(|pair| pair[0].as_bytes() == Some(name.as_bytes())).map(|pair| &pair[1])
        }
    }
}

/// Looks for the keys that are used most.
pub(crate) fn hottest(session: &mut Session) -> io::Result<bool> {
    if let Some(shown) = known_hottest(session)? {
        print(&shown)?;
        return Ok(true);
    }
    let mut walk = Walk::begin(session, "hot")?;
    // The hottest first; of equals, the one seen first.
    let mut hot: Vec<(i64, Vec<u8>)> = Vec::new();
    while let Some(keys) = walk.next(session)? {
        let questions: Vec<_> =
            keys.iter().map(|key| vec![b"OBJECT".to_vec(), b"FREQ".to_vec(), key.clone()]).collect();
        let counters = ask_all(session, &questions)?;
        for (key, counter) in keys.iter().zip(counters) {
            if let Some(error) = counter.as_error() {
                eprintln!("Error: {}", String::from_utf8_lossy(error));
                return Ok(false);
            }
            let Some(counter) = counter.as_integer().filter(|counter| *counter > 0) else { continue };
            let at = hot.partition_point(|(other, _)| *other >= counter);
            if at >= HOT_KEYS_SHOWN_MAX {
                continue;
            }
            hot.insert(at, (counter, key.clone()));
            hot.truncate(HOT_KEYS_SHOWN_MAX);
            let mut line = format!("[{:05.2}%] Hot key '", walk.percent()).into_bytes();
            put_quoted(&mut line, key);
            writeln!(line, "' found so far with counter {counter}")?;
            print(&line)?;
        }
        walk.count(keys.len())?;
    }
    let mut out = Vec::new();
    writeln!(out, "\n-------- summary -------\n\nSampled {} keys in the keyspace!", walk.sampled)?;
    for (counter, key) in &hot {
        write!(out, "hot key found with counter: {counter}\tkeyname: ")?;
        put_quoted(&mut out, key);
        out.push(b'\n');
    }
    print(&out)?;
    Ok(true)
}
