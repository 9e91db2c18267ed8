//! Runs one command many times on the way that a server's worker takes, without sockets, so that its
//! instructions can be counted. `bench/instructions.py` runs this under callgrind.
//!
//!     instructions COMMAND REQUESTS_AT_ONCE RUNS FOLDER
//!
//! Only [`measured_part`] is to be counted. Every run with the same arguments executes the same.

use std::error::Error;
use std::path::Path;

use mantissa_engine::batch::Batch;
use mantissa_engine::context::Context;
use mantissa_engine::embedded::Embedded;
use mantissa_engine::execute;
use mantissa_engine::host::{ConnId, Peer, Target};
use mantissa_engine::{Session, sessions};
use mantissa_protocol::{Parsed, Reply, RequestLimits, RequestParser, encode_request};
use mantissa_sys::QuickInstant;

#[global_allocator]
static ALLOCATOR: mantissa_store::allocator::CountingAllocator = mantissa_store::allocator::CountingAllocator;

/// Keys of each kind, and elements of each collection.
const KEYS: u64 = 4096;
const ELEMENTS: u64 = 1000;
const SCRIPT: &str = "return redis.call('GET', KEYS[1])";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [command, at_once, runs, folder] = arguments.as_slice() else {
        return Err("usage: instructions COMMAND REQUESTS_AT_ONCE RUNS FOLDER".into());
    };
    let (at_once, runs): (usize, u64) = (at_once.parse()?, runs.parse()?);
    mantissa_store::fix_hash_seed(1);
    // Under callgrind everything is slow: nothing is to be noted as slow, and no script to be interrupted.
    let directives = [("slowlog-log-slower-than", "1000000000"), ("busy-reply-threshold", "1000000000")];
    let embedded = Embedded::open_without_background(Path::new(folder), &directives)?;
    let mut context = Context::new(embedded.engine(), 0);
    context.random_state = 1;
    let target = Target { worker: 0, conn: ConnId(0) };
    let session = sessions::begin(&context, Peer::Embedded, -1, target);
    let mut client = Client { context, session, batch: Batch::default() };
    fill(&mut client)?;
    // Twice the same: the first time buffers and tables grow to their size.
    let warm_up = inputs(command, at_once, 0, runs)?;
    let input = inputs(command, at_once, runs, runs)?;
    let mut reply = Reply::new(client.session.protocol);
    warm_up.iter().for_each(|bytes| client.serve(bytes, &mut reply));
    reply.truncate(0);
    measured_part(&mut client, &input, &mut reply);
    if reply.as_bytes().contains(&b'-') || reply.is_empty() {
        return Err(format!("{command} failed: {:?}", String::from_utf8_lossy(reply.as_bytes())).into());
    }
    Ok(())
}

/// What is counted.
#[inline(never)]
fn measured_part(client: &mut Client<'_>, inputs: &[Vec<u8>], reply: &mut Reply) {
    for bytes in inputs {
        client.serve(bytes, reply);
    }
}

/// A connection's part of a worker.
struct Client<'e> {
    context: Context<'e>,
    session: Session,
    batch: Batch,
}

impl Client<'_> {
    /// Runs the requests in the input as `Worker::received` does.
    fn serve(&mut self, input: &[u8], reply: &mut Reply) {
        let Client { context, session, batch } = self;
        context.refresh();
        context.outbox.required_lsn = 0;
        let authenticated = session.authenticated || !context.engine.acl.needs_login();
        let limits = RequestLimits { bulk_len_max: context.active.config.proto_max_bulk_len, authenticated };
        let (mut parser, mut position) = (RequestParser::default(), 0);
        loop {
            let parsed = batch.parse(input, &mut position, &mut parser, &limits);
            if batch.requests.len() > 1 {
                let keyspace = &context.engine.keyspace;
                batch.prefetch(keyspace, session.database, input);
                batch.fetch_ahead(keyspace, session.database, input);
            }
            context.command_began = QuickInstant::now();
            for request in &batch.requests {
                let args = request.args(input, &batch.slices);
                let command = context.resolve(args).ok();
                execute::execute(context, session, (command, args), request.hash, reply);
            }
            if matches!(parsed, Parsed::Incomplete { .. } | Parsed::Error(_)) {
                break;
            }
        }
        batch.trim();
        context.outbox.end_iteration(false);
    }
}

