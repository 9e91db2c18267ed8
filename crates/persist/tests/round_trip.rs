//! Random keyspaces, written and loaded again; and saving to a disk that fails.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod model;

use mantissa_persist::format::Checksum;
use mantissa_persist::load::{Access, LoadOptions, LoadTarget, LoadedValue, Loader, Record};
use mantissa_persist::storage::{MemoryStorage, Storage};
use mantissa_persist::write::{Encoder, FileFacts, WriteOptions, Writer, save_file};
use mantissa_store::stream::{Group, NodeLimits, Pending, Stream, StreamId};
use mantissa_store::{
    EncodingLimits, Entry, Hash, Keyspace, List, Set, ShardSet, SortedSet, Value, ValueRef,
};
use model::{DATABASE_COUNT, digest, load, save};
use proptest::collection::vec;
use proptest::prelude::*;
use std::io::Write;
use std::path::Path;

/// Small thresholds, so that small values have all encodings.
fn limits() -> EncodingLimits {
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
        Value::List(Box::new(list))
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
        Value::Set(Box::new(set))
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
        Value::SortedSet(Box::new(set))
    })
}

fn hash() -> impl Strategy<Value = Value> {
    let expiry = prop_oneof![3 => Just(None), 1 => (0i64..1 << 47).prop_map(Some)];
    vec((text(), text(), expiry), 1..9).prop_map(|fields| {
        let mut hash = Hash::new();
        for (field, value, expiry) in &fields {
            hash.set(field, value, &limits());
            if expiry.is_some() {
                hash.set_expiry(field, *expiry);
            }
        }
        Value::Hash(Box::new(hash))
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
        Value::Stream(Box::new(stream))
    })
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![text().prop_map(Value::String), list(), set(), sorted_set(), hash(), stream()]
}

type Key = (usize, Vec<u8>, Value, Option<i64>);

fn keyspace_of(keys: Vec<Key>) -> Keyspace {
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
    stream.nodes().for_each(|node| details += &format!(" {} {:?}", node.first(), node.listpack_bytes()));
    for (name, group) in stream.groups() {
        details += &format!(" {name:?} {} {:?}", group.last_delivered, group.entries_read);
        for (id, pending) in group.pending() {
            details += &format!(" {id} {} {}", pending.delivered_at_ms, pending.delivery_count);
        }
        for (_, consumer) in group.consumers() {
            details += &format!(" {:?} {} {}", consumer.name(), consumer.seen_at_ms, consumer.active_at_ms);
            details += &format!(" {:?}", consumer.pending());
        }
    }
    details
}

/// What a digest does not tell: encodings, groups, expiries.
fn details(keyspace: &Keyspace) -> Vec<String> {
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_loads_without_loss(
        keys in vec((0..DATABASE_COUNT, text(), value(), prop::option::of(0i64..1 << 50)), 0..12),
        functions in vec(vec(any::<u8>(), 0..60), 0..3),
        compress in any::<bool>(),
        checksum in any::<bool>(),
    ) {
        let keyspace = keyspace_of(keys);
        let file = save(&keyspace, &functions, &WriteOptions { compress, checksum, limits: limits() });
        let loaded = load(&file, &LoadOptions { limits: limits(), ..LoadOptions::default() });
        let loaded = loaded.map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(digest(&loaded.keyspace), digest(&keyspace));
        prop_assert_eq!(details(&loaded.keyspace), details(&keyspace));
        prop_assert_eq!(loaded.functions, functions);
        prop_assert_eq!(loaded.summary.bytes, file.len() as u64);
    }
}

#[derive(Default)]
struct Accesses(Vec<(Vec<u8>, Access)>);

impl LoadTarget for Accesses {
    fn select(&mut self, _database: usize) -> Result<(), String> {
        Ok(())
    }

    fn insert(&mut self, record: Record<'_>) -> Result<(), String> {
        assert!(matches!(record.value, LoadedValue::Text(_)));
        self.0.push((record.key.to_vec(), record.access));
        Ok(())
    }

    fn function(&mut self, _source: &[u8]) -> Result<(), String> {
        Ok(())
    }
}

#[test]
fn chunks_of_several_encoders_make_one_file() {
    let access_of = |clock: u32| match clock {
        0 => Access::default(),
        1 => Access { idle_s: Some(1000), frequency: None },
        _ => Access { idle_s: None, frequency: Some(7) },
    };
    let entries: Vec<_> =
        (0..9u32).map(|number| Entry::string(&number.to_le_bytes(), b"value", None, number % 3)).collect();
    let mut writer = Writer::new(Vec::new(), WriteOptions::default(), Some(&access_of));
    writer.begin(&FileFacts::default()).expect("a vector takes all");
    writer.database(0, 9, 0).expect("a vector takes all");
    for (index, part) in entries.chunks(3).enumerate() {
        let mut encoder = Encoder::new(WriteOptions::default(), Some(&access_of));
        let mut chunk = Vec::new();
        part.iter().for_each(|entry| encoder.entry(entry, &mut chunk));
        let mut checksum = Checksum::default();
        checksum.update(&chunk);
        if index == 1 { writer.chunk(&chunk) } else { writer.checked_chunk(&chunk, &checksum) }
            .expect("a vector takes all");
    }
    let (file, length) = writer.finish().expect("a vector takes all");
    assert_eq!(file.len() as u64, length);
    let mut accesses = Accesses::default();
    Loader::new(&file[..], None, LoadOptions::default()).load(&mut accesses).expect("it is whole");
    let expected = entries.iter().map(|entry| (entry.key().to_vec(), access_of(entry.clock())));
    assert_eq!(accesses.0, expected.collect::<Vec<_>>());
}

#[test]
fn a_file_is_there_whole_or_not_at_all() {
    let (path, directory) = (Path::new("dir/dump.rdb"), Path::new("dir"));
    let save = |storage: &MemoryStorage| {
        save_file(storage, path, |file| {
            file.write_all(b"new ")?;
            file.write_all(b"contents")
        })
    };
    let count = {
        let storage = MemoryStorage::new();
        save(&storage).expect("no fault is set");
        storage.operations()
    };
    assert!(count >= 5, "create, two writes, sync, rename, sync of the directory");
    for fail_at in 0..=count {
        for crash in [false, true] {
            let storage = MemoryStorage::new();
            let mut old = storage.create(path).expect("no fault is set");
            old.write_all(b"old").and_then(|()| old.sync()).expect("no fault is set");
            storage.sync_directory(directory).expect("no fault is set");
            storage.fail_at(storage.operations() + fail_at);
            let saved = save(&storage).is_ok();
            if crash {
                storage.crash();
            }
            let contents = storage.read(path).expect("one of the two files is there");
            assert!(contents == b"old" || contents == b"new contents", "{contents:?}");
            assert!(!saved || contents == b"new contents");
            assert_eq!(saved, fail_at == count);
            let last_step_failed = fail_at + 1 == count;
            assert!(saved || contents == b"old" || (last_step_failed && !crash));
        }
    }
}

#[test]
fn a_failed_save_leaves_no_temporary_file() {
    let storage = MemoryStorage::new();
    let outcome = save_file(&storage, Path::new("dump.rdb"), |file| {
        file.write_all(b"half")?;
        Err::<(), _>(std::io::Error::other("no more keys"))
    });
    assert!(outcome.is_err());
    assert!(storage.names().is_empty());
}
