//! What a replica refuses its clients, and what it does about expired keys and full memory.

use crate::support::{Ask, Bench, show, words};
use mantissa_engine::replication::apply::Applier;
use mantissa_engine::state::replication::LinkState;

const READ_ONLY: &str = "(error) READONLY You can't write against a read only replica.";
const STALE: &str =
    "(error) MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.";

fn replica(directives: &[(&str, &str)]) -> Bench {
    let bench = Bench::open(directives);
    become_replica(&bench);
    bench
}

fn become_replica(bench: &Bench) {
    let engine = bench.store.engine();
    engine.set_replica(true);
    engine.replication.link.set_state(LinkState::Connected);
}

/// Has the primary say these lines.
fn hear(bench: &Bench, lines: &[&str]) {
    let mut bytes = Vec::new();
    for line in lines {
        let words = words(line);
        bytes.extend(format!("*{}\r\n", words.len()).bytes());
        words.iter().for_each(|word| bytes.extend(format!("${}\r\n{word}\r\n", word.len()).bytes()));
    }
    let applied = Applier::new(bench.store.engine(), 0).apply(&bytes).expect("it is sound");
    assert_eq!(applied.used, bytes.len());
}

#[test]
fn writes_of_clients_are_refused() {
    let bench = replica(&[]);
    let mut client = bench.client();
    hear(&bench, &["SET a 1"]);
    for line in ["SET a 2", "BLPOP l 0", "FLUSHALL", "FUNCTION FLUSH", "SORT a STORE b", "SWAPDB 0 1"] {
        assert_eq!(client.ask(line), READ_ONLY, "{line}");
    }
    assert_eq!(client.ask("GET a"), "1");
    assert_eq!(client.ask("PUBLISH c m"), "0");
    assert_eq!(client.ask("MULTI"), "OK");
    assert_eq!(client.ask("SET a 2"), READ_ONLY);
    assert_eq!(client.ask("GET a"), "QUEUED");
    let aborted = "(error) EXECABORT Transaction discarded because of previous errors.";
    assert_eq!(client.ask("EXEC"), aborted);
    let in_script = show(&client.call(&["EVAL", "return redis.call('set','a','1')", "0"]));
    assert!(in_script.starts_with(&format!("{READ_ONLY} script: ")), "{in_script}");
    assert_eq!(show(&client.call(&["EVAL", "return redis.pcall('set','a','1')", "0"])), READ_ONLY);
    assert_eq!(show(&client.call(&["EVAL", "#!lua\nreturn 1", "0"])), READ_ONLY);
    let reads = "#!lua flags=no-writes\nreturn redis.call('get','a')";
    assert_eq!(show(&client.call(&["EVAL", reads, "0"])), "1");
}

#[test]
fn what_was_queued_before_is_refused_with_exec() {
    let bench = Bench::open(&[]);
    let mut client = bench.client();
    client.ask("MULTI");
    client.ask("SET a 1");
    become_replica(&bench);
    let reason = READ_ONLY.trim_start_matches("(error) ");
    let refused = format!("(error) EXECABORT Transaction discarded because of: {reason}");
    assert_eq!(client.ask("EXEC"), refused);
    assert_eq!(client.ask("GET a"), "nil");
}

#[test]
fn a_writable_replica_takes_writes_and_logs_none() {
    let bench = replica(&[("replica-read-only", "no")]);
    let engine = bench.store.engine();
    let _backlog = engine.log.keep(1 << 20);
    engine.keyspace.set_logged(true);
    let end = engine.log.end();
    assert_eq!(bench.client().ask("SET a 1"), "OK");
    assert_eq!(bench.client().ask("GET a"), "1");
    assert_eq!(engine.log.end(), end, "its log is its primary's stream");
    hear(&bench, &["SET a 2"]);
    assert!(engine.log.end() > end);
}

