//! Requests as they arrive: whole, in pieces, and wrong. The error cases were read off a running Redis 8.2.3.

use mantissa_protocol::{Args, OwnedArgs, Parsed, ProtocolError, RequestLimits, RequestParser};

/// What a connection gets from a stream of bytes: its requests, and the error that ends it.
fn serve(pieces: &[&[u8]], limits: &RequestLimits) -> (Vec<OwnedArgs>, Option<ProtocolError>) {
    let (mut parser, mut input, mut requests) = (RequestParser::default(), Vec::new(), Vec::new());
    for piece in pieces {
        input.extend_from_slice(piece);
        let (mut slices, mut position) = (Vec::new(), 0);
        loop {
            let first = slices.len();
            match parser.parse_at(&input, position, limits, &mut slices) {
                Parsed::Request { consumed } => {
                    requests.push(Args::new(&input, &slices[first..]).to_owned());
                    position += consumed;
                }
                Parsed::Inline { consumed, arguments } => {
                    requests.push(arguments);
                    position += consumed;
                }
                Parsed::Empty { consumed } => position += consumed,
                Parsed::Incomplete { .. } => {
                    assert_eq!(slices.len(), first);
                    assert_eq!(parser.is_idle(), position == input.len());
                    break;
                }
                Parsed::Error(error) => {
                    assert_eq!(slices.len(), first);
                    assert!(parser.is_idle());
                    return (requests, Some(error));
                }
            }
        }
        // As a connection does whose buffer moves.
        input.drain(..position);
    }
    (requests, None)
}

fn requests(input: &[u8]) -> Vec<OwnedArgs> {
    let (requests, error) = serve(&[input], &RequestLimits::default());
    assert_eq!(error, None, "{}", input.escape_ascii());
    requests
}

fn error(input: &[u8]) -> String {
    error_within(input, &RequestLimits::default())
}

fn error_within(input: &[u8], limits: &RequestLimits) -> String {
    let (_, error) = serve(&[input], limits);
    error.map_or_else(|| "none".to_owned(), |error| error.to_string())
}

fn owned(args: &[&str]) -> OwnedArgs {
    args.iter().collect()
}

#[test]
fn a_pipeline_in_any_pieces() {
    let long = "0123456789".repeat(12);
    let input = format!(
        "*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000001\r\nSET a b\r\n\r\n*0\r\n*-1\r\nECHO \"a b\"\n\
         *3\r\n$3\r\nSET\r\n$0\r\n\r\n$120\r\n{long}\r\n*1\r\n$4\r\nQUIT\r\n"
    );
    let input = input.as_bytes();
    let whole = requests(input);
    let expected = [
        owned(&["GET", "key:000000000001"]),
        owned(&["SET", "a", "b"]),
        owned(&["ECHO", "a b"]),
        owned(&["SET", "", &long]),
        owned(&["QUIT"]),
    ];
    assert_eq!(whole, expected);
    for at in 0..input.len() {
        let (before, after) = input.split_at(at);
        assert_eq!(
            serve(&[before, after], &RequestLimits::default()),
            (whole.clone(), None),
            "split at {at}"
        );
    }
    let bytes: Vec<&[u8]> = input.chunks(1).collect();
    assert_eq!(serve(&bytes, &RequestLimits::default()), (whole, None));
}

#[test]
fn missing_bytes_of_a_bulk_string_are_told() {
    let limits = RequestLimits::default();
    for (input, missing) in [("*2\r\n$3\r\nSET\r\n$10", 0), ("*2\r\n$3\r\nSET\r\n$1000\r\nabc", 999), ("", 0)]
    {
        let mut slices = Vec::new();
        let parsed = RequestParser::default().parse(input.as_bytes(), &limits, &mut slices);
        assert_eq!(parsed, Parsed::Incomplete { missing });
        assert!(slices.is_empty());
    }
}

