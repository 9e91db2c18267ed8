//! Files of commands and manifests: any, whole, truncated anywhere and changed anywhere.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod aof_model;

use aof_model::{OwnedItem, check_file, check_manifest, read, read_from, write};
use mantissa_persist::aof::{AofError, Manifest, ManifestError, Reader, has_preamble};
use mantissa_persist::storage::{MemoryStorage, Storage};
use proptest::collection::vec;
use proptest::prelude::*;
use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::path::Path;

fn command(text: &str) -> OwnedItem {
    OwnedItem::Command(text.split(' ').map(|word| word.as_bytes().to_vec()).collect())
}

/// Transactions, annotations, empty and binary arguments.
fn sample() -> Vec<OwnedItem> {
    let mut items = vec![
        OwnedItem::Annotation(b"# a remark".to_vec()),
        OwnedItem::Timestamp(1_700_000_000),
        command("SELECT 0"),
        command("set key 1234567890"),
        OwnedItem::Command(vec![b"SET".to_vec(), Vec::new(), b"a\r\n*2\r\n".to_vec()]),
    ];
    items.extend(["MULTI", "INCR a", "INCR b", "EXEC", "DEL key", "multi"].map(command));
    items.push(OwnedItem::Timestamp(1_700_000_001));
    items.extend(["APPEND x y", "exec"].map(command));
    items
}

#[test]
fn a_file_reads_as_it_was_written() {
    let file = write(&sample());
    let contents = check_file(&file);
    assert_eq!((contents.items, contents.failure), (sample(), None));
    assert!(read(b"").items.is_empty() && read(b"").failure.is_none());
}

#[test]
fn every_truncation_is_told_and_keeps_what_is_whole() {
    let items = sample();
    let file = write(&items);
    let ends: Vec<usize> = (0..=items.len()).map(|count| write(&items[..count]).len()).collect();
    for length in 0..file.len() {
        let contents = check_file(&file[..length]);
        let complete = ends.iter().filter(|&&end| end <= length).count() - 1;
        assert_eq!(contents.items, items[..complete], "truncated at {length}");
        match contents.failure {
            Some(AofError::Truncated { whole, .. }) => assert!(whole <= length as u64),
            Some(AofError::Damaged { reason, .. }) => {
                // Only where the value that looks like a command is truncated.
                assert!(
                    reason.contains("ends past the end") && complete == 4,
                    "truncated at {length}: {reason}"
                );
            }
            failure => {
                assert_eq!(failure, None);
                assert!(ends.contains(&length), "truncated at {length}");
            }
        }
    }
}

#[test]
fn a_transaction_is_whole_or_the_file_is_not() {
    for (text, whole) in [("MULTI|SET a 1", 0), ("DEL a|MULTI|SET a 1|SET b 2", 20), ("MULTI", 0)] {
        let items: Vec<_> = text.split('|').map(command).collect();
        let contents = check_file(&write(&items));
        let reason = "the file ends within a transaction".to_owned();
        assert_eq!(contents.failure, Some(AofError::Truncated { whole, reason }), "{text}");
    }
    for (text, offset) in [("EXEC", 0), ("MULTI|MULTI", 15), ("MULTI|EXEC|EXEC", 29)] {
        let items: Vec<_> = text.split('|').map(command).collect();
        let failure = check_file(&write(&items)).failure;
        assert!(
            matches!(&failure, Some(AofError::Damaged { offset: at, .. }) if *at == offset),
            "{text}: {failure:?}"
        );
    }
}

#[test]
fn every_flipped_bit_is_told_or_loses_no_command() {
    let items = sample();
    let file = write(&items);
    let count = items.iter().filter(|item| matches!(item, OwnedItem::Command(_))).count();
    for bit in 0..file.len() * 8 {
        let mut bad = file.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        let contents = check_file(&bad);
        let commands = contents.items.iter().filter(|item| matches!(item, OwnedItem::Command(_))).count();
        assert!(contents.failure.is_some() || commands == count, "bit {bit} takes a command away");
    }
}

