//! The commit: events, watch marks, units of the log, and expired keys, which go first.

use crate::support::{Ask, Bench, show};

const LOGGED: &[(&str, &str)] = &[("appendonly", "yes"), ("save", "\"\"")];

/// The log since the last look, without what selects databases.
fn logged(bench: &Bench, seen: &mut usize) -> Vec<String> {
    let log = bench.folder.log().unwrap_or_default();
    let new = log[*seen..].iter().filter(|command| !command.starts_with("SELECT")).cloned().collect();
    *seen = log.len();
    new
}

#[test]
fn the_log_holds_what_has_the_same_effect_in_whole_units() {
    let bench = Bench::open(LOGGED);
    let (mut client, mut seen) = (bench.client(), 0);
    client.ask("SET a 1");
    client.ask("GET a");
    client.ask("DEL nothing");
    client.ask("LPUSH a x");
    assert_eq!(logged(&bench, &mut seen), ["SET a 1"], "reads, idle writes and errors leave nothing");
    client.ask("MULTI");
    client.ask("INCR a");
    client.ask("GET a");
    client.ask("SADD s x");
    client.ask("EXEC");
    assert_eq!(logged(&bench, &mut seen), ["MULTI", "INCR a", "SADD s x", "EXEC"]);
    let time = bench.clock.now_ms() + 100;
    client.ask("SET t 1 PX 100");
    assert_eq!(logged(&bench, &mut seen), [format!("SET t 1 PXAT {time}")]);
    client.ask("SPOP s");
    assert_eq!(logged(&bench, &mut seen), ["SREM s x"], "chance is not repeated");
}

#[test]
fn a_script_is_one_unit() {
    let bench = Bench::open(LOGGED);
    let (mut client, mut seen) = (bench.client(), 0);
    let body =
        "redis.call('SET', KEYS[1], '1') redis.call('INCR', KEYS[1]) return redis.call('GET', KEYS[1])";
    assert_eq!(show(&client.call(&["EVAL", body, "1", "a"])), "2");
    assert_eq!(logged(&bench, &mut seen), ["MULTI", "SET a 1", "INCR a", "EXEC"]);
}

#[test]
fn what_a_served_client_takes_is_in_the_unit_of_who_served_it() {
    let bench = Bench::open(LOGGED);
    let (mut waits, mut writer, mut seen) = (bench.client(), bench.client(), 0);
    assert_eq!(waits.start("BLPOP list 0"), None);
    writer.ask("RPUSH list a b");
    assert_eq!(waits.served().as_deref(), Some("[list, a]"));
    assert_eq!(logged(&bench, &mut seen), ["MULTI", "RPUSH list a b", "LPOP list", "EXEC"]);
}

#[test]
fn an_expired_key_is_removed_before_the_command_that_finds_it() {
    let bench = Bench::open(&[LOGGED, &[("notify-keyspace-events", "KEA")]].concat());
    let (mut client, mut listener, mut seen) = (bench.client(), bench.client(), 0);
    client.ask("SET a 1 PX 100");
    listener.ask("PSUBSCRIBE __keyevent@0__:*");
    bench.clock.advance_ms(1000);
    logged(&bench, &mut seen);
    assert_eq!(client.ask("INCR a"), "1");
    assert_eq!(logged(&bench, &mut seen), ["MULTI", "DEL a", "INCR a", "EXEC"]);
    let heard: Vec<String> = listener.heard();
    let events: Vec<&str> = heard.iter().filter_map(|message| message.rsplit(':').next()).collect();
    assert_eq!(events, ["expired, a]", "incrby, a]"]);
}

#[test]
fn a_read_that_finds_a_key_expired_logs_its_removal_alone() {
    let bench = Bench::open(LOGGED);
    let (mut client, mut other, mut seen) = (bench.client(), bench.client(), 0);
    client.ask("SET a 1 PX 100");
    bench.clock.advance_ms(1000);
    logged(&bench, &mut seen);
    other.ask("WATCH a");
    assert_eq!(client.ask("GET a"), "nil");
    assert_eq!(logged(&bench, &mut seen), ["DEL a"]);
    other.ask("MULTI");
    other.ask("PING");
    assert_eq!(other.ask("EXEC"), "[PONG]", "it had expired before it was watched");
}

#[test]
fn events_are_published_as_configured_and_those_of_a_transaction_in_order() {
    let bench = Bench::open(&[]);
    let (mut client, mut listener) = (bench.client(), bench.client());
    listener.ask("PSUBSCRIBE __key*__:*");
    client.ask("SET a 1");
    assert!(listener.heard().is_empty(), "none are configured");
    client.ask("CONFIG SET notify-keyspace-events Kg$");
    client.ask("SET a 1");
    client.ask("LPUSH list x");
    client.ask("DEL a");
    let heard = listener.heard();
    let event = |key: &str, name: &str| format!("[pmessage, __key*__:*, __keyspace@0__:{key}, {name}]");
    assert_eq!(heard, [event("a", "set"), event("a", "del")], "no events of lists");
    client.ask("SELECT 3");
    client.ask("CONFIG SET notify-keyspace-events E$");
    client.ask("MULTI");
    client.ask("SET a 1");
    client.ask("APPEND a x");
    client.ask("EXEC");
    let event = |name: &str| format!("[pmessage, __key*__:*, __keyevent@3__:{name}, a]");
    assert_eq!(listener.heard(), [event("set"), event("append")]);
}

#[test]
fn only_what_changes_a_key_marks_its_watchers() {
    let bench = Bench::open(&[]);
    let (mut client, mut other) = (bench.client(), bench.client());
    other.ask("SADD set a");
    for (change, is_run) in [("SADD set a", true), ("SREM set z", true), ("SADD set b", false)] {
        client.ask("WATCH set");
        other.ask(change);
        client.ask("MULTI");
        client.ask("PING");
        let reply = client.ask("EXEC");
        assert_eq!(reply == "[PONG]", is_run, "{change}: {reply}");
    }
    // By oneself as well, and by a script.
    for change in ["SET set x", "EVAL return(redis.call('DEL',KEYS[1])) 1 set"] {
        client.ask("WATCH set");
        client.ask(change);
        client.ask("MULTI");
        client.ask("PING");
        assert_eq!(client.ask("EXEC"), "nil", "{change}");
    }
}