#[test]
fn a_request_of_many_arguments_in_small_pieces() {
    const COUNT: usize = 300_000;
    let mut input = format!("*{COUNT}\r\n").into_bytes();
    for i in 0..COUNT {
        input.extend_from_slice(format!("$1\r\n{}\r\n", i % 10).as_bytes());
    }
    let (mut parser, limits, mut slices) = (RequestParser::default(), RequestLimits::default(), Vec::new());
    let mut end = 0;
    let consumed = loop {
        match parser.parse(&input[..end], &limits, &mut slices) {
            Parsed::Incomplete { .. } => end = (end + 3).min(input.len()),
            Parsed::Request { consumed } => break consumed,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((consumed, slices.len()), (input.len(), COUNT));
    assert_eq!(Args::new(&input, &slices).at(COUNT - 1), b"9");
    assert_eq!(parser.memory_usage(), 0);
}

#[test]
fn line_ends_are_taken_on_trust() {
    assert_eq!(requests(b"*1\rX$4\rYPINGzz"), [owned(&["PING"])]);
    assert_eq!(requests(b"*1\r\n$0\r\n\r\n"), [owned(&[""])]);
    assert!(requests(b"*1\n$4\nPING\n").is_empty());
}

#[test]
fn counts_as_redis_takes_them() {
    let invalid = "ERR Protocol error: invalid multibulk length";
    for count in
        ["", "01", "+1", " 1", "1 ", "-0", "00", "2147483648", "99999999999999999999999", "a", "1\n$4"]
    {
        assert_eq!(error(format!("*{count}\r\n").as_bytes()), invalid, "{count:?}");
    }
    for count in ["-1", "-2", "0", "-2147483649"] {
        assert_eq!(requests(format!("*{count}\r\nPING\r\n").as_bytes()), [owned(&["PING"])]);
    }
    for count in ["2147483647", "1048577"] {
        assert!(requests(format!("*{count}\r\n").as_bytes()).is_empty());
    }
    let invalid = "ERR Protocol error: invalid bulk length";
    for len in ["-1", "", "04", "+4", " 4", "4 ", "536870913", "99999999999999999999", "-0", "007"] {
        assert_eq!(error(format!("*1\r\n${len}\r\n").as_bytes()), invalid, "{len:?}");
        assert_eq!(error(format!("*1\r\n${len}\r\n0123456789\r\n").as_bytes()), invalid, "{len:?}");
    }
    assert!(requests(b"*1\r\n$536870912\r\n").is_empty());
    let limits = RequestLimits { bulk_len_max: 5, ..RequestLimits::default() };
    assert_eq!(error_within(b"*1\r\n$6\r\nabcdef\r\n", &limits), invalid);
    assert_eq!(error_within(b"*1\r\n$5\r\nabcde\r\n", &limits), "none");
    let limits = RequestLimits { bulk_len_max: u64::MAX, ..RequestLimits::default() };
    assert_eq!(error_within(b"*1\r\n$9223372036854775807\r\nabcdef\r\n", &limits), "none");
    assert_eq!(error_within(b"*1\r\n$x\r\nabcdef\r\n", &limits), invalid);
}

#[test]
fn bytes_other_than_a_dollar() {
    for (byte, shown) in [(b':', ':'), (b'\r', ' '), (b'\n', ' '), (b'"', '"'), (b'P', 'P')] {
        let message = error(&[b"*1\r\n", &[byte][..], b"4\r\nPING\r\n"].concat());
        assert_eq!(message, format!("ERR Protocol error: expected '$', got '{shown}'"));
    }
    assert_eq!(
        ProtocolError::ExpectedDollar(0x80).message(),
        b"ERR Protocol error: expected '$', got '\x80'"
    );
    assert_eq!(error(b"*1\r\nPING"), "none");
}

#[test]
fn lines_without_end() {
    let cases = [
        ("*", "too big mbulk count string"),
        ("*1\r\n$", "too big bulk count string"),
        ("*1\r\nx", "too big bulk count string"),
        ("a", "too big inline request"),
    ];
    for (start, text) in cases {
        let line_start = start.rfind('\n').map_or(0, |end| end + 1);
        let fill = "1".repeat(64 * 1024 - (start.len() - line_start));
        assert_eq!(error(format!("{start}{fill}").as_bytes()), "none");
        assert_eq!(error(format!("{start}{fill}1").as_bytes()), format!("ERR Protocol error: {text}"));
    }
    let word = "a".repeat(64 * 1024);
    assert_eq!(requests(format!("{word}\n").as_bytes()), [owned(&[&word])]);
    assert_eq!(error(format!("{word}a\n").as_bytes()), "ERR Protocol error: too big inline request");
}

#[test]
fn inline_requests() {
    for input in ["PING\r\n", "PING\n", "\r\nPING\r\n", "\n\n\nPING\n", "   \r\n PING \r\n", "\x0bPING\r\r\n"]
    {
        assert_eq!(requests(input.as_bytes()), [owned(&["PING"])], "{input:?}");
    }
    assert!(requests(b"PING\r").is_empty());
    assert_eq!(requests(b"P\rING\r\n"), [owned(&["P", "ING"])]);
    assert_eq!(requests(b"$4\r\n *1\r\n"), [owned(&["$4"]), owned(&["*1"])]);
    assert_eq!(requests(b"ECHO 'a\\'b\\n' a\"b\"\r\n"), [owned(&["ECHO", "a'b\\n", "ab"])]);
    assert_eq!(requests(b"\"\"\r\n"), [owned(&[""])]);
    for input in ["ECHO \"a\"b\r\n", "ECHO 'a\r\nPING\r\n", "ECHO \"\\\r\n", "ECHO \"\"\"\"\r\n"] {
        assert_eq!(error(input.as_bytes()), "ERR Protocol error: unbalanced quotes in request");
    }
}

#[test]
fn before_authentication() {
    let limits = RequestLimits { authenticated: false, ..RequestLimits::default() };
    let cases = [
        ("*10\r\n", "none"),
        ("*11\r\n", "ERR Protocol error: unauthenticated multibulk length"),
        ("*1\r\n$16384\r\n", "none"),
        ("*1\r\n$16385\r\n", "ERR Protocol error: unauthenticated bulk length"),
        ("*1\r\n$536870913\r\n", "ERR Protocol error: invalid bulk length"),
    ];
    for (input, message) in cases {
        assert_eq!(error_within(input.as_bytes(), &limits), message);
    }
}
