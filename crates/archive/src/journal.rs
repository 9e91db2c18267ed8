//! The log between snapshots: what a server has changed, as commands in the order of their commits.
//!
//! A segment has a contiguous range of a server's stream of commands, as its replicas get it, and the second
//! in which each part of it was appended. Its place is the name of a history and offsets in it, those that
//! snapshots have as well. So the state of a time is a snapshot made before it, and the segments that follow
//! up to that time; parts of one second are not divided.
//!
//! ```text
//! log/TIME-DIGITS    header (its length in front), body
//! header             MANTLOG1, history, start, end, first and last second, sealed key, hash of the body
//! body               for each part: the second, the commands (their length in front)
//! ```
//!
//! The header is wrapped as manifests are. The body is compressed, and sealed as blocks of packs are: with
//! encryption only who has the read key can read it. Segments need no lock, since they have names of their
//! own and no manifest names them.

use std::collections::HashMap;
use std::io;

use crate::keys::{ChunkName, compress, decompress};
use crate::manifest::Position;
use crate::repository::{Archive, Snapshot, utc_digits};
use crate::store::Store;
use crate::wire::{Reader, damaged, hex, put_bytes, put_number};

const MAGIC: &[u8; 8] = b"MANTLOG1";
const FOLDER: &str = "log";
/// Bytes that are read of a segment for its header.
const HEADER_BYTES_MAX: u64 = 4096;
/// Bytes beside the commands in front of each part, at most.
const FRAME_BYTES_MAX: u64 = 16;

/// Commands that were appended in one second.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// Unix time in seconds.
    pub time_s: u64,
    /// The commands, whole ones.
    pub commands: Vec<u8>,
}

/// A segment of the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Its name.
    pub name: String,
    /// The name of the history that the offsets are in.
    pub history: String,
    /// The offset of its first byte.
    pub start: u64,
    /// The offset behind its last byte.
    pub end: u64,
    /// The second in which its first part was appended, as unix time.
    pub first_s: u64,
    /// The same of the last part.
    pub last_s: u64,
    /// Its size in the archive, in bytes.
    pub stored_bytes: u64,
    sealed_key: Vec<u8>,
    body: ChunkName,
}

/// How far the log led from a snapshot.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Replayed {
    /// Bytes of commands.
    pub bytes: u64,
    /// The second of the last of them, as unix time; 0 without any.
    pub last_s: u64,
    /// The log goes on behind the time that was asked for: so nothing before that time is missing.
    pub reaches_time: bool,
    /// Of each segment whose header is damaged, its name and what is wrong: what is missing may be there.
    pub damage: Vec<String>,
}

impl<S: Store> Archive<S> {
    /// Stores a segment, which begins at `start` in `history`. Its frames are in the order of time, and some.
    pub fn put_segment(&self, history: &str, start: u64, frames: &[Frame]) -> io::Result<Segment> {
        let [first, .., last] = frames else {
            return match frames {
                [only] => self.put_frames(history, start, (only, only), frames),
                _ => Err(io::Error::other("a segment of the log is empty")),
            };
        };
        self.put_frames(history, start, (first, last), frames)
    }

    fn put_frames(
        &self,
        history: &str,
        start: u64,
        (first, last): (&Frame, &Frame),
        frames: &[Frame],
    ) -> io::Result<Segment> {
        let mut plain = Vec::new();
        for frame in frames {
            put_number(frame.time_s, &mut plain);
            put_bytes(&frame.commands, &mut plain);
        }
        let mut body = compress(&plain)?;
        let (key, sealed_key) = self.keys.new_pack()?;
        if let Some(key) = key {
            key.seal(0, &mut body)?;
        }
        let bytes: u64 = frames.iter().map(|frame| frame.commands.len() as u64).sum();
        let mut segment = Segment {
            name: String::new(),
            history: history.to_owned(),
            start,
            end: start + bytes,
            first_s: first.time_s,
            last_s: last.time_s,
            stored_bytes: 0,
            sealed_key,
            body: self.keys.name(&body),
        };
        let header = segment.encode();
        let digits = hex(&self.keys.name(&header)[..8]);
        segment.name = format!("{}-{digits}", utc_digits(first.time_s.saturating_mul(1000)));
        let mut object = Vec::new();
        put_bytes(&self.keys.wrap(&header)?, &mut object);
        object.extend_from_slice(&body);
        segment.stored_bytes = object.len() as u64;
        self.store.put_new(&format!("{FOLDER}/{}", segment.name), &object)?;
        Ok(segment)
    }

