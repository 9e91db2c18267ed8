//! Unions, intersections and differences of sorted sets and sets: ZUNION, ZINTER, ZDIFF, their STORE forms,
//! and ZINTERCARD.

use std::borrow::Cow;
use std::cmp::Ordering;

use hashbrown::HashMap;
use mantissa_protocol::packed::PackedWriter;
use mantissa_protocol::{Args, Reply};
use mantissa_store::listpack::Element;
use mantissa_store::{Set, SortedSet, ValueRef};

use super::{members_header, write_member};
use crate::access::{Access, check_key};
use crate::error::{Error, Outcome};
use crate::parse;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Union,
    Intersection,
    Difference,
}

/// How the scores of one member in several inputs become one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Aggregate {
    Sum,
    Minimum,
    Maximum,
    /// The sum of the weights of the inputs that have the member, whatever its scores there.
    Count,
}

impl Aggregate {
    /// What a score in an input of this weight contributes.
    fn part(self, score: f64, weight: f64) -> f64 {
        if self == Aggregate::Count { weight } else { weight * score }
    }

    fn join(self, score: f64, other: f64) -> f64 {
        match self {
            Aggregate::Sum | Aggregate::Count => number_or_zero(score + other),
            Aggregate::Minimum if other < score => other,
            Aggregate::Maximum if other > score => other,
            Aggregate::Minimum | Aggregate::Maximum => score,
        }
    }
}

fn number_or_zero(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// A member, where it lies if it lies anywhere as bytes.
type Member<'a> = Cow<'a, [u8]>;
/// A member of a result with its score.
type Scored<'a> = (Member<'a>, f64);

/// What one key holds.
#[derive(Clone, Copy)]
enum Input<'a> {
    Missing,
    Set(&'a Set),
    SortedSet(&'a SortedSet),
}

impl<'a> Input<'a> {
    fn of(access: &'a Access<'_>, keys: Args<'_>) -> Outcome<Vec<Input<'a>>> {
        let input = |key| match access.read(key).map(|entry| entry.value()) {
            None => Ok(Input::Missing),
            Some(ValueRef::Set(set)) => Ok(Input::Set(set)),
            Some(ValueRef::SortedSet(set)) => Ok(Input::SortedSet(set)),
            Some(_) => Err(Error::WRONG_TYPE),
        };
        keys.iter().map(input).collect()
    }

    /// Ends a command that is going to look at many members, to go on with images of the values.
    fn leave_if_many(access: &Access<'_>, inputs: &[Input<'_>], operation: Operation) -> Outcome {
        let lens = inputs.iter().map(|input| input.len());
        let count = match operation {
            Operation::Intersection => lens.min().unwrap_or(0).saturating_mul(inputs.len()),
            Operation::Union | Operation::Difference => lens.sum(),
        };
        access.leave_if_many_in_all(inputs.len(), count)
    }

    fn len(self) -> usize {
        match self {
            Input::Missing => 0,
            Input::Set(set) => set.len(),
            Input::SortedSet(set) => set.len(),
        }
    }

    fn score(self, member: &[u8]) -> Option<f64> {
        match self {
            Input::Missing => None,
            Input::Set(set) => set.contains(member).then_some(1.0),
            Input::SortedSet(set) => set.score(member),
        }
    }

    /// Visits members with their scores until `visit` returns false.
    fn each(self, mut visit: impl FnMut(Member<'a>, f64) -> bool) {
        match self {
            Input::Missing => {}
            Input::Set(set) => {
                set.iter().all(|member| match member {
                    Element::Bytes(member) => visit(Cow::Borrowed(member), 1.0),
                    Element::Integer(_) => visit(Cow::Owned(member.to_vec()), 1.0),
                });
            }
            Input::SortedSet(set) => {
                set.iter().all(|(member, score)| visit(Cow::Borrowed(member), score));
            }
        }
    }
}

/// The options after the keys.
struct Options {
    weights: Vec<f64>,
    aggregate: Aggregate,
    with_scores: bool,
}

impl Options {
    fn parse(operation: Operation, stores: bool, key_count: usize, args: Args<'_>) -> Outcome<Options> {
        let mut options =
            Options { weights: vec![1.0; key_count], aggregate: Aggregate::Sum, with_scores: false };
        let takes_weights = operation != Operation::Difference;
        let mut at = 0;
        while let Some(option) = args.get(at) {
            let left = args.len() - at;
            if takes_weights && left > key_count && parse::is(option, "WEIGHTS") {
                let given = args.range(at + 1..at + 1 + key_count);
                for (weight, text) in options.weights.iter_mut().zip(given) {
                    *weight = parse::float_or(text, "ERR weight value is not a float")?;
                }
                at += 1 + key_count;
            } else if takes_weights && left >= 2 && parse::is(option, "AGGREGATE") {
                options.aggregate = match args.at(at + 1) {
                    name if parse::is(name, "SUM") => Aggregate::Sum,
                    name if parse::is(name, "MIN") => Aggregate::Minimum,
                    name if parse::is(name, "MAX") => Aggregate::Maximum,
                    name if parse::is(name, "COUNT") => Aggregate::Count,
                    _ => return Err(Error::SYNTAX),
                };
                at += 2;
            } else if !stores && parse::is(option, "WITHSCORES") {
                options.with_scores = true;
                at += 1;
            } else {
                return Err(Error::SYNTAX);
            }
        }
        Ok(options)
    }
}

/// Reads the number of keys at an index and returns the keys and what follows them.
fn split_keys<'a>(args: Args<'a>, at: usize, command: &str) -> Outcome<(Args<'a>, Args<'a>)> {
    let count = parse::integer(args.at(at))?;
    if count < 1 {
        return Err(Error::new(format!("ERR at least 1 input key is needed for '{command}' command")));
    }
    let after = usize::try_from(count).unwrap_or(usize::MAX).saturating_add(at + 1);
    if after > args.len() {
        return Err(Error::SYNTAX);
    }
    Ok((args.range(at + 1..after), args.from(after)))
}

fn unite<'a>(inputs: &[(Input<'a>, f64)], aggregate: Aggregate) -> Vec<Scored<'a>> {
    let mut scores: HashMap<Member<'a>, f64, foldhash::fast::RandomState> = HashMap::default();
    for &(input, weight) in inputs {
        input.each(|member, score| {
            let score = number_or_zero(aggregate.part(score, weight));
            scores.entry(member).and_modify(|sum| *sum = aggregate.join(*sum, score)).or_insert(score);
            true
        });
    }
    scores.into_iter().collect()
}

