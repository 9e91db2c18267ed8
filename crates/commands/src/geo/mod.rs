//! Positions on the earth: members of a sorted set whose scores are the cells of a grid.

mod area;
mod search;

use mantissa_protocol::packed::PackedWriter;
use mantissa_protocol::{Args, OwnedArgs, Reply};

use crate::access::Access;
use crate::error::{Error, Outcome};
use crate::packed::{packs, packs_text};
use crate::parse;
use crate::sorted_set::zadd;
use crate::spec::{
    BeginSearch, Categories, FindKeys, Flags, Group, KeyFlags, KeyPosition, KeyPositions, KeySpec,
};
use crate::{DataSpec, long_reads};

use area::Position;
use search::{georadius, georadius_ro, georadiusbymember, georadiusbymember_ro, geosearch, geosearchstore};

/// The position that two arguments give.
fn position(args: Args<'_>, at: usize) -> Outcome<Position> {
    let (longitude, latitude) = (parse::float(args.at(at))?, parse::float(args.at(at + 1))?);
    Position::new(longitude, latitude).ok_or_else(|| {
        let mut text = b"ERR invalid longitude,latitude pair ".to_vec();
        mantissa_number::write_fixed(&mut text, longitude, 6);
        text.push(b',');
        mantissa_number::write_fixed(&mut text, latitude, 6);
        Error::from_bytes(text)
    })
}

/// The meters of a unit.
fn unit_m(unit: &[u8]) -> Outcome<f64> {
    const UNITS: [(&str, f64); 4] = [("M", 1.0), ("KM", 1000.0), ("FT", 0.3048), ("MI", 1609.34)];
    let found = UNITS.iter().find(|(name, _)| parse::is(unit, name));
    found
        .map(|(_, meters)| *meters)
        .ok_or(Error::fixed("ERR unsupported unit provided. please use M, KM, FT, MI"))
}

/// Replies a distance with four decimals, rounded as an integer of ten-thousandths.
fn write_distance(reply: &mut Reply, distance: f64) {
    let scaled = (distance * 10_000.0).round_ties_even() as u64;
    reply.bulk(format!("{}.{:04}", scaled / 10_000, scaled % 10_000).as_bytes());
}

fn write_position(reply: &mut Reply, position: Position) {
    reply.array(2);
    reply.double(position.longitude);
    reply.double(position.latitude);
}

/// GEOADD is ZADD of the cells' numbers, and is logged as that.
fn geoadd(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let is_option = |word: &[u8]| ["NX", "XX", "CH"].iter().any(|option| parse::is(word, option));
    let given =
        |option| args.from(2).iter().take_while(|word| is_option(word)).any(|word| parse::is(word, option));
    let first = 2 + args.from(2).iter().take_while(|word| is_option(word)).count();
    if !(args.len() - first).is_multiple_of(3) || (given("NX") && given("XX")) {
        return Err(Error::SYNTAX);
    }
    let mut scores = Vec::with_capacity((args.len() - first) / 3);
    for at in (first..args.len()).step_by(3) {
        scores.push(position(args, at)?.score().to_string());
    }
    let mut command: Vec<&[u8]> = vec![b"ZADD"];
    command.extend(args.range(1..first).iter());
    for (number, score) in scores.iter().enumerate() {
        command.extend([score.as_bytes(), args.at(first + number * 3 + 2)]);
    }
    zadd(access, OwnedArgs::from_slices(&command).as_args(), reply)?;
    access.log_instead(&command);
    Ok(())
}

fn geopos(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let set = access.sorted_set(args.at(1))?;
    reply.array(args.len() - 2);
    for member in args.from(2) {
        match set.and_then(|set| set.score(member)) {
            Some(score) => write_position(reply, Position::of_score(score)),
            None => reply.null_array(),
        }
    }
    Ok(())
}

fn pack_geopos(access: &mut Access<'_>, args: Args<'_>, writer: &mut PackedWriter) -> Outcome {
    let set = access.sorted_set(args.at(1))?;
    writer.set_columns(2);
    writer.reserve(2 * (args.len() - 2));
    for member in args.from(2) {
        match set.and_then(|set| set.score(member)).map(Position::of_score) {
            Some(position) => writer.numbers(&[position.longitude, position.latitude]),
            None => [(); 2].into_iter().for_each(|()| writer.missing()),
        }
    }
    Ok(())
}

fn geohash(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let set = access.sorted_set(args.at(1))?;
    reply.array(args.len() - 2);
    for member in args.from(2) {
        match set.and_then(|set| set.score(member)) {
            Some(score) => reply.bulk(&Position::of_score(score).geohash()),
            None => reply.null(),
        }
    }
    Ok(())
}

