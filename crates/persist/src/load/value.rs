//! Values as files hold them, one function a form.
//!
//! A form is either a count and that many strings, or one string that is a packed encoding. Counts are not
//! believed: every element read takes at least a byte of the file, so a damaged count ends in an error soon.

use super::{LoadOptions, module, stream};
use crate::format::{quicklist_container, value_type};
use crate::packed::{Damage, Packing, elements, intset, zipmap};
use crate::source::{LoadError, Source};
use mantissa_number::{INTEGER_TEXT_MAX, format_i64, parse_f64};
use mantissa_store::listpack::{Element, IntegerText, Listpack, ListpackError};
use mantissa_store::{EncodingLimits, Hash, List, Set, SortedSet, SortedSetBuilder, Value};
use std::io::Read;

/// The latest time that a field can expire at, as unix time in milliseconds.
const FIELD_EXPIRY_MS_MAX: i64 = 0xffff_ffff_fffe;

/// What reading a value came to.
pub(crate) enum Outcome {
    /// A collection with elements, or a stream.
    Value(Value),
    /// A collection without elements, which no key can hold.
    Empty,
    /// A module's value that was stepped over.
    Module,
}

/// From so many elements of a large collection is told how large it will be in all.
const TYPICAL_ELEMENTS: u64 = 1 << 10;

/// Why a collection was refused.
type Refusal = Damage;

const DUPLICATE_MEMBER: Refusal = Damage { at: 0, reason: "set has a member twice" };
const DUPLICATE_FIELD: Refusal = Damage { at: 0, reason: "hash has a field twice" };
const DUPLICATE_SCORED: Refusal = Damage { at: 0, reason: "sorted set has a member twice" };
const NOT_A_NUMBER: Refusal = Damage { at: 0, reason: "sorted set has a score that is no number" };
const UNPAIRED: Refusal = Damage { at: 0, reason: "packed elements do not come in pairs" };
const BAD_FIELD_EXPIRY: Refusal = Damage { at: 0, reason: "hash has a field with an impossible expiry" };

/// Reads a value of any type but strings.
pub(crate) fn read_value<R: Read>(
    source: &mut Source<R>,
    form: u8,
    options: &LoadOptions,
) -> Result<Outcome, LoadError> {
    let offset = source.offset();
    let limits = &options.limits;
    // What is packed already stays so unless it has too many elements, however long they are.
    let packed = match form {
        value_type::SET_LISTPACK
        | value_type::ZSET_ZIPLIST
        | value_type::ZSET_LISTPACK
        | value_type::HASH_ZIPLIST
        | value_type::HASH_LISTPACK
        | value_type::HASH_LISTPACK_EX_PRE_GA
        | value_type::HASH_LISTPACK_EX => Some(EncodingLimits {
            set_listpack_value_bytes_max: usize::MAX,
            sorted_set_value_bytes_max: usize::MAX,
            hash_value_bytes_max: usize::MAX,
            ..*limits
        }),
        _ => None,
    };
    let limits = packed.as_ref().unwrap_or(limits);
    Ok(match form {
        value_type::LIST
        | value_type::LIST_ZIPLIST
        | value_type::LIST_QUICKLIST
        | value_type::LIST_QUICKLIST_2 => {
            let list = read_list(source, form, limits)?;
            outcome(list.is_empty(), || Value::List(list))
        }
        value_type::SET | value_type::SET_INTSET | value_type::SET_LISTPACK => {
            let set = read_set(source, form, limits)?;
            outcome(set.is_empty(), || Value::Set(set))
        }
        value_type::ZSET | value_type::ZSET_2 | value_type::ZSET_ZIPLIST | value_type::ZSET_LISTPACK => {
            let set = read_sorted_set(source, form, limits)?;
            outcome(set.is_empty(), || Value::SortedSet(set))
        }
        value_type::HASH
        | value_type::HASH_ZIPMAP
        | value_type::HASH_ZIPLIST
        | value_type::HASH_LISTPACK
        | value_type::HASH_METADATA_PRE_GA
        | value_type::HASH_LISTPACK_EX_PRE_GA
        | value_type::HASH_METADATA
        | value_type::HASH_LISTPACK_EX => {
            let hash = read_hash(source, form, limits)?;
            outcome(hash.is_empty(), || Value::Hash(hash))
        }
        value_type::STREAM_LISTPACKS | value_type::STREAM_LISTPACKS_2 | value_type::STREAM_LISTPACKS_3 => {
            Outcome::Value(Value::Stream(stream::read(source, form, offset)?))
        }
        value_type::MODULE_2 => {
            module::read_key(source, offset, options.skip_modules)?;
            Outcome::Module
        }
        value_type::MODULE_PRE_GA => {
            return source.error(offset, "pre-release module format not supported");
        }
        _ => return source.error(offset, format!("unknown RDB encoding type {form}")),
    })
}

