//! The cases of the Autobahn test suite, sections 1 to 7, by number. (Its section 9 is about speed and large
//! messages, 12 and 13 about compression, which is not offered.)

use super::*;

fn invalid() -> Seen {
    Seen::Failed(CloseCode::InvalidPayload)
}

/// Text cut into frames of one byte each.
fn fragments(bytes: &[u8]) -> Vec<Vec<u8>> {
    let last = bytes.len() - 1;
    bytes
        .iter()
        .enumerate()
        .map(|(at, byte)| {
            let opcode = if at == 0 { 0x01 } else { 0x00 };
            masked(opcode | if at == last { 0x80 } else { 0 }, &[*byte])
        })
        .collect()
}

#[test]
fn case_1_messages_of_every_length() {
    for len in [0, 125, 126, 127, 128, 65535, 65536] {
        assert_eq!(decode(&[masked(0x81, &vec![b'*'; len])]), [text(&"*".repeat(len))], "1.1 {len}");
        assert_eq!(decode(&[masked(0x82, &vec![0xfe; len])]), [Seen::Binary(vec![0xfe; len])], "1.2 {len}");
    }
    // 1.1.8, 1.2.8: in chops of 997 bytes.
    let frame = masked(0x81, &[b'*'; 65536]);
    assert_eq!(decode_with(LIMITS, frame.chunks(997)), [text(&"*".repeat(65536))]);
}

#[test]
fn case_2_pings_and_pongs() {
    assert_eq!(decode(&[masked(0x89, b"")]), [Seen::Ping(vec![])], "2.1");
    assert_eq!(decode(&[masked(0x89, b"Hello")]), [Seen::Ping(b"Hello".to_vec())], "2.2");
    assert_eq!(decode(&[masked(0x89, &[0, 0xff, 0xfe])]), [Seen::Ping(vec![0, 0xff, 0xfe])], "2.3");
    assert_eq!(decode(&[masked(0x89, &[0xfe; 125])]), [Seen::Ping(vec![0xfe; 125])], "2.4, 2.6");
    assert_eq!(decode(&[masked(0x89, &[0xfe; 126])]), [protocol_error()], "2.5");
    assert_eq!(decode(&[masked(0x8a, b"")]), [Seen::Pong(vec![])], "2.7");
    assert_eq!(decode(&[masked(0x8a, b"p")]), [Seen::Pong(b"p".to_vec())], "2.8");
    let both = [masked(0x8a, b"p"), masked(0x89, b"q")];
    assert_eq!(decode(&both), [Seen::Pong(b"p".to_vec()), Seen::Ping(b"q".to_vec())], "2.9");
    let ten: Vec<_> = (0..10).map(|number| masked(0x89, &[number])).collect();
    assert_eq!(
        decode(&ten),
        (0..10).map(|number| Seen::Ping(vec![number])).collect::<Vec<_>>(),
        "2.10, 2.11"
    );
}

#[test]
fn case_3_reserved_bits() {
    for bits in 1..=7 {
        let frames = [masked(0x81, b"before"), masked(0x81 | bits << 4, b"x"), masked(0x89, b"")];
        assert_eq!(decode(&frames), [text("before"), protocol_error()], "3.1 to 3.5, bits {bits}");
        assert_eq!(decode(&[masked(0x89 | bits << 4, b"")]), [protocol_error()], "3.6");
        assert_eq!(decode(&[masked(0x88 | bits << 4, b"")]), [protocol_error()], "3.7");
    }
}

#[test]
fn case_4_reserved_opcodes() {
    for opcode in (0x3..=0x7).chain(0xb..=0xf) {
        for fin in [0x80, 0x00] {
            assert_eq!(decode(&[masked(fin | opcode, b"")]), [protocol_error()], "4 {opcode:x}");
            let frames = [masked(0x81, b"before"), masked(fin | opcode, b"x")];
            assert_eq!(decode(&frames), [text("before"), protocol_error()], "4 {opcode:x}");
        }
    }
}

