//! Applying a primary's stream: data, log and offsets, however the stream is cut.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::hostile_stream;
use crate::support::{Ask, Bench, Clock, Folder, show, words};
use mantissa_engine::Engine;
use mantissa_engine::embedded::Embedded;
use mantissa_engine::replication::apply::Applier;
use mantissa_persist::log::{Backlog, Reader, Start};

const BACKLOG_BYTES: u64 = 64 << 20;

/// A server whose log is kept, and a reader of it.
struct Logged {
    reader: Reader,
    _backlog: Backlog,
}

impl Logged {
    fn new(engine: &Engine, is_primary: bool) -> Logged {
        let _backlog = engine.log.keep(BACKLOG_BYTES);
        engine.keyspace.set_logged(is_primary);
        engine.set_replica(!is_primary);
        let reader = engine.log.register(Start::Fresh, u64::MAX, None).expect("the end is kept");
        Logged { reader, _backlog }
    }

    /// What has been logged since the last call.
    fn take(&mut self) -> Vec<u8> {
        let mut chunks = Vec::new();
        self.reader.read(u64::MAX, usize::MAX, &mut chunks).expect("the reader keeps up");
        chunks.iter().flat_map(|chunk| chunk.bytes().to_vec()).collect()
    }
}

/// Feeds pieces of a stream as a link does. Returns the number of bytes before each acknowledgement.
fn feed<'a>(
    applier: &mut Applier<'_>,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Vec<u64>, String> {
    let (mut rest, mut acknowledged, mut used) = (Vec::new(), Vec::new(), 0);
    for piece in pieces {
        rest.extend_from_slice(piece);
        loop {
            let applied = applier.apply(&rest)?;
            used += applied.used as u64;
            rest.drain(..applied.used);
            if !applied.ack {
                break;
            }
            acknowledged.push(used);
        }
    }
    assert!(rest.is_empty(), "a whole stream is used up");
    Ok(acknowledged)
}

/// A command as a request.
fn request(line: &str) -> Vec<u8> {
    let words = words(line);
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n{word}\r\n", word.len()).bytes());
    }
    bytes
}

fn stream(lines: &[&str]) -> Vec<u8> {
    lines.iter().flat_map(|line| request(line)).collect()
}

fn digest(store: &Embedded) -> String {
    let mut client = store.client().expect("a client is free");
    show(&client.call(&["DEBUG", "DIGEST"]))
}

const MIXED: &[&str] = &[
    "FLUSHALL",
    "SELECT 0",
    "SET a 1",
    "PING",
    "INCR a",
    "MULTI",
    "SET b 1",
    "RPUSH list x y z",
    "SELECT 3",
    "SET c 3",
    "EXEC",
    "REPLCONF GETACK *",
    "HSET hash field value",
    "SELECT 1",
    "MULTI",
    "EXEC",
    "PUBLISH channel message",
    "EVAL redis.call('set','from:script','1') 0",
    "SET soon 1 PXAT 1",
    "SWAPDB 1 2",
    "REPLCONF GETACK *",
    "FUNCTION FLUSH",
    "XADD stream 1-1 f v",
    "SELECT 0",
];

#[test]
fn a_stream_cut_anywhere_has_the_same_effect() {
    let bench = Bench::open(&[("save", "\"\"")]);
    let engine = bench.store.engine();
    let mut log = Logged::new(engine, false);
    let whole = stream(MIXED);
    let acknowledged = feed(&mut Applier::new(engine, 0), [&whole[..]]).expect("it is sound");
    assert_eq!(log.take(), whole);
    let before = |index: usize| stream(&MIXED[..index]).len() as u64;
    assert_eq!(acknowledged, [before(11), before(20)], "a GETACK does not count in its own answer");
    let expected = digest(&bench.store);
    for cut in 1..whole.len() {
        let mut applier = Applier::new(engine, 7);
        let (left, right) = whole.split_at(cut);
        assert_eq!(feed(&mut applier, [left, right]).as_ref(), Ok(&acknowledged), "cut at {cut}");
        assert!(log.take() == whole, "cut at {cut}");
        assert_eq!(digest(&bench.store), expected, "cut at {cut}");
        assert_eq!(applier.database(), 0);
    }
    let mut applier = Applier::new(engine, 7);
    assert_eq!(feed(&mut applier, whole.chunks(1)).as_ref(), Ok(&acknowledged), "byte by byte");
    assert!(log.take() == whole);
    assert_eq!(digest(&bench.store), expected);
    let mut client = bench.client();
    client.ask("SELECT 2");
    assert_eq!(client.ask("DBSIZE"), "2", "what has expired waits for its DEL");
}