fn outcome(is_empty: bool, value: impl FnOnce() -> Value) -> Outcome {
    if is_empty { Outcome::Empty } else { Outcome::Value(value()) }
}

/// Reads one string and has `work` take it apart; what is wrong with it is told with its offset.
fn unpack<R: Read>(
    source: &mut Source<R>,
    work: impl FnOnce(&[u8]) -> Result<(), Damage>,
) -> Result<(), LoadError> {
    let offset = source.offset();
    let outcome = work(source.string()?);
    refused(source, offset, outcome)
}

fn refused<R: Read>(source: &Source<R>, offset: u64, outcome: Result<(), Damage>) -> Result<(), LoadError> {
    outcome.or_else(|Damage { at, reason }| match at {
        0 => source.error(offset, reason),
        _ => source.error(offset, format!("{reason} (at byte {at} of the packed value)")),
    })
}

/// Has `visit` called with the text of each packed element.
fn each_element(
    bytes: &[u8],
    packing: Packing,
    mut visit: impl FnMut(&[u8]) -> Result<(), Damage>,
) -> Result<(), Damage> {
    let mut scratch: IntegerText = [0; INTEGER_TEXT_MAX];
    for element in elements(bytes, packing)? {
        visit(element?.text(&mut scratch))?;
    }
    Ok(())
}

