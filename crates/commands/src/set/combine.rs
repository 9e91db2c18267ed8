//! Intersections, unions and differences.
//!
//! The results of the STORE forms get the encoding that Redis gives them, which depends on how it builds
//! them: from the encoding of the smallest set for intersections, and one member after the other else.
//! What is only replied is written as it is found.

use mantissa_number::INTEGER_TEXT_MAX;
use mantissa_protocol::{Args, Reply};
use mantissa_store::listpack::Element;
use mantissa_store::{Presence, Set, Value};

use super::write_set;
use crate::access::Access;
use crate::collection_scan::write_element;
use crate::effects::EventClass;
use crate::error::{Error, Outcome};
use crate::hyperloglog::Estimate;
use crate::parse;

/// The sets at the keys, in their order; `None` where there is no key.
fn sets_at<'a>(access: &'a Access<'_>, keys: Args<'_>) -> Outcome<Vec<Option<&'a Set>>> {
    keys.iter().map(|key| access.collection_in_place(key)).collect()
}

/// The same for a command that may look at all members of all sets.
fn all_of<'a>(access: &'a Access<'_>, keys: Args<'_>) -> Outcome<Vec<Option<&'a Set>>> {
    let sets = sets_at(access, keys)?;
    access.leave_if_many_in_all(keys.len(), sets.iter().flatten().map(|set| set.len()).sum())?;
    Ok(sets)
}

/// The same for a command that looks the members of the smallest set up in the others.
fn smallest_of<'a>(access: &'a Access<'_>, keys: Args<'_>) -> Outcome<Vec<Option<&'a Set>>> {
    let sets = sets_at(access, keys)?;
    let smallest = sets.iter().map(|set| set.map_or(0, Set::len)).min().unwrap_or(0);
    access.leave_if_many_in_all(keys.len(), smallest.saturating_mul(keys.len()))?;
    Ok(sets)
}

/// Visits the members of an intersection, until `visit` returns false. None at all if a set is missing.
fn intersect(sets: &[Option<&Set>], visit: impl FnMut(Element<'_>) -> bool) {
    if let Some([smallest, others @ ..]) = by_size(sets).as_deref() {
        smallest.visit_among(Presence::All, others, visit);
    }
}

/// The sets from the smallest to the largest, without repetitions that follow each other; `None` if one is
/// missing.
fn by_size<'a>(sets: &[Option<&'a Set>]) -> Option<Vec<&'a Set>> {
    let mut sets: Vec<&Set> = sets.iter().copied().collect::<Option<_>>()?;
    sets.sort_by_key(|set| set.len());
    sets.dedup_by(|one, other| std::ptr::eq(*one, *other));
    Some(sets)
}

pub(super) fn sinter(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let sets = smallest_of(access, args.from(1))?;
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

/// The arguments of SINTERCARD and its kin.
struct Counted<'a> {
    keys: Args<'a>,
    /// Counting ends there.
    limit: usize,
    /// About as many will do.
    is_approximate: bool,
}

impl<'a> Counted<'a> {
    fn parse(args: Args<'a>, may_be_approximate: bool) -> Outcome<Counted<'a>> {
        const NO_KEYS: &str = "ERR numkeys should be greater than 0";
        let count = parse::integer_in(args.at(1), 1, i64::MAX, NO_KEYS)? as usize;
        if count > args.len() - 2 {
            return Err(Error::fixed("ERR Number of keys can't be greater than number of args"));
        }
        let (mut limit, mut is_approximate) = (0, false);
        let mut at = 2 + count;
        while let Some(option) = args.get(at) {
            if may_be_approximate && parse::is(option, "APPROX") {
                (is_approximate, at) = (true, at + 1);
                continue;
            }
            let value = args.get(at + 1).filter(|_| parse::is(option, "LIMIT")).ok_or(Error::SYNTAX)?;
            limit = parse::integer_in(value, 0, i64::MAX, "ERR LIMIT can't be negative")? as usize;
            at += 2;
        }
        // 0 is none.
        let limit = if limit == 0 { usize::MAX } else { limit };
        Ok(Counted { keys: args.range(2..2 + count), limit, is_approximate })
    }
}

pub(super) fn sintercard(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let Counted { keys, limit, .. } = Counted::parse(args, false)?;
    let mut len = 0;
    intersect(&smallest_of(access, keys)?, |_| {
        len += 1;
        len != limit
    });
    reply.integer(len as i64);
    Ok(())
}

/// Counts the members of a set that are in none of the others, up to a limit above 0.
fn count_missing(set: &Set, others: &[&Set], limit: usize) -> usize {
    let mut len = 0;
    if !others.iter().any(|other| std::ptr::eq(*other, set)) {
        set.visit_among(Presence::None, others, |_| {
            len += 1;
            len != limit
        });
    }
    len
}

pub(super) fn sunioncard(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let Counted { keys, limit, is_approximate } = Counted::parse(args, true)?;
    let mut sets = present(&all_of(access, keys)?);
    sets.sort_by_key(|set| std::cmp::Reverse(set.len()));
    let len = match &sets[..] {
        [] => 0,
        [largest, ..] if sets.len() == 1 || largest.len() >= limit => largest.len(),
        _ if is_approximate => {
            let mut estimate = Estimate::new();
            let mut digits = [0; INTEGER_TEXT_MAX];
            for set in &sets {
                set.iter().for_each(|member| estimate.add(member.text(&mut digits)));
            }
            estimate.count() as usize
        }
        [largest, others @ ..] if others.len() <= LOOKED_UP_MAX => {
            let mut len = largest.len();
            for (index, other) in others.iter().enumerate() {
                if len < limit {
                    len += count_missing(other, &sets[..=index], limit - len);
                }
            }
            len
        }
        _ => Set::union(&sets, &access.settings().limits).len(),
    };
    reply.integer(len.min(limit) as i64);
    Ok(())
}

pub(super) fn sdiffcard(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let Counted { keys, limit, .. } = Counted::parse(args, false)?;
    let len = match minuend(&all_of(access, keys)?) {
        None => 0,
        Some((first, others)) if looks_up(first, &others) => count_missing(first, &others, limit),
        Some((first, others)) => {
            let mut rest = first.clone();
            rest.remove_all(&others);
            rest.len().min(limit)
        }
    };
    reply.integer(len as i64);
    Ok(())
}

pub(super) fn sinterstore(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let limits = &access.settings().limits;
    let result = match by_size(&sets_at(access, args.from(2))?).as_deref() {
        Some([smallest, others @ ..]) => smallest.intersection(others, limits),
        _ => Set::new(),
    };
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
    } else {
        access.delete(key);
    }
    reply.integer(len as i64);
    Ok(())
}

