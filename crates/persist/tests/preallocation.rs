//! Files with preallocated bytes: whatever a loss of power leaves of the last frame, and whoever truncated
//! the file, what was durable is read, and nothing that was never written.

use mantissa_persist::aof::preallocation::{
    END_LINE_BYTES, FILLER, FRAME_HEADER_BYTES_MAX, FrameHeader, Nonce, START_LINE, TRUNCATED_FRAME, put_line,
};
use mantissa_persist::aof::{AofError, Item, Reader, SyncPolicy, Writer, WriterControl};
use mantissa_persist::log::{Log, Unit};
use mantissa_persist::storage::{MemoryStorage, Storage, StorageFile};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

const PATH: &str = "log";
const PREALLOCATION: u64 = 3000;
/// A command that is no part of a frame.
const MORE: &[u8] = b"*2\r\n$3\r\nADD\r\n$4\r\nmore\r\n";

/// A file that a writer of the log writes, and where each frame begins.
struct Written {
    storage: MemoryStorage,
    writer: Writer,
    log: Arc<Log>,
    control: Arc<WriterControl>,
    frames: Vec<usize>,
}

impl Written {
    fn new() -> Self {
        let storage = MemoryStorage::new();
        let log = Arc::new(Log::default());
        let control = Arc::new(WriterControl::new(Arc::clone(&log)));
        control.set_policy(SyncPolicy::Always);
        control.set_preallocation(PREALLOCATION);
        let file: Box<dyn StorageFile> = storage.append(Path::new(PATH)).expect("no fault is set");
        control.switch(Box::new(move |_| Ok(Some(file))));
        let mut writer = Writer::new(Arc::clone(&control));
        writer.write_and_sync(Instant::now()).expect("no fault is set");
        Written { storage, writer, log, control, frames: Vec::new() }
    }

    /// Logs units of one word each, which become one frame.
    fn frame(&mut self, words: &[&[u8]]) {
        for word in words {
            let mut unit = Unit::default();
            unit.push(0, [&b"ADD"[..], word]);
            self.log.append(&mut unit, 0);
        }
        let before = self.bytes();
        self.writer.write_and_sync(Instant::now()).expect("no fault is set");
        let after = self.bytes();
        let begins = |at: &usize| {
            after[*at..].starts_with(b"#SUM:")
                && !before.get(*at..).is_some_and(|old| old.starts_with(b"#SUM:"))
        };
        self.frames.extend((0..after.len()).find(begins));
    }

    fn bytes(&self) -> Vec<u8> {
        self.storage.read(Path::new(PATH)).expect("it was made")
    }

    /// Where the last frame ends.
    fn end(&self) -> usize {
        self.writer.file_bytes() as usize
    }
}

