//! What a reply looks like on the wire, and that the decoder reads it back.

use mantissa_protocol::{DecodeError, Decoder, NESTING_MAX, Protocol, Reply, Value};

/// Writes a part of a reply.
type Write = fn(&mut Reply);

fn written(protocol: Protocol, write: impl Fn(&mut Reply)) -> String {
    let mut reply = Reply::new(protocol);
    write(&mut reply);
    String::from_utf8(reply.into_bytes()).expect("only ASCII is written here")
}

fn both(write: impl Fn(&mut Reply)) -> (String, String) {
    (written(Protocol::Resp2, &write), written(Protocol::Resp3, &write))
}

fn decode(input: &[u8]) -> Result<Option<(Value, usize)>, DecodeError> {
    let whole = Decoder::default().decode(input);
    let mut decoder = Decoder::default();
    for end in 0..=input.len() {
        let step = decoder.decode(&input[..end]);
        match &step {
            Ok(None) => {}
            // A complete reply may be followed by others; an error may come as soon as it shows.
            _ => {
                assert_eq!(format!("{step:?}"), format!("{whole:?}"));
                return whole;
            }
        }
    }
    assert_eq!(whole, Ok(None));
    whole
}

fn value(input: &str) -> Value {
    let (value, size) = decode(input.as_bytes()).expect("a valid reply").expect("a complete reply");
    assert_eq!(size, input.len());
    value
}

#[test]
fn the_same_in_both_protocols() {
    let cases: [(Write, &str); 12] = [
        (|reply| reply.ok(), "+OK\r\n"),
        (|reply| reply.simple("PONG"), "+PONG\r\n"),
        (|reply| reply.error("ERR one\r\ntwo"), "-ERR one  two\r\n"),
        (|reply| reply.integer(0), ":0\r\n"),
        (|reply| reply.integer(-1), ":-1\r\n"),
        (|reply| reply.integer(i64::MIN), ":-9223372036854775808\r\n"),
        (|reply| reply.bulk(b""), "$0\r\n\r\n"),
        (|reply| reply.bulk(b"0123456789"), "$10\r\n0123456789\r\n"),
        (|reply| reply.bulk_integer(-12), "$3\r\n-12\r\n"),
        (|reply| reply.array(0), "*0\r\n"),
        (|reply| reply.array(123), "*123\r\n"),
        (|reply| reply.raw(b"$-1\r\n"), "$-1\r\n"),
    ];
    for (write, expected) in cases {
        assert_eq!(both(write), (expected.to_owned(), expected.to_owned()));
    }
}

#[test]
fn what_only_resp3_has() {
    let cases: [(Write, &str, &str); 14] = [
        (|reply| reply.null(), "$-1\r\n", "_\r\n"),
        (|reply| reply.null_array(), "*-1\r\n", "_\r\n"),
        (|reply| reply.map(2), "*4\r\n", "%2\r\n"),
        (|reply| reply.map(50), "*100\r\n", "%50\r\n"),
        (|reply| reply.set(3), "*3\r\n", "~3\r\n"),
        (|reply| reply.push(3), "*3\r\n", ">3\r\n"),
        (|reply| reply.double(3.125), "$5\r\n3.125\r\n", ",3.125\r\n"),
        (|reply| reply.double(1e20), "$5\r\n1e+20\r\n", ",1e+20\r\n"),
        (|reply| reply.double(f64::NEG_INFINITY), "$4\r\n-inf\r\n", ",-inf\r\n"),
        (|reply| reply.double(-0.0), "$2\r\n-0\r\n", ",-0\r\n"),
        (|reply| reply.boolean(true), ":1\r\n", "#t\r\n"),
        (|reply| reply.boolean(false), ":0\r\n", "#f\r\n"),
        (
            |reply| reply.big_number(b"12345678901234567890"),
            "$20\r\n12345678901234567890\r\n",
            "(12345678901234567890\r\n",
        ),
        (|reply| reply.verbatim("txt", b"some text"), "$9\r\nsome text\r\n", "=13\r\ntxt:some text\r\n"),
    ];
    for (write, resp2, resp3) in cases {
        assert_eq!(both(write), (resp2.to_owned(), resp3.to_owned()));
    }
    assert_eq!(written(Protocol::Resp3, |reply| reply.attribute(1)), "|1\r\n");
}

