//! What is asked of vector sets and their elements, but searches.

use std::collections::HashSet;

use mantissa_protocol::{Args, Reply};
use mantissa_store::VectorSet;
use mantissa_store::vector_set::Quantization;

use super::search::write_attribute;
use super::{check_arity, element_at, set_at};
use crate::access::{Access, split_mix};
use crate::error::{Error, Outcome};
use crate::parse;

fn name_of(quantization: Quantization) -> &'static str {
    match quantization {
        Quantization::None => "f32",
        Quantization::Q8 => "int8",
        Quantization::Binary => "bin",
    }
}

pub(super) fn vcard(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    check_arity(args, "VCARD", 2..=2)?;
    reply.integer(set_at(access, args.at(1))?.map_or(0, VectorSet::len) as i64);
    Ok(())
}

pub(super) fn vdim(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    check_arity(args, "VDIM", 2..=2)?;
    let set = set_at(access, args.at(1))?.ok_or(Error::fixed("ERR key does not exist"))?;
    reply.integer(i64::from(set.dimension()));
    Ok(())
}

pub(super) fn vismember(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    check_arity(args, "VISMEMBER", 3..=3)?;
    reply.boolean(element_at(access, args.at(1), args.at(2))?.is_some());
    Ok(())
}

pub(super) fn vgetattr(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    check_arity(args, "VGETATTR", 3..=3)?;
    match element_at(access, args.at(1), args.at(2))? {
        Some((set, element)) => write_attribute(set, element, reply),
        None => reply.null(),
    }
    Ok(())
}

pub(super) fn vemb(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    check_arity(args, "VEMB", 3..=usize::MAX)?;
    let is_raw = args.len() > 3;
    if !args.from(3).iter().all(|option| parse::is(option, "RAW")) {
        return Err(Error::fixed("ERR invalid option"));
    }
    let Some((set, element)) = element_at(access, args.at(1), args.at(2))? else {
        reply.null();
        return Ok(());
    };
    if !is_raw {
        let vector = set.vector(element);
        reply.array(vector.len());
        vector.into_iter().for_each(|number| reply.double(f64::from(number)));
        return Ok(());
    }
    let (range, length) = set.range_and_length(element);
    let has_range = set.quantization() == Quantization::Q8;
    let mut bytes = Vec::new();
    set.put_vector_bytes(element, &mut bytes);
    reply.array(3 + usize::from(has_range));
    reply.simple(name_of(set.quantization()));
    reply.bulk(&bytes);
    reply.double(f64::from(length));
    if has_range {
        reply.double(f64::from(range));
    }
    Ok(())
}

pub(super) fn vinfo(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    check_arity(args, "VINFO", 2..=2)?;
    let Some(set) = set_at(access, args.at(1))? else {
        reply.null_array();
        return Ok(());
    };
    let projected = set.projection().map_or(0, |projection| projection.input());
    let numbers = [
        ("hnsw-m", u64::from(set.links_max())),
        ("vector-dim", u64::from(set.dimension())),
        ("projection-input-dim", u64::from(projected)),
        ("size", set.len() as u64),
        ("max-level", u64::from(set.top_level())),
        ("attributes-count", set.attribute_count() as u64),
        ("vset-uid", 0),
        ("hnsw-max-node-uid", set.last_uid()),
    ];
    reply.map(numbers.len() + 1);
    reply.simple("quant-type");
    reply.simple(name_of(set.quantization()));
    for (name, number) in numbers {
        reply.simple(name);
        reply.integer(number as i64);
    }
    Ok(())
}

