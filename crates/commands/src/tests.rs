//! Tests of the families of strings and keys through their handlers.

use crate::effects::LogChoice;
use crate::testing::Bench;

fn logging_bench() -> Bench {
    let mut bench = Bench::new();
    bench.keyspace.set_logged(true);
    bench.settings.notify = u32::MAX;
    bench
}

#[test]
fn relative_times_are_logged_as_absolute_ones() {
    let mut bench = logging_bench();
    let cases = [
        ("SET a 1", "as it came"),
        ("SET a 1 EX 10", "SET a 1 PXAT 1700000010000"),
        ("SET a 1 EXAT 1800000000 GET", "SET a 1 PXAT 1800000000000"),
        ("SET a 1 PXAT 1800000000001", "as it came"),
        ("SET a 2 KEEPTTL GET", "SET a 2 KEEPTTL"),
        ("SETEX a 1 2", "SET a 2 PXAT 1700000001000"),
        ("PSETEX a 1 2", "SET a 2 PXAT 1700000000001"),
        ("GETSET a 5", "SET a 5"),
        ("GETEX a PX 5", "PEXPIREAT a 1700000000005"),
        ("GETEX a PERSIST", "PERSIST a"),
        ("EXPIRE a 7 NX", "PEXPIREAT a 1700000007000 NX"),
        ("PEXPIREAT a 1800000000000", "as it came"),
        ("INCRBYFLOAT a 0.5", "SET a 5.5 KEEPTTL"),
        ("EXPIREAT a 1", "DEL a"),
        ("SET a 1", "as it came"),
        ("GETDEL a", "DEL a"),
    ];
    for (command, logged) in cases {
        bench.run(command);
        assert_eq!(bench.log(), [logged], "{command}");
        assert!(bench.effects.dirty > 0, "{command}");
    }
}

#[test]
fn commands_that_change_nothing_are_not_counted() {
    let mut bench = logging_bench();
    bench.run("SET a 1");
    bench.run("RPUSH list x");
    let commands = [
        "SET a 2 NX",
        "SET b 2 XX",
        "SETNX a 2",
        "MSETNX a 1 c 1",
        "GETEX a",
        "GETEX a PERSIST",
        "GETDEL no",
        "SETRANGE a 5 \"\"",
        "INCR list",
        "EXPIRE no 1",
        "EXPIRE a 1 XX",
        "PERSIST a",
        "RENAMENX a list",
        "RENAME a a",
        "COPY a list",
        "MOVE no 1",
        "DEL no",
        "SETBIT a 1 0",
        "BITFIELD a GET u8 0",
        "BITOP AND no no2",
        "SORT no STORE no",
    ];
    for command in commands {
        bench.run(command);
        assert_eq!(bench.effects.dirty, 0, "{command}");
    }
}

#[test]
fn expired_keys_are_gone_for_every_command() {
    let mut bench = logging_bench();
    bench.run("SET a 1 PX 10");
    bench.now_ms += 10;
    assert_eq!(bench.run("GET a"), "$-1\r\n");
    bench.run("SET a 1 PX 10");
    bench.now_ms += 10;
    assert_eq!(bench.run("APPEND a x"), ":1\r\n");
    assert_eq!(
        bench.events(),
        [("expired", "a".to_owned()), ("new", "a".to_owned()), ("append", "a".to_owned())]
    );
    assert_eq!(bench.effects.removed_expired.len(), 1);
    bench.run("SET a 1 PX 10");
    bench.now_ms += 10;
    assert_eq!(bench.run("RENAME a b"), "-ERR no such key\r\n");
    assert_eq!(bench.run("KEYS *"), "*0\r\n");
}

#[test]
fn renaming_keeps_the_value_and_the_expiry_whatever_the_form() {
    let mut bench = logging_bench();
    let long = "x".repeat(10_000);
    for value in ["12", "short", &long, "\"\""] {
        bench.run("DEL a b");
        bench.run(&format!("SET a {value} PX 5000"));
        let before = bench.run("GET a");
        assert_eq!(bench.run("COPY a c REPLACE"), ":1\r\n");
        assert_eq!(bench.run("RENAME a a-much-longer-name"), "+OK\r\n");
        assert_eq!(bench.run("MOVE a-much-longer-name 1"), ":1\r\n");
        bench.database = 1;
        assert_eq!(bench.run("RENAME a-much-longer-name b"), "+OK\r\n");
        assert_eq!(bench.run("GET b"), before);
        assert_eq!(bench.run("PTTL b"), ":5000\r\n");
        assert_eq!(bench.run("DEL b"), ":1\r\n");
        bench.database = 0;
        assert_eq!(bench.run("GET c"), before);
        assert_eq!(bench.run("PTTL c"), ":5000\r\n");
    }
    assert_eq!(bench.run("DBSIZE"), ":1\r\n");
}

