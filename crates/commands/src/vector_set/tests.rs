//! Filters by themselves; the commands are tested beside redis-server.

use super::Filter;

const ATTRIBUTE: &[u8] =
    br#"{"a":1,"b":"x","c":[1,2,"y"],"d":true,"e":null,"s":"a\nb","g":{"h":"}"},"n":-3,"l":[1,[2]]}"#;

fn passes(text: &str) -> bool {
    Filter::compile(text.as_bytes()).expect(text).passes(ATTRIBUTE)
}

#[test]
fn expressions_have_redis_meaning() {
    for text in [
        ".a==1",
        ".a == 1 and .b=='x'",
        "2**3**0==2",
        "not 2 ** 0",
        "1<2==1",
        "1 or 0 and 0",
        ".n*-1==3",
        "\"y\" in .c",
        ".b in [\"x\"]",
        "\"\" in .b",
        ".e==null",
        ".d==1",
        ".s==\"a\nb\"",
        ".n==-3",
        ".c==[9]",
        ".a in [1,2,]",
        "'12a'==0",
        "\" 1\"==1",
        "5.5%2==1.5",
        "1/0>1",
        "0 in .l",
        ".a>0and.a<2",
        "[]",
    ] {
        assert!(passes(text), "{text}");
    }
    for text in [
        ".a==2",
        ".zz",
        ".zz==null",
        "not .zz",
        "not .a==1",
        "(1 or 0) and 0",
        ".g",
        ".b>\"a\"",
        ".c==1",
        "null == 0",
        "2 in .l",
        "1 in \"1\"",
        ".a not in [2]",
        ".",
        "0/0==1",
        "\"\"",
        ".a-b",
        "[1] in [1]",
    ] {
        assert!(!passes(text), "{text}");
    }
}

#[test]
fn what_is_no_expression_is_told_where() {
    for (text, rest) in [
        ("", ""),
        (".a==", ""),
        ("(1", ""),
        ("1)", ""),
        ("1 2", ""),
        (".a=1", "1"),
        (".a & 1", " 1"),
        ("true==1", "1"),
        ("null==0", "0"),
        ("[1 2]", "2]"),
        ("[,1]", ",1]"),
        ("[.a]", ".a]"),
        (".a,1", ",1"),
        ("0x10==16", "10==16"),
        ("1.5.5", ""),
        ("1e", ""),
        ("!!1", ""),
        ("\"a", ""),
        ("+1", ""),
        (".a..b", "..b"),
        ("a AND b", " AND b"),
    ] {
        let at = Filter::compile(text.as_bytes()).expect_err(text);
        assert_eq!(&text[at..], rest, "{text}");
    }
}

#[test]
fn no_bytes_break_a_filter() {
    let pieces: [&[u8]; 18] = [
        b".a", b".", b"(", b")", b"==", b"not ", b"in", b"[1,", b"]", b"'x", b"'", b"-", b"1e", b"**", b" ",
        b"\\", b"\xff", b"null",
    ];
    let attributes: [&[u8]; 6] =
        [ATTRIBUTE, b"{\"a\":[", b"{\"a\":\"\\", b"{\"a\" 1", b"[[[[", b"{\"x\":{,\"a\":1"];
    let mut state = 1u64;
    for _ in 0..100_000 {
        let mut text = Vec::new();
        for _ in 0..8 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            text.extend_from_slice(pieces[(state >> 33) as usize % pieces.len()]);
        }
        match Filter::compile(&text) {
            Ok(filter) => attributes.iter().for_each(|attribute| _ = filter.passes(attribute)),
            Err(at) => assert!(at <= text.len()),
        }
    }
}
