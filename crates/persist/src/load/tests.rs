//! Old forms, put together by hand, and everything around the keys.

use super::*;
use crate::format::{Checksum, put_length};
use crate::lzf::Compressor;
use crate::packed::ziplist;
use crate::payload::{RestoreError, restore_value};
use crate::write::{Encoder, FileFacts, Target, WriteOptions, Writer};
use mantissa_store::listpack::Listpack;
use mantissa_store::stream::ProducerLimits;
use mantissa_store::{Hash, Kind, StringRef, Value, ValueRef};
use proptest::prelude::*;
use std::sync::LazyLock;

const NOW_MS: i64 = 1_700_000_000_000;

/// What a target is told, in words.
#[derive(Default)]
struct Told {
    lines: Vec<String>,
    kinds: Vec<Kind>,
    database_count: usize,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn describe(value: &Value) -> String {
    let element = |element: mantissa_store::listpack::Element<'_>| text(&element.to_vec());
    match value {
        Value::String(bytes) => text(bytes),
        Value::Integer(integer) => integer.to_string(),
        Value::List(list) => list.iter().map(element).collect::<Vec<_>>().join(","),
        Value::Set(set) => sorted(set.iter().map(element).collect()),
        Value::SortedSet(set) => {
            sorted(set.iter().map(|(member, score)| format!("{}={score}", text(member))).collect())
        }
        Value::Hash(hash) => describe_hash(hash),
        Value::Stream(stream) => format!("{} entries", stream.len()),
        Value::Series(series) => format!("{} samples", series.len()),
        Value::BloomFilter(filter) => format!("{} items", filter.items()),
        Value::CuckooFilter(filter) => format!("{} items", filter.items()),
        Value::CountMinSketch(sketch) => format!("{} counted", sketch.count()),
        Value::VectorSet(set) => format!("{} vectors", set.len()),
        Value::Array(array) => format!("{array:?}"),
        Value::Json(document) => format!("{document:?}"),
        Value::TopK(sketch) => format!("{:?}", sketch.list()),
        Value::TDigest(digest) => format!("{:?}", digest.nodes()),
    }
}

fn describe_hash(hash: &Hash) -> String {
    let field = |(field, value, expiry): (_, _, Option<i64>)| {
        let expiry = expiry.map_or(String::new(), |expiry| format!("@{expiry}"));
        let [field, value]: [mantissa_store::listpack::Element<'_>; 2] = [field, value];
        format!("{}={}{expiry}", text(&field.to_vec()), text(&value.to_vec()))
    };
    sorted(hash.iter().map(field).collect())
}

fn sorted(mut parts: Vec<String>) -> String {
    parts.sort();
    parts.join(",")
}

impl LoadTarget for Told {
    fn select(&mut self, database: usize) -> Result<(), String> {
        if database < self.database_count { Ok(()) } else { Err("too many databases".to_owned()) }
    }

    fn insert(&mut self, record: Record<'_>) -> Result<(), String> {
        let value = match record.value {
            LoadedValue::Text(text) => Value::String(text.to_vec()),
            LoadedValue::Value(value) => value,
        };
        self.kinds.push(value.kind());
        let mut line = format!("{}/{} {}", record.database, text(record.key), describe(&value));
        if let Some(expiry) = record.expiry {
            line += &format!(" expires {expiry}");
        }
        if record.usage != KeyUsage::default() {
            line += &format!(" {:?}", record.usage);
        }
        self.lines.push(line);
        Ok(())
    }

    fn function(&mut self, source: &[u8]) -> Result<(), String> {
        if source.starts_with(b"bad") {
            return Err("the library does not compile".to_owned());
        }
        self.lines.push(format!("function {}", text(source)));
        Ok(())
    }

    fn describe(&mut self, name: &[u8], value: &[u8]) {
        self.lines.push(format!("{} is {}", text(name), text(value)));
    }

    fn skipped(&mut self, skipped: &SkippedKey<'_>) {
        let SkippedKey { database, key, type_name, .. } = skipped;
        self.lines.push(format!("{database}/{} is of type {type_name}", text(key)));
    }

    fn skipped_aux(&mut self, type_name: &str) {
        self.lines.push(format!("data of {type_name}"));
    }
}

/// Puts files together.
#[derive(Clone, Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    fn length(mut self, length: u64) -> Self {
        put_length(length, &mut self.0);
        self
    }

    fn string(self, text: impl AsRef<[u8]>) -> Self {
        self.length(text.as_ref().len() as u64).raw(text.as_ref())
    }

    fn compressed(self, text: &[u8]) -> Self {
        let mut packed = Vec::new();
        assert!(Compressor::new().compress(text, &mut packed, text.len()));
        self.raw(&[0xC3]).length(packed.len() as u64).length(text.len() as u64).raw(&packed)
    }

    fn strings(self, texts: &[&str]) -> Self {
        texts.iter().fold(self, |bytes, text| bytes.string(text))
    }

    fn key(self, form: u8, name: &str) -> Self {
        self.raw(&[form]).string(name)
    }

