//! Random keyspaces against a real redis-server: it loads what is written here to the same digest and the
//! same encodings, and what it saves then loads here.
//!
//! `MANTISSA_ORACLE` names the redis-server, `MANTISSA_REDIS_7` one of version 7.0, `MANTISSA_VALKEY` a
//! valkey-server of version 9; without one its test says so and passes.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod model;
mod random;

use mantissa_persist::format::value_type::STREAM_LISTPACKS_2;
use mantissa_persist::load::LoadOptions;
use mantissa_persist::payload::{dump_value, restore_value};
use mantissa_persist::write::{Target, WriteOptions};
use mantissa_store::{Entry, Keyspace, Value, ValueRef};
use model::{digest, load, save};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use random::{details, keys, keyspace_of, limits};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Past the year 2100: nothing expires while the test runs.
const EXPIRY_MS_MIN: i64 = 4_200_000_000_000;
const KEYSPACE_COUNT: usize = 40;

/// A redis-server with a folder of its own.
struct Oracle {
    process: Child,
    folder: PathBuf,
    stream: BufReader<UnixStream>,
}

impl Oracle {
    /// Starts the program that the environment variable named.
    fn start(program: &str, variable: &str) -> Self {
        let knows_packed_sets = variable != "MANTISSA_REDIS_7";
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let name = format!("mantissa-persist-oracle-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("the folder for temporary files can be written to");
        let limits = limits();
        let entries_max = limits.set_listpack_entries_max.to_string();
        let packed_sets = ["--set-max-listpack-entries", &entries_max];
        let packed_sets = if knows_packed_sets { &packed_sets[..] } else { &[] };
        let process = Command::new(program)
            .current_dir(&folder)
            .args(["--port", "0", "--unixsocket", "socket", "--save", "", "--enable-debug-command", "yes"])
            .args(["--sanitize-dump-payload", "yes"])
            .args(["--hash-max-listpack-entries", &limits.hash_entries_max.to_string()])
            .args(["--list-max-listpack-size", &limits.list_node_size.to_string()])
            .args(["--set-max-intset-entries", &limits.set_intset_entries_max.to_string()])
            .args(packed_sets)
            .args(["--zset-max-listpack-entries", &limits.sorted_set_entries_max.to_string()])
            .stdout(Stdio::null())
            .spawn()
            .expect("the variable names a program that starts");
        let deadline = Instant::now() + Duration::from_secs(30);
        let stream = loop {
            match UnixStream::connect(folder.join("socket")) {
                Ok(stream) => break stream,
                Err(error) => assert!(Instant::now() < deadline, "the oracle does not listen: {error}"),
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        Oracle { process, folder, stream: BufReader::new(stream) }
    }

    /// Sends a command and returns the reply's text; of an array, that of its last element.
    fn ask(&mut self, arguments: &[&[u8]]) -> String {
        let mut request = format!("*{}\r\n", arguments.len()).into_bytes();
        for argument in arguments {
            request.extend(format!("${}\r\n", argument.len()).into_bytes());
            request.extend_from_slice(argument);
            request.extend_from_slice(b"\r\n");
        }
        self.stream.get_mut().write_all(&request).expect("the oracle reads");
        self.reply()
    }

    fn reply(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).expect("the oracle answers");
        let (kind, rest) = line.trim_end().split_at(1);
        match kind {
            "$" if rest != "-1" => {
                let mut bytes = vec![0; rest.parse::<usize>().expect("a length") + 2];
                self.stream.read_exact(&mut bytes).expect("the oracle answers");
                bytes.truncate(bytes.len() - 2);
                String::from_utf8_lossy(&bytes).into_owned()
            }
            "*" => (0..rest.parse().expect("a count")).map(|_: u32| self.reply()).last().unwrap_or_default(),
            _ => rest.to_owned(),
        }
    }

    fn file(&self) -> PathBuf {
        self.folder.join("dump.rdb")
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        // What is left behind of a process that is gone already harms nobody.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn hex(digest: [u8; 20]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn encoding(entry: &Entry) -> Option<&'static str> {
    match entry.value() {
        ValueRef::String(_) => None,
        ValueRef::List(list) => Some(list.encoding()),
        ValueRef::Set(_) => None,
        ValueRef::SortedSet(set) => Some(set.encoding()),
        ValueRef::Hash(_) => None,
        ValueRef::Stream(_) => Some("stream"),
        ValueRef::Series(_) => None,
        ValueRef::Array(_) => Some("sliced-array"),
        ValueRef::BloomFilter(_)
        | ValueRef::CuckooFilter(_)
        | ValueRef::CountMinSketch(_)
        | ValueRef::TopK(_)
        | ValueRef::TDigest(_)
        | ValueRef::Json(_)
        | ValueRef::VectorSet(_) => Some("raw"),
    }
}

/// Has `visit` called with each key and its database.
fn each_key(keyspace: &Keyspace, mut visit: impl FnMut(usize, &Entry)) {
    let mut shards = keyspace.lock(keyspace.all_shards());
    for index in 0..keyspace.shard_count() {
        shards.visit(index, |shard| {
            for (database, table) in shard.databases.iter().enumerate() {
                table.iter().for_each(|entry| visit(database, entry));
            }
        });
    }
}

fn server(variable: &str) -> Option<Oracle> {
    let program = std::env::var(variable).ok().filter(|program| Path::new(program).exists());
    if program.is_none() {
        eprintln!("SKIPPED: {variable} names no server");
    }
    program.map(|program| Oracle::start(&program, variable))
}

fn oracle() -> Option<Oracle> {
    server("MANTISSA_ORACLE")
}

/// Has a server load what is written for a replica like it, of values whose forms are at most `form_max`.
fn check_replica(server: Option<Oracle>, target: Target, form_max: u8) {
    let Some(mut server) = server else { return };
    let mut runner = TestRunner::deterministic();
    for number in 0..KEYSPACE_COUNT {
        let options =
            WriteOptions { compress: number % 2 == 0, limits: limits(), target, ..WriteOptions::default() };
        let mut keys = keys(EXPIRY_MS_MIN).new_tree(&mut runner).expect("nothing is rejected").current();
        keys.retain_mut(|(_, _, value, _)| {
            let entry = Entry::new(b"key", std::mem::replace(value, Value::String(Vec::new())), None, 0);
            let form = dump_value(entry.value(), &options)[0];
            *value = entry.into_value();
            form <= form_max
        });
        let keyspace = keyspace_of(keys);
        std::fs::write(server.file(), save(&keyspace, &[], &options)).expect("the folder can be written to");
        assert_eq!(server.ask(&[b"DEBUG", b"RELOAD", b"NOSAVE"]), "OK", "keyspace {number}");
        each_key(&keyspace, |database, entry| {
            server.ask(&[b"SELECT", database.to_string().as_bytes()]);
            let expiry = entry.expiry().unwrap_or(-1).to_string();
            assert_eq!(server.ask(&[b"PEXPIRETIME", entry.key()]), expiry, "keyspace {number}");
            check_value(&mut server, entry);
        });
    }
}

/// Has a server agree on a value. Its digest differs between servers where it has scores or expiries of
/// fields.
fn check_value(server: &mut Oracle, entry: &Entry) {
    match entry.value() {
        ValueRef::SortedSet(set) => {
            assert_eq!(server.ask(&[b"ZCARD", entry.key()]), set.len().to_string());
            for (member, score) in set.iter() {
                let found = server.ask(&[b"ZSCORE", entry.key(), member]);
                assert_eq!(found.parse(), Ok(score));
            }
        }
        ValueRef::Hash(hash) if hash.earliest_expiry().is_some() => {
            assert_eq!(server.ask(&[b"HLEN", entry.key()]), hash.len().to_string());
            for (field, value, expiry) in hash.iter() {
                let field = field.to_vec();
                let found = server.ask(&[b"HGET", entry.key(), &field]);
                assert_eq!(found, String::from_utf8_lossy(&value.to_vec()));
                let found = server.ask(&[b"HPEXPIRETIME", entry.key(), b"FIELDS", b"1", &field]);
                assert_eq!(found, expiry.unwrap_or(-1).to_string());
            }
        }
        _ => {
            let expected = hex(mantissa_persist::digest::digest_value(entry));
            assert_eq!(server.ask(&[b"DEBUG", b"DIGEST-VALUE", entry.key()]), expected);
        }
    }
}

#[test]
fn redis_8_loads_what_is_written_for_replicas() {
    check_replica(oracle(), Target::Replica, u8::MAX);
}

#[test]
fn redis_7_loads_what_is_written_for_replicas_and_it_can_hold() {
    check_replica(server("MANTISSA_REDIS_7"), Target::Replica, STREAM_LISTPACKS_2);
}

#[test]
fn valkey_loads_what_is_written_for_it() {
    check_replica(server("MANTISSA_VALKEY"), Target::Valkey, u8::MAX);
}

#[test]
fn files_mean_the_same_to_redis() {
    let Some(mut oracle) = oracle() else { return };
    let mut runner = TestRunner::deterministic();
    for number in 0..KEYSPACE_COUNT {
        let keys = keys(EXPIRY_MS_MIN).new_tree(&mut runner).expect("nothing is rejected").current();
        let keyspace = keyspace_of(keys);
        let (compress, checksum) = (number % 2 == 0, number % 3 != 0);
        let options = WriteOptions { compress, checksum, limits: limits(), ..WriteOptions::default() };
        std::fs::write(oracle.file(), save(&keyspace, &[], &options)).expect("the folder can be written to");
        assert_eq!(oracle.ask(&[b"DEBUG", b"RELOAD", b"NOSAVE"]), "OK");
        assert_eq!(oracle.ask(&[b"DEBUG", b"DIGEST"]), hex(digest(&keyspace)), "keyspace {number}");
        each_key(&keyspace, |database, entry| {
            oracle.ask(&[b"SELECT", database.to_string().as_bytes()]);
            if let Some(encoding) = encoding(entry) {
                assert_eq!(oracle.ask(&[b"OBJECT", b"ENCODING", entry.key()]), encoding, "keyspace {number}");
            }
            let expiry = entry.expiry().unwrap_or(-1).to_string();
            assert_eq!(oracle.ask(&[b"PEXPIRETIME", entry.key()]), expiry, "keyspace {number}");
        });
        assert_eq!(oracle.ask(&[b"SAVE"]), "OK");
        let saved = std::fs::read(oracle.file()).expect("the oracle has saved");
        let loaded = load(&saved, &LoadOptions { limits: limits(), ..LoadOptions::default() });
        let loaded = loaded.map_err(|error| error.to_string()).expect("the oracle's file loads");
        assert_eq!(details(&loaded.keyspace), details(&keyspace), "keyspace {number}");
    }
}

#[test]
fn payloads_mean_the_same_to_redis() {
    let Some(mut oracle) = oracle() else { return };
    let mut runner = TestRunner::deterministic();
    for number in 0..KEYSPACE_COUNT {
        let keys = keys(EXPIRY_MS_MIN).new_tree(&mut runner).expect("nothing is rejected").current();
        for (_, _, value, _) in keys {
            let entry = Entry::new(b"key", value, None, 0);
            let options = WriteOptions { limits: limits(), ..WriteOptions::default() };
            let payload = dump_value(entry.value(), &options);
            assert_eq!(oracle.ask(&[b"RESTORE", b"key", b"0", &payload, b"REPLACE"]), "OK");
            let expected = hex(mantissa_persist::digest::digest_value(&entry));
            assert_eq!(oracle.ask(&[b"DEBUG", b"DIGEST-VALUE", b"key"]), expected, "keyspace {number}");
            let value = restore_value(&payload, &LoadOptions::default()).expect("it was just dumped");
            let entry = Entry::new(b"key", value, None, 0);
            assert_eq!(hex(mantissa_persist::digest::digest_value(&entry)), expected, "keyspace {number}");
        }
    }
}