    /// All segments, in the order of histories and offsets. An error if the header of one is damaged.
    pub fn segments(&self) -> io::Result<Vec<Segment>> {
        let (segments, damage) = self.readable_segments()?;
        damage.into_iter().next().map_or(Ok(segments), Err)
    }

    /// The segments whose headers can be read, in the order of histories and offsets, and for each of the
    /// others an error that names it.
    pub fn readable_segments(&self) -> io::Result<(Vec<Segment>, Vec<io::Error>)> {
        let (mut segments, mut damage) = (Vec::new(), Vec::new());
        for (name, stored_bytes) in self.store.list(FOLDER)? {
            match self.segment(&name, stored_bytes) {
                Ok(segment) => segments.push(segment),
                Err(error) if error.kind() == io::ErrorKind::InvalidData => damage.push(error),
                Err(error) => return Err(error),
            }
        }
        segments.sort_by(|left, right| {
            (&left.history, left.start, left.end).cmp(&(&right.history, right.start, right.end))
        });
        Ok((segments, damage))
    }

    /// The segment of this name and size.
    pub(crate) fn segment(&self, name: &str, stored_bytes: u64) -> io::Result<Segment> {
        let object = format!("{FOLDER}/{name}");
        let bytes = self.store.get_range(&object, 0, stored_bytes.min(HEADER_BYTES_MAX))?;
        let in_object = |error| damaged(format!("{object}: {error}"));
        let wrapped = Reader::new(&bytes, "its header").bytes().map_err(in_object)?.to_vec();
        let plain = self.keys.unwrap(&wrapped, &object)?;
        if !name.ends_with(&hex(&self.keys.name(&plain)[..8])) {
            return Err(damaged(format!("{object}: it has the header of another segment")));
        }
        let segment = Segment::parse(&plain).map_err(in_object)?;
        Ok(Segment { name: name.to_owned(), stored_bytes, ..segment })
    }

    /// What a segment holds.
    pub fn frames(&self, segment: &Segment) -> io::Result<Vec<Frame>> {
        let object = format!("{FOLDER}/{}", segment.name);
        let changed = || damaged(format!("{object}: it is damaged"));
        let bytes = self.store.get(&object)?;
        let mut reader = Reader::new(&bytes, "a segment of the log");
        reader.bytes()?;
        let body = reader.take(reader.left() as u64)?.to_vec();
        if self.keys.name(&body) != segment.body {
            return Err(changed());
        }
        let packed = match self.keys.open_pack(&segment.sealed_key)? {
            Some(key) => key.open(0, body).ok_or_else(changed)?,
            None => body,
        };
        let bytes_max = (segment.end - segment.start).saturating_mul(FRAME_BYTES_MAX);
        let plain = decompress(&packed, bytes_max).map_err(|_| changed())?;
        let (mut reader, mut frames, mut sum) = (Reader::new(&plain, "a segment of the log"), Vec::new(), 0);
        while !reader.is_empty() {
            let (time_s, commands) = (reader.number()?, reader.bytes()?.to_vec());
            sum += commands.len() as u64;
            frames.push(Frame { time_s, commands });
        }
        if sum == segment.end - segment.start { Ok(frames) } else { Err(changed()) }
    }