#[test]
fn without_its_primary_it_answers_what_needs_no_data() {
    let bench = replica(&[("replica-serve-stale-data", "no")]);
    let mut client = bench.client();
    assert_eq!(client.ask("PING"), "PONG");
    bench.store.engine().replication.link.set_state(LinkState::Connect);
    for line in ["GET a", "PING", "WAIT 0 1", "DBSIZE"] {
        assert_eq!(client.ask(line), STALE, "{line}");
    }
    assert_eq!(client.ask("SET a 1"), READ_ONLY);
    assert_eq!(client.ask("PUBLISH c m"), "0");
    assert!(client.ask("INFO replication").contains("role:"));
    assert_eq!(show(&client.call(&["EVAL", "return 1", "0"])), STALE);
    let fresh = "#!lua flags=no-writes\nreturn 1";
    assert_eq!(show(&client.call(&["EVAL", fresh, "0"])), STALE);
    let stale = "#!lua flags=no-writes,allow-stale\nreturn redis.call('get','a')";
    let refused = show(&client.call(&["EVAL", stale, "0"]));
    assert!(refused.starts_with("(error) ERR Can not execute the command on a stale replica script: "));
    client.ask("MULTI");
    assert_eq!(client.ask("CONFIG GET maxmemory"), "QUEUED");
    assert_eq!(client.ask("EXEC"), "[[maxmemory, 0]]");
}

#[test]
fn too_few_replicas_keep_writes_from_running() {
    let bench = Bench::open(&[("min-replicas-to-write", "1")]);
    let mut client = bench.client();
    let refused = "(error) NOREPLICAS Not enough good replicas to write.";
    assert_eq!(client.ask("SET a 1"), refused);
    assert_eq!(client.ask("GET a"), "nil");
    assert_eq!(show(&client.call(&["EVAL", "return redis.pcall('set','a','1')", "0"])), refused);
    client.ask("CONFIG SET min-replicas-to-write 0");
    client.ask("MULTI");
    client.ask("SET a 1");
    bench.client().ask("CONFIG SET min-replicas-to-write 1");
    assert!(client.ask("EXEC").starts_with("(error) EXECABORT"));
}

#[test]
fn expired_keys_are_hidden_until_the_primary_removes_them() {
    let bench = replica(&[]);
    let (mut client, mut background) = (bench.client(), bench.store.background());
    let time = bench.clock.now_ms() + 100;
    hear(
        &bench,
        &[
            &format!("SET a 1 PXAT {time}"),
            &format!("SET b 5 PXAT {time}"),
            "HSET h f 1 g 2",
            &format!("HPEXPIREAT h {time} FIELDS 1 f"),
            "SET live 1",
        ],
    );
    bench.clock.advance_ms(100);
    background.round();
    let hidden =
        [("GET a", "nil"), ("TTL a", "-2"), ("EXISTS a", "0"), ("TYPE a", "none"), ("HGET h f", "nil")];
    for (line, reply) in hidden {
        assert_eq!(client.ask(line), reply, "{line}");
    }
    assert_eq!(client.ask("HGETALL h"), "[g, 2]");
    for line in ["KEYS *", "RANDOMKEY", "SCAN 0 COUNT 1000", "MGET a b"] {
        assert!(!client.ask(line).contains('a'), "{line}");
    }
    background.round();
    assert_eq!(client.ask("DBSIZE"), "4");
    assert!(client.ask("INFO stats").contains("expired_keys:0\r\n"));
    hear(&bench, &["INCR b", "DEL a"]);
    assert_eq!(client.ask("DBSIZE"), "3");
    hear(&bench, &["PERSIST b", "HPERSIST h FIELDS 1 f"]);
    assert_eq!(client.ask("GET b"), "6", "the primary finds what has expired here");
    assert_eq!(client.ask("HGET h f"), "1");
}

#[test]
fn after_a_promotion_keys_expire() {
    let bench = replica(&[]);
    let (mut client, mut background) = (bench.client(), bench.store.background());
    let time = bench.clock.now_ms() + 100;
    let lines = ["a", "b"].map(|key| format!("SET {key} 1 PXAT {time}"));
    hear(&bench, &lines.each_ref().map(String::as_str));
    bench.clock.advance_ms(100);
    assert_eq!(client.ask("GET a"), "nil");
    assert_eq!(client.ask("DBSIZE"), "2");
    bench.store.engine().set_replica(false);
    assert_eq!(client.ask("GET a"), "nil");
    assert_eq!(client.ask("DBSIZE"), "1");
    for _ in 0..20 {
        background.round();
    }
    assert_eq!(client.ask("DBSIZE"), "0");
}

#[test]
fn writes_to_a_writable_replica_find_no_expired_key() {
    let bench = replica(&[("replica-read-only", "no")]);
    let mut client = bench.client();
    let time = bench.clock.now_ms() + 100;
    hear(&bench, &[&format!("SET n 5 PXAT {time}")]);
    bench.clock.advance_ms(100);
    assert_eq!(client.ask("INCR n"), "1");
    assert_eq!(client.ask("TTL n"), "-1");
}
