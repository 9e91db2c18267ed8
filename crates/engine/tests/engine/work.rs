//! Requests that leave work: what comes to pass between their two runs, and what that leads to.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;

use mantissa_sys::simulation;

use crate::support::{Ask, Bench};

/// Elements with which insertions are planned.
const ELEMENTS: usize = 2200;
/// Points where others may go on, from the first locking on: before it, after it, and after the work.
const POINTS: [usize; 3] = [0, 1, 2];

/// A vector set `full` in database 5.
fn bench(directives: &[(&str, &str)]) -> Bench {
    let bench = Bench::open(directives);
    let mut client = bench.client();
    client.ask("SELECT 5");
    for number in 0..ELEMENTS {
        // In a circle.
        let angle = number as f64 * 0.1;
        let line = format!("VADD full VALUES 2 {} {} e{number} EF 8", angle.cos(), angle.sin());
        assert_eq!(client.ask(&line), "1");
    }
    drop(client);
    bench
}

/// Adds to a copy `v` of the set, while another client runs a command after so many points where it may.
fn add_while(bench: &Bench, points: usize, other: &str) -> String {
    let mut client = bench.client();
    client.ask("SELECT 5");
    assert_eq!(client.ask("COPY full v DB 0 REPLACE"), "1");
    client.ask("SELECT 0");
    let (start, started) = channel::<()>();
    let (end, ended) = channel::<()>();
    let (store, clock) = (&bench.store, Arc::clone(&bench.clock));
    thread::scope(|scope| {
        scope.spawn(move || {
            let _entered = simulation::enter(clock);
            if started.recv().is_ok() {
                let mut client = store.client().expect("a client is free");
                let reply = client.ask(other);
                assert!(!reply.starts_with("(error)"), "{other}: {reply}");
                end.send(()).expect("somebody waits");
            }
        });
        let interrupt = move || {
            start.send(()).expect("somebody waits");
            ended.recv().expect("the command has run");
        };
        bench.clock.interrupt_after(points, Box::new(interrupt));
        let reply = client.ask("VADD v VALUES 2 0.3 0.4 new");
        // Drops what has not happened.
        bench.clock.interrupt_after(usize::MAX, Box::new(|| ()));
        reply
    })
}

#[test]
fn a_request_is_admitted_again_once_its_work_is_done() {
    let bench = bench(&[]);
    let refusals = [
        ("CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0", "NOREPLICAS"),
        ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0", "OOM"),
        ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE", "READONLY"),
    ];
    for (other, undone, refusal) in refusals {
        for points in POINTS {
            let reply = add_while(&bench, points, other);
            let mut client = bench.client();
            client.ask(undone);
            assert!(reply.starts_with(&format!("(error) {refusal}")), "{other} after {points}: {reply}");
            assert_eq!(client.ask("VCARD v"), ELEMENTS.to_string(), "{other} after {points}");
        }
    }
}

#[test]
fn a_request_waits_for_the_end_of_a_pause_that_has_begun_while_its_work_was_done() {
    let bench = bench(&[]);
    for kind in ["WRITE", "ALL"] {
        for points in POINTS {
            let began = bench.clock.now_ms();
            assert_eq!(add_while(&bench, points, &format!("CLIENT PAUSE 5000 {kind}")), "1");
            assert!(bench.clock.now_ms() >= began + 5000, "{kind} after {points}");
        }
    }
}

#[test]
fn what_others_do_to_the_key_while_work_is_done_counts() {
    let bench = bench(&[]);
    let cases = [
        (
            "SET v text",
            "(error) WRONGTYPE Operation against a key holding the wrong kind of value",
            "string",
            0,
        ),
        ("DEL v", "1", "vectorset", 1),
        ("FLUSHDB", "1", "vectorset", 1),
        ("VADD v VALUES 2 1 1 new", "0", "vectorset", ELEMENTS + 1),
        ("VADD v VALUES 2 1 1 other", "1", "vectorset", ELEMENTS + 2),
        ("VREM v e7", "1", "vectorset", ELEMENTS),
        ("RENAME v away", "1", "vectorset", 1),
        ("SWAPDB 0 1", "1", "vectorset", 1),
        ("PEXPIRE v 0", "1", "vectorset", 1),
    ];
    for (other, expected, kind, size) in cases {
        for points in POINTS {
            assert_eq!(add_while(&bench, points, other), expected, "{other} after {points}");
            let mut client = bench.client();
            assert_eq!(client.ask("TYPE v"), kind, "{other} after {points}");
            if size > 0 {
                assert_eq!(client.ask("VCARD v"), size.to_string(), "{other} after {points}");
            }
            if other.starts_with("SWAPDB") {
                client.ask("DEL v");
                client.ask(other);
            }
        }
    }
}

#[test]
fn a_request_with_work_is_counted_and_logged_once() {
    let bench = bench(&[("appendonly", "yes")]);
    let mut client = bench.client();
    client.ask("SELECT 5");
    client.ask("CONFIG RESETSTAT");
    assert_eq!(client.ask("VADD full VALUES 2 0.3 0.4 new"), "1");
    let stats = client.ask("INFO all");
    assert!(stats.contains("cmdstat_vadd:calls=1,"), "{stats}");
    assert!(stats.contains("keyspace_hits:0\r\n") && stats.contains("keyspace_misses:0\r\n"), "{stats}");
}

#[test]
fn a_request_with_work_marks_its_key_as_used_once() {
    let bench = bench(&[("maxmemory-policy", "allkeys-lfu"), ("lfu-log-factor", "0")]);
    let mut client = bench.client();
    client.ask("SELECT 5");
    // It has reached its end while it was filled.
    bench.clock.advance_ms(100 * 60_000);
    let before: u64 = client.ask("OBJECT FREQ full").parse().expect("a number");
    assert_eq!(client.ask("VADD full VALUES 2 0.3 0.4 new"), "1");
    assert_eq!(client.ask("OBJECT FREQ full"), (before + 1).to_string());
}
