//! Whole archives in memory, cut off at each of their puts, and bytes that are no part of an archive.

use mantissa_persist::write::{FileFacts, WriteOptions, Writer};
use mantissa_store::Entry;
use proptest::prelude::*;

use crate::repository::Archive;
use crate::store::Store;
use crate::trial::{Memory, parses, restores};
use crate::wire::{put_bytes, put_number};
use crate::{Gap, KeyFile, Origin, Place, Retention, Selection, Snapshot};

/// Bytes that do not get smaller when they are compressed.
fn noise(seed: u64, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    blake3::Hasher::new_derive_key("noise").update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

fn dump(values: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), WriteOptions::default(), None);
    let written = writer.begin(&FileFacts::default()).and_then(|()| {
        for (key, value) in values {
            writer.entry(&Entry::string(key.as_bytes(), value, None, 0))?;
        }
        writer.finish()
    });
    written.expect("memory takes it").0
}

fn create(archive: &Archive<Memory>, dump: &[u8], now_ms: u64) -> std::io::Result<Snapshot> {
    let folder = std::env::temp_dir();
    let origin = Origin {
        source: "a test",
        tag: "",
        now_ms: &|| now_ms,
        bytes: Some(dump.len() as u64),
        folder: &folder,
    };
    archive.create(dump, &origin, &mut |_, _| {})
}

#[test]
fn whatever_is_cut_off_harms_no_snapshot() {
    let key = KeyFile::generate().expect("there are random bytes");
    for (key, all_puts) in [(None, 4..=9), (Some(&key), 6..=6)] {
        let (small, large) = (noise(1, 5000), noise(2, 17 << 20));
        let first = dump(&[("a", &small)]);
        let second = dump(&[("a", &small), ("b", &large)]);
        // The config; pack, index and manifest of the first snapshot; two packs, their indexes, the manifest.
        for puts in all_puts {
            let archive = Archive::init(Memory::new(puts), key).expect("the config is stored");
            create(&archive, &first, 1000).expect("the first snapshot is stored");
            assert_eq!(create(&archive, &second, 2000).is_ok(), puts == 9);
            let archive = Archive::open(archive.store.revived(), key).expect("it is an archive still");
            let known = archive.snapshots().expect("all of them can be read");
            assert_eq!(known.len(), if puts == 9 { 2 } else { 1 });
            for snapshot in &known {
                archive.verify(snapshot, &mut |_| {}).expect("a snapshot that is listed is whole");
            }
            if puts == 5 {
                archive.prune(&Retention::default(), true).expect("pruning works");
                assert_eq!(archive.store.names().len(), 4);
            }
            let again = create(&archive, &second, 3000).expect("there is room now");
            let verified = archive.verify(&again, &mut |_| {}).expect("it is whole");
            assert_eq!(verified.keys, 2);
        }
    }
}

/// An archive of which two snapshots share little with what is to go, and the facts of these two.
fn sparse_archive(puts: usize) -> (Archive<Memory>, Vec<Snapshot>) {
    let archive = Archive::init(Memory::new(puts), None).expect("the config is stored");
    let texts: Vec<_> = (0..40).map(|number| noise(number, 100_000)).collect();
    let names: Vec<_> = (0..40).map(|number| format!("key:{number:02}")).collect();
    let values: Vec<_> = names.iter().zip(&texts).map(|(name, text)| (&name[..], &text[..])).collect();
    let made = [&values[..], &values[3..20], &values[10..15]]
        .into_iter()
        .zip(1..)
        .map(|(values, time)| create(&archive, &dump(values), time * 1000).expect("there is room for it"));
    let made = made.skip(1).collect();
    (archive, made)
}

