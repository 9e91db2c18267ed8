//! VADD, VREM and VSETATTR.

use std::sync::Arc;

use mantissa_protocol::{Args, Reply};
use mantissa_store::vector_set::{
    DIMENSION_MAX, LINKS_DEFAULT, LINKS_MAX, LINKS_MIN, Projection, Quantization, VectorSetOptions,
};
use mantissa_store::{ValueType, VectorSet};

use super::{GivenVector, check_arity, dimension_mismatch, projection_mismatch};
use crate::access::Access;
use crate::error::{Error, Outcome};
use crate::parse;

/// Candidates that are kept while the neighbours of a new element are looked for, where no number is given.
const EF_DEFAULT: usize = 200;
const EF_MAX: i64 = 1_000_000;

/// What comes behind the element's name.
#[derive(Default)]
struct Options<'a> {
    quantization: Option<Quantization>,
    links: Option<u32>,
    ef: Option<usize>,
    attribute: Option<&'a [u8]>,
}

impl<'a> Options<'a> {
    fn parse(args: Args<'a>) -> Outcome<Self> {
        const INVALID: Error = Error::fixed("ERR invalid option after element");
        let mut options = Options::default();
        let mut words = args.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(INVALID);
            if parse::is(word, "CAS") {
                // Redis searches on another thread then. Here the shard stays locked either way.
            } else if parse::is(word, "NOQUANT") {
                options.quantization = Some(Quantization::None);
            } else if parse::is(word, "BIN") {
                options.quantization = Some(Quantization::Binary);
            } else if parse::is(word, "Q8") {
                options.quantization = Some(Quantization::Q8);
            } else if parse::is(word, "M") {
                let (min, max) = (i64::from(LINKS_MIN), i64::from(LINKS_MAX));
                options.links = Some(parse::integer_in(value()?, min, max, "ERR invalid M")? as u32);
            } else if parse::is(word, "EF") {
                options.ef = Some(parse::integer_in(value()?, 1, EF_MAX, "ERR invalid EF")? as usize);
            } else if parse::is(word, "SETATTR") {
                options.attribute = Some(value()?);
            } else {
                return Err(INVALID);
            }
        }
        Ok(options)
    }

    /// Whether a set can take an element with these options.
    fn check(&self, set: &VectorSet, vector: &GivenVector) -> Outcome {
        // What is not said is the default, also here.
        if self.quantization.unwrap_or_default() != set.quantization() {
            return Err(Error::fixed("ERR asked quantization mismatch with existing vector set"));
        }
        if self.links.unwrap_or(LINKS_DEFAULT) != set.links_max() {
            return Err(Error::fixed("ERR asked M value mismatch with existing vector set"));
        }
        let given = vector.numbers.len();
        match (set.projection(), vector.reduced) {
            (None, None) if given == set.dimension() as usize => Ok(()),
            (None, Some(_)) if given == set.dimension() as usize => {
                Err(Error::fixed("ERR cannot add projection to existing set without projection"))
            }
            (None, _) => Err(dimension_mismatch(given, set)),
            (Some(_), reduced) if reduced != Some(set.dimension()) => Err(dimension_mismatch(given, set)),
            (Some(projection), _) if given != projection.input() as usize => {
                Err(projection_mismatch(given, projection.input()))
            }
            (Some(_), _) => Ok(()),
        }
    }

    /// The options of a set whose first element has this vector.
    fn of_set(&self, vector: &GivenVector) -> Outcome<VectorSetOptions> {
        let given = vector.numbers.len();
        let dimension = vector.reduced.map_or(given, |reduced| reduced as usize);
        // The matrix of a projection has as many numbers as the product of its sizes.
        let numbers = if vector.reduced.is_some() { dimension.saturating_mul(given) } else { dimension };
        if dimension.max(given) > DIMENSION_MAX as usize || numbers > PROJECTION_NUMBERS_MAX {
            return Err(Error::fixed("ERR invalid vector dimension"));
        }
        let projection = vector.reduced.map(|reduced| Arc::new(Projection::new(given as u32, reduced)));
        let (quantization, links) =
            (self.quantization.unwrap_or_default(), self.links.unwrap_or(LINKS_DEFAULT));
        Ok(VectorSetOptions { dimension: dimension as u32, quantization, links, projection })
    }
}

/// The most numbers of a matrix: 256 MB.
const PROJECTION_NUMBERS_MAX: usize = 64 << 20;

pub(super) fn vadd(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    check_arity(args, "VADD", 5..=usize::MAX)?;
    let key = args.at(1);
    let vector = GivenVector::parse(args, 2, true)?;
    let name = args.get(vector.end).ok_or_else(|| Error::arity("VADD"))?;
    let options = Options::parse(args.from(vector.end + 1))?;
    match access.collection_mut::<VectorSet>(key)? {
        Some(set) => options.check(set, &vector)?,
        None => {
            let new = VectorSet::new(options.of_set(&vector)?);
            access.put(key, new.into_value(), None)?;
        }
    }
    let Some(set) = access.collection_mut::<VectorSet>(key)? else {
        return Err(Error::NO_SUCH_KEY);
    };
    let numbers = match set.projection() {
        Some(projection) => projection.apply(&vector.numbers),
        None => vector.numbers,
    };
    let target = set.target(numbers);
    let is_new = set.set(name, &target, options.ef.unwrap_or(EF_DEFAULT));
    if let Some(attribute) = options.attribute
        && let Some(element) = set.find(name)
    {
        set.set_attribute(element, attribute);
    }
    access.changed(key);
    reply.boolean(is_new);
    Ok(())
}

pub(super) fn vrem(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    check_arity(args, "VREM", 3..=3)?;
    let key = args.at(1);
    let set = access.collection_mut::<VectorSet>(key)?;
    let Some((set, element)) = set.and_then(|set| set.find(args.at(2)).map(|element| (set, element))) else {
        reply.boolean(false);
        return Ok(());
    };
    let is_last = set.len() == 1;
    if !is_last {
        set.remove(element);
    }
    access.changed(key);
    if is_last {
        access.remove(key);
    }
    reply.boolean(true);
    Ok(())
}

pub(super) fn vsetattr(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    check_arity(args, "VSETATTR", 4..=4)?;
    let key = args.at(1);
    let set = access.collection_mut::<VectorSet>(key)?;
    let found = set.and_then(|set| set.find(args.at(2)).map(|element| (set, element)));
    let is_there = found.map(|(set, element)| set.set_attribute(element, args.at(3))).is_some();
    if is_there {
        access.changed(key);
    }
    reply.boolean(is_there);
    Ok(())
}
