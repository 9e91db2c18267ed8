//! GEOSEARCH, GEOSEARCHSTORE and the older GEORADIUS forms: one search with different ways to ask for it.
//!
//! Costs as many members as lie in the at most nine cells that cover the shape, and the sort of those inside;
//! COUNT with ANY stops at enough.

use mantissa_protocol::{Args, Reply};
use mantissa_store::{Boundary, SortedSet, SortedSetIter, Value};
use smallvec::SmallVec;

use super::area::{Position, Shape, to_integer};
use super::{position, unit_m, write_distance, write_position};
use crate::access::Access;
use crate::effects::EventClass;
use crate::error::{Error, Outcome};
use crate::parse;

/// Most members that are looked at under the lock.
const CANDIDATES_MAX: usize = 64;

/// Members of at most nine cells.
type Candidates<'s> = SmallVec<[SortedSetIter<'s>; 9]>;

/// The ways to ask.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// GEORADIUS: a position, then options.
    Radius { stores: bool },
    /// GEORADIUSBYMEMBER: a member, then options.
    RadiusByMember { stores: bool },
    /// GEOSEARCH: options only.
    Search,
    /// GEOSEARCHSTORE: the same after a destination.
    SearchStore,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Ascending,
    Descending,
}

/// What is asked for.
#[derive(Default)]
struct Query<'a> {
    center: Option<Position>,
    /// The member that is the center, of a key that is not there.
    is_centered: bool,
    shape: Option<Shape>,
    /// Meters in the unit that distances are told in.
    unit_m: f64,
    with_distance: bool,
    with_hash: bool,
    with_position: bool,
    order: Option<Order>,
    count: Option<usize>,
    takes_any: bool,
    destination: Option<&'a [u8]>,
    stores_distance: bool,
}

/// A member inside the shape.
struct Found<'a> {
    member: &'a [u8],
    score: f64,
    position: Position,
    distance_m: f64,
}

/// A number that is not negative, and its unit.
fn radius(args: Args<'_>, at: usize) -> Outcome<(f64, f64)> {
    let radius = parse::float_or(args.at(at), "ERR need numeric radius")?;
    if radius < 0.0 {
        return Err(Error::fixed("ERR radius cannot be negative"));
    }
    Ok((radius, unit_m(args.at(at + 1))?))
}

fn member_position(set: &SortedSet, member: &[u8]) -> Outcome<Position> {
    let score = set.score(member).ok_or(Error::fixed("ERR could not decode requested zset member"))?;
    Ok(Position::of_score(score))
}

