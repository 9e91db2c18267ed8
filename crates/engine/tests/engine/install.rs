//! Taking over a primary's data: what clients see before, meanwhile and after, and what errors leave.

use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::support::{Ask, Bench, Folder, START_MS, show};
use mantissa_engine::embedded::Embedded;
use mantissa_engine::replication::install::{Installed, install};
use mantissa_persist::framing::{Framing, Payload};
use mantissa_persist::write::{FileFacts, ReplicationFacts, Target, WriteOptions, Writer};
use mantissa_store::Entry;

const ID: &str = "0123456789abcdef0123456789abcdef01234567";
const OFFSET: u64 = 1_000_000;
const LIBRARY: &[u8] = b"#!lua name=new\nredis.register_function('new_one', function() return 1 end)";
const OLD_LIBRARY: &str = "#!lua name=old\nredis.register_function('old_one', function() return 1 end)";

/// A dump with `counted` keys, and some others in databases 0 and 3.
fn dump(counted: usize) -> Vec<u8> {
    let options = WriteOptions { target: Target::Replica, ..WriteOptions::default() };
    let mut writer = Writer::new(Vec::new(), options, None);
    let replication = ReplicationFacts { database: 3, id: ID.to_owned(), offset: OFFSET as i64 };
    let facts = FileFacts { replication: Some(replication), ..FileFacts::default() };
    let mut write = || {
        writer.begin(&facts)?;
        writer.function(LIBRARY)?;
        writer.database(0, counted as u64 + 3, 1)?;
        writer.entry(&Entry::string(b"both", b"new", None, 0))?;
        writer.entry(&Entry::string(b"added", b"new", None, 0))?;
        writer.entry(&Entry::string(b"expired", b"new", Some(START_MS - 1_000_000), 0))?;
        for number in 0..counted {
            writer.entry(&Entry::string(format!("key:{number}").as_bytes(), &[b'v'; 100], None, 0))?;
        }
        writer.database(3, 1, 0)?;
        writer.entry(&Entry::string(b"third", b"new", None, 0))
    };
    write().and_then(|()| writer.finish()).expect("a vector takes it").0
}

fn take(store: &Embedded, mut payload: impl Read) -> Result<Installed, String> {
    install(store.engine(), &mut payload, Some((ID.to_owned(), OFFSET)), &|_| {}, &|| false)
}

/// Opens a server with data of its own.
fn server(mode: &str) -> Bench {
    let directives =
        [("repl-diskless-load", mode), ("replica-read-only", "no"), ("save", "\"\""), ("hz", "1")];
    let bench = Bench::open(&directives);
    fill(&bench.store);
    bench.store.engine().set_replica(true);
    bench
}

fn fill(store: &Embedded) {
    let mut client = store.client().expect("a client is free");
    for line in ["SET both old", "SET removed old", "RPUSH list a b c", "SET expired old"] {
        assert!(!client.ask(line).starts_with("(error)"));
    }
    show(&client.call(&["FUNCTION", "LOAD", OLD_LIBRARY]));
}

/// What a server has, and where in which history it is.
fn state(store: &Embedded) -> (String, String, String, u64) {
    let mut client = store.client().expect("a client is free");
    let replication = &store.engine().replication;
    (
        client.ask("DEBUG DIGEST"),
        client.ask("FUNCTION LIST"),
        replication.history().id,
        replication.offset_of(store.engine().log.end()),
    )
}

fn files(folder: &Folder) -> Vec<String> {
    let files = std::fs::read_dir(folder.path()).expect("the folder is there");
    let names = files.flatten().map(|file| file.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.ends_with(".rdb")).collect()
}

fn assert_new(store: &Embedded, counted: usize) {
    let mut client = store.client().expect("a client is free");
    assert_eq!(client.ask("MGET both added removed list"), "[new, new, nil, nil]");
    assert_eq!(client.ask("DBSIZE"), (counted + 3).to_string());
    assert!(client.ask("FUNCTION LIST").contains("new_one"));
    assert!(!client.ask("FUNCTION LIST").contains("old_one"));
    client.ask("SELECT 3");
    assert_eq!(client.ask("GET third"), "new");
    let replication = &store.engine().replication;
    assert_eq!(replication.history().id, ID);
    assert_eq!(replication.offset_of(store.engine().log.end()), OFFSET);
}

