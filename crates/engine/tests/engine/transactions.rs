//! Transactions: what EXEC refuses, what WATCH notices, and what runs.

use crate::support::{Ask, Bench};

#[test]
fn a_command_that_can_not_be_queued_has_exec_refuse() {
    let bench = Bench::open(&[]);
    let mut client = bench.client();
    client.ask("MULTI");
    assert_eq!(client.ask("SET a 1"), "QUEUED");
    assert!(client.ask("SET a").starts_with("(error) ERR wrong number"));
    assert_eq!(client.ask("EXEC"), "(error) EXECABORT Transaction discarded because of previous errors.");
    assert_eq!(client.ask("GET a"), "nil");
    assert_eq!(client.ask("EXEC"), "(error) ERR EXEC without MULTI");
}

#[test]
fn an_error_while_a_transaction_runs_stops_nothing() {
    let bench = Bench::open(&[]);
    let mut client = bench.client();
    client.ask("SET a x");
    client.ask("MULTI");
    client.ask("INCR a");
    client.ask("SET b 1");
    let wrong = "(error) ERR value is not an integer or out of range";
    assert_eq!(client.ask("EXEC"), format!("[{wrong}, OK]"));
}

#[test]
fn multi_can_not_be_nested_and_the_transaction_goes_on() {
    let bench = Bench::open(&[]);
    let mut client = bench.client();
    client.ask("MULTI");
    assert_eq!(client.ask("MULTI"), "(error) ERR MULTI calls can not be nested");
    assert_eq!(client.ask("WATCH a"), "(error) ERR WATCH inside MULTI is not allowed");
    assert_eq!(client.ask("INCR a"), "QUEUED");
    assert_eq!(client.ask("EXEC"), "[1]");
}

#[test]
fn discard_forgets_the_queue_and_the_watched_keys() {
    let bench = Bench::open(&[]);
    let (mut client, mut other) = (bench.client(), bench.client());
    assert_eq!(client.ask("DISCARD"), "(error) ERR DISCARD without MULTI");
    client.ask("WATCH a");
    client.ask("MULTI");
    client.ask("SET a mine");
    assert_eq!(client.ask("DISCARD"), "OK");
    assert_eq!(client.ask("GET a"), "nil");
    other.ask("SET a other");
    client.ask("MULTI");
    client.ask("GET a");
    assert_eq!(client.ask("EXEC"), "[other]");
}

#[test]
fn exec_runs_nothing_after_a_watched_key_has_changed() {
    let bench = Bench::open(&[]);
    let (mut client, mut other) = (bench.client(), bench.client());
    client.ask("SET a 1");
    client.ask("WATCH a");
    client.ask("MULTI");
    client.ask("SET a 2");
    other.ask("GET a");
    assert_eq!(client.ask("EXEC"), "[OK]", "a read changes nothing");
    client.ask("WATCH a");
    client.ask("MULTI");
    client.ask("SET a 3");
    other.ask("SET a 9");
    assert_eq!(client.ask("EXEC"), "nil");
    assert_eq!(client.ask("GET a"), "9");
    // The marks are gone with the transaction.
    client.ask("MULTI");
    client.ask("INCR a");
    assert_eq!(client.ask("EXEC"), "[10]");
}

#[test]
fn a_watched_key_that_expires_makes_exec_fail_and_one_expired_before_does_not() {
    let bench = Bench::open(&[]);
    let mut client = bench.client();
    client.ask("SET a 1 PX 100");
    client.ask("WATCH a");
    bench.clock.advance_ms(101);
    client.ask("MULTI");
    client.ask("PING");
    assert_eq!(client.ask("EXEC"), "nil");
    client.ask("SET b 1 PX 100");
    bench.clock.advance_ms(101);
    client.ask("WATCH b");
    client.ask("MULTI");
    client.ask("PING");
    assert_eq!(client.ask("EXEC"), "[PONG]");
}

#[test]
fn unwatch_and_other_databases_are_told_apart() {
    let bench = Bench::open(&[]);
    let (mut client, mut other) = (bench.client(), bench.client());
    client.ask("WATCH a");
    other.ask("SELECT 1");
    other.ask("SET a 1");
    client.ask("MULTI");
    client.ask("PING");
    assert_eq!(client.ask("EXEC"), "[PONG]");
    client.ask("SELECT 1");
    client.ask("WATCH a");
    other.ask("FLUSHDB");
    client.ask("UNWATCH");
    client.ask("MULTI");
    client.ask("PING");
    assert_eq!(client.ask("EXEC"), "[PONG]");
    other.ask("SET a 1");
    client.ask("WATCH a");
    other.ask("FLUSHDB");
    client.ask("MULTI");
    client.ask("PING");
    assert_eq!(client.ask("EXEC"), "nil");
}

#[test]
fn rights_that_are_taken_between_queue_and_exec_are_missed_by_that_command_alone() {
    let bench = Bench::open(&[]);
    let (mut client, mut admin) = (bench.client(), bench.client());
    admin.ask("ACL SETUSER anna on >pw ~* +@all");
    client.ask("AUTH anna pw");
    client.ask("MULTI");
    client.ask("SET a 1");
    client.ask("SET b 1");
    admin.ask("ACL SETUSER anna resetkeys ~b*");
    let before = "(error) NOPERM ACLs rules changed between the moment the transaction was accumulated and \
                  the EXEC call. This command is no longer allowed for the following reason: ";
    assert_eq!(client.ask("EXEC"), format!("[{before}no permission to touch the specified keys, OK]"));
    client.ask("MULTI");
    client.ask("GET b");
    admin.ask("ACL SETUSER anna -get");
    assert_eq!(client.ask("EXEC"), format!("[{before}no permission to execute the command or subcommand]"));
    let log = admin.ask("ACL LOG");
    assert!(
        log.contains("context, multi") && log.contains("object, get") && log.contains("object, a"),
        "{log}"
    );
}

#[test]
fn a_blocking_command_in_a_transaction_does_not_wait() {
    let bench = Bench::open(&[]);
    let mut client = bench.client();
    client.ask("MULTI");
    client.ask("BLPOP list 0");
    client.ask("RPUSH list a");
    client.ask("BLPOP list 0");
    assert_eq!(client.start("EXEC").as_deref(), Some("[nil, 1, [list, a]]"));
}
