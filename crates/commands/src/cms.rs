//! Count-Min sketches: the CMS commands, as Redis's module has them.
//!
//! As there, the module's own commands check how many arguments they have.

mod table;

pub(crate) use table::COMMANDS;

use mantissa_number::{INTEGER_TEXT_MAX, format_i64};
use mantissa_protocol::{Args, Reply};
use mantissa_store::{CountMinSketch, ValueType, WeightedSketch};
use smallvec::SmallVec;

use crate::access::Access;
use crate::error::{Error, Outcome};
use crate::parse;
use crate::spec::{KeyFlags, KeyPosition, KeyPositions};

const NO_KEY: Error = Error::fixed("CMS: key does not exist");
const EXISTS: Error = Error::fixed("CMS: key already exists");
const UNFIT: Error = Error::fixed("CMS: invalid init arguments");

/// The sketch at a key, to read.
fn sketch<'a>(access: &'a Access<'_>, key: &[u8]) -> Outcome<&'a CountMinSketch> {
    access.collection(key)?.ok_or(NO_KEY)
}

/// Makes a sketch. It is logged by its sides, however they were told.
fn create(access: &mut Access<'_>, key: &[u8], width: i64, depth: i64, reply: &mut Reply) -> Outcome {
    let sketch = CountMinSketch::new(width.cast_unsigned(), depth.cast_unsigned()).ok_or(UNFIT)?;
    access.put(key, sketch.into_value(), None)?;
    access.changed(key);
    let mut digits = [[0; INTEGER_TEXT_MAX]; 2];
    let [of_width, of_depth] = &mut digits;
    let (width, depth) = (format_i64(of_width, width), format_i64(of_depth, depth));
    access.log_instead(&[b"CMS.INITBYDIM", key, width, depth]);
    reply.ok();
    Ok(())
}

fn init_by_dim(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() != 4 {
        return Err(Error::arity("cms.initbydim"));
    }
    if access.exists(args.at(1)) {
        return Err(EXISTS);
    }
    let width = parse::integer_in(args.at(2), 1, i64::MAX, "CMS: invalid width")?;
    let depth = parse::integer_in(args.at(3), 1, i64::MAX, "CMS: invalid depth")?;
    create(access, args.at(1), width, depth, reply)
}

/// A number between 0 and 1, neither included.
fn fraction(argument: &[u8], error: &'static str) -> Outcome<f64> {
    let number = parse::float_or(argument, error)?;
    if number > 0.0 && number < 1.0 { Ok(number) } else { Err(Error::fixed(error)) }
}

fn init_by_prob(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() != 4 {
        return Err(Error::arity("cms.initbyprob"));
    }
    if access.exists(args.at(1)) {
        return Err(EXISTS);
    }
    let error = fraction(args.at(2), "CMS: invalid overestimation value")?;
    let probability = fraction(args.at(3), "CMS: invalid prob value")?;
    let width = (2.0 / error).ceil();
    // The module computes in binary32 here.
    let depth = ((probability as f32).log10() / 0.5f32.log10()).ceil();
    if width >= i64::MAX as f64 || depth.is_infinite() || depth < 1.0 {
        return Err(UNFIT);
    }
    create(access, args.at(1), width as i64, depth as i64, reply)
}

fn incrby(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() < 4 || args.len() % 2 == 1 {
        return Err(Error::arity("cms.incrby"));
    }
    let key = args.at(1);
    let sketch = access.collection_mut::<CountMinSketch>(key)?.ok_or(NO_KEY)?;
    let mut increments: SmallVec<[u64; 8]> = SmallVec::new();
    for at in (3..args.len()).step_by(2) {
        let increment = parse::integer_or(args.at(at), "CMS: Cannot parse number")?;
        let increment = u64::try_from(increment);
        increments.push(increment.map_err(|_| Error::fixed("CMS: Number cannot be negative"))?);
    }
    reply.array(increments.len());
    for (number, increment) in increments.into_iter().enumerate() {
        match sketch.increment(args.at(2 + 2 * number), increment) {
            u32::MAX => reply.error("CMS: INCRBY overflow"),
            estimate => reply.integer(estimate.into()),
        }
    }
    access.changed(key);
    Ok(())
}

fn query(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() < 3 {
        return Err(Error::arity("cms.query"));
    }
    let sketch = sketch(access, args.at(1))?;
    let items = args.from(2);
    reply.array(items.len());
    items.iter().for_each(|item| reply.integer(sketch.estimate(item).into()));
    Ok(())
}

/// Adds the keys of the sources of a merge: a count at argument 2, then that many.
pub(crate) fn find_sources(args: Args<'_>, found: &mut KeyPositions) {
    let count = args.get(2).and_then(mantissa_number::parse_i64).unwrap_or(0);
    let count = usize::try_from(count).unwrap_or(0).min(args.len().saturating_sub(3));
    let flags = KeyFlags::RO.or(KeyFlags::ACCESS);
    found.extend((3..3 + count).map(|index| KeyPosition { index, flags }));
}

fn merge(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() < 4 {
        return Err(Error::arity("cms.merge"));
    }
    let key = args.at(1);
    let destination = sketch(access, key)?;
    let key_count = parse::integer_or(args.at(2), "CMS: invalid numkeys")?;
    if key_count <= 0 {
        return Err(Error::fixed("CMS: Number of keys must be positive"));
    }
    let words = args.from(3);
    let key_count = usize::try_from(key_count).unwrap_or(usize::MAX);
    let weights_at = words.iter().position(|word| parse::is(word, "WEIGHTS"));
    match weights_at {
        None if words.len() != key_count => return Err(Error::fixed("CMS: wrong number of keys")),
        Some(at) if at != key_count || words.len() - 1 != 2 * key_count => {
            return Err(Error::fixed("CMS: wrong number of keys/weights"));
        }
        _ => {}
    }
    let mut sources: SmallVec<[WeightedSketch<'_>; 8]> = SmallVec::new();
    for number in 0..key_count {
        let weight = match weights_at {
            None => 1,
            Some(at) => parse::integer_or(words.at(at + 1 + number), "CMS: invalid weight value")?,
        };
        let source = sketch(access, words.at(number))?;
        if (source.width(), source.depth()) != (destination.width(), destination.depth()) {
            return Err(Error::fixed("CMS: width/depth is not equal"));
        }
        sources.push((source, weight));
    }
    let merged = destination.merged(&sources).ok_or(Error::fixed("CMS: MERGE overflow"))?;
    drop(sources);
    if let Some(destination) = access.collection_mut::<CountMinSketch>(key)? {
        let before = std::mem::replace(destination, merged);
        access.free_later(before.into_value());
    }
    access.changed(key);
    reply.ok();
    Ok(())
}

fn info(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() != 2 {
        return Err(Error::arity("cms.info"));
    }
    let sketch = sketch(access, args.at(1))?;
    let facts = [("width", sketch.width()), ("depth", sketch.depth()), ("count", sketch.count())];
    reply.map(facts.len());
    for (name, value) in facts {
        reply.simple(name);
        reply.integer(value.cast_signed());
    }
    Ok(())
}
