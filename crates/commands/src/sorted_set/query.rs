//! Reading single members: ZSCORE, ZMSCORE, ZCARD, ZRANK, ZREVRANK, ZRANDMEMBER.

use std::collections::HashSet;

use mantissa_protocol::packed::PackedWriter;
use mantissa_protocol::{Args, Reply};

use super::{members_header, write_member};
use crate::access::{Access, split_mix};
use crate::collection_scan::Picks;
use crate::error::{Error, Outcome};
use crate::parse;
use mantissa_store::SortedSet;

pub(super) fn zcard(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let len = access.window::<SortedSet>(args.at(1))?.map_or(0, |set| set.len);
    reply.integer(len as i64);
    Ok(())
}

pub(super) fn zscore(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    match access.sorted_set(args.at(1))?.and_then(|set| set.score(args.at(2))) {
        Some(score) => reply.double(score),
        None => reply.null(),
    }
    Ok(())
}

pub(super) fn zmscore(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let set = access.sorted_set(args.at(1))?;
    let members = args.from(2);
    reply.array(members.len());
    for member in members {
        match set.and_then(|set| set.score(member)) {
            Some(score) => reply.double(score),
            None => reply.null(),
        }
    }
    Ok(())
}

pub(super) fn pack_zscore(access: &mut Access<'_>, args: Args<'_>, writer: &mut PackedWriter) -> Outcome {
    writer.set_scalar();
    pack_zmscore(access, args, writer)
}

pub(super) fn pack_zmscore(access: &mut Access<'_>, args: Args<'_>, writer: &mut PackedWriter) -> Outcome {
    let set = access.sorted_set(args.at(1))?;
    let members = args.from(2);
    writer.reserve(members.len());
    for member in members {
        match set.and_then(|set| set.score(member)) {
            Some(score) => writer.number(score),
            None => writer.missing(),
        }
    }
    Ok(())
}

fn rank(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply, reverse: bool) -> Outcome {
    if args.len() > 4 {
        return Err(Error::arity(if reverse { "zrevrank" } else { "zrank" }));
    }
    let with_score = match args.get(3) {
        Some(option) if parse::is(option, "WITHSCORE") => true,
        Some(_) => return Err(Error::SYNTAX),
        None => false,
    };
    let found = access.sorted_set(args.at(1))?.and_then(|set| {
        let (rank, score) = set.rank(args.at(2))?;
        Some((if reverse { set.len() - 1 - rank } else { rank }, score))
    });
    match (found, with_score) {
        (Some((rank, _)), false) => reply.integer(rank as i64),
        (Some((rank, score)), true) => {
            reply.array(2);
            reply.integer(rank as i64);
            reply.double(score);
        }
        (None, false) => reply.null(),
        (None, true) => reply.null_array(),
    }
    Ok(())
}

pub(super) fn zrank(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    rank(access, args, reply, false)
}

pub(super) fn zrevrank(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    rank(access, args, reply, true)
}

pub(super) fn zrandmember(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let Some(count) = args.get(2) else { return random_member(access, args.at(1), reply) };
    let count = parse::negatable(count)?;
    let with_scores = args.len() == 4 && parse::is(args.at(3), "WITHSCORES");
    if args.len() > 4 || (args.len() == 4 && !with_scores) {
        return Err(Error::SYNTAX);
    }
    if with_scores && !(-(i64::MAX / 2)..=i64::MAX / 2).contains(&count) {
        return Err(Error::fixed("ERR value is out of range"));
    }
    random_members(access, args.at(1), reply, count, with_scores)
}

fn random_member(access: &mut Access<'_>, key: &[u8], reply: &mut Reply) -> Outcome {
    let mut state = access.random();
    match access.sorted_set(key)?.and_then(|set| set.get(below(&mut state, set.len()))) {
        Some((member, _)) => reply.bulk(member),
        None => reply.null(),
    }
    Ok(())
}

/// A uniform random number below `bound`.
fn below(state: &mut u64, bound: usize) -> usize {
    ((u128::from(split_mix(state)) * bound as u128) >> 64) as usize
}

/// Replies `count` different members, or with a negative count that many that may repeat.
fn random_members(
    access: &mut Access<'_>,
    key: &[u8],
    reply: &mut Reply,
    count: i64,
    with_scores: bool,
) -> Outcome {
    let mut state = access.random();
    let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    let Some(set) = access.sorted_set(key)?.filter(|_| wanted > 0) else {
        reply.array(0);
        return Ok(());
    };
    let len = set.len();
    if count < 0 {
        access.leave_for_long_reply()?;
        members_header(reply, wanted, with_scores);
        let mut picks = Picks::default();
        for _ in 0..wanted {
            let Some((member, score)) = set.get(below(&mut state, len)) else { break };
            if !picks.write(reply, |reply| write_member(reply, member, score, with_scores)) {
                break;
            }
        }
    } else if wanted >= len {
        members_header(reply, len, with_scores);
        set.iter().for_each(|(member, score)| write_member(reply, member, score, with_scores));
    } else {
        members_header(reply, wanted, with_scores);
        // Robert Floyd's way to sample without repetition: one random number a pick, and a set of the picks.
        let mut picked = HashSet::new();
        for last in len - wanted..len {
            let rank = below(&mut state, last + 1);
            let rank = if picked.insert(rank) { rank } else { last };
            picked.insert(rank);
            if let Some((member, score)) = set.get(rank) {
                write_member(reply, member, score, with_scores);
            }
        }
    }
    Ok(())
}