#[test]
fn what_no_server_writes_is_damage() {
    for (file, offset) in [
        (&b"*0\r\n"[..], 0),
        (b"*-1\r\n", 0),
        (b"*99999999999\r\n", 0),
        (b"*999999999999999999999999\r\n", 0),
        (b"*1\n$4\nPING\n", 0),
        (b"*1\r\n$4\nPING\r\n", 4),
        (b"*1\r\n:4\r\nPING\r\n", 4),
        (b"*1\r\n$-1\r\n", 4),
        (b"*1\r\n$4\r\nPINGxx*1\r\n", 12),
        (b"PING\r\n", 0),
        (&[0; 40], 0),
        (b"*1\r\n$4\r\nPING\r\n\0\0\0\0*1\r\n$4\r\nPING\r\n", 14),
        (b"\r\n*1\r\n$4\r\nPING\r\n", 0),
        (b"*2\r\n$900\r\nGET\r\n$1\r\na\r\n*1\r\n$4\r\nPING\r\n", 4),
        (b"*1\r\n$18446744073709551615\r\nPING\r\n*1\r\n$4\r\nPING\r\n", 4),
        (b"#TS:17\x0d*1\r\n$4\r\nPING\r\n", 11),
    ] {
        let failure = check_file(file).failure;
        assert!(
            matches!(&failure, Some(AofError::Damaged { offset: at, .. }) if *at == offset),
            "{}: {failure:?}",
            file.escape_ascii()
        );
    }
}

/// An endless row of the same byte.
struct Endless(u64);

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let start = b"*1\r\n$10000000\r\n";
        for byte in buffer.iter_mut() {
            *byte = usize::try_from(self.0).ok().and_then(|at| start.get(at)).copied().unwrap_or(b'x');
            self.0 += 1;
        }
        Ok(buffer.len())
    }
}

#[test]
fn long_arguments_are_read_and_long_lines_are_not() {
    let long = OwnedItem::Command(vec![b"SET".to_vec(), vec![b'x'; 3_000_000]]);
    let file = write(&[command("PING"), long.clone(), command("PING"), long]);
    assert_eq!(check_file(&file).items.len(), 4);
    let failure = read_from(Endless(0), 20_000_000).failure;
    assert!(matches!(failure, Some(AofError::Damaged { offset: 10_000_015, .. })), "{failure:?}");
    let mut line = vec![b'#'; 200_000];
    assert!(matches!(read(&line).failure, Some(AofError::Damaged { offset: 0, .. })));
    line.truncate(1000);
    assert!(matches!(read(&line).failure, Some(AofError::Truncated { whole: 0, .. })));
}

#[test]
fn reading_begins_behind_a_preamble() {
    let rest = write(&[command("SET a 1"), command("SET b 2")]);
    let (ahead, following) = rest.split_at(10);
    let total = 1000 + rest.len() as u64;
    let mut reader = Reader::resume(ahead.to_vec(), following, 1000, total);
    while reader.next_item().expect("it is whole").is_some() {}
    assert_eq!((reader.offset(), reader.whole_end()), (total, total));
    let storage = MemoryStorage::new();
    let files =
        [("a", &b"REDIS0011"[..], true), ("b", b"VALKEY080", true), ("c", b"REDI", false), ("d", b"", false)];
    for (name, text, expected) in files {
        let path = Path::new(name);
        storage.create(path).and_then(|mut file| file.write_all(text)).expect("no fault is set");
        assert_eq!(has_preamble(&storage, path).ok(), Some(expected));
    }
}

#[test]
fn preallocated_bytes_are_no_items() {
    let start = b"#RESERVED:00000022\r\n";
    let set = write(&[command("SET a 1")]);
    for (rest, items) in [
        (&b""[..], 1),
        (b"#\n#\n#END:00000022\n", 1),
        (b"\0\0\0\0\0\0\0\x000", 1),
        (b"#\n\0\0#END:0", 1),
        (b"#END:00000022\n# a remark\n", 3),
        (&[b"#\n#END:00000022\n", &set[..], b"# a # b\n"].concat(), 3),
        (&[b"#SUM:00000000:000000\r\n", &set[..]].concat(), 3),
    ] {
        let contents = check_file(&[start, rest].concat());
        let text = rest.escape_ascii();
        assert_eq!((contents.items.len(), contents.failure), (items, None), "{text}");
    }
}

