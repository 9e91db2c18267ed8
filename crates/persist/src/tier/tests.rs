//! Tests of values on disk, against what was put there.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use mantissa_store::{Hash, List, Set, SortedSet};

use super::*;
use crate::digest::digest_value;
use crate::storage::{MemoryStorage, Storage};

pub(super) fn file_in(storage: &MemoryStorage, segments: u64) -> Arc<TierFile> {
    let file = storage.create_scratch(Path::new("/")).expect("a file");
    TierFile::new(file, segments * SEGMENT_BYTES as u64)
}

/// Runs the writer while `work` runs.
fn with_writer<R>(file: &TierFile, work: impl FnOnce() -> R) -> R {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| file.write_until(|| is_over.load(Ordering::Relaxed), || (), |_| ()));
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        is_over.store(true, Ordering::Relaxed);
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn wait_until(what: impl Fn() -> bool) {
    for _ in 0..20_000 {
        if what() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("it does not come to that");
}

fn append(file: &TierFile, encoder: &mut RecordEncoder, entry: &Entry) -> Cold {
    loop {
        match file.append(encoder, entry) {
            Ok(cold) => return cold,
            Err(Refusal::Behind) => std::thread::yield_now(),
            Err(refusal) => panic!("{refusal:?}"),
        }
    }
}

fn text_entry(text: Vec<u8>) -> Entry {
    Entry::new(b"key", Value::String(text), None, 0)
}

fn text_of(cold: &Cold) -> Vec<u8> {
    match cold.read() {
        Ok(Value::String(text)) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn values_come_back_from_memory_and_from_the_file() {
    let file = file_in(&MemoryStorage::new(), 4);
    let mut encoder = RecordEncoder::default();
    let text = |number: usize| vec![b'a' + (number % 26) as u8; 1 + number * 7 % 5_000];
    let colds = with_writer(&file, || {
        let colds: Vec<Cold> =
            (0..3_000).map(|number| append(&file, &mut encoder, &text_entry(text(number)))).collect();
        for (number, cold) in colds.iter().enumerate() {
            assert_eq!(text_of(cold), text(number));
        }
        wait_until(|| file.figures().waiting_bytes < (CHUNK_BYTES * 2) as u64);
        colds
    });
    for (number, cold) in colds.iter().enumerate() {
        assert_eq!(text_of(cold), text(number));
        assert_eq!(text_of(&file.copy_record(cold).expect("a copy")), text(number));
    }
    assert_eq!(file.figures().read_errors, 0);
}

#[test]
fn collections_come_back_in_their_encodings() {
    let file = file_in(&MemoryStorage::new(), 4);
    let limits = EncodingLimits::default();
    let mut encoder = RecordEncoder::default();
    let (mut list, mut set, mut numbers) = (List::default(), Set::new(), Set::new());
    let (mut scored, mut hash) = (SortedSet::new(), Hash::new());
    for number in 0..20 {
        let member = format!("member:{number}");
        list.push_back(member.as_bytes(), &limits);
        set.add(member.as_bytes(), &limits);
        numbers.add(number.to_string().as_bytes(), &limits);
        scored.insert(member.as_bytes(), f64::from(number) / 3.0, &limits);
        hash.set(member.as_bytes(), b"a value", &limits);
    }
    let values = [
        Value::List(list),
        Value::Set(set),
        Value::Set(numbers),
        Value::SortedSet(scored),
        Value::Hash(hash),
    ];
    for value in values {
        let entry = Entry::new(b"key", value, None, 0);
        let cold = append(&file, &mut encoder, &entry);
        let back = Entry::new(b"key", cold.read().expect("it is there"), None, 0);
        assert_eq!(cold.place().encoding(), entry.encoding());
        assert_eq!(back.encoding(), entry.encoding());
        let payload = |entry: &Entry| crate::payload::dump_value(entry.value(), &WriteOptions::default());
        assert_eq!(payload(&back), payload(&entry));
    }
    let number = Entry::string(b"key", b"12", None, 0);
    assert_eq!(file.append(&mut encoder, &number).expect_err("a number"), Refusal::Unfit);
    let long = text_entry(vec![1; TEXT_BYTES_MAX + 1]);
    assert_eq!(file.append(&mut encoder, &long).expect_err("too long"), Refusal::Unfit);
}

/// Values that are in the form for large ones though few elements are left, or packed though they have many.
#[test]
fn collections_come_back_in_encodings_that_their_sizes_do_not_tell() {
    // A list of one element that may have no more is the one that comes back packed.
    const NONE: EncodingLimits = EncodingLimits { list_node_size: 2, ..ALWAYS_LARGE };
    let file = file_in(&MemoryStorage::new(), 4);
    let mut encoder = RecordEncoder::default();
    for (count, left) in [(3, 3), (3, 1), (700, 700), (700, 2)] {
        for limits in [&EncodingLimits::default(), &ALWAYS_PACKED, &NONE] {
            let (mut list, mut set, mut numbers) = (List::default(), Set::new(), Set::new());
            let (mut scored, mut hash) = (SortedSet::new(), Hash::new());
            let member = |number: usize| format!("{:->1$}", number, 1 + number % 300).into_bytes();
            for number in 0..count {
                list.push_back(&member(number), limits);
                set.add(&member(number), limits);
                numbers.add(number.to_string().as_bytes(), limits);
                scored.insert(&member(number), -(number as f64) / 3.0, limits);
                hash.set(&member(number), &member(number), limits);
            }
            list.remove(left, count);
            list.shrink(limits);
            for number in left..count {
                set.remove(&member(number));
                numbers.remove(number.to_string().as_bytes());
                scored.remove(&member(number));
                hash.remove(&member(number));
            }
            for value in [
                Value::List(list),
                Value::Set(set),
                Value::Set(numbers),
                Value::SortedSet(scored),
                Value::Hash(hash),
            ] {
                let entry = Entry::new(b"key", value, None, 0);
                let cold = append(&file, &mut encoder, &entry);
                let back = Entry::new(b"key", cold.read().expect("it is there"), None, 0);
                let case = format!("{:?} {} {count} {left} {limits:?}", entry.kind(), entry.encoding());
                assert_eq!(back.encoding(), entry.encoding(), "{case}");
                assert_eq!(back.value().element_count(), left as u64, "{case}");
                assert_eq!(digest_value(&back), digest_value(&entry), "{case}");
            }
        }
    }
}

#[test]
fn segments_are_used_again_and_nothing_else_comes_back() {
    let file = file_in(&MemoryStorage::new(), 3);
    let mut encoder = RecordEncoder::default();
    let mut kept: BTreeMap<usize, Cold> = BTreeMap::new();
    let text = |number: usize| format!("{number:0>40000}").into_bytes();
    with_writer(&file, || {
        // Four times what the file holds, of which a window of half a segment is named.
        for number in 0..4 * 3 * SEGMENT_BYTES / 40_000 {
            let entry = text_entry(text(number));
            let cold = loop {
                match file.append(&mut encoder, &entry) {
                    Ok(cold) => break cold,
                    Err(Refusal::Unfit) => panic!("it fits"),
                    Err(_) => std::thread::yield_now(),
                }
            };
            kept.insert(number, cold);
            if kept.len() > SEGMENT_BYTES / 2 / 40_000 {
                let (oldest, cold) = kept.pop_first().expect("there is one");
                if oldest % 17 == 0 {
                    assert_eq!(text_of(&cold), text(oldest));
                }
            }
        }
        for (number, cold) in &kept {
            assert_eq!(text_of(cold), text(*number));
        }
        assert!(file.figures().used_bytes <= 3 * SEGMENT_BYTES as u64);
        kept.clear();
        wait_until(|| file.figures().used_bytes <= SEGMENT_BYTES as u64);
    });
    assert_eq!((file.figures().values, file.figures().read_errors), (0, 0));
}

#[test]
fn a_full_file_refuses_and_a_failing_disk_loses_nothing() {
    let storage = MemoryStorage::new();
    let file = file_in(&storage, 2);
    let mut encoder = RecordEncoder::default();
    let entry = text_entry(vec![b'x'; 100_000]);
    let mut colds = Vec::new();
    with_writer(&file, || {
        storage.make_read_only(true);
        while file.figures().write_errors == 0 {
            colds.extend(file.append(&mut encoder, &entry));
        }
        assert_eq!(file.append(&mut encoder, &entry).expect_err("it fails"), Refusal::Full);
        assert!(colds.iter().all(|cold| text_of(cold).len() == 100_000));
        storage.make_read_only(false);
        wait_until(|| file.figures().waiting_bytes < (2 * CHUNK_BYTES) as u64);
        assert!(colds.iter().all(|cold| text_of(cold).len() == 100_000));
        let other = std::cell::RefCell::<RecordEncoder>::default();
        wait_until(|| file.append(&mut other.borrow_mut(), &entry).is_ok());
        let refusal = loop {
            match file.append(&mut encoder, &entry) {
                Ok(cold) => colds.push(cold),
                Err(Refusal::Behind) => std::thread::yield_now(),
                Err(refusal) => break refusal,
            }
        };
        assert_eq!(refusal, Refusal::Full);
        assert!(colds.len() >= 2 * SEGMENT_BYTES / 100_008 - 2);
    });
}

#[test]
fn a_disk_that_is_full_gets_back_what_is_free() {
    let storage = MemoryStorage::new();
    let file = file_in(&storage, 3);
    let mut encoder = RecordEncoder::default();
    let entry = text_entry(vec![b'x'; 100_000]);
    with_writer(&file, || {
        let mut colds = Vec::new();
        while file.figures().used_bytes <= SEGMENT_BYTES as u64 {
            colds.push(append(&file, &mut encoder, &entry));
        }
        storage.make_read_only(true);
        while file.figures().write_errors == 0 {
            colds.extend(file.append(&mut encoder, &entry));
        }
        let kept = colds.pop();
        drop(colds);
        // What fails to be written is ahead of what gives the first segment back.
        wait_until(|| file.figures().used_bytes <= SEGMENT_BYTES as u64);
        assert!(kept.as_ref().is_none_or(|cold| text_of(cold).len() == 100_000));
        storage.make_read_only(false);
        wait_until(|| file.append(&mut RecordEncoder::default(), &entry).is_ok());
        assert!(kept.is_none_or(|cold| text_of(&cold).len() == 100_000));
    });
}

#[test]
fn nobody_is_to_wait_for_a_disk_that_fails() {
    let storage = MemoryStorage::new();
    let file = file_in(&storage, 2);
    let mut encoder = RecordEncoder::default();
    let entry = text_entry(vec![b'x'; 100_000]);
    let mut colds = Vec::new();
    while let Ok(cold) = file.append(&mut encoder, &entry) {
        colds.push(cold);
    }
    assert!(file.is_behind());
    storage.make_read_only(true);
    with_writer(&file, || {
        wait_until(|| file.figures().write_errors > 0);
        assert!(!file.is_behind() && file.figures().waiting_bytes >= WAITING_BYTES_MAX as u64);
        storage.make_read_only(false);
        wait_until(|| file.append(&mut RecordEncoder::default(), &entry).is_ok());
    });
    assert!(colds.iter().all(|cold| text_of(cold).len() == 100_000));
}

/// A text of which no two blocks are equal.
fn long_text(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at ^ at >> 8 ^ at >> 16) as u8).collect()
}

/// These bytes of the text in a record, read with as few blocks as have them.
fn part_of(cold: &Cold, range: Range<usize>) -> Vec<u8> {
    let blocks = cold.place().blocks_of(range.clone()).expect("it is a part");
    let start = blocks.start;
    let bytes = cold.segment().file().read_part(cold.segment().number(), cold.place(), blocks);
    bytes.expect("it is there")[range.start - start..range.end - start].to_vec()
}

#[test]
fn parts_of_long_strings_are_read_alone() {
    let file = file_in(&MemoryStorage::new(), 4);
    let mut encoder = RecordEncoder::default();
    let lens = [16_384, 16_385, 5 * BLOCK_TEXT_BYTES, 300_000, 5 * BLOCK_TEXT_BYTES + 1, 70_000, 1_000_000];
    let check = |colds: &[Cold]| {
        for (cold, len) in colds.iter().zip(lens) {
            let text = long_text(len);
            assert_eq!(text_of(cold), text);
            for start in (0..len).step_by(len / 13).chain([len - 1, BLOCK_TEXT_BYTES - 1, BLOCK_TEXT_BYTES]) {
                for bytes in [1, 100, 4_000] {
                    let range = start..len.min(start + bytes);
                    assert_eq!(part_of(cold, range.clone()), text[range]);
                }
            }
        }
    };
    let entries: Vec<Entry> = lens.iter().map(|len| text_entry(long_text(*len))).collect();
    let colds: Vec<Cold> = entries.iter().map(|entry| append(&file, &mut encoder, entry)).collect();
    check(&colds);
    with_writer(&file, || {
        let filler = text_entry(vec![b'x'; CHUNK_BYTES]);
        let _filler = append(&file, &mut encoder, &filler);
        wait_until(|| file.figures().waiting_bytes == 0);
        check(&colds);
        let before = file.figures();
        part_of(&colds[6], 500_000..500_100);
        let after = file.figures();
        assert!(after.read_bytes - before.read_bytes <= 2 * BLOCK_BYTES as u64);
        assert_eq!((after.part_reads - before.part_reads, after.reads), (1, before.reads));
        let copies: Vec<Cold> = colds.iter().map(|cold| file.copy_record(cold).expect("a copy")).collect();
        check(&copies);
    });
    assert_eq!(file.figures().read_errors, 0);
}

/// Appends until the file takes no more.
fn fill(file: &TierFile, entry: &Entry) -> Vec<Cold> {
    let mut encoder = RecordEncoder::default();
    let mut colds = Vec::new();
    loop {
        match file.append(&mut encoder, entry) {
            Ok(cold) => colds.push(cold),
            Err(Refusal::Behind) => std::thread::yield_now(),
            Err(refusal) => {
                assert_eq!(refusal, Refusal::Full);
                return colds;
            }
        }
    }
}

fn slots_in_use(file: &TierFile) -> usize {
    file.state().slots_in_use()
}

fn segments_of(colds: &[Cold]) -> usize {
    colds.iter().map(|cold| cold.segment().number()).collect::<std::collections::HashSet<_>>().len()
}

/// Walks over all records once.
fn clean(file: &TierFile, colds: &mut [Cold]) {
    let sparse = file.sparse_segments();
    for cold in colds.iter_mut().filter(|cold| sparse.contains(&cold.segment().number())) {
        let copied = loop {
            match file.copy_record(cold) {
                Err(Refusal::Behind) => std::thread::yield_now(),
                copied => break copied,
            }
        };
        match copied {
            Ok(copy) => *cold = copy,
            Err(refusal) => return assert_eq!(refusal, Refusal::Full),
        }
    }
}

#[test]
fn a_full_file_is_cleaned_and_takes_values_again() {
    let file = file_in(&MemoryStorage::new(), 8);
    let entry = text_entry(vec![b'x'; 100_000]);
    let in_use = || slots_in_use(&file);
    with_writer(&file, || {
        let all = fill(&file, &entry);
        assert_eq!((segments_of(&all), in_use()), (8, 8));
        // A quarter of each segment is left.
        let colds: Vec<Cold> = all.into_iter().skip(3).step_by(4).collect();
        // As the keyspace has them: in no order.
        let len = colds.len();
        let mut mixed: Vec<Cold> = (0..len).map(|index| colds[index * 101 % len].clone()).collect();
        assert!(!len.is_multiple_of(101));
        drop(colds);
        for _ in 0..8 {
            clean(&file, &mut mixed);
            assert!(in_use() <= 9);
        }
        let colds = mixed;
        wait_until(|| in_use() <= 5);
        let more = fill(&file, &entry);
        assert!(segments_of(&more) >= 3 && in_use() == 8);
        assert!(colds.iter().chain(&more).all(|cold| text_of(cold).len() == 100_000));
    });
}

#[test]
fn a_full_file_is_cleaned_while_others_hold_segments_of_it() {
    let file = file_in(&MemoryStorage::new(), 16);
    let entry = text_entry(vec![b'x'; 100_000]);
    with_writer(&file, || {
        let all = fill(&file, &entry);
        let slots: Vec<u32> = all.iter().map(|cold| cold.segment().number()).collect();
        // Records that are left in each segment: of about 167. The last one is open.
        let left = |slot: u32| [42, 55, 66].get(slot as usize).copied().unwrap_or(92);
        let mut counts = [0; 16];
        let is_left = |cold: &Cold| {
            let slot = cold.segment().number();
            counts[slot as usize] += 1;
            counts[slot as usize] <= left(slot)
        };
        let mut colds: Vec<Cold> = all.into_iter().filter(is_left).collect();
        assert!(slots.contains(&15));
        // As a snapshot does.
        let held: Vec<Cold> = [0, 1]
            .map(|slot| colds.iter().find(|cold| cold.segment().number() == slot).expect("some are").clone())
            .into();
        for _ in 0..3 {
            clean(&file, &mut colds);
        }
        wait_until(|| slots_in_use(&file) <= 16);
        assert!(!fill(&file, &entry).is_empty());
        assert!(held.iter().chain(&colds).all(|cold| text_of(cold).len() == 100_000));
    });
}

#[test]
fn a_small_full_file_is_cleaned_of_segments_that_are_more_than_half_in_use() {
    let file = file_in(&MemoryStorage::new(), 12);
    let entry = text_entry(vec![b'x'; 100_000]);
    with_writer(&file, || {
        let mut number = 0;
        let all = fill(&file, &entry);
        let count = all.len();
        // Three of five are left of each segment.
        let is_left = |_: &Cold| {
            number += 1;
            number % 5 > 1
        };
        let mut colds: Vec<Cold> = all.into_iter().filter(is_left).collect();
        for _ in 0..12 {
            clean(&file, &mut colds);
            assert!(slots_in_use(&file) <= 13);
            wait_until(|| slots_in_use(&file) <= 12);
            colds.extend(fill(&file, &entry));
        }
        assert!(colds.len() > count * 7 / 10);
        assert!(colds.iter().all(|cold| text_of(cold).len() == 100_000));
    });
}

#[test]
fn a_lower_limit_holds_for_slots_that_have_been_in_use() {
    let file = file_in(&MemoryStorage::new(), 6);
    let entry = text_entry(vec![b'x'; 100_000]);
    let in_use = || slots_in_use(&file);
    with_writer(&file, || {
        let colds = fill(&file, &entry);
        file.configure(2 * SEGMENT_BYTES as u64);
        assert!(fill(&file, &entry).is_empty());
        let kept = colds[0].clone();
        drop(colds);
        wait_until(|| in_use() <= 2);
        drop(kept);
        wait_until(|| in_use() <= 1);
        let colds = fill(&file, &entry);
        assert_eq!(in_use(), 2);
        file.configure(4 * SEGMENT_BYTES as u64);
        let more = fill(&file, &entry);
        assert_eq!(in_use(), 4);
        assert!(colds.iter().chain(&more).all(|cold| text_of(cold).len() == 100_000));
    });
}

#[test]
fn a_damaged_block_is_noticed_where_it_is_read() {
    let storage = MemoryStorage::new();
    let file = file_in(&storage, 4);
    let mut encoder = RecordEncoder::default();
    with_writer(&file, || {
        let cold = append(&file, &mut encoder, &text_entry(long_text(300_000)));
        wait_until(|| file.figures().waiting_bytes == 0);
        let spoiled = 7 * BLOCK_BYTES + 100;
        storage.spoil(Some(position(cold.segment().number(), cold.place().offset() + spoiled)));
        for block in 0..20 {
            let start = block * BLOCK_TEXT_BYTES;
            let read = cold.read_part(start..start + BLOCK_TEXT_BYTES);
            assert_eq!(read.err().is_some_and(|error| error.contains("checksum")), block == 7);
        }
        assert!(cold.read().is_err() && file.copy_record(&cold).is_err());
        storage.spoil(None);
        assert_eq!(text_of(&cold), long_text(300_000));
    });
}

#[test]
fn the_longest_strings_fill_segments_and_go_to_no_other() {
    let file = file_in(&MemoryStorage::new(), 6);
    let mut encoder = RecordEncoder::default();
    with_writer(&file, || {
        let colds: Vec<Cold> = [9 << 20, TEXT_BYTES_MAX, 100, 9 << 20, TEXT_BYTES_MAX]
            .map(|len| append(&file, &mut encoder, &text_entry(vec![b'x'; len])))
            .into();
        assert_eq!(colds[1].place().record_bytes(), SEGMENT_BYTES);
        // What the records leave unused of their segments is no reason to move them.
        assert!(file.sparse_segments().is_empty());
        assert!(text_of(&colds[4]).iter().all(|byte| *byte == b'x'));
        assert_eq!(part_of(&colds[1], TEXT_BYTES_MAX - 10..TEXT_BYTES_MAX), [b'x'; 10]);
    });
}

/// Brings something else than was asked for, as soon as it is told to.
struct Liar {
    file: Box<dyn ScratchFile>,
    lies: Arc<AtomicU64>,
}

impl ScratchFile for Liar {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        match self.lies.load(Ordering::Relaxed) {
            0 => self.file.read_at(buffer, offset),
            // The record behind it, which is just as long.
            1 => self.file.read_at(buffer, offset + buffer.len() as u64),
            _ => self.file.read_at(buffer, offset).map(|()| buffer[9] ^= 1),
        }
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_at(bytes, offset)
    }

    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.file.discard(offset, bytes)
    }
}