#[test]
fn packs_of_which_little_is_needed_are_rewritten_and_cuts_harm_nothing() {
    let puts_before = sparse_archive(usize::MAX).0.store.puts();
    let keep_two = Retention { last: 2, ..Retention::default() };
    for puts in puts_before..=puts_before + 4 {
        let (archive, made) = sparse_archive(puts);
        let pruned = archive.prune(&keep_two, true);
        // A pack, its index, two manifests.
        assert_eq!(pruned.is_ok(), puts == puts_before + 4, "after {puts} puts: {pruned:?}");
        let archive = Archive::open(archive.store.revived(), None).expect("it is an archive still");
        for snapshot in archive.snapshots().expect("all of them can be read") {
            archive.verify(&snapshot, &mut |_| {}).expect("each of them is whole");
        }
        let pruned = archive.prune(&keep_two, true).expect("pruning works");
        assert_eq!(pruned.kept, 2);
        let left = archive.snapshots().expect("all of them can be read");
        let facts = |all: &[Snapshot]| all.iter().map(|one| one.facts.clone()).collect::<Vec<_>>();
        assert_eq!(facts(&left), facts(&made));
        for snapshot in &left {
            archive.verify(snapshot, &mut |_| {}).expect("each of them is whole");
        }
        // Moved twice where the first time was cut off: of 4 MB 1.7 are needed, 0.5 of them twice.
        assert!(archive.store.bytes() < 2_500_000, "{} bytes are left", archive.store.bytes());
        let again = archive.prune(&keep_two, true).expect("pruning works");
        assert_eq!((again.packs, again.rewritten, again.bytes), (0, 0, 0));
    }
}

/// An archive of three snapshots of which the first two have a damaged chunk, the dump of the second one, and
/// what each had.
fn damaged_archive(key: Option<&KeyFile>) -> (Archive<Memory>, Vec<u8>, Vec<Snapshot>) {
    let archive = Archive::init(Memory::new(usize::MAX), key).expect("the config is stored");
    let texts: Vec<_> = (0..400).map(|number| noise(number, 3000)).collect();
    let names: Vec<_> = (0..400).map(|number| format!("key:{number:03}")).collect();
    let values: Vec<_> = names.iter().zip(&texts).map(|(name, text)| (&name[..], &text[..])).collect();
    let second = dump(&values);
    let first = create(&archive, &dump(&values[..300]), 1000).expect("there is room for it");
    let packs = archive.store.names();
    let made = vec![
        first,
        create(&archive, &second, 2000).expect("there is room for it"),
        create(&archive, &dump(&[("other", &noise(1000, 5000))]), 3000).expect("there is room for it"),
    ];
    assert_eq!(archive.store.damage(500_000, |name| packs.iter().any(|pack| pack == name)), 1);
    (archive, second, made)
}

/// Which snapshots are whole.
fn whole(archive: &Archive<Memory>) -> Vec<bool> {
    let snapshots = archive.snapshots().expect("all of them can be read");
    snapshots.iter().map(|snapshot| archive.verify(snapshot, &mut |_| {}).is_ok()).collect()
}

/// The keys that can be restored of a snapshot.
fn readable(archive: &Archive<Memory>, snapshot: &Snapshot) -> Vec<usize> {
    let is_there = |number: &usize| {
        let keys = vec![format!("key:{number:03}").into_bytes()];
        let one = Selection { keys, ..Selection::default() };
        archive.restore(snapshot, &one, std::io::sink(), &mut |_| {}).is_ok_and(|done| done.keys == 1)
    };
    (0..400).filter(is_there).collect()
}