/// Sets that a union or difference looks all members up in before it rather makes a set of the result.
const LOOKED_UP_MAX: usize = 2;

/// The sets that are there.
fn present<'a>(sets: &[Option<&'a Set>]) -> Vec<&'a Set> {
    sets.iter().copied().flatten().collect()
}

pub(super) fn sunion(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let sets = present(&all_of(access, args.from(1))?);
    // Of sorted integers the union is sorted as well.
    let are_integers = sets.iter().all(|set| set.encoding() == "intset");
    match &sets[..] {
        [] => reply.set(0),
        [set] => write_set(reply, set),
        [first, others @ ..] if !are_integers && others.len() <= LOOKED_UP_MAX => {
            let header = reply.defer();
            first.iter().for_each(|member| write_element(reply, member));
            let mut len = first.len();
            for (index, other) in others.iter().enumerate() {
                len += write_missing(reply, other, &sets[..=index]);
            }
            reply.finish_set(header, len);
        }
        _ => write_set(reply, &Set::union(&sets, &access.settings().limits)),
    }
    Ok(())
}

/// Replies the members of a set that are in none of the others, and returns how many these are.
fn write_missing(reply: &mut Reply, set: &Set, others: &[&Set]) -> usize {
    if others.iter().any(|other| std::ptr::eq(*other, set)) {
        return 0;
    }
    let mut len = 0;
    set.visit_among(Presence::None, others, |member| {
        write_element(reply, member);
        len += 1;
        true
    });
    len
}

pub(super) fn sunionstore(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let sets = present(&sets_at(access, args.from(2))?);
    let result = Set::union(&sets, &access.settings().limits);
    store(access, args.at(1), result, "sunionstore", reply)
}

/// Whether looking the members of the first set up in the others one by one is less work than taking the
/// others' members out of a copy.
fn looks_up(first: &Set, others: &[&Set]) -> bool {
    let lookups = first.len().saturating_mul(others.len() + 1) / 2;
    let copying: usize = first.len() + others.iter().map(|other| other.len()).sum::<usize>();
    lookups <= copying
}

/// The first set and the others that are there; `None` if nothing can be left of the first.
fn minuend<'a>(sets: &[Option<&'a Set>]) -> Option<(&'a Set, Vec<&'a Set>)> {
    let (&first, others) = sets.split_first()?;
    let (first, others) = (first?, present(others));
    (!others.iter().any(|other| std::ptr::eq(*other, first))).then_some((first, others))
}

pub(super) fn sdiff(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let sets = all_of(access, args.from(1))?;
    match minuend(&sets) {
        None => reply.set(0),
        Some((first, others)) if looks_up(first, &others) => {
            let header = reply.defer();
            let len = write_missing(reply, first, &others);
            reply.finish_set(header, len);
        }
        Some((first, others)) => {
            let mut result = first.clone();
            result.remove_all(&others);
            write_set(reply, &result);
        }
    }
    Ok(())
}

pub(super) fn sdiffstore(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let limits = &access.settings().limits;
    let result = match minuend(&sets_at(access, args.from(2))?) {
        Some((first, others)) => first.difference(&others, looks_up(first, &others), limits),
        None => Set::new(),
    };
    store(access, args.at(1), result, "sdiffstore", reply)
}
