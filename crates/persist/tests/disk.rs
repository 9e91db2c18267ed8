//! Saving to a disk that fails, fills up, loses syncs, or loses power.

use mantissa_persist::aof::{Manifest, Reader};
use mantissa_persist::storage::{MemoryStorage, Storage};
use mantissa_persist::write::save_file;
use mantissa_protocol::encode_request;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::Path;

const DIRECTORY: &str = "dir";

/// Sets a fault that depends on the seed, for what is done next.
fn break_disk(storage: &MemoryStorage, seed: u64) {
    match seed % 5 {
        0 => storage.fail_at(storage.operations() + seed / 5 % 12),
        1 => storage.fail_sync(storage.syncs() + seed / 5 % 3),
        2 => storage.fill_up_after(Some(seed * 37 % 20_000)),
        3 if seed.is_multiple_of(2) => storage.make_read_only(true),
        _ => {}
    }
}

fn save(storage: &MemoryStorage, path: &Path, byte: u8) -> io::Result<()> {
    save_file(storage, path, |file| {
        file.write_all(&[byte; 6000])?;
        file.write_all(&[byte; 9000])
    })
}

#[test]
fn a_dump_is_the_old_one_or_the_new_one_whatever_breaks() {
    let path = Path::new(DIRECTORY).join("dump.rdb");
    let (mut old_left, mut new_left) = (0, 0);
    for seed in 0..1000 {
        let storage = MemoryStorage::new();
        save(&storage, &path, 1).expect("no fault is set");
        break_disk(&storage, seed);
        let saved = save(&storage, &path, 2);
        if seed % 2 == 1 {
            storage.crash_anyhow(seed);
        }
        let bytes = storage.read(&path).expect("one of the two is there");
        assert!(bytes == [1; 15_000] || (bytes == [2; 15_000]), "seed {seed}: half a file");
        assert!(saved.is_err() || bytes[0] == 2, "seed {seed}: what was saved is gone");
        old_left += usize::from(bytes[0] == 1);
        new_left += usize::from(bytes[0] == 2);
    }
    assert!(old_left > 100 && new_left > 100, "{old_left} and {new_left}");
}

/// The steps of a rewrite: a base and an increment that are durable, then the manifest that names them, then
/// the files that it does not need any more are removed.
fn rewrite(storage: &MemoryStorage, manifest: &Manifest, name: &OsStr) -> io::Result<Manifest> {
    let directory = Path::new(DIRECTORY);
    let mut next = manifest.clone();
    let base = next.next_base(name, false);
    let increment = next.next_increment(name, None);
    next.retire_increments(1);
    let mut commands = Vec::new();
    for number in 0..300 {
        encode_request(&mut commands, &[&b"RPUSH"[..], b"list", format!("{base:?} {number}").as_bytes()]);
    }
    for file in [&base, &increment] {
        let mut file = storage.create(&directory.join(file))?;
        file.write_all(&commands)?;
        file.sync()?;
    }
    next.store(storage, directory, name)?;
    for old in std::mem::take(&mut next.history) {
        storage.remove(&directory.join(old.name))?;
    }
    next.store(storage, directory, name)?;
    Ok(next)
}

#[test]
fn a_manifest_names_files_that_are_whole_whatever_breaks() {
    let (directory, name) = (Path::new(DIRECTORY), OsStr::new("log"));
    let mut bases = [0; 4];
    for seed in 0..1000 {
        let storage = MemoryStorage::new();
        let first = rewrite(&storage, &Manifest::default(), name).expect("no fault is set");
        break_disk(&storage, seed);
        let second = rewrite(&storage, &first, name);
        storage.crash_anyhow(seed);
        let manifest = Manifest::load(&storage, directory, name).expect("it is whole").expect("it is there");
        for file in manifest.files() {
            let path = directory.join(&file.name);
            let input = storage.open(&path).expect("what the manifest names is there");
            let total = input.length().expect("no fault is set");
            let mut reader = Reader::new(input, total);
            let mut commands = 0;
            while reader.next_item().expect("it is whole").is_some() {
                commands += 1;
            }
            assert_eq!(commands, 300, "seed {seed}: {path:?}");
        }
        let base = manifest.base.as_ref().map_or(0, |base| base.sequence);
        assert!(second.is_err() || base == 2, "seed {seed}: what was rewritten is gone");
        bases[usize::try_from(base).expect("it is 1 or 2")] += 1;
    }
    assert!(bases[1] > 100 && bases[2] > 100 && bases[0] + bases[3] == 0, "{bases:?}");
}