#[test]
fn a_damaged_chunk_is_stored_anew_after_a_repair_and_cuts_lose_nothing() {
    let key = KeyFile::generate().expect("there are random bytes");
    for key in [None, Some(&key)] {
        let (archive, second, made) = damaged_archive(key);
        let before = readable(&archive, &made[0]);
        assert!((200..300).contains(&before.len()), "{} keys can be read", before.len());
        let said = archive.repair(false, &mut |_, _| {}).expect("it can be checked");
        // A pack, its index; the damaged pack goes.
        for (puts, deletes) in [(0, 0), (1, 0), (2, 0), (2, 1)] {
            let store = archive.store.cut_off(puts, deletes);
            let cut = Archive::open(store, key).expect("it is an archive still");
            assert_eq!(cut.repair(true, &mut |_, _| {}).is_ok(), deletes == 1);
            let cut = Archive::open(cut.store.revived(), key).expect("it is an archive still");
            assert_eq!(readable(&cut, &made[0]), before);
            let repaired = cut.repair(true, &mut |_, _| {}).expect("it can be repaired");
            assert_eq!(repaired.damaged.len(), usize::from(deletes == 0));
            assert_eq!(format!("{:?}", repaired.incomplete), format!("{:?}", said.incomplete));
            assert_eq!((repaired.whole, repaired.incomplete.len()), (1, 2));
            assert_eq!(readable(&cut, &made[0]), before);
            assert_eq!(whole(&cut), [false, false, true]);
            // Pruning keeps what incomplete snapshots have and what they name.
            cut.prune(&Retention::default(), true).expect("pruning works");
            assert_eq!(cut.snapshots().map(|all| all.len()).ok(), Some(3));
            let again = create(&cut, &second, 4000).expect("it is stored");
            assert!((1..600_000).contains(&again.facts.new_bytes), "{} are new", again.facts.new_bytes);
            assert_eq!(whole(&cut), [true; 4]);
            // The manifests of the first two are written anew.
            for (puts, deletes) in [(0, 0), (1, 0), (1, 1), (2, 1)] {
                let half = Archive::open(cut.store.cut_off(puts, deletes), key).expect("it is an archive");
                assert!(half.prune(&Retention::default(), true).is_err());
                let half = Archive::open(half.store.revived(), key).expect("it is an archive still");
                assert!(whole(&half).iter().all(|is_whole| *is_whole));
                half.prune(&Retention::default(), true).expect("pruning works");
                assert_eq!(whole(&half), [true; 4]);
            }
            let facts: Vec<_> = made.iter().map(|snapshot| snapshot.facts.clone()).collect();
            // The chunks that were stored anew are needed for those before.
            for (last, count) in [(9, 4), (3, 3)] {
                cut.prune(&Retention { last, ..Retention::default() }, true).expect("pruning works");
                assert_eq!(whole(&cut), vec![true; count]);
            }
            let left = cut.snapshots().expect("all of them can be read");
            assert_eq!(left[0].facts, facts[1]);
            let said = cut.repair(true, &mut |_, _| {}).expect("nothing is damaged");
            assert_eq!((said.damaged.len(), said.set_aside.len(), said.whole), (0, 0, 3));
        }
    }
}

#[test]
fn what_can_not_be_read_is_set_aside_and_pruning_works_again() {
    for (folder, readable) in [("snapshots/", 0), ("indexes/", 3), ("log/", 3)] {
        let (archive, second, _) = damaged_archive(None);
        let frame = crate::Frame { time_s: 1, commands: b"PING".to_vec() };
        archive.put_segment("a", 0, &[frame]).expect("there is room");
        let count = archive.store.damage(10, |name| name.starts_with(folder));
        let repaired = archive.repair(true, &mut |_, _| {}).expect("it can be repaired");
        // Packs go with their indexes.
        let aside = if folder == "indexes/" { 2 * count } else { count };
        assert_eq!((repaired.set_aside.len(), repaired.whole + repaired.incomplete.len()), (aside, readable));
        archive.prune(&Retention::default(), true).expect("pruning works");
        archive.segments().expect("all of them can be read");
        create(&archive, &second, 5000).expect("nothing is in the way");
        let is_whole =
            archive.snapshots().map(|all| archive.verify(&all[all.len() - 1], &mut |_| {}).is_ok());
        assert_eq!(is_whole.ok(), Some(true));
    }
}

#[test]
fn packs_that_no_index_tells_of_are_in_nobodys_way() {
    // Without the index and the manifest, as if `create` had been killed, or with both damaged.
    for is_killed in [true, false] {
        let archive = Archive::init(Memory::new(usize::MAX), None).expect("the config is stored");
        let dump = dump(&[("a", &noise(1, 5000)), ("b", &noise(2, 50_000))]);
        create(&archive, &dump, 1000).expect("there is room for it");
        for name in archive.store.names() {
            let is_pack = name.starts_with("packs/");
            if is_pack || (!is_killed && name != "config") {
                archive.store.damage(30, |other| other == name);
            } else if name != "config" {
                archive.store.delete(&name).expect("it can be removed");
            }
        }
        create(&archive, &dump, 2000).expect_err("the pack is in the way");
        for count in [if is_killed { 1 } else { 3 }, 0] {
            let repaired = archive.repair(true, &mut |_, _| {}).expect("it can be repaired");
            assert_eq!((repaired.packs, repaired.set_aside.len(), repaired.whole), (0, count, 0));
        }
        create(&archive, &dump, 3000).expect("nothing is in the way");
        assert_eq!(whole(&archive), [true]);
        assert_eq!(archive.repair(true, &mut |_, _| {}).map(|repaired| repaired.packs).ok(), Some(1));
    }
}

