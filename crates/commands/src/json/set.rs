//! Commands that put values into documents, and take them out.

use mantissa_protocol::{Args, Reply};
use mantissa_store::json::{DEPTH_MAX, FloatType, Fragment, TEXT_DEPTH_MAX, View};
use mantissa_store::{Collection, Json, Kind, Value};

use super::change::check_depth;
use super::path::{Name, Path, Step};
use super::select::{Place, index_of};
use super::{Access, Error, NOT_AT_ROOT, Outcome, at_least, change, changed, parse, path_at, read};
use crate::parse::is;

/// What is done where a value goes.
enum Update {
    /// Values at these places are replaced.
    Replace(Vec<Place>),
    /// The object at a place gets a member.
    Add(Place, Name),
    /// Nothing: the path leads nowhere, and nowhere near.
    Nothing,
}

/// A condition on what is there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition {
    Always,
    IfMissing,
    IfPresent,
}

/// Where a value goes that is set at a path.
fn find_update(path: &Path, root: View<'_>, condition: Condition) -> Outcome<Update> {
    path.check()?;
    if condition != Condition::IfMissing {
        let mut places = path.places(root)?;
        if !places.is_empty() {
            keep_outermost(&mut places);
            return Ok(Update::Replace(places));
        }
    }
    if condition == Condition::IfPresent {
        return Ok(Update::Nothing);
    }
    if !path.is_static() {
        return Err(Error::fixed("Err wrong static path"));
    }
    let Some((last, steps)) = path.steps.split_last() else { return Ok(Update::Nothing) };
    let mut place = Place::new();
    let mut value = Some(root);
    for step in steps {
        let child = value.and_then(|value| child(value, step));
        place.extend(child.map(|(index, _)| index));
        value = child.map(|(_, value)| value);
    }
    match last {
        Step::Name(name) => Ok(match value.filter(|value| value.is_object()) {
            Some(object) if object.member(name).is_none() => Update::Add(place, name.clone()),
            _ => Update::Nothing,
        }),
        _ if value.and_then(|value| child(value, last)).is_some() => Ok(Update::Nothing),
        _ => Err(Error::fixed("ERR array index out of range")),
    }
}

/// What a step of a static path leads to.
fn child<'a>(value: View<'a>, step: &Step) -> Option<(usize, View<'a>)> {
    match step {
        Step::Name(name) => value.member(name),
        Step::Index(index) if value.is_array() => {
            let index = index_of(*index, value.len())?;
            Some((index, value.child(index)?))
        }
        _ => None,
    }
}

/// Sorts places, and leaves out those that are below another of them or come again.
pub(super) fn keep_outermost(places: &mut Vec<Place>) {
    places.sort_unstable();
    places.dedup_by(|place, before| place.starts_with(before));
}

/// Carries out an update. Whether it changed anything.
fn apply(
    document: &mut Json,
    update: &Update,
    value: &dyn Fn(Option<View<'_>>) -> Fragment,
) -> Outcome<bool> {
    match update {
        Update::Replace(places) => {
            places.iter().try_for_each(|place| check_depth(place))?;
            if let [_, _, ..] = places.as_slice() {
                let places: Vec<&[usize]> = places.iter().map(|place| place.as_slice()).collect();
                document.change_all(&places, &mut |before| Some(value(Some(before))))?;
                return Ok(true);
            }
            let mut is_changed = false;
            for place in places {
                let new = value(document.at(place));
                is_changed |= document.set(place, &new)?;
            }
            Ok(is_changed)
        }
        Update::Add(place, name) => {
            check_depth(place)?;
            let is_new =
                document.at(place).is_some_and(|object| object.is_object() && object.member(name).is_none());
            Ok(is_new && document.add_member(place, name, &value(None))?)
        }
        Update::Nothing => Ok(false),
    }
}

/// A document of no more parts is freed at once: handing it to another thread costs more.
const FREED_PARTS_MAX: usize = 64;

/// Makes a key a document, or puts it in the place of the one that the key has. An expiry stays.
fn put_or_replace(access: &mut Access<'_>, key: &[u8], document: Json) -> Outcome {
    let Some(present) = change(access, key)? else {
        return access.put(key, Value::Json(document), None);
    };
    let before = std::mem::replace(present, document);
    if before.free_effort() > FREED_PARTS_MAX {
        access.free_later(Value::Json(before));
    }
    access.overwritten(key, Kind::Json, Kind::Json);
    Ok(())
}

/// JSON.SET key path value [NX | XX] [FORMAT format] [FPHA FP16 | BF16 | FP32 | FP64]
pub(super) fn set(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    at_least(4, args, "json.set")?;
    let key = args.at(1);
    let (mut condition, mut floats) = (Condition::Always, None);
    let mut words = args.from(4).iter();
    while let Some(word) = words.next() {
        super::utf8(word)?;
        match condition {
            Condition::Always if is(word, "nx") => condition = Condition::IfMissing,
            Condition::Always if is(word, "xx") => condition = Condition::IfPresent,
            _ if is(word, "format") => {
                let format = words.next().ok_or_else(|| Error::arity("json.set"))?;
                if !is(format, "json") && !is(format, "string") {
                    return Err(Error::fixed("ERR wrong format"));
                }
            }
            _ if is(word, "fpha") => {
                let name = words.next().ok_or_else(|| Error::arity("json.set"))?;
                floats = Some(FloatType::named(name).ok_or(Error::SYNTAX)?);
            }
            _ => return Err(Error::SYNTAX),
        }
    }
    // What the log has may be nested as deeply as a document.
    let depth_max = if access.is_loading() { DEPTH_MAX } else { TEXT_DEPTH_MAX };
    let path = path_at(args, 2)?;
    let is_present = read(access, key)?.is_some();
    let is_wanted = condition != if is_present { Condition::IfMissing } else { Condition::IfPresent };
    let is_done = if path.is_root() {
        let document = super::parsed(Json::parse_as(args.at(3), depth_max, floats), "")?;
        if is_wanted {
            put_or_replace(access, key, document)?;
        }
        is_wanted
    } else {
        let value = super::parsed(Fragment::parse_as(args.at(3), depth_max, floats), "")?;
        if is_present {
            let document = super::change_present(access, key)?;
            let update = find_update(&path, document.root(), condition)?;
            apply(document, &update, &|_| value.clone())?
        } else if is_wanted {
            return Err(NOT_AT_ROOT);
        } else {
            false
        }
    };
    if is_done {
        changed(access, key, "json.set");
        reply.ok();
    } else {
        reply.null();
    }
    Ok(())
}

/// An update of a document, or none where the value takes its place.
type UpdateOf<'a> = (&'a [u8], Option<Update>, Fragment);

