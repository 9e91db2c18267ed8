//! VADD, VREM and VSETATTR.

use std::sync::Arc;

use mantissa_protocol::{Args, Reply};
use mantissa_store::vector_set::{
    DIMENSION_MAX, Draft, LINKS_DEFAULT, LINKS_MAX, LINKS_MIN, Plan, Projection, Quantization, Target,
    VectorSetOptions,
};
use mantissa_store::{ValueType, VectorSet};

use super::{GivenVector, check_arity, dimension_mismatch, projection_mismatch};
use crate::access::Access;
use crate::access::work::Work;
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
                // Redis searches on another thread then. A long search takes no lock here either way.
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

/// Plans that are made for an insertion at most. One in a hundred is void where eight threads add to a set
/// of 60,000. What is left after that is inserted with the shard locked.
const TRIES_MAX: u32 = 3;
/// Comparisons from which on the search of an insertion is worth another locking. One into 60,000 elements of
/// 128 numbers takes 170 microseconds alone, and 2 to 8 more with a plan.
const COMPARISONS_MIN: usize = 2000;

/// An insertion that was planned with no shard locked.
struct Planned {
    vector: GivenVector,
    plan: Option<(Target, Plan)>,
    /// Plans that were made for it.
    tries: u32,
}

/// Whether insertions compare with so many elements that they are planned.
fn is_planning_worthwhile(set: &VectorSet, ef: usize) -> bool {
    set.len().min(ef.saturating_mul(set.links_max() as usize)) >= COMPARISONS_MIN
}

/// A vector as a set keeps it.
fn target(set: &VectorSet, numbers: Vec<f32>) -> Target {
    set.target(match set.projection() {
        Some(projection) => projection.apply(&numbers),
        None => numbers,
    })
}

/// The work of planning an insertion.
fn planning(draft: Draft, ef: usize, vector: GivenVector, tries: u32) -> Work {
    Box::new(move |image| {
        let planned = VectorSet::of(image.value()).and_then(|set| {
            let target = target(set, vector.numbers.clone());
            let plan = draft.plan(set, &target, ef)?;
            Some((target, plan))
        });
        let tries = if planned.is_some() { tries + 1 } else { TRIES_MAX };
        Box::new(Planned { vector, plan: planned, tries })
    })
}

/// Adds a new element as planned; or leaves the planning, which the error says; or gives the vector back for
/// an insertion without a plan, also where that will fail.
fn add_as_planned(
    access: &mut Access<'_>,
    (key, name): (&[u8], &[u8]),
    options: &Options<'_>,
    Planned { vector, plan, tries }: Planned,
) -> Outcome<Option<GivenVector>> {
    let ef = options.ef.unwrap_or(EF_DEFAULT);
    let Ok(Some(set)) = access.collection_mut::<VectorSet>(key) else { return Ok(Some(vector)) };
    if options.check(set, &vector).is_err() {
        return Ok(Some(vector));
    }
    if plan.is_some_and(|(target, plan)| set.add_planned(name, &target, plan)) {
        return Ok(None);
    }
    let may_plan = tries < TRIES_MAX && is_planning_worthwhile(set, ef) && set.find(name).is_none();
    match may_plan.then(|| set.draft(ef)).flatten() {
        Some(draft) => Err(access.leave_work(planning(draft, ef, vector, tries))),
        None => Ok(Some(vector)),
    }
}

/// Adds an element, unless it was added as planned, and sets its attribute. False if it was there before.
fn finish(
    access: &mut Access<'_>,
    (key, name): (&[u8], &[u8]),
    options: &Options<'_>,
    unplanned: Option<GivenVector>,
) -> Outcome<bool> {
    let set = access.collection_mut::<VectorSet>(key)?.ok_or(Error::NO_SUCH_KEY)?;
    let is_new = match unplanned {
        Some(GivenVector { numbers, .. }) => {
            set.set(name, &target(set, numbers), options.ef.unwrap_or(EF_DEFAULT))
        }
        None => true,
    };
    if let Some(attribute) = options.attribute
        && let Some(element) = set.find(name)
    {
        set.set_attribute(element, attribute);
    }
    Ok(is_new)
}

pub(super) fn vadd(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    check_arity(args, "VADD", 5..=usize::MAX)?;
    let key = args.at(1);
    let planned = match access.take_work_done::<Planned>() {
        Some(planned) => *planned,
        None => Planned { vector: GivenVector::parse(args, 2, true)?, plan: None, tries: 0 },
    };
    let end = planned.vector.end;
    let name = args.get(end).ok_or_else(|| Error::arity("VADD"))?;
    let options = Options::parse(args.from(end + 1))?;
    let unplanned = match access.may_leave_work() {
        true => access.untouched(|access| add_as_planned(access, (key, name), &options, planned))?,
        false => Some(planned.vector),
    };
    match (access.collection_mut::<VectorSet>(key)?, &unplanned) {
        (Some(set), Some(vector)) => options.check(set, vector)?,
        (None, Some(vector)) => {
            let new = VectorSet::new(options.of_set(vector)?);
            access.put(key, new.into_value(), None)?;
        }
        (_, None) => {}
    }
    let is_new = access.untouched(|access| finish(access, (key, name), &options, unplanned))?;
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
