//! Consumer groups against standard maps: what XGROUP, XREADGROUP, XACK, XNACK, XCLAIM, XAUTOCLAIM, XACKDEL
//! and XDELEX do to them.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

use mantissa_store::Stream;
use mantissa_store::stream::{ConsumerId, Group, Pending, References, StreamId};

use super::streams::{Model, near};

/// What should be in a group.
#[derive(Clone, Default)]
pub struct GroupModel {
    last_delivered: StreamId,
    entries_read: Option<u64>,
    pending: BTreeMap<StreamId, PendingModel>,
    /// By name, with when each was seen and active.
    consumers: BTreeMap<Vec<u8>, (i64, i64)>,
    /// How many entries were ever given back.
    given_back: i64,
}

#[derive(Clone)]
struct PendingModel {
    /// None of an entry that was given back.
    consumer: Option<Vec<u8>>,
    delivered_at_ms: i64,
    delivery_count: u64,
}

/// The references that a number means.
pub fn references(number: usize) -> References {
    [References::Keep, References::Delete, References::Acknowledged][number % 3]
}

/// Whether a group has yet to be delivered an entry or to acknowledge it.
pub fn is_referenced(groups: &BTreeMap<Vec<u8>, GroupModel>, id: StreamId) -> bool {
    groups.values().any(|group| group.last_delivered < id || group.pending.contains_key(&id))
}

/// Takes an entry off all lists.
pub fn acknowledge_everywhere(groups: &mut BTreeMap<Vec<u8>, GroupModel>, id: StreamId) {
    groups.values_mut().for_each(|group| drop(group.pending.remove(&id)));
}

/// All groups are as they should be.
pub fn check(stream: &Stream, groups: &BTreeMap<Vec<u8>, GroupModel>) {
    assert_eq!(stream.groups().len(), groups.len());
    for ((name, group), (expected_name, model)) in stream.groups().zip(groups) {
        assert_eq!(name, expected_name);
        check_group(group, model);
        assert!(stream.group(name).is_some());
    }
}

fn check_group(group: &Group, model: &GroupModel) {
    assert_eq!((group.last_delivered, group.entries_read), (model.last_delivered, model.entries_read));
    assert_eq!(group.pending().len(), model.pending.len());
    for ((id, pending), (expected_id, expected)) in group.pending().iter().zip(&model.pending) {
        assert_eq!(id, *expected_id);
        let consumer = group.consumer(pending.consumer).map(|consumer| consumer.name());
        assert_eq!(consumer, expected.consumer.as_deref());
        assert_eq!(pending.is_given_back(), consumer.is_none());
        let delivered_at_ms = if consumer.is_some() { expected.delivered_at_ms } else { 0 };
        assert_eq!(pending.last_delivery_ms(), delivered_at_ms);
        assert_eq!(pending.delivery_count, expected.delivery_count);
    }
    assert_eq!(group.consumers().len(), model.consumers.len());
    for ((id, consumer), (name, &times)) in group.consumers().zip(&model.consumers) {
        assert_eq!(consumer.name(), name);
        assert_eq!(group.find_consumer(name), Some(id));
        assert_eq!((consumer.seen_at_ms, consumer.active_at_ms), times);
        let held = model.pending.iter().filter(|(_, pending)| pending.consumer.as_ref() == Some(name));
        assert!(consumer.pending().ids().eq(held.map(|(id, _)| *id)));
    }
    let age = |(id, pending): (&StreamId, &PendingModel)| {
        (pending.consumer.is_some(), pending.delivered_at_ms, *id)
    };
    let mut ages: Vec<_> = model.pending.iter().map(age).collect();
    ages.sort_unstable();
    let given_back = ages.iter().filter(|(is_held, ..)| !is_held);
    assert_eq!(group.given_back_len(), given_back.clone().count());
    assert!(group.given_back().iter().map(|(id, _)| id).eq(given_back.map(|(.., id)| id)));
    if group.by_age().next().is_some() {
        assert!(group.by_age().map(|(id, _)| id).eq(ages.iter().map(|(.., id)| *id)));
    }
}

/// The groups of a stream, made again one part after the other as a load does.
pub fn rebuild(from: &Stream, to: &mut Stream) {
    for (name, group) in from.groups() {
        let mut copy = Group::new(group.last_delivered, group.entries_read);
        for (id, consumer) in group.consumers() {
            let new = copy.add_consumer(consumer.name(), consumer.seen_at_ms, consumer.active_at_ms);
            let new = new.expect("names differ");
            for held in consumer.pending().ids() {
                let pending = group.pending().get(held).expect("what a consumer holds is pending");
                assert_eq!(pending.consumer, id);
                assert!(copy.assign(held, Pending { consumer: new, ..pending }));
            }
        }
        for (id, pending) in group.given_back() {
            copy.give_back(id, pending.delivery_count);
        }
        assert!(to.add_group(name, copy));
    }
}