fn intersect<'a>(inputs: &[(Input<'a>, f64)], aggregate: Aggregate) -> Vec<Scored<'a>> {
    let Some((&(smallest, weight), others)) = inputs.split_first() else { return Vec::new() };
    let mut result = Vec::new();
    smallest.each(|member, score| {
        let first = Some(number_or_zero(aggregate.part(score, weight)));
        let score = others.iter().fold(first, |joined, &(input, weight)| {
            Some(aggregate.join(joined?, aggregate.part(input.score(&member)?, weight)))
        });
        result.extend(score.map(|score| (member, score)));
        true
    });
    result
}

fn subtract<'a>(inputs: &[(Input<'a>, f64)]) -> Vec<Scored<'a>> {
    let Some((&(first, _), others)) = inputs.split_first() else { return Vec::new() };
    let mut result = Vec::new();
    first.each(|member, score| {
        if others.iter().all(|(input, _)| input.score(&member).is_none()) {
            result.push((member, score));
        }
        true
    });
    result
}

/// The members of a result, in no particular order, and the options.
fn combine<'a>(
    access: &'a Access<'_>,
    operation: Operation,
    (keys, rest, stores): (Args<'_>, Args<'_>, bool),
) -> Outcome<(Vec<Scored<'a>>, Options)> {
    let inputs = Input::of(access, keys)?;
    let options = Options::parse(operation, stores, keys.len(), rest)?;
    Input::leave_if_many(access, &inputs, operation)?;
    let weights = options.weights.iter().copied();
    let mut inputs: Vec<(Input<'_>, f64)> = inputs.into_iter().zip(weights).collect();
    let result = match operation {
        Operation::Difference => subtract(&inputs),
        Operation::Union => {
            inputs.sort_by_key(|(input, _)| input.len());
            unite(&inputs, options.aggregate)
        }
        Operation::Intersection => {
            inputs.sort_by_key(|(input, _)| input.len());
            intersect(&inputs, options.aggregate)
        }
    };
    Ok((result, options))
}

/// The members of a result in their order, and whether their scores are asked for.
fn combine_in_order<'a>(
    access: &'a Access<'_>,
    args: Args<'_>,
    (operation, name): (Operation, &str),
) -> Outcome<(Vec<Scored<'a>>, bool)> {
    let (keys, rest) = split_keys(args, 1, name)?;
    let (mut members, options) = combine(access, operation, (keys, rest, false))?;
    members.sort_unstable_by(|one, two| {
        one.1.partial_cmp(&two.1).unwrap_or(Ordering::Equal).then_with(|| one.0.cmp(&two.0))
    });
    Ok((members, options.with_scores))
}

