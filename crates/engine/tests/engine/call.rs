//! A call: the order of its checks, what it is told, what is counted of it, and when it is put off.

use std::time::Duration;

use crate::support::{Ask, Bench, show};

/// A field of a section of INFO.
fn figure(client: &mut impl Ask, section: &str, name: &str) -> String {
    let report = client.ask(&format!("INFO {section}"));
    let line = report.lines().find(|line| line.starts_with(&format!("{name}:")));
    line.map_or_else(String::new, |line| line[name.len() + 1..].trim().to_owned())
}

/// `calls`, `rejected_calls` and `failed_calls` of a command.
fn counts(client: &mut impl Ask, command: &str) -> (u64, u64, u64) {
    let line = figure(client, "commandstats", &format!("cmdstat_{command}"));
    let count = |name: &str| {
        let value = line.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
        value.map_or(0, |value| value.parse().unwrap_or(u64::MAX))
    };
    (count("calls"), count("rejected_calls"), count("failed_calls"))
}

#[test]
fn the_number_of_arguments_is_checked_before_the_login_and_that_before_rights() {
    let bench = Bench::open(&[("requirepass", "secret")]);
    let mut client = bench.client();
    let noauth = "(error) NOAUTH Authentication required.";
    assert_eq!(client.ask("GET"), "(error) ERR wrong number of arguments for 'get' command");
    assert_eq!(client.ask("GET a"), noauth);
    assert_eq!(client.ask("MULTI"), noauth);
    assert_eq!(client.ask("AUTH wrong").split(' ').nth(1), Some("WRONGPASS"));
    assert_eq!(client.ask("AUTH secret"), "OK");
    assert_eq!(client.ask("GET a"), "nil");
    assert_eq!(client.ask("ACL SETUSER default -get"), "OK");
    assert_eq!(client.ask("GET"), "(error) ERR wrong number of arguments for 'get' command");
    assert_eq!(
        client.ask("GET a"),
        "(error) NOPERM User default has no permissions to run the 'get' command"
    );
}

#[test]
fn a_command_that_multi_forbids_is_refused_before_rights_are_looked_at() {
    let bench = Bench::open(&[]);
    let mut client = bench.client();
    client.ask("ACL SETUSER default -save");
    client.ask("MULTI");
    assert_eq!(client.ask("SAVE"), "(error) ERR Command not allowed inside a transaction");
    assert_eq!(client.ask("ACL LOG"), "QUEUED");
}

#[test]
fn unknown_commands_and_subcommands_are_named() {
    let bench = Bench::open(&[]);
    let mut client = bench.client();
    assert_eq!(
        client.ask("NONSENSE a b"),
        "(error) ERR unknown command 'NONSENSE', with args beginning with: 'a' 'b' "
    );
    assert_eq!(client.ask("CLIENT NONSENSE"), "(error) ERR unknown subcommand 'NONSENSE'. Try CLIENT HELP.");
    let nothing: [&str; 0] = [];
    assert_eq!(show(&client.call(&nothing)), "(error) ERR empty command");
}

#[test]
fn a_subscriber_of_resp2_may_run_few_commands_and_one_of_resp3_all() {
    let bench = Bench::open(&[]);
    let mut client = bench.client();
    assert_eq!(client.ask("SUBSCRIBE news"), "[subscribe, news, 1]");
    assert_eq!(
        client.ask("GET a"),
        "(error) ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are \
         allowed in this context"
    );
    assert_eq!(client.ask("PING"), "[pong, ]");
    assert_eq!(client.ask("RESET"), "RESET");
    client.ask("HELLO 3");
    assert_eq!(client.ask("SUBSCRIBE news"), ">[subscribe, news, 1]");
    assert_eq!(client.ask("GET a"), "nil");
}

#[test]
fn a_call_is_counted_once_whichever_way_it_came() {
    let bench = Bench::open(&[]);
    let (mut client, mut other) = (bench.client(), bench.client());
    client.ask("INCR n");
    client.ask("MULTI");
    client.ask("INCR n");
    assert_eq!(counts(&mut other, "incr"), (1, 0, 0), "a queued command has not run");
    client.ask("EXEC");
    assert_eq!(counts(&mut other, "incr"), (2, 0, 0));
    assert_eq!(client.call(&["EVAL", "return redis.call('INCR', KEYS[1])", "1", "n"]).as_integer(), Some(3));
    assert_eq!(counts(&mut other, "incr"), (3, 0, 0));
    assert_eq!(counts(&mut other, "eval"), (1, 0, 0));
    assert_eq!(counts(&mut other, "exec"), (1, 0, 0));
}

#[test]
fn a_call_that_waits_is_counted_when_it_ends() {
    let bench = Bench::open(&[]);
    let (mut waits, mut other) = (bench.client(), bench.client());
    assert_eq!(waits.start("BLPOP list 0"), None);
    assert_eq!(counts(&mut other, "blpop"), (0, 0, 0));
    other.ask("RPUSH list a");
    assert_eq!(waits.served().as_deref(), Some("[list, a]"));
    assert_eq!(counts(&mut other, "blpop"), (1, 0, 0));
}

