//! Bloom filters: the BF commands, as Redis's module has them.
//!
//! As there, the module's own commands check how many arguments they have, and a mistake in what is asked for
//! comes before a key of another type.

mod dump;
mod info;
mod table;

pub(crate) use table::COMMANDS;

use std::ops::ControlFlow;

use mantissa_number::{FloatText, format_f64};
use mantissa_protocol::{Args, Reply};
use mantissa_store::{BloomAdded, BloomFilter, ValueType};

use crate::access::Access;
use crate::error::{Error, Outcome};
use crate::filter_settings::BloomMaking;
use crate::parse;

const NOT_FOUND: Error = Error::fixed("ERR not found");
const FULL: &str = "ERR non scaling filter is full";
const TOO_LARGE: &str = "ERR problem inserting into filter";
const NO_MEMORY: Error = Error::fixed("ERR Insufficient memory to create filter");

fn made(making: BloomMaking) -> Option<BloomFilter> {
    let capacity = u64::try_from(making.capacity).ok()?;
    BloomFilter::new(capacity, making.error, making.expansion as u32, making.is_fixed)
}

/// Logs a command that has made a filter, in words that say how: whoever reads the log may have other
/// settings.
fn log_making(access: &mut Access<'_>, making: BloomMaking, key: &[u8], items: Args<'_>) {
    let mut error = FloatText::new();
    let error = format_f64(&mut error, making.error).as_bytes();
    let (capacity, expansion) = (making.capacity.to_string(), making.expansion.to_string());
    let (capacity, expansion) = (capacity.as_bytes(), expansion.as_bytes());
    let mut words: Vec<&[u8]> = vec![b"BF.INSERT", key, b"CAPACITY", capacity, b"ERROR", error];
    words.extend([b"EXPANSION", expansion]);
    if making.is_fixed {
        words.push(b"NONSCALING");
    }
    words.push(b"ITEMS");
    words.extend(items.iter());
    access.log_instead(&words);
}

/// The filter at a key, to read.
fn filter<'a>(access: &'a Access<'_>, key: &[u8]) -> Outcome<&'a BloomFilter> {
    access.collection(key)?.ok_or(NOT_FOUND)
}

/// The place of a keyword among all words of a command, its name and key included, as for the module.
fn place_of(args: Args<'_>, keyword: &str) -> Option<usize> {
    args.iter().position(|word| parse::is(word, keyword))
}

fn reserve(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if !(4..=7).contains(&args.len()) {
        return Err(Error::arity("bf.reserve"));
    }
    let error = parse::float_or(args.at(2), "ERR bad error rate")?;
    if error >= 1.0 || error <= 0.0 {
        return Err(Error::fixed("ERR (0 < error rate range < 1) "));
    }
    let capacity = parse::integer_or(args.at(3), "ERR bad capacity")?;
    if capacity <= 0 {
        return Err(Error::fixed("ERR (capacity should be larger than 0)"));
    }
    let mut making = BloomMaking { capacity, error, ..access.settings().filters.bloom };
    let is_fixed = place_of(args, "NONSCALING").is_some();
    if is_fixed {
        (making.is_fixed, making.expansion) = (true, BloomMaking::DEFAULT.expansion);
    }
    if let Some(place) = place_of(args, "EXPANSION") {
        let text = args.get(place + 1).ok_or(Error::fixed("ERR no expansion"))?;
        if is_fixed {
            return Err(Error::fixed("Nonscaling filters cannot expand"));
        }
        making.expansion = parse::integer_or(text, "ERR bad expansion")?;
        if making.expansion < 1 {
            return Err(Error::fixed("ERR expansion should be greater or equal to 1"));
        }
        making.is_fixed = false;
    }
    let key = args.at(1);
    if access.collection_mut::<BloomFilter>(key)?.is_some() {
        return Err(Error::fixed("ERR item exists"));
    }
    let filter = made(making).ok_or(NO_MEMORY)?;
    access.put(key, filter.into_value(), None)?;
    access.changed(key);
    let expansion = making.expansion.to_string();
    if making.is_fixed && !is_fixed {
        access.log_instead(&[args.at(0), key, args.at(2), args.at(3), b"NONSCALING"]);
    } else if !making.is_fixed {
        let expansion: [&[u8]; 2] = [b"EXPANSION", expansion.as_bytes()];
        access.log_instead(&[&[args.at(0), key, args.at(2), args.at(3)], &expansion[..]].concat());
    }
    reply.ok();
    Ok(())
}

