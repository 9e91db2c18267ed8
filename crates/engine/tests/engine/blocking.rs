//! Clients that wait: who is served, in what order, with what, and how waiting ends otherwise.

use crate::support::{Ask, Bench};

#[test]
fn clients_are_served_in_the_order_in_which_they_came() {
    let bench = Bench::open(&[]);
    let mut waiting: Vec<_> = (0..5).map(|_| bench.client()).collect();
    for client in &mut waiting {
        assert_eq!(client.start("BLPOP list 0"), None);
    }
    let mut writer = bench.client();
    assert_eq!(writer.ask("RPUSH list a b c"), "3");
    for (client, element) in waiting.iter_mut().zip(["a", "b", "c"]) {
        assert_eq!(client.served(), Some(format!("[list, {element}]")));
    }
    assert_eq!(waiting[3].served(), None);
    assert_eq!(writer.ask("EXISTS list"), "0");
    writer.ask("RPUSH list d");
    assert_eq!(waiting[3].served().as_deref(), Some("[list, d]"));
    assert_eq!(waiting[4].served(), None);
}

#[test]
fn a_client_waits_for_the_first_of_several_keys_and_for_the_right_type() {
    let bench = Bench::open(&[]);
    let (mut waits, mut writer) = (bench.client(), bench.client());
    assert_eq!(waits.start("BLPOP one two 0"), None);
    writer.ask("ZADD one 1 member");
    assert_eq!(waits.served(), None);
    writer.ask("DEL one");
    writer.ask("RPUSH two x");
    assert_eq!(waits.served().as_deref(), Some("[two, x]"));
    writer.ask("RPUSH one y");
    assert_eq!(writer.ask("LLEN one"), "1", "nobody waits any more");
}

#[test]
fn waiting_ends_when_its_time_is_up_and_not_before() {
    let bench = Bench::open(&[]);
    let (mut pops, mut moves, mut writer) = (bench.client(), bench.client(), bench.client());
    assert_eq!(pops.start("BLPOP list 1.5"), None);
    assert_eq!(moves.start("BLMOVE list other LEFT LEFT 2"), None);
    bench.clock.advance_ms(1499);
    assert_eq!(pops.served(), None);
    bench.clock.advance_ms(1);
    assert_eq!(pops.served().as_deref(), Some("nil"));
    assert_eq!(moves.served(), None);
    bench.clock.advance_ms(500);
    assert_eq!(moves.served().as_deref(), Some("nil"));
    writer.ask("RPUSH list a");
    assert_eq!(writer.ask("LLEN list"), "1");
    // A call waits by itself.
    let before = bench.clock.now_ms();
    assert_eq!(pops.ask("BLPOP nothing 0.25"), "nil");
    assert_eq!(bench.clock.now_ms() - before, 250);
}

#[test]
fn client_unblock_ends_waiting_by_a_timeout_or_an_error() {
    let bench = Bench::open(&[]);
    let (mut waits, mut other) = (bench.client(), bench.client());
    let id = waits.ask("CLIENT ID");
    assert_eq!(other.ask(&format!("CLIENT UNBLOCK {id}")), "0");
    assert_eq!(waits.start("BLPOP list 0"), None);
    assert_eq!(other.ask(&format!("CLIENT UNBLOCK {id}")), "1");
    assert_eq!(other.ask(&format!("CLIENT UNBLOCK {id}")), "0", "once");
    assert_eq!(waits.served().as_deref(), Some("nil"));
    assert_eq!(waits.start("BLPOP list 0"), None);
    assert_eq!(other.ask(&format!("CLIENT UNBLOCK {id} ERROR")), "1");
    assert_eq!(waits.served().as_deref(), Some("(error) UNBLOCKED client unblocked via CLIENT UNBLOCK"));
    other.ask("RPUSH list a");
    assert_eq!(other.ask("LLEN list"), "1");
}

