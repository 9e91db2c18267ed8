//! Walks over all keys that clients wait for, on a virtual clock.

use crate::support::{Ask, Bench};

/// The counts of children by name, of a tree that a round or some more complete.
fn keys_below(bench: &Bench, line: &str) -> String {
    let (mut client, mut background) = (bench.client(), bench.store.background());
    assert_eq!(client.start(line), None);
    for _ in 0..10_000 {
        background.round();
        if let Some(reply) = client.served() {
            return reply;
        }
    }
    panic!("the walk has no end");
}

#[test]
fn a_tree_has_all_keys_below_a_prefix() {
    let bench = Bench::open(&[]);
    let mut client = bench.client();
    for number in 0..5_000 {
        client.ask(&format!("SET a:{number} 1"));
    }
    client.ask("SET b 1 PX 10");
    bench.clock.advance_ms(10);
    let reply = keys_below(&bench, "MANTISSA.TREE a:");
    assert!(reply.contains("keys, 5000"), "{reply}");
    let reply = keys_below(&bench, "MANTISSA.TREE b");
    assert!(reply.contains("keys, 0"), "what has expired does not count: {reply}");
}

#[test]
fn a_walk_goes_on_while_keys_come_and_go() {
    let bench = Bench::open(&[]);
    let (mut client, mut waiting) = (bench.client(), bench.client());
    let mut background = bench.store.background();
    for number in 0..60_000 {
        client.ask(&format!("SET goes:{number} 1"));
    }
    for number in 0..3_000 {
        client.ask(&format!("SET stays:{number} 1"));
    }
    assert_eq!(waiting.start("MANTISSA.TREE stays:"), None);
    let (mut goes, mut rounds) = (0, 0);
    let reply = loop {
        background.round();
        rounds += 1;
        for _ in 0..10_000 {
            client.ask(&format!("DEL goes:{goes}"));
            goes += 1;
        }
        if let Some(reply) = waiting.served() {
            break reply;
        }
    };
    assert!(rounds > 1, "the walk was over before anything changed");
    assert!(reply.contains("keys, 3000"), "{reply}");
}

#[test]
fn a_deletion_is_in_the_log_as_what_it_deleted() {
    let bench = Bench::open(&[("appendonly", "yes")]);
    let mut client = bench.client();
    for number in 0..200 {
        client.ask(&format!("SET go:{number} 1"));
    }
    client.ask("SET stays 1");
    let reply = keys_below(&bench, "MANTISSA.DELETE go:");
    assert!(reply.contains("state, done") && reply.contains("keys, 200"), "{reply}");
    assert_eq!(client.ask("KEYS *"), "[stays]");
    drop(client);
    let Bench { store, folder, .. } = bench;
    drop(store);
    let log = folder.log().unwrap_or_default();
    let deleted = log.iter().filter_map(|line| line.strip_prefix("UNLINK "));
    let count: usize = deleted.map(|keys| keys.split(' ').count()).sum();
    assert_eq!(count, 200, "{log:?}");
}