/// Has `visit` called with each two packed elements.
fn each_pair(
    bytes: &[u8],
    packing: Packing,
    mut visit: impl FnMut(&[u8], Element<'_>) -> Result<(), Damage>,
) -> Result<(), Damage> {
    let mut scratch: IntegerText = [0; INTEGER_TEXT_MAX];
    let mut elements = elements(bytes, packing)?;
    while let Some(first) = elements.next() {
        let first = first?;
        let second = elements.next().ok_or(UNPAIRED)??;
        visit(first.text(&mut scratch), second)?;
    }
    Ok(())
}

fn read_list<R: Read>(source: &mut Source<R>, form: u8, limits: &EncodingLimits) -> Result<List, LoadError> {
    let mut list = List::new();
    if form == value_type::LIST_ZIPLIST {
        let mut node = Listpack::new();
        let mut push = |element: &[u8]| {
            node.push(element);
            Ok(())
        };
        let offset = source.offset();
        unpack(source, |bytes| each_element(bytes, Packing::Ziplist, &mut push))?;
        // One node, and the form of large lists, as in Redis.
        if !node.is_empty() && list.push_listpack(node.as_bytes()).is_err() {
            return source.error(offset, "list has a node that cannot be converted".to_owned());
        }
        return Ok(list);
    }
    let count = source.length()?;
    for _ in 0..count {
        let (packing, has_own_node) = match form {
            value_type::LIST => (None, false),
            value_type::LIST_QUICKLIST => (Some(Packing::Ziplist), false),
            _ => {
                let offset = source.offset();
                match source.length()? {
                    quicklist_container::PLAIN => (None, true),
                    quicklist_container::PACKED => (Some(Packing::Listpack), false),
                    other => {
                        return source.error(offset, format!("list has a node of an unknown kind {other}"));
                    }
                }
            }
        };
        unpack(source, |bytes| {
            match packing {
                None if has_own_node => list.push_plain(bytes),
                None => list.push_back(bytes, limits),
                Some(Packing::Listpack) => push_node(&mut list, bytes)?,
                Some(packing) => {
                    let mut node = Listpack::new();
                    each_element(bytes, packing, |element| {
                        node.push(element);
                        Ok(())
                    })?;
                    push_node(&mut list, node.as_bytes())?;
                }
            }
            Ok(())
        })?;
    }
    // A list of elements has got its form with them.
    if form != value_type::LIST {
        list.settle(limits);
    }
    Ok(list)
}

/// Adds a node to a list; an empty one adds nothing.
fn push_node(list: &mut List, listpack: &[u8]) -> Result<(), Damage> {
    list.push_listpack(listpack).map_err(damage)
}

fn damage(ListpackError { at, reason }: ListpackError) -> Damage {
    Damage { at, reason }
}

fn read_set<R: Read>(source: &mut Source<R>, form: u8, limits: &EncodingLimits) -> Result<Set, LoadError> {
    let mut set = Set::new();
    let mut add = |member: &[u8]| add_member(&mut set, member, limits);
    match form {
        value_type::SET_LISTPACK => {
            unpack(source, |bytes| each_element(bytes, Packing::Listpack, &mut add))?;
        }
        value_type::SET_INTSET => unpack(source, |bytes| {
            let mut scratch = [0; INTEGER_TEXT_MAX];
            intset::integers(bytes)?.try_for_each(|integer| add(format_i64(&mut scratch, integer?)))
        })?,
        _ => {
            let count = source.length()?;
            let start = source.offset();
            for index in 0..count {
                if index == TYPICAL_ELEMENTS {
                    set.prepare(believable(source, start, count));
                }
                unpack(source, |member| add_member(&mut set, member, limits))?;
            }
        }
    }
    Ok(set)
}

fn add_member(set: &mut Set, member: &[u8], limits: &EncodingLimits) -> Result<(), Refusal> {
    set.add(member, limits).then_some(()).ok_or(DUPLICATE_MEMBER)
}

/// The stated number of elements if the file can have as many; otherwise the most that it can have. The
/// first, so many as are typical, began at `start`.
fn believable<R: Read>(source: &Source<R>, start: u64, count: u64) -> usize {
    let bytes_of_one = ((source.offset() - start) / TYPICAL_ELEMENTS).max(1);
    let possible = TYPICAL_ELEMENTS + source.left().unwrap_or(0) / bytes_of_one;
    usize::try_from(count.min(possible)).unwrap_or(0)
}

fn read_sorted_set<R: Read>(
    source: &mut Source<R>,
    form: u8,
    limits: &EncodingLimits,
) -> Result<SortedSet, LoadError> {
    let mut set = SortedSet::new();
    let mut insert = |member: &[u8], score: Option<f64>| match score.filter(|score| !score.is_nan()) {
        None => Err(NOT_A_NUMBER),
        Some(score) if set.insert(member, score, limits) => Ok(()),
        Some(_) => Err(DUPLICATE_SCORED),
    };
    let mut insert_packed = |bytes: &[u8], packing| {
        each_pair(bytes, packing, |member, score| match score {
            Element::Integer(score) => insert(member, Some(score as f64)),
            Element::Bytes(text) => insert(member, parse_f64(text)),
        })
    };
    match form {
        value_type::ZSET_LISTPACK => unpack(source, |bytes| insert_packed(bytes, Packing::Listpack))?,
        value_type::ZSET_ZIPLIST => unpack(source, |bytes| insert_packed(bytes, Packing::Ziplist))?,
        _ => return read_counted_sorted_set(source, form, limits),
    }
    Ok(set)
}

/// A sorted set as a count and that many members with their scores, which files have in order.
fn read_counted_sorted_set<R: Read>(
    source: &mut Source<R>,
    form: u8,
    limits: &EncodingLimits,
) -> Result<SortedSet, LoadError> {
    let start = source.offset();
    let count = source.length()?;
    let mut builder = SortedSetBuilder::new();
    for _ in 0..count {
        let offset = source.offset();
        builder.member(source.string()?);
        let score = if form == value_type::ZSET { source.text_double()? } else { source.double()? };
        if score.is_nan() {
            return refused(source, offset, Err(NOT_A_NUMBER)).map(|()| SortedSet::new());
        }
        builder.score(score);
    }
    match builder.finish(limits) {
        Some(set) => Ok(set),
        None => refused(source, start, Err(DUPLICATE_SCORED)).map(|()| SortedSet::new()),
    }
}

fn read_hash<R: Read>(source: &mut Source<R>, form: u8, limits: &EncodingLimits) -> Result<Hash, LoadError> {
    let mut hash = Hash::new();
    if form == value_type::HASH_LISTPACK {
        unpack(source, |bytes| {
            hash = Hash::from_listpack(bytes, limits).map_err(damage)?;
            Ok(())
        })?;
        return Ok(hash);
    }
    let mut put = |field: &[u8], value: &[u8], expiry| put_field(&mut hash, field, value, expiry, limits);
    let mut put_packed = |bytes: &[u8], packing| {
        let mut scratch = [0; INTEGER_TEXT_MAX];
        each_pair(bytes, packing, |field, value| put(field, value.text(&mut scratch), None))
    };
    match form {
        value_type::HASH_ZIPLIST => unpack(source, |bytes| put_packed(bytes, Packing::Ziplist))?,
        value_type::HASH_ZIPMAP => {
            unpack(source, |bytes| zipmap::pairs(bytes).try_for_each(|pair| put(pair?.0, pair?.1, None)))?;
        }
        value_type::HASH_LISTPACK_EX | value_type::HASH_LISTPACK_EX_PRE_GA => {
            if form == value_type::HASH_LISTPACK_EX {
                source.milliseconds()?;
            }
            unpack(source, |bytes| each_expiring(bytes, &mut put))?;
        }
        _ => return read_counted_hash(source, form, limits),
    }
    Ok(hash)
}

fn put_field(
    hash: &mut Hash,
    field: &[u8],
    value: &[u8],
    expiry: Option<i64>,
    limits: &EncodingLimits,
) -> Result<(), Damage> {
    if expiry.is_some_and(|expiry| !(0..=FIELD_EXPIRY_MS_MAX).contains(&expiry)) {
        return Err(BAD_FIELD_EXPIRY);
    }
    if !hash.set(field, value, limits) {
        return Err(DUPLICATE_FIELD);
    }
    if expiry.is_some() {
        hash.set_expiry(field, expiry);
    }
    Ok(())
}

/// Has `put` called with the fields, values and expiries of a listpack that holds them in threes, by rising
/// expiry and those without one (0) last.
fn each_expiring(
    bytes: &[u8],
    put: &mut impl FnMut(&[u8], &[u8], Option<i64>) -> Result<(), Damage>,
) -> Result<(), Damage> {
    let (mut field_scratch, mut value_scratch) = ([0; INTEGER_TEXT_MAX], [0; INTEGER_TEXT_MAX]);
    let mut elements = elements(bytes, Packing::Listpack)?;
    let mut previous = Some(0);
    while let Some(field) = elements.next() {
        let field = field?;
        let value = elements.next().ok_or(UNPAIRED)??;
        let Some(Element::Integer(expiry)) = elements.next().transpose()? else {
            return Err(BAD_FIELD_EXPIRY);
        };
        let expiry = (expiry != 0).then_some(expiry);
        if expiry.unwrap_or(i64::MAX) < previous.unwrap_or(i64::MAX) {
            return Err(Damage { at: 0, reason: "hash has its fields out of the order of their expiries" });
        }
        previous = expiry;
        put(field.text(&mut field_scratch), value.text(&mut value_scratch), expiry)?;
    }
    Ok(())
}

/// A hash as a count and that many fields: plain, or with an expiry before each field, 0 for none. The
/// released form counts expiries from one that it states first, plus one.
fn read_counted_hash<R: Read>(
    source: &mut Source<R>,
    form: u8,
    limits: &EncodingLimits,
) -> Result<Hash, LoadError> {
    let mut hash = Hash::new();
    let base = match form {
        value_type::HASH_METADATA => Some(source.milliseconds()?),
        value_type::HASH_METADATA_PRE_GA => Some(1),
        _ => None,
    };
    let mut field = Vec::new();
    let count = source.length()?;
    let start = source.offset();
    for index in 0..count {
        if index == TYPICAL_ELEMENTS {
            hash.prepare(believable(source, start, count));
        }
        let offset = source.offset();
        let mut expiry = None;
        if let Some(base) = base {
            let distance = source.length()?;
            // What does not fit is past every limit, which `put` refuses.
            let time = i64::try_from(distance).ok().and_then(|distance| base.checked_add(distance - 1));
            expiry = (distance != 0).then_some(time.unwrap_or(i64::MAX));
        }
        field.clear();
        field.extend_from_slice(source.string()?);
        let outcome = put_field(&mut hash, &field, source.string()?, expiry, limits);
        refused(source, offset, outcome)?;
    }
    Ok(hash)
}