#[test]
fn the_primarys_data_come_in_the_place_of_what_was_there() {
    for mode in ["swapdb", "disabled", "on-empty-db"] {
        let bench = server(mode);
        let installed = take(&bench.store, &dump(5000)[..]);
        assert_eq!(installed, Ok(Installed { database: 3, keys: 5004 }), "{mode}");
        assert_new(&bench.store, 5000);
        assert!(files(&bench.folder).is_empty(), "{mode}");
        // Once more, in the place of those.
        assert_eq!(take(&bench.store, &dump(10)[..]).map(|installed| installed.keys), Ok(14));
        assert_new(&bench.store, 10);
    }
}

#[test]
fn an_empty_server_needs_no_file() {
    let bench = Bench::open(&[("save", "\"\"")]);
    bench.store.engine().set_replica(true);
    // No file can be written.
    std::fs::remove_dir_all(bench.folder.path()).expect("it is there");
    assert!(take(&bench.store, &dump(100)[..]).is_ok());
    assert_new(&bench.store, 100);
}

/// Asks a client while the payload is read.
struct Asking<'a, 's> {
    bytes: &'a [u8],
    store: &'s Embedded,
    replies: Vec<String>,
}

impl Read for Asking<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let mut client = self.store.client().expect("a client is free");
        self.replies.push(client.ask("MGET both added list"));
        self.replies.push(client.ask("SET meanwhile 1"));
        let step = buffer.len().min(5_000);
        self.bytes.read(&mut buffer[..step])
    }
}

#[test]
fn clients_are_served_until_the_new_data_are_there() {
    for mode in ["swapdb", "disabled"] {
        let bench = server(mode);
        let bytes = dump(5000);
        let mut payload = Asking { bytes: &bytes, store: &bench.store, replies: Vec::new() };
        assert!(take(&bench.store, &mut payload).is_ok());
        assert!(payload.replies.len() > 10);
        for replies in payload.replies.chunks(2) {
            assert_eq!(replies, ["[old, nil, nil]", "OK"], "{mode}");
        }
        assert_new(&bench.store, 5000);
    }
}

#[test]
fn watched_keys_count_as_changed_where_they_came_or_went() {
    for mode in ["swapdb", "disabled"] {
        let bench = server(mode);
        let outcomes = ["both", "added", "removed", "nowhere"].map(|key| (key, bench.client()));
        let mut clients = outcomes;
        for (key, client) in &mut clients {
            client.ask(&format!("WATCH {key}"));
            client.ask("MULTI");
            client.ask("PING");
        }
        assert!(take(&bench.store, &dump(1)[..]).is_ok());
        let outcomes = clients.each_mut().map(|(_, client)| client.ask("EXEC"));
        let [both, _added, removed, nowhere] = outcomes;
        assert_eq!((&*both, &*removed, &*nowhere), ("nil", "nil", "[PONG]"), "{mode}");
    }
}

#[test]
fn clients_that_keep_copies_are_told() {
    for mode in ["swapdb", "disabled"] {
        let bench = server(mode);
        let mut client = bench.client();
        client.ask("HELLO 3");
        client.ask("CLIENT TRACKING ON");
        client.ask("GET both");
        assert!(take(&bench.store, &dump(1)[..]).is_ok());
        let told = client.message(Duration::from_secs(1)).map(|message| show(&message));
        assert!(told.as_ref().is_some_and(|text| text.contains("invalidate")), "{mode}: {told:?}");
    }
}

