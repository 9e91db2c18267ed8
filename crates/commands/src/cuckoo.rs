//! Cuckoo filters: the CF commands, as Redis's module has them.
//!
//! As there, the module's own commands check how many arguments they have, and a mistake in what is asked for
//! comes before a key of another type.

mod dump;
mod info;
mod table;

pub(crate) use table::COMMANDS;

use mantissa_protocol::{Args, Reply};
use mantissa_store::{CuckooAdded, CuckooFilter, CuckooShape, ValueType};

use crate::access::Access;
use crate::error::{Error, Outcome};
use crate::filter_settings::CuckooMaking;
use crate::parse;

const NOT_FOUND: Error = Error::fixed("ERR not found");
const TOO_FEW: Error = Error::fixed("Capacity must be at least (BucketSize * 2)");
const NO_MEMORY: &str = "ERR Insufficient memory";

fn made(making: CuckooMaking) -> Option<CuckooFilter> {
    let capacity = u64::try_from(making.capacity).ok()?;
    let small = |number: i64| u16::try_from(number).ok();
    let (bucket_size, steps, growth) =
        (small(making.bucket_size)?, small(making.steps)?, small(making.growth)?);
    CuckooFilter::new(CuckooShape::new(capacity, bucket_size, steps, growth)?)
}

/// Makes the filter at a key where nothing is.
fn put_made(access: &mut Access<'_>, key: &[u8], making: CuckooMaking) -> Outcome {
    let filter = made(making).ok_or(Error::fixed("ERR Insufficient memory to create filter"))?;
    access.put(key, filter.into_value(), None)?;
    access.changed(key);
    Ok(())
}

/// Logs how the filter at a key was made, and then what adds the items, if there are some: whoever reads the
/// log may have other settings.
fn log_making(access: &mut Access<'_>, making: CuckooMaking, key: &[u8], adds: Option<Args<'_>>) {
    let CuckooMaking { capacity, bucket_size, steps, growth } = making;
    let [capacity, bucket_size, steps, growth] =
        [capacity, bucket_size, steps, growth].map(|number| number.to_string());
    access.log_instead(&[
        b"CF.RESERVE",
        key,
        capacity.as_bytes(),
        b"BUCKETSIZE",
        bucket_size.as_bytes(),
        b"MAXITERATIONS",
        steps.as_bytes(),
        b"EXPANSION",
        growth.as_bytes(),
    ]);
    if let Some(adds) = adds {
        access.log_instead(&adds.iter().collect::<Vec<_>>());
    }
}

/// Refuses to add items to a filter of so many parts.
fn check_parts(access: &Access<'_>, parts: usize) -> Outcome {
    // What a log says has been admitted.
    match !access.is_loading() && parts >= access.settings().filters.cuckoo_parts_max {
        true => Err(Error::fixed("Maximum expansions reached")),
        false => Ok(()),
    }
}

/// The filter at a key, to read.
fn filter<'a>(access: &'a Access<'_>, key: &[u8]) -> Outcome<&'a CuckooFilter> {
    access.collection(key)?.ok_or(NOT_FOUND)
}

/// The number after a keyword, which the module looks for among all words of a command, if it is there.
fn option(
    args: Args<'_>,
    keyword: &'static str,
    range: std::ops::RangeInclusive<i64>,
) -> Outcome<Option<i64>> {
    let Some(place) = args.iter().position(|word| parse::is(word, keyword)) else { return Ok(None) };
    let number = args.get(place + 1).and_then(mantissa_number::parse_i64);
    let number = number.ok_or_else(|| Error::new(format!("Couldn't parse {keyword}")))?;
    if range.contains(&number) {
        return Ok(Some(number));
    }
    let (from, to) = (range.start(), range.end());
    let text = format!("{keyword}: value must be an integer between {from} and {to}, inclusive.");
    Err(Error::new(text))
}

