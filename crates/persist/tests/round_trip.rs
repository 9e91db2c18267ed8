//! Random keyspaces, written and loaded again; and saving to a disk that fails.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod model;
mod random;

use mantissa_persist::format::Checksum;
use mantissa_persist::load::{KeyUsage, LoadOptions, LoadTarget, LoadedValue, Loader, Record};
use mantissa_persist::storage::{MemoryStorage, Storage};
use mantissa_persist::write::{Encoder, FileFacts, Target, WriteOptions, Writer, save_file};
use mantissa_store::Entry;
use model::{digest, load, save};
use proptest::collection::vec;
use proptest::prelude::*;
use random::{details, keys, keyspace_of, limits};
use std::io::Write;
use std::path::Path;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_loads_without_loss(
        keys in keys(0),
        functions in vec(vec(any::<u8>(), 0..60), 0..3),
        compress in any::<bool>(),
        checksum in any::<bool>(),
    ) {
        let keyspace = keyspace_of(keys);
        let options = WriteOptions { compress, checksum, limits: limits(), ..WriteOptions::default() };
        let file = save(&keyspace, &functions, &options);
        let loaded = load(&file, &LoadOptions { limits: limits(), ..LoadOptions::default() });
        let loaded = loaded.map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(digest(&loaded.keyspace), digest(&keyspace));
        prop_assert_eq!(details(&loaded.keyspace), details(&keyspace));
        prop_assert_eq!(loaded.functions, functions);
        prop_assert_eq!(loaded.summary.bytes, file.len() as u64);
        // Encodings may differ: a replica makes its own from the lowest form.
        let file = save(&keyspace, &[], &WriteOptions { target: Target::Replica, ..options });
        prop_assert!(file.starts_with(b"REDIS0010"));
        let again = load(&file, &LoadOptions { limits: limits(), ..LoadOptions::default() });
        let again = again.map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(digest(&again.keyspace), digest(&keyspace));
    }
}

#[derive(Default)]
struct Accesses(Vec<(Vec<u8>, KeyUsage)>);

impl LoadTarget for Accesses {
    fn select(&mut self, _database: usize) -> Result<(), String> {
        Ok(())
    }

    fn insert(&mut self, record: Record<'_>) -> Result<(), String> {
        assert!(matches!(record.value, LoadedValue::Text(_)));
        self.0.push((record.key.to_vec(), record.usage));
        Ok(())
    }

    fn function(&mut self, _source: &[u8]) -> Result<(), String> {
        Ok(())
    }
}

#[test]
fn chunks_of_several_encoders_make_one_file() {
    let usage_of = |clock: u32| match clock {
        0 => KeyUsage::default(),
        1 => KeyUsage { idle_s: Some(1000), frequency: None },
        _ => KeyUsage { idle_s: None, frequency: Some(7) },
    };
    let entries: Vec<_> =
        (0..9u32).map(|number| Entry::string(&number.to_le_bytes(), b"value", None, number % 3)).collect();
    let mut writer = Writer::new(Vec::new(), WriteOptions::default(), Some(&usage_of));
    writer.begin(&FileFacts::default()).expect("a vector takes all");
    writer.database(0, 9, 0).expect("a vector takes all");
    for (index, part) in entries.chunks(3).enumerate() {
        let mut encoder = Encoder::new(WriteOptions::default(), Some(&usage_of));
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
    let expected = entries.iter().map(|entry| (entry.key().to_vec(), usage_of(entry.clock())));
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