    pub(crate) fn delete_segment(&self, segment: &Segment) -> io::Result<()> {
        self.store.delete(&format!("{FOLDER}/{}", segment.name))
    }

    /// The newest snapshot that has nothing of the time after a second. Where several servers have stored
    /// some, it is of the one whose log goes on behind that time, or else furthest.
    pub fn find_at(&self, time_s: u64) -> io::Result<Snapshot> {
        let end_ms = time_s.saturating_add(1).saturating_mul(1000);
        let (mut found, mut damage) = (Vec::new(), None);
        for (_, snapshot) in self.each_snapshot()? {
            match snapshot {
                Ok(snapshot) if snapshot.facts.created_ms < end_ms => found.push(snapshot),
                Ok(_) => {}
                Err(error) => damage = Some(error),
            }
        }
        let absent = || damage.unwrap_or_else(|| io::Error::other("no snapshot is as old as that"));
        newest_of_one(found, &self.readable_segments()?.0, time_s).ok_or_else(absent)
    }

    /// Calls `take` with the commands that follow `position`, up to and with those of the second `time_s`.
    pub fn replay(
        &self,
        position: &Position,
        time_s: u64,
        mut take: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<Replayed> {
        let (mut at, mut replayed) = (position.offset, Replayed::default());
        let (segments, damage) = self.readable_segments()?;
        replayed.damage = damage.iter().map(io::Error::to_string).collect();
        for segment in segments.iter().filter(|segment| segment.history == position.history) {
            if segment.end <= at {
                continue;
            }
            if segment.start > at {
                break;
            }
            let mut before = at - segment.start;
            for Frame { time_s: then_s, commands } in self.frames(segment)? {
                let skipped = before.min(commands.len() as u64);
                before -= skipped;
                let commands = &commands[skipped as usize..];
                if commands.is_empty() {
                    continue;
                }
                if then_s > time_s {
                    replayed.reaches_time = true;
                    return Ok(replayed);
                }
                take(commands)?;
                replayed.bytes += commands.len() as u64;
                replayed.last_s = then_s;
            }
            at = segment.end;
        }
        Ok(replayed)
    }
}

/// The newest of `snapshots`, the oldest of which is first, that is of the same server as the one whose log
/// goes on behind a second, or else furthest.
fn newest_of_one(snapshots: Vec<Snapshot>, segments: &[Segment], time_s: u64) -> Option<Snapshot> {
    let history = |snapshot: &Snapshot| snapshot.facts.position.as_ref().map(|at| at.history.clone());
    let mut ends: HashMap<&str, u64> = HashMap::new();
    for segment in segments {
        let end_s = ends.entry(&segment.history).or_default();
        *end_s = segment.last_s.max(*end_s);
    }
    let end_of = |snapshot: &Snapshot| {
        let position = snapshot.facts.position.as_ref();
        position
            .and_then(|at| ends.get(&*at.history))
            .map_or(0, |end_s| (*end_s).min(time_s.saturating_add(1)))
    };
    // Of equal ones the last is taken.
    let best = snapshots.iter().max_by_key(|snapshot| end_of(snapshot))?;
    let (best_history, best_source) = (history(best), best.facts.source.clone());
    // A history that goes on behind the second has not been followed by another before.
    let reaches = end_of(best) > time_s;
    let is_same = |snapshot: &Snapshot| {
        let is_of_history = best_history.is_some() && history(snapshot) == best_history;
        is_of_history || !reaches && snapshot.facts.source == best_source
    };
    snapshots.into_iter().rfind(is_same)
}

impl Segment {
    /// Whether the next segment begins where this one ends.
    pub fn is_followed_by(&self, next: &Segment) -> bool {
        self.history == next.history && self.end == next.start
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        put_bytes(self.history.as_bytes(), &mut out);
        for number in [self.start, self.end, self.first_s, self.last_s] {
            put_number(number, &mut out);
        }
        put_bytes(&self.sealed_key, &mut out);
        out.extend_from_slice(&self.body);
        out
    }