    fn file(self, version: u16) -> Vec<u8> {
        let mut file = format!("REDIS{version:04}").into_bytes();
        file.extend(self.0);
        file.push(opcode::EOF);
        if version >= VERSION_WITH_CHECKSUM {
            let checksum = Checksum::of(&file);
            file.extend(checksum.to_le_bytes());
        }
        file
    }
}

fn bytes() -> Bytes {
    Bytes::default()
}

fn options() -> LoadOptions {
    LoadOptions { now_ms: NOW_MS, skip_expired: true, ..LoadOptions::default() }
}

/// Loads a file in one thread, and checks that several come to the same.
fn load_with(file: &[u8], options: LoadOptions) -> (Told, Result<LoadSummary, LoadError>) {
    let mut told = Told { database_count: 16, ..Told::default() };
    let outcome = Loader::new(file, Some(file.len() as u64), options.clone()).load(&mut told);
    let (lines, in_parallel) = load_with_threads(file, options.clone());
    assert_eq!(in_parallel, outcome);
    if outcome.is_ok() {
        let mut expected = told.lines.clone();
        expected.sort();
        assert_eq!(lines, expected);
    }
    check_stream(file, options);
    (told, outcome)
}

/// Yields bytes some at a time.
struct Slowly<'a>(&'a [u8], usize);

impl Read for Slowly<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let step = buffer.len().min(self.1);
        self.0.read(&mut buffer[..step])
    }
}

/// Checks that a stream comes to the same in several threads as in one.
fn check_stream(file: &[u8], options: LoadOptions) {
    let mut told = Told { database_count: 16, ..Told::default() };
    let mut loader = Loader::new(file, None, options.clone());
    let outcome = loader.load(&mut told);
    let expected = outcome.map(|summary| {
        told.lines.sort();
        (told.lines, summary, loader.into_rest().0)
    });
    for step in [777, usize::MAX] {
        let found = stream_with_threads(&mut Slowly(file, step), options.clone());
        match (found, &expected) {
            (Ok((lines, summary, rest)), Ok((_, _, whole))) => {
                // What was not read for lack of need is behind it.
                assert!(whole.starts_with(&rest));
                assert_eq!(Ok((lines, summary, whole.clone())), expected);
            }
            (found, expected) => assert_eq!(&found, expected),
        }
    }
}

type Streamed = Result<(Vec<String>, LoadSummary, Vec<u8>), LoadError>;

fn stream_with_threads(stream: &mut dyn Read, options: LoadOptions) -> Streamed {
    let (lines, reserved) = (std::sync::Mutex::new(Vec::new()), std::sync::Mutex::new(0));
    let job = LoadJob {
        options,
        threads: 2,
        work: &|run| {
            let mut told = Told { database_count: 16, ..Told::default() };
            run(&mut told);
            lines.lock().expect("no worker panics").append(&mut told.lines);
        },
        reserve: &|_, keys| *reserved.lock().expect("no worker panics") += keys,
        progress: &|_| {},
    };
    let (summary, rest) = load_stream_in_parallel(stream, &job)?;
    assert!(reserved.into_inner().expect("no worker panics") <= 16 << 20);
    let mut lines = lines.into_inner().expect("no worker panics");
    lines.sort();
    Ok((lines, summary, rest))
}

fn load_with_threads(file: &[u8], options: LoadOptions) -> (Vec<String>, Result<LoadSummary, LoadError>) {
    static NUMBER: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("mantissa-load-{}-{number}.rdb", std::process::id()));
    std::fs::write(&path, file).expect("there is a folder for temporary files");
    let opened = std::fs::File::open(&path).expect("written just now");
    std::fs::remove_file(&path).expect("written just now");
    let lines = std::sync::Mutex::new(Vec::new());
    let outcome = load_in_parallel(
        &opened,
        &LoadJob {
            options,
            threads: 2,
            work: &|run| {
                let mut told = Told { database_count: 16, ..Told::default() };
                run(&mut told);
                lines.lock().expect("no worker panics").append(&mut told.lines);
            },
            reserve: &|_, _| {},
            progress: &|_| {},
        },
    );
    let mut lines = lines.into_inner().expect("no worker panics");
    lines.sort();
    (lines, outcome)
}

fn lines(file: &[u8]) -> Vec<String> {
    let (told, outcome) = load_with(file, options());
    assert!(outcome.is_ok(), "{outcome:?}");
    told.lines
}

fn reason(file: &[u8]) -> String {
    load_with(file, options()).1.expect_err("it is damaged").reason
}

fn ziplist_of(elements: &[&str]) -> Vec<u8> {
    ziplist::build(&elements.iter().map(|element| element.as_bytes()).collect::<Vec<_>>())
}

fn listpack_of(elements: &[&str]) -> Vec<u8> {
    let mut listpack = Listpack::new();
    elements.iter().for_each(|element| listpack.push(element.as_bytes()));
    listpack.into_bytes()
}

