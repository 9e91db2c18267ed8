//! Values of every type are written alike, whether as they are or given up on the way.

use super::{Codec, LAST_FORM, Outcome, byte_of_form, form_of, kind_of, read_value, skip_value};
use crate::digest::digest_value;
use crate::format::{Dialect, value_type};
use crate::load::{LoadOptions, LoadTarget, LoadedValue, Loader, Record};
use crate::source::Source;
use crate::storage::{MemoryStorage, Storage};
use crate::tier::{RecordEncoder, TierFile};
use crate::write::{Encoder, Target, WriteOptions, Writer};
use mantissa_store::snapshot::Image;
use mantissa_store::stream::{Group, Stream, StreamId};
use mantissa_store::{EncodingLimits, Entry, Hash, Kind, Text, Value, ValueType, with_kind, with_value_mut};
use std::path::Path;

/// Values for tests that run over all types.
pub trait Sample: Codec {
    /// One with the elements `element 0` and so on.
    fn with_elements(count: usize) -> Self;

    /// Makes another of it.
    fn disturb(&mut self);
}

/// The text of an element.
pub fn element(number: usize) -> Vec<u8> {
    format!("element {number}").into_bytes()
}

fn value(kind: Kind, count: usize) -> Value {
    with_kind!(kind, string: unreachable!(), Type => Type::with_elements(count).into_value())
}

/// Values of all types, and one with more than elements.
fn values(count: usize) -> impl Iterator<Item = Value> {
    let mut with_expiry = Hash::with_elements(count);
    for number in (0..count).step_by(3) {
        with_expiry.set_expiry(&element(number), Some((1 << 40) + number as i64));
    }
    let kinds = Kind::ALL.into_iter().filter(|kind| *kind != Kind::String);
    kinds.map(move |kind| value(kind, count)).chain([with_expiry.into_value()])
}

#[test]
fn a_long_string_is_encoded_in_pieces() {
    let noise = |at: usize| {
        let mixed = (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9).to_le_bytes()[7]
    };
    let texts: [Vec<u8>; 4] = [
        (0..3_000_000).map(|at| (at / 77) as u8).collect(),
        (0..3_000_000).map(noise).collect(),
        (0..3_000_000).map(|at| if at < 1_000_000 { noise(at) } else { b'x' }).collect(),
        (0..300_000).map(|at| if at < 260_000 { b'x' } else { noise(at) }).collect(),
    ];
    for compress in [true, false] {
        let options = WriteOptions { compress, ..WriteOptions::default() };
        let mut encoder = Encoder::new(options, None);
        for (number, bytes) in texts.iter().enumerate() {
            let text = Text::from(bytes.clone()).share();
            let (key, expiry) = (Box::from(*b"key"), Some(1 << 50));
            for image in [Image::Text { key, expiry, clock: 0, text }, image_on_disk(bytes, expiry)] {
                let (mut file, mut out, mut longest) = (b"REDIS0012".to_vec(), Vec::new(), 0);
                encoder.image(image, &mut out, &mut |bytes| {
                    longest = longest.max(bytes.len());
                    file.append(bytes);
                    true
                });
                file.append(&mut out);
                file.extend_from_slice(&[0xff; 1]);
                file.extend_from_slice(&[0; 8]);
                let is_shorter = file.len() < bytes.len() / 2;
                assert_eq!(is_shorter, compress && number != 1, "text {number} takes {}", file.len());
                assert!(longest < 600_000, "{longest} bytes at a time");
                let mut found = Found::default();
                let loaded = Loader::new(&file[..], None, LoadOptions::default()).load(&mut found);
                assert!(loaded.is_ok_and(|summary| summary.keys_loaded == 1));
                assert!(found.0 == *bytes, "text {number}, compressed: {compress}");
            }
        }
    }
}

/// An image of a string that is on disk.
fn image_on_disk(text: &[u8], expiry: Option<i64>) -> Image {
    let scratch = MemoryStorage::new().create_scratch(Path::new("/")).expect("a file");
    let mut entry = Entry::new(b"key", Value::String(text.to_vec()), expiry, 0);
    let appended = TierFile::new(scratch, 1 << 30).append(&mut RecordEncoder::default(), &entry);
    entry.cool(appended.expect("there is room"));
    Image::Entry(entry.image())
}

