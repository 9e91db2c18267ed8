//! Giving and taking scores: ZADD, ZINCRBY, ZREM.

use mantissa_protocol::{Args, Reply};
use smallvec::SmallVec;

use super::{Removal, removed};
use crate::access::Access;
use crate::effects::EventClass;
use crate::error::{Error, Outcome};
use crate::parse;

const NOT_A_NUMBER: Error = Error::fixed("ERR resulting score is not a number (NaN)");

/// The options of ZADD.
#[derive(Clone, Copy, Default)]
struct Rules {
    only_new: bool,
    only_old: bool,
    only_greater: bool,
    only_less: bool,
    count_changes: bool,
    increment: bool,
}

/// What a member's new score is to be.
#[derive(Clone, Copy, PartialEq)]
enum Decision {
    Refused,
    NotANumber,
    Score(f64),
}

impl Rules {
    /// Reads the options from argument 2 on, and returns the index of the first argument that is none.
    fn parse(args: Args<'_>) -> (Rules, usize) {
        let mut rules = Rules::default();
        let mut at = 2;
        while let Some(option) = args.get(at) {
            match option.len() {
                2 if parse::is(option, "NX") => rules.only_new = true,
                2 if parse::is(option, "XX") => rules.only_old = true,
                2 if parse::is(option, "GT") => rules.only_greater = true,
                2 if parse::is(option, "LT") => rules.only_less = true,
                2 if parse::is(option, "CH") => rules.count_changes = true,
                4 if parse::is(option, "INCR") => rules.increment = true,
                _ => break,
            }
            at += 1;
        }
        (rules, at)
    }

    fn check(self, pair_count: usize) -> Outcome {
        if self.only_new && self.only_old {
            return Err(Error::fixed("ERR XX and NX options at the same time are not compatible"));
        }
        if [self.only_new, self.only_greater, self.only_less].into_iter().filter(|&is_set| is_set).count() > 1
        {
            return Err(Error::fixed("ERR GT, LT, and/or NX options at the same time are not compatible"));
        }
        if self.increment && pair_count > 1 {
            return Err(Error::fixed("ERR INCR option supports a single increment-element pair"));
        }
        Ok(())
    }

    #[inline]
    fn decide(self, old: Option<f64>, given: f64) -> Decision {
        let Some(old) = old else {
            return if self.only_old { Decision::Refused } else { Decision::Score(given) };
        };
        if self.only_new {
            return Decision::Refused;
        }
        let new = if self.increment { old + given } else { given };
        if new.is_nan() {
            Decision::NotANumber
        } else if (self.only_greater && new <= old) || (self.only_less && new >= old) {
            Decision::Refused
        } else {
            Decision::Score(new)
        }
    }
}

/// Gives members their scores, as many.
fn add<'m>(
    access: &mut Access<'_>,
    reply: &mut Reply,
    key: &[u8],
    rules: Rules,
    (scores, members): (&[f64], impl Iterator<Item = &'m [u8]> + Clone),
) -> Outcome {
    let limits = &access.settings().limits;
    if rules.only_old && access.sorted_set_mut(key)?.is_none() {
        if rules.increment {
            reply.null()
        } else {
            reply.integer(0)
        }
        return Ok(());
    }
    let set = access.sorted_set_or_new(key)?;
    let first = if set.is_empty() { members.clone().next() } else { None };
    let first_member_bytes = first.map_or(0, <[u8]>::len);
    set.expect(scores.len(), first_member_bytes, limits);
    let (mut added, mut updated) = (0_u64, 0_u64);
    let mut last = Decision::Refused;
    for (&score, member) in scores.iter().zip(members) {
        let mut decision = Decision::Refused;
        let old = set.update(member, limits, |old| {
            decision = rules.decide(old, score);
            if let Decision::Score(new) = decision { Some(new) } else { None }
        });
        last = decision;
        match (decision, old) {
            (Decision::NotANumber, _) => return Err(NOT_A_NUMBER),
            (Decision::Score(_), None) => added += 1,
            (Decision::Score(new), Some(old)) if new != old => updated += 1,
            _ => {}
        }
    }
    match (rules.increment, last) {
        (true, Decision::Score(score)) => reply.double(score),
        (true, _) => reply.null(),
        (false, _) => reply.integer((added + if rules.count_changes { updated } else { 0 }) as i64),
    }
    if added + updated > 0 {
        access.changed_by(key, added + updated);
        access.event(EventClass::SORTED_SET, if rules.increment { "zincr" } else { "zadd" }, key);
    }
    Ok(())
}

pub(crate) fn zadd(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (rules, at) = Rules::parse(args);
    let pairs = args.from(at);
    if pairs.is_empty() || !pairs.len().is_multiple_of(2) {
        return Err(Error::SYNTAX);
    }
    rules.check(pairs.len() / 2)?;
    let mut scores: SmallVec<[f64; 16]> = SmallVec::new();
    for index in (0..pairs.len()).step_by(2) {
        scores.push(parse::float(pairs.at(index))?);
    }
    add(access, reply, args.at(1), rules, (&scores, pairs.iter().skip(1).step_by(2)))
}

/// ZADD without options of members and scores, as many and at least one, none NaN.
pub(crate) fn add_all(
    access: &mut Access<'_>,
    reply: &mut Reply,
    key: &[u8],
    scores: &[f64],
    members: &[&[u8]],
) -> Outcome {
    add(access, reply, key, Rules::default(), (scores, members.iter().copied()))
}

/// The options of ZADD, which are none of ZINCRBY, but no scores either.
const OPTIONS: [&str; 6] = ["NX", "XX", "CH", "INCR", "GT", "LT"];

pub(super) fn zincrby(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let rules = Rules { increment: true, ..Rules::default() };
    if OPTIONS.iter().any(|option| parse::is(args.at(2), option)) {
        return Err(Error::SYNTAX);
    }
    let score = parse::float(args.at(2))?;
    add(access, reply, args.at(1), rules, (&[score], args.from(3).iter()))
}

pub(super) fn zrem(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let key = args.at(1);
    let Some(set) = access.sorted_set_mut(key)? else {
        reply.integer(0);
        return Ok(());
    };
    let count = args.from(2).iter().filter(|member| set.remove(member).is_some()).count();
    if count > 0 {
        let removal = Removal::of(count, set);
        removed(access, key, "zrem", removal);
    }
    reply.integer(count as i64);
    Ok(())
}
