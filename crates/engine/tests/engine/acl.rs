//! Rights: to commands, keys and channels, by selectors, wherever a call comes from; and the log of refusals.

use crate::support::{Ask, Bench};
use mantissa_engine::embedded::LocalClient;

const NO_KEY: &str = "(error) NOPERM No permissions to access a key";

/// A client of user `anna`, who has these rights.
fn anna<'e>(bench: &'e Bench, rules: &str) -> LocalClient<'e> {
    assert_eq!(bench.client().ask(&format!("ACL SETUSER anna on >pw {rules}")), "OK");
    let mut client = bench.client();
    assert_eq!(client.ask("AUTH anna pw"), "OK");
    client
}

#[test]
fn commands_and_categories_are_allowed_in_the_order_of_the_rules() {
    let bench = Bench::open(&[]);
    let mut client = anna(&bench, "~* +@string -set +config|get");
    assert_eq!(client.ask("GET a"), "nil");
    let denied =
        |command: &str| format!("(error) NOPERM User anna has no permissions to run the '{command}' command");
    assert_eq!(client.ask("SET a 1"), denied("set"));
    assert_eq!(client.ask("LPUSH a 1"), denied("lpush"));
    assert_eq!(client.ask("CONFIG GET port").split(',').next(), Some("[port"));
    assert_eq!(client.ask("CONFIG SET maxmemory 1"), denied("config|set"));
}

#[test]
fn keys_may_be_read_written_or_both() {
    let bench = Bench::open(&[]);
    let mut client = anna(&bench, "+@all ~both:* %R~read:* %W~write:*");
    assert_eq!(client.ask("SET both:1 x"), "OK");
    assert_eq!(client.ask("GET read:1"), "nil");
    assert_eq!(client.ask("SET read:1 x"), NO_KEY);
    assert_eq!(client.ask("SET write:1 x"), "OK");
    assert_eq!(client.ask("GET write:1"), NO_KEY);
    assert_eq!(client.ask("SET write:1 y GET"), NO_KEY, "an option that reads");
    assert_eq!(client.ask("COPY both:1 write:2"), "1");
    assert_eq!(client.ask("COPY write:1 both:2"), NO_KEY);
    assert_eq!(client.ask("MGET both:1 other"), NO_KEY, "every key counts");
}

#[test]
fn a_call_has_to_fit_one_selector_as_a_whole() {
    let bench = Bench::open(&[]);
    let mut client = anna(&bench, "+get ~a* (+set ~b*)");
    assert_eq!(client.ask("GET a1"), "nil");
    assert_eq!(client.ask("SET b1 x"), "OK");
    assert_eq!(client.ask("SET a1 x"), NO_KEY);
    assert_eq!(client.ask("GET b1"), NO_KEY);
}

#[test]
fn channels_are_checked_and_who_may_not_hear_them_any_more_is_closed() {
    let bench = Bench::open(&[]);
    let mut client = anna(&bench, "+@all resetchannels &news:*");
    let no_channel = "(error) NOPERM No permissions to access a channel";
    assert_eq!(client.ask("PUBLISH news:1 x"), "0");
    assert_eq!(client.ask("PUBLISH other x"), no_channel);
    assert_eq!(client.ask("PSUBSCRIBE *"), no_channel);
    assert_eq!(client.ask("SUBSCRIBE news:1"), "[subscribe, news:1, 1]");
    bench.client().ask("ACL SETUSER anna resetchannels");
    assert_eq!(client.ask("PING"), "(error) ERR the client is closed");
}

#[test]
fn a_user_who_is_deleted_is_closed_and_one_switched_off_goes_on() {
    let bench = Bench::open(&[]);
    let (mut client, mut admin) = (anna(&bench, "+@all ~*"), bench.client());
    admin.ask("ACL SETUSER anna off");
    assert_eq!(client.ask("PING"), "PONG");
    assert!(admin.ask("AUTH anna pw").starts_with("(error) WRONGPASS"));
    assert_eq!(admin.ask("ACL DELUSER anna"), "1");
    assert_eq!(client.ask("PING"), "(error) ERR the client is closed");
}

#[test]
fn scripts_have_the_rights_of_who_runs_them() {
    let bench = Bench::open(&[]);
    let mut client = anna(&bench, "+@all -set ~a*");
    let refusal = client.ask("EVAL return(redis.call('SET',KEYS[1],'1')) 1 a");
    assert!(
        refusal.contains("ACL failure in script: User anna has no permissions to run the 'set'"),
        "{refusal}"
    );
    let refusal = client.ask("EVAL return(redis.call('GET',ARGV[1])) 0 b");
    assert!(refusal.contains("ACL failure in script: No permissions to access a key"), "{refusal}");
    assert_eq!(client.ask("EVAL return(redis.call('GET',KEYS[1])) 1 a"), "nil");
    let log = bench.client().ask("ACL LOG");
    assert!(log.contains("context, lua, object, set") && log.contains("object, b"), "{log}");
}

#[test]
fn a_refusal_when_a_command_is_queued_has_exec_refuse() {
    let bench = Bench::open(&[]);
    let mut client = anna(&bench, "+@all ~a*");
    client.ask("MULTI");
    assert_eq!(client.ask("SET b 1"), NO_KEY);
    assert_eq!(client.ask("SET a 1"), "QUEUED");
    assert!(client.ask("EXEC").starts_with("(error) EXECABORT"));
    assert_eq!(client.ask("GET a"), "nil");
}

#[test]
fn the_log_counts_what_repeats_and_notes_failed_logins() {
    let bench = Bench::open(&[]);
    let (mut client, mut admin) = (anna(&bench, "+get ~a*"), bench.client());
    assert_eq!(admin.ask("ACL LOG"), "[]");
    client.ask("GET b");
    client.ask("GET b");
    client.ask("SET a 1");
    admin.ask("AUTH anna wrong");
    let log = admin.ask("ACL LOG");
    let entries: Vec<&str> = log.split("[count, ").skip(1).collect();
    let starts = [
        "1, reason, auth, context, toplevel, object, AUTH, username, anna,",
        "1, reason, command, context, toplevel, object, set, username, anna,",
        "2, reason, key, context, toplevel, object, b, username, anna,",
    ];
    assert_eq!(entries.len(), starts.len(), "{log}");
    for (entry, start) in entries.iter().zip(starts) {
        assert!(entry.starts_with(start), "{entry}");
    }
    assert_eq!(admin.ask("ACL LOG RESET"), "OK");
    assert_eq!(admin.ask("ACL LOG"), "[]");
}
