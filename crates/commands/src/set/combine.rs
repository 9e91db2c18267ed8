//! Intersections, unions and differences.
//!
//! The results of the STORE forms get the encoding that Redis gives them, which depends on how it builds
//! them: from the encoding of the smallest set for intersections, and one member after the other else.

use mantissa_protocol::{Args, Reply};
use mantissa_store::listpack::Element;
use mantissa_store::{EncodingLimits, Set, Value};

use super::write_set;
use crate::access::Access;
use crate::collection_scan::write_element;
use crate::effects::EventClass;
use crate::error::{Error, Outcome};
use crate::parse;

/// The sets at the keys, in their order; `None` where there is no key.
fn sets_at<'a>(access: &'a Access<'_>, keys: Args<'_>) -> Outcome<Vec<Option<&'a Set>>> {
    keys.iter().map(|key| access.set(key)).collect()
}

/// Visits the members of an intersection, until `visit` returns false. None at all if a set is missing.
fn intersect(sets: &[Option<&Set>], mut visit: impl FnMut(Element<'_>) -> bool) {
    let Some(sets) = by_size(sets) else { return };
    let Some((smallest, others)) = sets.split_first() else { return };
    for member in smallest.iter() {
        let is_common =
            others.iter().all(|other| std::ptr::eq(*other, *smallest) || other.contains_element(member));
        if is_common && !visit(member) {
            return;
        }
    }
}

/// The sets from the smallest to the largest; `None` if one is missing.
fn by_size<'a>(sets: &[Option<&'a Set>]) -> Option<Vec<&'a Set>> {
    let mut sets: Vec<&Set> = sets.iter().copied().collect::<Option<_>>()?;
    sets.sort_by_key(|set| set.len());
    Some(sets)
}

pub(super) fn sinter(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let sets = sets_at(access, args.from(1))?;
    let header = reply.defer();
    let mut len = 0;
    intersect(&sets, |member| {
        write_element(reply, member);
        len += 1;
        true
    });
    reply.finish_set(header, len);
    Ok(())
}

pub(super) fn sintercard(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let count = parse::integer_in(args.at(1), 1, i64::MAX, "ERR numkeys should be greater than 0")? as usize;
    if count > args.len() - 2 {
        return Err(Error::fixed("ERR Number of keys can't be greater than number of args"));
    }
    let mut limit = 0;
    let mut at = 2 + count;
    while let Some(option) = args.get(at) {
        let value = args.get(at + 1).filter(|_| parse::is(option, "LIMIT")).ok_or(Error::SYNTAX)?;
        limit = parse::integer_in(value, 0, i64::MAX, "ERR LIMIT can't be negative")? as usize;
        at += 2;
    }
    let sets = sets_at(access, args.range(2..2 + count))?;
    let mut len = 0;
    intersect(&sets, |_| {
        len += 1;
        len != limit
    });
    reply.integer(len as i64);
    Ok(())
}

pub(super) fn sinterstore(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let limits = &access.settings().limits;
    let sets = sets_at(access, args.from(2))?;
    let starts_as_intset =
        by_size(&sets).is_some_and(|sets| sets.first().is_some_and(|set| set.encoding() == "intset"));
    let mut result = if starts_as_intset { Set::new() } else { Set::new_listpack() };
    let mut only_integers = true;
    intersect(&sets, |member| {
        only_integers &= member.integer().is_some();
        result.add_element(member, limits);
        true
    });
    if only_integers {
        result.make_intset(limits);
    }
    store(access, args.at(1), result, "sinterstore", reply)
}

/// Puts a result in the place of what the key holds, or removes the key if the result is empty, and replies
/// how many members there are.
fn store(
    access: &mut Access<'_>,
    key: &[u8],
    result: Set,
    event: &'static str,
    reply: &mut Reply,
) -> Outcome {
    let len = result.len();
    if len > 0 {
        access.put(key, Value::Set(result), None)?;
        access.modified(key, EventClass::SET, event);
    } else if access.remove(key) {
        access.modified(key, EventClass::GENERIC, "del");
    }
    reply.integer(len as i64);
    Ok(())
}

/// A set to build a result in that is replied: in order where all sets are sorted integers.
fn scratch(sets: &[Option<&Set>]) -> Set {
    let are_integers = sets.iter().flatten().all(|set| set.encoding() == "intset");
    if are_integers { Set::new() } else { Set::new_hashtable() }
}

fn unite(sets: &[Option<&Set>], mut result: Set, limits: &EncodingLimits) -> Set {
    for member in sets.iter().flatten().flat_map(|set| set.iter()) {
        result.add_element(member, limits);
    }
    result
}

pub(super) fn sunion(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let sets = sets_at(access, args.from(1))?;
    if let [Some(set)] = sets[..] {
        write_set(reply, set);
        return Ok(());
    }
    write_set(reply, &unite(&sets, scratch(&sets), &access.settings().limits));
    Ok(())
}

pub(super) fn sunionstore(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let sets = sets_at(access, args.from(2))?;
    let result = unite(&sets, Set::new(), &access.settings().limits);
    store(access, args.at(1), result, "sunionstore", reply)
}

/// The members of the first set that are in none of the others. Looks them up in the others one by one, or
/// takes the others' members out of a copy, whichever is less work.
fn subtract(sets: &[Option<&Set>], mut result: Set, limits: &EncodingLimits) -> Set {
    let Some((Some(first), others)) = sets.split_first() else { return result };
    let others: Vec<&Set> = others.iter().copied().flatten().collect();
    if others.iter().any(|other| std::ptr::eq(*other, *first)) {
        return result;
    }
    let lookups = first.len().saturating_mul(others.len() + 1) / 2;
    let copying: usize = first.len() + others.iter().map(|other| other.len()).sum::<usize>();
    if lookups <= copying {
        for member in first.iter() {
            if !others.iter().any(|other| other.contains_element(member)) {
                result.add_element(member, limits);
            }
        }
        return result;
    }
    first.iter().for_each(|member| {
        result.add_element(member, limits);
    });
    for other in others {
        for member in other.iter() {
            result.remove_element(member);
        }
        if result.is_empty() {
            break;
        }
    }
    result
}

pub(super) fn sdiff(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let sets = sets_at(access, args.from(1))?;
    write_set(reply, &subtract(&sets, scratch(&sets), &access.settings().limits));
    Ok(())
}

pub(super) fn sdiffstore(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let sets = sets_at(access, args.from(2))?;
    let result = subtract(&sets, Set::new(), &access.settings().limits);
    store(access, args.at(1), result, "sdiffstore", reply)
}