#[test]
fn counted_forms_of_the_first_version() {
    let scores = bytes().length(5).string("a").raw(b"\x031.5").string("b").raw(&[254]).string("c");
    let scores =
        scores.raw(&[255]).string("d").raw(b"\x02-7").string("e").raw(b"\x1c0.30000000000000004440892098");
    let file = bytes()
        .raw(&[opcode::SELECTDB, 0])
        .key(value_type::LIST, "list")
        .length(3)
        .strings(&["x", "", "12"])
        .key(value_type::SET, "set")
        .length(2)
        .strings(&["one", "2"])
        .key(value_type::HASH, "hash")
        .length(2)
        .strings(&["f", "v", "g", "7"])
        .key(value_type::ZSET, "zset")
        .raw(&scores.0)
        .file(1);
    assert_eq!(
        lines(&file),
        [
            "0/list x,,12",
            "0/set 2,one",
            "0/hash f=v,g=7",
            "0/zset a=1.5,b=inf,c=-inf,d=-7,e=0.30000000000000004",
        ]
    );
}

#[test]
fn packed_forms_of_versions_2_to_9() {
    let intset = b"\x02\x00\x00\x00\x02\x00\x00\x00\xfe\xff\x05\x00";
    let file = bytes()
        .key(value_type::HASH_ZIPMAP, "zipmap")
        .string(b"\x02\x01a\x01\x002\x01b\x03\x01two.\xff")
        .key(value_type::LIST_ZIPLIST, "ziplist")
        .string(ziplist_of(&["a", "-5", "70000"]))
        .key(value_type::SET_INTSET, "intset")
        .string(intset)
        .key(value_type::ZSET_ZIPLIST, "scores")
        .string(ziplist_of(&["m", "1", "n", "2.5", "o", "-inf"]))
        .key(value_type::HASH_ZIPLIST, "pairs")
        .string(ziplist_of(&["f", "1", "9", "v"]))
        .key(value_type::LIST_QUICKLIST, "quick")
        .length(3)
        .string(ziplist_of(&["a", "b"]))
        .string(ziplist_of(&[]))
        .string(ziplist_of(&["3"]))
        .key(value_type::ZSET_2, "binary")
        .length(1)
        .string("m")
        .raw(&0.1f64.to_le_bytes())
        .file(9);
    assert_eq!(
        lines(&file),
        [
            "0/zipmap a=2,b=two",
            "0/ziplist a,-5,70000",
            "0/intset -2,5",
            "0/scores m=1,n=2.5,o=-inf",
            "0/pairs 9=v,f=1",
            "0/quick a,b,3",
            "0/binary m=0.1",
        ]
    );
}

#[test]
fn packed_forms_of_today() {
    let in_threes = ["b", "2", "1800000000000", "c", "3", "1800000000001", "a", "1", "0"];
    let file = bytes()
        .key(value_type::LIST_QUICKLIST_2, "quick")
        .length(3)
        .length(2)
        .string(listpack_of(&["a", "1"]))
        .length(1)
        .string("plain")
        .length(2)
        .string(listpack_of(&[]))
        .key(value_type::SET_LISTPACK, "set")
        .string(listpack_of(&["x", "5"]))
        .key(value_type::ZSET_LISTPACK, "zset")
        .string(listpack_of(&["m", "0.5", "n", "3"]))
        .key(value_type::HASH_LISTPACK, "hash")
        .string(listpack_of(&["f", "v"]))
        .key(value_type::HASH_LISTPACK_EX, "expiring")
        .raw(&1_800_000_000_000i64.to_le_bytes())
        .string(listpack_of(&in_threes))
        .key(value_type::HASH_LISTPACK_EX_PRE_GA, "expiring, old")
        .string(listpack_of(&in_threes))
        .key(value_type::HASH_METADATA, "counted")
        .raw(&1_800_000_000_000i64.to_le_bytes())
        .length(3)
        .length(0)
        .strings(&["a", "1"])
        .length(1)
        .strings(&["b", "2"])
        .length(5)
        .strings(&["c", "3"])
        .key(value_type::HASH_METADATA_PRE_GA, "counted, old")
        .length(2)
        .length(1_800_000_000_000)
        .strings(&["b", "2"])
        .length(0)
        .strings(&["a", "1"])
        .file(12);
    assert_eq!(
        lines(&file),
        [
            "0/quick a,1,plain",
            "0/set 5,x",
            "0/zset m=0.5,n=3",
            "0/hash f=v",
            "0/expiring a=1,b=2@1800000000000,c=3@1800000000001",
            "0/expiring, old a=1,b=2@1800000000000,c=3@1800000000001",
            "0/counted a=1,b=2@1800000000000,c=3@1800000000004",
            "0/counted, old a=1,b=2@1800000000000",
        ]
    );
}

