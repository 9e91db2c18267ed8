//! HyperLogLog: how many different elements were added, within 0.81 %, in 12 KB or less.
//!
//! A sketch is a string in Redis's own format, byte for byte: GET, SET, DUMP and clients that merge sketches
//! themselves see what they would see there.

mod estimate;
mod sketch;
mod sparse;

use mantissa_protocol::{Args, Reply};
use mantissa_store::{Entry, Text, Value};

use crate::DataSpec;
use crate::access::{Access, split_mix};
use crate::effects::EventClass;
use crate::error::{Error, Outcome};
use crate::parse;
use crate::spec::{Categories, Flags, Group, KeyFlags, KeySpec, Locks};

use sketch::{Corrupt, REGISTERS, Registers};

const NOT_A_SKETCH: Error = Error::fixed("WRONGTYPE Key is not a valid HyperLogLog string value.");

impl From<Corrupt> for Error {
    fn from(_: Corrupt) -> Error {
        Error::fixed("INVALIDOBJ Corrupted HLL object detected")
    }
}

/// Estimates how many different elements there are, within 0.81 %.
pub(crate) struct Estimate(Box<Registers>);

impl Estimate {
    /// Of no elements.
    pub fn new() -> Estimate {
        Estimate(Box::new([0; REGISTERS]))
    }

    /// Adds an element.
    pub fn add(&mut self, element: &[u8]) {
        let (index, value) = sketch::register_of(element);
        self.0[index] = self.0[index].max(value);
    }

    /// About how many there are.
    pub fn count(&self) -> u64 {
        estimate::cardinality(&sketch::histogram_of(&self.0))
    }
}

/// Has `work` called with the bytes of the sketch in an entry.
fn with_sketch<R>(entry: &Entry, work: impl FnOnce(&[u8]) -> Outcome<R>) -> Outcome<R> {
    let mut digits = [0; 20];
    let text = entry.as_string().ok_or(Error::WRONG_TYPE)?;
    let bytes = text.text(&mut digits);
    if sketch::is_sketch(bytes) { work(bytes) } else { Err(NOT_A_SKETCH) }
}

/// The bytes of the sketch in an entry, to change.
fn sketch_mut(entry: &mut Entry) -> Outcome<&mut Vec<u8>> {
    with_sketch(entry, |_| Ok(()))?;
    entry.text_mut().map(Text::make_mut).ok_or(Error::WRONG_TYPE)
}

/// The bytes of the sketch at a key, to change, and whether the key is new.
fn sketch_or_new<'a>(access: &'a mut Access<'_>, key: &[u8]) -> Outcome<(&'a mut Vec<u8>, bool)> {
    let (entry, is_new) = access.find_or_insert(key, || Value::String(sketch::new()))?;
    Ok((sketch_mut(entry.into_mut())?, is_new))
}

fn pfadd(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let key = args.at(1);
    let bytes_max = access.settings().sparse_hyperloglog_bytes_max;
    let (bytes, is_new) = sketch_or_new(access, key)?;
    let mut changes = u64::from(is_new);
    for element in args.from(2) {
        changes += u64::from(sketch::add(bytes, element, bytes_max)?);
    }
    if changes > 0 {
        sketch::make_stale(bytes);
        access.changed_by(key, changes);
        access.event(EventClass::STRING, "pfadd", key);
    }
    reply.integer(i64::from(changes > 0));
    Ok(())
}

fn pfcount(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() > 2 {
        let mut registers = [0; REGISTERS];
        for key in args.from(1) {
            merge(access, key, &mut registers)?;
        }
        let cardinality = estimate::cardinality(&sketch::histogram_of(&registers));
        reply.integer(cardinality as i64);
        return Ok(());
    }
    let key = args.at(1);
    let Some(entry) = access.read(key) else {
        reply.integer(0);
        return Ok(());
    };
    let (noted, cardinality) = with_sketch(entry, |bytes| match sketch::noted_cardinality(bytes) {
        Some(noted) => Ok((true, noted)),
        None => Ok((false, estimate::cardinality(&sketch::histogram(bytes)?))),
    })?;
    if !noted && let Some(entry) = access.find_mut(key) {
        sketch::note_cardinality(sketch_mut(entry)?, cardinality);
        access.changed(key);
    }
    reply.integer(cardinality as i64);
    Ok(())
}