impl<'a> Query<'a> {
    fn parse(form: Form, args: Args<'a>, set: Option<&SortedSet>) -> Outcome<Query<'a>> {
        let mut query = Query { unit_m: 1.0, ..Query::default() };
        let mut at = match form {
            Form::Radius { .. } => {
                query.center = Some(position(args, 2)?);
                query.circle(args, 4)?;
                6
            }
            Form::RadiusByMember { .. } => {
                if let Some(set) = set {
                    query.center = Some(member_position(set, args.at(2))?);
                    query.circle(args, 3)?;
                }
                5
            }
            Form::Search => 2,
            Form::SearchStore => {
                query.destination = Some(args.at(1));
                3
            }
        };
        while at < args.len() {
            at += 1 + match query.common_option(args, at)? {
                Some(operands) => operands,
                None if matches!(form, Form::Search | Form::SearchStore) => {
                    query.search_option(form, args, at, set)?
                }
                None => query.store_option(form, args, at)?,
            };
        }
        query.check(form, args)?;
        Ok(query)
    }

    fn circle(&mut self, args: Args<'_>, at: usize) -> Outcome {
        let (radius, unit_m) = radius(args, at)?;
        self.unit_m = unit_m;
        self.shape = Some(Shape::Circle { radius_m: radius * unit_m });
        Ok(())
    }

    /// Takes the vertices of a polygon, as in Valkey 9, and says how many operands it has. Distances are in
    /// meters from its middle.
    fn polygon(&mut self, args: Args<'_>, at: usize) -> Outcome<usize> {
        const BAD_COUNT: &str = "ERR invalid number of vertices";
        let count = parse::integer_in(args.at(at), i32::MIN.into(), i32::MAX.into(), BAD_COUNT)?;
        let count = usize::try_from(count).unwrap_or(0);
        if count < 3 || (args.len() - at - 1) / 2 < count {
            return Err(Error::fixed("ERR GEOSEARCH BYPOLYGON must have at least 3 vertices"));
        }
        let vertex = |number: usize| position(args, at + 1 + 2 * number);
        let vertices = (0..count).map(vertex).collect::<Outcome<Vec<_>>>()?;
        self.center = Some(Position::middle(&vertices));
        self.shape = Some(Shape::Polygon { vertices });
        self.unit_m = 1.0;
        Ok(1 + 2 * count)
    }

    /// Takes an option that all forms have, and says how many operands it has.
    fn common_option(&mut self, args: Args<'a>, at: usize) -> Outcome<Option<usize>> {
        let option = args.at(at);
        let is = |keyword| parse::is(option, keyword);
        if is("WITHDIST") {
            self.with_distance = true;
        } else if is("WITHHASH") {
            self.with_hash = true;
        } else if is("WITHCOORD") {
            self.with_position = true;
        } else if is("ANY") {
            self.takes_any = true;
        } else if is("ASC") {
            self.order = Some(Order::Ascending);
        } else if is("DESC") {
            self.order = Some(Order::Descending);
        } else if is("COUNT") && at + 1 < args.len() {
            let count = parse::integer(args.at(at + 1))?;
            if count <= 0 {
                return Err(Error::fixed("ERR COUNT must be > 0"));
            }
            self.count = Some(usize::try_from(count).unwrap_or(usize::MAX));
            return Ok(Some(1));
        } else {
            return Ok(None);
        }
        Ok(Some(0))
    }

    /// STORE and STOREDIST with a key.
    fn store_option(&mut self, form: Form, args: Args<'a>, at: usize) -> Outcome<usize> {
        let option = args.at(at);
        let stores = matches!(form, Form::Radius { stores: true } | Form::RadiusByMember { stores: true });
        let with_distance = parse::is(option, "STOREDIST");
        match args.get(at + 1) {
            Some(key) if stores && (with_distance || parse::is(option, "STORE")) => {
                self.destination = Some(key);
                self.stores_distance = with_distance;
                Ok(1)
            }
            _ => Err(Error::SYNTAX),
        }
    }

    /// Where the center is and what the shape.
    fn search_option(
        &mut self,
        form: Form,
        args: Args<'a>,
        at: usize,
        set: Option<&SortedSet>,
    ) -> Outcome<usize> {
        let option = args.at(at);
        let left = args.len() - at - 1;
        let is_circle = matches!(self.shape, Some(Shape::Circle { .. }));
        let is_box = matches!(self.shape, Some(Shape::Box { .. }));
        let is_polygon = matches!(self.shape, Some(Shape::Polygon { .. }));
        let has_center = self.is_centered || self.center.is_some();
        // Each of these can be repeated, but not the one beside the other. A polygon is its own center.
        if parse::is(option, "FROMMEMBER") && left >= 1 && (self.is_centered || self.center.is_none()) {
            self.is_centered = true;
            if let Some(set) = set {
                self.center = Some(member_position(set, args.at(at + 1))?);
            }
            Ok(1)
        } else if parse::is(option, "FROMLONLAT") && left >= 2 && !self.is_centered && !is_polygon {
            self.center = Some(position(args, at + 1)?);
            Ok(2)
        } else if parse::is(option, "BYRADIUS") && left >= 2 && !is_box && !is_polygon {
            self.circle(args, at + 1)?;
            Ok(2)
        } else if parse::is(option, "BYBOX") && left >= 3 && !is_circle && !is_polygon {
            let width = parse::float_or(args.at(at + 1), "ERR need numeric width")?;
            let height = parse::float_or(args.at(at + 2), "ERR need numeric height")?;
            if width < 0.0 || height < 0.0 {
                return Err(Error::fixed("ERR height or width cannot be negative"));
            }
            self.unit_m = unit_m(args.at(at + 3))?;
            self.shape = Some(Shape::Box { width_m: width * self.unit_m, height_m: height * self.unit_m });
            Ok(3)
        } else if parse::is(option, "BYPOLYGON")
            && left >= 2
            && (is_polygon || !has_center && self.shape.is_none())
        {
            self.polygon(args, at + 1)
        } else if parse::is(option, "STOREDIST") && form == Form::SearchStore {
            self.stores_distance = true;
            Ok(0)
        } else {
            Err(Error::SYNTAX)
        }
    }

    /// Refuses options that do not go together.
    fn check(&self, form: Form, args: Args<'_>) -> Outcome {
        let is_search = matches!(form, Form::Search | Form::SearchStore);
        if self.destination.is_some() && (self.with_distance || self.with_hash || self.with_position) {
            let what = if is_search { "GEOSEARCHSTORE" } else { "STORE option in GEORADIUS" };
            return Err(Error::new(format!(
                "ERR {what} is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
            )));
        }
        if is_search && self.center.is_none() && !self.is_centered {
            let before = "ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for ";
            return Err(Error::quoting(before, args.at(0), ""));
        }
        if is_search && self.shape.is_none() {
            let before = "ERR exactly one of BYRADIUS and BYBOX can be specified for ";
            return Err(Error::quoting(before, args.at(0), ""));
        }
        if self.takes_any && self.count.is_none() {
            return Err(Error::fixed("ERR the ANY argument requires COUNT argument"));
        }
        Ok(())
    }

    /// The members of the cells that cover the shape, cell by cell.
    fn candidates<'s>(&self, set: &'s SortedSet) -> Candidates<'s> {
        let (Some(center), Some(shape)) = (self.center, &self.shape) else { return Candidates::new() };
        let members = |(low, high)| set.between(Boundary::BelowScore(low), Boundary::BelowScore(high));
        shape.score_ranges(center).map(members).collect()
    }

    /// The members inside, sorted and limited as asked.
    fn run<'s>(&self, candidates: Candidates<'s>) -> Vec<Found<'s>> {
        let (Some(center), Some(shape)) = (self.center, &self.shape) else { return Vec::new() };
        let count = self.count.unwrap_or(usize::MAX);
        let enough = if self.takes_any { count } else { usize::MAX };
        let mut found = Vec::new();
        for members in candidates {
            for (member, score) in members {
                if found.len() >= enough {
                    break;
                }
                let position = Position::of_score(score);
                if let Some(distance_m) = shape.distance_m(center, position) {
                    found.push(Found { member, score, position, distance_m });
                }
            }
        }
        // COUNT without an order means the nearest.
        let nearest = (self.count.is_some() && !self.takes_any).then_some(Order::Ascending);
        if let Some(order) = self.order.or(nearest) {
            let compare = |one: &Found<'_>, two: &Found<'_>| {
                let nearer = one.distance_m.total_cmp(&two.distance_m);
                if order == Order::Ascending { nearer } else { nearer.reverse() }
            };
            if count < found.len() / 2 {
                found.select_nth_unstable_by(count, compare);
                found.truncate(count);
            }
            found.sort_by(compare);
        }
        found.truncate(count);
        found
    }

    fn write(&self, found: &[Found<'_>], reply: &mut Reply) {
        let extras = [self.with_distance, self.with_hash, self.with_position];
        let extra_count = extras.into_iter().filter(|&with| with).count();
        reply.array(found.len());
        for item in found {
            if extra_count > 0 {
                reply.array(1 + extra_count);
            }
            reply.bulk(item.member);
            if self.with_distance {
                write_distance(reply, item.distance_m / self.unit_m);
            }
            if self.with_hash {
                reply.integer(to_integer(item.score));
            }
            if self.with_position {
                write_position(reply, item.position);
            }
        }
    }

    /// The members found as a sorted set of their own.
    fn to_set(&self, found: &[Found<'_>], access: &Access<'_>) -> SortedSet {
        let score = |item: &Found<'_>| {
            if self.stores_distance { item.distance_m / self.unit_m } else { item.score }
        };
        let entries = found.iter().map(|item| (item.member, score(item))).collect();
        SortedSet::from_entries(entries, &access.settings().limits)
    }
}