    pub(crate) fn parse(bytes: &[u8]) -> io::Result<Segment> {
        let mut reader = Reader::new(bytes, "the header of a segment");
        if reader.array()? != *MAGIC {
            return Err(reader.error("it does not begin as one"));
        }
        let history = String::from_utf8_lossy(reader.bytes()?).into_owned();
        let mut numbers = [0; 4];
        for number in &mut numbers {
            *number = reader.number()?;
        }
        let [start, end, first_s, last_s] = numbers;
        if start >= end || first_s > last_s {
            return Err(reader.error("its range is empty"));
        }
        let (sealed_key, body) = (reader.bytes()?.to_vec(), reader.array()?);
        reader.finish()?;
        let (name, stored_bytes) = (String::new(), 0);
        Ok(Segment { name, history, start, end, first_s, last_s, stored_bytes, sealed_key, body })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeyFile;
    use crate::trial::Memory;

    fn frame(time_s: u64, commands: &[u8]) -> Frame {
        Frame { time_s, commands: commands.to_vec() }
    }

    fn replayed(archive: &Archive<Memory>, offset: u64, time_s: u64) -> (Vec<u8>, bool) {
        let position = Position { history: "a".to_owned(), offset, database: None };
        let mut out = Vec::new();
        let done = archive.replay(&position, time_s, |commands| {
            out.extend_from_slice(commands);
            Ok(())
        });
        let done = done.expect("the segments are whole");
        assert_eq!(done.bytes, out.len() as u64);
        (out, done.reaches_time)
    }

    #[test]
    fn a_log_is_replayed_from_any_place_up_to_a_second() {
        let key = KeyFile::generate().expect("there are random bytes");
        for key in [None, Some(&key)] {
            let archive = Archive::init(Memory::new(usize::MAX), key).expect("it is empty");
            archive.put_segment("a", 10, &[frame(100, b"one"), frame(101, b"two")]).expect("there is room");
            archive.put_segment("b", 16, &[frame(101, b"other")]).expect("there is room");
            archive.put_segment("a", 16, &[frame(103, b"three")]).expect("there is room");
            archive.put_segment("a", 30, &[frame(105, b"behind a gap")]).expect("there is room");
            assert_eq!(replayed(&archive, 10, 99), (b"".to_vec(), true));
            assert_eq!(replayed(&archive, 10, 101), (b"onetwo".to_vec(), true));
            assert_eq!(replayed(&archive, 13, 102), (b"two".to_vec(), true));
            assert_eq!(replayed(&archive, 16, 200), (b"three".to_vec(), false));
            assert_eq!(replayed(&archive, 30, 105), (b"behind a gap".to_vec(), false));
            assert_eq!(replayed(&archive, 5, 200), (b"".to_vec(), false));
        }
        let writer = Archive::init(Memory::new(usize::MAX), Some(&key.without_read())).expect("it is empty");
        let segment = writer.put_segment("a", 0, &[frame(1, b"x")]).expect("there is room");
        assert_eq!(writer.segments().expect("headers can be read"), std::slice::from_ref(&segment));
        assert!(writer.frames(&segment).is_err(), "a key that writes reads the log");
    }

    #[test]
    fn a_changed_byte_is_found() {
        let archive = Archive::init(Memory::new(usize::MAX), None).expect("it is empty");
        let segment = archive.put_segment("a", 7, &[frame(5, &[b'x'; 500])]).expect("there is room");
        let object = format!("{FOLDER}/{}", segment.name);
        let bytes = archive.store.get(&object).expect("it is there");
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            archive.store.delete(&object).expect("it is there");
            archive.store.put_new(&object, &changed).expect("there is room");
            let read = archive.segments().and_then(|segments| archive.frames(&segments[0]));
            assert!(read.is_err(), "byte {at}");
        }
    }
}