#[test]
fn a_scan_over_all_shards_returns_every_key_that_stays() {
    let mut bench = Bench::new();
    let key = |number: usize| format!("stable:{number}");
    (0..2_000).for_each(|number| drop(bench.run(&format!("SET {} x", key(number)))));
    let (mut cursor, mut seen, mut round) = ("0".to_owned(), std::collections::HashSet::new(), 0);
    loop {
        let reply = bench.run(&format!("SCAN {cursor} COUNT 7"));
        let mut lines = reply.split("\r\n").filter(|line| !line.starts_with(['*', '$']) && !line.is_empty());
        cursor = lines.next().expect("a cursor").to_owned();
        seen.extend(lines.map(str::to_owned));
        round += 1;
        (0..20).for_each(|number| {
            let passing = format!("passing:{}", (round * 20 + number) % 3_000);
            drop(bench.run(&if round % 300 < 150 {
                format!("SET {passing} x")
            } else {
                format!("DEL {passing}")
            }));
        });
        if cursor == "0" {
            break;
        }
    }
    assert!((0..2_000).all(|number| seen.contains(&key(number))));
}

#[test]
fn scans_filter_by_pattern_and_type() {
    let mut bench = Bench::new();
    bench.run("MSET one 1 two 2");
    bench.run("RPUSH list x");
    assert!(bench.run("SCAN 0 COUNT 1000 TYPE LIST").ends_with("*1\r\n$4\r\nlist\r\n"));
    assert!(bench.run("SCAN 0 COUNT 1000 MATCH t*").ends_with("*1\r\n$3\r\ntwo\r\n"));
    assert!(bench.run("SCAN 0 COUNT 1000 MATCH t* TYPE list").ends_with("*0\r\n"));
    assert_eq!(bench.run("KEYS two"), "*1\r\n$3\r\ntwo\r\n");
    assert_eq!(bench.run("KEYS three"), "*0\r\n");
    assert_eq!(bench.run("SCAN 18446744073709551616"), "-ERR invalid cursor\r\n");
    assert!(bench.run("SCAN 18446744073709551615").starts_with("*2\r\n"));
    assert!(bench.run("SCAN -0 COUNT 1000").starts_with("*2\r\n$1\r\n0\r\n*3\r\n"));
    assert_eq!(bench.run("SCAN -1"), "-ERR invalid cursor\r\n");
    let reply = bench.run_args(&[b"EXPIRE", b"one", b"1", b"\xFF\0x"]);
    assert_eq!(reply, b"-ERR Unsupported option \xFF\r\n");
}

#[test]
fn flushing_and_swapping_reach_watchers_and_waiters() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    let mut bench = logging_bench();
    bench.run("SET there 1");
    let mut flags = Vec::new();
    for key in [&b"there"[..], b"missing"] {
        let shard = bench.keyspace.shard_of(bench.keyspace.hash(key));
        let flag = Arc::new(AtomicBool::new(false));
        let mut locked = bench.keyspace.lock(mantissa_store::ShardSet::one(shard));
        locked.shard_mut(shard).expect("locked").watch(0, key, Arc::clone(&flag), false);
        flags.push(flag);
    }
    bench.run("SWAPDB 0 1");
    let marked = || flags.iter().map(|flag| flag.swap(false, Ordering::Relaxed)).collect::<Vec<_>>();
    assert_eq!(marked(), [true, false]);
    bench.run("SWAPDB 0 1");
    assert_eq!(marked(), [true, false]);
    bench.run("FLUSHALL");
    assert_eq!(marked(), [true, false]);
    assert_eq!(bench.effects.to_free.databases.len(), 1);
    bench.run("FLUSHALL");
    assert_eq!(bench.effects.dirty, 0);
    assert!(matches!(&bench.effects.log, LogChoice::Instead(commands) if commands.len() == 1));
    assert_eq!(marked(), [false, false]);
}

#[test]
fn counting_keeps_integers_in_place() {
    let mut bench = Bench::new();
    assert_eq!(bench.run("INCR n"), ":1\r\n");
    assert_eq!(bench.run("INCRBY n 9223372036854775806"), ":9223372036854775807\r\n");
    assert_eq!(bench.run("INCR n"), "-ERR increment or decrement would overflow\r\n");
    assert_eq!(bench.run("OBJECT ENCODING n"), "$3\r\nint\r\n");
    assert_eq!(bench.run("DECRBY n -9223372036854775808"), "-ERR decrement would overflow\r\n");
    assert_eq!(bench.run("APPEND n 0"), ":20\r\n");
    assert_eq!(bench.run("INCR n"), "-ERR value is not an integer or out of range\r\n");
}