#[test]
fn line_feeds_between_commands_are_no_part_of_the_stream() {
    let bench = Bench::open(&[]);
    let mut log = Logged::new(bench.store.engine(), false);
    let mut applier = Applier::new(bench.store.engine(), 0);
    let (set, ping) = (request("SET a 1"), request("PING"));
    let input = [b"\n", &set[..], b"\n\n", &ping, b"\n"].concat();
    assert_eq!(feed(&mut applier, input.chunks(1)), Ok(vec![]));
    assert_eq!(log.take(), [set, ping].concat());
    assert_eq!(bench.client().ask("GET a"), "1");
}

#[test]
fn of_a_transaction_nothing_is_applied_before_its_end() {
    let bench = Bench::open(&[]);
    let mut log = Logged::new(bench.store.engine(), false);
    let mut applier = Applier::new(bench.store.engine(), 0);
    let mut client = bench.client();
    let first = stream(&["SET before 1", "MULTI", "SET a 1"]);
    let applied = applier.apply(&first).expect("it is sound");
    assert_eq!(applied.used, request("SET before 1").len());
    assert_eq!(client.ask("MGET before a"), "[1, nil]");
    assert_eq!(log.take(), request("SET before 1"));
    let all = stream(&["MULTI", "SET a 1", "SET b 1", "EXEC"]);
    assert_eq!(applier.apply(&all).expect("it is sound").used, all.len());
    assert_eq!(client.ask("MGET a b"), "[1, 1]");
    assert_eq!(log.take(), all);
}

#[test]
fn readers_see_all_or_nothing_of_a_transaction() -> io::Result<()> {
    let folder = Folder::new()?;
    let store = Embedded::open_without_background(folder.path(), &[]).expect("it can be opened");
    let _log = Logged::new(store.engine(), false);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = store.client().expect("a client is free");
            while !is_over.load(Ordering::Relaxed) {
                let pair = client.ask("MGET a b");
                let numbers: Vec<&str> = pair.trim_matches(['[', ']']).split(", ").collect();
                assert_eq!(numbers[0], numbers[1]);
            }
        });
        let mut applier = Applier::new(store.engine(), 0);
        for number in 0..2_000 {
            let (a, b) = (format!("SET a {number}"), format!("SET b {number}"));
            let unit = stream(&["MULTI", &a, &b, "EXEC"]);
            feed(&mut applier, unit.chunks(1 + number % 50)).expect("it is sound");
        }
        is_over.store(true, Ordering::Relaxed);
    });
    Ok(())
}

#[test]
fn effects_are_those_of_any_commit() {
    let bench = Bench::open(&[("notify-keyspace-events", "KEA")]);
    let mut log = Logged::new(bench.store.engine(), false);
    let mut applier = Applier::new(bench.store.engine(), 0);
    let (mut watches, mut listens, mut tracks, mut waits) =
        (bench.client(), bench.client(), bench.client(), bench.client());
    watches.ask("WATCH a");
    watches.ask("MULTI");
    watches.ask("GET a");
    listens.ask("HELLO 3");
    listens.ask("SUBSCRIBE __keyevent@0__:set news");
    listens.heard();
    tracks.ask("HELLO 3");
    tracks.ask("CLIENT TRACKING ON");
    tracks.ask("GET a");
    assert_eq!(waits.start("XREAD BLOCK 0 STREAMS stream $"), None);
    let lines = ["SET a 1", "PUBLISH news today", "XADD stream 1-1 f v"];
    feed(&mut applier, [&stream(&lines)[..]]).expect("it is sound");
    assert_eq!(watches.ask("EXEC"), "nil");
    assert_eq!(listens.heard(), [">[message, __keyevent@0__:set, a]", ">[message, news, today]"]);
    assert_eq!(tracks.heard(), [">[invalidate, [a]]"]);
    assert_eq!(waits.served().as_deref(), Some("[[stream, [[1-1, [f, v]]]]]"));
    assert_eq!(log.take(), stream(&lines));
    let stats = bench.client().ask("INFO commandstats");
    assert!(stats.contains("cmdstat_set:calls=1,"), "{stats}");
}