#[test]
fn a_disk_that_lies_is_noticed() {
    let lies = Arc::<AtomicU64>::default();
    let inner = MemoryStorage::new().create_scratch(Path::new("/")).expect("a file");
    let liar = Box::new(Liar { file: inner, lies: Arc::clone(&lies) });
    let file = TierFile::new(liar, 4 * SEGMENT_BYTES as u64);
    let mut encoder = RecordEncoder::default();
    let entry = text_entry(vec![b'x'; 1_000]);
    with_writer(&file, || {
        let colds: Vec<Cold> = (0..1_000).map(|_| append(&file, &mut encoder, &entry)).collect();
        wait_until(|| file.figures().waiting_bytes < CHUNK_BYTES as u64 * 2);
        assert_eq!(text_of(&colds[0]).len(), 1_000);
        for lie in [1, 2] {
            lies.store(lie, Ordering::Relaxed);
            assert!(colds[0].read().expect_err("a lie").contains("checksum"));
        }
        lies.store(0, Ordering::Relaxed);
        assert_eq!(text_of(&colds[0]).len(), 1_000);
    });
    assert_eq!(file.figures().read_errors, 2);
}

#[test]
fn sparse_segments_are_told_once_that_pays() {
    let file = file_in(&MemoryStorage::new(), 16);
    let mut encoder = RecordEncoder::default();
    let entry = text_entry(vec![b'x'; 100_000]);
    with_writer(&file, || {
        let mut colds: Vec<Cold> = (0..1_000).map(|_| append(&file, &mut encoder, &entry)).collect();
        assert!(file.sparse_segments().is_empty());
        let mut number = 0;
        colds.retain(|_| {
            number += 1;
            number % 5 == 0
        });
        let sparse = file.sparse_segments();
        assert!(sparse.len() >= 4);
        for cold in &mut colds {
            while sparse.contains(&cold.segment().number()) {
                match file.copy_record(cold) {
                    Ok(copy) => *cold = copy,
                    Err(refusal) => assert_eq!(refusal, Refusal::Behind),
                }
            }
        }
        assert!(colds.iter().all(|cold| text_of(cold).len() == 100_000));
        assert!(file.sparse_segments().is_empty());
    });
}

