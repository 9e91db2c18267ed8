//! What is logged of stream commands whose outcome depends on the time, on the nodes, or on who came first.

use crate::testing::Bench;

fn logging_bench() -> Bench {
    let bench = Bench::new();
    bench.keyspace.set_logged(true);
    bench
}

fn logged(bench: &mut Bench, command: &str) -> Vec<String> {
    bench.run(command);
    bench.log()
}

#[test]
fn additions_are_logged_with_their_identifiers() {
    let mut bench = logging_bench();
    assert_eq!(logged(&mut bench, "XADD s * a 1"), ["XADD s 1700000000000-0 a 1"]);
    assert_eq!(logged(&mut bench, "XADD s NOMKSTREAM * a 1"), ["XADD s 1700000000000-1 a 1"]);
    assert_eq!(logged(&mut bench, "XADD s 1700000000001-* a 1"), ["XADD s 1700000000001-0 a 1"]);
    assert_eq!(logged(&mut bench, "XADD s 1700000000002-5 a 1"), ["as it came"]);
    assert_eq!(logged(&mut bench, "XADD s MAXLEN 3 1700000000002-6 a 1"), ["as it came"]);
    assert_eq!(
        logged(&mut bench, "XADD s MAXLEN ~ 1 LIMIT 5 * a 1"),
        ["XADD s MAXLEN = 4 1700000000002-7 a 1"]
    );
    assert_eq!(
        logged(&mut bench, "XADD s ACKED MINID ~ 5 * a 1"),
        ["XADD s MINID = 1700000000001-0 ACKED 1700000000002-8 a 1"]
    );
}

#[test]
fn approximate_trimming_is_logged_as_exact() {
    let mut bench = logging_bench();
    bench.settings.limits.stream_node_entries_max = 3;
    for ms in 1..=10 {
        bench.run(&format!("XADD s {ms} a b"));
    }
    assert_eq!(logged(&mut bench, "XTRIM s MAXLEN ~ 5"), ["XTRIM s MAXLEN = 7"]);
    assert_eq!(logged(&mut bench, "XTRIM s MINID ~ 9-0"), ["XTRIM s MINID = 7-0"]);
    assert_eq!(logged(&mut bench, "XTRIM s MAXLEN 2"), ["as it came"]);
}

#[test]
fn deliveries_are_logged_as_claims() {
    let mut bench = logging_bench();
    bench.run("XADD s 1-1 a b");
    bench.run("XADD s 1-2 a b");
    bench.run("XADD s 1-3 a b");
    bench.run("XGROUP CREATE s g 0");
    let claim = |consumer: &str, id: &str, count: u64| {
        format!("XCLAIM s g {consumer} 0 {id} TIME 1700000000000 RETRYCOUNT {count} FORCE JUSTID")
    };
    assert_eq!(
        logged(&mut bench, "XREADGROUP GROUP g c COUNT 2 STREAMS s >"),
        [
            "XGROUP CREATECONSUMER s g c".to_owned(),
            claim("c", "1-1", 1),
            claim("c", "1-2", 1),
            "XGROUP SETID s g 1-2 ENTRIESREAD 2".to_owned(),
        ]
    );
    assert_eq!(
        logged(&mut bench, "XREADGROUP GROUP g c NOACK STREAMS s >"),
        ["XGROUP SETID s g 1-3 ENTRIESREAD 3"]
    );
    let expected = ["XGROUP CREATECONSUMER s g d".to_owned(), claim("d", "1-1", 2)];
    assert_eq!(logged(&mut bench, "XCLAIM s g d 0 1-1 1-3"), expected);
    bench.run("XDEL s 1-2");
    assert_eq!(
        logged(&mut bench, "XAUTOCLAIM s g c 0 0 JUSTID"),
        [claim("c", "1-1", 2), "XACK s g 1-2".to_owned()]
    );
}

#[test]
fn who_waits_from_the_end_on_is_served_from_there() {
    let mut bench = logging_bench();
    bench.run("XADD s 1-1 a b");
    bench.run("XREAD BLOCK 0 STREAMS s t $ $");
    let blocking = bench.effects.blocking.take().expect("there is nothing to read");
    assert!(!blocking.on_loss);
    let instead = blocking.instead.expect("the identifiers would mean something else later");
    let words: Vec<_> = instead.as_args().iter().map(String::from_utf8_lossy).collect();
    assert_eq!(words.join(" "), "XREAD BLOCK 0 STREAMS s t 1-1 0-0");
    bench.run("XGROUP CREATE s g $");
    bench.run("XREADGROUP GROUP g c BLOCK 0 STREAMS s >");
    let blocking = bench.effects.blocking.take().expect("there is nothing to read");
    assert!(blocking.on_loss && blocking.instead.is_none());
}