#[test]
fn case_5_fragments() {
    assert_eq!(decode(&[masked(0x09, b"a"), masked(0x80, b"b")]), [protocol_error()], "5.1");
    assert_eq!(decode(&[masked(0x0a, b"a"), masked(0x80, b"b")]), [protocol_error()], "5.2");
    assert_eq!(
        decode(&[masked(0x08, b""), masked(0x80, b"")]),
        [protocol_error()],
        "5.5.1: a close in parts"
    );
    let (first, last) = (masked(0x01, b"fragment1"), masked(0x80, b"fragment2"));
    let whole = || text("fragment1fragment2");
    assert_eq!(decode(&[first.clone(), last.clone()]), [whole()], "5.3 to 5.5");
    let frames = [first.clone(), masked(0x89, b"ping"), last.clone()];
    assert_eq!(decode(&frames), [Seen::Ping(b"ping".to_vec()), whole()], "5.6 to 5.8");
    for first in [0x80, 0x00] {
        let frames = [masked(first, b"non-continuation"), masked(0x81, b"Hello")];
        assert_eq!(decode(&frames), [protocol_error()], "5.9 to 5.14");
    }
    let frames = [first.clone(), last.clone(), masked(0x00, b"fragment3"), masked(0x81, b"fragment4")];
    assert_eq!(decode(&frames), [whole(), protocol_error()], "5.15");
    for fin in [0x00, 0x80] {
        let frames = [masked(fin, b"fragment1"), masked(0x01, b"fragment2"), masked(0x80, b"fragment3")];
        assert_eq!(decode(&frames), [protocol_error()], "5.16, 5.17");
    }
    assert_eq!(decode(&[first, masked(0x01, b"fragment2")]), [protocol_error()], "5.18");
    let frames = [
        masked(0x01, b"f1"),
        masked(0x00, b"f2"),
        masked(0x89, b"p1"),
        masked(0x00, b"f3"),
        masked(0x89, b"p2"),
        masked(0x00, b"f4"),
        masked(0x80, b"f5"),
    ];
    let (p1, p2) = (Seen::Ping(b"p1".to_vec()), Seen::Ping(b"p2".to_vec()));
    assert_eq!(decode(&frames), [p1, p2, text("f1f2f3f4f5")], "5.19, 5.20");
}

#[test]
fn case_6_1_to_6_3_text_in_parts() {
    assert_eq!(decode(&[masked(0x81, b"")]), [text("")], "6.1.1");
    let empty = [masked(0x01, b""), masked(0x00, b""), masked(0x80, b"")];
    assert_eq!(decode(&empty), [text("")], "6.1.2");
    let middle = [masked(0x01, b""), masked(0x00, b"middle frame payload"), masked(0x80, b"")];
    assert_eq!(decode(&middle), [text("middle frame payload")], "6.1.3");
    let valid = "Hello-µ@ßöäüàá-UTF-8!!";
    assert_eq!(decode(&[masked(0x81, valid.as_bytes())]), [text(valid)], "6.2.1");
    for at in 0..=valid.len() {
        let parts = [masked(0x01, &valid.as_bytes()[..at]), masked(0x80, &valid.as_bytes()[at..])];
        assert_eq!(decode(&parts), [text(valid)], "6.2.2 at {at}");
    }
    assert_eq!(decode(&fragments(valid.as_bytes())), [text(valid)], "6.2.3");
    assert_eq!(decode(&fragments("κόσμε".as_bytes())), [text("κόσμε")], "6.2.4");
    let bad = b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xed\xa0\x80edited";
    assert_eq!(decode(&[masked(0x81, bad)]), [invalid()], "6.3.1");
    assert_eq!(decode(&fragments(bad)), [invalid()], "6.3.2");
}

#[test]
fn case_6_4_bad_text_fails_before_its_end() {
    let (begin, wrong) = ("κόσμε".as_bytes(), b"\xf4\x90\x80\x80");
    let parts = [masked(0x01, begin), masked(0x00, wrong)];
    assert_eq!(decode(&parts), [invalid()], "6.4.1");
    let parts = [masked(0x01, &[begin, b"\xf4"].concat()), masked(0x00, b"\x90")];
    assert_eq!(decode(&parts), [invalid()], "6.4.2");
    // 6.4.3, 6.4.4: within a frame whose rest has not come.
    let frame = masked(0x81, &[begin, wrong, b"edited"].concat());
    let up_to_wrong = frame.len() - b"\x80\x80edited".len();
    assert_eq!(decode_with(LIMITS, [&frame[..up_to_wrong]]), [invalid()]);
    assert_eq!(decode_with(LIMITS, [&frame[..up_to_wrong - 1]]), []);
}

