//! Questions to t-digests.

use mantissa_protocol::{Args, Reply};
use mantissa_store::TDigest;
use smallvec::SmallVec;

use super::{ask, digest};
use crate::access::Access;
use crate::error::{Error, Outcome};
use crate::parse;

type Numbers = SmallVec<[f64; 16]>;

/// The numbers from argument 2 on.
fn numbers(args: Args<'_>, error: &'static str) -> Outcome<Numbers> {
    args.from(2).iter().map(|word| parse::float_or(word, error)).collect()
}

/// Every question asks for a compressed digest.
fn always<A>(_: &TDigest, _: &A) -> bool {
    true
}

fn write_doubles(numbers: &[f64], reply: &mut Reply) -> Outcome {
    reply.array(numbers.len());
    numbers.iter().for_each(|&number| reply.double(number));
    Ok(())
}

fn write_integers(numbers: &[i64], reply: &mut Reply) -> Outcome {
    reply.array(numbers.len());
    numbers.iter().for_each(|&number| reply.integer(number));
    Ok(())
}

fn end(access: &Access<'_>, args: Args<'_>, name: &str, choose: fn((f64, f64)) -> f64) -> Outcome<f64> {
    if args.len() != 2 {
        return Err(Error::arity(name));
    }
    Ok(digest(access, args.at(1))?.range().map_or(f64::NAN, choose))
}

pub(super) fn min(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    reply.double(end(access, args, "tdigest.min", |range| range.0)?);
    Ok(())
}

pub(super) fn max(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    reply.double(end(access, args, "tdigest.max", |range| range.1)?);
    Ok(())
}

pub(super) fn quantile(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() < 3 {
        return Err(Error::arity("tdigest.quantile"));
    }
    let part = |word: &[u8]| {
        let part = parse::float_or(word, "ERR T-Digest: error parsing quantile")?;
        let is_part = (0.0..=1.0).contains(&part);
        is_part.then_some(part).ok_or(Error::fixed("ERR T-Digest: quantile should be in [0,1]"))
    };
    let parts = || args.from(2).iter().map(part).collect::<Outcome<Numbers>>();
    let answers = ask(access, args.at(1), parts, always, |digest, parts| digest.quantiles(parts))?;
    write_doubles(&answers, reply)
}

pub(super) fn cdf(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() < 3 {
        return Err(Error::arity("tdigest.cdf"));
    }
    let numbers = || numbers(args, "ERR T-Digest: error parsing cdf");
    let answers: Numbers = ask(access, args.at(1), numbers, always, |digest, numbers| {
        numbers.iter().map(|&number| digest.part_below(number)).collect()
    })?;
    write_doubles(&answers, reply)
}

fn ranks(
    access: &mut Access<'_>,
    args: Args<'_>,
    reply: &mut Reply,
    (name, reverse): (&str, bool),
) -> Outcome {
    if args.len() < 3 {
        return Err(Error::arity(name));
    }
    let numbers = || numbers(args, "ERR T-Digest: error parsing value");
    // Only a number within the range is looked for among the nodes.
    let is_one_within = |digest: &TDigest, numbers: &Numbers| {
        let range = digest.range();
        numbers.iter().any(|&number| range.is_some_and(|(min, max)| !(number < min || number > max)))
    };
    let answers: SmallVec<[i64; 16]> = ask(access, args.at(1), numbers, is_one_within, |digest, numbers| {
        numbers.iter().map(|&number| digest.rank(number, reverse)).collect()
    })?;
    write_integers(&answers, reply)
}

pub(super) fn rank(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    ranks(access, args, reply, ("tdigest.rank", false))
}

pub(super) fn revrank(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    ranks(access, args, reply, ("tdigest.revrank", true))
}

fn by_ranks(
    access: &mut Access<'_>,
    args: Args<'_>,
    reply: &mut Reply,
    (name, reverse): (&str, bool),
) -> Outcome {
    if args.len() < 3 {
        return Err(Error::arity(name));
    }
    let rank = |word: &[u8]| {
        let rank = parse::integer_or(word, "ERR T-Digest: error parsing rank")?;
        (rank >= 0).then_some(rank).ok_or(Error::fixed("ERR T-Digest: rank needs to be non negative"))
    };
    let ranks = || args.from(2).iter().map(rank).collect::<Outcome<SmallVec<[i64; 16]>>>();
    // Only a rank between the ends is looked for among the nodes.
    let is_one_between = |digest: &TDigest, ranks: &SmallVec<[i64; 16]>| {
        ranks.iter().any(|&rank| rank > 0 && rank < digest.count())
    };
    let answers: Numbers = ask(access, args.at(1), ranks, is_one_between, |digest, ranks| {
        ranks.iter().map(|&rank| digest.by_rank(rank, reverse)).collect()
    })?;
    write_doubles(&answers, reply)
}

pub(super) fn byrank(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    by_ranks(access, args, reply, ("tdigest.byrank", false))
}

pub(super) fn byrevrank(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    by_ranks(access, args, reply, ("tdigest.byrevrank", true))
}

pub(super) fn trimmed_mean(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() != 4 {
        return Err(Error::arity("tdigest.trimmed_mean"));
    }
    let parts = || {
        let low = parse::float_or(args.at(2), "ERR T-Digest: error parsing low_cut_percentile")?;
        let high = parse::float_or(args.at(3), "ERR T-Digest: error parsing high_cut_percentile")?;
        let parts = 0.0..=1.0;
        if !parts.contains(&low) || !parts.contains(&high) {
            return Err(Error::fixed(
                "ERR T-Digest: low_cut_percentile and high_cut_percentile should be in [0,1]",
            ));
        }
        if low >= high {
            return Err(Error::fixed(
                "ERR T-Digest: low_cut_percentile should be lower than high_cut_percentile",
            ));
        }
        Ok((low, high))
    };
    let mean = ask(access, args.at(1), parts, always, |digest, &(low, high)| digest.trimmed_mean(low, high))?;
    reply.double(mean);
    Ok(())
}

pub(super) fn info(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() != 2 {
        return Err(Error::arity("tdigest.info"));
    }
    let digest = digest(access, args.at(1))?;
    let (merged, unmerged) = (digest.merged(), digest.unmerged());
    let facts = [
        ("Compression", digest.compression()),
        ("Capacity", digest.capacity() as i64),
        ("Merged nodes", merged.0 as i64),
        ("Unmerged nodes", unmerged.0 as i64),
        ("Merged weight", merged.1),
        ("Unmerged weight", unmerged.1),
        ("Observations", digest.count()),
        ("Total compressions", digest.shape().compressions),
        ("Memory usage", digest.module_bytes()),
    ];
    reply.map(facts.len());
    for (name, value) in facts {
        reply.simple(name);
        reply.integer(value);
    }
    Ok(())
}