/// Fills the keyspace.
fn fill(client: &mut Client<'_>) -> Result<(), Box<dyn Error>> {
    let mut reply = Reply::new(client.session.protocol);
    let mut bytes = Vec::new();
    for number in 0..KEYS {
        put(&mut bytes, &["SET", &key(number), "a value of some bytes"]);
        put(&mut bytes, &["SET", &format!("counter:{number}"), &number.to_string()]);
    }
    for number in 0..ELEMENTS {
        let (element, score) = (element(number), number.to_string());
        put(&mut bytes, &["HSET", "hash", &element, "a value of some bytes"]);
        put(&mut bytes, &["ZADD", "zset", &score, &element]);
        put(&mut bytes, &["SADD", "set", &element]);
    }
    for _ in 0..2 * KEYS {
        put(&mut bytes, &["RPUSH", "list", "an element"]);
    }
    client.serve(&bytes, &mut reply);
    if reply.as_bytes().contains(&b'-') { Err("the keyspace could not be filled".into()) } else { Ok(()) }
}

/// `runs` requests from number `first` on, in pieces of `at_once`.
fn inputs(command: &str, at_once: usize, first: u64, runs: u64) -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
    let mut inputs = Vec::new();
    let mut requests = Vec::new();
    for number in first..first + runs {
        for request in requests_of(command, number).ok_or("unknown command")? {
            let words: Vec<&str> = request.iter().map(String::as_str).collect();
            let mut bytes = Vec::new();
            put(&mut bytes, &words);
            requests.push(bytes);
        }
    }
    requests.chunks(at_once).for_each(|chunk| inputs.push(chunk.concat()));
    Ok(inputs)
}

/// The requests of one run of a command.
fn requests_of(command: &str, number: u64) -> Option<Vec<Vec<String>>> {
    let scattered = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    let (key_at, element_at) = (key(scattered % KEYS), element(scattered % ELEMENTS));
    let words = match command {
        "GET" => vec![key_at],
        "SET" => vec![key_at, format!("value number {number:08}")],
        "INCR" => vec![format!("counter:{}", scattered % KEYS)],
        "HGET" => vec!["hash".to_owned(), element_at],
        "HSET" => vec!["hash".to_owned(), element_at, format!("value number {number:08}")],
        "ZADD" => vec!["zset".to_owned(), (number * 7 % ELEMENTS).to_string(), element_at],
        "ZSCORE" => vec!["zset".to_owned(), element_at],
        "LPUSH" => vec!["list".to_owned(), "an element".to_owned()],
        "LPOP" => vec!["list".to_owned()],
        "SADD" => vec!["set".to_owned(), element(ELEMENTS + number)],
        "MGET10" => {
            let keys = (0..10).map(|i| key((scattered + i * 37) % KEYS));
            return Some(vec![std::iter::once("MGET".to_owned()).chain(keys).collect()]);
        }
        "EVAL" => vec![SCRIPT.to_owned(), "1".to_owned(), key_at],
        "MULTI" => {
            let set = |i: u64| {
                let value = format!("value number {number:08}");
                vec!["SET".to_owned(), key((scattered + i) % KEYS), value]
            };
            return Some(vec![vec!["MULTI".to_owned()], set(0), set(1), vec!["EXEC".to_owned()]]);
        }
        _ => return None,
    };
    Some(vec![std::iter::once(command.to_owned()).chain(words).collect()])
}

fn key(number: u64) -> String {
    format!("key:{number:012}")
}

fn element(number: u64) -> String {
    format!("element:{number:06}")
}

fn put(bytes: &mut Vec<u8>, words: &[&str]) {
    encode_request(bytes, words);
}