#[test]
fn chunks_of_packs_that_are_gone_are_looked_for_once_in_all_others() {
    let archive = Archive::init(Memory::new(usize::MAX), None).expect("the config is stored");
    let texts: Vec<_> = (0..60).map(|number| noise(number, 60_000)).collect();
    let names: Vec<_> = (0..60).map(|number| format!("key:{number:02}")).collect();
    let values: Vec<_> = names.iter().zip(&texts).map(|(name, text)| (&name[..], &text[..])).collect();
    for (time, count) in (1..).zip([10, 20, 30, 40]) {
        create(&archive, &dump(&values[..count]), time * 1000).expect("there is room for it");
    }
    let old: Vec<_> = archive.store.names().into_iter().filter(|name| name.starts_with("packs/")).collect();
    let remove = |name: &String| archive.store.delete(name).expect("it can be removed");
    old.iter().for_each(remove);
    // Two packs have all that these had.
    create(&archive, &dump(&values[..50]), 5000).expect("there is room for it");
    let [fifth] =
        &archive.store.names().into_iter().filter(|name| name.starts_with("packs/")).collect::<Vec<_>>()[..]
    else {
        panic!("there is not one pack");
    };
    let bytes = archive.store.get(fifth).expect("it is there");
    remove(fifth);
    create(&archive, &dump(&values), 6000).expect("there is room for it");
    archive.store.put_new(fifth, &bytes).expect("it was removed");
    assert_eq!(whole(&archive), [true; 6]);
    let before = archive.store.gets();
    archive.verify(&archive.find("latest").expect("it is there"), &mut |_| {}).expect("it is whole");
    let fourth = &archive.snapshots().expect("all of them can be read")[3];
    let opened = archive.store.gets();
    archive.verify(fourth, &mut |_| {}).expect("it is whole");
    // The indexes of four packs that are gone, and those of the two that there are.
    assert_eq!(archive.store.gets() - opened, 6, "{} before", opened - before);
    for at in [1_000_000, 50_000] {
        let sixth = |name: &str| name.starts_with("packs/") && name != fifth;
        for is_meant in [&(|name: &str| name == fifth) as &dyn Fn(&str) -> bool, &sixth] {
            assert_eq!(archive.store.damage(at, is_meant), 1);
            assert_eq!(whole(&archive)[..4], [true; 4]);
            assert_eq!(archive.store.damage(at, is_meant), 1);
        }
    }
}

fn key(text: &str) -> Place {
    Place::Key { database: 0, key: text.as_bytes().to_vec() }
}

#[test]
fn the_key_beside_a_gap_is_named_if_it_lacks_parts() {
    let (large, other) = (noise(1, 400_000), noise(2, 100_000));
    let tail = [&large[..300_000], &other].concat();
    let values = |value, between| dump(&[("a", value), ("b", between), ("c", b"large enough for no part")]);
    let others = (noise(3, 70_000), noise(4, 70_000));
    for (second, is_value_whole) in [(values(&tail, &others.0), false), (values(&large, &others.1), true)] {
        let archive = Archive::init(Memory::new(usize::MAX), None).expect("the config is stored");
        create(&archive, &values(&large, &others.0), 1000).expect("there is room for it");
        let before = archive.store.names();
        create(&archive, &second, 2000).expect("there is room for it");
        let is_new = |name: &str| name.starts_with("indexes/") && !before.iter().any(|old| old == name);
        assert_eq!(archive.store.damage(20, is_new), 1);
        let repaired = archive.repair(true, &mut |_, _| {}).expect("it can be repaired");
        let [incomplete] = &repaired.incomplete[..] else { panic!("not one is incomplete: {repaired:?}") };
        let gaps = match is_value_whole {
            false => vec![Gap::Value(key("a")), Gap::Between(Some(key("a")), Some(key("b")))],
            true => vec![Gap::Value(key("b")), Gap::Between(Some(key("b")), Some(key("c")))],
        };
        assert_eq!(incomplete.gaps, gaps);
        let all = Selection { skips_lost: true, ..Selection::default() };
        let latest = archive.find("latest").expect("it is there");
        let done = archive.restore(&latest, &all, std::io::sink(), &mut |_| {}).expect("the rest is there");
        assert_eq!((done.keys, done.gaps > 0), (2, true));
    }
}

