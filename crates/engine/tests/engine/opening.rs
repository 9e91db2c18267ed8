//! Opening and closing an engine: what comes back, how many clients there may be, and what stops the opening.

use std::io;

use crate::support::{Ask, Bench, Folder};
use mantissa_engine::embedded::{CLIENTS_MAX, Embedded, EmbeddedError, LocalClient};

type Tested = Result<(), Box<dyn std::error::Error>>;

const LOGGED: &[(&str, &str)] = &[("appendonly", "yes"), ("save", "\"\"")];

/// The names of this process's threads.
fn threads() -> io::Result<Vec<String>> {
    let tasks = std::fs::read_dir("/proc/self/task")?;
    Ok(tasks.flatten().filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok()).collect())
}

fn error_of(opened: Result<Embedded, EmbeddedError>) -> String {
    opened.map_or_else(|error| error.to_string(), |_| "it was opened".to_owned())
}

#[test]
fn what_was_logged_comes_back_after_close_and_after_drop() -> Tested {
    let folder = Folder::new()?;
    for (run, closes) in [(1, true), (2, false), (3, true)] {
        let store = Embedded::open(folder.path(), LOGGED)?;
        let mut client = store.client()?;
        assert_eq!(client.ask("INCR runs"), run.to_string());
        client.ask("MULTI");
        client.ask("RPUSH list a");
        client.ask("SADD set b");
        client.ask("EXEC");
        assert_eq!(client.ask("LLEN list"), run.to_string());
        drop(client);
        match closes {
            true => store.close()?,
            false => drop(store),
        }
    }
    Ok(())
}

#[test]
fn a_dump_comes_back_if_save_points_are_configured_and_nothing_else_does() -> Tested {
    let folder = Folder::new()?;
    let saved = &[("save", "3600 1")];
    let store = Embedded::open(folder.path(), saved)?;
    store.client()?.ask("SET a 1");
    store.close()?;
    assert!(folder.path().join("dump.rdb").is_file());
    let store = Embedded::open(folder.path(), &[("save", "\"\"")])?;
    assert_eq!(store.client()?.ask("GET a"), "1");
    store.client()?.ask("SET a 2");
    store.close()?;
    let store = Embedded::open(folder.path(), saved)?;
    assert_eq!(store.client()?.ask("GET a"), "1", "without save points nothing is saved");
    Ok(())
}

#[test]
fn engines_in_one_process_know_nothing_of_each_other() -> Tested {
    let (one, two) = (Folder::new()?, Folder::new()?);
    let (first, second) = (Embedded::open(one.path(), LOGGED)?, Embedded::open(two.path(), &[])?);
    let (mut a, mut b) = (first.client()?, second.client()?);
    a.ask("SET key first");
    b.ask("SET key second");
    assert_eq!((a.ask("GET key"), b.ask("GET key")), ("first".to_owned(), "second".to_owned()));
    a.ask("CONFIG SET maxmemory-policy allkeys-lru");
    assert_eq!(b.ask("CONFIG GET maxmemory-policy"), "[maxmemory-policy, noeviction]");
    b.ask("SUBSCRIBE news");
    assert_eq!(a.ask("PUBLISH news x"), "0");
    a.ask("FLUSHALL");
    assert_eq!(second.client()?.ask("GET key"), "second");
    Ok(())
}

#[test]
fn the_65th_client_is_refused_and_places_become_free() -> Tested {
    let bench = Bench::open(&[]);
    let mut clients = (0..CLIENTS_MAX).map(|_| bench.store.client()).collect::<Result<Vec<_>, _>>()?;
    let refusal = bench.store.client().map(drop).map_err(|error| error.to_string());
    assert_eq!(refusal, Err("There are 64 clients already".to_owned()));
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.ask("INCR n"), (number + 1).to_string());
    }
    clients.truncate(10);
    let more: Vec<LocalClient<'_>> = (10..CLIENTS_MAX).flat_map(|_| bench.store.client()).collect();
    assert_eq!(clients.len() + more.len(), CLIENTS_MAX);
    assert_eq!(bench.store.engine().clients.read().len(), CLIENTS_MAX);
    Ok(())
}

#[test]
fn a_directive_that_is_wrong_is_named() -> Tested {
    let folder = Folder::new()?;
    let error = error_of(Embedded::open(folder.path(), &[("maxmemory-policy", "nonsense")]));
    assert!(error.contains("maxmemory-policy nonsense"), "{error}");
    let error = error_of(Embedded::open(folder.path(), &[("no-such-directive", "1")]));
    assert!(error.contains("no-such-directive"), "{error}");
    Ok(())
}

#[test]
fn a_damaged_log_stops_the_opening_changes_no_file_and_leaves_no_thread() -> Tested {
    let folder = Folder::new()?;
    let store = Embedded::open_without_background(folder.path(), LOGGED)?;
    store.client()?.ask("SET a 1");
    store.close()?;
    let path = folder.path().join("appendonlydir/appendonly.aof.1.incr.aof");
    let mut bytes = std::fs::read(&path)?;
    let offset = bytes.len();
    bytes.extend_from_slice(b"nonsense\r\n*1\r\n$4\r\nPING\r\n");
    std::fs::write(&path, &bytes)?;
    let error = error_of(Embedded::open(folder.path(), LOGGED));
    let before = format!("Bad file format reading the append only file {}: ", path.display());
    let after = format!(
        "Make a backup of your AOF file, then look at it with `mantissa check aof {0}`, or use `mantissa \
         check aof --fix {0}`",
        path.display()
    );
    assert!(error.starts_with(&before) && error.ends_with(&after), "{error}");
    assert!(error.contains(&offset.to_string()), "the error names the offset {offset}: {error}");
    assert_eq!(std::fs::read(&path)?, bytes);
    Ok(())
}

