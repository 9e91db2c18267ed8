//! An engine whose disk fails, and two engines that want one folder.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use crate::support::{Ask, Folder};
use mantissa_engine::embedded::{Embedded, Opening};
use mantissa_persist::storage::{MemoryStorage, Storage};

type Tested = Result<(), Box<dyn std::error::Error>>;

const ALWAYS: &[(&str, &str)] = &[("appendonly", "yes"), ("appendfsync", "always"), ("save", "\"\"")];

fn open(storage: &MemoryStorage) -> Result<Embedded, mantissa_engine::embedded::EmbeddedError> {
    let opening = Opening::default().storage(Arc::new(storage.clone())).without_background();
    opening.open("/data", ALWAYS)
}

#[test]
fn a_failed_sync_refuses_writes_and_ends_nothing() -> Tested {
    let storage = MemoryStorage::new();
    let store = open(&storage)?;
    let mut client = store.client()?;
    assert_eq!(client.ask("SET a 1"), "OK");
    storage.fail_sync(storage.syncs());
    let refused = "MISCONF Errors writing to the AOF file: the sync failed, as asked for";
    assert!(client.ask("SET a 2").contains(refused), "nobody is told of what is not durable");
    assert!(client.ask("SET b 1").contains(refused), "although the next sync would succeed");
    assert!(client.ask("GET a").contains(refused), "nor is a reader told of it");
    assert!(client.ask("BGREWRITEAOF").contains("ERR "));
    assert!(client.ask("PING").contains(refused), "so that a primary is taken for down");
    assert_eq!(client.ask("ECHO up"), "up");
    drop(client);
    let closed = store.close().map_err(|error| error.to_string());
    assert_eq!(closed, Err(refused.to_owned()), "who closes is told");
    storage.crash();
    let store = open(&storage)?;
    let left = store.client()?.ask("GET a");
    assert!(left == "1" || left == "2", "{left}: the write whose sync failed may be there or not");
    assert_eq!(store.client()?.ask("EXISTS b"), "0");
    assert_eq!(store.client()?.ask("SET a 3"), "OK");
    Ok(())
}

#[test]
fn a_full_disk_refuses_writes_and_switching_the_log_off_allows_them() -> Tested {
    let storage = MemoryStorage::new();
    let store = open(&storage)?;
    let mut client = store.client()?;
    assert_eq!(client.ask("SET a 1"), "OK");
    storage.fail_at(storage.operations());
    assert!(client.ask("SET a 2").contains("MISCONF"));
    assert_eq!(client.ask("CONFIG SET appendonly no"), "OK");
    assert_eq!(client.ask("SET a 4"), "OK", "no log promises anything now");
    assert_eq!(client.ask("GET a"), "4");
    Ok(())
}

#[test]
fn a_second_engine_does_not_get_the_folder() -> Tested {
    let folder = Folder::new()?;
    let store = Embedded::open(folder.path(), ALWAYS)?;
    let second = Embedded::open(folder.path(), ALWAYS).map(drop).map_err(|error| error.to_string());
    let expected = format!("{}: another engine has this folder open", folder.path().display());
    assert_eq!(second, Err(expected));
    store.close()?;
    Embedded::open(folder.path(), ALWAYS)?.close()?;
    Ok(())
}

#[test]
fn files_lie_where_the_opener_says() -> Tested {
    let storage = MemoryStorage::new();
    let store = open(&storage)?;
    store.client()?.ask("SET a 1");
    assert_eq!(store.client()?.ask("SAVE"), "OK");
    store.close()?;
    assert!(storage.is_file(Path::new("/data/dump.rdb")));
    assert!(storage.is_file(Path::new("/data/appendonlydir/appendonly.aof.manifest")));
    assert!(!Path::new("/data").exists());
    Ok(())
}

#[test]
fn users_lie_in_a_file_there_as_well() -> Tested {
    let storage = MemoryStorage::new();
    storage.create(Path::new("/data/users.acl"))?.write_all(b"user anna on nopass ~a* +get\n")?;
    let directives = &[("aclfile", "users.acl"), ("save", "\"\"")];
    let opening = Opening::default().storage(Arc::new(storage.clone())).without_background();
    let store = opening.open("/data", directives)?;
    let mut client = store.client()?;
    assert!(client.ask("ACL LIST").contains("user anna on nopass "));
    assert_eq!(client.ask("ACL SETUSER bert on nopass"), "OK");
    assert_eq!(client.ask("ACL SAVE"), "OK");
    storage.crash();
    let saved = storage.read_file(Path::new("/data/users.acl"), u64::MAX)?;
    assert!(String::from_utf8(saved)?.contains("\nuser bert on nopass "));
    assert_eq!(client.ask("ACL DELUSER bert"), "1");
    assert_eq!(client.ask("ACL LOAD"), "OK");
    assert!(client.ask("ACL LIST").contains("user bert "));
    storage.fail_at(storage.operations());
    assert!(client.ask("ACL SAVE").contains("ERR There was an error trying to save the ACLs"));
    Ok(())
}