#[test]
fn what_surrounds_keys() {
    let file = bytes()
        .raw(&[opcode::AUX])
        .strings(&["redis-ver", "8.2.3"])
        .raw(&[opcode::FUNCTION2])
        .string("#!lua name=x")
        .raw(&[opcode::SELECTDB, 3, opcode::RESIZEDB])
        .length(u64::MAX)
        .length(0)
        .raw(&[opcode::SLOT_INFO, 1, 2, 3])
        .raw(&[opcode::EXPIRETIME_MS])
        .raw(&(NOW_MS + 1).to_le_bytes())
        .raw(&[opcode::IDLE, 9])
        .key(value_type::STRING, "later")
        .string("v")
        .raw(&[opcode::EXPIRETIME_MS])
        .raw(&(NOW_MS - 1).to_le_bytes())
        .key(value_type::STRING, "gone")
        .string("v")
        .raw(&[opcode::EXPIRETIME])
        .raw(&2_000_000_000i32.to_le_bytes())
        .raw(&[opcode::FREQ, 255])
        .key(value_type::STRING, "in seconds")
        .string("v")
        .raw(&[opcode::EXPIRETIME_MS])
        .raw(&(-1i64).to_le_bytes())
        .key(value_type::STRING, "never")
        .string("v")
        .key(value_type::SET, "empty")
        .length(0)
        .file(12);
    assert_eq!(
        lines(&file),
        [
            "redis-ver is 8.2.3",
            "function #!lua name=x",
            "3/later v expires 1700000000001 KeyUsage { idle_s: Some(9), frequency: None }",
            "3/in seconds v expires 2000000000000 KeyUsage { idle_s: None, frequency: Some(255) }",
            "3/never v",
        ]
    );
    let summary = load_with(&file, options()).1.expect("it is whole");
    assert_eq!((summary.keys_loaded, summary.keys_expired, summary.keys_empty), (3, 1, 1));
    let kept = LoadOptions { skip_expired: false, ..options() };
    assert_eq!(load_with(&file, kept).1.map(|summary| summary.keys_loaded), Ok(4));
}

/// A payload of Redis 8.10 whose checksum was not computed.
fn payload(value: Bytes) -> Vec<u8> {
    [&value.0[..], &16_u16.to_le_bytes(), &[0; 8]].concat()
}

#[test]
fn streams_of_later_versions() {
    let id = |ms: u64| [ms.to_be_bytes(), [0; 8]].concat();
    let stream = |form: u8| {
        let numbers = bytes().length(0).length(0).length(7).length(0);
        let numbers = numbers.length(0).length(0).length(7).length(0).length(2);
        let group = numbers.length(1).string("group").length(7).length(0).length(2);
        let is_last = form == value_type::STREAM_LISTPACKS_5;
        let group = group.length(if is_last { 2 } else { 1 });
        let group = group.raw(&id(3)).raw(&500_u64.to_le_bytes()).length(4);
        let group = if is_last { group.raw(&id(7)).raw(&[0; 8]).length(9) } else { group };
        let consumer = group.length(1).string("consumer").raw(&[1, 0, 0, 0, 0, 0, 0, 0]);
        let consumer = consumer.raw(&[2, 0, 0, 0, 0, 0, 0, 0]).length(1).raw(&id(3));
        let consumer = if is_last { consumer.length(1).raw(&id(7)) } else { consumer };
        let producers = consumer.length(100).length(50).length(2);
        let producers = producers.string("a").length(1).string("x").length(7).length(0);
        producers.string("b").length(0).length(5).length(6)
    };
    for (form, expected) in [
        (value_type::STREAM_LISTPACKS_4, vec![("consumer", 3, 500, 4)]),
        (value_type::STREAM_LISTPACKS_5, vec![("consumer", 3, 500, 4), ("", 7, 0, 9)]),
    ] {
        let body = stream(form).0;
        let file = bytes().key(form, "s").raw(&body).key(value_type::STRING, "a").string("v").file(14);
        assert_eq!(lines(&file), ["0/s 0 entries", "0/a v"]);
        let whole = payload(bytes().raw(&[form]).raw(&body));
        let Ok(Value::Stream(stream)) = restore_value(&whole, &options()) else { panic!("it is whole") };
        let producers = stream.producers().expect("there was one");
        let limits = ProducerLimits { duration_s: 100, names_max: 50 };
        assert_eq!((producers.limits(), producers.added, producers.duplicates), (limits, 5, 6));
        let names = producers.iter().map(|one| (one.name(), one.sent().map(|sent| sent.id.ms).collect()));
        assert_eq!(names.collect::<Vec<(&[u8], Vec<u64>)>>(), [(&b"a"[..], vec![7])]);
        let mut written = Vec::new();
        let mut encoder = Encoder::new(WriteOptions::default(), None);
        encoder.typed_value(ValueRef::Stream(&stream), &mut written);
        assert_eq!(written[0], form);
        let again = restore_value(&payload(Bytes(written.clone())), &options());
        let Ok(Value::Stream(again)) = again else { panic!("it is whole") };
        let mut written_again = Vec::new();
        encoder.typed_value(ValueRef::Stream(&again), &mut written_again);
        assert_eq!(written_again, written);
        let mut found = Vec::new();
        for (_, group) in stream.groups() {
            for (id, pending) in group.pending().iter() {
                let name = group.consumer(pending.consumer).map_or(&b""[..], |consumer| consumer.name());
                found.push((text(name), id.ms, pending.last_delivery_ms(), pending.delivery_count));
            }
        }
        let expected: Vec<_> =
            expected.into_iter().map(|(name, ms, time, count)| (name.to_owned(), ms, time, count)).collect();
        assert_eq!(found, expected);
        for end in 1..whole.len() - 10 {
            let cut = payload(bytes().raw(&whole[..end]));
            assert!(restore_value(&cut, &options()).is_err(), "cut at {end}");
        }
    }
}

