//! What list commands cause: changes, events, and what is logged for those that may wait.

use crate::effects::EventClass;
use crate::testing::Bench;

fn logging_bench() -> Bench {
    let mut bench = Bench::new();
    bench.keyspace.set_logged(true);
    bench.settings.notify = !EventClass::KEY_MISS.0;
    bench
}

#[test]
fn changes_and_events_are_those_of_redis() {
    let mut bench = logging_bench();
    let cases = [
        ("RPUSH l a b c d a a", 6, "new l, rpush l"),
        ("LPUSH l x y", 2, "lpush l"),
        ("LMOVE l m LEFT RIGHT", 1, "new m, rpush m, lpop l"),
        ("LMOVE l l LEFT RIGHT", 1, "rpush l, lpop l"),
        ("LMOVE m n LEFT LEFT", 1, "new n, lpush n, lpop m, del m"),
        ("RPOPLPUSH n l", 1, "lpush l, rpop n, del n"),
        ("LPOP l 2", 2, "lpop l"),
        ("RPOP l 0", 0, ""),
        ("LREM l 0 a", 2, "lrem l"),
        ("LTRIM l 0 -1", 0, "ltrim l"),
        ("LTRIM l 0 0", 3, "ltrim l"),
        ("LTRIM l 5 6", 1, "ltrim l, del l"),
        ("RPUSH l a b c", 3, "new l, rpush l"),
        ("LSET l 0 a", 1, "lset l"),
        ("LINSERT l AFTER a q", 1, "linsert l"),
        ("LINSERT l AFTER zz q", 0, ""),
        ("LMPOP 1 l LEFT COUNT 10", 4, "lpop l, del l"),
        ("RPUSHX l 1", 0, ""),
    ];
    for (command, dirty, events) in cases {
        bench.run(command);
        let seen: Vec<String> = bench.events().iter().map(|(name, key)| format!("{name} {key}")).collect();
        assert_eq!((bench.effects.dirty, &seen.join(", ")[..]), (dirty, events), "{command}");
    }
}

#[test]
fn commands_that_wait_are_logged_as_ones_that_do_not() {
    let mut bench = logging_bench();
    bench.run("RPUSH l a b c d e f g h");
    let cases = [
        ("BLPOP no l 0", "LPOP l"),
        ("BRPOP no l 0", "RPOP l"),
        ("LMPOP 2 no l RIGHT COUNT 2", "RPOP l 2"),
        ("BLMPOP 0 2 no l LEFT", "LPOP l 1"),
        ("BLMOVE l m LEFT RIGHT 0", "LMOVE l m LEFT RIGHT"),
        ("BRPOPLPUSH l m 0", "RPOPLPUSH l m"),
        ("LMOVE l m LEFT LEFT", "as it came"),
    ];
    for (command, logged) in cases {
        bench.run(command);
        assert_eq!(bench.log(), [logged], "{command}");
    }
    for command in ["BLPOP no no2 1", "BLMPOP 1 2 no no2 LEFT", "BLMOVE no m LEFT LEFT 1"] {
        assert_eq!(bench.run(command), "", "{command}");
        let blocking = bench.effects.blocking.take().expect("the command waits");
        assert_eq!((&*blocking.keys[0], blocking.deadline), (&b"no"[..], Some(1_700_000_001_000)));
    }
}

#[test]
fn the_encoding_changes_both_ways() {
    let mut bench = Bench::new();
    let long = "x".repeat(4000);
    bench.run("RPUSH l a");
    bench.run(&format!("RPUSH l {long} {long}"));
    assert_eq!(bench.run("OBJECT ENCODING l"), "$8\r\nlistpack\r\n");
    bench.run(&format!("RPUSH l {long}"));
    assert_eq!(bench.run("OBJECT ENCODING l"), "$9\r\nquicklist\r\n");
    bench.run("RPOP l 2");
    assert_eq!(bench.run("OBJECT ENCODING l"), "$8\r\nlistpack\r\n");
}