/// Keeps the string that is loaded.
#[derive(Default)]
struct Found(Vec<u8>);

impl LoadTarget for Found {
    fn select(&mut self, _database: usize) -> Result<(), String> {
        Ok(())
    }

    fn insert(&mut self, record: Record<'_>) -> Result<(), String> {
        assert_eq!((record.key, record.expiry), (&b"key"[..], Some(1 << 50)));
        if let LoadedValue::Text(text) = record.value {
            self.0 = text.to_vec();
        }
        Ok(())
    }

    fn function(&mut self, _source: &[u8]) -> Result<(), String> {
        Ok(())
    }
}

#[test]
fn an_image_is_encoded_as_its_entry_was_and_leaves_it_alone() {
    let mut encoder = Encoder::new(WriteOptions::default(), None);
    for count in [1, 100, 20_000] {
        for value in values(count) {
            let kind = value.kind();
            let mut entry = Entry::new(b"key", value, Some(77), 0);
            let mut expected = Vec::new();
            encoder.entry(&entry, &mut expected);
            let image = entry.duplicate(b"key", Some(77));
            let changed = entry.collection_mut().expect("no string");
            with_value_mut!(changed, value => Sample::disturb(value));
            let mut changed = Vec::new();
            encoder.entry(&entry, &mut changed);
            let (mut chunks, mut out) = (Vec::new(), Vec::new());
            encoder.image(Image::Entry(image), &mut out, &mut |bytes| {
                chunks.append(bytes);
                true
            });
            chunks.append(&mut out);
            assert!(chunks == expected, "{kind:?} of {count}");
            let mut again = Vec::new();
            encoder.entry(&entry, &mut again);
            assert!(again == changed && again != expected, "{kind:?} of {count}");
        }
    }
}

#[test]
fn what_is_written_is_skipped_whole_and_reads_back() {
    for count in [1, 100, 20_000] {
        for value in values(count) {
            let kind = value.kind();
            let entry = Entry::new(b"key", value, None, 0);
            let number = form_of(entry.value(), Target::File).expect("files have them all");
            let form = byte_of_form(number);
            let mut written = Vec::new();
            Encoder::new(WriteOptions::default(), None).value(
                number,
                entry.value(),
                &mut written,
                &mut |_| true,
            );
            let length = written.len() as u64;
            let mut source = Source::from_bytes([&written[..], b"more"].concat());
            assert!(skip_value(&mut source, form).is_ok() && source.offset() == length, "{kind:?}");
            let mut source = Source::from_bytes(written);
            let read = read_value(&mut source, form, &EncodingLimits::default());
            let Ok(Outcome::Value(read)) = read else { panic!("{kind:?} of {count}") };
            assert_eq!((read.kind(), source.offset()), (kind, length));
            let read = Entry::new(b"key", read, None, 0);
            assert_eq!(digest_value(&read), digest_value(&entry), "{kind:?} of {count}");
            assert_eq!(form_of(read.value(), Target::File), Some(number));
            assert_eq!(read.encoding(), entry.encoding());
        }
    }
}

#[test]
fn what_is_written_for_valkey_reads_back() {
    for count in [1, 100, 20_000] {
        let mut hash = Hash::with_elements(count);
        hash.set_expiry(&element(0), Some(1 << 40));
        let entry = Entry::new(b"key", hash.into_value(), None, 0);
        let number = form_of(entry.value(), Target::Valkey).expect("it has a form");
        assert_eq!(number, value_type::VALKEY_HASH_2);
        let mut written = Vec::new();
        Encoder::new(WriteOptions::default(), None).value(number, entry.value(), &mut written, &mut |_| true);
        let (length, form) = (written.len() as u64, Dialect::Valkey.form(number));
        let mut source = Source::from_bytes(written.clone());
        assert!(skip_value(&mut source, form).is_ok() && source.offset() == length, "{count}");
        let read = read_value(&mut Source::from_bytes(written), form, &EncodingLimits::default());
        let Ok(Outcome::Value(read)) = read else { panic!("{count}") };
        assert_eq!(digest_value(&Entry::new(b"key", read, None, 0)), digest_value(&entry), "{count}");
    }
    for number in [value_type::VALKEY_HASH, value_type::UNKNOWN] {
        assert_eq!(kind_of(Dialect::Redis.form(number)), None);
        assert_eq!(kind_of(Dialect::Valkey.form(number)), None);
    }
}