/// Large values, in slots of their own.
mod long {
    use std::cell::Cell;

    use super::*;

    fn append_large(file: &TierFile, entry: &Entry) -> Result<Cold, Refusal> {
        file.append_large(&mut RecordEncoder::default(), (entry, bytes_of(entry)), &|| false)
    }

    /// What the engine tells of an entry: the bytes of a string, those in memory of a collection.
    fn bytes_of(entry: &Entry) -> usize {
        entry.string_len().unwrap_or_else(|| entry.memory_usage())
    }

    /// Members of which no two are equal.
    fn member(number: usize) -> Vec<u8> {
        [format!("{number}:").as_bytes(), &long_text(1_000 + number % 100)].concat()
    }

    /// Collections whose records are about so many bytes long.
    fn collections(bytes: usize) -> Vec<Entry> {
        let limits = EncodingLimits::default();
        let (mut list, mut set) = (List::default(), Set::new());
        let (mut scored, mut hash) = (SortedSet::new(), Hash::new());
        for number in 0..bytes / 1_050 {
            list.push_back(&member(number), &limits);
            set.add(&member(number), &limits);
            scored.insert(&member(number), number as f64 / 3.0, &limits);
            hash.set(&member(number)[..100], &member(number), &limits);
        }
        let values = [Value::List(list), Value::Set(set), Value::SortedSet(scored), Value::Hash(hash)];
        values.map(|value| Entry::new(b"key", value, None, 0)).into()
    }

