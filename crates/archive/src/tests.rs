//! Whole archives in memory, cut off at each of their puts, and bytes that are no part of an archive.

use mantissa_persist::write::{FileFacts, WriteOptions, Writer};
use mantissa_store::Entry;
use proptest::prelude::*;

use crate::repository::Archive;
use crate::trial::{Memory, parses, restores};
use crate::wire::{put_bytes, put_number};
use crate::{KeyFile, Origin, Retention, Selection, Snapshot};

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
