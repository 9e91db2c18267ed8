//! MIGRATE: moves keys to another server, by RESTORE there and DEL here.
//!
//! Three steps: the values are packed with their shards locked; they are sent, and the answers awaited, by a
//! thread of its own with nothing locked, while other clients go on and this one waits; the client's worker
//! then locks the shards again and removes what has arrived.
//!
//! What this guarantees:
//!
//! - A key is removed here only after the other server has confirmed it. If the connection fails in between,
//!   it may be in both places, never in none.
//! - A write that comes while the key is on its way is not lost: a key that is not what was sent (another
//!   value or expiry) is kept here, and the reply is an error that says so. The other server then has the
//!   value that was sent.
//! - Each key moves by itself: some can arrive where others are refused. With several refusals the first is
//!   replied.
//! - Inside a transaction nothing may come in between, so there the locks are held until the other server has
//!   answered or the timeout is over. All else waits meanwhile.
//!
//! Every call makes a connection of its own. The timeout is for connecting, and for each answer.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use mantissa_commands::spec::{BeginSearch, Categories, FindKeys, Flags, Group, InStream, KeyFlags, KeySpec};
use mantissa_commands::{Access, Error, KeyPosition, KeyPositions, Outcome, Settings, TimeoutReply, parse};
use mantissa_persist::payload::dump_value;
use mantissa_protocol::{Args, Reply, encode_request};
use mantissa_store::ShardSet;

use crate::blocking::{self, UnderWay};
use crate::context::Context;
use crate::engine::Engine;
use crate::host::Message;
use crate::invocation::{EngineSpec, Invocation};
use crate::shard_access::with_shards;
use mantissa_sys::clock::unix_ms;

/// The timeout where none or a negative one is given.
const TIMEOUT_DEFAULT_MS: u64 = 1000;
/// Bytes of an answer that are read at most.
const ANSWER_BYTES_MAX: u64 = 4096;

/// What a call asks for.
struct Request {
    host: String,
    port: u16,
    target_database: i64,
    timeout: Duration,
    copies: bool,
    replaces: bool,
    /// The arguments of AUTH there.
    credentials: Vec<Vec<u8>>,
    /// The database of the keys here.
    database: usize,
}

/// A key as it is sent.
struct Parcel {
    key: Vec<u8>,
    payload: Vec<u8>,
    expiry: Option<i64>,
}

/// What became of the parcels.
struct Delivery {
    /// Those that have arrived.
    arrived: Vec<Parcel>,
    /// The first failure.
    error: Option<Error>,
}

/// A number at the start of a text, as C reads it; 0 if there is none.
fn leading_number(text: &[u8]) -> u16 {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    mantissa_number::parse_u64(&text[..digits]).and_then(|number| u16::try_from(number).ok()).unwrap_or(0)
}

impl Request {
    fn parse(args: Args<'_>, database: usize) -> Outcome<Request> {
        let (mut copies, mut replaces, mut credentials) = (false, false, Vec::new());
        let mut at = 6;
        while let Some(option) = args.get(at) {
            let left = args.len() - at - 1;
            let mut take_credentials = |count: usize| {
                credentials = args.range(at + 1..at + 1 + count).iter().map(<[u8]>::to_vec).collect();
                count
            };
            at += 1 + if parse::is(option, "COPY") {
                copies = true;
                0
            } else if parse::is(option, "REPLACE") {
                replaces = true;
                0
            } else if parse::is(option, "AUTH") && left >= 1 {
                take_credentials(1)
            } else if parse::is(option, "AUTH2") && left >= 2 {
                take_credentials(2)
            } else if parse::is(option, "KEYS") {
                if !args.at(3).is_empty() {
                    return Err(Error::fixed(
                        "ERR When using MIGRATE KEYS option, the key argument must be set to the empty \
                         string",
                    ));
                }
                left
            } else {
                return Err(Error::SYNTAX);
            };
        }
        let timeout_ms = u64::try_from(parse::integer(args.at(5))?).unwrap_or(0);
        let timeout_ms = if timeout_ms == 0 { TIMEOUT_DEFAULT_MS } else { timeout_ms };
        Ok(Request {
            host: String::from_utf8_lossy(args.at(1)).into_owned(),
            port: leading_number(args.at(2)),
            target_database: parse::integer(args.at(4))?,
            timeout: Duration::from_millis(timeout_ms),
            copies,
            replaces,
            credentials,
            database,
        })
    }

