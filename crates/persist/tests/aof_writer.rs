//! The writer of an append-only file as a reader of the log: what is in the files is what the log has, from
//! the LSN at which each file begins.

use mantissa_persist::aof::{Item, Reader, SyncPolicy, Writer, WriterControl, WriterError};
use mantissa_persist::log::{Log, Lsn, Start, Unit};
use mantissa_persist::storage::{MemoryStorage, Storage};
use mantissa_protocol::encode_request;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, RwLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

fn new_writer() -> (Arc<Log>, Arc<WriterControl>, Writer) {
    let log = Arc::new(Log::default());
    let control = Arc::new(WriterControl::new(Arc::clone(&log)));
    let writer = Writer::new(Arc::clone(&control));
    (log, control, writer)
}

fn path_of(file: usize) -> PathBuf {
    PathBuf::from(format!("file {file}"))
}

fn switch_to(control: &Arc<WriterControl>, storage: &MemoryStorage, file: usize) {
    let storage = storage.clone();
    control.switch(Box::new(move |_| storage.append(&path_of(file)).map(Some)));
}

fn append(log: &Log, words: &[&[u8]], now_s: i64) -> Lsn {
    let mut unit = Unit::default();
    unit.push(0, words.iter().copied());
    log.append(&mut unit, now_s)
}

/// The commands in a file as they are in the log, and the timestamps.
fn contents(storage: &MemoryStorage, file: usize) -> (Vec<u8>, Vec<i64>) {
    let bytes = storage.read(&path_of(file)).expect("it was made");
    let (mut reader, mut commands) = (Reader::new(&bytes[..], bytes.len() as u64), Vec::new());
    let mut times = Vec::new();
    loop {
        match reader.next_item().expect("it is whole") {
            Some(Item::Command(args)) => encode_request(&mut commands, args),
            Some(Item::Timestamp(time_s)) => times.push(time_s),
            Some(Item::Annotation(_)) => {}
            None => return (commands, times),
        }
    }
}

#[test]
fn nothing_waits_while_there_is_no_file() {
    let (log, control, mut writer) = new_writer();
    let storage = MemoryStorage::new();
    assert_eq!((control.written(), control.durable(), control.unwritten()), (Lsn::MAX, Lsn::MAX, 0));
    assert_eq!(append(&log, &[b"DEL", b"dropped"], 0), 0);
    // Closing what is closed ends too.
    let (sender, closed) = mpsc::channel::<()>();
    control.close(move || drop(sender));
    writer.write_and_sync(Instant::now()).expect("no fault is set");
    assert_eq!(closed.recv(), Err(mpsc::RecvError));
    switch_to(&control, &storage, 0);
    assert_eq!((control.written(), control.durable()), (0, 0));
    let end = append(&log, &[b"DEL", b"kept"], 0);
    assert_eq!(control.unwritten(), end);
    control.close(|| ());
    // It is not closed yet, but this comes after it.
    append(&log, &[b"DEL", b"late"], 0);
    writer.write_and_sync(Instant::now()).expect("no fault is set");
    assert_eq!((control.written(), control.durable(), log.has_readers()), (Lsn::MAX, Lsn::MAX, false));
    assert!(writer.is_idle() && contents(&storage, 0).0.ends_with(b"kept\r\n"));
    let closed_at = log.end();
    assert_eq!(append(&log, &[b"DEL", b"dropped"], 0), closed_at);
    switch_to(&control, &storage, 1);
    assert_eq!(control.durable(), closed_at);
    append(&log, &[b"DEL", b"again"], 0);
    // Closed and opened again before the writer came to it.
    control.close(|| ());
    append(&log, &[b"DEL", b"between"], 0);
    switch_to(&control, &storage, 2);
    let end = append(&log, &[b"DEL", b"last"], 0);
    writer.finish().expect("no fault is set");
    assert_eq!((control.written(), control.durable()), (end, end));
    let text = |file| String::from_utf8(contents(&storage, file).0).expect("it is ASCII");
    assert!(text(1).ends_with("again\r\n") && text(2).ends_with("last\r\n"));
    assert_eq!(text(2).matches("DEL").count(), 1);
}

#[test]
fn what_can_not_be_written_is_lost_on_closing() {
    let (log, control, mut writer) = new_writer();
    let storage = MemoryStorage::new();
    switch_to(&control, &storage, 0);
    writer.write_and_sync(Instant::now()).expect("no fault is set");
    storage.fill_up_after(Some(5));
    append(&log, &[b"DEL", b"a"], 0);
    let outcome = writer.write_and_sync(Instant::now());
    assert!(matches!(outcome, Err(WriterError::Write(_))), "{outcome:?}");
    let (sender, closed) = mpsc::channel::<()>();
    control.close(move || drop(sender));
    append(&log, &[b"DEL", b"b"], 0);
    let outcome = writer.write_and_sync(Instant::now() + Duration::from_secs(5));
    assert!(matches!(outcome, Err(WriterError::Closed(_))), "{outcome:?}");
    assert_eq!(closed.recv(), Err(mpsc::RecvError));
    assert_eq!((control.durable(), log.has_readers(), writer.is_idle()), (Lsn::MAX, false, true));
}

