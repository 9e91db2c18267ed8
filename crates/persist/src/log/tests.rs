//! Tests of the log: against a model, and with threads.

use super::*;
use std::collections::HashMap;
use std::sync::Condvar;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

/// A linear congruential generator; its upper bits are good enough here.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    /// Units of all the sizes that are treated differently.
    fn size(&mut self) -> usize {
        let bound = [60, 60, 60, 900, 3000, 15_000, 40_000, 100_000][self.below(8) as usize];
        self.below(bound) as usize
    }
}

fn unit_of(database: usize, words: &[&[u8]]) -> Unit {
    let mut unit = Unit::default();
    unit.push(database, words.iter().copied());
    unit
}

/// Everything that can be read up to `until`, with the LSNs at which chunks end.
fn read(reader: &mut Reader, until: Lsn) -> (Vec<u8>, Vec<Lsn>) {
    let (mut chunks, mut bytes, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    let mut lsn = reader.lsn();
    reader.read(until, usize::MAX, &mut chunks).expect("it is not lost");
    for chunk in &chunks {
        assert_eq!((chunk.lsn(), chunk.end()), (lsn, lsn + chunk.bytes().len() as u64));
        lsn = chunk.end();
        bytes.extend_from_slice(chunk.bytes());
        ends.push(lsn);
    }
    assert_eq!(lsn, reader.lsn());
    (bytes, ends)
}

#[test]
fn an_lsn_is_an_offset_in_the_stream() {
    let log = Arc::new(Log::default());
    assert_eq!(log.append(&mut unit_of(0, &[b"DEL", b"a"]), 0), 0);
    assert!(!log.has_readers());
    let mut reader = log.register(Start::Fresh, u64::MAX, None).expect("it begins at the end");
    let first = log.append(&mut unit_of(1, &[b"DEL", b"a"]), 0);
    assert_eq!(
        read(&mut reader, u64::MAX).0,
        b"*2\r\n$6\r\nSELECT\r\n$1\r\n1\r\n*2\r\n$3\r\nDEL\r\n$1\r\na\r\n"
    );
    let mut unit = unit_of(1, &[b"DEL", b"b"]);
    unit.push(1, [&b"DEL"[..], b"c"]);
    let second = log.append(&mut unit, 0);
    assert!(unit.is_empty());
    let text = b"*1\r\n$5\r\nMULTI\r\n*2\r\n$3\r\nDEL\r\n$1\r\nb\r\n\
                 *2\r\n$3\r\nDEL\r\n$1\r\nc\r\n*1\r\n$4\r\nEXEC\r\n";
    assert_eq!((read(&mut reader, first).0.len(), &read(&mut reader, second).0[..]), (0, &text[..]));
    assert_eq!((first + text.len() as u64, log.end(), log.units()), (second, second, 2));
    assert_eq!(log.restart(), second);
    log.append(&mut unit_of(1, &[b"PING"]), 0);
    assert!(read(&mut reader, u64::MAX).0.starts_with(b"*2\r\n$6\r\nSELECT\r\n"));
    drop(reader);
    assert!(!log.has_readers());
    let end = log.end();
    assert_eq!(log.append(&mut unit_of(1, &[b"PING"]), 0), end);
}

#[test]
fn the_bytes_of_a_command_are_a_unit_where_that_is_a_copy() {
    let log = Arc::new(Log::default());
    let (short, long) = (&b"*1\r\n$4\r\nPING\r\n"[..], [b'x'; COPIED_LOCKED_BYTES_MAX + 1]);
    assert_eq!(log.append_encoded(0, short, 0), Some(0), "nobody reads");
    let mut reader = log.register(Start::Fresh, u64::MAX, None).expect("it begins at the end");
    assert_eq!(log.append_encoded(3, short, 0), None, "SELECT must precede it");
    let selected = log.append(&mut unit_of(3, &[b"PING"]), 0);
    assert_eq!((log.append_encoded(4, short, 0), log.append_encoded(3, &long, 0)), (None, None));
    assert_eq!((log.end(), log.units()), (selected, 1));
    let end = selected + short.len() as u64;
    assert_eq!((log.append_encoded(3, short, 0), log.end(), log.units()), (Some(end), end, 2));
    assert_eq!(log.append_encoded(3, short, 7), Some(end + short.len() as u64));
    let (bytes, ends) = read(&mut reader, u64::MAX);
    assert_eq!(
        (&bytes[selected as usize..], ends),
        (&short.repeat(2)[..], vec![end, end + short.len() as u64])
    );
}

#[test]
fn a_unit_that_is_being_copied_is_read_by_nobody() {
    let log = Arc::new(Log::default());
    let mut reader = log.register(Start::Fresh, u64::MAX, None).expect("it begins at the end");
    let before = log.append(&mut unit_of(0, &[b"DEL", b"a"]), 0);
    let mut held = unit_of(0, &[b"DEL", &[b'x'; 2000]]);
    let mut reservation = None;
    let middle = log.reserve(&mut held, 0, &mut reservation);
    let (reservation, start) = reservation.expect("units of this size are copied outside the lock");
    let small = log.append(&mut unit_of(0, &[b"DEL", b"b"]), 0);
    let large = log.append(&mut unit_of(0, &[b"DEL", &[b'y'; 50_000]]), 0);
    let end = log.append(&mut unit_of(0, &[b"DEL", b"c"]), 0);
    assert!(before < middle && middle < small && small < large && large < end);
    assert_eq!((read(&mut reader, u64::MAX).1, reader.has_more(), log.end()), (vec![before], false, end));
    reservation.fill(held.bytes(start));
    assert!(reader.has_more());
    assert_eq!(read(&mut reader, u64::MAX).1, [small, large, end]);
    assert!(!reader.has_more());
}

#[test]
fn chunks_end_where_the_second_changes() {
    let log = Arc::new(Log::default());
    let mut reader = log.register(Start::Fresh, u64::MAX, None).expect("it begins at the end");
    for time_s in [7, 7, 9, 8, 0, 9, 10] {
        log.append(&mut unit_of(0, &[b"PING"]), time_s);
    }
    let mut chunks = Vec::new();
    reader.read(u64::MAX, usize::MAX, &mut chunks).expect("it is not lost");
    let found: Vec<_> = chunks.iter().map(|chunk| (chunk.time_s(), chunk.bytes().len())).collect();
    assert_eq!(found, [(7, 23 + 28), (9, 56), (10, 14)]);
}

#[test]
fn slow_readers_are_lost_and_others_are_not() {
    let log = Arc::new(Log::default());
    let mut slow = log.register(Start::Fresh, 200_000, None).expect("it begins at the end");
    let mut fast = log.register(Start::Fresh, 200_000, None).expect("it begins at the end");
    let idle = log.register(Start::Fresh, u64::MAX, None).expect("it begins at the end");
    let backlog = log.keep(100_000);
    let (mut all, mut lost) = (Vec::new(), None);
    for number in 0..4000 {
        log.append(&mut unit_of(0, &[b"SET", format!("{number}").as_bytes(), &[b'x'; 200]]), 0);
        all.extend(read(&mut fast, u64::MAX).0);
        if number % 100 == 0 {
            let outcome = slow.read(u64::MAX, 1000, &mut Vec::new());
            lost = lost.or(outcome.err());
        }
    }
    let Lost { bytes } = lost.expect("it has read too little");
    assert!((200_000..300_000).contains(&bytes), "{bytes}");
    assert!(slow.has_more());
    let end = log.end();
    assert_eq!((all.len() as u64, backlog.first()), (end, 0));
    drop(idle);
    let first = backlog.first();
    assert!((end - 200_000..end - 100_000).contains(&first), "{first} of {end}");
    let refused = log.register(Start::At(first - 1), u64::MAX, None).err();
    assert_eq!(refused, Some(NotKept { first, end }));
    assert!(log.register(Start::At(end + 1), u64::MAX, None).is_err());
    let mut back = log.register(Start::At(first + 1), u64::MAX, None).expect("it is kept");
    assert_eq!(read(&mut back, u64::MAX).0, all[first as usize + 1..]);
    backlog.resize(0);
    assert!(backlog.first() > end - 100_000);
    drop((slow, fast, back, backlog));
    assert!(!log.has_readers());
}

#[test]
fn no_select_precedes_a_neutral_unit() {
    const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";
    let log = Arc::new(Log::default());
    let mut reader = log.register(Start::Fresh, u64::MAX, None).expect("it begins at the end");
    let mut unit = Unit::default();
    let mut ping = || {
        unit.set_neutral([&b"PING"[..]]);
        log.append(&mut unit, 0);
    };
    ping();
    assert_eq!((read(&mut reader, u64::MAX).0, log.database()), (PING.to_vec(), None));
    log.append(&mut unit_of(3, &[b"DEL", b"a"]), 0);
    let _select_and_delete = read(&mut reader, u64::MAX);
    ping();
    assert_eq!((read(&mut reader, u64::MAX).0, log.database()), (PING.to_vec(), Some(3)));
}

#[test]
fn verbatim_units_are_logged_as_they_are() {
    let log = Arc::new(Log::default());
    let backlog = log.keep(1 << 20);
    assert_eq!(log.database(), None);
    let append = |bytes: &[u8], database| {
        let mut unit = Unit::default();
        unit.set_verbatim(bytes, database);
        let end = log.append(&mut unit, 0);
        assert!(unit.is_empty() && !unit.is_verbatim());
        end
    };
    let first = b"*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n*1\r\n$5\r\nMULTI\r\n*2\r\n$3\r\nDEL\r\n$1\r\na\r\n";
    let second = b"*2\r\n$3\r\nDEL\r\n$1\r\nb\r\n*1\r\n$4\r\nEXEC\r\n*1\r\n$4\r\nPING\r\n";
    let large = [&b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$40000\r\n"[..], &[b'x'; 40_000], b"\r\n"].concat();
    let middle = append(first, 3);
    let mut here = log.register(Start::Here, u64::MAX, None).expect("it begins at the end");
    assert_eq!((middle, log.database(), here.behind()), (first.len() as u64, Some(3), 0));
    append(second, 3);
    append(&large, 3);
    // A primary again: its first unit needs no SELECT, unless it begins anew.
    log.append(&mut unit_of(3, &[b"PING"]), 0);
    assert_eq!(here.behind(), log.end() - middle);
    assert_eq!(read(&mut here, u64::MAX).0, [second, &large[..], b"*1\r\n$4\r\nPING\r\n"].concat());
    let mut whole = log.register(Start::At(backlog.first()), u64::MAX, None).expect("it is kept");
    assert!(read(&mut whole, middle).0 == first);
    assert_eq!(whole.behind(), backlog.bytes() - middle);
    append(b"*1\r\n$4\r\nPING\r\n", 5);
    assert_eq!((log.database(), log.restart()), (Some(5), log.end()));
    assert_eq!(log.database(), None);
    log.set_database(Some(2));
    assert_eq!(log.database(), Some(2));
    drop((backlog, here, whole));
    log.set_database(Some(2));
    assert_eq!(log.database(), None, "nothing is known without a reader");
}

/// A backlog that nobody reads holds what it must, and not much more.
#[test]
fn a_backlog_without_readers_is_bounded() {
    const KEPT: u64 = 300_000;
    let log = Arc::new(Log::default());
    {
        let _former = log.keep(1000);
        log.append(&mut unit_of(0, &[b"PING"]), 0);
    }
    let (begin, backlog) = (log.end(), log.keep(KEPT));
    assert_eq!((backlog.first(), backlog.bytes()), (begin, 0));
    let (mut kept, mut text, mut random) = (KEPT, Vec::new(), Random(7));
    for number in 0..20_000 {
        let (end, mut unit) = (log.end(), unit_of(0, &[b"SET", b"key", &[b'x'; 50]]));
        if random.below(200) == 0 {
            unit = unit_of(0, &[b"SET", b"key", &vec![b'y'; random.below(40_000) as usize]]);
        }
        let mut reader = log.register(Start::Here, u64::MAX, None).expect("it begins at the end");
        log.append(&mut unit, number / 100);
        text.extend(read(&mut reader, u64::MAX).0);
        assert_eq!(log.end() - end, reader.lsn() - end);
        drop(reader);
        if number == 10_000 {
            kept = KEPT / 10;
            backlog.resize(kept);
        }
        let (bytes, all) = (backlog.bytes(), log.end() - begin);
        assert!(bytes >= all.min(kept) && bytes <= kept + 2 * BLOCK_BYTES as u64, "{bytes} of {all}");
        assert_eq!(bytes, log.end() - backlog.first());
    }
    let kept_text = &text[text.len() - backlog.bytes() as usize..];
    let mut late = log.register(Start::At(backlog.first()), u64::MAX, None).expect("it is kept");
    assert!(read(&mut late, u64::MAX).0 == kept_text);
    // A larger one keeps more from then on, and what belongs to another backlog is not its own.
    backlog.resize(KEPT);
    log.append(&mut unit_of(0, &[b"PING"]), 0);
    let second = log.keep(10);
    assert_eq!((second.first(), second.bytes()), (log.end(), 0));
    assert!(backlog.bytes() > kept);
}

#[test]
fn blocks_are_filled_again() {
    let log = Arc::new(Log::default());
    let mut reader = log.register(Start::Fresh, u64::MAX, None).expect("it begins at the end");
    let mut blocks = Vec::new();
    for _ in 0..5000 {
        log.append(&mut unit_of(0, &[b"SET", b"key", &[b'x'; 200]]), 0);
        read(&mut reader, u64::MAX);
        let state = log.locked();
        let block = state.writer.as_ref().map(|writer| Arc::as_ptr(writer.block()));
        if !blocks.contains(&block) {
            blocks.push(block);
        }
    }
    assert!(blocks.len() <= 2, "{} blocks", blocks.len());
    let chunk = {
        let mut chunks = Vec::new();
        log.append(&mut unit_of(0, &[b"SET", b"key", b"kept"]), 0);
        reader.read(u64::MAX, usize::MAX, &mut chunks).expect("it is not lost");
        chunks.pop().expect("there was one")
    };
    for _ in 0..5000 {
        log.append(&mut unit_of(0, &[b"SET", b"key", &[b'x'; 200]]), 0);
        read(&mut reader, u64::MAX);
    }
    assert!(chunk.bytes().ends_with(b"$4\r\nkept\r\n"), "what a reader has taken does not change");
}

/// Where requests end in a text, as numbers of commands, and the words of each.
fn commands(text: &[u8]) -> Vec<(usize, Vec<Vec<u8>>)> {
    let (mut at, mut found) = (0, Vec::new());
    let line = |at: &mut usize| {
        let end = *at + text[*at..].iter().position(|&byte| byte == b'\n').expect("a line ends");
        let number = std::str::from_utf8(&text[*at + 1..end - 1]).expect("a number").parse::<usize>();
        *at = end + 1;
        number.expect("a number")
    };
    while at < text.len() {
        let count = line(&mut at);
        let words = (0..count).map(|_| {
            let len = line(&mut at);
            let word = text[at..at + len].to_vec();
            at += len + 2;
            word
        });
        let words: Vec<_> = words.collect();
        found.push((at, words));
    }
    found
}

/// Applies a stream that begins fresh: every command must be of one unit of one appender, in the order of
/// that appender, on its database, and whole. Returns where units end.
fn check_stream(text: &[u8], appenders: usize) -> Vec<Lsn> {
    let (mut database, mut is_multi, mut parts) = (None, false, Vec::new());
    let (mut next, mut ends) = (HashMap::new(), Vec::new());
    for (end, words) in commands(text) {
        match &words[0][..] {
            b"SELECT" => database = Some(words[1].clone()),
            b"MULTI" => is_multi = true,
            b"EXEC" => is_multi = false,
            _ => {
                assert_eq!(database.as_ref(), Some(&words[4]), "a command runs on its database");
                parts.push(words);
            }
        }
        if is_multi || parts.is_empty() {
            continue;
        }
        let number = |word: &[u8]| String::from_utf8_lossy(word).parse::<usize>().expect("a number");
        let (appender, unit) = (number(&parts[0][1]), number(&parts[0][2]));
        let expected = next.entry(appender).or_insert(0);
        assert_eq!(unit, *expected, "appender {appender}");
        *expected += 1;
        for (part, words) in parts.drain(..).enumerate() {
            assert_eq!((number(&words[1]), number(&words[2]), number(&words[3])), (appender, unit, part));
            assert!(words[5].iter().all(|&byte| byte == b'a' + appender as u8), "bytes of another unit");
        }
        ends.push(end as Lsn);
    }
    assert!(next.len() <= appenders && !is_multi);
    ends
}

/// Returns the number of commands.
fn fill_unit(unit: &mut Unit, appender: usize, number: usize, random: &mut Random) -> u64 {
    let parts = if random.below(4) == 0 { 2 + random.below(3) } else { 1 };
    for part in 0..parts {
        let database = random.below(3) as usize;
        let words = [appender, number, part as usize, database].map(|number| number.to_string().into_bytes());
        let value = vec![b'a' + appender as u8; random.size()];
        let words = [b"ADD", &words[0][..], &words[1], &words[2], &words[3], &value];
        unit.push(database, words);
    }
    parts
}

/// Appends a unit by the bytes of its only command, if that can be.
fn append_by_bytes(log: &Log, unit: &mut Unit) -> Option<Lsn> {
    let start = unit.wrap();
    log.append_encoded(unit.databases().0, unit.bytes(start), 0)
}

/// The same unit as a primary sends it whose stream has `selected` selected.
fn verbatim(mut unit: Unit, selected: Option<usize>) -> Unit {
    let (first_database, last_database) = unit.databases();
    let mut start = unit.wrap();
    if selected != Some(first_database) {
        start = unit.select(start);
    }
    let bytes = unit.bytes(start).to_vec();
    unit.set_verbatim(&bytes, last_database);
    unit
}

/// One thread stands for several appenders, and fills reservations late and in any order; readers of all
/// kinds come and go. A model is the text of all units in order, and the ranges that are not filled.
#[test]
fn readers_see_whole_units_whatever_is_not_filled() {
    for seed in 0..60 {
        let mut random = Random(seed);
        let log = Arc::new(Log::default());
        let mut whole = log.register(Start::Fresh, u64::MAX, None).expect("it begins at the end");
        let backlog = log.keep(random.below(200_000));
        let mut held: Vec<(usize, Lsn, Reservation, Unit, usize)> = Vec::new();
        let (mut seen, mut ends) = (Vec::new(), vec![0]);
        let mut readers: Vec<(Reader, Vec<u8>, Lsn)> = Vec::new();
        let mut numbers = [0; 3];
        for _ in 0..150 {
            let appender = random.below(3) as usize;
            match random.below(8) {
                0..4 if held.iter().all(|(of, ..)| *of != appender) => {
                    let (mut unit, mut reservation) = (Unit::default(), None);
                    let commands = fill_unit(&mut unit, appender, numbers[appender], &mut random);
                    numbers[appender] += 1;
                    let (start, by_bytes) = (log.end(), commands == 1 && random.below(2) == 0);
                    let end = if by_bytes { append_by_bytes(&log, &mut unit) } else { None };
                    if end.is_none() && random.below(3) == 0 {
                        unit = verbatim(unit, log.database());
                    }
                    ends.push(end.unwrap_or_else(|| log.reserve(&mut unit, 0, &mut reservation)));
                    if let Some((reservation, offset)) = reservation {
                        held.push((appender, start, reservation, unit, offset));
                    }
                }
                4 if !held.is_empty() => {
                    let (_, _, reservation, unit, offset) =
                        held.swap_remove(random.below(held.len() as u64) as usize);
                    reservation.fill(unit.bytes(offset));
                }
                5 => {
                    let first = backlog.first();
                    let at = first + random.below(whole.lsn().max(first + 1) - first);
                    if let Ok(reader) = log.register(Start::At(at), 1 << 40, None) {
                        readers.push((reader, Vec::new(), at));
                    }
                }
                6 if !readers.is_empty() => {
                    let index = random.below(readers.len() as u64) as usize;
                    let (reader, bytes, _) = &mut readers[index];
                    let mut chunks = Vec::new();
                    let bytes_max = random.below(100_000) as usize;
                    reader.read(u64::MAX, bytes_max, &mut chunks).expect("it is not lost");
                    let before = bytes.len();
                    chunks.iter().for_each(|chunk| bytes.extend_from_slice(chunk.bytes()));
                    assert!(bytes.len() - before <= bytes_max);
                }
                _ => {
                    let until = ends[random.below(ends.len() as u64) as usize].max(whole.lsn());
                    seen.extend(read(&mut whole, until).0);
                    assert!(ends.contains(&whole.lsn()), "seed {seed}: it is between two units");
                }
            }
            // Nobody has read what is not filled.
            let unfilled = held.iter().map(|(_, start, ..)| *start).min().unwrap_or(log.end());
            assert!(whole.lsn() <= unfilled && readers.iter().all(|(reader, ..)| reader.lsn() <= unfilled));
            assert_eq!(whole.has_more(), whole.lsn() < unfilled, "seed {seed}");
        }
        held.into_iter().for_each(|(_, _, reservation, unit, offset)| reservation.fill(unit.bytes(offset)));
        seen.extend(read(&mut whole, u64::MAX).0);
        assert_eq!(seen.len() as u64, log.end());
        assert_eq!(check_stream(&seen, 3), ends[1..], "seed {seed}");
        for (mut reader, mut bytes, at) in readers {
            bytes.extend(read(&mut reader, u64::MAX).0);
            assert_eq!(bytes, seen[at as usize..], "seed {seed}");
        }
    }
}

/// A thread that sleeps while nothing can be read.
#[derive(Default)]
struct Sleeper {
    is_woken: Mutex<bool>,
    has_woken: Condvar,
    is_done: AtomicBool,
    read_lsn: AtomicU64,
}

impl Sleeper {
    fn wake(&self) {
        *self.is_woken.lock().expect("nobody panics with it") = true;
        self.has_woken.notify_all();
    }

    fn end(&self) {
        self.is_done.store(true, Ordering::SeqCst);
        self.wake();
    }

    fn register(self: &Arc<Self>, log: &Arc<Log>) -> Reader {
        let sleeper = Arc::clone(self);
        let waker: Waker = Arc::new(move || sleeper.wake());
        log.register(Start::Fresh, u64::MAX, Some(waker)).expect("it begins at the end")
    }

    /// Reads until the end is told.
    fn run(&self, reader: &mut Reader) -> Vec<u8> {
        let mut text = Vec::new();
        loop {
            let ended = self.is_done.load(Ordering::SeqCst);
            text.extend(read(reader, u64::MAX).0);
            self.read_lsn.store(reader.lsn(), Ordering::SeqCst);
            if ended {
                return text;
            }
            *self.is_woken.lock().expect("nobody panics with it") = false;
            reader.begin_sleep(0);
            if !reader.has_more() && !self.is_done.load(Ordering::SeqCst) {
                let mut is_woken = self.is_woken.lock().expect("nobody panics with it");
                while !*is_woken {
                    is_woken = self.has_woken.wait(is_woken).expect("nobody panics with it");
                }
            }
            reader.end_sleep();
        }
    }

    /// What a client does: it waits until its unit has been read.
    fn await_read(&self, lsn: Lsn) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.read_lsn.load(Ordering::SeqCst) < lsn {
            assert!(Instant::now() < deadline, "the reader sleeps although a unit can be read");
            thread::yield_now();
        }
    }
}

/// Appends units, and waits for every `waits_each`th to be read.
fn run_appender(log: &Log, sleeper: &Sleeper, appender: usize, units: usize, waits_each: usize) {
    let (mut random, mut unit, mut last) = (Random(appender as u64), Unit::default(), 0);
    for number in 0..units {
        let commands = fill_unit(&mut unit, appender, number, &mut random);
        let by_bytes = if commands == 1 { append_by_bytes(log, &mut unit) } else { None };
        let end = by_bytes.unwrap_or_else(|| log.append(&mut unit, 0));
        unit.clear();
        assert!(end > last);
        last = end;
        log.kick();
        if number.is_multiple_of(waits_each) {
            sleeper.await_read(end);
        }
    }
}

/// One appender that waits for each unit: nobody else wakes the reader.
#[test]
fn a_reader_that_goes_to_sleep_misses_nothing() {
    let (log, sleeper) = (Arc::new(Log::default()), Arc::new(Sleeper::default()));
    let mut reader = sleeper.register(&log);
    thread::scope(|scope| {
        let reading = scope.spawn(|| sleeper.run(&mut reader));
        let appending = scope.spawn(|| run_appender(&log, &sleeper, 0, 3000, 1)).join();
        sleeper.end();
        assert!(appending.is_ok(), "the appender has panicked");
        assert_eq!(check_stream(&reading.join().expect("it does not panic"), 1).len(), 3000);
    });
}

/// Real threads: appenders that now and then wait until a unit of theirs is read; a reader that sleeps when
/// nothing is there, one that is slow, and one that begins in the middle.
#[test]
fn appenders_and_readers_at_once() {
    const APPENDERS: usize = 3;
    const UNITS: usize = 1000;
    for _ in 0..4 {
        let (log, sleeper) = (Arc::new(Log::default()), Arc::new(Sleeper::default()));
        let mut reader = sleeper.register(&log);
        let mut slow = log.register(Start::At(0), u64::MAX, None).expect("nothing was appended");
        let backlog = log.keep(300_000);
        let (text, slow_text) = thread::scope(|scope| {
            let (log, sleeper) = (&log, &sleeper);
            let appenders: Vec<_> = (0..APPENDERS)
                .map(|appender| scope.spawn(move || run_appender(log, sleeper, appender, UNITS, 4)))
                .collect();
            let awake = scope.spawn(|| sleeper.run(&mut reader));
            let slowly = scope.spawn(|| {
                let mut text = Vec::new();
                while !sleeper.is_done.load(Ordering::SeqCst) || slow.has_more() {
                    let mut chunks = Vec::new();
                    slow.read(u64::MAX, 50_000, &mut chunks).expect("it has no limit");
                    chunks.iter().for_each(|chunk| text.extend_from_slice(chunk.bytes()));
                    thread::yield_now();
                }
                text
            });
            let outcomes: Vec<_> = appenders.into_iter().map(|appender| appender.join()).collect();
            sleeper.end();
            assert!(outcomes.iter().all(Result::is_ok), "an appender has panicked");
            (awake.join().expect("it does not panic"), slowly.join().expect("it does not panic"))
        });
        assert_eq!((text.len() as u64, log.units()), (log.end(), (APPENDERS * UNITS) as u64));
        assert!(text == slow_text, "all readers see the same");
        assert_eq!(check_stream(&text, APPENDERS).len(), APPENDERS * UNITS);
        let first = backlog.first();
        let mut late = log.register(Start::At(first), u64::MAX, None).expect("it is kept");
        assert!(read(&mut late, u64::MAX).0 == text[first as usize..]);
    }
}