#[test]
fn entries_that_were_given_back_are_pending() {
    let id = [[0, 0, 0, 0, 0, 0, 0, 3], [0; 8]].concat();
    let stream = |pending: u64, consumers: &[&str], given_back: u64| {
        let numbers = [0, 0, 7, 0, 0, 0, 7, 0, 2, 1].into_iter().fold(bytes(), Bytes::length);
        let group = numbers.string("group").length(7).length(0).length(2).length(pending);
        let pending = |bytes: Bytes, _| bytes.raw(&id).raw(&[0; 8]).length(1);
        let group = (0..u64::from(group.0[group.0.len() - 1])).fold(group, pending);
        let consumer = |bytes: Bytes, name: &&str| bytes.string(name).raw(&[0; 16]).length(0);
        let group = consumers.iter().fold(group.length(consumers.len() as u64), consumer);
        let group = (0..given_back).fold(group.length(given_back), |bytes, _| bytes.raw(&id));
        let producers = [1, 1, 0, 0, 0].into_iter().fold(group, Bytes::length);
        bytes().key(value_type::STREAM_LISTPACKS_5, "s").raw(&producers.0).file(14)
    };
    assert_eq!(lines(&stream(1, &["a", "given-back"], 1)), ["0/s 0 entries"]);
    let other = "stream group has an entry without a consumer that is not pending";
    assert_eq!(reason(&stream(0, &[], 1)), other);
    assert_eq!(reason(&stream(1, &["a"], 0)), "stream group has a pending entry without a consumer");
    assert_eq!(reason(&stream(1, &[], 2)), other);
}

#[test]
fn hashes_whose_fields_are_apart() {
    let template = bytes().raw(&[opcode::HASH_TEMPLATE]).length(7).length(2).strings(&["a", "name"]);
    let other = bytes().raw(&[opcode::HASH_TEMPLATE]).length(0).length(1).strings(&["x"]);
    let packed = listpack_of(&["7", "1", "me"]);
    let file = bytes()
        .raw(&[opcode::AUX])
        .strings(&["redis-ver", "8.10.1"])
        .raw(&template.0)
        .raw(&other.0)
        .raw(&[opcode::SELECTDB, 0])
        .key(value_type::HASH_TMPL_LP_REF, "packed")
        .string(&packed)
        .raw(&[opcode::SELECTDB, 1])
        .key(value_type::HASH_TMPL_ARRAY_REF, "counted")
        .length(7)
        .strings(&["2", "you"])
        .key(value_type::HASH_TMPL_ARRAY_REF, "one")
        .length(0)
        .string("y");
    let found = lines(&file.clone().file(16));
    assert_eq!(found[1..], ["0/packed a=1,name=me", "1/counted a=2,name=you", "1/one x=y"]);
    // Long files are cut into parts.
    let mut long = file;
    for number in 0..2000 {
        let key = format!("key:{number}");
        long = long.key(value_type::HASH_TMPL_ARRAY_REF, &key).length(7).strings(&["1", "2"]);
    }
    assert_eq!(lines(&long.clone().file(16)).len(), 2004);
    let refused = |bytes: Bytes| reason(&bytes.file(16));
    let unknown = "hash's number of fields is unknown, or names none";
    let reference = |name: &str| bytes().key(value_type::HASH_TMPL_ARRAY_REF, name);
    assert_eq!(refused(template.clone().raw(&reference("k").length(8).string("v").0)), unknown);
    assert_eq!(refused(reference("k").length(7).string("v")), unknown);
    let key = || template.clone().key(value_type::HASH_TMPL_LP_REF, "k");
    for elements in [&["7", "1"][..], &["7", "1", "2", "3"], &["7"]] {
        assert_eq!(refused(key().string(listpack_of(elements))), "hash has other values than fields");
    }
    for elements in [&["8", "1", "2"][..], &["x", "1", "2"], &["-1", "1", "2"], &[]] {
        assert_eq!(refused(key().string(listpack_of(elements))), unknown);
    }
    let twice = template.clone().raw(&template.0);
    assert_eq!(refused(twice), "two lists of the fields of hashes have one number");
    // Payloads have their fields with them.
    let restored = |value: Bytes| restore_value(&payload(value), &options()).map(|value| describe(&value));
    let fields = listpack_of(&["a", "12"]);
    let own = |form| bytes().raw(&[form, 0]).string(&fields);
    let in_array = |form| bytes().raw(&[form, 1]).length(2).strings(&["a", "12"]);
    let expected = Ok("12=me,a=1".to_owned());
    assert_eq!(restored(own(value_type::HASH_TMPL_LP).string(&packed)), expected);
    assert_eq!(restored(in_array(value_type::HASH_TMPL_LP).string(&packed)), expected);
    assert_eq!(restored(in_array(value_type::HASH_TMPL_ARRAY).strings(&["1", "me"])), expected);
    assert_eq!(restored(own(value_type::HASH_TMPL_ARRAY).strings(&["1", "me"])), expected);
    let is_bad = |value: Bytes| assert_eq!(restored(value), Err(RestoreError::BadFormat));
    is_bad(bytes().raw(&[value_type::HASH_TMPL_LP_REF]).string(&packed));
    is_bad(bytes().raw(&[value_type::HASH_TMPL_ARRAY_REF]).length(7).strings(&["1", "me"]));
    is_bad(bytes().raw(&[value_type::HASH_TMPL_ARRAY, 1]).length(0).strings(&["1", "me"]));
    is_bad(bytes().raw(&[value_type::HASH_TMPL_ARRAY, 2]).length(1).strings(&["1", "me"]));
    is_bad(bytes().raw(&[value_type::HASH_TMPL_ARRAY, 1]).length(2).strings(&["a", "a", "1", "me"]));
}

