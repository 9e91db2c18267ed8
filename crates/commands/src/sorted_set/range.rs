//! Ranges: ZRANGE and its older forms, ZRANGESTORE, ZCOUNT, ZLEXCOUNT and ZREMRANGEBY*.

use mantissa_protocol::packed::PackedWriter;
use mantissa_protocol::{Args, Reply};
use mantissa_store::cold::Elements;
use mantissa_store::{EncodingLimits, SortedSet, SortedSetIter, Value};

use super::select::{By, Selection, ranks_of};
use super::{Removal, members_header, removed, write_member};
use crate::access::Access;
use crate::access::image::ELEMENTS_MIN;
use crate::access::selected::Window;
use crate::effects::EventClass;
use crate::error::{Error, Outcome};
use crate::parse;

/// The ranks that an inclusive range of indexes stands for: from and up to but not including.
pub(super) fn rank_range(start: i64, stop: i64, len: usize) -> (usize, usize) {
    let count = len as i64;
    let from_start = |index: i64| if index < 0 { index.saturating_add(count) } else { index };
    let from = from_start(start).clamp(0, count);
    let to = from_start(stop).saturating_add(1).clamp(0, count);
    if from >= to { (0, 0) } else { (from as usize, to as usize) }
}

/// The options of a range command.
#[derive(Clone, Copy)]
struct Options {
    by: By,
    reverse: bool,
    with_scores: bool,
    offset: i64,
    /// Negative for no limit.
    count: i64,
}

/// Which options a range command takes, and what they are without any.
#[derive(Clone, Copy)]
struct Form {
    by: Option<By>,
    reverse: Option<bool>,
    stores: bool,
}

const ZRANGE: Form = Form { by: None, reverse: None, stores: false };
const ZREVRANGE: Form = Form { by: Some(By::Rank), reverse: Some(true), stores: false };
const ZRANGEBYSCORE: Form = Form { by: Some(By::Score), reverse: Some(false), stores: false };
const ZREVRANGEBYSCORE: Form = Form { by: Some(By::Score), reverse: Some(true), stores: false };
const ZRANGEBYLEX: Form = Form { by: Some(By::Member), reverse: Some(false), stores: false };
const ZREVRANGEBYLEX: Form = Form { by: Some(By::Member), reverse: Some(true), stores: false };

impl Options {
    fn parse(args: Args<'_>, mut at: usize, form: Form) -> Outcome<Options> {
        let (mut by, mut reverse) = (form.by, form.reverse);
        let (mut with_scores, mut offset, mut count) = (false, 0, -1);
        while let Some(option) = args.get(at) {
            if !form.stores && parse::is(option, "WITHSCORES") {
                with_scores = true;
            } else if parse::is(option, "LIMIT") && args.len() > at + 2 {
                (offset, count) = (parse::integer(args.at(at + 1))?, parse::integer(args.at(at + 2))?);
                at += 2;
            } else if reverse.is_none() && parse::is(option, "REV") {
                reverse = Some(true);
            } else if by.is_none() && parse::is(option, "BYLEX") {
                by = Some(By::Member);
            } else if by.is_none() && parse::is(option, "BYSCORE") {
                by = Some(By::Score);
            } else {
                return Err(Error::SYNTAX);
            }
            at += 1;
        }
        let by = by.unwrap_or(By::Rank);
        if count != -1 && by == By::Rank {
            let text =
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX";
            return Err(Error::fixed(text));
        }
        if with_scores && by == By::Member {
            let text = "ERR syntax error, WITHSCORES not supported in combination with BYLEX";
            return Err(Error::fixed(text));
        }
        Ok(Options { by, reverse: reverse.unwrap_or(false), with_scores, offset, count })
    }

    /// Reads the ends of the range, of which the upper one comes first in reverse.
    fn selection<'a>(&self, first: &'a [u8], second: &'a [u8]) -> Outcome<Selection<'a>> {
        match (self.by, self.reverse) {
            (By::Rank, _) | (_, false) => Selection::parse(self.by, first, second),
            (_, true) => Selection::parse(self.by, second, first),
        }
    }