/// Does to the groups what two numbers say.
pub fn change(stream: &mut Stream, model: &mut Model, what: usize, place: usize) {
    let name = [&b"jobs"[..], b"audit", b""][what / 16 % 3];
    let consumer = [&b"anna"[..], b"bert", b"a consumer with a long name", b""][what / 64 % 4];
    let now_ms = place as i64;
    match what % 16 {
        0 => create(stream, model, name, place),
        1 => destroy(stream, model, name, place),
        14 | 15 => delete(stream, model, name, what, place),
        kind => {
            let id = near(model, place);
            let Some(expected) = model.groups.get_mut(name) else {
                assert!(stream.group(name).is_none() && stream.group_mut(name).is_none());
                return;
            };
            let ids: Vec<StreamId> = model.entries.keys().copied().collect();
            let group = stream.group_mut(name).expect("the model has it");
            match kind {
                2..5 => read(group, expected, &ids, consumer, now_ms),
                5 => give_back(group, expected, id, place),
                6..8 => acknowledge(group, expected, id),
                8 | 9 => claim(group, expected, id, consumer, place),
                10 => claim_idle(group, expected, id, consumer, now_ms),
                11 => remove_consumer(group, expected, consumer),
                12 => {
                    group.last_delivered = id;
                    expected.last_delivered = id;
                    group.entries_read = place.is_multiple_of(2).then_some(place as u64);
                    expected.entries_read = group.entries_read;
                }
                _ => {
                    let is_new = group.add_consumer(consumer, now_ms, -1).is_some();
                    assert_eq!(is_new, !expected.consumers.contains_key(consumer));
                    expected.consumers.entry(consumer.to_vec()).or_insert((now_ms, -1));
                }
            }
        }
    }
}

/// XGROUP CREATE.
fn create(stream: &mut Stream, model: &mut Model, name: &[u8], place: usize) {
    let start = if place.is_multiple_of(3) { StreamId::MIN } else { near(model, place) };
    let group = Group::new(start, Some(place as u64));
    let is_new = !model.groups.contains_key(name);
    assert_eq!(stream.add_group(name, group), is_new);
    if is_new {
        let group =
            GroupModel { last_delivered: start, entries_read: Some(place as u64), ..Default::default() };
        model.groups.insert(name.to_vec(), group);
    }
}

/// XGROUP DESTROY, which is rare enough for groups to become large.
fn destroy(stream: &mut Stream, model: &mut Model, name: &[u8], place: usize) {
    if place.is_multiple_of(8) {
        let (gone, expected) = (stream.remove_group(name), model.groups.remove(name));
        assert_eq!(gone.is_some(), expected.is_some());
        if let (Some(gone), Some(expected)) = (gone, expected) {
            check_group(&gone, &expected);
        }
    }
}

/// The consumer of a name, which is made where there is none.
fn consumer_of(group: &mut Group, model: &mut GroupModel, name: &[u8], now_ms: i64) -> ConsumerId {
    let id = group.find_consumer(name).or_else(|| group.add_consumer(name, now_ms, -1));
    let id = id.expect("found or made");
    group.set_seen(id, now_ms);
    model.consumers.entry(name.to_vec()).or_insert((now_ms, -1)).0 = now_ms;
    id
}

/// Gives an entry to a consumer in both.
fn assign(group: &mut Group, model: &mut GroupModel, id: StreamId, to: ConsumerId, count: u64, now_ms: i64) {
    let name = group.consumer(to).expect("it is there").name().to_vec();
    assert!(group.assign(id, Pending { consumer: to, delivered_at_ms: now_ms, delivery_count: count }));
    group.set_active(to, now_ms);
    model.consumers.get_mut(&name).expect("it is there").1 = now_ms;
    let pending = PendingModel { consumer: Some(name), delivered_at_ms: now_ms, delivery_count: count };
    model.pending.insert(id, pending);
}

/// XREADGROUP of a few entries behind the last one delivered.
fn read(group: &mut Group, model: &mut GroupModel, ids: &[StreamId], name: &[u8], now_ms: i64) {
    let consumer = consumer_of(group, model, name, now_ms);
    let first = ids.partition_point(|id| *id <= model.last_delivered);
    for id in ids[first..].iter().take(1 + now_ms as usize % 9) {
        assign(group, model, *id, consumer, 1, now_ms);
        group.last_delivered = *id;
        model.last_delivered = *id;
    }
}