/// Raises `registers` to those of the sketch at a key, if there is one.
fn merge(access: &Access<'_>, key: &[u8], registers: &mut Registers) -> Outcome {
    let Some(entry) = access.read(key) else { return Ok(()) };
    with_sketch(entry, |bytes| Ok(sketch::merge(registers, bytes)?))
}

/// Whether there is a dense sketch at a key.
fn has_dense(access: &Access<'_>, key: &[u8]) -> bool {
    let is_dense = |entry| with_sketch(entry, |bytes| Ok(!sketch::is_sparse(bytes)));
    access.peek(key).is_some_and(|entry| is_dense(entry).unwrap_or(false))
}

/// Merges sketches into the one at the first key, which becomes dense.
fn merge_densely(access: &mut Access<'_>, keys: Args<'_>) -> Outcome {
    let mut merged = sketch::new_dense();
    for key in keys {
        let Some(entry) = access.read(key) else { continue };
        with_sketch(entry, |bytes| Ok(sketch::merge_into_dense(&mut merged, bytes)?))?;
    }
    let (bytes, _) = sketch_or_new(access, keys.at(0))?;
    sketch::make_dense(bytes)?;
    sketch::copy_registers(bytes, &merged);
    sketch::make_stale(bytes);
    Ok(())
}

fn merge_sparsely(access: &mut Access<'_>, keys: Args<'_>) -> Outcome {
    let mut registers = [0; REGISTERS];
    for key in keys {
        merge(access, key, &mut registers)?;
    }
    let bytes_max = access.settings().sparse_hyperloglog_bytes_max;
    let (bytes, _) = sketch_or_new(access, keys.at(0))?;
    for (index, &value) in registers.iter().enumerate().filter(|(_, value)| **value > 0) {
        sketch::raise(bytes, index, value, bytes_max)?;
    }
    sketch::make_stale(bytes);
    Ok(())
}

fn pfmerge(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (key, keys) = (args.at(1), args.from(1));
    match keys.iter().any(|key| has_dense(access, key)) {
        true => merge_densely(access, keys)?,
        false => merge_sparsely(access, keys)?,
    }
    access.modified(key, EventClass::STRING, "pfadd");
    reply.ok();
    Ok(())
}

fn pfdebug(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (name, key) = (args.at(1), args.at(2));
    if parse::is(name, "SIMD") {
        // There is one way of counting: which one is said to be used makes no difference.
        let word =
            [("ON", "enabled"), ("OFF", "disabled")].into_iter().find(|(word, _)| parse::is(key, word));
        reply.simple(word.ok_or(Error::fixed("ERR Argument must be ON or OFF"))?.1);
        return Ok(());
    }
    let Some(entry) = access.find_mut(key) else {
        return Err(Error::fixed("ERR The specified key does not exist"));
    };
    let bytes = sketch_mut(entry)?;
    let is_sparse = sketch::is_sparse(bytes);
    let converts = is_sparse && (parse::is(name, "GETREG") || parse::is(name, "TODENSE"));
    if converts {
        sketch::make_dense(bytes)?;
    }
    if parse::is(name, "GETREG") {
        let mut registers = [0; REGISTERS];
        sketch::merge(&mut registers, bytes)?;
        reply.array(REGISTERS);
        registers.iter().for_each(|&value| reply.integer(i64::from(value)));
    } else if parse::is(name, "DECODE") {
        if !is_sparse {
            return Err(Error::fixed("ERR HLL encoding is not sparse"));
        }
        reply.bulk(sparse::describe(bytes).as_bytes());
    } else if parse::is(name, "ENCODING") {
        reply.simple(if is_sparse { "sparse" } else { "dense" });
    } else if parse::is(name, "TODENSE") {
        reply.integer(i64::from(is_sparse));
    } else {
        return Err(Error::quoting("ERR Unknown PFDEBUG subcommand '", name, "'"));
    }
    if converts {
        access.changed(key);
    }
    Ok(())
}