#[test]
fn timestamps_are_those_of_the_commits() {
    let (log, control, mut writer) = new_writer();
    let storage = MemoryStorage::new();
    switch_to(&control, &storage, 0);
    append(&log, &[b"PING"], 5);
    writer.write_and_sync(Instant::now()).expect("no fault is set");
    control.set_notes_time(true);
    append(&log, &[b"PING"], 5);
    append(&log, &[b"PING"], 7);
    append(&log, &[b"PING"], 7);
    switch_to(&control, &storage, 1);
    append(&log, &[b"PING"], 7);
    writer.write_and_sync(Instant::now()).expect("no fault is set");
    control.set_notes_time(false);
    append(&log, &[b"PING"], 9);
    writer.write_and_sync(Instant::now()).expect("no fault is set");
    assert_eq!((contents(&storage, 0).1, contents(&storage, 1).1), (vec![5, 7], vec![7]));
    let bytes = storage.read(&path_of(1)).expect("it was made");
    let notes = bytes.len() - contents(&storage, 1).0.len();
    assert_eq!((notes, control.written()), (b"#TS:7\r\n".len(), log.end()));
}

fn unit_of(appender: usize, number: usize, seed: usize) -> Unit {
    let sizes = [10, 500, 2000, 9000, 40_000];
    let value = vec![b'a' + appender as u8; sizes[number * 7 % 5 / (1 + seed % 2)]];
    let mut unit = Unit::default();
    for part in 0..1 + number % 3 {
        unit.push(number % 2, [&b"SET"[..], format!("{appender} {part}").as_bytes(), &value]);
    }
    unit
}

/// Checks that files which begin at these LSNs hold the stream.
fn check_files(storage: &MemoryStorage, stream: &[u8], begins: &[Lsn]) {
    for (file, &begin) in begins.iter().enumerate() {
        let end = begins.get(file + 1).map_or(stream.len(), |&next| next as usize);
        let (commands, times) = contents(storage, file);
        let commands_begin = commands.strip_prefix(b"*1\r\n$5\r\nMULTI\r\n").unwrap_or(&commands);
        assert!(commands.is_empty() || commands_begin.starts_with(b"*2\r\n$6\r\nSELECT\r\n"));
        assert!(commands == stream[begin as usize..end], "file {file} of {}", begins.len());
        assert!(times.is_sorted() && times.first().is_none_or(|&time_s| time_s > 0));
    }
}

/// Appenders that wait as clients do, the writer's thread, and one who appends and writes at once; now and
/// then the writer goes on with another file, at an instant at which nobody appends.
fn files_hold_the_log(policy: SyncPolicy, seed: usize) {
    const APPENDERS: usize = 3;
    const UNITS: usize = 300;
    let (log, control, writer) = new_writer();
    let storage = MemoryStorage::new();
    control.set_policy(policy);
    control.set_preallocation(5000);
    control.set_notes_time(true);
    let mut all = log.register(Start::Fresh, u64::MAX, None).expect("it begins at the end");
    let (shards, writer, is_done) = (RwLock::new(()), Mutex::new(writer), AtomicBool::new(false));
    switch_to(&control, &storage, 0);
    let confirmed = || match policy {
        SyncPolicy::Always => control.durable(),
        _ => control.written(),
    };
    let write = |writer: &mut Writer| writer.write_and_sync(Instant::now()).expect("no fault is set");
    let appender = |appender: usize| {
        for number in 0..UNITS {
            let mut unit = unit_of(appender, number, seed);
            let lsn = {
                let _locked = shards.read().expect("nobody panics with it");
                log.append(&mut unit, (number / 50) as i64 + 1)
            };
            if appender == 0
                && let Ok(mut writer) = writer.try_lock()
            {
                write(&mut writer);
            }
            log.kick();
            let deadline = Instant::now() + Duration::from_secs(20);
            while number % 4 == 0 && confirmed() < lsn {
                assert!(Instant::now() < deadline, "{policy:?}: unit {number} is not confirmed");
                thread::yield_now();
            }
        }
    };
    let begins = thread::scope(|scope| {
        let appenders: Vec<_> = (0..APPENDERS).map(|index| scope.spawn(move || appender(index))).collect();
        scope.spawn(|| {
            while !is_done.load(Ordering::SeqCst) {
                let pause =
                    writer.lock().expect("nobody panics").pause(Instant::now(), Duration::from_secs(9));
                control.wait(&pause);
                let mut writer = writer.lock().expect("nobody panics with it");
                writer.wait_for_group_commit();
                write(&mut writer);
            }
        });
        let mut begins = vec![0];
        while !appenders.iter().all(|appender| appender.is_finished()) {
            thread::sleep(Duration::from_millis(5));
            let _locked = shards.write().expect("nobody panics with it");
            switch_to(&control, &storage, begins.len());
            begins.push(log.end());
        }
        let outcomes: Vec<_> = appenders.into_iter().map(|appender| appender.join()).collect();
        is_done.store(true, Ordering::SeqCst);
        control.recheck();
        assert!(outcomes.iter().all(Result::is_ok), "an appender has panicked");
        begins
    });
    let mut writer = writer.into_inner().expect("nobody panics with it");
    writer.finish().expect("no fault is set");
    assert_eq!((control.written(), control.durable()), (log.end(), log.end()));
    let (mut chunks, mut stream) = (Vec::new(), Vec::new());
    all.read(Lsn::MAX, usize::MAX, &mut chunks).expect("it has no limit");
    chunks.iter().for_each(|chunk| stream.extend_from_slice(chunk.bytes()));
    check_files(&storage, &stream, &begins);
}

#[test]
fn every_file_holds_the_log_from_where_it_begins() {
    for policy in [SyncPolicy::Always, SyncPolicy::EverySecond, SyncPolicy::Never] {
        (0..2).for_each(|seed| files_hold_the_log(policy, seed));
    }
}