#[test]
fn headers_written_after_their_elements() {
    for count in [0, 1, 9, 10, 99, 100, 12345] {
        let (resp2, resp3) = both(|reply| {
            reply.integer(7);
            let outer = reply.defer();
            let inner = reply.defer();
            for i in 0..count {
                reply.integer(i);
            }
            reply.finish_array(inner, count as usize);
            let pairs = reply.defer();
            (0..count * 2).for_each(|i| reply.integer(i));
            reply.finish_map(pairs, count as usize);
            let members = reply.defer();
            reply.finish_set(members, 0);
            reply.finish_array(outer, 3);
        });
        let elements = |count: i64| (0..count).map(|i| format!(":{i}\r\n")).collect::<String>();
        let (array, pairs) = (elements(count), elements(count * 2));
        assert_eq!(resp2, format!(":7\r\n*3\r\n*{count}\r\n{array}*{}\r\n{pairs}*0\r\n", count * 2));
        assert_eq!(resp3, format!(":7\r\n*3\r\n*{count}\r\n{array}%{count}\r\n{pairs}~0\r\n"));
    }
}

#[test]
fn a_reply_can_be_taken_back() {
    let mut reply = Reply::with_buffer(b"+OK\r\n".to_vec(), Protocol::Resp2);
    let before = reply.len();
    reply.bulk(b"more");
    reply.truncate(before);
    assert_eq!((reply.as_bytes(), reply.is_empty()), (&b"+OK\r\n"[..], false));
    reply.set_protocol(Protocol::Resp3);
    assert!(reply.is_resp3() && reply.protocol() == Protocol::Resp3);
    assert_eq!((reply.take_bytes(), reply.is_empty()), (b"+OK\r\n".to_vec(), true));
}

#[test]
fn every_type_is_decoded() {
    let bulk = |text: &str| Value::Bulk(text.into());
    assert_eq!(value("+OK\r\n"), Value::Simple(b"OK".to_vec()));
    assert_eq!(value("-ERR no\r\n").as_error(), Some(&b"ERR no"[..]));
    assert_eq!(value("!6\r\nERR \r\n\r\n").as_error(), Some(&b"ERR \r\n"[..]));
    assert_eq!(value(":-12\r\n").as_integer(), Some(-12));
    assert_eq!(value(":+12\r\n").as_integer(), Some(12));
    assert_eq!(value("$4\r\n\r\n\r\n\r\n"), bulk("\r\n\r\n"));
    assert_eq!(value("$-1\r\n"), Value::NullBulk);
    assert_eq!(value("*-1\r\n"), Value::NullArray);
    assert_eq!(value("_\r\n"), Value::Null);
    assert_eq!(value(",1.5e3\r\n"), Value::Double { value: 1500.0, text: b"1.5e3".to_vec() });
    assert_eq!(value("#t\r\n"), Value::Boolean(true));
    assert_eq!(value("(-123\r\n").as_bytes(), Some(&b"-123"[..]));
    assert_eq!(value("=5\r\ntxt:a\r\n"), Value::Verbatim { format: *b"txt", text: b"a".to_vec() });
    assert_eq!(value("*2\r\n*0\r\n$1\r\na\r\n"), Value::Array(vec![Value::Array(vec![]), bulk("a")]));
    assert_eq!(value("~1\r\n:1\r\n"), Value::Set(vec![Value::Integer(1)]));
    assert_eq!(value(">1\r\n:1\r\n").as_elements(), Some(&[Value::Integer(1)][..]));
    assert_eq!(value("%1\r\n+k\r\n*1\r\n#f\r\n"), {
        Value::Map(vec![(Value::Simple(b"k".to_vec()), Value::Array(vec![Value::Boolean(false)]))])
    });
    let attributes = vec![(Value::Simple(b"ttl".to_vec()), Value::Integer(5))];
    let attributed = Value::Attribute { attributes, value: Box::new(bulk("v")) };
    assert_eq!(value("*1\r\n|1\r\n+ttl\r\n:5\r\n$1\r\nv\r\n"), Value::Array(vec![attributed]));
    assert_eq!(
        value("|0\r\n*0\r\n"),
        Value::Attribute { attributes: vec![], value: Box::new(Value::Array(vec![])) }
    );
}