fn search(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply, form: Form) -> Outcome {
    let source = if form == Form::SearchStore { args.at(2) } else { args.at(1) };
    let set = access.collection_in_place::<SortedSet>(source)?;
    let query = Query::parse(form, args, set)?;
    let mut found = None;
    if let Some(set) = set {
        let candidates = query.candidates(set);
        let count = candidates.iter().map(|members| members.len()).sum();
        access.leave_if_many(set, count, CANDIDATES_MAX)?;
        found = Some(query.run(candidates));
    }
    let Some(destination) = query.destination else {
        query.write(found.as_deref().unwrap_or_default(), reply);
        return Ok(());
    };
    let result = query.to_set(found.as_deref().unwrap_or_default(), access);
    let count = result.len();
    if count > 0 {
        let is_search = form == Form::SearchStore;
        let event = if is_search { "geosearchstore" } else { "georadiusstore" };
        access.put(destination, Value::SortedSet(result), None)?;
        access.changed_by(destination, count as u64);
        access.event(EventClass::SORTED_SET, event, destination);
    } else {
        access.delete(destination);
    }
    reply.integer(count as i64);
    Ok(())
}

pub(super) fn geosearch(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    search(access, args, reply, Form::Search)
}

pub(super) fn geosearchstore(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    search(access, args, reply, Form::SearchStore)
}

pub(super) fn georadius(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    search(access, args, reply, Form::Radius { stores: true })
}

pub(super) fn georadius_ro(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    search(access, args, reply, Form::Radius { stores: false })
}

pub(super) fn georadiusbymember(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    search(access, args, reply, Form::RadiusByMember { stores: true })
}

pub(super) fn georadiusbymember_ro(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    search(access, args, reply, Form::RadiusByMember { stores: false })
}