    #[test]
    fn large_strings_come_back_whole_and_in_parts() {
        let file = file_in(&MemoryStorage::new(), 16);
        let whole = 2 * TEXT_BYTES_MAX;
        // Slots of those that are gone, which nobody gives back yet.
        let mut waiting = 0;
        for (len, slots) in [(TEXT_BYTES_MAX + 1, 2), (whole, 2), (whole + 1, 3), (whole + 300_000, 3)] {
            let entry = text_entry(long_text(len));
            let cold = append_large(&file, &entry).expect("there is room");
            assert_eq!((cold.place().len(), cold.place().encoding()), (len, "raw"));
            assert!(text_of(&cold) == long_text(len));
            let text = long_text(len);
            for start in [0, 1, BLOCK_TEXT_BYTES - 1, TEXT_BYTES_MAX - 5, 5_000_000, len - 40] {
                for bytes in [1, 40, 5_000, 1_000_000] {
                    let range = start..len.min(start + bytes);
                    assert!(part_of(&cold, range.clone()) == text[range]);
                }
            }
            let figures = file.figures();
            assert_eq!((figures.values, figures.value_bytes), (1, cold.place().record_bytes() as u64));
            assert_eq!(figures.used_bytes, (slots * SEGMENT_BYTES) as u64 + waiting);
            waiting += (slots * SEGMENT_BYTES) as u64;
            assert_eq!(file.copy_record(&cold).expect_err("it stays"), Refusal::Unfit);
            assert!(file.sparse_segments().is_empty());
        }
        with_writer(&file, || wait_until(|| slots_in_use(&file) == 0));
        let figures = file.figures();
        assert_eq!((figures.values, figures.used_bytes, figures.read_errors), (0, 0, 0));
    }

