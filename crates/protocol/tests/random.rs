//! Random input: requests and replies split at random places, and bytes that are neither.

mod model;

use mantissa_protocol::{
    Args, Decoder, Parsed, Protocol, Reply, RequestLimits, RequestParser, Value, encode_request,
};
use proptest::prelude::*;

/// A generator that is the same everywhere: xorshift.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

/// Pieces that requests and replies are made of, so that random sequences of them get far.
const PIECES: [&[u8]; 40] = [
    b"\r\n",
    b"\r\n",
    b"\r\n",
    b"\r\n",
    b"*1\r\n",
    b"*2\r\n",
    b"*0\r\n",
    b"$3\r\nabc\r\n",
    b"$0\r\n\r\n",
    b"$12\r\n",
    b"0123456789ab",
    b"$",
    b"*",
    b"1",
    b"0",
    b"-1",
    b"\r",
    b"\n",
    b" ",
    b"\"",
    b"'",
    b"\\",
    b"x41",
    b"PING",
    b"%1\r\n",
    b"|1\r\n",
    b"~2\r\n",
    b">1\r\n",
    b":1\r\n",
    b",1.5\r\n",
    b"#t\r\n",
    b"_\r\n",
    b"(12\r\n",
    b"=5\r\ntxt:a\r\n",
    b"!1\r\ne\r\n",
    b"$?\r\n",
    b";1\r\na\r\n",
    b";0\r\n",
    b"*?\r\n",
    b".\r\n",
];

/// Runs a check on random sequences of pieces with random bytes between them.
fn run(seed: u64, rounds: usize, check: fn(&[u8])) {
    let mut random = Random(seed);
    for _ in 0..rounds {
        let mut input = vec![random.next() as u8, random.next() as u8];
        for _ in 0..random.below(24) {
            match random.below(16) {
                0 => input.push(random.next() as u8),
                _ => input.extend_from_slice(PIECES[random.below(PIECES.len())]),
            }
        }
        if let Err(panic) = std::panic::catch_unwind(|| check(&input)) {
            eprintln!("seed {seed}, input {}", input.escape_ascii());
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
fn random_bytes_as_requests() {
    run(0x9e37_79b9_7f4a_7c15, 20_000, model::check_requests);
}

#[test]
fn random_bytes_as_replies() {
    run(0xd1b5_4a32_d192_ed03, 20_000, model::check_replies);
}

#[test]
fn lines_at_the_size_limit_in_pieces() {
    for start in ["*", "*1\r\n$", "*1\r\n", "a", "\""] {
        for size in [65_530, 65_540] {
            for end in ["", "\r", "\r\n", "\n"] {
                let input = [b"\xff\0", start.as_bytes(), &vec![b'1'; size], end.as_bytes()].concat();
                model::check_requests(&input);
            }
        }
    }
}

fn arguments() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let short = prop::collection::vec(any::<u8>(), 0..20);
    let long = (0usize..2000).prop_map(|len| vec![b'x'; len]);
    prop::collection::vec(prop_oneof![4 => short, 1 => long], 1..12)
}

/// Splits `input` at the places given, taken modulo its length.
fn split<'a>(input: &'a [u8], places: &[usize]) -> Vec<&'a [u8]> {
    let mut places: Vec<usize> = places.iter().map(|place| place % (input.len() + 1)).collect();
    places.sort_unstable();
    let (mut pieces, mut start) = (Vec::new(), 0);
    for place in places.into_iter().chain([input.len()]) {
        pieces.push(&input[start..place]);
        start = place;
    }
    pieces
}

fn reply_value() -> impl Strategy<Value = Value> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..20);
    let line = || "[ -~]{0,12}".prop_map(String::into_bytes);
    let leaf = prop_oneof![
        line().prop_map(Value::Simple),
        line().prop_map(Value::Error),
        any::<i64>().prop_map(Value::Integer),
        bytes().prop_map(Value::Bulk),
        any::<bool>().prop_map(Value::Boolean),
        "-?[0-9]{1,30}".prop_map(|digits| Value::BigNumber(digits.into_bytes())),
        bytes().prop_map(|text| Value::Verbatim { format: *b"txt", text }),
        Just(Value::Null),
        prop::num::f64::NORMAL.prop_map(|value| {
            let mut text = Vec::new();
            mantissa_number::write_score(&mut text, value);
            Value::Double { value, text }
        }),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        let pairs = prop::collection::vec((inner.clone(), inner.clone()), 0..4);
        let elements = prop::collection::vec(inner.clone(), 0..6);
        prop_oneof![
            elements.clone().prop_map(Value::Array),
            elements.clone().prop_map(Value::Set),
            elements.prop_map(Value::Push),
            pairs.clone().prop_map(Value::Map),
            (pairs, inner)
                .prop_map(|(attributes, value)| Value::Attribute { attributes, value: Box::new(value) }),
        ]
    })
}