#[test]
fn an_element_moves_along_a_chain_of_waiting_clients() {
    let bench = Bench::open(&[]);
    let (mut first, mut second, mut last) = (bench.client(), bench.client(), bench.client());
    assert_eq!(last.start("BLPOP c 0"), None);
    assert_eq!(second.start("BLMOVE b c LEFT RIGHT 0"), None);
    assert_eq!(first.start("BLMOVE a b LEFT RIGHT 0"), None);
    let mut writer = bench.client();
    assert_eq!(writer.ask("RPUSH a x"), "1");
    assert_eq!(first.served().as_deref(), Some("x"));
    assert_eq!(second.served().as_deref(), Some("x"));
    assert_eq!(last.served().as_deref(), Some("[c, x]"));
    assert_eq!(writer.ask("EXISTS a b c"), "0");
}

#[test]
fn a_client_that_is_gone_or_killed_takes_nothing() {
    let bench = Bench::open(&[]);
    let (mut gone, mut killed, mut waits) = (bench.client(), bench.client(), bench.client());
    let id = killed.ask("CLIENT ID");
    assert_eq!(gone.start("BLPOP list 0"), None);
    assert_eq!(killed.start("BLPOP list 0"), None);
    assert_eq!(waits.start("BLPOP list 0"), None);
    drop(gone);
    let mut writer = bench.client();
    assert_eq!(writer.ask(&format!("CLIENT KILL ID {id}")), "1");
    writer.ask("RPUSH list a");
    assert_eq!(waits.served().as_deref(), Some("[list, a]"));
    assert_eq!(killed.served().as_deref(), Some("(error) ERR the client is closed"));
    assert_eq!(writer.ask("EXISTS list"), "0");
    assert!(bench.store.engine().blocked.lock().is_empty());
}

#[test]
fn a_transaction_serves_when_it_ends() {
    let bench = Bench::open(&[]);
    let (mut waits, mut writer) = (bench.client(), bench.client());
    assert_eq!(waits.start("BLPOP list 0"), None);
    writer.ask("MULTI");
    writer.ask("RPUSH list a");
    writer.ask("RPUSH list b");
    writer.ask("LPOP list");
    assert_eq!(writer.ask("EXEC"), "[1, 2, a]");
    assert_eq!(waits.served().as_deref(), Some("[list, b]"));
    assert_eq!(waits.start("BLPOP list 0"), None);
    writer.ask("MULTI");
    writer.ask("RPUSH list c");
    writer.ask("DEL list");
    assert_eq!(writer.ask("EXEC"), "[1, 1]");
    assert_eq!(waits.served(), None, "nothing is left for it");
}

#[test]
fn a_waiting_client_that_has_lost_the_right_gets_an_error_and_no_element() {
    let bench = Bench::open(&[]);
    let (mut waits, mut admin) = (bench.client(), bench.client());
    admin.ask("ACL SETUSER anna on >pw ~* +@all");
    waits.ask("AUTH anna pw");
    assert_eq!(waits.start("BLPOP list 0"), None);
    admin.ask("ACL SETUSER anna -blpop");
    admin.ask("RPUSH list a");
    assert!(waits.served().is_some_and(|reply| reply.starts_with("(error) NOPERM")));
    assert_eq!(admin.ask("LLEN list"), "1");
}

#[test]
fn a_reader_of_a_stream_is_told_when_its_group_goes() {
    let bench = Bench::open(&[]);
    let (mut waits, mut writer) = (bench.client(), bench.client());
    writer.ask("XGROUP CREATE s g $ MKSTREAM");
    assert_eq!(waits.start("XREADGROUP GROUP g me BLOCK 0 STREAMS s >"), None);
    writer.ask("XADD s 1-1 f v");
    assert_eq!(waits.served().as_deref(), Some("[[s, [[1-1, [f, v]]]]]"));
    assert_eq!(waits.start("XREADGROUP GROUP g me BLOCK 0 STREAMS s >"), None);
    writer.ask("XGROUP DESTROY s g");
    assert!(waits.served().is_some_and(|reply| reply.starts_with("(error) NOGROUP")));
}
