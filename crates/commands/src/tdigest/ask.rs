//! Questions to t-digests.

use mantissa_protocol::{Args, Reply};
use smallvec::SmallVec;

use super::{ask, digest};
use crate::access::Access;
use crate::error::{Error, Outcome};
use crate::parse;

type Numbers = SmallVec<[f64; 16]>;

/// The numbers from argument 2 on, once the key is known to hold a digest: mistakes in them come after that.
fn numbers(access: &Access<'_>, args: Args<'_>, name: &str, error: &'static str) -> Outcome<Numbers> {
    if args.len() < 3 {
        return Err(Error::arity(name));
    }
    digest(access, args.at(1))?;
    args.from(2).iter().map(|word| parse::float_or(word, error)).collect()
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
    let found = digest(access, args.at(1))?;
    let mut parts = Numbers::new();
    for word in args.from(2) {
        let part = parse::float_or(word, "ERR T-Digest: error parsing quantile")?;
        if !(0.0..=1.0).contains(&part) {
            return Err(Error::fixed("ERR T-Digest: quantile should be in [0,1]"));
        }
        parts.push(part);
    }
    let answers = if found.is_compressed() {
        found.quantiles(&parts)
    } else {
        ask(access, args.at(1), |digest| digest.quantiles(&parts))?
    };
    write_doubles(&answers, reply)
}

pub(super) fn cdf(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let numbers = numbers(access, args, "tdigest.cdf", "ERR T-Digest: error parsing cdf")?;
    let answers: Numbers =
        ask(access, args.at(1), |digest| numbers.iter().map(|&number| digest.part_below(number)).collect())?;
    write_doubles(&answers, reply)
}

fn ranks(
    access: &mut Access<'_>,
    args: Args<'_>,
    reply: &mut Reply,
    (name, reverse): (&str, bool),
) -> Outcome {
    let numbers = numbers(access, args, name, "ERR T-Digest: error parsing value")?;
    let found = digest(access, args.at(1))?;
    // Only a number within the range is looked for among the nodes.
    let range = found.range();
    let is_within = |&number: &f64| range.is_some_and(|(min, max)| !(number < min || number > max));
    let answers: SmallVec<[i64; 16]> = if numbers.iter().any(is_within) {
        ask(access, args.at(1), |digest| {
            numbers.iter().map(|&number| digest.rank(number, reverse)).collect()
        })?
    } else {
        numbers.iter().map(|&number| found.rank(number, reverse)).collect()
    };
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
    let count = digest(access, args.at(1))?.count();
    let mut ranks: SmallVec<[i64; 16]> = SmallVec::new();
    for word in args.from(2) {
        let rank = parse::integer_or(word, "ERR T-Digest: error parsing rank")?;
        if rank < 0 {
            return Err(Error::fixed("ERR T-Digest: rank needs to be non negative"));
        }
        ranks.push(rank);
    }
    // Only a rank between the ends is looked for among the nodes.
    let answers: Numbers = if ranks.iter().any(|&rank| rank > 0 && rank < count) {
        ask(access, args.at(1), |digest| ranks.iter().map(|&rank| digest.by_rank(rank, reverse)).collect())?
    } else {
        let digest = digest(access, args.at(1))?;
        ranks.iter().map(|&rank| digest.by_rank(rank, reverse)).collect()
    };
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
    digest(access, args.at(1))?;
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
    reply.double(ask(access, args.at(1), |digest| digest.trimmed_mean(low, high))?);
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
