//! Expiry of fields, as clients, the log and subscribers see it.

use crate::expire_cycle;
use crate::testing::Bench;

fn bench() -> Bench {
    let mut bench = Bench::new();
    bench.keyspace.set_logged(true);
    bench.settings.notify = u32::MAX;
    bench
}

/// Runs active expiry on all shards and returns the events and the number of fields removed.
fn cycle(bench: &mut Bench) -> (Vec<&'static str>, u64) {
    let (mut events, mut removed) = (Vec::new(), 0);
    for shard in 0..bench.keyspace.shard_count() {
        let (_, effects) =
            bench.with_shard(
                shard,
                |access| while expire_cycle(access, shard, 20, &mut Vec::new()).removed > 0 {},
            );
        events.extend(effects.events.iter().map(|event| event.name));
        removed += effects.expired_fields_count;
    }
    (events, removed)
}

#[test]
fn expired_fields_are_invisible_at_once() {
    for filler in [0, 600] {
        let mut bench = bench();
        for number in 0..filler {
            bench.run(&format!("HSET h filler:{number} x"));
        }
        bench.run("HSET h gone 1 stays 2");
        bench.run("HPEXPIRE h 10 FIELDS 1 gone");
        bench.now_ms += 10;
        assert_eq!(bench.run("HLEN h"), format!(":{}\r\n", filler + 1));
        assert_eq!(bench.run("HGET h gone"), "$-1\r\n");
        assert_eq!(bench.run("HMGET h gone stays"), "*2\r\n$-1\r\n$1\r\n2\r\n");
        assert_eq!(bench.run("HEXISTS h gone"), ":0\r\n");
        assert_eq!(bench.run("HSTRLEN h gone"), ":0\r\n");
        assert!(!bench.run("HGETALL h").contains("gone"));
        assert!(!bench.run("HKEYS h").contains("gone"));
        assert!(!bench.run("HSCAN h 0 COUNT 10000").contains("gone"));
        assert!(!bench.run("HRANDFIELD h 10000").contains("gone"));
        assert_eq!(bench.run("HTTL h FIELDS 1 gone"), "*1\r\n:-2\r\n");
        assert_eq!(bench.run("HSETNX h gone 5"), ":1\r\n");
        assert_eq!(bench.events()[0], ("hexpired", "h".to_owned()));
        assert_eq!(bench.effects.removed_fields[0].fields, [Box::from(*b"gone")]);
        assert_eq!(bench.run("HTTL h FIELDS 1 gone"), "*1\r\n:-1\r\n");
    }
}

#[test]
fn a_hash_without_live_fields_is_not_there() {
    let mut bench = bench();
    bench.run("HSET h a 1 b 2");
    bench.run("HPEXPIRE h 10 FIELDS 1 a");
    bench.run("HPEXPIRE h 20 FIELDS 1 b");
    bench.now_ms += 15;
    assert_eq!(bench.run("EXISTS h"), ":1\r\n");
    bench.now_ms += 5;
    assert_eq!(bench.run("EXISTS h"), ":0\r\n");
    assert_eq!(bench.run("TYPE h"), "+none\r\n");
    bench.run("HSET h a 1");
    bench.run("HPEXPIRE h 10 FIELDS 1 a");
    bench.now_ms += 10;
    assert_eq!(bench.run("LPUSH h x"), ":1\r\n");
    let names: Vec<&str> = bench.events().iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["hexpired", "del", "new", "lpush"]);
}

#[test]
fn active_expiry_finds_fields_wherever_the_hash_went() {
    let mut bench = bench();
    for number in 0..1_000 {
        bench.run(&format!("HSET h f{number} x"));
        bench.run(&format!("HPEXPIRE h {} FIELDS 1 f{number}", 10 + number % 7));
    }
    bench.run("HSET h stays 1");
    bench.run("COPY h copy");
    bench.run("RENAME h moved");
    bench.run("HSET other a 1");
    bench.run("HPEXPIRE other 5 FIELDS 1 a");
    bench.run("SET other x");
    assert_eq!(cycle(&mut bench), (Vec::new(), 0));
    bench.now_ms += 100;
    let (events, removed) = cycle(&mut bench);
    assert_eq!(removed, 2_000);
    assert!(events.iter().all(|name| *name == "hexpired"));
    assert_eq!(bench.run("HGETALL moved"), "*2\r\n$5\r\nstays\r\n$1\r\n1\r\n");
    assert_eq!(bench.run("HLEN copy"), ":1\r\n");

    bench.run("HPEXPIRE copy 10 FIELDS 1 stays");
    bench.now_ms += 10;
    assert_eq!(cycle(&mut bench), (vec!["hexpired", "del"], 1));
    assert_eq!(bench.run("DBSIZE"), ":2\r\n");
}

#[test]
fn the_log_has_absolute_times_and_results() {
    let mut bench = bench();
    let log = |bench: &mut Bench, command: &str| {
        bench.run(command);
        bench.log()
    };
    let time = bench.now_ms + 10_000;
    bench.run("HSET h a 1 b 2 c 3");
    assert_eq!(log(&mut bench, "HEXPIRE h 10 FIELDS 2 a x"), [format!("HPEXPIREAT h {time} FIELDS 1 a")]);
    assert_eq!(log(&mut bench, "HEXPIRE h 0 FIELDS 1 c"), ["HDEL h c"]);
    assert_eq!(log(&mut bench, "HGETEX h EX 10 FIELDS 1 b"), [format!("HPEXPIREAT h {time} FIELDS 1 b")]);
    assert_eq!(log(&mut bench, "HGETEX h PERSIST FIELDS 1 b"), ["HPERSIST h FIELDS 1 b"]);
    assert_eq!(
        log(&mut bench, "HSETEX h EX 10 FIELDS 1 d 4"),
        [format!("HSETEX h PXAT {time} FIELDS 1 d 4")]
    );
    assert_eq!(log(&mut bench, "HINCRBYFLOAT h d 0.5"), ["HSETEX h KEEPTTL FIELDS 1 d 4.5"]);
    assert_eq!(log(&mut bench, "HGETDEL h FIELDS 2 d x"), ["HDEL h d"]);
    bench.run("SADD s a");
    assert_eq!(log(&mut bench, "SPOP s"), ["SREM s a"]);
    bench.run("SADD s a b");
    assert_eq!(log(&mut bench, "SPOP s 5"), ["DEL s"]);
    bench.run("SADD s a b c");
    let logged = log(&mut bench, "SPOP s 2");
    assert!(logged.len() == 1 && logged[0].starts_with("SREM s "));
}