    /// Connects, sends all parcels, and reads the answers.
    fn deliver(&self, parcels: Vec<Parcel>) -> Delivery {
        let mut delivery = Delivery { arrived: Vec::new(), error: None };
        match self.connect() {
            Ok(stream) => self.exchange(stream, parcels, &mut delivery),
            Err(error) => delivery.error = Some(error),
        }
        delivery
    }

    fn connect(&self) -> Outcome<TcpStream> {
        const NOT_CONNECTED: Error = Error::fixed("IOERR error or timeout connecting to the client");
        let addresses = (&self.host[..], self.port).to_socket_addrs().map_err(|_| NOT_CONNECTED)?;
        let mut error = NOT_CONNECTED;
        for address in addresses {
            match TcpStream::connect_timeout(&address, self.timeout) {
                Ok(stream) => {
                    let set = [
                        stream.set_read_timeout(Some(self.timeout)),
                        stream.set_write_timeout(Some(self.timeout)),
                        stream.set_nodelay(true),
                    ];
                    return if set.iter().all(Result::is_ok) { Ok(stream) } else { Err(NOT_CONNECTED) };
                }
                Err(failure) if failure.kind() == std::io::ErrorKind::TimedOut => {}
                // Redis notices a refusal when it writes.
                Err(_) => error = NOT_WRITTEN,
            }
        }
        Err(error)
    }

    fn exchange(&self, stream: TcpStream, parcels: Vec<Parcel>, delivery: &mut Delivery) {
        let mut answers = BufReader::new(&stream);
        let mut failed = |error: Error| {
            delivery.error.get_or_insert(error);
        };
        let mut before = Vec::new();
        let mut before_count = 1;
        if !self.credentials.is_empty() {
            let words: Vec<&[u8]> =
                std::iter::once(&b"AUTH"[..]).chain(self.credentials.iter().map(Vec::as_slice)).collect();
            encode_request(&mut before, words);
            before_count = 2;
        }
        encode_request(&mut before, ["SELECT", &self.target_database.to_string()]);
        if send(&stream, before).is_err() {
            return failed(NOT_WRITTEN);
        }
        for parcel in &parcels {
            if send(&stream, self.restore(parcel)).is_err() {
                return failed(NOT_WRITTEN);
            }
        }
        let mut refused = false;
        for _ in 0..before_count {
            match answer(&mut answers) {
                Ok(()) => {}
                Err(Failure::Refused(error)) => {
                    refused = true;
                    failed(error);
                }
                Err(Failure::Broken) => return failed(NOT_READ),
            }
        }
        for parcel in parcels {
            match answer(&mut answers) {
                // Restored into another database, or by another user, than was asked for.
                Ok(()) if refused => {}
                Ok(()) => delivery.arrived.push(parcel),
                Err(Failure::Refused(error)) => failed(error),
                Err(Failure::Broken) => return failed(NOT_READ),
            }
        }
    }

    /// The command that makes the key there.
    fn restore(&self, parcel: &Parcel) -> Vec<u8> {
        let ttl_ms = parcel.expiry.map_or(0, |expiry| (expiry - unix_ms()).max(1)).to_string();
        let mut words: Vec<&[u8]> = vec![b"RESTORE", &parcel.key, ttl_ms.as_bytes(), &parcel.payload];
        if self.replaces {
            words.push(b"REPLACE");
        }
        let mut command = Vec::with_capacity(parcel.payload.len() + parcel.key.len() + 64);
        encode_request(&mut command, words);
        command
    }

