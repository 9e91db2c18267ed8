//! Client-side caching: who is told of which keys, once, and by whom.

use crate::support::{Ask, Bench};
use mantissa_engine::embedded::LocalClient;

fn tracker<'e>(bench: &'e Bench, mode: &str) -> LocalClient<'e> {
    let mut client = bench.client();
    client.ask("HELLO 3");
    assert_eq!(client.ask(&format!("CLIENT TRACKING ON {mode}")), "OK");
    client
}

fn told(key: &str) -> Vec<String> {
    vec![format!(">[invalidate, [{key}]]")]
}

#[test]
fn a_reader_is_told_once_of_a_key_that_it_has_read() {
    let bench = Bench::open(&[]);
    let (mut reader, mut writer) = (tracker(&bench, ""), bench.client());
    reader.ask("GET a");
    writer.ask("SET b 1");
    assert!(reader.heard().is_empty());
    writer.ask("SET a 1");
    assert_eq!(reader.heard(), told("a"));
    writer.ask("SET a 2");
    assert!(reader.heard().is_empty(), "it holds no copy any more");
    reader.ask("GET a");
    reader.ask("SET a 3");
    assert_eq!(reader.heard(), told("a"), "its own change as well");
    reader.ask("GET a");
    reader.ask("CLIENT TRACKING OFF");
    writer.ask("SET a 4");
    assert!(reader.heard().is_empty());
}

#[test]
fn noloop_spares_a_client_its_own_changes() {
    let bench = Bench::open(&[]);
    let (mut reader, mut writer) = (tracker(&bench, "NOLOOP"), bench.client());
    reader.ask("GET a");
    reader.ask("SET a 1");
    assert!(reader.heard().is_empty());
    reader.ask("GET a");
    writer.ask("SET a 2");
    assert_eq!(reader.heard(), told("a"));
}

#[test]
fn opt_in_and_opt_out_go_by_client_caching_for_one_command() {
    let bench = Bench::open(&[]);
    let (mut opts_in, mut opts_out) = (tracker(&bench, "OPTIN"), tracker(&bench, "OPTOUT"));
    let mut writer = bench.client();
    for client in [&mut opts_in, &mut opts_out] {
        client.ask("GET plain");
    }
    assert_eq!(opts_in.ask("CLIENT CACHING YES"), "OK");
    opts_in.ask("GET marked");
    opts_in.ask("GET after");
    assert_eq!(opts_out.ask("CLIENT CACHING NO"), "OK");
    opts_out.ask("GET marked");
    opts_out.ask("GET after");
    writer.ask("SET plain 1");
    writer.ask("SET marked 1");
    writer.ask("SET after 1");
    assert_eq!(opts_in.heard(), told("marked"));
    assert_eq!(opts_out.heard(), [told("plain"), told("after")].concat());
    assert!(opts_in.ask("CLIENT CACHING NO").starts_with("(error) ERR"));
}

#[test]
fn broadcasting_tells_of_all_keys_with_a_prefix() {
    let bench = Bench::open(&[]);
    let mut some = tracker(&bench, "BCAST PREFIX user: PREFIX item:");
    let (mut all, mut quiet) = (tracker(&bench, "BCAST"), tracker(&bench, "BCAST NOLOOP"));
    let mut writer = bench.client();
    writer.ask("SET user:1 x");
    writer.ask("SET other x");
    assert_eq!(some.heard(), told("user:1"));
    assert_eq!(all.heard(), [told("user:1"), told("other")].concat());
    quiet.heard();
    quiet.ask("SET item:1 x");
    assert_eq!(some.heard(), told("item:1"));
    assert!(quiet.heard().is_empty());
    let refusal = some.ask("CLIENT TRACKING ON BCAST PREFIX user:1");
    assert!(refusal.starts_with("(error) ERR Prefix 'user:1' overlaps"), "{refusal}");
}

#[test]
fn another_client_may_be_told_and_its_end_is_told() {
    let bench = Bench::open(&[]);
    let (mut receiver, mut writer) = (bench.client(), bench.client());
    let id = receiver.ask("CLIENT ID");
    receiver.ask("SUBSCRIBE __redis__:invalidate");
    let mut reader = bench.client();
    assert_eq!(reader.ask(&format!("CLIENT TRACKING ON REDIRECT {id}")), "OK");
    reader.ask("GET a");
    writer.ask("SET a 1");
    assert!(reader.heard().is_empty());
    assert_eq!(receiver.heard(), ["[message, __redis__:invalidate, [a]]"]);
    drop(receiver);
    reader.ask("HELLO 3");
    reader.ask("GET a");
    writer.ask("SET a 2");
    assert_eq!(reader.heard(), [format!(">[tracking-redir-broken, {id}]")]);
}

#[test]
fn a_flush_tells_everybody_and_its_own_client_before_the_reply() {
    let bench = Bench::open(&[]);
    let (mut reader, mut other) = (tracker(&bench, ""), tracker(&bench, ""));
    reader.ask("GET a");
    assert_eq!(reader.ask("FLUSHALL"), "OK", "the message is not taken for the reply");
    assert_eq!(reader.heard(), [">[invalidate, nil]"]);
    assert_eq!(other.heard(), [">[invalidate, nil]"]);
}

#[test]
fn keys_that_expire_are_told() {
    let bench = Bench::open(&[]);
    let (mut reader, mut writer) = (tracker(&bench, "NOLOOP"), bench.client());
    writer.ask("SET a 1 PX 100");
    reader.ask("GET a");
    bench.clock.advance_ms(101);
    bench.store.background().round();
    assert_eq!(reader.heard(), told("a"));
}

#[test]
fn reads_of_transactions_and_scripts_count() {
    let bench = Bench::open(&[]);
    let (mut reader, mut writer) = (tracker(&bench, ""), bench.client());
    reader.ask("MULTI");
    reader.ask("GET a");
    reader.ask("EXEC");
    writer.ask("SET a 1");
    assert_eq!(reader.heard(), told("a"));
    reader.ask("EVAL return(redis.call('GET',KEYS[1])) 1 b");
    writer.ask("SET b 1");
    assert_eq!(reader.heard(), told("b"));
}