#[test]
fn sorting_matches_a_plain_sort() {
    let mut bench = Bench::new();
    let mut state = 9;
    let numbers: Vec<i64> = (0..500).map(|_| crate::access::split_mix(&mut state) as i64 % 100).collect();
    numbers.iter().for_each(|number| drop(bench.run(&format!("RPUSH list {number}"))));
    let reply = |part: &[i64]| {
        let texts: String = part.iter().map(|n| format!("${}\r\n{n}\r\n", n.to_string().len())).collect();
        format!("*{}\r\n{texts}", part.len())
    };
    let mut sorted = numbers.clone();
    sorted.sort_unstable();
    assert_eq!(bench.run("SORT list"), reply(&sorted));
    for (start, count) in [(0, 10), (100, 30), (490, 100), (400, 90), (0, 500), (600, 5)] {
        let end = (start + count).min(500);
        let part = sorted.get(start.min(500)..end).unwrap_or_default();
        assert_eq!(bench.run(&format!("SORT list LIMIT {start} {count}")), reply(part));
    }
    sorted.reverse();
    assert_eq!(bench.run("SORT list DESC LIMIT 3 4"), reply(&sorted[3..7]));
    let mut stored: Vec<i64> = numbers.clone();
    stored.reverse();
    assert_eq!(bench.run("SORT list BY nosort DESC LIMIT 5 2"), reply(&stored[5..7]));
}

#[test]
fn sorting_follows_the_fine_print() {
    let mut bench = Bench::new();
    bench.run_args(&[b"RPUSH", b"list", b"\0b", b"\0a", b"x"]);
    // What is shown is collated up to the first NUL, what is stored by all bytes.
    assert_eq!(bench.run("SORT list ALPHA"), "*3\r\n$2\r\n\0b\r\n$2\r\n\0a\r\n$1\r\nx\r\n");
    bench.run("SORT list ALPHA STORE stored");
    assert_eq!(bench.run("LRANGE stored 0 -1"), "*3\r\n$2\r\n\0a\r\n$2\r\n\0b\r\n$1\r\nx\r\n");
    // `#` has no star, so that sorting by it is no sorting.
    assert_eq!(bench.run("SORT list BY #"), "*3\r\n$2\r\n\0b\r\n$2\r\n\0a\r\n$1\r\nx\r\n");
    assert_eq!(bench.run("SORT list"), "-ERR One or more scores can't be converted into double\r\n");
    bench.run("RPUSH numbers 3 1 2");
    bench.run("MSET weight:1 30 weight:2 20 weight:3 10");
    assert_eq!(
        bench.run("SORT numbers BY weight:* GET # GET weight:* LIMIT 0 2"),
        "*4\r\n$1\r\n3\r\n$2\r\n10\r\n$1\r\n2\r\n$2\r\n20\r\n"
    );
}

#[test]
fn misses_are_published_in_their_place() {
    let mut bench = logging_bench();
    bench.run("SET a 1 PX 5");
    bench.now_ms += 5;
    bench.run("GETSET a 2");
    let names: Vec<&str> = bench.events().iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["expired", "keymiss", "new", "set"]);
    bench.run("BITOP OR target missing a other");
    let names: Vec<&str> = bench.events().iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["keymiss", "keymiss", "new", "set"]);
    assert_eq!((bench.effects.hits, bench.effects.misses), (1, 2));
}

#[test]
fn ranges_are_checked_in_the_order_of_redis() {
    let mut bench = Bench::new();
    let (syntax, number) = ("-ERR syntax error\r\n", "-ERR value is not an integer or out of range\r\n");
    assert_eq!(bench.run("BITPOS key 1 x 0 y"), number);
    assert_eq!(bench.run("BITPOS key 1 0 x y"), syntax);
    assert_eq!(bench.run("BITCOUNT key 0 x y"), number);
    assert_eq!(bench.run("BITCOUNT key 0 0 y"), syntax);
    assert_eq!(bench.run("BITCOUNT key 0"), syntax);
}

#[test]
fn the_empty_key_is_a_key_like_any_other() {
    let mut bench = logging_bench();
    bench.run("SET \"\" 1 PX 5");
    assert_eq!(bench.run("TOUCH \"\" other \"\""), ":2\r\n");
    bench.now_ms += 5;
    assert_eq!(bench.run("TOUCH \"\" other \"\""), ":0\r\n");
    assert_eq!(bench.run("DBSIZE"), ":0\r\n");
}