#[test]
fn case_6_5_to_6_23_every_kind_of_text() {
    let valid = [
        "κόσμε",
        "\0",
        "\u{80}",
        "\u{800}",
        "\u{10000}",
        "\u{7f}",
        "\u{7ff}",
        "\u{ffff}",
        "\u{d7ff}",
        "\u{e000}",
        "\u{fffd}",
        "\u{10ffff}",
        "\u{fffe}",
        "\u{1fffe}",
        "\u{10fffe}",
    ];
    for wanted in valid {
        assert_eq!(decode(&[masked(0x81, wanted.as_bytes())]), [text(wanted)], "{wanted:?}");
        assert_eq!(decode(&fragments(wanted.as_bytes())), [text(wanted)], "{wanted:?}");
    }
    let bad: [&[u8]; 36] = [
        b"\xce",
        b"\xce\xba\xe1",
        b"\xce\xba\xe1\xbd",
        b"\xcf", // 6.6: cut characters
        b"\xf8\x88\x80\x80\x80",
        b"\xfc\x84\x80\x80\x80\x80", // 6.8: five and six bytes
        b"\xf7\xbf\xbf\xbf",
        b"\xfb\xbf\xbf\xbf\xbf",
        b"\xfd\xbf\xbf\xbf\xbf\xbf", // 6.10
        b"\xf4\x90\x80\x80",         // 6.11: beyond the last code point
        b"\x80",
        b"\xbf",
        b"\x80\xbf",
        b"\x80\xbf\x80\xbf\x80", // 6.12: continuations alone
        b"\xc0 \xc1 ",
        b"\xe0 \xe1 ",
        b"\xf0 \xf1 ",
        b"\xf8 ",
        b"\xfc ", // 6.13: beginnings alone
        b"\xc0",
        b"\xe0\x80",
        b"\xf0\x80\x80",
        b"\xdf",
        b"\xef\xbf",
        b"\xf7\xbf\xbf",             // 6.14: the last is missing
        b"\xc0\xe0\x80\xf0\x80\x80", // 6.15
        b"\xfe",
        b"\xff",
        b"\xfe\xfe\xff\xff", // 6.16
        b"\xc0\xaf",
        b"\xe0\x80\xaf",
        b"\xf0\x80\x80\xaf", // 6.17: overlong
        b"\xc1\xbf",
        b"\xe0\x9f\xbf", // 6.18
        b"\xed\xa0\x80",
        b"\xed\xaf\xbf\xed\xbf\xbf", // 6.20, 6.21: surrogates
    ];
    for bytes in bad {
        assert_eq!(decode(&[masked(0x81, bytes)]), [invalid()], "{bytes:x?}");
        assert_eq!(decode(&fragments(bytes)), [invalid()], "{bytes:x?}");
        // Far in, where whole blocks are checked.
        let long = [&"é".repeat(100).into_bytes()[..], bytes, &[b'x'; 100]].concat();
        assert_eq!(decode(&[masked(0x81, &long)]), [invalid()], "{bytes:x?}");
    }
}

#[test]
fn case_7_closes() {
    let close = |payload: &[u8]| decode(&[masked(0x88, payload)]);
    let closed = |payload: &[u8]| [Seen::Close(payload.to_vec())];
    let frames = [masked(0x81, b"a"), masked(0x88, b"")];
    assert_eq!(decode(&frames), [text("a"), Seen::Close(vec![])], "7.1.1");
    assert_eq!(decode(&[masked(0x88, b""), masked(0x88, b"")]), closed(b""), "7.1.2");
    assert_eq!(decode(&[masked(0x88, b""), masked(0x89, b"")]), closed(b""), "7.1.3");
    let frames = [masked(0x01, b"fragment1"), masked(0x88, b""), masked(0x80, b"fragment2")];
    assert_eq!(decode(&frames), closed(b""), "7.1.5");
    assert_eq!(close(b""), closed(b""), "7.3.1");
    assert_eq!(close(b"\x03"), [protocol_error()], "7.3.2");
    assert_eq!(close(b"\x03\xe8"), closed(b"\x03\xe8"), "7.3.3");
    assert_eq!(close(b"\x03\xe8bye"), closed(b"\x03\xe8bye"), "7.3.4");
    let longest = [b"\x03\xe8", &[b'*'; 123][..]].concat();
    assert_eq!(close(&longest), closed(&longest), "7.3.5");
    assert_eq!(close(&[b"\x03\xe8", &[b'*'; 124][..]].concat()), [protocol_error()], "7.3.6");
    assert_eq!(close(b"\x03\xe8\xce\xba\xed\xa0\x80"), [invalid()], "7.5.1");
    for code in [1000_u16, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999] {
        assert_eq!(close(&code.to_be_bytes()), closed(&code.to_be_bytes()), "7.7 {code}");
    }
    for code in [0_u16, 999, 1004, 1005, 1006, 1016, 1100, 2000, 2999, 5000, 65535] {
        assert_eq!(close(&code.to_be_bytes()), [protocol_error()], "7.9, 7.13 {code}");
    }
}