fn pack_combined(
    access: &mut Access<'_>,
    args: Args<'_>,
    writer: &mut PackedWriter,
    operation: (Operation, &str),
) -> Outcome {
    let (members, with_scores) = combine_in_order(access, args, operation)?;
    match with_scores {
        true => {
            writer.set_named();
            writer.reserve(members.len());
            writer.pairs(members.iter().map(|(member, score)| (&member[..], *score)));
        }
        false => members.iter().for_each(|(member, _)| writer.text(member)),
    }
    Ok(())
}

fn reply_combined(
    access: &mut Access<'_>,
    args: Args<'_>,
    reply: &mut Reply,
    operation: (Operation, &str),
) -> Outcome {
    let (members, with_scores) = combine_in_order(access, args, operation)?;
    members_header(reply, members.len(), with_scores);
    for (member, score) in &members {
        write_member(reply, member, *score, with_scores);
    }
    Ok(())
}

fn store_combined(
    access: &mut Access<'_>,
    args: Args<'_>,
    reply: &mut Reply,
    (operation, name): (Operation, &'static str),
) -> Outcome {
    let limits = &access.settings().limits;
    let (keys, rest) = split_keys(args, 2, name)?;
    let (members, options) = combine(access, operation, (keys, rest, true))?;
    let entries = members.iter().map(|(member, score)| (&member[..], *score)).collect();
    let result = SortedSet::from_entries(entries, limits);
    check_key(args.at(1))?;
    if options.aggregate == Aggregate::Count && access.logs() {
        log_result(access, args.at(1), &result);
    }
    super::range::store(access, reply, args.at(1), result, name)
}

/// Logs what is stored at a key as commands that servers without AGGREGATE COUNT know.
fn log_result(access: &mut Access<'_>, key: &[u8], result: &SortedSet) {
    /// Members of one command.
    const MEMBERS_MAX: usize = 1000;
    if access.exists(key) {
        access.log_instead(&[b"DEL", key]);
    }
    let mut members = result.iter().peekable();
    while members.peek().is_some() {
        let part: Vec<(&[u8], Vec<u8>)> = members
            .by_ref()
            .take(MEMBERS_MAX)
            .map(|(member, score)| {
                let mut text = Vec::new();
                mantissa_number::write_score(&mut text, score);
                (member, text)
            })
            .collect();
        let pairs = part.iter().flat_map(|(member, score)| [&score[..], *member]);
        access.log_instead(&[&b"ZADD"[..], key].into_iter().chain(pairs).collect::<Vec<_>>());
    }
}

pub(super) fn zunion(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    reply_combined(access, args, reply, (Operation::Union, "zunion"))
}

pub(super) fn zinter(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    reply_combined(access, args, reply, (Operation::Intersection, "zinter"))
}

pub(super) fn zdiff(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    reply_combined(access, args, reply, (Operation::Difference, "zdiff"))
}

pub(super) fn pack_zunion(access: &mut Access<'_>, args: Args<'_>, writer: &mut PackedWriter) -> Outcome {
    pack_combined(access, args, writer, (Operation::Union, "zunion"))
}

pub(super) fn pack_zinter(access: &mut Access<'_>, args: Args<'_>, writer: &mut PackedWriter) -> Outcome {
    pack_combined(access, args, writer, (Operation::Intersection, "zinter"))
}

pub(super) fn pack_zdiff(access: &mut Access<'_>, args: Args<'_>, writer: &mut PackedWriter) -> Outcome {
    pack_combined(access, args, writer, (Operation::Difference, "zdiff"))
}

pub(super) fn zunionstore(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    store_combined(access, args, reply, (Operation::Union, "zunionstore"))
}

pub(super) fn zinterstore(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    store_combined(access, args, reply, (Operation::Intersection, "zinterstore"))
}

pub(super) fn zdiffstore(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    store_combined(access, args, reply, (Operation::Difference, "zdiffstore"))
}

pub(super) fn zintercard(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (keys, rest) = split_keys(args, 1, "zintercard")?;
    let mut inputs = Input::of(access, keys)?;
    let mut limit = 0;
    let mut options = rest.iter();
    while let Some(option) = options.next() {
        let value = options.next().filter(|_| parse::is(option, "LIMIT")).ok_or(Error::SYNTAX)?;
        limit = parse::integer_in(value, 0, i64::MAX, "ERR LIMIT can't be negative")?;
    }
    let count_max = match usize::try_from(limit) {
        Ok(0) | Err(_) => usize::MAX,
        Ok(limit) => limit,
    };
    Input::leave_if_many(access, &inputs, Operation::Intersection)?;
    inputs.sort_by_key(|input| input.len());
    let mut count = 0;
    if let Some((smallest, others)) = inputs.split_first() {
        smallest.each(|member, _| {
            count += usize::from(others.iter().all(|input| input.score(&member).is_some()));
            count < count_max
        });
    }
    reply.integer(count as i64);
    Ok(())
}