#[test]
fn a_gap_is_one_however_many_keys_were_in_it() {
    let (archive, _, _) = damaged_archive(None);
    let before = archive.snapshots().expect("all of them can be read");
    let index = |name: &str| name.starts_with("indexes/");
    let second: Vec<_> = before[1].manifest.packs.iter().map(crate::pack::index_object).collect();
    let second = second
        .iter()
        .find(|name| index(name) && **name != crate::pack::index_object(&before[0].manifest.packs[0]));
    let second = second.expect("it has a pack of its own");
    assert_eq!(archive.store.damage(20, |name| name == second), 1);
    let keys = (320..340).map(|number| format!("key:{number}").into_bytes()).collect();
    let lost = Selection { keys, skips_lost: true, ..Selection::default() };
    let done = archive.restore(&before[1], &lost, std::io::sink(), &mut |_| {}).expect("nothing is no error");
    assert_eq!((done.keys, done.gaps), (0, 1));
}

#[test]
fn a_restored_dump_makes_the_same_snapshot() {
    let archive = Archive::init(Memory::new(usize::MAX), None).expect("the config is stored");
    let large = noise(3, 300_000);
    let made =
        create(&archive, &dump(&[("b", b"17"), ("a", &large), ("c", b"")]), 1000).expect("it is stored");
    let mut restored = Vec::new();
    let done = archive.restore(&made, &Selection::default(), &mut restored, &mut |_| {});
    assert_eq!(done.expect("it can be read").keys, 3);
    let again = create(&archive, &restored, 2000).expect("it is stored");
    assert_eq!((again.facts.digest, again.facts.new_bytes), (made.facts.digest, 0));
    for (key, keys) in [(&b"a"[..], 1), (b"b", 1), (b"", 0), (b"zz", 0)] {
        let one = Selection { keys: vec![key.to_vec()], ..Selection::default() };
        let done = archive.restore(&made, &one, std::io::sink(), &mut |_| {});
        assert_eq!(done.expect("it can be read").keys, keys);
    }
}

/// A kind of record, whether its body is in a part (1), a form of values, and a value.
fn record() -> impl Strategy<Value = (u8, u8, u8, Vec<u8>)> {
    (0..3_u8, 0..3_u8, 0..30_u8, prop::collection::vec(any::<u8>(), 0..40))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_bytes_are_refused_without_a_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        kind in 0..3,
    ) {
        let magic: &[u8] = [&b""[..], b"MANTSNP1", b"MANTPCK1"][kind as usize];
        parses(&[magic, &bytes].concat());
        let _ = restores(&bytes);
    }

    #[test]
    fn any_records_are_refused_without_a_panic(
        records in prop::collection::vec(record(), 1..4),
        lie in prop::option::of((any::<prop::sample::Index>(), any::<u8>())),
    ) {
        let mut input = Vec::new();
        for (kind, is_large, form, body) in &records {
            let head = [&[*kind][..], &[0, 0, 0, *is_large], b"key"].concat();
            let body = [&[0, *form][..], body].concat();
            let mut chunk = Vec::new();
            put_bytes(&head, &mut chunk);
            put_number((body.len() as u64) << 1 | u64::from(*is_large == 1), &mut chunk);
            if *is_large == 1 {
                input.extend([0, chunk.len() as u8]);
                input.append(&mut chunk);
                input.extend([1, body.len() as u8]);
            } else {
                input.extend([0, (chunk.len() + body.len()) as u8]);
                input.append(&mut chunk);
            }
            input.extend_from_slice(&body);
        }
        if let Some((at, byte)) = lie {
            let at = at.index(input.len());
            input[at] = byte;
        }
        let _ = restores(&input);
    }
}