#[test]
fn streams_are_put_together() {
    assert_eq!(value("$?\r\n;4\r\nHell\r\n;1\r\no\r\n;0\r\n"), Value::Bulk(b"Hello".to_vec()));
    assert_eq!(value("$?\r\n;0\r\n"), Value::Bulk(vec![]));
    assert_eq!(
        value("*?\r\n:1\r\n*?\r\n.\r\n.\r\n"),
        Value::Array(vec![Value::Integer(1), Value::Array(vec![])])
    );
    assert_eq!(value("%?\r\n:1\r\n:2\r\n.\r\n"), Value::Map(vec![(Value::Integer(1), Value::Integer(2))]));
}

#[test]
fn what_is_not_a_reply() {
    let cases = [
        ("x\r\n", DecodeError::UnknownType(b'x')),
        ("\r\n", DecodeError::UnknownType(b'\r')),
        ("+a\rb\r\n", DecodeError::MissingLineEnd),
        ("$1\r\nabc", DecodeError::MissingLineEnd),
        ("$-2\r\n", DecodeError::InvalidLength),
        ("$+1\r\n", DecodeError::InvalidLength),
        ("*x\r\n", DecodeError::InvalidLength),
        ("%-1\r\n", DecodeError::InvalidLength),
        ("%?\r\n:1\r\n.\r\n", DecodeError::InvalidLength),
        (":1 \r\n", DecodeError::InvalidInteger),
        (":9223372036854775808\r\n", DecodeError::InvalidInteger),
        (", 1\r\n", DecodeError::InvalidDouble),
        (",0x10\r\n", DecodeError::InvalidDouble),
        (",1\0\r\n", DecodeError::InvalidDouble),
        (",1e999\r\n", DecodeError::InvalidDouble),
        ("#x\r\n", DecodeError::InvalidBoolean),
        ("_x\r\n", DecodeError::InvalidNull),
        ("(1a\r\n", DecodeError::InvalidBigNumber),
        ("(\r\n", DecodeError::InvalidBigNumber),
        ("=3\r\ntxt\r\n", DecodeError::InvalidVerbatim),
        (".\r\n", DecodeError::UnexpectedStreamPart),
        ("*1\r\n.\r\n", DecodeError::UnexpectedStreamPart),
        (";1\r\na\r\n", DecodeError::UnexpectedStreamPart),
        ("$?\r\n:1\r\n", DecodeError::UnexpectedStreamPart),
    ];
    for (input, error) in cases {
        assert_eq!(decode(input.as_bytes()), Err(error), "{input:?}");
    }
    // What a count promises takes no memory before it comes.
    assert_eq!(decode(b"%9223372036854775807\r\n*9223372036854775807\r\n$9223372036854775807\r\n"), Ok(None));
}

#[test]
fn nesting_is_limited() {
    let nested = |depth: usize| "*1\r\n".repeat(depth) + ":1\r\n";
    let mut inner = &value(&nested(NESTING_MAX));
    for _ in 0..NESTING_MAX {
        inner = &inner.as_elements().expect("an array")[0];
    }
    assert_eq!(*inner, Value::Integer(1));
    assert_eq!(decode(nested(NESTING_MAX + 1).as_bytes()), Err(DecodeError::TooDeep));
    assert_eq!(decode("|0\r\n".repeat(NESTING_MAX + 1).as_bytes()), Err(DecodeError::TooDeep));
}

#[test]
fn a_large_reply_in_small_pieces() {
    const COUNT: i64 = 200_000;
    let mut reply = Reply::new(Protocol::Resp3);
    reply.array(COUNT as usize);
    (0..COUNT).for_each(|i| reply.bulk_integer(i));
    let (input, mut decoder, mut end) = (reply.as_bytes(), Decoder::default(), 0);
    let (value, size) = loop {
        match decoder.decode(&input[..end]).expect("a valid reply") {
            None => end = (end + 5).min(input.len()),
            Some(found) => break found,
        }
    };
    assert_eq!((size, value.as_elements().map(<[_]>::len)), (input.len(), Some(COUNT as usize)));
    assert!(decoder.is_idle());
}