#[test]
fn a_manifest_is_refused_for_redis_reasons() {
    let long_comment = [&b"#"[..], &[b'x'; 1024], b"\nfile a seq 1 type i\n"].concat();
    let long_line = [&b"file "[..], &[b'a'; 1006], b" seq 1 type i\n"].concat();
    let format = "Invalid AOF manifest file format";
    for (text, line, reason) in [
        (&b""[..], None, "Found an empty AOF manifest"),
        (b"file a seq 1 type b", None, "The AOF manifest file contains too long line"),
        (b"file a seq 1 type i\0junk\n", None, "The AOF manifest file contains too long line"),
        (&long_line, None, "The AOF manifest file contains too long line"),
        (&long_comment, Some(2), format),
        (b"file a seq 1 type b\nfile b seq 2 type b\n", Some(2), "Found duplicate base file information"),
        (b"file a seq 1 type i\nfile b seq 1 type i\n", Some(2), "Found a non-monotonic sequence number"),
        (b"file a seq -1 type i\n", Some(1), "Found a non-monotonic sequence number"),
        (b"# x\nfile a seq 0 type i\n", Some(2), format),
        (b"file a seq x1 type i\n", Some(1), format),
        (b"file a seq 1 type ''\n", Some(1), format),
        (b"file a seq 1 type i foo\n", Some(1), format),
        (b"file a seq 1 type i\n\n", Some(2), format),
        (b"file \"a seq 1 type i\n", Some(1), format),
        (b"file a/b seq 1 type i\n", Some(1), "File can't be a path, just a filename"),
        (b"file a\\b seq 1 type i\n", Some(1), "File can't be a path, just a filename"),
        (b"file a seq 1 type x\n", Some(1), "Unknown AOF file type"),
    ] {
        let error = Manifest::parse(text).map_err(|ManifestError { line, reason }| (line, reason));
        let error = error.map_err(|(line, reason)| (line.map(|(number, _)| number), reason));
        assert_eq!(error, Err((line, reason)), "{}", text.escape_ascii());
    }
    let longest_line = [&b"file "[..], &[b'a'; 1005], b" seq 1 type i\n"].concat();
    let longest_comment = [&b"#"[..], &[b'x'; 1022], b"\nfile a seq 1 type i\n"].concat();
    for text in [
        &b"# x"[..],
        b"file a seq 1x type i\n",
        b"FILE a SEQ +1 TYPE base\n",
        b"  \tseq 1 file a type i \r\n",
        b"file a seq 1 type i foo bar\n",
        b"file a seq 1 type i file b x y
",
        b"file a seq 99999999999999999999 type i\n",
        b"file '' seq \" 7\" type i\n",
        &longest_line,
        &longest_comment,
    ] {
        assert!(check_manifest(text), "{}", text.escape_ascii());
    }
}

#[test]
fn a_rewrite_goes_through_the_manifest() {
    let name = OsStr::new("a b\".aof");
    let (storage, directory) = (MemoryStorage::new(), Path::new("dir"));
    assert_eq!(Manifest::load(&storage, directory, name).ok(), Some(None));
    let mut manifest = Manifest::default();
    assert_eq!(manifest.next_base(name, true), "a b\".aof.1.base.rdb");
    assert_eq!(manifest.next_increment(name, Some(0)), "a b\".aof.1.incr.aof");
    assert_eq!(manifest.next_increment(name, None), "a b\".aof.2.incr.aof");
    assert_eq!(manifest.next_base(name, false), "a b\".aof.2.base.aof");
    manifest.retire_increments(1);
    let text = b"file \"a b\\\".aof.2.base.aof\" seq 2 type b\n\
                 file \"a b\\\".aof.1.incr.aof\" seq 1 type h startoffset 0\n\
                 file \"a b\\\".aof.1.base.rdb\" seq 1 type h\n\
                 file \"a b\\\".aof.2.incr.aof\" seq 2 type i\n";
    assert_eq!(manifest.to_text().escape_ascii().to_string(), text.escape_ascii().to_string());
    manifest.store(&storage, directory, name).expect("no fault is set");
    assert_eq!(storage.names(), [Path::new("dir/a b\".aof.manifest")]);
    let loaded = Manifest::load(&storage, directory, name).expect("it is whole");
    assert_eq!(loaded.as_ref(), Some(&manifest));
    let mut loaded = loaded.expect("it is there");
    assert_eq!(loaded.next_increment(name, None), "a b\".aof.3.incr.aof");
    assert_eq!(loaded.files().count(), 3);
}