fn geodist(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let unit_m = match args.len() {
        4 => 1.0,
        5 => unit_m(args.at(4))?,
        _ => return Err(Error::SYNTAX),
    };
    let set = access.sorted_set(args.at(1))?;
    let position = |member| set.and_then(|set| set.score(member)).map(Position::of_score);
    match (position(args.at(2)), position(args.at(3))) {
        (Some(one), Some(two)) => write_distance(reply, one.distance_m(two) / unit_m),
        _ => reply.null(),
    }
    Ok(())
}

const READS: KeyFlags = KeyFlags::RO.or(KeyFlags::ACCESS);
const OVERWRITES: KeyFlags = KeyFlags::OW.or(KeyFlags::UPDATE);
const SOURCE: &[KeySpec] = &[KeySpec::one(1, READS)];

/// The key after a keyword that is looked for from an argument on.
const fn after(keyword: &'static str, from: i32) -> KeySpec {
    let one = FindKeys::Range { last: 0, step: 1, limit: 0 };
    KeySpec::other(BeginSearch::Keyword(keyword, from), one, OVERWRITES)
}

/// A text of argument notation with what many of these commands share.
macro_rules! arguments {
    ($before:literal, $after:expr) => {
        concat!(
            $before,
            " unit:oneof(m:pure-token@M km:pure-token@KM ft:pure-token@FT mi:pure-token@MI)",
            $after
        )
    };
}

macro_rules! radius_arguments {
    ($before:literal, $any:literal, $store:literal) => {
        arguments!(
            $before,
            concat!(
                " withcoord:pure-token@WITHCOORD? withdist:pure-token@WITHDIST? ",
                "withhash:pure-token@WITHHASH? count-block:block(count:integer@COUNT any:pure-token@ANY?",
                $any,
                ")? order:oneof(asc:pure-token@ASC desc:pure-token@DESC)?",
                $store
            )
        )
    };
}

macro_rules! search_arguments {
    ($keys:literal, $last:literal) => {
        concat!(
            $keys,
            " from:oneof(member:string@FROMMEMBER fromlonlat:block(longitude:double ",
            "latitude:double)@FROMLONLAT) by:oneof(",
            arguments!("circle:block(radius:double@BYRADIUS", ") "),
            arguments!("box:block(width:double@BYBOX height:double", "))"),
            " order:oneof(asc:pure-token@ASC desc:pure-token@DESC)? count-block:block(count:integer@COUNT ",
            "any:pure-token@ANY?)? ",
            $last
        )
    };
}

const NEARBY: &str = "O(N+log(M)) for N members in the cells around the shape and M in all";
const BY_NAME: &str = "O(1) for each member";
const UPPERCASE: (&str, &str) = ("7.0.0", "Units in upper case.");
const RADIUS_HISTORY: &[(&str, &str)] = &[("6.2.0", "ANY."), UPPERCASE];
const STORE: Flags = Flags::WRITE.or(Flags::DENYOOM);

/// The key that a GEORADIUS stores to: the one after the last STORE or STOREDIST. The key specifications find
/// the first of each.
fn settle_destination(args: Args<'_>, found: &mut KeyPositions) {
    let mut at = 5;
    let mut destination = None;
    while let Some(option) = args.get(at) {
        if option.eq_ignore_ascii_case(b"STORE") || option.eq_ignore_ascii_case(b"STOREDIST") {
            destination = args.get(at + 1).map(|_| at + 1).or(destination);
            at += 1;
        }
        at += 1;
    }
    let flags = KeyFlags::OW.or(KeyFlags::UPDATE);
    let is_found = |index: &usize| found.iter().any(|key| key.index == *index);
    if let Some(index) = destination.filter(|index| !is_found(index)) {
        found.push(KeyPosition { index, flags });
    }
}