#[test]
fn failed_and_refused_calls_are_told_apart_and_their_errors_counted_by_code() {
    let bench = Bench::open(&[]);
    let mut client = bench.client();
    client.ask("SET text x");
    assert!(client.ask("LPUSH text a").starts_with("(error) WRONGTYPE"));
    client.ask("LPUSH text");
    assert_eq!(counts(&mut client, "lpush"), (1, 1, 1));
    assert_eq!(figure(&mut client, "errorstats", "errorstat_WRONGTYPE"), "count=1");
    assert_eq!(figure(&mut client, "errorstats", "errorstat_ERR"), "count=1");
    // One error of a queued command counts once, though the reply that holds it is EXEC's.
    client.ask("MULTI");
    client.ask("LPUSH text a");
    client.ask("EXEC");
    assert_eq!(counts(&mut client, "lpush"), (2, 1, 2));
    assert_eq!(counts(&mut client, "exec"), (1, 0, 0));
    assert_eq!(figure(&mut client, "errorstats", "errorstat_WRONGTYPE"), "count=2");
}

#[test]
fn client_reply_turns_replies_off_but_not_what_commands_do() {
    let bench = Bench::open(&[]);
    let mut client = bench.client();
    assert!(client.call_raw(&["CLIENT", "REPLY", "SKIP"]).is_empty());
    assert!(client.call_raw(&["SET", "a", "1"]).is_empty());
    assert_eq!(client.ask("GET a"), "1");
    assert!(client.call_raw(&["CLIENT", "REPLY", "OFF"]).is_empty());
    assert!(client.call_raw(&["INCR", "a"]).is_empty());
    assert!(client.call_raw(&["NONSENSE"]).is_empty());
    assert_eq!(client.ask("CLIENT REPLY ON"), "OK");
    assert_eq!(client.ask("GET a"), "2");
}

#[test]
fn client_pause_puts_writes_off_and_lets_reads_pass() {
    let bench = Bench::open(&[]);
    let mut client = bench.client();
    client.ask("SET a 1");
    let before = bench.clock.now_ms();
    client.ask("CLIENT PAUSE 250 WRITE");
    assert_eq!(client.ask("GET a"), "1");
    assert_eq!(bench.clock.now_ms(), before, "a read does not wait");
    assert_eq!(client.ask("INCR a"), "2");
    assert!(bench.clock.now_ms() >= before + 250, "a write waits for the end of the pause");
    let before = bench.clock.now_ms();
    client.ask("CLIENT PAUSE 250 ALL");
    assert_eq!(client.ask("GET a"), "2");
    assert!(bench.clock.now_ms() >= before + 250);
}

#[test]
fn a_paused_transaction_is_put_off_where_it_writes() {
    let bench = Bench::open(&[]);
    let mut client = bench.client();
    let before = bench.clock.now_ms();
    client.ask("CLIENT PAUSE 1000 WRITE");
    client.ask("MULTI");
    assert_eq!(client.ask("GET a"), "QUEUED");
    assert_eq!(client.ask("EXEC"), "[nil]");
    assert_eq!(bench.clock.now_ms(), before);
    client.ask("CLIENT UNPAUSE");
    client.ask("MULTI");
    client.ask("INCR a");
    let mut other = bench.client();
    other.ask("CLIENT PAUSE 1000 WRITE");
    assert_eq!(client.ask("EXEC"), "[1]");
    assert!(bench.clock.now_ms() >= before + 1000);
    let before = bench.clock.now_ms();
    client.ask("CLIENT PAUSE 1000 WRITE");
    client.ask("CLIENT UNPAUSE");
    client.ask("INCR a");
    assert_eq!(bench.clock.now_ms(), before);
}

#[test]
fn a_client_that_is_killed_or_quits_runs_nothing_more() {
    let bench = Bench::open(&[]);
    let (mut killed, mut killer) = (bench.client(), bench.client());
    let id = killed.ask("CLIENT ID");
    killed.ask("SUBSCRIBE news");
    assert_eq!(killer.ask(&format!("CLIENT KILL ID {id}")), "1");
    assert_eq!(killed.ask("PING"), "(error) ERR the client is closed");
    assert_eq!(killer.ask("PUBSUB NUMSUB news"), "[news, 0]");
    assert_eq!(killer.ask("QUIT"), "OK");
    assert_eq!(killer.ask("SET a 1"), "(error) ERR the client is closed");
    assert_eq!(bench.client().ask("EXISTS a"), "0");
}

#[test]
fn a_pipeline_replies_to_each_command_in_order() {
    let bench = Bench::open(&[("appendonly", "yes"), ("appendfsync", "always")]);
    let mut client = bench.client();
    let replies =
        client.pipeline(&[&["SET", "a", "1"][..], &["INCR", "a"], &["LPUSH", "a", "x"], &["GET", "a"]]);
    let shown: Vec<String> = replies.iter().map(show).collect();
    assert_eq!(shown[0], "OK");
    assert_eq!(shown[1], "2");
    assert!(shown[2].starts_with("(error) WRONGTYPE"));
    assert_eq!(shown[3], "2");
    let aof = &bench.store.engine().aof;
    assert_eq!(aof.control.durable(), bench.store.engine().log.end(), "what was acknowledged is on the disk");
    assert_eq!(client.message(Duration::ZERO), None);
}