    /// The members to return of what there is of a set, in rising order.
    fn members_in<'s>(&self, window: &Window<'s, SortedSet>, selection: Selection<'_>) -> SortedSetIter<'s> {
        let Selection::Rank(start, stop) = selection else {
            return self.members(window.collection, selection);
        };
        let (first, last) = (window.first, window.first + window.collection.len());
        let ranks = ranks_of(start, stop, window.len, self.reverse);
        window.collection.range(ranks.start.clamp(first, last) - first..ranks.end.clamp(first, last) - first)
    }

    /// The members to return, in rising order: the range with the limit applied.
    fn members<'s>(&self, set: &'s SortedSet, selection: Selection<'_>) -> SortedSetIter<'s> {
        let members = selection.members(set, self.reverse);
        if self.by == By::Rank {
            return members;
        }
        let len = members.len();
        let skipped = usize::try_from(self.offset).unwrap_or(usize::MAX).min(len);
        let count = usize::try_from(self.count).unwrap_or(usize::MAX).min(len - skipped);
        let from = if self.reverse { len - skipped - count } else { skipped };
        members.part(from..from + count)
    }
}

/// The elements that a call reads, if they are found without reading all.
fn elements_of(args: Args<'_>, form: Form) -> Option<Elements> {
    let options = Options::parse(args, 4, form).ok()?;
    let selection = options.selection(args.at(2), args.at(3)).ok()?;
    let (skipped, count) = match usize::try_from(options.offset) {
        Ok(skipped) => (skipped, usize::try_from(options.count).unwrap_or(usize::MAX)),
        Err(_) => (0, 0),
    };
    selection.elements(skipped.saturating_add(count), options.reverse)
}

pub(super) fn elements_of_zrange(args: Args<'_>) -> Option<Elements> {
    elements_of(args, ZRANGE)
}

pub(super) fn elements_of_zrevrange(args: Args<'_>) -> Option<Elements> {
    elements_of(args, ZREVRANGE)
}

pub(super) fn elements_of_zrangebyscore(args: Args<'_>) -> Option<Elements> {
    elements_of(args, ZRANGEBYSCORE)
}

pub(super) fn elements_of_zrevrangebyscore(args: Args<'_>) -> Option<Elements> {
    elements_of(args, ZREVRANGEBYSCORE)
}

fn range(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply, form: Form) -> Outcome {
    let options = Options::parse(args, 4, form)?;
    let selection = options.selection(args.at(2), args.at(3))?;
    let Some(window) = access.window_in_place::<SortedSet>(args.at(1))? else {
        reply.array(0);
        return Ok(());
    };
    let members = options.members_in(&window, selection);
    access.leave_if_many(window.collection, members.len(), ELEMENTS_MIN)?;
    members_header(reply, members.len(), options.with_scores);
    let write = |(member, score)| {
        write_member(reply, member, score, options.with_scores);
        reply.stream();
    };
    if options.reverse {
        members.rev().for_each(write)
    } else {
        members.for_each(write)
    }
    Ok(())
}

fn pack(access: &mut Access<'_>, args: Args<'_>, writer: &mut PackedWriter, form: Form) -> Outcome {
    let options = Options::parse(args, 4, form)?;
    let selection = options.selection(args.at(2), args.at(3))?;
    if options.with_scores {
        writer.set_named();
    }
    let Some(window) = access.window_in_place::<SortedSet>(args.at(1))? else { return Ok(()) };
    let mut members = options.members_in(&window, selection);
    access.leave_if_many(window.collection, members.len(), ELEMENTS_MIN)?;
    writer.reserve(members.len());
    match (options.with_scores, options.reverse) {
        (true, false) => {
            while let Some(run) = members.next_run() {
                writer.run(run.scores(), (run.lengths(), run.short_lengths()), run.members());
            }
        }
        (true, true) => writer.pairs(members.rev()),
        (false, false) => members.for_each(|(member, _)| writer.text(member)),
        (false, true) => members.rev().for_each(|(member, _)| writer.text(member)),
    }
    Ok(())
}

pub(super) fn pack_zrange(access: &mut Access<'_>, args: Args<'_>, writer: &mut PackedWriter) -> Outcome {
    pack(access, args, writer, ZRANGE)
}

pub(super) fn pack_zrevrange(access: &mut Access<'_>, args: Args<'_>, writer: &mut PackedWriter) -> Outcome {
    pack(access, args, writer, ZREVRANGE)
}

