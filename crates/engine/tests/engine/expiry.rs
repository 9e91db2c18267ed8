//! Expiry, when keys are used and in the background, on a virtual clock.

use crate::support::{Ask, Bench};

#[test]
fn a_key_is_gone_at_its_time_and_not_a_millisecond_before() {
    let bench = Bench::open(&[]);
    let mut client = bench.client();
    client.ask("SET a 1 PX 100");
    client.ask("SET b 1");
    assert_eq!(client.ask("PEXPIRE b 100"), "1");
    bench.clock.advance_ms(99);
    assert_eq!(client.ask("PTTL a"), "1");
    assert_eq!(client.ask("MGET a b"), "[1, 1]");
    bench.clock.advance_ms(1);
    assert_eq!(client.ask("MGET a b"), "[nil, nil]");
    assert_eq!(client.ask("TTL a"), "-2");
    assert_eq!(client.ask("DBSIZE"), "0");
}

#[test]
fn persist_and_a_new_value_keep_a_key() {
    let bench = Bench::open(&[]);
    let mut client = bench.client();
    for key in ["a", "b", "c"] {
        client.ask(&format!("SET {key} 1 EX 10"));
    }
    assert_eq!(client.ask("PERSIST a"), "1");
    client.ask("SET b 2");
    client.ask("SET c 2 KEEPTTL");
    bench.clock.advance_ms(10_000);
    assert_eq!(client.ask("MGET a b c"), "[1, 2, nil]");
}

#[test]
fn a_round_of_the_background_removes_what_nobody_asks_for() {
    let bench = Bench::open(&[]);
    let (mut client, mut background) = (bench.client(), bench.store.background());
    for number in 0..500 {
        client.ask(&format!("SET soon:{number} 1 PX {}", 100 + number % 10));
        client.ask(&format!("SET late:{number} 1 EX 100"));
    }
    background.round();
    assert_eq!(client.ask("DBSIZE"), "1000", "nothing has expired");
    bench.clock.advance_ms(110);
    assert_eq!(client.ask("DBSIZE"), "1000", "nobody has looked");
    for _ in 0..20 {
        background.round();
        bench.clock.advance_ms(1);
    }
    assert_eq!(client.ask("DBSIZE"), "500");
    assert!(client.ask("INFO stats").contains("expired_keys:500\r\n"));
    let last: Vec<String> = (0..3).map(|number| client.ask(&format!("GET late:{number}"))).collect();
    assert_eq!(last, ["1", "1", "1"]);
}

#[test]
fn active_expiry_rests_while_writes_are_paused_or_it_is_switched_off() {
    let bench = Bench::open(&[("enable-debug-command", "yes")]);
    let (mut client, mut background) = (bench.client(), bench.store.background());
    client.ask("SET a 1 PX 100");
    bench.clock.advance_ms(200);
    client.ask("CLIENT PAUSE 1000 WRITE");
    background.round();
    assert_eq!(client.ask("DBSIZE"), "1");
    client.ask("CLIENT UNPAUSE");
    client.ask("DEBUG SET-ACTIVE-EXPIRE 0");
    background.round();
    assert_eq!(client.ask("DBSIZE"), "1");
    client.ask("DEBUG SET-ACTIVE-EXPIRE 1");
    background.round();
    assert_eq!(client.ask("DBSIZE"), "0");
}

#[test]
fn fields_of_hashes_expire_by_themselves() {
    let bench = Bench::open(&[]);
    let (mut client, mut background) = (bench.client(), bench.store.background());
    client.ask("HSET h a 1 b 2");
    assert_eq!(client.ask("HPEXPIRE h 100 FIELDS 1 a"), "[1]");
    bench.clock.advance_ms(100);
    assert_eq!(client.ask("HMGET h a b"), "[nil, 2]");
    client.ask("HPEXPIRE h 100 FIELDS 1 b");
    bench.clock.advance_ms(100);
    background.round();
    assert_eq!(client.ask("DBSIZE"), "0", "the last field takes the key along");
}