    /// Removes what has arrived, unless it has changed since, and gives the outcome of the command.
    fn settle(&self, access: &mut Access<'_>, delivery: Delivery) -> Outcome {
        let mut error = delivery.error;
        access.select(self.database);
        for parcel in delivery.arrived.iter().filter(|_| !self.copies) {
            if !is_same(access, parcel) {
                error = error.or(Some(CHANGED));
            } else if access.delete(&parcel.key) {
                access.log_instead(&[b"DEL", &parcel.key]);
            }
        }
        error.map_or(Ok(()), Err)
    }
}

const NOT_WRITTEN: Error = Error::fixed("IOERR error or timeout writing to target instance");
const NOT_READ: Error = Error::fixed("IOERR error or timeout reading to target instance");
const CHANGED: Error = Error::fixed(
    "ERR A key has changed while it was on its way: it is kept here, and the target has its former value",
);

/// Why a command was not confirmed.
enum Failure {
    /// The other server said no.
    Refused(Error),
    /// It said nothing.
    Broken,
}

fn send(mut stream: &TcpStream, bytes: Vec<u8>) -> std::io::Result<()> {
    stream.write_all(&bytes)
}

/// Reads the answer to one command. Only a simple string confirms it.
fn answer(answers: &mut BufReader<&TcpStream>) -> Result<(), Failure> {
    let mut line = Vec::new();
    let read = answers.by_ref().take(ANSWER_BYTES_MAX).read_until(b'\n', &mut line);
    if read.is_err() || line.pop() != Some(b'\n') {
        return Err(Failure::Broken);
    }
    let text = line.strip_suffix(b"\r").unwrap_or(&line);
    if text.starts_with(b"+") {
        return Ok(());
    }
    let said = text.strip_prefix(b"-").unwrap_or(text);
    Err(Failure::Refused(Error::quoting("ERR Target instance replied with error: ", said, "")))
}

/// What is sent of a key; `None` if there is no such key.
fn pack(key: &[u8], access: &Access<'_>) -> Outcome<Option<Parcel>> {
    let Some(entry) = access.read(key) else { return Ok(None) };
    let options = super::dump::write_options(access.settings());
    let payload = entry.look_at(|value| dump_value(value, &options));
    let payload = payload.map_err(|reason| Error::new(format!("ERR {reason}")))?;
    Ok(Some(Parcel { key: key.to_vec(), payload, expiry: entry.expiry() }))
}

/// Whether a key is still what was sent.
fn is_same(access: &Access<'_>, parcel: &Parcel) -> bool {
    let settings: &Settings = access.settings();
    access.peek(&parcel.key).is_none_or(|entry| {
        let options = super::dump::write_options(settings);
        let is_same = entry.look_at(|value| dump_value(value, &options) == parcel.payload);
        entry.expiry() == parcel.expiry && is_same.unwrap_or(false)
    })
}

fn migrate(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let request = Request::parse(args, invocation.session.database)?;
    let keys: Vec<&[u8]> = migrated_keys(args).map(|index| args.at(index)).collect();
    let keyspace = &invocation.engine().keyspace;
    let mut shards = ShardSet::EMPTY;
    keys.iter().for_each(|key| shards.insert(keyspace.shard_of(keyspace.hash(key))));
    let parcels: Outcome<Vec<Parcel>> = invocation
        .with_access(shards, |access| keys.iter().filter_map(|key| pack(key, access).transpose()).collect());
    let parcels = parcels?;
    if parcels.is_empty() {
        reply.simple("NOKEY");
        return Ok(());
    }
    if invocation.in_transaction() {
        let delivery = request.deliver(parcels);
        invocation.with_access(shards, |access| request.settle(access, delivery))?;
        reply.ok();
        return Ok(());
    }
    start(invocation, args, request, shards, parcels)
}