#[test]
fn what_fails_is_logged_all_the_same() {
    let bench = Bench::open(&[]);
    let mut log = Logged::new(bench.store.engine(), false);
    let mut applier = Applier::new(bench.store.engine(), 0);
    let lines =
        ["SET a 1", "NOSUCH a", "LPUSH a x", "MULTI", "GARBAGE", "INCR a", "EXEC", "SELECT 99", "INCR a"];
    feed(&mut applier, [&stream(&lines)[..]]).expect("errors are ignored");
    assert_eq!(bench.client().ask("GET a"), "3");
    assert_eq!(log.take(), stream(&lines));
}

#[test]
fn an_error_ends_the_stream_where_that_is_configured() {
    let bench = Bench::open(&[("propagation-error-behavior", "panic-on-replicas")]);
    let mut log = Logged::new(bench.store.engine(), false);
    let mut applier = Applier::new(bench.store.engine(), 0);
    let input = stream(&["SET a 1", "LPUSH a x", "SET a 2"]);
    assert!(applier.apply(&input).expect_err("it ends").contains("panicked"));
    assert_eq!(log.take(), stream(&["SET a 1", "LPUSH a x"]));
    assert_eq!(bench.client().ask("GET a"), "1");
}

#[test]
fn damage_ends_the_stream_behind_what_is_sound() {
    for damage in ["GET a\r\n", "*1\r\n:1\r\n", "*0\r\n", "\r\n"] {
        let bench = Bench::open(&[]);
        let mut log = Logged::new(bench.store.engine(), false);
        let mut applier = Applier::new(bench.store.engine(), 0);
        let sound = stream(&["SET a 1", "SELECT 1"]);
        let input = [&sound[..], damage.as_bytes()].concat();
        assert!(applier.apply(&input).expect_err("it ends").contains("damaged"), "{damage:?}");
        assert_eq!(log.take(), sound, "{damage:?}");
    }
}

#[test]
fn nothing_is_applied_once_the_primary_has_changed() {
    let bench = Bench::open(&[]);
    let engine = bench.store.engine();
    let mut log = Logged::new(engine, false);
    let mut applier = Applier::new(engine, 0);
    feed(&mut applier, [&request("SET a 1")[..]]).expect("it is sound");
    engine.replication.link.epoch.fetch_add(1, Ordering::AcqRel);
    for line in ["SET a 2", "PING", "MULTI\nSET a 3\nEXEC"] {
        let input: Vec<u8> = line.lines().flat_map(request).collect();
        assert!(applier.apply(&input).is_err());
    }
    assert_eq!(bench.client().ask("GET a"), "1");
    assert_eq!(log.take(), request("SET a 1"));
}

/// A small generator of commands, the same for the same seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn command(&mut self) -> String {
        let key = self.below(12);
        let (one, other) = (self.below(20), self.below(1_000));
        match self.below(34) {
            0 => format!("SET s{key} {other}"),
            1 => format!("SET s{key} {other} PX {}", 1 + other),
            2 => format!("APPEND s{key} {other}"),
            3 => format!("INCRBY s{key} {one}"),
            4 => format!("INCRBYFLOAT f{key} 0.{other}"),
            5 => format!("GETEX s{key} PX {}", 1 + other),
            6 => format!("SETRANGE s{key} {one} x"),
            7 => format!("RPUSH l{key} {one} {other}"),
            8 => format!("LPOP l{key} {}", 1 + one),
            9 => format!("LMOVE l{key} l{one} LEFT RIGHT"),
            10 => format!("LINSERT l{key} BEFORE {one} {other}"),
            11 => format!("SADD t{key} {one} {other}"),
            12 => format!("SPOP t{key} {one}"),
            13 => format!("SUNIONSTORE t{key} t{one} t1"),
            14 => format!("SMOVE t{key} t{one} {other}"),
            15 => format!("ZADD z{key} {other} m{one}"),
            16 => format!("ZINCRBY z{key} 0.5 m{one}"),
            17 => format!("ZPOPMIN z{key}"),
            18 => format!("ZUNIONSTORE z{key} 2 z{one} z1"),
            19 => format!("HSET h{key} f{one} {other}"),
            20 => format!("HPEXPIRE h{key} {} FIELDS 1 f{one}", 1 + other),
            21 => format!("HINCRBYFLOAT h{key} g{one} 1.5"),
            22 => format!("HDEL h{key} f{one}"),
            23 => format!("XADD x{key} MAXLEN ~ 20 * f {other}"),
            24 => format!("XTRIM x{key} MAXLEN {one}"),
            25 => format!("DEL s{key} l{one} t{key}"),
            26 => format!("PEXPIRE l{key} {}", 1 + other),
            27 => format!("RENAME z{key} z{one}"),
            28 => format!("COPY h{key} h{one} REPLACE"),
            29 => format!("PFADD p{key} {other}"),
            30 => format!("SORT l{key} ALPHA STORE l{one}"),
            31 => format!("MOVE s{key} {}", self.below(4)),
            32 => format!("SETBIT b{key} {other} 1"),
            _ => format!("PERSIST s{key}"),
        }
    }
}