#[test]
fn a_log_that_ends_early_is_cut_or_refused_as_configured() -> Tested {
    let folder = Folder::new()?;
    let store = Embedded::open_without_background(folder.path(), LOGGED)?;
    store.client()?.ask("SET a 1");
    store.close()?;
    let path = folder.path().join("appendonlydir/appendonly.aof.1.incr.aof");
    let whole = std::fs::read(&path)?;
    std::fs::write(&path, [&whole[..], b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n"].concat())?;
    let strict = [LOGGED, &[("aof-load-truncated", "no")]].concat();
    let error = error_of(Embedded::open(folder.path(), &strict));
    assert!(error.starts_with("Unexpected end of file reading the append only file"), "{error}");
    let store = Embedded::open(folder.path(), LOGGED)?;
    assert_eq!(store.client()?.ask("GET a"), "1");
    store.close()?;
    // What follows says where replication stands since this start.
    let bytes = std::fs::read(&path)?;
    let added = bytes.strip_prefix(&whole[..]).expect("what was whole is there");
    assert!(added.starts_with(b"#REPL:") && added.iter().filter(|&&byte| byte == b'\n').count() == 1);
    Ok(())
}

#[test]
fn a_damaged_dump_and_a_folder_that_is_a_file_are_named() -> Tested {
    let folder = Folder::new()?;
    std::fs::write(folder.path().join("dump.rdb"), b"REDIS0011nonsense")?;
    let error = error_of(Embedded::open(folder.path(), &[]));
    assert!(error.contains("dump.rdb"), "{error}");
    let file = folder.path().join("file");
    std::fs::write(&file, b"")?;
    let error = error_of(Embedded::open(&file, &[]));
    assert!(error.starts_with(&format!("{}: ", file.display())), "{error}");
    let error = error_of(Embedded::open("/proc/nothing/can/be/made/here", &[]));
    assert!(error.starts_with("/proc/nothing/can/be/made/here: "), "{error}");
    Ok(())
}

/// Alone in its process it could count all threads; beside other tests only those that a fault would pile up.
#[test]
fn openings_that_fail_leave_no_threads_behind() -> Tested {
    const OPENINGS: usize = 100;
    let folder = Folder::new()?;
    std::fs::write(folder.path().join("dump.rdb"), b"REDIS0011nonsense")?;
    for _ in 0..OPENINGS {
        error_of(Embedded::open(folder.path(), &[]));
    }
    let log_threads = threads()?.iter().filter(|name| name.trim() == "aof").count();
    assert!(log_threads < OPENINGS / 2, "{log_threads} threads are left");
    Ok(())
}

#[test]
fn engines_of_one_process_have_their_own_names_of_commands() -> Tested {
    let (folder, other_folder) = (Folder::new()?, Folder::new()?);
    let plain = Embedded::open(folder.path(), &[("save", "\"\"")])?;
    let renames = &[("save", "\"\""), ("rename-command", "GET obtain"), ("rename-command", "INCR \"\"")];
    let renamed = Embedded::open(other_folder.path(), renames)?;
    for (engine, words) in [(&plain, ["GET", "OBTAIN"]), (&renamed, ["OBTAIN", "GET"])] {
        let mut client = engine.client()?;
        assert!(client.ask(&format!("{} a", words[1])).starts_with("(error) ERR unknown command"));
        client.ask(&format!("{} a", words[0]));
        // As in Redis, the name that the command has without renaming.
        let lines = engine.client()?.ask("CLIENT LIST");
        assert!(lines.contains(" cmd=get ") && lines.contains(" cmd=client|list "), "{lines}");
    }
    Ok(())
}

/// The slots of the tables of database 0.
fn table_size(client: &mut LocalClient) -> usize {
    let told = client.call_raw(&["DEBUG", "HTSTATS", "0"]);
    let told = String::from_utf8_lossy(&told);
    let size = told.split("table size: ").nth(1).and_then(|rest| rest.split_whitespace().next());
    size.and_then(|size| size.parse().ok()).expect("a table size")
}

#[test]
fn tables_are_no_larger_than_what_has_not_expired_in_a_dump() -> Tested {
    let folder = Folder::new()?;
    let options = &[("save", "3600 1"), ("enable-debug-command", "yes")];
    let store = Embedded::open(folder.path(), options)?;
    let mut client = store.client()?;
    client.ask("MSET a 1 b 2 c 3");
    let expiry_ms = mantissa_sys::clock::unix_ms() + 10_000;
    for number in 0..50_000 {
        client.call(&["SET", &number.to_string(), "x", "PXAT", &expiry_ms.to_string()]);
    }
    assert_eq!((client.ask("DBSIZE"), client.ask("SAVE")), ("50003".to_owned(), "OK".to_owned()));
    assert!(table_size(&mut client) > 5_000);
    let dump = std::fs::read(folder.path().join("dump.rdb"))?;
    drop(client);
    store.close()?;
    std::fs::write(folder.path().join("dump.rdb"), dump)?;
    while mantissa_sys::clock::unix_ms() <= expiry_ms {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let store = Embedded::open(folder.path(), options)?;
    let mut client = store.client()?;
    assert_eq!(client.ask("DBSIZE"), "3");
    let size = table_size(&mut client);
    assert!(size < 1_000, "{size}");
    Ok(())
}