#[test]
fn forms_belong_to_types() {
    assert_eq!(kind_of(value_type::STRING), Some(Kind::String));
    assert_eq!(kind_of(value_type::HASH_LISTPACK_EX), Some(Kind::Hash));
    assert_eq!((kind_of(value_type::MODULE_2), kind_of(8), kind_of(255)), (None, None, None));
    assert_eq!((kind_of(value_type::ARRAY), LAST_FORM), (Some(Kind::Array), value_type::HASH_TMPL_ARRAY_REF));
}

/// The form in which a value is written for a target.
fn form(value: Value, target: Target) -> Option<u8> {
    form_of(Entry::new(b"key", value, None, 0).value(), target)
}

#[test]
fn replicas_get_the_lowest_forms() {
    let forms = |target| {
        let values =
            [value(Kind::List, 5), value(Kind::Set, 5), value(Kind::SortedSet, 5), value(Kind::Hash, 5)];
        values.map(|value| form(value, target))
    };
    assert_eq!(forms(Target::File), [18, 20, 17, 16].map(Some));
    for target in [Target::Replica, Target::Valkey, Target::ValkeyBefore9] {
        assert_eq!(forms(target), [18, 2, 17, 16].map(Some));
    }
    let hash = |count, has_expiry: bool| {
        let mut hash = Hash::with_elements(count);
        hash.set_expiry(&element(1), Some(1 << 40));
        if !has_expiry {
            hash.set_expiry(&element(1), None);
        }
        hash.into_value()
    };
    let forms = |has_expiry, target| [5, 5000].map(|count| form(hash(count, has_expiry), target));
    assert_eq!(forms(false, Target::File), [25, 4].map(Some));
    assert_eq!(forms(true, Target::File), [25, 24].map(Some));
    assert_eq!(forms(false, Target::Replica), [16, 4].map(Some));
    assert_eq!(forms(true, Target::Replica), [25, 24].map(Some));
    assert_eq!(forms(true, Target::Valkey), [22, 22].map(Some));
    assert_eq!(forms(true, Target::ValkeyBefore9), [None, None]);

    let stream = |active_at_ms| {
        let mut stream = Stream::new();
        let mut group = Group::new(StreamId::MIN, None);
        group.add_consumer(b"consumer", 5, active_at_ms);
        stream.add_group(b"group", group);
        stream.into_value()
    };
    assert_eq!([5, 6, -1].map(|active| form(stream(active), Target::File)), [Some(21); 3]);
    let forms = [5, 6, -1].map(|active| form(stream(active), Target::Replica));
    assert_eq!(forms, [19, 21, 21].map(Some));
}

#[test]
fn what_a_replica_can_not_read_is_named() {
    let mut hash = Hash::with_elements(3);
    hash.set_expiry(&element(1), Some(1 << 40));
    let entry = Entry::new(b"a \n key", hash.into_value(), None, 0);
    let options = WriteOptions { target: Target::ValkeyBefore9, ..WriteOptions::default() };
    let mut writer = Writer::new(Vec::new(), options, None);
    assert!(writer.entry(&entry).is_ok());
    let error = writer.finish().map(drop).map_err(|error| error.to_string());
    let expected =
        "the key 'a \\n key' has fields with expiries, which Valkey before version 9 does not know";
    assert_eq!(error, Err(expected.to_owned()));
}

#[test]
fn replicas_are_told_apart_by_their_version() {
    let targets = ["", "8.1.0", "9.1.2", "10.0", "what"].map(Target::of_replica);
    let [none, old, new, newer, odd] = targets;
    assert_eq!((none, old, odd), (Target::Replica, Target::ValkeyBefore9, Target::Replica));
    assert_eq!((new, newer), (Target::Valkey, Target::Valkey));
}