#[test]
fn a_recorded_stream_makes_an_equal_server() -> io::Result<()> {
    let seed = std::env::var("MANTISSA_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(21_u64);
    println!("seed {seed}");
    let (clock, entered) = Clock::enter();
    for round in 0..6_u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (round + 1));
        let folders = [Folder::new()?, Folder::new()?];
        let [primary, replica] = folders
            .each_ref()
            .map(|folder| Embedded::open_without_background(folder.path(), &[]).expect("it can be opened"));
        let mut written = Logged::new(primary.engine(), true);
        let mut copied = Logged::new(replica.engine(), false);
        let mut applier = Applier::new(replica.engine(), 0);
        let mut client = primary.client().expect("a client is free");
        for step in 0..1_500 {
            match random.below(40) {
                0 => drop(client.ask(&format!("SELECT {}", random.below(4)))),
                1 => drop(client.ask("MULTI")),
                2 => drop(client.ask("EXEC")),
                3 => clock.advance_ms(random.below(300) as i64),
                4 => {
                    let (key, value) = (format!("s{}", random.below(12)), random.below(9).to_string());
                    let body = "redis.call('SET', KEYS[1], ARGV[1]) redis.call('SADD', 't1', ARGV[1])";
                    client.call(&["EVAL", body, "1", &key, &value]);
                }
                _ => drop(client.ask(&random.command())),
            }
            if random.below(8) == 0 {
                let bytes = written.take();
                let size = 1 + random.below(200) as usize;
                feed(&mut applier, bytes.chunks(size)).unwrap_or_else(|error| panic!("step {step}: {error}"));
                assert!(copied.take() == bytes, "seed {seed}, round {round}, step {step}");
            }
        }
        client.ask("EXEC");
        let bytes = written.take();
        feed(&mut applier, [&bytes[..]]).unwrap_or_else(|error| panic!("{error}"));
        assert!(copied.take() == bytes);
        assert_eq!(digest(&primary), digest(&replica), "seed {seed}, round {round}");
    }
    drop(entered);
    Ok(())
}

#[test]
fn a_damaged_stream_harms_nobody() {
    let bench = Bench::open(&[("save", "\"\"")]);
    let Bench { store, clock: _clock, folder: _folder, .. } = bench;
    let mut replica = hostile_stream::Replica::new(store);
    let mut random = Random(0x5eed);
    let whole = stream(MIXED);
    for _ in 0..1_500 {
        let mut bytes = whole.clone();
        for _ in 0..1 + random.below(4) {
            let at = random.below(bytes.len() as u64) as usize;
            match random.below(4) {
                0 => bytes[at] = random.next() as u8,
                1 => bytes[at] = b"*$\r\n0123456789-"[random.below(15) as usize],
                2 => drop(bytes.remove(at)),
                _ => {
                    let end = bytes.len().min(at + random.below(30) as usize);
                    let again = bytes[at..end].to_vec();
                    bytes.splice(at..at, again);
                }
            }
        }
        let cut = random.below(bytes.len() as u64) as usize;
        replica.hear(&bytes, cut);
    }
}