type Patches = Vec<(u64, &'static [u8])>;

/// The words that are read, what is wrong at the end, where the file is whole, and what is to be changed.
fn read(bytes: &[u8]) -> (Vec<Vec<u8>>, Option<AofError>, usize, Patches) {
    let mut reader = Reader::new(bytes, bytes.len() as u64);
    let mut words = Vec::new();
    let failure = loop {
        match reader.next_item() {
            Ok(Some(Item::Command(command))) if command.get(0) == Some(b"ADD") => {
                words.push(command.at(1).to_vec());
            }
            Ok(Some(_)) => {}
            Ok(None) => break None,
            Err(failure) => break Some(failure),
        }
    };
    (words, failure, reader.whole_end() as usize, reader.patches().to_vec())
}

fn nonce_of(bytes: &[u8]) -> Nonce {
    Nonce::read(&bytes[..START_LINE.len() + 8]).expect("it begins with the first line")
}

fn words_of(words: &[&str]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

fn patch(bytes: &mut [u8], patches: &Patches) {
    for &(offset, patch) in patches {
        bytes[offset as usize..][..patch.len()].copy_from_slice(patch);
    }
}

/// Three frames: the first two make up `old`, the third has filler in its values.
fn three_frames() -> (Vec<u8>, Vec<u8>, Written) {
    let mut written = Written::new();
    written.frame(&[b"one", b"two"]);
    written.frame(&[b"three"]);
    let old = written.bytes();
    written.frame(&[&b"#\n".repeat(350), &[b'x'; 601], b"end"]);
    (old, written.bytes(), written)
}

#[test]
fn whole_frames_are_read_and_filler_is_not() {
    let (old, new, written) = three_frames();
    assert_eq!(old.len(), new.len(), "the third frame lengthens nothing");
    assert!(old.starts_with(START_LINE) && new.ends_with(&nonce_of(&new).end()));
    let (words, failure, whole, patches) = read(&new);
    assert_eq!((words.len(), failure, whole, patches), (6, None, written.end(), Vec::new()));
}

#[test]
fn what_power_leaves_of_a_frame_is_no_command() {
    let (old, new, written) = three_frames();
    let (start, end) = (written.frames[2], written.end());
    // Any of the parts may be written or not; the file's own borders of sectors do not matter to the reader.
    let parts: Vec<_> = (0..8).map(|part| start + (end - start) * part / 16 * 2).chain([end]).collect();
    for kept in 0..1_usize << 8 {
        let mut bytes = old.clone();
        for part in (0..8).filter(|part| kept >> part & 1 != 0) {
            let range = parts[part]..parts[part + 1];
            bytes[range.clone()].copy_from_slice(&new[range]);
        }
        let (words, failure, whole, _) = read(&bytes);
        if bytes == new {
            assert_eq!((words.len(), failure, whole), (6, None, end));
        } else if bytes == old {
            assert_eq!((words.len(), failure, whole), (3, None, start));
        } else {
            assert_eq!((words.len(), whole), (3, start), "{kept:b}");
            assert!(matches!(failure, Some(AofError::Truncated { .. })), "{kept:b}: {failure:?}");
        }
    }
    // And at every even offset.
    for at in (start..end).step_by(2) {
        let bytes = [&new[..at], &old[at..]].concat();
        let (words, failure, whole, _) = read(&bytes);
        let expected = if bytes == new { 6 } else { 3 };
        assert_eq!((words.len(), whole), (expected, if bytes == new { end } else { start }), "{at}");
        assert_eq!(failure.is_some(), bytes != new && bytes != old, "{at}: {failure:?}");
    }
}

#[test]
fn damage_before_the_last_frame_is_never_taken_for_an_unfinished_one() {
    let (_, new, written) = three_frames();
    for at in written.frames[0]..written.frames[2] {
        for change in [b'#', b'\n', 0, b'*', new[at] ^ 1] {
            let mut bytes = new.clone();
            bytes[at] = change;
            if bytes == new {
                continue;
            }
            let (words, failure, ..) = read(&bytes);
            // A header that has become a note is none: its commands are read as they are.
            let is_note =
                failure.is_none() && words.len() == 6 && !words.iter().any(|word| word.contains(&0));
            let is_in_head = written.frames[..2]
                .iter()
                .any(|&start| (start..start + FRAME_HEADER_BYTES_MAX).contains(&at));
            assert!(
                matches!(failure, Some(AofError::Damaged { .. })) || (is_note && is_in_head),
                "byte {at} as {change}: {failure:?}"
            );
        }
    }
}

#[test]
fn a_file_that_was_cut_within_a_frame_goes_on_from_there() {
    let (_, new, written) = three_frames();
    let start = written.frames[0];
    // Behind the first command of the first frame, as a repair to a timestamp may truncate.
    let first = new.windows(3).position(|window| window == b"one").expect("it is there") + 5;
    let truncated = &new[..first];
    let (words, failure, whole, patches) = read(truncated);
    assert_eq!((words, failure, whole), (vec![b"one".to_vec()], None, first));
    assert_eq!(patches, [(start as u64, TRUNCATED_FRAME)]);
    let mut unmarked = [truncated, MORE, MORE].concat();
    patch(&mut unmarked, &patches);
    assert_eq!(read(&unmarked), (words_of(&["one", "more", "more"]), None, unmarked.len(), Vec::new()));
    // A server that knows nothing of frames does not unmark it.
    let marked = [truncated, MORE, MORE].concat();
    assert_eq!(read(&marked).0, words_of(&["one", "more", "more"]));
}

#[test]
fn what_another_server_wrote_behind_preallocated_bytes_is_read() {
    let (old, new, written) = three_frames();
    let (start, end, nonce) = (written.frames[2], written.end(), nonce_of(&new));
    for filler in [0, 2, 3000, 256 << 10, 700_000] {
        let unused = [&FILLER.repeat(filler / 2)[..], &nonce.end()].concat();
        let bytes = [&new[..end], &unused, MORE, MORE].concat();
        assert_eq!((read(&bytes).0.len(), read(&bytes).1), (8, None));
        assert_eq!(read(&bytes).2, bytes.len());
        // With preallocated bytes of this server behind that, and what power leaves of a frame there.
        let (again, mut bytes) = (Nonce::new(), bytes);
        put_line(&again.start(), bytes.len() as u64, &mut bytes);
        let whole = bytes.len();
        bytes
            .extend_from_slice(&[&FILLER.repeat(20)[..], b"some", &FILLER.repeat(20), &again.end()].concat());
        let (words, failure, at, _) = read(&bytes);
        assert_eq!((words.len(), at), (8, whole));
        assert!(matches!(failure, Some(AofError::Truncated { .. })), "{failure:?}");
        // The other server may itself have been killed within a write, or may have written many zeros.
        let tail = [&new[..end], &unused, MORE, &MORE[..20]].concat();
        assert!(matches!(read(&tail), (words, Some(AofError::Truncated { .. }), ..) if words.len() == 7));
        let zeros =
            [&new[..end], &unused, b"*2\r\n$3\r\nADD\r\n$600000\r\n", &[0; 600_000], b"\r\n", MORE].concat();
        assert_eq!((read(&zeros).0.len(), read(&zeros).1), (8, None));
    }
    // A frame that was being written is no reason to drop what came behind preallocated bytes.
    let torn = [&new[..start + 100], &old[start + 100..], MORE].concat();
    assert_eq!((read(&torn).0.len(), read(&torn).1), (4, None));
}

#[test]
fn no_value_is_taken_for_a_frame() {
    let mut written = Written::new();
    written.frame(&[b"one"]);
    let old = written.bytes();
    let forged = |nonce: Nonce| {
        let inner = b"*1\r\n$8\r\nFLUSHALL\r\n";
        let mut frame = Vec::new();
        put_line(&FrameHeader::of(nonce, [&inner[..]]).line(), inner.len() as u64, &mut frame);
        [&frame[..], inner].concat()
    };
    let value = [&FILLER.repeat(600)[..], &forged(Nonce::new()), &Nonce::new().end(), MORE, MORE].concat();
    written.frame(&[&value]);
    let (new, start) = (written.bytes(), written.frames[1]);
    for at in (start..written.end()).step_by(2) {
        // The first part was not written.
        let bytes = [&old[..at], &new[at..]].concat();
        let (words, failure, whole, _) = read(&bytes);
        if at > start {
            assert_eq!((words, whole), (words_of(&["one"]), start), "{at}");
            assert!(matches!(failure, Some(AofError::Truncated { .. })), "{at}: {failure:?}");
        }
    }
}

#[test]
fn a_file_that_is_lengthened_or_cut_may_have_zeros() {
    let (_, new, written) = three_frames();
    let (end, nonce) = (written.end(), nonce_of(&new));
    // The preallocated bytes were truncated, and the old length survives.
    let truncated = [&new[..end], &[0; 1000], &new[end + 1000..]].concat();
    assert_eq!((read(&truncated).0.len(), read(&truncated).1, read(&truncated).2), (6, None, end));
    // Bytes were preallocated; any of its pages may be missing, and the last line.
    let added = [&FILLER.repeat(2048)[..], &FILLER.repeat(2048), &FILLER.repeat(2048), &nonce.end()];
    for missing in 1..16_usize {
        let part = |part: usize| match missing >> part & 1 {
            0 => added[part].to_vec(),
            _ => vec![0; added[part].len()],
        };
        let bytes = [&new[..new.len() - END_LINE_BYTES], &(0..4).flat_map(part).collect::<Vec<_>>()].concat();
        let (words, failure, whole, _) = read(&bytes);
        assert_eq!((words.len(), failure, whole), (6, None, end), "{missing:b}");
        // The line that ended it before may still be there.
        let bytes = [&new[..], &(0..4).flat_map(part).collect::<Vec<_>>()].concat();
        let (words, failure, whole, _) = read(&bytes);
        assert_eq!((words.len(), failure, whole), (6, None, end), "{missing:b}");
    }
    // The first line was being written.
    for at in 0..START_LINE.len() + 10 {
        let bytes = [MORE, &new[..at], &vec![0; 34 - at]].concat();
        let (words, failure, ..) = read(&bytes);
        assert!(words.len() == 1 && matches!(failure, Some(AofError::Truncated { .. })), "{at}: {failure:?}");
    }
    for tail in [&[0; 70_000][..], &[&[0; 10], MORE].concat()] {
        assert!(matches!(read(&[MORE, tail].concat()), (_, Some(AofError::Damaged { .. }), ..)));
    }
}

#[test]
fn other_policies_preallocate_nothing_and_large_batches_need_none() {
    let mut written = Written::new();
    written.frame(&[b"one"]);
    assert!(written.bytes().len() > written.end());
    written.control.set_policy(SyncPolicy::EverySecond);
    written.frame(&[b"two"]);
    assert_eq!(written.bytes().len(), written.end());
    written.control.set_policy(SyncPolicy::Always);
    written.frame(&[b"three"]);
    assert!(written.bytes().len() > written.end());
    written.frame(&[&vec![b'x'; 300 << 10]]);
    assert_eq!(written.bytes().len(), written.end());
    written.frame(&[b"five"]);
    written.writer.finish().expect("no fault is set");
    assert_eq!(written.bytes().len(), written.end());
    let (words, failure, whole, patches) = read(&written.bytes());
    assert_eq!((words.len(), failure, whole, patches), (5, None, written.end(), Vec::new()));
}

#[test]
fn a_full_disk_gives_no_preallocated_bytes_but_takes_what_fits() {
    let mut written = Written::new();
    written.storage.fill_up_after(Some(200));
    written.frame(&[b"one"]);
    written.frame(&[b"two"]);
    assert_eq!(written.bytes().len(), written.end());
    assert_eq!(read(&written.bytes()).0.len(), 2);
}

#[test]
fn any_damage_is_read_to_an_end() {
    let (_, new, written) = three_frames();
    let mut state = 7_u64;
    let mut random = |bound: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % bound
    };
    for _ in 0..20_000 {
        let mut bytes = new[..written.end() + random(400)].to_vec();
        for _ in 0..1 + random(4) {
            let (at, other) = (random(bytes.len()), random(bytes.len()));
            match random(4) {
                0 => bytes[at] = *b"#\n\r*$0\0:"[random(8)..].first().expect("it is below the length"),
                1 => bytes.truncate(at.max(1)),
                2 => drop(bytes.splice(at..at, FILLER.repeat(random(5)))),
                _ => drop(bytes.drain(
                    at.min(other)..(at.min(other) + random(30)).min(bytes.len() - 1).max(at.min(other)),
                )),
            }
        }
        let (words, failure, whole, _) = read(&bytes);
        assert!(words.len() <= 6 && whole <= bytes.len(), "{failure:?}");
    }
}
