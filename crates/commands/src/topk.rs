//! Top-K sketches: the TOPK commands, as Redis's module has them.
//!
//! As there, the module's own commands check how many arguments they have. Chance is drawn from the sketch,
//! so commands are logged as they came.

mod table;

pub(crate) use table::COMMANDS;

use mantissa_protocol::{Args, Reply};
use mantissa_store::{TOP_K_INCREMENT_MAX, TopK, ValueType};

use crate::access::Access;
use crate::error::{Error, Outcome};
use crate::parse;

const NO_KEY: Error = Error::fixed("TopK: key does not exist");
const BAD_K: &str = "TopK: invalid k";
const BAD_WIDTH: &str = "TopK: invalid width";
const BAD_DEPTH: &str = "TopK: invalid depth";
const BAD_DECAY: &str = "TopK: invalid decay value. must be '<= 1' & '> 0'";
const BAD_INCREMENT: &str = "TopK: increment must be an integer greater or equal to 0 \
    \x20                          and smaller or equal to 100,000";
/// Width, depth and decay of a sketch that is made without them.
const DEFAULT_SIDES: (i64, i64, f64) = (8, 7, 0.9);

/// The sketch at a key, to read.
fn sketch<'a>(access: &'a Access<'_>, key: &[u8]) -> Outcome<&'a TopK> {
    access.collection(key)?.ok_or(NO_KEY)
}

/// A side; whether it is too large is told last.
fn side(argument: &[u8], error: &'static str) -> Outcome<i64> {
    parse::integer_in(argument, 1, i64::MAX, error)
}

fn reserve(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() != 3 && args.len() != 6 {
        return Err(Error::arity("topk.reserve"));
    }
    let key = args.at(1);
    if access.exists(key) {
        return Err(Error::fixed("TopK: key already exists"));
    }
    let k = side(args.at(2), BAD_K)?;
    let (mut width, mut depth, mut decay) = DEFAULT_SIDES;
    if args.len() == 6 {
        (width, depth) = (side(args.at(3), BAD_WIDTH)?, side(args.at(4), BAD_DEPTH)?);
        decay = parse::float_or(args.at(5), BAD_DECAY)?;
        if decay <= 0.0 || decay > 1.0 {
            return Err(Error::fixed(BAD_DECAY));
        }
    }
    let fit = |side: i64, error| u32::try_from(side).map_err(|_| Error::fixed(error));
    let (k, width, depth) = (fit(k, BAD_K)?, fit(width, BAD_WIDTH)?, fit(depth, BAD_DEPTH)?);
    let sketch = TopK::new(k, width, depth, decay).ok_or(Error::fixed(BAD_WIDTH))?;
    access.put(key, sketch.into_value(), None)?;
    access.changed(key);
    reply.ok();
    Ok(())
}

/// Adds an item and writes the one that had to leave.
fn add_one(sketch: &mut TopK, item: &[u8], increment: u32, reply: &mut Reply) {
    match sketch.add(item, increment).expelled {
        Some(expelled) => reply.bulk(&expelled),
        None => reply.null(),
    }
}

fn add(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() < 3 {
        return Err(Error::arity("topk.add"));
    }
    let key = args.at(1);
    let sketch = access.collection_mut::<TopK>(key)?.ok_or(NO_KEY)?;
    let items = args.from(2);
    reply.array(items.len());
    items.iter().for_each(|item| add_one(sketch, item, 1, reply));
    access.changed(key);
    Ok(())
}

fn incrby(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() < 4 || args.len() % 2 == 1 {
        return Err(Error::arity("topk.incrby"));
    }
    let key = args.at(1);
    let sketch = access.collection_mut::<TopK>(key)?.ok_or(NO_KEY)?;
    let deferred = reply.defer();
    let mut written = 0;
    for at in (2..args.len()).step_by(2) {
        written += 1;
        let increment = mantissa_number::parse_i64(args.at(at + 1));
        let increment = increment.and_then(|number| u32::try_from(number).ok());
        let Some(increment) = increment.filter(|&number| number <= TOP_K_INCREMENT_MAX) else {
            // What came before stays.
            reply.error(BAD_INCREMENT);
            break;
        };
        add_one(sketch, args.at(at), increment, reply);
    }
    reply.finish_array(deferred, written);
    access.changed(key);
    Ok(())
}

fn query(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() < 3 {
        return Err(Error::arity("topk.query"));
    }
    let sketch = sketch(access, args.at(1))?;
    let items = args.from(2);
    reply.array(items.len());
    items.iter().for_each(|item| reply.boolean(sketch.contains(item)));
    Ok(())
}

fn count(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() < 3 {
        return Err(Error::arity("topk.count"));
    }
    let sketch = sketch(access, args.at(1))?;
    let items = args.from(2);
    reply.array(items.len());
    items.iter().for_each(|item| reply.integer(sketch.estimate(item).into()));
    Ok(())
}

fn list(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if !(2..=3).contains(&args.len()) {
        return Err(Error::arity("topk.list"));
    }
    let with_count = args.get(2).is_some();
    // The module compares no more letters than are given.
    let is_keyword = |word: &[u8]| "WITHCOUNT".get(..word.len()).is_some_and(|start| parse::is(word, start));
    if args.get(2).is_some_and(|word| !is_keyword(word)) {
        return Err(Error::fixed("WITHCOUNT keyword expected"));
    }
    let items = sketch(access, args.at(1))?.list();
    reply.array(items.len() * if with_count { 2 } else { 1 });
    for item in items {
        reply.bulk(item.item);
        if with_count {
            reply.integer(item.count.into());
        }
    }
    Ok(())
}

fn info(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() != 2 {
        return Err(Error::arity("topk.info"));
    }
    let sketch = sketch(access, args.at(1))?;
    reply.map(4);
    for (name, side) in [("k", sketch.k()), ("width", sketch.width()), ("depth", sketch.depth())] {
        reply.simple(name);
        reply.integer(side.into());
    }
    reply.simple("decay");
    reply.double(sketch.decay());
    Ok(())
}