/// Has a thread deliver the parcels, and the client wait for it.
fn start(
    invocation: &mut Invocation<'_, '_, '_>,
    args: Args<'_>,
    request: Request,
    shards: ShardSet,
    parcels: Vec<Parcel>,
) -> Outcome {
    let engine = invocation.engine();
    let session = &mut *invocation.session;
    let blocked = blocking::waiting_without_keys(engine, session, args, None, TimeoutReply::Never)?;
    let (waits, under_way) = (Arc::clone(&blocked), UnderWay::begin(engine));
    let body = move |engine: &Engine| {
        let delivery = request.deliver(parcels);
        let target = *waits.session.target.lock();
        let protocol = waits.protocol;
        let work = move |context: &mut Context| {
            let _until_it_is_settled = under_way;
            let outcome = with_shards(context, None, request.database, shards, |access| {
                request.settle(access, delivery)
            });
            let mut reply = Reply::new(protocol);
            match outcome {
                Ok(()) => reply.ok(),
                Err(error) => reply.error_bytes(error.bytes()),
            }
            reply.into_bytes()
        };
        engine.send(target.worker, Message::Complete(target.conn, waits, Box::new(work)));
    };
    let started = engine.spawn("migrate", body);
    started.map_err(|error| Error::new(format!("ERR Could not start a thread: {error}")))?;
    blocking::wait(engine, session, blocked);
    Ok(())
}

const MOVES: KeyFlags = KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::DELETE);

/// Where the keys of a MIGRATE are: the third argument, or if that is empty all after KEYS. The word may also
/// be a password.
fn migrated_keys(args: Args<'_>) -> std::ops::Range<usize> {
    let mut at = 6;
    while let Some(option) = args.get(at).filter(|_| args.at(3).is_empty()) {
        at += 1 + match &option.to_ascii_uppercase()[..] {
            b"KEYS" => return at + 1..args.len(),
            b"AUTH" => 1,
            b"AUTH2" => 2,
            _ => 0,
        };
    }
    3..4
}

/// The key specifications find an empty key where there are several.
fn find_migrated(args: Args<'_>, found: &mut KeyPositions) {
    let flags = found.first().map_or(KeyFlags::NONE, |key| key.flags);
    found.clear();
    found.extend(migrated_keys(args).map(|index| KeyPosition { index, flags }));
}

/// Whether an argument is a password, or a user, for the other server.
fn is_login(args: Args<'_>, index: usize) -> bool {
    let mut at = 6;
    while at < args.len().min(super::OPTIONS_END) && !parse::is(args.at(at), "KEYS") {
        let operands = match () {
            () if parse::is(args.at(at), "AUTH") => 1,
            () if parse::is(args.at(at), "AUTH2") => 2,
            () => 0,
        };
        if (at + 1..=at + operands).contains(&index) {
            return true;
        }
        at += 1 + operands;
    }
    false
}

/// The registration table.
pub(super) const COMMANDS: &[EngineSpec] = &[EngineSpec::new("migrate", -6, migrate, Flags::WRITE)
    .in_stream(InStream::Never)
    .more_keys(find_migrated)
    .secrets(is_login)
    .categories(Categories::KEYSPACE.or(Categories::DANGEROUS))
    .keys(&[
        KeySpec::one(3, MOVES),
        KeySpec::other(
            BeginSearch::Keyword("KEYS", -2),
            FindKeys::Range { last: -1, step: 1, limit: 0 },
            MOVES.or(KeyFlags::INCOMPLETE),
        ),
    ])
    .docs(
        Group::Generic,
        "2.6.0",
        "O(N*M) for N elements of M bytes here and there, and the network between",
        "Moves keys to another server.",
    )
    .history(&[("3.0.0", "COPY and REPLACE."), ("3.0.6", "KEYS."), ("4.0.7", "AUTH."), ("6.0.0", "AUTH2.")])
    .tips(&["nondeterministic_output"])
    .arguments(
        "host:string port:integer key-selector:oneof(key:key#0 empty-string:pure-token@'') \
         destination-db:integer timeout:integer copy:pure-token@COPY?<3.0.0 \
         replace:pure-token@REPLACE?<3.0.0 authentication:oneof(auth:string@AUTH^password<4.0.7 \
         auth2:block(username:string password:string)@AUTH2<6.0.0)? keys:key#1@KEYS?*^key<3.0.6",
    )];