#[test]
fn fields_of_hashes_stand_anywhere_before_them_and_do_not_grow() {
    let template = bytes().raw(&[opcode::HASH_TEMPLATE]).length(7).length(2).strings(&["a", "name"]);
    let packed = listpack_of(&["7", "1", "me"]);
    let late = bytes().raw(&[opcode::SELECTDB, 0]).key(value_type::STRING, "s").string("v").raw(&template.0);
    let late = late.key(value_type::HASH_TMPL_LP_REF, "k").string(&packed);
    let own = bytes().raw(&[opcode::SELECTDB, 0]).key(value_type::HASH_TMPL_ARRAY, "own");
    let own = own.raw(&[0]).string(listpack_of(&["a", "12"])).strings(&["1", "me"]);
    for (file, expected) in [(late, &["0/s v", "0/k a=1,name=me"][..]), (own, &["0/own 12=me,a=1"])] {
        assert_eq!(lines(&file.file(16)), expected);
    }
    // A short file takes no room for long fields without end.
    let long = bytes().raw(&[opcode::HASH_TEMPLATE]).length(1).length(1).string("x".repeat(1 << 20));
    let file = (0..256).fold(long, |file, number| {
        file.key(value_type::HASH_TMPL_ARRAY_REF, &number.to_string()).length(1).string("v")
    });
    assert_eq!(lines(&file.clone().file(16)).len(), 256);
    let short = bytes().raw(&[opcode::HASH_TEMPLATE]).length(1).length(1);
    let short = short.compressed("x".repeat(1 << 20).as_bytes());
    let file = (0..256).fold(short, |file, number| {
        file.key(value_type::HASH_TMPL_ARRAY_REF, &number.to_string()).length(1).string("v")
    });
    assert!(reason(&file.file(16)).contains("far more room than the file"));
}

#[test]
fn checksums_and_versions() {
    let good = bytes().key(value_type::STRING, "a").string("v").file(12);
    let body = &good[..good.len() - 8];
    let state = |file: &[u8], options| load_with(file, options).1.map(|summary| summary.checksum);
    assert_eq!(state(&good, options()), Ok(ChecksumState::Verified));
    assert_eq!(state(&[body, &[0; 8]].concat(), options()), Ok(ChecksumState::NotComputed));
    assert!(state(&[body, &[1; 8]].concat(), options()).is_err());
    let ignoring = LoadOptions { verify_checksum: false, ..options() };
    assert_eq!(state(&[body, &[1; 8]].concat(), ignoring), Ok(ChecksumState::Ignored));
    assert_eq!(state(&bytes().file(4), options()), Ok(ChecksumState::Absent));
    assert_eq!(state(&bytes().file(16), options()), Ok(ChecksumState::Verified));
    assert_eq!(reason(&bytes().file(17)), "can't handle RDB format version 0017");
    assert_eq!(reason(&bytes().file(0)), "can't handle RDB format version 0000");
    assert_eq!(reason(b"REDIS0080"), "can't handle RDB format version 0080");
    assert_eq!(reason(b"VALKEY012"), "can't handle RDB format version 012 of Valkey");
    assert_eq!(reason(b"VALKEY081"), "can't handle RDB format version 081 of Valkey");
    assert_eq!(reason(b"VALKEYX80"), "wrong signature: not an RDB file");
    let followed = [&good[..], b"*1"].concat();
    let mut loader = Loader::new(&followed[..], None, options());
    let summary = loader.load(&mut Told { database_count: 1, ..Told::default() }).expect("it is whole");
    assert_eq!(summary.bytes, good.len() as u64);
    assert_eq!(loader.into_rest().0, b"*1");
}