/// The neighbours by level, those of the highest first.
pub(super) fn vlinks(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    check_arity(args, "VLINKS", 3..=4)?;
    let with_scores = args.get(3).is_some_and(|option| parse::is(option, "WITHSCORES"));
    if args.len() == 4 && !with_scores {
        return Err(Error::arity("VLINKS"));
    }
    let Some((set, element)) = element_at(access, args.at(1), args.at(2))? else {
        reply.null();
        return Ok(());
    };
    let top = set.level(element);
    reply.array(usize::from(top) + 1);
    for level in (0..=top).rev() {
        let neighbours = set.neighbours(element, level);
        if with_scores {
            reply.map(neighbours.len());
        } else {
            reply.array(neighbours.len());
        }
        for near in neighbours {
            reply.bulk(set.name(near.element));
            if with_scores {
                // Rounded once more than the score of a search, as redis-server does it.
                reply.double(f64::from(1.0 - near.distance / 2.0));
            }
        }
    }
    Ok(())
}

pub(super) fn vrandmember(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    check_arity(args, "VRANDMEMBER", 2..=3)?;
    let count = args.get(2).map(|count| parse::integer_or(count, "ERR COUNT value is not an integer"));
    let count = count.transpose()?;
    let mut state = access.random();
    let Some(set) = set_at(access, args.at(1))? else {
        if count.is_some() {
            reply.array(0)
        } else {
            reply.null()
        }
        return Ok(());
    };
    let mut random = |bound: usize| ((u128::from(split_mix(&mut state)) * bound as u128) >> 64) as usize;
    let write = |rank: usize, reply: &mut Reply| {
        if let Some(element) = set.at_rank(rank) {
            reply.bulk(set.name(element));
        }
    };
    let len = set.len();
    let Some(count) = count else {
        write(random(len), reply);
        return Ok(());
    };
    let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    if count < 0 {
        reply.array(wanted);
        for _ in 0..wanted {
            write(random(len), reply);
            if reply.has_overflowed() {
                break;
            }
        }
    } else if wanted >= len {
        reply.array(len);
        set.from_rank(0).for_each(|element| reply.bulk(set.name(element)));
    } else {
        // Floyd's algorithm: each subset of that size is equally likely.
        reply.array(wanted);
        let mut taken = HashSet::with_capacity(wanted);
        for bound in len - wanted..len {
            let rank = random(bound + 1);
            let rank = if taken.insert(rank) { rank } else { bound };
            taken.insert(rank);
            write(rank, reply);
        }
    }
    Ok(())
}

/// Where a range of names begins or ends: the number of names before it.
fn bound(set: &VectorSet, text: &[u8], is_end: bool) -> Outcome<usize> {
    let after = |name: &[u8]| set.rank(name) + usize::from(set.find(name).is_some());
    Ok(match text {
        b"-" => 0,
        b"+" => set.len(),
        [b'[', name @ ..] => {
            if is_end {
                after(name)
            } else {
                set.rank(name)
            }
        }
        [b'(', name @ ..] => {
            if is_end {
                set.rank(name)
            } else {
                after(name)
            }
        }
        _ => return Err(INVALID_RANGE),
    })
}

const INVALID_RANGE: Error = Error::fixed("ERR invalid range: must start with '[', '(', '-' or '+'");

pub(super) fn vrange(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    check_arity(args, "VRANGE", 4..=5)?;
    let count = args.get(4).map(|count| parse::integer_or(count, "ERR invalid COUNT value")).transpose()?;
    let is_bound = |text: &[u8]| matches!(text, b"-" | b"+" | [b'[' | b'(', ..]);
    if !is_bound(args.at(2)) || !is_bound(args.at(3)) {
        return Err(INVALID_RANGE);
    }
    let Some(set) = set_at(access, args.at(1))? else {
        reply.array(0);
        return Ok(());
    };
    let (start, end) = (bound(set, args.at(2), false)?, bound(set, args.at(3), true)?);
    let wanted = count.and_then(|count| usize::try_from(count).ok()).unwrap_or(usize::MAX);
    let len = end.saturating_sub(start).min(wanted);
    reply.array(len);
    set.from_rank(start).take(len).for_each(|element| reply.bulk(set.name(element)));
    Ok(())
}
