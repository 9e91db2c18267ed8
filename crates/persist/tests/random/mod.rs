//! Random keyspaces with values of every type in every encoding.

use crate::model::DATABASE_COUNT;
use mantissa_store::stream::{Group, NodeLimits, Pending, Stream, StreamId};
use mantissa_store::{
    EncodingLimits, Entry, Hash, Keyspace, List, Set, ShardSet, SortedSet, Value, ValueRef,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// Small thresholds, so that small values have all encodings.
pub fn limits() -> EncodingLimits {
    EncodingLimits {
        hash_entries_max: 4,
        list_node_size: 5,
        set_intset_entries_max: 4,
        set_listpack_entries_max: 4,
        sorted_set_entries_max: 4,
        ..EncodingLimits::default()
    }
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        any::<i64>().prop_map(|integer| (integer >> (integer & 63)).to_string().into_bytes()),
        vec(any::<u8>(), 0..30),
        (0u8..4, 0usize..200).prop_map(|(letter, length)| vec![b'a' + letter; length]),
        "[a-z]{1,4}".prop_map(String::into_bytes),
    ]
}

fn list() -> impl Strategy<Value = Value> {
    let elements = prop_oneof![9 => text(), 1 => vec(any::<u8>(), 8200..8300)];
    vec(elements, 1..14).prop_map(|elements| {
        let mut list = List::new();
        elements.iter().for_each(|element| list.push_back(element, &limits()));
        Value::List(list)
    })
}

fn set() -> impl Strategy<Value = Value> {
    let integers = vec(any::<i64>().prop_map(|integer| (integer >> (integer & 63)).to_string()), 1..9);
    let members = prop_oneof![
        integers.prop_map(|members| members.into_iter().map(String::into_bytes).collect()),
        vec(text(), 1..9)
    ];
    members.prop_map(|members: Vec<Vec<u8>>| {
        let mut set = Set::new();
        for member in &members {
            set.add(member, &limits());
        }
        Value::Set(set)
    })
}

fn sorted_set() -> impl Strategy<Value = Value> {
    let score = prop_oneof![
        any::<f64>().prop_filter("scores are numbers", |score| !score.is_nan() && *score != 0.0),
        (-5i32..5).prop_map(f64::from),
        Just(f64::INFINITY),
        Just(f64::NEG_INFINITY),
    ];
    vec((text(), score), 1..9).prop_map(|members| {
        let mut set = SortedSet::new();
        for (member, score) in &members {
            set.insert(member, *score, &limits());
        }
        Value::SortedSet(set)
    })
}

fn hash(expiry_ms_min: i64) -> impl Strategy<Value = Value> {
    let expiry = (0i64..1 << 46).prop_map(move |after| Some(expiry_ms_min + after));
    let expiry = prop_oneof![3 => Just(None), 1 => expiry];
    vec((text(), text(), expiry), 1..9).prop_map(|fields| {
        let mut hash = Hash::new();
        for (field, value, expiry) in &fields {
            hash.set(field, value, &limits());
            if expiry.is_some() {
                hash.set_expiry(field, *expiry);
            }
        }
        Value::Hash(hash)
    })
}

fn stream() -> impl Strategy<Value = Value> {
    let entry = (0u64..3, 0u64..3, vec((text(), text()), 1..4), prop::bool::weighted(0.3));
    let held = vec((0usize..20, 0usize..3), 0..6);
    (vec(entry, 0..20), vec((text(), held), 0..3)).prop_map(|(entries, groups)| {
        let mut stream = Stream::new();
        let mut ids = Vec::new();
        let mut last = StreamId { ms: 1, seq: 0 };
        for (ms, seq, fields, deleted) in &entries {
            last = StreamId { ms: last.ms + ms, seq: last.seq + seq + 1 };
            let fields: Vec<_> = fields.iter().map(|(name, value)| (&name[..], &value[..])).collect();
            stream.append(last, &fields, NodeLimits { bytes_max: 200, entries_max: 5 });
            ids.push((last, *deleted));
        }
        for (id, _) in ids.iter().filter(|(_, deleted)| *deleted) {
            stream.delete(*id);
        }
        for (name, held) in &groups {
            let mut group = Group::new(last, (held.len() % 2 == 0).then_some(held.len() as u64));
            let names = [&b"ann"[..], b"bob", b""];
            let consumers = names.map(|name| group.add_consumer(name, 5, -1).expect("names differ"));
            for (index, consumer) in held {
                let Some((id, _)) = ids.get(*index) else { continue };
                let pending =
                    Pending { consumer: consumers[*consumer], delivered_at_ms: 9, delivery_count: 3 };
                group.assign(*id, pending);
            }
            stream.add_group(name, group);
        }
        Value::Stream(stream)
    })
}