/// Fills a sketch and compares it with registers kept beside it, and its estimates with the truth.
fn pfselftest(_access: &mut Access<'_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    const ELEMENTS: u64 = 100_000;
    let (mut small, mut large) = (sketch::new(), sketch::new());
    sketch::make_dense(&mut large)?;
    let (mut state, mut next) = (1, 1);
    for number in 1..=ELEMENTS {
        let element = split_mix(&mut state).to_le_bytes();
        for bytes in [&mut small, &mut large] {
            sketch::add(bytes, &element, 3000)?;
        }
        if number < next {
            continue;
        }
        next *= 2;
        let histogram = sketch::histogram(&large)?;
        if sketch::histogram(&small)? != histogram {
            return Err(Error::new(format!("TESTFAILED sparse and dense differ at {number} elements")));
        }
        let error = estimate::cardinality(&histogram).abs_diff(number);
        if error > 10 + number / 20 {
            return Err(Error::new(format!(
                "TESTFAILED the estimate is off by {error} at {number} elements"
            )));
        }
    }
    reply.ok();
    Ok(())
}

const ADDS: KeyFlags = KeyFlags::RW.or(KeyFlags::INSERT);
const READS: KeyFlags = KeyFlags::RO.or(KeyFlags::ACCESS);

/// The registration table.
pub(crate) const COMMANDS: &[DataSpec] = &[
    DataSpec::new("pfadd", -2, pfadd, Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST))
        .categories(Categories::HYPERLOGLOG)
        .keys(&[KeySpec::one(1, ADDS)])
        .docs(Group::HyperLogLog, "2.8.9", "O(1) for each element", "Shows elements to a sketch.")
        .arguments("key:key#0 element:string?*"),
    DataSpec::new("pfcount", -2, pfcount, Flags::READONLY.or(Flags::MAY_REPLICATE))
        .categories(Categories::HYPERLOGLOG)
        .keys(&[KeySpec::range(1, -1, 1, KeyFlags::RW.or(KeyFlags::ACCESS))
            .notes("The estimate is noted in the string, which is a change")])
        .docs(
            Group::HyperLogLog,
            "2.8.9",
            "O(1) for one key, mostly noted; O(N) for N keys",
            "Estimates how many different elements sketches have seen together.",
        )
        .arguments("key:key#0*"),
    DataSpec::new("pfmerge", -2, pfmerge, Flags::WRITE.or(Flags::DENYOOM))
        .categories(Categories::HYPERLOGLOG)
        .keys(&[KeySpec::one(1, ADDS.or(KeyFlags::ACCESS)), KeySpec::range(2, -1, 1, READS)])
        .docs(Group::HyperLogLog, "2.8.9", "O(N) for N sketches", "Makes one sketch of several.")
        .arguments("destkey:key#0 sourcekey:key#1?*"),
    DataSpec::new("pfdebug", 3, pfdebug, Flags::WRITE.or(Flags::DENYOOM).or(Flags::ADMIN))
        .categories(Categories::HYPERLOGLOG)
        .keys(&[KeySpec::one(2, KeyFlags::RW.or(KeyFlags::ACCESS))])
        .docs(Group::HyperLogLog, "2.8.9", "Depends on the subcommand", "Looks into a sketch, for tests.")
        .internal()
        .arguments("subcommand:string key:key#0"),
    DataSpec::new("pfselftest", 1, pfselftest, Flags::ADMIN)
        .categories(Categories::HYPERLOGLOG)
        .locks(Locks::Nothing)
        .docs(Group::HyperLogLog, "2.8.9", "O(1)", "Tests the sketches themselves.")
        .internal(),
];
