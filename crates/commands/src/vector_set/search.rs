//! VSIM.

use mantissa_protocol::{Args, Reply};
use mantissa_store::VectorSet;
use mantissa_store::vector_set::{Neighbour, Search, Target};

use super::{Filter, GivenVector, check_arity, dimension_mismatch, projection_mismatch, set_at};
use crate::access::Access;
use crate::error::{Error, Outcome};
use crate::parse;

const COUNT_DEFAULT: usize = 10;
const EF_DEFAULT: usize = 100;
/// FILTER-EF for each element that is wanted.
const FILTER_EF_FACTOR: usize = 100;
/// Elements whose neighbours are looked at, at most, for one of FILTER-EF. In redis-server it is one, but the
/// graph is another one here: more that are met were met before. Two find more than it does, and take less of
/// the processor's time.
const EXPANDED_PER_FILTER_EF: usize = 2;

#[derive(Default)]
struct Options {
    with_scores: bool,
    with_attributes: bool,
    is_exact: bool,
    count: Option<usize>,
    ef: Option<usize>,
    filter_ef: Option<usize>,
    epsilon: Option<f64>,
    filter: Option<Filter>,
}

impl Options {
    fn parse(args: Args<'_>) -> Outcome<Self> {
        const SYNTAX: Error = Error::fixed("ERR syntax error in VSIM command");
        let mut options = Options::default();
        let mut words = args.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(SYNTAX);
            if parse::is(word, "WITHSCORES") {
                options.with_scores = true;
            } else if parse::is(word, "WITHATTRIBS") {
                options.with_attributes = true;
            } else if parse::is(word, "TRUTH") {
                options.is_exact = true;
            } else if parse::is(word, "NOTHREAD") {
                // There is no other thread that it could run on.
            } else if parse::is(word, "COUNT") {
                options.count = Some(positive(value()?, "ERR invalid COUNT")?);
            } else if parse::is(word, "EF") {
                options.ef = Some(positive(value()?, "ERR invalid EF")?);
            } else if parse::is(word, "FILTER-EF") {
                options.filter_ef = Some(positive(value()?, "ERR invalid FILTER-EF")?);
            } else if parse::is(word, "EPSILON") {
                let epsilon = parse::float_or(value()?, "ERR invalid EPSILON")?;
                if epsilon <= 0.0 {
                    return Err(Error::fixed("ERR invalid EPSILON"));
                }
                options.epsilon = Some(epsilon);
            } else if parse::is(word, "FILTER") {
                options.filter = Some(compile(value()?)?);
            } else {
                return Err(SYNTAX);
            }
        }
        Ok(options)
    }
}

fn positive(text: &[u8], error: &'static str) -> Outcome<usize> {
    parse::integer_in(text, 1, i64::MAX, error).map(|number| number as usize)
}

fn compile(text: &[u8]) -> Outcome<Filter> {
    Filter::compile(text).map_err(|at| {
        let shown = text.get(at..).filter(|rest| !rest.is_empty()).unwrap_or(text);
        Error::quoting("ERR syntax error in FILTER expression near: ", shown, "")
    })
}

/// What is looked for, and where the arguments go on.
fn target(set: &VectorSet, args: Args<'_>) -> Outcome<(Target, usize)> {
    if parse::is(args.at(2), "ELE") {
        let element = set.find(args.at(3)).ok_or(Error::fixed("ERR element not found in set"))?;
        return Ok((set.target(set.vector(element)), 4));
    }
    let vector = GivenVector::parse(args, 2, false)?;
    let given = vector.numbers.len();
    let numbers = match set.projection() {
        Some(projection) if given == projection.input() as usize => projection.apply(&vector.numbers),
        _ if given == set.dimension() as usize => vector.numbers,
        Some(projection) => return Err(projection_mismatch(given, projection.input())),
        None => return Err(dimension_mismatch(given, set)),
    };
    Ok((set.target(numbers), vector.end))
}

pub(super) fn vsim(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    check_arity(args, "VSIM", 4..=usize::MAX)?;
    let Some(set) = set_at(access, args.at(1))? else {
        reply.array(0);
        return Ok(());
    };
    let (target, end) = target(set, args)?;
    let options = Options::parse(args.from(end))?;
    let mut found = run(set, &target, &options);
    if let Some(epsilon) = options.epsilon {
        let near = found.iter().take_while(|found| f64::from(found.distance) / 2.0 <= epsilon).count();
        found.truncate(near);
    }
    write_found(set, &found, &options, reply);
    Ok(())
}

fn run(set: &VectorSet, target: &Target, options: &Options) -> Vec<Neighbour> {
    let count = options.count.unwrap_or(COUNT_DEFAULT);
    let mut passes = |element: u32| {
        let attribute = set.attribute(element);
        options.filter.as_ref().is_none_or(|filter| !attribute.is_empty() && filter.passes(attribute))
    };
    if options.is_exact {
        return set.search_all(target, count, passes);
    }
    let filter_ef = options.filter_ef.unwrap_or(count.saturating_mul(FILTER_EF_FACTOR));
    set.search(
        target,
        Search {
            count,
            ef: options.ef.unwrap_or(EF_DEFAULT),
            filter: options.filter.is_some().then_some(&mut passes),
            expanded_max: filter_ef.saturating_mul(EXPANDED_PER_FILTER_EF),
        },
    )
}

fn write_found(set: &VectorSet, found: &[Neighbour], options: &Options, reply: &mut Reply) {
    let facts = usize::from(options.with_scores) + usize::from(options.with_attributes);
    if facts > 0 && reply.is_resp3() {
        reply.map(found.len());
    } else {
        reply.array(found.len() * (1 + facts));
    }
    for &near in found {
        reply.bulk(set.name(near.element));
        if facts == 2 && reply.is_resp3() {
            reply.array(2);
        }
        if options.with_scores {
            reply.double(near.score());
        }
        if options.with_attributes {
            write_attribute(set, near.element, reply);
        }
    }
}

/// Writes an attribute, or null if there is none.
pub(super) fn write_attribute(set: &VectorSet, element: u32, reply: &mut Reply) {
    match set.attribute(element) {
        b"" => reply.null(),
        attribute => reply.bulk(attribute),
    }
}