/// XACK.
fn acknowledge(group: &mut Group, model: &mut GroupModel, id: StreamId) {
    let id = model.pending.range(id..).next().map_or(id, |(id, _)| *id);
    let (gone, expected) = (group.acknowledge(id), model.pending.remove(&id));
    assert_eq!(gone.map(|gone| gone.delivery_count), expected.map(|expected| expected.delivery_count));
    assert!(group.acknowledge(id).is_none());
}

/// XNACK, with FORCE now and then.
fn give_back(group: &mut Group, model: &mut GroupModel, id: StreamId, place: usize) {
    let id = model.pending.range(id..).next().map_or(id, |(id, _)| *id);
    if !model.pending.contains_key(&id) && !place.is_multiple_of(4) {
        return;
    }
    if place.is_multiple_of(7) {
        group.keep_ages();
    }
    group.give_back(id, place as u64);
    let pending =
        PendingModel { consumer: None, delivered_at_ms: model.given_back, delivery_count: place as u64 };
    model.pending.insert(id, pending);
    model.given_back += 1;
}

/// XCLAIM, with FORCE now and then.
fn claim(group: &mut Group, model: &mut GroupModel, id: StreamId, name: &[u8], place: usize) {
    let before = model.pending.get(&id).map(|pending| pending.delivery_count);
    let consumer = consumer_of(group, model, name, place as i64);
    if before.is_some() || place.is_multiple_of(4) {
        assign(group, model, id, consumer, before.map_or(1, |count| count + 1), place as i64);
    }
}

/// XAUTOCLAIM of a few entries from `start` on that have not been delivered lately.
fn claim_idle(group: &mut Group, model: &mut GroupModel, start: StreamId, name: &[u8], now_ms: i64) {
    let consumer = consumer_of(group, model, name, now_ms);
    let idle = |delivered_at_ms: i64| now_ms - delivered_at_ms >= 100;
    let ids: Vec<(StreamId, u64)> = group
        .pending()
        .range(start..)
        .filter(|(_, pending)| idle(pending.delivered_at_ms))
        .map(|(id, pending)| (id, pending.delivery_count))
        .take(5)
        .collect();
    let expected =
        model.pending.range(start..).filter(|(_, pending)| idle(pending.delivered_at_ms)).map(|(id, _)| *id);
    assert!(ids.iter().map(|(id, _)| *id).eq(expected.take(5)));
    for (id, count) in ids {
        assign(group, model, id, consumer, count + 1, now_ms);
    }
}

/// XGROUP DELCONSUMER.
fn remove_consumer(group: &mut Group, model: &mut GroupModel, name: &[u8]) {
    let holds = |pending: &PendingModel| pending.consumer.as_deref() == Some(name);
    let held = model.pending.values().filter(|pending| holds(pending)).count();
    let expected = model.consumers.remove(name).map(|_| held);
    let id = group.find_consumer(name);
    assert_eq!(group.remove_consumer(name), expected);
    model.pending.retain(|_, pending| !holds(pending));
    if let Some(id) = id {
        // Nothing goes to a consumer that is gone.
        let pending = Pending { consumer: id, delivered_at_ms: 0, delivery_count: 1 };
        assert!(group.consumer(id).is_none() && !group.assign(StreamId::MIN, pending));
    }
}

/// XDELEX, or XACKDEL, which acknowledges first.
fn delete(stream: &mut Stream, model: &mut Model, name: &[u8], what: usize, place: usize) {
    let after = near(model, place);
    let pending = model.groups.get(name).and_then(|group| group.pending.range(after..).next());
    let id = pending.map_or(after, |(id, _)| *id);
    if what % 16 == 15 {
        let gone = stream.group_mut(name).and_then(|group| group.acknowledge(id)).is_some();
        let expected = model.groups.get_mut(name).and_then(|group| group.pending.remove(&id)).is_some();
        assert_eq!(gone, expected);
    }
    let references = references(place);
    let referrers = stream.referrers(References::Delete);
    assert_eq!(stream.is_referenced(id, &referrers), is_referenced(&model.groups, id));
    if references == References::Acknowledged && stream.is_referenced(id, &referrers) {
        return;
    }
    if references == References::Delete {
        stream.acknowledge_everywhere(id, &referrers);
        acknowledge_everywhere(&mut model.groups, id);
    }
    assert_eq!(stream.delete(id), model.entries.remove(&id).is_some());
    // A group that stands behind the entry is delivered the next one all the same.
    if let Some(group) = model.groups.get(name) {
        let next = stream.range(group.last_delivered.next().unwrap_or(StreamId::MAX), StreamId::MAX).next();
        let expected = model.entries.range((Excluded(group.last_delivered), Unbounded)).next();
        assert_eq!(next.map(|entry| entry.id), expected.map(|(id, _)| *id));
    }
}