/// Writes a value with the methods of a reply.
fn write(reply: &mut Reply, value: &Value) {
    let all = |reply: &mut Reply, values: &[Value]| values.iter().for_each(|value| write(reply, value));
    let pairs = |reply: &mut Reply, pairs: &[(Value, Value)]| {
        pairs.iter().for_each(|(key, value)| {
            write(reply, key);
            write(reply, value);
        });
    };
    match value {
        Value::Simple(text) => reply.simple(std::str::from_utf8(text).expect("ASCII")),
        Value::Error(text) => reply.error_bytes(text),
        Value::Integer(value) => reply.integer(*value),
        Value::Bulk(data) => reply.bulk(data),
        Value::Boolean(value) => reply.boolean(*value),
        Value::BigNumber(digits) => reply.big_number(digits),
        Value::Verbatim { text, .. } => reply.verbatim("txt", text),
        Value::Double { value, .. } => reply.double(*value),
        Value::Null => reply.null(),
        Value::Array(elements) => {
            let header = reply.defer();
            all(reply, elements);
            reply.finish_array(header, elements.len());
        }
        Value::Set(elements) => {
            reply.set(elements.len());
            all(reply, elements);
        }
        Value::Push(elements) => {
            reply.push(elements.len());
            all(reply, elements);
        }
        Value::Map(entries) => {
            let header = reply.defer();
            pairs(reply, entries);
            reply.finish_map(header, entries.len());
        }
        Value::Attribute { attributes, value } => {
            reply.attribute(attributes.len());
            pairs(reply, attributes);
            write(reply, value);
        }
        Value::NullBulk | Value::NullArray | Value::BulkError(_) => unreachable!("not generated"),
    }
}

/// What the lines of a request are made of, and a byte more.
const LINE_BYTES: &[u8] = b"$*\r\n0123456789x";

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn requests_arrive_whole_however_they_are_cut(
        requests in prop::collection::vec(arguments(), 1..6),
        places in prop::collection::vec(any::<usize>(), 0..12),
    ) {
        let mut input = Vec::new();
        requests.iter().for_each(|request| encode_request(&mut input, request));
        prop_assert_eq!(model::serve(&split(&input, &places), &RequestLimits::default()), (requests, None));
    }

    /// The bytes around the arguments of a request are said to be its encoding only if they are.
    #[test]
    fn an_encoding_is_told_by_its_bytes(
        request in arguments(),
        before in prop::collection::vec(any::<u8>(), 0..4),
        change in prop::option::of((any::<usize>(), prop::sample::select(LINE_BYTES))),
    ) {
        let mut input = before.clone();
        encode_request(&mut input, &request);
        let encoded = input[before.len()..].to_vec();
        if let Some((at, byte)) = change {
            let at = before.len() + at % encoded.len();
            input[at] = byte;
        }
        let (mut parser, mut slices) = (RequestParser::default(), Vec::new());
        let parsed = parser.parse_at(&input, before.len(), &RequestLimits::default(), &mut slices);
        if let Parsed::Request { .. } = parsed {
            let args = Args::new(&input, &slices);
            for args in [args, args.from(1)].into_iter().filter(|args| !args.is_empty()) {
                let mut expected = Vec::new();
                encode_request(&mut expected, args.iter());
                prop_assert!(args.encoded().is_none_or(|bytes| bytes == expected));
            }
            let is_short = request.len() <= 9 && request.iter().all(|word| word.len() < 1000);
            if change.is_none() {
                prop_assert_eq!(args.encoded(), is_short.then_some(&encoded[..]));
            }
            let owned = args.to_owned();
            prop_assert_eq!(owned.as_args().encoded(), None);
        }
    }

    #[test]
    fn replies_are_read_back(value in reply_value(), places in prop::collection::vec(any::<usize>(), 0..12)) {
        let mut reply = Reply::new(Protocol::Resp3);
        write(&mut reply, &value);
        let (mut decoder, mut arrived, mut found) = (Decoder::default(), 0, None);
        for piece in split(reply.as_bytes(), &places) {
            prop_assert!(found.is_none() || piece.is_empty());
            arrived += piece.len();
            if found.is_none() {
                found = decoder.decode(&reply.as_bytes()[..arrived]).expect("a valid reply");
            }
        }
        prop_assert_eq!(found, Some((value, reply.len())));
    }
}