/// The registration table.
pub(crate) const COMMANDS: &[DataSpec] = &[
    DataSpec::new("geoadd", -5, geoadd, STORE)
        .categories(Categories::GEO)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::UPDATE))])
        .docs(
            Group::Geo,
            "3.2.0",
            "O(log(N)) for each member added to N",
            "Adds members with their positions.",
        )
        .history(&[("6.2.0", "CH, NX and XX.")])
        .arguments(
            "key:key#0 condition:oneof(nx:pure-token@NX xx:pure-token@XX)?<6.2.0 \
             change:pure-token@CH?<6.2.0 data:block(longitude:double latitude:double member:string)*",
        ),
    DataSpec::new("geopos", -2, geopos, Flags::READONLY)
        .packed(packs!(pack_geopos))
        .categories(Categories::GEO)
        .keys(SOURCE)
        .docs(Group::Geo, "3.2.0", BY_NAME, "Tells the positions of members.")
        .arguments("key:key#0 member:string?*"),
    DataSpec::new("geodist", -4, geodist, Flags::READONLY)
        .packed(packs_text!(geodist))
        .categories(Categories::GEO)
        .keys(SOURCE)
        .docs(Group::Geo, "3.2.0", "O(1)", "Tells how far two members are apart.")
        .arguments(arguments!("key:key#0 member1:string member2:string", "?")),
    DataSpec::new("geohash", -2, geohash, Flags::READONLY)
        .categories(Categories::GEO)
        .keys(SOURCE)
        .docs(Group::Geo, "3.2.0", BY_NAME, "Tells the geohashes of members.")
        .arguments("key:key#0 member:string?*"),
    DataSpec::new("geosearch", -7, geosearch, Flags::READONLY)
        .reads_much(long_reads::always)
        .categories(Categories::GEO)
        .keys(SOURCE)
        .docs(Group::Geo, "6.2.0", NEARBY, "Finds the members inside a circle or a box.")
        .history(&[UPPERCASE])
        .arguments(search_arguments!(
            "key:key#0",
            "withcoord:pure-token@WITHCOORD? withdist:pure-token@WITHDIST? withhash:pure-token@WITHHASH?"
        )),
    DataSpec::new("geosearchstore", -8, geosearchstore, STORE)
        .categories(Categories::GEO)
        .keys(&[KeySpec::one(1, OVERWRITES), KeySpec::one(2, READS)])
        .docs(Group::Geo, "6.2.0", NEARBY, "Stores the members inside a circle or a box.")
        .history(&[UPPERCASE])
        .arguments(search_arguments!("destination:key#0 source:key#1", "storedist:pure-token@STOREDIST?")),
    DataSpec::new("georadius", -6, georadius, STORE)
        .categories(Categories::GEO)
        .keys(&[KeySpec::one(1, READS), after("STORE", 6), after("STOREDIST", 6)])
        .more_keys(settle_destination)
        .docs(Group::Geo, "3.2.0", NEARBY, "Finds the members inside a circle, and can store them.")
        .deprecated("6.2.0", "`GEOSEARCH` and `GEOSEARCHSTORE`, by radius")
        .history(RADIUS_HISTORY)
        .arguments(radius_arguments!(
            "key:key#0 longitude:double latitude:double radius:double",
            "<6.2.0",
            " store:oneof(storekey:key#1@STORE^key storedistkey:key#2@STOREDIST^key)?"
        )),
    DataSpec::new("georadius_ro", -6, georadius_ro, Flags::READONLY)
        .categories(Categories::GEO)
        .keys(SOURCE)
        .docs(Group::Geo, "3.2.10", NEARBY, "Finds the members inside a circle.")
        .deprecated("6.2.0", "`GEOSEARCH`, by radius")
        .history(RADIUS_HISTORY)
        .arguments(radius_arguments!(
            "key:key#0 longitude:double latitude:double radius:double",
            "<6.2.0",
            ""
        )),
    DataSpec::new("georadiusbymember", -5, georadiusbymember, STORE)
        .categories(Categories::GEO)
        .keys(&[KeySpec::one(1, READS), after("STORE", 5), after("STOREDIST", 5)])
        .more_keys(settle_destination)
        .docs(Group::Geo, "3.2.0", NEARBY, "Finds the members around one of them, and can store them.")
        .deprecated("6.2.0", "`GEOSEARCH` and `GEOSEARCHSTORE`, by radius and from a member")
        .history(RADIUS_HISTORY)
        .arguments(radius_arguments!(
            "key:key#0 member:string radius:double",
            "",
            " store:oneof(storekey:key#1@STORE^key storedistkey:key#2@STOREDIST^key)?"
        )),
    DataSpec::new("georadiusbymember_ro", -5, georadiusbymember_ro, Flags::READONLY)
        .categories(Categories::GEO)
        .keys(SOURCE)
        .docs(Group::Geo, "3.2.10", NEARBY, "Finds the members around one of them.")
        .deprecated("6.2.0", "`GEOSEARCH`, by radius and from a member")
        .history(RADIUS_HISTORY)
        .arguments(radius_arguments!("key:key#0 member:string radius:double", "", "")),
];
