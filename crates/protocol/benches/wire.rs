//! What the wire costs: nanoseconds to parse a request and to write a reply, in pipelines of 32.
//!
//! `cargo bench -p mantissa-protocol`; a number after `--` sets the rounds of each measurement. Under
//! `cargo test --benches` it only checks the answers.

use std::hint::black_box;
use std::time::Instant;

use mantissa_protocol::{Args, Parsed, Protocol, Reply, RequestLimits, RequestParser, Slice, encode_request};

const PIPELINE: usize = 32;

/// Parses a whole pipeline and returns the number of bytes of all arguments.
fn parse(parser: &mut RequestParser, limits: &RequestLimits, input: &[u8], slices: &mut Vec<Slice>) -> usize {
    let (mut position, mut total) = (0, 0);
    slices.clear();
    while position < input.len() {
        let first = slices.len();
        match parser.parse_at(input, position, limits, slices) {
            Parsed::Request { consumed } => {
                let args = Args::new(input, &slices[first..]);
                total += args.at(args.len() - 1).len();
                position += consumed;
            }
            other => panic!("{other:?}"),
        }
    }
    total
}

fn measure(name: &str, rounds: usize, mut round: impl FnMut() -> usize) {
    let expected = round();
    let mut best_ns = f64::INFINITY;
    for _ in 0..50.min(rounds) {
        let start = Instant::now();
        for _ in 0..rounds {
            assert_eq!(black_box(round()), expected);
        }
        best_ns = best_ns.min(start.elapsed().as_nanos() as f64 / (rounds * PIPELINE) as f64);
    }
    println!("{name:<40} {best_ns:6.1} ns");
}

fn measure_parse(name: &str, rounds: usize, request: impl Fn(usize) -> Vec<Vec<u8>>) {
    let mut input = Vec::new();
    (0..PIPELINE).for_each(|i| encode_request(&mut input, request(i)));
    let (mut parser, limits, mut slices) = (RequestParser::default(), RequestLimits::default(), Vec::new());
    measure(name, rounds, || parse(&mut parser, &limits, black_box(&input), &mut slices));
}

fn measure_reply(name: &str, rounds: usize, write: impl Fn(&mut Reply, usize)) {
    let mut reply = Reply::new(Protocol::Resp2);
    measure(name, rounds, || {
        reply.truncate(0);
        (0..PIPELINE).for_each(|i| write(black_box(&mut reply), black_box(i)));
        reply.len()
    });
}

fn main() {
    let rounds = std::env::args().filter_map(|arg| arg.parse().ok()).next();
    let rounds = rounds.unwrap_or(if std::env::args().any(|arg| arg == "--bench") { 2_000 } else { 1 });
    let key = |i: usize| format!("key:{:012}", i * 7919).into_bytes();
    let mixed = |i: usize| format!("k{}", i * i * i * 7919 % 1_000_003).into_bytes();
    let value = |size: usize| vec![b'v'; size];
    measure_parse("parse GET, key of 16", rounds, |i| vec![b"GET".to_vec(), key(i)]);
    measure_parse("parse GET, keys of 2 to 7", rounds, |i| vec![b"GET".to_vec(), mixed(i)]);
    measure_parse("parse SET, key of 16, value of 128", rounds, |i| {
        vec![b"SET".to_vec(), key(i), value(128)]
    });
    measure_parse("parse SET, key of 16, value of 4096", rounds, |i| {
        vec![b"SET".to_vec(), key(i), value(4096)]
    });
    measure_parse("parse SET, mixed sizes", rounds, |i| vec![b"SET".to_vec(), mixed(i), value(i * 37 % 300)]);
    measure_parse("parse HSET of 10 fields", rounds, |i| {
        let fields = (0..20).map(|j| format!("f{}", j * i).into_bytes());
        [b"HSET".to_vec(), key(i)].into_iter().chain(fields).collect()
    });
    let data = value(4096);
    for size in [3, 16, 128, 4096] {
        let name = format!("reply bulk string of {size}");
        measure_reply(&name, rounds, |reply, _| reply.bulk(black_box(&data[..size])));
    }
    measure_reply("reply bulk string of 0 to 300", rounds, |reply, i| reply.bulk(&data[..i * 37 % 300]));
    measure_reply("reply integer below 10", rounds, |reply, i| reply.integer((i % 10) as i64));
    measure_reply("reply integer of 1 to 10 digits", rounds, |reply, i| reply.integer(1 << i));
    measure_reply("reply status", rounds, |reply, _| reply.ok());
    measure_reply("reply null", rounds, |reply, _| reply.null());
    measure_reply("reply array header", rounds, |reply, i| reply.array(i * 9));
}
