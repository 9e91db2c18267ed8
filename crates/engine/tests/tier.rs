//! Values on a disk that fails, lies or is full.

#[path = "engine/support/mod.rs"]
mod support;

use std::sync::Arc;

use mantissa_engine::Engine;
use mantissa_engine::embedded::{Embedded, Opening};
use mantissa_engine::replication::apply::Applier;
use mantissa_persist::log::Backlog;
use mantissa_persist::storage::MemoryStorage;
use support::Ask;

type Tested = Result<(), Box<dyn std::error::Error>>;

/// An engine that moves every value to disk at once.
fn open(storage: &MemoryStorage, save: &str) -> Result<Embedded, mantissa_engine::embedded::EmbeddedError> {
    let directives =
        [("save", save), ("tier-dir", "/tier"), ("tier-pressure", "yes"), ("enable-debug-command", "yes")];
    Opening::default().storage(Arc::new(storage.clone())).without_background().open("/data", &directives)
}

/// Asks until the reply is another one.
fn ask_until(client: &mut impl Ask, command: &str, is_right: impl Fn(&str) -> bool) -> String {
    for _ in 0..5_000 {
        let reply = client.ask(command);
        if is_right(&reply) {
            return reply;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    client.ask(command)
}

#[test]
fn a_value_that_can_not_be_read_is_an_error_until_it_can() -> Tested {
    let storage = MemoryStorage::new();
    let store = open(&storage, "\"\"")?;
    let mut client = store.client()?;
    let text = "x".repeat(1000);
    // Enough that the first of them is in the file and not in memory.
    for number in 0..1_000 {
        assert_eq!(client.ask(&format!("SET key:{number} {text}{number}")), "OK");
    }
    assert_eq!(client.ask("RPUSH order 8 9"), "2");
    assert_eq!(client.ask("MANTISSA.LOCATION key:1"), "disk");
    ask_until(&mut client, "INFO tier", |info| {
        let waiting =
            info.split("tier_waiting_bytes:").nth(1).and_then(|rest| rest.split_whitespace().next());
        waiting.and_then(|bytes| bytes.parse::<u64>().ok()).is_some_and(|bytes| bytes < 600_000)
    });
    assert_eq!(client.ask("GET key:1"), format!("{text}1"));
    storage.fail_at(storage.operations());
    let refused = "ERR the value could not be read from disk: the disk failed, as asked for";
    assert!(client.ask("GET key:2").contains(refused));
    assert!(client.ask("APPEND key:2 more").contains(refused), "nor is it changed");
    assert!(client.ask("MGET key:3 key:4").contains(refused));
    assert_eq!(client.ask("STRLEN key:2"), "1001", "what needs no value is not concerned");
    let script = "EVAL return(redis.call('GET','key:'..ARGV[1])) 0 6";
    assert!(
        client.ask(script).contains("could not be read"),
        "nor does a script's undeclared key make one up"
    );
    assert!(client.ask("SORT order GET key:*").contains("could not be read"));
    assert!(client.ask("SORT order GET key:* STORE target").contains("could not be read"));
    assert_eq!(client.ask("EXISTS target"), "0");
    assert!(client.ask("DEBUG OBJECT key:7").contains("could not be read"));
    assert_eq!(client.ask("MULTI"), "OK");
    assert_eq!(client.ask("APPEND key:5 more"), "QUEUED");
    assert!(client.ask("EXEC").contains("EXECABORT"), "nothing of it runs");
    assert!(client.ask("SAVE").contains("ERR"), "a dump without it is none");
    storage.fail_at(u64::MAX);
    assert_eq!(ask_until(&mut client, "GET key:2", |reply| !reply.contains("ERR")), format!("{text}2"));
    assert_eq!(ask_until(&mut client, "GET key:5", |reply| !reply.contains("ERR")), format!("{text}5"));
    assert_eq!(client.ask("DEL key:2"), "1");
    Ok(())
}

/// What INFO says of values on disk.
fn figure(client: &mut impl Ask, name: &str) -> u64 {
    let info = client.ask("INFO tier");
    let after = info.split(&format!("{name}:")).nth(1).unwrap_or_default();
    after.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(u64::MAX)
}

#[test]
fn a_damaged_part_is_an_error_for_who_reads_it() -> Tested {
    let storage = MemoryStorage::new();
    let store = open(&storage, "\"\"")?;
    let mut client = store.client()?;
    let block = |number: usize| char::from(b'a' + (number % 26) as u8).to_string().repeat(4_088);
    let text: String = (0..100).map(block).collect();
    let part = |start: usize| text[start..start + 10].to_owned();
    assert_eq!(client.ask(&format!("SET big {text}")), "OK");
    assert_eq!(ask_until(&mut client, "MANTISSA.LOCATION big", |place| place == "disk"), "disk");
    for _ in 0..5_000 {
        if figure(&mut client, "tier_waiting_bytes") == 0 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    // The first record of the file: block 50 begins at 50 times 4096.
    storage.spoil(Some(50 * 4096 + 2_000));
    let damaged = "ERR the value could not be read from disk: its checksum is wrong";
    for number in [0, 49, 51, 99] {
        let start = number * 4_088 + 7;
        assert_eq!(client.ask(&format!("GETRANGE big {start} {}", start + 9)), part(start));
    }
    let start = 50 * 4_088 + 3_000;
    assert!(client.ask(&format!("GETRANGE big {start} {}", start + 9)).contains(damaged));
    assert!(client.ask(&format!("GETBIT big {}", start * 8)).contains(damaged));
    assert!(client.ask(&format!("GETRANGE big {} {start}", start - 5_000)).contains(damaged));
    assert!(client.ask("GET big").contains(damaged));
    assert_eq!(client.ask("GETRANGE big 3 12"), part(3), "another part is not concerned");
    assert_eq!(client.ask("GETRANGE big 900000 900010"), "");
    assert_eq!(client.ask("STRLEN big"), text.len().to_string());
    assert_eq!(client.ask("MANTISSA.LOCATION big"), "disk");
    storage.spoil(None);
    let whole = format!("GETRANGE big {start} {}", start + 9);
    assert_eq!(ask_until(&mut client, &whole, |reply| !reply.contains("ERR")), part(start));
    assert_eq!(figure(&mut client, "tier_reads"), 1, "that of GET");
    storage.fail_at(storage.operations());
    assert!(client.ask("GETRANGE big 3 12").contains("the disk failed, as asked for"));
    assert!(client.ask("SETRANGE big 3 x").contains("could not be read from disk"));
    assert_eq!(client.ask("SET big short"), "OK");
    assert_eq!(client.ask("GETRANGE big 1 2"), "ho");
    Ok(())
}

#[test]
fn a_disk_that_can_not_be_written_leaves_values_in_memory() -> Tested {
    let storage = MemoryStorage::new();
    let store = open(&storage, "\"\"")?;
    let mut client = store.client()?;
    storage.fill_up_after(Some(0));
    let text = "x".repeat(10_000);
    for number in 0..1_000 {
        assert_eq!(client.ask(&format!("SET key:{number} {text}{number}")), "OK");
    }
    for number in 0..1_000 {
        assert_eq!(client.ask(&format!("GET key:{number}")), format!("{text}{number}"));
    }
    ask_until(&mut client, "INFO tier", |info| !info.contains("tier_write_errors:0"));
    storage.fill_up_after(None);
    for number in 0..1_000 {
        assert_eq!(
            client.ask(&format!("APPEND key:{number} !")),
            (text.len() + number.to_string().len() + 1).to_string()
        );
    }
    Ok(())
}

#[test]
fn a_dump_of_values_on_disk_is_whole() -> Tested {
    let storage = MemoryStorage::new();
    let digest = {
        let store = open(&storage, "\"\"")?;
        let mut client = store.client()?;
        for number in 0..300 {
            let text = "y".repeat(100 + number);
            assert_eq!(client.ask(&format!("SET text:{number} {text}")), "OK");
            client.ask(&format!("RPUSH list:{number} {text} {number} {text}"));
            client.ask(&format!("ZADD zset:{number} 1.5 {text} {number} other"));
            client.ask(&format!("HSET hash:{number} field {text}"));
            client.ask(&format!("JSON.SET json:{number} $ {{\"name\":\"{text}\"}}"));
        }
        assert_eq!(client.ask("MANTISSA.LOCATION json:7"), "disk");
        assert_eq!(client.ask("SAVE"), "OK");
        assert_eq!(client.ask("MANTISSA.LOCATION json:7"), "disk", "saving leaves values where they are");
        let digest = client.ask("DEBUG DIGEST");
        assert_eq!(digest.len(), 40);
        digest
    };
    let store = open(&storage, "\"\"")?;
    assert_eq!(store.client()?.ask("DEBUG DIGEST"), digest);
    assert_eq!(store.client()?.ask("DBSIZE"), "1500");
    Ok(())
}

/// A replica with 1,000 strings, the first of which are in the file and not in memory.
fn open_replica(storage: &MemoryStorage) -> Result<(Embedded, Backlog), Box<dyn std::error::Error>> {
    let store = open(storage, "\"\"")?;
    let mut client = store.client()?;
    for number in 0..1_000 {
        assert_eq!(client.ask(&format!("SET key:{number} {}", "x".repeat(1_000))), "OK");
    }
    assert_eq!(client.ask("DEL gone"), "0");
    ask_until(&mut client, "INFO tier", |info| {
        let waiting = info.split("tier_waiting_bytes:").nth(1);
        let bytes = waiting.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
        bytes.is_some_and(|bytes| bytes < 600_000)
    });
    drop(client);
    let engine = store.engine();
    let backlog = engine.log.keep(64 << 20);
    engine.keyspace.set_logged(false);
    engine.set_replica(true);
    Ok((store, backlog))
}

fn stream(lines: &[&str]) -> Vec<u8> {
    let request = |line: &&str| {
        let words: Vec<&str> = line.split(' ').collect();
        let bulks = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
        format!("*{}\r\n{}", words.len(), bulks.collect::<String>())
    };
    lines.iter().map(request).collect::<String>().into_bytes()
}

/// Has the rest of a stream applied, waiting where it waits.
fn apply_all(applier: &mut Applier<'_>, mut rest: &[u8]) -> Result<(), String> {
    while !rest.is_empty() {
        let applied = applier.apply(rest)?;
        rest = &rest[applied.used..];
        assert!(applied.used > 0 || applied.waits, "it goes on or waits");
        if applied.waits {
            applier.wait(std::time::Duration::from_secs(60));
        }
    }
    Ok(())
}

/// The offset that has been reached, and what is logged up to there.
fn end_of(engine: &Engine) -> u64 {
    engine.log.end()
}

#[test]
fn a_stream_waits_in_front_of_what_is_on_disk_and_locks_nothing() -> Tested {
    let storage = MemoryStorage::new();
    let (store, _backlog) = open_replica(&storage)?;
    let mut client = store.client()?;
    let mut applier = Applier::new(store.engine(), 0);
    let began = end_of(store.engine());
    let first = stream(&["SET before 1", "SELECT 0"]);
    let appends: Vec<String> = (1..=40).map(|number| format!("APPEND key:{number} more")).collect();
    let mut lines: Vec<&str> = vec!["SET before 1", "SELECT 0", "MULTI", "SET inside 1"];
    lines.extend(appends.iter().map(String::as_str));
    lines.extend(["SELECT 1", "SET other 1", "SELECT 0", "APPEND key:50 more", "EXEC", "SET after 1"]);
    let bytes = stream(&lines);
    storage.hold_reads(true);
    let applied = applier.apply(&bytes)?;
    assert_eq!((applied.used, applied.waits), (first.len(), true), "up to the transaction");
    assert_eq!(end_of(store.engine()) - began, first.len() as u64);
    let again = applier.apply(&bytes[applied.used..])?;
    assert_eq!((again.used, again.waits), (0, true));
    // The shards of all keys are free meanwhile.
    assert_eq!(client.ask("MGET before inside after"), "[1, nil, nil]");
    for number in 1..=40 {
        assert_eq!(client.ask(&format!("STRLEN key:{number}")), "1000");
    }
    storage.hold_reads(false);
    apply_all(&mut applier, &bytes[applied.used..])?;
    assert_eq!(end_of(store.engine()) - began, bytes.len() as u64);
    assert_eq!(client.ask("MGET before inside after"), "[1, 1, 1]");
    for number in (1..=40).chain([50]) {
        assert_eq!(client.ask(&format!("STRLEN key:{number}")), "1004");
    }
    // All that the transaction needs in its first batch, then what comes behind that.
    assert!((1..=4).contains(&figure(&mut client, "tier_waited_requests")), "values are read together");
    Ok(())
}

#[test]
fn nothing_is_applied_once_the_role_has_changed_while_a_stream_waits() -> Tested {
    let storage = MemoryStorage::new();
    let (store, _backlog) = open_replica(&storage)?;
    let engine = store.engine();
    let mut applier = Applier::new(engine, 0);
    let bytes = stream(&["APPEND key:1 more", "SET after 1"]);
    storage.hold_reads(true);
    assert!(applier.apply(&bytes)?.waits);
    engine.replication.link.epoch.fetch_add(1, std::sync::atomic::Ordering::AcqRel);
    let end = end_of(engine);
    storage.hold_reads(false);
    let ended = apply_all(&mut applier, &bytes).expect_err("the stream is over");
    assert!(ended.contains("follows another primary"), "{ended}");
    assert_eq!(end_of(engine), end);
    let mut client = store.client()?;
    assert_eq!(client.ask("STRLEN key:1"), "1000");
    assert_eq!(client.ask("EXISTS after"), "0");
    Ok(())
}

#[test]
fn a_value_that_can_not_be_read_ends_the_stream_in_front_of_its_command() -> Tested {
    let storage = MemoryStorage::new();
    let (store, _backlog) = open_replica(&storage)?;
    let engine = store.engine();
    let mut applier = Applier::new(engine, 0);
    storage.fail_at(storage.operations());
    let (end, first) = (end_of(engine), stream(&["SET before 1"]));
    let unit = ["SET before 1", "MULTI", "SET inside 1", "APPEND key:1 more", "EXEC"];
    let failure = apply_all(&mut applier, &stream(&unit)).expect_err("it can not be read");
    assert!(failure.contains("could not be read from disk: the disk failed"), "{failure}");
    assert_eq!(end_of(engine) - end, first.len() as u64);
    // What no command needs does not matter.
    let mut applier = Applier::new(engine, 0);
    apply_all(&mut applier, &stream(&["DEL key:2", "SET key:3 new", "SET after 1"]))?;
    storage.fail_at(u64::MAX);
    let mut client = store.client()?;
    assert_eq!(client.ask("MGET before inside after"), "[1, nil, 1]");
    assert_eq!(client.ask("EXISTS key:2"), "0");
    Ok(())
}