fn reserve(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() < 3 || args.len().is_multiple_of(2) {
        return Err(Error::arity("cf.reserve"));
    }
    let mut making = access.settings().filters.cuckoo;
    making.capacity = parse::integer_or(args.at(2), "Bad capacity")?;
    // In a log a key may have the name of an option.
    let words = if access.is_loading() { args.from(3) } else { args };
    making.steps = option(words, "MAXITERATIONS", 1..=65_535)?.unwrap_or(making.steps);
    making.bucket_size = option(words, "BUCKETSIZE", 1..=255)?.unwrap_or(making.bucket_size);
    making.growth = option(words, "EXPANSION", 0..=32_768)?.unwrap_or(making.growth);
    if making.bucket_size * 2 > making.capacity {
        return Err(TOO_FEW);
    }
    let key = args.at(1);
    if access.collection_mut::<CuckooFilter>(key)?.is_some() {
        return Err(Error::fixed("ERR item exists"));
    }
    put_made(access, key, making)?;
    log_making(access, making, key, None);
    reply.ok();
    Ok(())
}

/// The filter at a key, to add items to.
fn filter_to_fill<'a>(access: &'a mut Access<'_>, key: &[u8]) -> Outcome<&'a mut CuckooFilter> {
    let parts = access.collection_mut::<CuckooFilter>(key)?.ok_or(NOT_FOUND)?.filters();
    check_parts(access, parts)?;
    access.collection_mut::<CuckooFilter>(key)?.ok_or(NOT_FOUND)
}

fn add_one(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply, only_new: bool) -> Outcome {
    let key = args.at(1);
    // A filter has one part at least.
    check_parts(access, 1)?;
    let making = access.settings().filters.cuckoo;
    let parts_max = if access.is_loading() { usize::MAX } else { access.settings().filters.cuckoo_parts_max };
    let make = || made(making).unwrap_or_default().into_value();
    let (entry, is_made) = access.find_or_insert(key, make)?;
    let filter = entry.into_mut().collection_mut().and_then(CuckooFilter::of_mut).ok_or(Error::WRONG_TYPE)?;
    if filter.filters() >= parts_max {
        return Err(Error::fixed("Maximum expansions reached"));
    }
    let added = filter.add(args.at(2), only_new);
    if is_made || added == CuckooAdded::New {
        access.changed(key);
    }
    if is_made {
        log_making(access, making, key, Some(args));
    }
    match added {
        CuckooAdded::New | CuckooAdded::Present => reply.boolean(added == CuckooAdded::New),
        CuckooAdded::Full => return Err(Error::fixed("Filter is full")),
        CuckooAdded::TooLarge => return Err(Error::fixed(NO_MEMORY)),
    }
    Ok(())
}

fn add(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() != 3 {
        return Err(Error::arity("cf.add"));
    }
    add_one(access, args, reply, false)
}

fn addnx(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() != 3 {
        return Err(Error::arity("cf.addnx"));
    }
    add_one(access, args, reply, true)
}

/// The options of CF.INSERT and CF.INSERTNX, of which the module looks at the first letters only.
struct Insertion<'a> {
    capacity: Option<i64>,
    creates: bool,
    items: Args<'a>,
}

impl<'a> Insertion<'a> {
    /// The options, for buckets of this size.
    fn parse(args: Args<'a>, name: &str, bucket_size: i64) -> Outcome<Self> {
        let arity = || Error::arity(name);
        let (mut capacity, mut creates, mut at) = (None, true, 2);
        let items = loop {
            let word = args.get(at).ok_or_else(arity)?;
            match word.first().map_or(0, u8::to_ascii_lowercase) {
                b'i' => break args.from(at + 1),
                b'n' => creates = false,
                b'c' => {
                    at += 1;
                    let number = parse::integer_or(args.get(at).ok_or_else(arity)?, "Bad capacity")?;
                    if bucket_size * 2 > number {
                        return Err(TOO_FEW);
                    }
                    capacity = Some(number);
                }
                _ => return Err(Error::fixed("Unknown argument received")),
            }
            at += 1;
        };
        if items.is_empty() { Err(arity()) } else { Ok(Insertion { capacity, creates, items }) }
    }
}