#[test]
fn a_crash_leaves_the_old_manifest_or_the_new_one() {
    let (name, directory) = (OsStr::new("log"), Path::new("dir"));
    let mut old = Manifest::default();
    old.next_base(name, true);
    let mut new = old.clone();
    new.next_increment(name, None);
    for seed in 0..300 {
        let storage = MemoryStorage::new();
        old.store(&storage, directory, name).expect("no fault is set");
        let first = storage.operations();
        storage.fail_at(first + seed % 8);
        let stored = new.store(&storage, directory, name).is_ok();
        storage.crash_anyhow(seed);
        let loaded = Manifest::load(&storage, directory, name).expect("it is whole").expect("it is there");
        assert!(loaded == new || (loaded == old && !stored), "seed {seed}");
    }
}

fn items() -> impl Strategy<Value = Vec<OwnedItem>> {
    let word = vec(any::<u8>(), 0..40);
    let words = vec(word, 1..6).prop_filter("transactions are not opened at random", |words| {
        !["multi", "exec"].iter().any(|name| words[0].eq_ignore_ascii_case(name.as_bytes()))
    });
    let item = prop_oneof![
        8 => words.prop_map(OwnedItem::Command),
        1 => any::<i64>().prop_map(OwnedItem::Timestamp),
        1 => "# [a-z ]{0,30}".prop_map(|text| OwnedItem::Annotation(text.into_bytes())),
    ];
    vec(item, 0..12)
}

/// What lines of a file are made of.
const BYTES: &[u8] = b"*$#123\r\nTSMULTIEXEC:\0x";
/// What lines of a manifest are made of.
const WORDS: &[&str] = &["file", "seq", "type", "a", "b", "i", "h", "1", "2", "\n", "\"\\x00 \"", "\"", "#"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn what_is_written_is_read(items in items()) {
        let contents = check_file(&write(&items));
        prop_assert_eq!(contents.items, items);
        prop_assert_eq!(contents.failure, None);
    }

    #[test]
    fn damage_in_the_middle_is_told(
        items in items(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut file = write(&items);
        if !file.is_empty() {
            let at = at.index(file.len());
            file[at] = byte;
        }
        check_file(&file);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in vec(prop::sample::select(BYTES), 0..80)) {
        check_file(&bytes);
    }

    #[test]
    fn any_manifest_is_read_or_refused(words in vec(prop::sample::select(WORDS), 0..40)) {
        check_manifest(words.join(" ").as_bytes());
        check_manifest(words.join(" ").replace(" \n ", "\n").as_bytes());
    }

    #[test]
    fn names_of_any_bytes_come_back(name in vec(1..=255_u8, 1..80), numbers in vec(any::<bool>(), 0..9)) {
        let name: Vec<u8> = name.into_iter().filter(|byte| !b"/\\".contains(byte)).collect();
        let name = <OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(&name);
        let mut manifest = Manifest::default();
        for is_base in numbers {
            if is_base { manifest.next_base(name, true) } else { manifest.next_increment(name, Some(7)) };
        }
        let text = manifest.to_text();
        if !text.is_empty() {
            prop_assert_eq!(Manifest::parse(&text), Ok(manifest));
        }
    }
}