#[test]
fn what_is_refused_and_why() {
    let key = |form| bytes().key(form, "k");
    let module = (0..9).fold(0u64, |sum, index| (sum << 6) | (26 + index)) << 10 | 1;
    let cases = [
        (key(value_type::SET).length(2).strings(&["a", "a"]), "set has a member twice"),
        (key(value_type::SET_LISTPACK).string(listpack_of(&["a", "a"])), "set has a member twice"),
        (key(value_type::HASH).length(2).strings(&["a", "1", "a", "2"]), "hash has a field twice"),
        (key(value_type::HASH_LISTPACK).string(listpack_of(&["a"])), "packed elements do not come in pairs"),
        (
            key(value_type::HASH_ZIPMAP).string(b"\x00"),
            "zipmap has a broken pair (at byte 1 of the packed value)",
        ),
        (
            key(value_type::ZSET_LISTPACK).string(listpack_of(&["a", "1", "a", "2"])),
            "sorted set has a member twice",
        ),
        (
            key(value_type::ZSET_LISTPACK).string(listpack_of(&["a", "x"])),
            "sorted set has a score that is no number",
        ),
        (key(value_type::ZSET).length(1).string("a").raw(&[253]), "sorted set has a score that is no number"),
        (key(value_type::ZSET).length(1).string("a").raw(b"\x01x"), "score is no number"),
        (key(value_type::LIST_QUICKLIST_2).length(1).length(3), "list has a node of an unknown kind 3"),
        (
            key(value_type::HASH_METADATA)
                .raw(&(-9i64).to_le_bytes())
                .length(1)
                .length(2)
                .strings(&["a", "1"]),
            "hash has a field with an impossible expiry",
        ),
        (
            key(value_type::HASH_METADATA_PRE_GA).length(1).length(u64::MAX).strings(&["a", "1"]),
            "hash has a field with an impossible expiry",
        ),
        (
            key(value_type::HASH_LISTPACK_EX_PRE_GA).string(listpack_of(&["a", "1", "x"])),
            "hash has a field with an impossible expiry",
        ),
        (
            key(value_type::HASH_LISTPACK_EX_PRE_GA).string(listpack_of(&["a", "1", "0", "b", "2", "5"])),
            "hash has its fields out of the order of their expiries",
        ),
        (
            key(value_type::MODULE_2).length(module),
            "the key \"k\" of database 0 is of a module type that is not there: 'abcdefghi'",
        ),
        (key(value_type::MODULE_PRE_GA).length(module), "pre-release module format not supported"),
        (
            bytes().raw(&[opcode::MODULE_AUX]).length(module).length(2).length(1),
            "the file has data of a module that is not there: 'abcdefghi'",
        ),
        (bytes().raw(&[opcode::FUNCTION_PRE_GA]), "pre-release function format not supported"),
        (bytes().raw(&[opcode::FUNCTION2]).string("bad"), "the library does not compile"),
        (bytes().raw(&[opcode::SELECTDB, 16]), "too many databases"),
        (key(33), "unknown RDB encoding type 33"),
        (bytes().raw(&[opcode::AUX, 0xc7]), "unknown string encoding 7"),
        (bytes().raw(&[opcode::RESIZEDB, 0xc0]), "encoded string where a length should be"),
    ];
    for (bytes, expected) in cases {
        assert_eq!(reason(&bytes.file(12)), expected);
    }
}

#[test]
fn modules_are_stepped_over_when_asked_for() {
    let module = (0..9).fold(0u64, |sum, index| (sum << 6) | (26 + index)) << 10 | 1;
    let value = bytes()
        .length(2)
        .length(7)
        .length(5)
        .string("s")
        .length(4)
        .raw(&[0; 8])
        .length(3)
        .raw(&[0; 4])
        .length(0);
    let file = bytes()
        .raw(&[opcode::MODULE_AUX])
        .length(module)
        .length(2)
        .length(1)
        .raw(&value.0)
        .key(value_type::MODULE_2, "m")
        .length(module)
        .raw(&value.0)
        .key(value_type::STRING, "s")
        .string("v")
        .file(12);
    let (told, outcome) = load_with(&file, LoadOptions { skip_modules: true, ..options() });
    let counts =
        |summary: LoadSummary| (summary.keys_loaded, summary.keys_of_modules, summary.aux_of_modules);
    assert_eq!(outcome.map(counts), Ok((1, 1, 1)));
    assert_eq!(told.lines, ["data of abcdefghi", "0/m is of type abcdefghi", "0/s v"]);
    assert_eq!(told.kinds, [Kind::String]);
}

#[test]
fn a_key_twice_is_refused_or_replaced() {
    let file = bytes().key(0, "a").string("1").key(0, "a").string("2").file(12);
    let keyspace = mantissa_store::Keyspace::new(1, 2);
    for (replace, locked) in [(false, true), (true, true), (true, false)] {
        let set = if locked { keyspace.all_shards() } else { mantissa_store::ShardSet::EMPTY };
        let mut shards = keyspace.lock(set);
        let mut target = KeyspaceTarget::new(&mut shards, &|_| 0, replace);
        let outcome = Loader::new(&file[..], None, options()).load(&mut target);
        let expected = LoadError { offset: 14, reason: "duplicated key 'a' in database 0".to_owned() };
        assert_eq!(outcome.map(|summary| summary.keys_loaded), if replace { Ok(2) } else { Err(expected) });
        drop(shards);
        let hash = keyspace.hash(b"a");
        let locked = keyspace.lock(keyspace.all_shards());
        let shard = locked.shard(keyspace.shard_of(hash)).expect("all are locked");
        let entry = shard.databases[0].get(hash, b"a").expect("it was loaded");
        let expected = if replace { 2 } else { 1 };
        assert_eq!(entry.as_string().and_then(StringRef::integer), Some(expected));
    }
}

#[test]
fn progress_is_reported() {
    let long = "x".repeat(1 << 20);
    let mut body = bytes();
    for index in 0..8 {
        body = body.key(0, &index.to_string()).string(&long);
    }
    let file = body.file(12);
    let mut reports = Vec::new();
    let mut loader = Loader::new(&file[..], Some(file.len() as u64), options());
    loader.on_progress(|offset| reports.push(offset));
    loader.load(&mut Told { database_count: 1, ..Told::default() }).expect("it is whole");
    drop(loader);
    assert!(reports.len() >= 3 && reports.is_sorted(), "{reports:?}");
}