    #[test]
    fn large_collections_come_back_as_they_were() {
        let file = file_in(&MemoryStorage::new(), 64);
        with_writer(&file, || {
            for (bytes, is_alone) in [(6 << 20, false), (9 << 20, true), (40 << 20, true)] {
                for entry in collections(bytes) {
                    wait_until(|| !file.is_behind());
                    let cold = append_large(&file, &entry).expect("there is room");
                    assert_eq!(!file.state().longs.is_empty(), is_alone);
                    let back = Entry::new(b"key", cold.read().expect("it is there"), None, 0);
                    assert_eq!((back.kind(), back.encoding()), (entry.kind(), entry.encoding()));
                    assert_eq!(digest_value(&back), digest_value(&entry));
                }
            }
        });
    }

    #[test]
    fn slots_need_not_be_neighbours() {
        let file = file_in(&MemoryStorage::new(), 7);
        let small =
            || append_large(&file, &text_entry(long_text(TEXT_BYTES_MAX + 1))).expect("there is room");
        let kept = [small(), small(), small()];
        let [first, second, third] = kept;
        drop((first, third));
        with_writer(&file, || wait_until(|| slots_in_use(&file) == 2));
        let long = text_entry(long_text(3 * TEXT_BYTES_MAX + 5));
        let cold = append_large(&file, &long).expect("there is room on both sides");
        assert!(
            text_of(&cold) == long_text(3 * TEXT_BYTES_MAX + 5) && text_of(&second).len() > TEXT_BYTES_MAX
        );
        assert_eq!(slots_in_use(&file), 6);
    }

