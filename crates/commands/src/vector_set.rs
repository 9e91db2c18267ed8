//! Vector sets.
//!
//! Arities are checked here and not by the table: redis-server registers these commands with any number of
//! arguments, and the error has their names in capitals. It notifies of no events for them either.

mod add;
mod attribute;
mod filter;
mod query;
mod search;
mod table;
#[cfg(test)]
mod tests;

use mantissa_protocol::Args;
use mantissa_store::VectorSet;

use crate::access::Access;
use crate::error::{Error, Outcome};
use crate::parse;

pub use filter::Filter;
pub(crate) use table::COMMANDS;

const INVALID_VECTOR: Error = Error::fixed("ERR invalid vector specification");

/// Refuses a number of arguments, the name included, out of range.
fn check_arity(args: Args<'_>, name: &str, wanted: std::ops::RangeInclusive<usize>) -> Outcome {
    if wanted.contains(&args.len()) { Ok(()) } else { Err(Error::arity(name)) }
}

/// The set at a key, to read.
fn set_at<'a>(access: &'a Access<'_>, key: &[u8]) -> Outcome<Option<&'a VectorSet>> {
    access.collection(key)
}

/// The element of that name of the set at a key.
fn element_at<'a>(access: &'a Access<'_>, key: &[u8], name: &[u8]) -> Outcome<Option<(&'a VectorSet, u32)>> {
    let set = set_at(access, key)?;
    Ok(set.and_then(|set| Some((set, set.find(name)?))))
}

/// A vector among the arguments.
struct GivenVector {
    numbers: Vec<f32>,
    /// The number of numbers that it is to be reduced to.
    reduced: Option<u32>,
    /// Where the arguments go on.
    end: usize,
}

impl GivenVector {
    /// Reads `[REDUCE dim] FP32 bytes` or `[REDUCE dim] VALUES count number ...` from an argument on.
    fn parse(args: Args<'_>, at: usize, may_reduce: bool) -> Outcome<Self> {
        let (mut at, mut reduced) = (at, None);
        let word = |at: usize| args.get(at).ok_or(INVALID_VECTOR);
        if may_reduce && parse::is(word(at)?, "REDUCE") {
            let wanted =
                mantissa_number::parse_i64(word(at + 1)?).and_then(|wanted| u32::try_from(wanted).ok());
            reduced = Some(wanted.filter(|&wanted| wanted > 0).ok_or(INVALID_VECTOR)?);
            at += 2;
        }
        let format = word(at)?;
        if parse::is(format, "FP32") {
            let (numbers, rest) = word(at + 1)?.as_chunks::<4>();
            if numbers.is_empty() || !rest.is_empty() {
                return Err(INVALID_VECTOR);
            }
            let numbers = numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
            return Ok(GivenVector { numbers, reduced, end: at + 2 });
        }
        if !parse::is(format, "VALUES") {
            return Err(INVALID_VECTOR);
        }
        let count = mantissa_number::parse_i64(word(at + 1)?).and_then(|count| usize::try_from(count).ok());
        let start = at + 2;
        let count = count.filter(|&count| count > 0 && count <= args.len() - start).ok_or(INVALID_VECTOR)?;
        let texts = args.range(start..start + count).iter();
        let numbers = texts.map(|text| mantissa_number::parse_score(text).map(|number| number as f32));
        let numbers = numbers.collect::<Option<_>>().ok_or(INVALID_VECTOR)?;
        Ok(GivenVector { numbers, reduced, end: start + count })
    }
}

fn dimension_mismatch(given: usize, set: &VectorSet) -> Error {
    let dimension = set.dimension();
    Error::new(format!("ERR Vector dimension mismatch - got {given} but set has {dimension}"))
}

fn projection_mismatch(given: usize, input: u32) -> Error {
    Error::new(format!(
        "ERR Input dimension mismatch for projection - got {given} but projection expects {input}"
    ))
}