pub(super) fn pack_zrangebyscore(
    access: &mut Access<'_>,
    args: Args<'_>,
    writer: &mut PackedWriter,
) -> Outcome {
    pack(access, args, writer, ZRANGEBYSCORE)
}

pub(super) fn pack_zrevrangebyscore(
    access: &mut Access<'_>,
    args: Args<'_>,
    writer: &mut PackedWriter,
) -> Outcome {
    pack(access, args, writer, ZREVRANGEBYSCORE)
}

pub(super) fn zrange(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    range(access, args, reply, ZRANGE)
}

pub(super) fn zrevrange(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    range(access, args, reply, ZREVRANGE)
}

pub(super) fn zrangebyscore(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    range(access, args, reply, ZRANGEBYSCORE)
}

pub(super) fn zrevrangebyscore(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    range(access, args, reply, ZREVRANGEBYSCORE)
}

pub(super) fn zrangebylex(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    range(access, args, reply, ZRANGEBYLEX)
}

pub(super) fn zrevrangebylex(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    range(access, args, reply, ZREVRANGEBYLEX)
}

pub(super) fn zrangestore(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let limits = &access.settings().limits;
    let options = Options::parse(args, 5, Form { by: None, reverse: None, stores: true })?;
    let selection = options.selection(args.at(3), args.at(4))?;
    let result = match access.sorted_set(args.at(2))? {
        Some(set) => {
            let members = options.members(set, selection);
            let mut entries: Vec<(&[u8], f64)> =
                if options.reverse { members.rev().collect() } else { members.collect() };
            lose_signs(&mut entries, options.by, limits);
            SortedSet::from_entries(entries, limits)
        }
        None => SortedSet::new(),
    };
    store(access, reply, args.at(1), result, "zrangestore")
}

/// Makes negative zeros positive as far as Redis, which adds one entry after the other, has a listpack for
/// them. It knows the number of entries before only where they are a range of ranks.
fn lose_signs(entries: &mut [(&[u8], f64)], by: By, limits: &EncodingLimits) {
    let count_max = limits.sorted_set_entries_max;
    if by == By::Rank && entries.len() > count_max {
        return;
    }
    for (member, score) in entries.iter_mut().take(count_max) {
        if member.len() > limits.sorted_set_value_bytes_max {
            return;
        }
        *score += 0.0;
    }
}

/// Puts a result in the place of whatever a key holds; an empty one removes the key. Replies its length.
pub(super) fn store(
    access: &mut Access<'_>,
    reply: &mut Reply,
    key: &[u8],
    result: SortedSet,
    event: &'static str,
) -> Outcome {
    reply.integer(result.len() as i64);
    if !result.is_empty() {
        access.put(key, Value::SortedSet(result), None)?;
        access.modified(key, EventClass::SORTED_SET, event);
    } else {
        access.delete(key);
    }
    Ok(())
}

fn count(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply, by: By) -> Outcome {
    let selection = Selection::parse(by, args.at(2), args.at(3))?;
    let count = access.sorted_set(args.at(1))?.map_or(0, |set| selection.ranks(set, false).len());
    reply.integer(count as i64);
    Ok(())
}

pub(super) fn zcount(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    count(access, args, reply, By::Score)
}

pub(super) fn zlexcount(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    count(access, args, reply, By::Member)
}

fn remove_range(
    access: &mut Access<'_>,
    args: Args<'_>,
    reply: &mut Reply,
    (by, event): (By, &'static str),
) -> Outcome {
    let key = args.at(1);
    let selection = Selection::parse(by, args.at(2), args.at(3))?;
    let Some(set) = access.sorted_set_mut(key)? else {
        reply.integer(0);
        return Ok(());
    };
    let ranks = selection.ranks(set, false);
    let count = ranks.len();
    if count > 0 {
        let removal = Removal::of_ranks(ranks, set);
        removed(access, key, event, removal);
    }
    reply.integer(count as i64);
    Ok(())
}

pub(super) fn zremrangebyrank(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    remove_range(access, args, reply, (By::Rank, "zremrangebyrank"))
}

pub(super) fn zremrangebyscore(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    remove_range(access, args, reply, (By::Score, "zremrangebyscore"))
}

pub(super) fn zremrangebylex(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    remove_range(access, args, reply, (By::Member, "zremrangebylex"))
}