fn insert_all(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply, only_new: bool) -> Outcome {
    let name = if only_new { "cf.insertnx" } else { "cf.insert" };
    if args.len() < 4 {
        return Err(Error::arity(name));
    }
    let default = access.settings().filters.cuckoo;
    // What a log says has been admitted.
    let bucket_size = if access.is_loading() { 0 } else { default.bucket_size };
    let Insertion { capacity, creates, items } = Insertion::parse(args, name, bucket_size)?;
    let making = CuckooMaking { capacity: capacity.unwrap_or(default.capacity), ..default };
    let key = args.at(1);
    let is_made = creates && access.collection_mut::<CuckooFilter>(key)?.is_none();
    if is_made {
        check_parts(access, 1)?;
        put_made(access, key, making)?;
        log_making(access, making, key, None);
    }
    let filter = filter_to_fill(access, key)?;
    reply.array(items.len());
    let mut is_changed = false;
    for item in items {
        let added = filter.add(item, only_new);
        is_changed |= added == CuckooAdded::New;
        match added {
            CuckooAdded::TooLarge => reply.error(NO_MEMORY),
            // The module's CF.INSERT tells only two answers apart in RESP3.
            CuckooAdded::Full if only_new || !reply.is_resp3() => reply.integer(-1),
            _ if only_new => reply.integer(i64::from(added == CuckooAdded::New)),
            _ => reply.boolean(added == CuckooAdded::New),
        }
    }
    if is_changed {
        access.changed(key);
    }
    if is_made || (is_changed && default != CuckooMaking::DEFAULT) {
        // A capacity says nothing to those who have the filter, and may be too small for their settings.
        let words = [args.at(0), key, b"NOCREATE", b"ITEMS"].into_iter().chain(items.iter());
        access.log_instead(&words.collect::<Vec<_>>());
    }
    Ok(())
}

fn insert(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    insert_all(access, args, reply, false)
}

fn insertnx(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    insert_all(access, args, reply, true)
}

/// The filter at a key, to look for items: a value of another type holds none.
fn filter_to_search<'a>(access: &'a Access<'_>, key: &[u8]) -> Option<&'a CuckooFilter> {
    access.collection(key).unwrap_or_default()
}

fn exists(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() != 3 {
        return Err(Error::arity("cf.exists"));
    }
    let filter = filter_to_search(access, args.at(1));
    reply.boolean(filter.is_some_and(|filter| filter.contains(args.at(2))));
    Ok(())
}

fn mexists(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() < 3 {
        return Err(Error::arity("cf.mexists"));
    }
    let filter = filter_to_search(access, args.at(1));
    let items = args.from(2);
    reply.array(items.len());
    for item in items {
        reply.boolean(filter.is_some_and(|filter| filter.contains(item)));
    }
    Ok(())
}

fn count(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() != 3 {
        return Err(Error::arity("cf.count"));
    }
    let filter = filter_to_search(access, args.at(1));
    reply.integer(filter.map_or(0, |filter| filter.count(args.at(2))) as i64);
    Ok(())
}

fn del(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() != 3 {
        return Err(Error::arity("cf.del"));
    }
    let key = args.at(1);
    let filter = access.collection_mut::<CuckooFilter>(key).unwrap_or_default();
    let is_removed = filter.ok_or(Error::fixed("Not found"))?.remove(args.at(2));
    if is_removed {
        access.changed(key);
    }
    reply.boolean(is_removed);
    Ok(())
}

fn compact(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() != 2 {
        return Err(Error::arity("cf.compact"));
    }
    let key = args.at(1);
    let filter = access.collection_mut::<CuckooFilter>(key).unwrap_or_default();
    filter.ok_or(Error::fixed("Cuckoo filter was not found"))?.pull_together(true);
    access.changed(key);
    reply.ok();
    Ok(())
}