/// Adds items to a filter and writes what came of each, up to the first that finds the filter full. Whether
/// anything changed.
fn add_all(filter: &mut BloomFilter, items: Args<'_>, reply: &mut Reply) -> bool {
    let deferred = reply.defer();
    let (mut is_changed, mut written) = (false, 0);
    filter.add_all(items.iter(), |added| {
        written += 1;
        is_changed |= added == BloomAdded::New;
        match added {
            BloomAdded::New | BloomAdded::Present => reply.boolean(added == BloomAdded::New),
            BloomAdded::TooLarge => reply.error(TOO_LARGE),
            BloomAdded::Full => {
                reply.error(FULL);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    });
    reply.finish_array(deferred, written);
    is_changed
}

/// The filter at a key, to change, and whether it was made now, in this way.
fn filter_or_new<'a>(
    access: &'a mut Access<'_>,
    key: &[u8],
    making: BloomMaking,
) -> Outcome<(&'a mut BloomFilter, bool)> {
    let make = || made(making).unwrap_or_default().into_value();
    let (entry, is_new) = access.find_or_insert(key, make)?;
    let filter = entry.into_mut().collection_mut().and_then(BloomFilter::of_mut);
    filter.map(|filter| (filter, is_new)).ok_or(Error::WRONG_TYPE)
}

fn add(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() != 3 {
        return Err(Error::arity("bf.add"));
    }
    let key = args.at(1);
    let making = access.settings().filters.bloom;
    let (filter, is_made) = filter_or_new(access, key, making)?;
    let added = filter.add(args.at(2));
    if is_made || added == BloomAdded::New {
        access.changed(key);
    }
    if is_made {
        log_making(access, making, key, args.from(2));
    }
    match added {
        BloomAdded::New | BloomAdded::Present => reply.boolean(added == BloomAdded::New),
        BloomAdded::TooLarge => return Err(Error::fixed(TOO_LARGE)),
        BloomAdded::Full => return Err(Error::fixed(FULL)),
    }
    Ok(())
}

fn madd(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() < 3 {
        return Err(Error::arity("bf.madd"));
    }
    let key = args.at(1);
    let making = access.settings().filters.bloom;
    let (filter, is_made) = filter_or_new(access, key, making)?;
    if add_all(filter, args.from(2), reply) || is_made {
        access.changed(key);
    }
    if is_made {
        log_making(access, making, key, args.from(2));
    }
    Ok(())
}

/// The options of BF.INSERT, of which the module looks at single letters only.
struct Insertion<'a> {
    making: BloomMaking,
    creates: bool,
    items: Args<'a>,
}

impl<'a> Insertion<'a> {
    fn parse(args: Args<'a>, default: BloomMaking) -> Outcome<Self> {
        let arity = || Error::arity("bf.insert");
        let (mut making, mut creates, mut at) = (default, true, 2);
        let items = loop {
            let word = args.get(at).ok_or_else(arity)?;
            let letter = |index: usize| word.get(index).map_or(0, u8::to_ascii_lowercase);
            let mut value = || {
                at += 1;
                args.get(at).ok_or_else(arity)
            };
            match letter(0) {
                b'i' => break args.from(at + 1),
                b'e' if letter(1) == b'r' => making.error = parse::float_or(value()?, "Bad error rate")?,
                b'e' => {
                    making.expansion = parse::integer_or(value()?, "Bad expansion")?;
                    making.is_fixed &= !default.is_fixed;
                }
                b'c' => making.capacity = parse::integer_or(value()?, "Bad capacity")?,
                b'n' if letter(2) == b'c' => creates = false,
                b'n' => making.is_fixed = true,
                _ => return Err(Error::fixed("Unknown argument received")),
            }
            at += 1;
        };
        if items.is_empty() {
            return Err(arity());
        }
        let is_rate = making.error > 0.0 && making.error < 1.0;
        if !is_rate || making.capacity < 1 || making.expansion < 1 {
            return Err(Error::fixed("Bad argument received"));
        }
        Ok(Insertion { making, creates, items })
    }
}

fn insert(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() < 4 {
        return Err(Error::arity("bf.insert"));
    }
    let default = access.settings().filters.bloom;
    let Insertion { making, creates, items } = Insertion::parse(args, default)?;
    let key = args.at(1);
    let mut is_changed = false;
    if access.collection_mut::<BloomFilter>(key)?.is_none() {
        if !creates {
            return Err(NOT_FOUND);
        }
        let filter = made(making).ok_or(NO_MEMORY)?;
        access.put(key, filter.into_value(), None)?;
        is_changed = true;
        log_making(access, making, key, items);
    }
    let filter = access.collection_mut::<BloomFilter>(key)?.ok_or(NOT_FOUND)?;
    is_changed |= add_all(filter, items, reply);
    if is_changed {
        access.changed(key);
    }
    Ok(())
}

/// The union of filters of one shape. A destination that is there is one of them.
fn merge(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let count = parse::integer_in(args.at(2), 1, i64::MAX, "ERR numkeys should be greater than 0")?;
    let (key, sources) = (args.at(1), args.from(3));
    if usize::try_from(count) != Ok(sources.len()) {
        return Err(Error::SYNTAX);
    }
    let mut union = access.collection::<BloomFilter>(key)?.cloned();
    for source in sources {
        let source = filter(access, source)?;
        let Some(union) = &mut union else {
            union = Some(source.clone());
            continue;
        };
        if !union.unite(source) {
            return Err(Error::fixed("ERR filters of different shapes have no union"));
        }
    }
    let union = union.ok_or(NOT_FOUND)?.into_value();
    let expiry = access.expiry(key).flatten();
    access.put(key, union, expiry)?;
    access.changed(key);
    reply.ok();
    Ok(())
}

fn exists(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() != 3 {
        return Err(Error::arity("bf.exists"));
    }
    // A value of another type holds no item.
    let filter = access.collection::<BloomFilter>(args.at(1)).unwrap_or_default();
    reply.boolean(filter.is_some_and(|filter| filter.contains(args.at(2))));
    Ok(())
}

fn mexists(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() < 3 {
        return Err(Error::arity("bf.mexists"));
    }
    let filter = access.collection::<BloomFilter>(args.at(1)).unwrap_or_default();
    let items = args.from(2);
    reply.array(items.len());
    match filter {
        Some(filter) => filter.look_up_all(items.iter(), |is_there| reply.boolean(is_there)),
        None => items.iter().for_each(|_| reply.boolean(false)),
    }
    Ok(())
}