/// Refuses updates of several documents of which one fails, before any is carried out: those for which there
/// may be no room are tried on clones.
fn check_updates(access: &Access<'_>, updates: &[UpdateOf<'_>]) -> Outcome {
    let added = |(_, update, value): &UpdateOf<'_>| match update {
        Some(Update::Replace(places)) => value.view().memory_usage().saturating_mul(places.len()),
        Some(Update::Add(_, name)) => value.view().memory_usage().saturating_add(name.len() + 5),
        Some(Update::Nothing) | None => value.view().memory_usage(),
    };
    let places = updates.iter().map(|(_, update, _)| match update {
        Some(Update::Replace(places)) => places.len(),
        _ => 1,
    });
    let headers = places.sum::<usize>().saturating_mul(8 * DEPTH_MAX);
    let added = updates.iter().map(added).fold(headers, usize::saturating_add);
    let mut clones: Vec<(&[u8], Json)> = Vec::new();
    for (key, update, value) in updates {
        let document = read(access, key)?;
        if document.is_none_or(|document| document.has_room_for(added)) {
            continue;
        }
        let place = clones.iter().position(|(other, _)| other == key).unwrap_or(clones.len());
        if place == clones.len() {
            clones.extend(document.map(|document| (*key, document.clone())));
        }
        let Some((_, clone)) = clones.get_mut(place) else { continue };
        match update {
            None => *clone = Json::new(value),
            Some(update) => _ = apply(clone, update, &|_| value.clone())?,
        }
    }
    Ok(())
}

/// JSON.MSET key path value [key path value ...]
pub(super) fn mset(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    at_least(4, args, "json.mset")?;
    let mut updates: Vec<UpdateOf<'_>> = Vec::new();
    for at in (1..args.len()).step_by(3) {
        let arity = || Error::arity("json.mset");
        let path = args.get(at + 1).ok_or_else(arity)?;
        let (key, path) = (args.at(at), super::path_cache::parse(path)?);
        let update = match read(access, key)? {
            _ if path.is_root() => None,
            Some(document) => Some(find_update(&path, document.root(), Condition::Always)?),
            None => return Err(NOT_AT_ROOT),
        };
        updates.push((key, update, parse(args.get(at + 2).ok_or_else(arity)?)?));
    }
    check_updates(access, &updates)?;
    for (key, update, value) in updates {
        let is_changed = match update {
            None => {
                put_or_replace(access, key, Json::new(&value))?;
                true
            }
            Some(update) => match change(access, key)? {
                Some(document) => apply(document, &update, &|_| value.clone())?,
                None => false,
            },
        };
        if is_changed {
            changed(access, key, "json.mset");
        }
    }
    reply.ok();
    Ok(())
}