/// A file of many keys of all types, some of them longer than what threads are given at a time.
fn large_file(target: Target) -> Vec<u8> {
    let limits = mantissa_store::EncodingLimits::default();
    let mut writer = Writer::new(Vec::new(), WriteOptions { target, ..WriteOptions::default() }, None);
    writer.begin(&FileFacts::default()).expect("memory does not fail");
    for database in 0..3 {
        writer.database(database, 110, 28).expect("memory does not fail");
        for number in 0..110_usize {
            let length = if number % 100 == 7 { 30_000 } else { number % 50 };
            let texts: Vec<_> = (0..1 + length / 10).map(|at| format!("{at}-{number}")).collect();
            let value = match number % 5 {
                0 => Value::String("v".repeat(length).into_bytes()),
                1 => {
                    let mut set = mantissa_store::Set::new();
                    texts.iter().for_each(|text| _ = set.add(text.as_bytes(), &limits));
                    Value::Set(set)
                }
                2 => {
                    let mut set = mantissa_store::SortedSet::new();
                    texts.iter().for_each(|text| _ = set.insert(text.as_bytes(), 1.5, &limits));
                    Value::SortedSet(set)
                }
                3 => {
                    let mut list = mantissa_store::List::new();
                    texts.iter().for_each(|text| list.push_back(text.as_bytes(), &limits));
                    Value::List(list)
                }
                _ => {
                    let mut hash = Hash::new();
                    texts.iter().for_each(|text| _ = hash.set(text.as_bytes(), b"value", &limits));
                    if number % 10 == 9 {
                        hash.set_expiry(texts[0].as_bytes(), Some(NOW_MS * 2));
                    }
                    Value::Hash(hash)
                }
            };
            let expiry = (number % 4 == 0).then_some(NOW_MS * 2);
            let entry = mantissa_store::Entry::new(format!("key{number}").as_bytes(), value, expiry, 0);
            writer.entry(&entry).expect("memory does not fail");
        }
    }
    writer.finish().expect("memory does not fail").0
}

#[test]
fn threads_load_the_same_and_find_the_same_damage() {
    let file = large_file(Target::File);
    let (told, outcome) = load_with(&file, options());
    assert_eq!((told.lines.len(), outcome.map(|summary| summary.keys_loaded)), (330 + 5, Ok(330)));
    for step in 0..12 {
        let mut damaged = file.clone();
        let at = (step + 1) * 77_919 % file.len();
        if step % 3 == 0 {
            damaged.truncate(at);
        } else {
            damaged[at] ^= 1 << (step % 8);
        }
        assert!(load_with(&damaged, options()).1.is_err(), "step {step}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_stream_is_refused_as_by_one_thread(
        is_valkey in any::<bool>(),
        damages in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in proptest::option::of(any::<prop::sample::Index>()),
        verify_checksum in any::<bool>(),
        behind in 0..20_usize,
    ) {
        static FILES: LazyLock<[Vec<u8>; 2]> =
            LazyLock::new(|| [large_file(Target::Replica), large_file(Target::Valkey)]);
        let mut file = FILES[usize::from(is_valkey)].clone();
        let length = file.len();
        damages.iter().for_each(|(at, value)| file[at.index(length)] ^= value);
        file.truncate(cut.map_or(length, |cut| cut.index(length)));
        file.resize(file.len() + behind, b'+');
        check_stream(&file, LoadOptions { verify_checksum, ..options() });
    }
}

#[test]
fn a_stream_may_fail_and_may_not_be_wanted_any_more() {
    /// Fails at its end.
    struct Failing<'a>(&'a [u8]);

    impl Read for Failing<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            match self.0.read(buffer) {
                Ok(0) if !buffer.is_empty() => Err(std::io::Error::other("it is not wanted")),
                outcome => outcome,
            }
        }
    }

    let file = large_file(Target::Replica);
    for length in [0, 8, 9, 100, 20_000, file.len() / 2, file.len() - 9, file.len() - 1] {
        let mut told = Told { database_count: 16, ..Told::default() };
        let expected = Loader::new(Failing(&file[..length]), None, options()).load(&mut told);
        let expected = expected.expect_err("it is not whole");
        assert_eq!(expected.reason, "read failed: it is not wanted");
        assert_eq!(stream_with_threads(&mut Failing(&file[..length]), options()), Err(expected));
    }
}

#[test]
fn a_database_that_is_not_there_is_refused_by_all_threads() {
    let filler = |body: Bytes| (0..200).fold(body, |body, at| body.key(0, &format!("k{at}")).string([7; 40]));
    let file = filler(filler(bytes()).raw(&[opcode::SELECTDB, 20])).file(12);
    for _ in 0..20 {
        assert_eq!(reason(&file), "too many databases");
    }
    let lying = bytes().raw(&[opcode::RESIZEDB]).length(u64::MAX).length(u64::MAX);
    assert_eq!(lines(&filler(lying).file(12)).len(), 200);
}