    fn text_of_slots(slots: usize) -> Entry {
        text_entry(long_text(slots * TEXT_BYTES_MAX))
    }

    #[test]
    fn what_does_not_fit_is_not_begun_and_keeps_nothing_else_from_going() {
        let file = file_in(&MemoryStorage::new(), 4);
        with_writer(&file, || {
            let mut encoder = RecordEncoder::default();
            for entry in collections(60 << 20).iter().chain([&text_of_slots(4)]) {
                assert_eq!(append_large(&file, entry).expect_err("one is for others"), Refusal::Unfit);
                assert_eq!((slots_in_use(&file), encoder.value.len()), (0, 0));
            }
            let three = append_large(&file, &text_of_slots(3)).expect("there is room");
            assert_eq!(append_large(&file, &text_of_slots(2)).expect_err("no room"), Refusal::Unfit);
            // What is small has the last one.
            let small = append(&file, &mut encoder, &text_entry(b"small".to_vec()));
            let list = append_large(&file, &collections(6 << 20)[0]).expect("it has no slots of its own");
            assert_eq!((text_of(&small), slots_in_use(&file)), (b"small".to_vec(), 4));
            drop((three, list));
            wait_until(|| slots_in_use(&file) == 1);
            file.configure(8 * SEGMENT_BYTES as u64);
            assert!(append_large(&file, &text_of_slots(4)).is_ok(), "now there are 8");
        });
        assert_eq!(file.figures().values, 0);
    }