/// What a value becomes that is merged with a patch, by RFC 7396. Recursion is as deep as the patch.
fn merged(value: Option<View<'_>>, patch: View<'_>) -> Fragment {
    if !patch.is_object() {
        return Fragment::of(patch);
    }
    let object = value.filter(|value| value.is_object());
    let mut members: Vec<(&[u8], Fragment)> = Vec::new();
    // Those that are removed leave their places to the last ones, as when they are removed one by one.
    let mut places = std::collections::HashMap::new();
    for (key, value) in object.into_iter().flat_map(View::members) {
        places.insert(key, members.len());
        members.push((key, Fragment::of(value)));
    }
    for (key, change) in patch.members() {
        let is_removal = matches!(change.shape(), mantissa_store::json::Shape::Null);
        match (places.get(key).copied(), is_removal) {
            (Some(place), true) => {
                places.remove(key);
                members.swap_remove(place);
                if let Some((moved, _)) = members.get(place) {
                    places.insert(moved, place);
                }
            }
            (Some(place), false) => members[place].1 = merged(Some(members[place].1.view()), change),
            (None, true) => {}
            (None, false) => {
                places.insert(key, members.len());
                members.push((key, merged(None, change)));
            }
        }
    }
    Fragment::object(members.into_iter())
}

/// Members of a patch that are looked for one by one.
const PATCH_MEMBERS_MAX: usize = 16;

/// Merges the value at a place with a patch, as [`merged`] does. If the patch names few members, only these
/// change.
fn merge_at(document: &mut Json, place: &mut Place, patch: View<'_>) -> Outcome {
    let object = document.at(place).filter(|value| value.is_object());
    if object.is_none() || !patch.is_object() || patch.len() > PATCH_MEMBERS_MAX {
        let value = merged(object, patch);
        document.set(place, &value)?;
        return Ok(());
    }
    for (key, change) in patch.members() {
        let is_removal = matches!(change.shape(), mantissa_store::json::Shape::Null);
        match document.at(place).and_then(|object| object.member(key)) {
            Some((index, _)) if is_removal => document.remove_member(place, index),
            Some((index, _)) => {
                place.push(index);
                merge_at(document, place, change)?;
                place.pop();
            }
            None if is_removal => {}
            None => _ = document.add_member(place, key, &merged(None, change))?,
        }
    }
    Ok(())
}

/// The same, and nothing is changed if there is no room for all of it.
fn merge_all_at(document: &mut Json, place: &mut Place, patch: View<'_>) -> Outcome {
    // An object in the patch takes three bytes at least; the header of that which it is merged with, and
    // that of a value which is new, grow by eight at most.
    if document.has_room_for(patch.memory_usage().saturating_mul(8)) {
        return merge_at(document, place, patch);
    }
    let mut changed = document.clone();
    merge_at(&mut changed, place, patch)?;
    *document = changed;
    Ok(())
}

/// JSON.MERGE key path value
pub(super) fn merge(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    at_least(4, args, "json.merge")?;
    if args.len() > 4 {
        return Err(Error::SYNTAX);
    }
    let key = args.at(1);
    let path = path_at(args, 2)?;
    read(access, key)?;
    let patch = parse(args.at(3))?;
    let is_done = match change(access, key)? {
        None if !path.is_root() => return Err(NOT_AT_ROOT),
        None => {
            put_or_replace(access, key, Json::new(&patch))?;
            true
        }
        Some(document) => {
            match find_update(&path, document.root(), Condition::Always)? {
                Update::Replace(mut places) if places.len() == 1 => {
                    check_depth(&places[0])?;
                    merge_all_at(document, &mut places[0], patch.view())?;
                    true
                }
                update => apply(document, &update, &|value| match value {
                    Some(value) => merged(Some(value), patch.view()),
                    // What is new is taken as it is, its nulls included.
                    None => patch.clone(),
                })?,
            }
        }
    };
    if is_done {
        changed(access, key, "json.merge");
        reply.ok();
    } else {
        reply.null();
    }
    Ok(())
}

fn remove_at(document: &mut Json, place: &[usize]) {
    let Some((&last, around)) = place.split_last() else { return };
    if document.at(around).is_some_and(View::is_object) {
        document.remove_member(around, last);
    } else {
        document.remove(around, last, 1);
    }
}

/// JSON.DEL key [path]
pub(super) fn del(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let is_forget = args.at(0).eq_ignore_ascii_case(b"json.forget");
    at_least(2, args, if is_forget { "json.forget" } else { "json.del" })?;
    let key = args.at(1);
    let path = super::path_or_root(args, 2)?;
    let Some(document) = change(access, key)? else {
        reply.integer(0);
        return Ok(());
    };
    path.check()?;
    if path.is_root() {
        access.remove(key);
        changed(access, key, "json.del");
        reply.integer(1);
        return Ok(());
    }
    let mut places = path.places(document.root())?;
    keep_outermost(&mut places);
    match places.as_slice() {
        [place] => remove_at(document, place),
        places => {
            let places: Vec<&[usize]> = places.iter().map(|place| place.as_slice()).collect();
            document.change_all(&places, &mut |_| None)?;
        }
    }
    if !places.is_empty() {
        changed(access, key, "json.del");
    }
    reply.integer(places.len() as i64);
    Ok(())
}