fn value(expiry_ms_min: i64) -> impl Strategy<Value = Value> {
    prop_oneof![text().prop_map(Value::String), list(), set(), sorted_set(), hash(expiry_ms_min), stream()]
}

/// Database, name, value and expiry of a key.
pub type Key = (usize, Vec<u8>, Value, Option<i64>);

/// A keyspace of these keys.
pub fn keyspace_of(keys: Vec<Key>) -> Keyspace {
    let keyspace = Keyspace::new(DATABASE_COUNT, 4);
    for (database, key, value, expiry) in keys {
        let hash = keyspace.hash(&key);
        let mut shards = keyspace.lock(ShardSet::one(keyspace.shard_of(hash)));
        let shard = shards.shard_mut(keyspace.shard_of(hash)).expect("it is locked");
        shard.databases[database].remove(hash, &key);
        shard.databases[database].insert(hash, Entry::new(&key, value, expiry, 0));
    }
    keyspace
}

fn stream_details(stream: &Stream) -> String {
    let mut details = format!("{} {} {}", stream.last_id, stream.max_deleted_id, stream.entries_added);
    stream.nodes().for_each(|node| details += &format!(" {} {:?}", node.first(), node.to_listpack()));
    for (name, group) in stream.groups() {
        details += &format!(" {name:?} {} {:?}", group.last_delivered, group.entries_read);
        for (id, pending) in group.pending().iter() {
            details += &format!(" {id} {} {}", pending.delivered_at_ms, pending.delivery_count);
        }
        for (_, consumer) in group.consumers() {
            details += &format!(" {:?} {} {}", consumer.name(), consumer.seen_at_ms, consumer.active_at_ms);
            details += &format!(" {:?}", Vec::from_iter(consumer.pending().ids()));
        }
    }
    details
}

/// What a digest does not tell: encodings, groups, expiries.
pub fn details(keyspace: &Keyspace) -> Vec<String> {
    let mut shards = keyspace.lock(keyspace.all_shards());
    let mut lines = Vec::new();
    for index in 0..keyspace.shard_count() {
        shards.visit(index, |shard| {
            for (database, table) in shard.databases.iter().enumerate() {
                let line = |entry: &Entry| {
                    let detail = match entry.value() {
                        ValueRef::String(text) => format!("{text:?}"),
                        ValueRef::List(list) => list.encoding().to_owned(),
                        ValueRef::Set(set) => set.encoding().to_owned(),
                        ValueRef::SortedSet(set) => set.encoding().to_owned(),
                        ValueRef::Hash(hash) => {
                            let mut expiries: Vec<_> =
                                hash.iter().map(|(field, _, expiry)| (field.to_vec(), expiry)).collect();
                            expiries.sort();
                            format!("{} {expiries:?}", hash.encoding())
                        }
                        ValueRef::Stream(stream) => stream_details(stream),
                        ValueRef::Series(series) => format!("{:?}", series.options()),
                        ValueRef::BloomFilter(filter) => format!("{:?}", filter.dump_header()),
                        ValueRef::CuckooFilter(filter) => format!("{:?}", filter.dump_header()),
                        ValueRef::CountMinSketch(sketch) => format!("{sketch:?}"),
                        ValueRef::VectorSet(set) => format!("{set:?}"),
                        ValueRef::Array(array) => format!("{array:?} {:?}", array.cursor()),
                        ValueRef::Json(document) => format!("{document:?}"),
                        ValueRef::TopK(sketch) => format!("{:?}", sketch.list()),
                        ValueRef::TDigest(digest) => format!("{:?}", digest.compressed()),
                    };
                    format!("{database} {:?} {:?} {detail}", entry.key(), entry.expiry())
                };
                lines.extend(table.iter().map(line));
            }
        });
    }
    lines.sort();
    lines
}

/// A few keys; what expires does so at or after `expiry_ms_min`.
pub fn keys(expiry_ms_min: i64) -> impl Strategy<Value = Vec<Key>> {
    let expiry = prop::option::of((0i64..1 << 46).prop_map(move |after| expiry_ms_min + after));
    vec((0..DATABASE_COUNT, text(), value(expiry_ms_min), expiry), 0..12)
}