#[test]
fn a_stream_that_is_broken_leaves_everything_as_it_was() {
    let good = dump(2000);
    let cut = good[..good.len() / 2].to_vec();
    let mut changed = good.clone();
    changed[good.len() / 2] ^= 1;
    let longer = [&good[..], b"more"].concat();
    let garbage = b"garbage that is no dump at all".to_vec();
    for mode in ["swapdb", "disabled"] {
        let bench = server(mode);
        let before = state(&bench.store);
        for bytes in [&cut, &changed, &longer, &garbage, &Vec::new()] {
            let mut framed = Vec::new();
            let mark = Framing::Mark([b'm'; 40]);
            mark.write_header(&mut framed).expect("a vector takes it");
            framed.extend_from_slice(bytes);
            mark.write_end(&mut framed).expect("a vector takes it");
            let payload = Payload::begin(&framed[..], Vec::new()).expect("the header is right");
            assert!(take(&bench.store, payload).is_err(), "{mode}");
            // The end of the connection.
            let payload = Payload::begin(&framed[..framed.len() - 1], Vec::new());
            assert!(take(&bench.store, payload.expect("the header is right")).is_err(), "{mode}");
            assert_eq!(state(&bench.store), before, "{mode}");
            assert!(files(&bench.folder).is_empty());
        }
        assert!(take(&bench.store, &good[..]).is_ok());
        assert_new(&bench.store, 2000);
    }
}

#[test]
fn what_is_not_wanted_any_more_ends() {
    let bytes = dump(20_000);
    for mode in ["swapdb", "disabled"] {
        let bench = server(mode);
        let before = state(&bench.store);
        // It looks at each read, and with all shards locked: before that nothing has happened.
        for looks_max in 0..3 {
            let looks = AtomicU64::new(0);
            let ends = || looks.fetch_add(1, Ordering::Relaxed) >= looks_max;
            let position = Some((ID.to_owned(), OFFSET));
            let outcome = install(bench.store.engine(), &mut &bytes[..], position, &|_| {}, &ends);
            assert!(outcome.is_err(), "{mode}");
            assert_eq!(state(&bench.store), before, "{mode}");
        }
    }
}

#[test]
fn a_file_that_does_not_load_leaves_no_data_and_no_history() {
    let bench = server("disabled");
    let before = state(&bench.store);
    let options = WriteOptions::default();
    let mut writer = Writer::new(Vec::new(), options, None);
    let mut write = || {
        writer.begin(&FileFacts::default())?;
        writer.database(0, 2, 0)?;
        writer.entry(&Entry::string(b"twice", b"a", None, 0))?;
        writer.entry(&Entry::string(b"twice", b"b", None, 0))
    };
    let file = write().and_then(|()| writer.finish()).expect("a vector takes it").0;
    let outcome = take(&bench.store, &file[..]);
    assert!(outcome.is_err_and(|reason| reason.contains("duplicated key 'twice'")));
    assert_eq!(bench.client().ask("DBSIZE"), "0");
    let id = bench.store.engine().replication.history().id;
    assert!(id != ID && id != before.2);
    assert!(take(&bench.store, &dump(3)[..]).is_ok());
    assert_new(&bench.store, 3);
}

#[test]
fn the_append_only_file_begins_with_the_new_data() -> Result<(), Box<dyn std::error::Error>> {
    for mode in ["swapdb", "disabled"] {
        let folder = Folder::new()?;
        let directives = [("repl-diskless-load", mode), ("save", "\"\""), ("appendonly", "yes")];
        let store = Embedded::open(folder.path(), &directives)?;
        fill(&store);
        store.engine().set_replica(true);
        // The expired key stays until the primary removes it.
        store.engine().active_expire.store(false, Ordering::Relaxed);
        let received = AtomicU64::new(0);
        let progress = |bytes| received.store(bytes, Ordering::Relaxed);
        let bytes = dump(5000);
        let position = Some((ID.to_owned(), OFFSET));
        install(store.engine(), &mut &bytes[..], position, &progress, &|| false)?;
        assert_eq!(received.into_inner(), bytes.len() as u64);
        assert_new(&store, 5000);
        let aof = &store.engine().aof;
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        while aof.rewrite.is_running() || aof.files.lock().is_none() {
            assert!(std::time::Instant::now() < deadline, "the base is written");
            std::thread::sleep(Duration::from_millis(5));
        }
        // What a replica's own clients write is in no log.
        store.engine().set_replica(false);
        store.client()?.ask("SET after 1");
        store.close()?;
        let store = Embedded::open(folder.path(), &directives)?;
        let mut client = store.client()?;
        assert_eq!(client.ask("MGET both added removed after"), "[new, new, nil, 1]", "{mode}");
    }
    Ok(())
}
