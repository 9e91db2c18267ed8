//! Documents that would be too large, through the handlers.

use mantissa_store::json::lower_bytes_max;

use crate::testing::Bench;

/// Bytes of a document in the tests of this crate.
const LOWERED: usize = 1 << 20;
const REFUSED: &str = "-ERR the document would take more than 4 GB\r\n";

/// A bench with the documents `full`, which has less than 9,000 bytes left, and `small`.
fn bench() -> Bench {
    lower_bytes_max(LOWERED);
    let mut bench = Bench::new();
    let block = "x".repeat(LOWERED - 9_000);
    bench.run(&format!(r#"JSON.SET full $ {{"a":[],"b":[],"o":{{"p":1}},"s":"{block}","t":"y"}}"#));
    bench.run(r#"JSON.SET small $ {"a":[[],[],[]],"n":1}"#);
    bench
}

#[test]
fn a_refused_command_changes_nothing() {
    let mut bench = bench();
    let (large, half) = ("w".repeat(10_000), "w".repeat(6_000));
    let third = "w".repeat(LOWERED / 2 - 100);
    let whole = "w".repeat(LOWERED);
    let commands = [
        format!(r#"JSON.SET full $.a "{large}""#),
        format!(r#"JSON.SET full $.new "{large}""#),
        format!(r#"JSON.SET full $.* "{third}""#),
        format!(r#"JSON.SET full $ "{whole}""#),
        format!(r#"JSON.SET new $ "{whole}""#),
        format!(r#"JSON.MERGE full $ {{"a":"{half}","b":"{half}"}}"#),
        format!(r#"JSON.MERGE full $ {{"s":1,"u":"{whole}"}}"#),
        format!(r#"JSON.MERGE full $.o {{"q":"{half}","p":null,"r":"{half}"}}"#),
        format!(r#"JSON.MERGE full $["a","b"] {{"q":"{half}"}}"#),
        format!(r#"JSON.ARRAPPEND full $.a "{half}" "{half}""#),
        format!(r#"JSON.ARRAPPEND full $.* "{half}""#),
        format!(r#"JSON.ARRAPPEND small $.a[*] "{third}""#),
        format!(r#"JSON.ARRINSERT full $.* 0 "{half}""#),
        format!(r#"JSON.ARRINSERT small $.a[*] 0 "{third}""#),
        format!(r#"JSON.STRAPPEND full $.t "{large}""#),
        format!(r#"JSON.MSET small $.n 2 full $.a "{large}""#),
        format!(r#"JSON.MSET full $.a "{half}" small $.n 2 full $.b "{half}""#),
        format!(r#"JSON.MSET small $ 1 new $ 1 full $["a","b"] "{half}""#),
    ];
    let texts = |bench: &mut Bench| ["full", "small", "new"].map(|key| bench.run(&format!("JSON.GET {key}")));
    let before = texts(&mut bench);
    for command in commands {
        let shown = &command[..40];
        assert_eq!(bench.run(&command), REFUSED, "{shown}");
        assert!(texts(&mut bench) == before, "{shown}");
        assert!(bench.effects.dirty == 0, "{shown}");
    }
}

#[test]
fn what_fits_into_a_large_document_is_done() {
    let mut bench = bench();
    let third = "w".repeat(3_000);
    let commands = [
        (format!(r#"JSON.ARRAPPEND full $.a "{third}""#), "*1\r\n:1\r\n"),
        (format!(r#"JSON.MERGE full $.o {{"q":"{third}"}}"#), "+OK\r\n"),
        ("JSON.NUMINCRBY full $.o.p 1".to_owned(), "$3\r\n[2]\r\n"),
        (r#"JSON.MSET full $.b [1] small $.n 2"#.to_owned(), "+OK\r\n"),
        (r#"JSON.SET full $.s "short""#.to_owned(), "+OK\r\n"),
        (format!(r#"JSON.MSET full $.a "{third}" small $.n 2 full $.b "{third}""#), "+OK\r\n"),
    ];
    for (command, reply) in commands {
        assert_eq!(bench.run(&command), reply, "{}", &command[..20]);
        assert!(bench.effects.dirty > 0);
    }
    assert_eq!(bench.run("JSON.GET full $.s $.o.p"), "$29\r\n{\"$.s\":[\"short\"],\"$.o.p\":[2]}\r\n");
}