    #[test]
    fn a_full_disk_is_written_to_once() {
        let storage = MemoryStorage::new();
        let file = file_in(&storage, 16);
        let told = AtomicU64::new(0);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let failed = |_: &io::Error| _ = told.fetch_add(1, Ordering::Relaxed);
                file.write_until(|| is_over.load(Ordering::Relaxed), || (), failed);
            });
            let kept = append_large(&file, &text_of_slots(2)).expect("there is room");
            storage.make_read_only(true);
            for _ in 0..3 {
                assert_eq!(append_large(&file, &text_of_slots(2)).expect_err("no disk"), Refusal::Unfit);
            }
            assert_eq!(file.figures().write_errors, 1, "it is not written again in vain");
            wait_until(|| told.load(Ordering::Relaxed) == 1 && slots_in_use(&file) == 2);
            storage.make_read_only(false);
            append(&file, &mut RecordEncoder::default(), &text_entry(b"small".to_vec()));
            wait_until(|| slots_in_use(&file) == 3);
            assert_eq!(append_large(&file, &text_of_slots(2)).expect_err("as before"), Refusal::Unfit);
            drop(kept);
            wait_until(|| slots_in_use(&file) == 1);
            assert!(append_large(&file, &text_of_slots(2)).is_err(), "one more than there were");
            is_over.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn what_is_given_up_leaves_no_slots_behind() {
        let file = file_in(&MemoryStorage::new(), 16);
        with_writer(&file, || {
            for entry in collections(40 << 20).iter().chain([&text_of_slots(4)]) {
                let asked = Cell::new(0);
                let is_over = || asked.replace(asked.get() + 1) == 1;
                let mut encoder = RecordEncoder::default();
                let appended = file.append_large(&mut encoder, (entry, bytes_of(entry)), &is_over);
                assert_eq!(appended.expect_err("nobody wants it"), Refusal::Unfit);
                assert_eq!(asked.get(), 2, "once a slot");
                assert!(encoder.value.capacity() <= 2 * CHUNK_BYTES);
                wait_until(|| slots_in_use(&file) == 0);
            }
        });
        assert_eq!((file.figures().values, file.figures().written), (0, 0));
    }

    #[test]
    fn encoding_ends_once_nobody_wants_the_value() {
        for entry in collections(40 << 20) {
            let (mut encoder, mut value, mut bytes) = (RecordEncoder::default(), Vec::new(), 0);
            put_collection(&entry, &mut encoder.encoder, &mut value, &mut |value| {
                bytes += std::mem::take(value).len();
                bytes < 1 << 20
            });
            assert!(bytes + value.len() < 2 << 20, "{}", entry.encoding());
        }
    }

    #[test]
    fn damage_is_noticed_where_it_is() {
        let storage = MemoryStorage::new();
        let file = file_in(&storage, 16);
        let text = append_large(&file, &text_entry(long_text(2 * TEXT_BYTES_MAX))).expect("there is room");
        let list = append_large(&file, &collections(20 << 20)[0]).expect("there is room");
        for (cold, slot) in [(&text, 1), (&list, 3)] {
            storage.spoil(Some(position(slot, 5 * BLOCK_BYTES + 99)));
            assert!(cold.read().expect_err("it is damaged").contains("its checksum is wrong"));
            storage.spoil(None);
            assert!(cold.read().is_ok());
        }
        storage.spoil(Some(position(1, 5 * BLOCK_BYTES + 99)));
        let damaged = TEXT_BYTES_MAX + 5 * BLOCK_TEXT_BYTES;
        assert!(text.read_part(damaged..damaged + BLOCK_TEXT_BYTES).is_err());
        assert!(text.read_part(damaged - BLOCK_TEXT_BYTES..damaged).is_ok());
        assert_eq!(file.figures().read_errors, 3);
    }

    #[test]
    fn a_dump_reads_a_string_in_chunks_and_tells_of_damage() {
        let storage = MemoryStorage::new();
        let file = file_in(&storage, 16);
        let text = long_text(TEXT_BYTES_MAX + 1_000_000);
        let mut entry = text_entry(text.clone());
        let cold = append_large(&file, &entry).expect("there is room");
        let options = WriteOptions { compress: false, ..WriteOptions::default() };
        let dump = |entry: &Entry| {
            let mut encoder = Encoder::new(options.clone(), None);
            let (mut out, mut all, mut longest) = (Vec::new(), Vec::new(), 0);
            encoder.image(Image::Entry(entry.image()), &mut out, &mut |bytes| {
                longest = longest.max(bytes.len());
                all.append(bytes);
                true
            });
            all.append(&mut out);
            (encoder.refusal().map(str::to_owned), all, longest)
        };
        let (refusal, in_memory, _) = dump(&entry);
        assert!(refusal.is_none() && in_memory.ends_with(&text));
        entry.cool(cold);
        let (refusal, on_disk, longest) = dump(&entry);
        assert!(refusal.is_none() && on_disk == in_memory && longest < 300_000);
        assert!(!entry.is_in_memory());
        storage.spoil(Some(position(1, 99)));
        assert!(dump(&entry).0.expect("it is damaged").contains("its checksum is wrong"));
    }

    #[test]
    fn a_disk_that_brings_other_blocks_is_noticed() {
        let lies = Arc::<AtomicU64>::default();
        let inner = MemoryStorage::new().create_scratch(Path::new("/")).expect("a file");
        let liar = Box::new(Liar { file: inner, lies: Arc::clone(&lies) });
        let file = TierFile::new(liar, 8 * SEGMENT_BYTES as u64);
        // All blocks are the same but for their place.
        let entry = text_entry(vec![b'x'; 2 * TEXT_BYTES_MAX]);
        let colds = [(); 2].map(|()| append_large(&file, &entry).expect("there is room"));
        for lie in [1, 2] {
            lies.store(lie, Ordering::Relaxed);
            assert!(colds[0].read().expect_err("a lie").contains("checksum"));
        }
    }
}
