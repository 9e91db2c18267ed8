//! Eviction: what goes when memory is full, and what is refused. Memory is that of the whole process, so the
//! tests run one after the other.

#[path = "engine/support/mod.rs"]
mod support;

use mantissa_store::allocator::{CountingAllocator, allocated_bytes};
use parking_lot::{Mutex, MutexGuard};
use support::{Ask, Bench};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Keys that fill the engine.
const KEYS: usize = 400;
/// Bytes of each value.
const VALUE_BYTES: usize = 4000;

fn alone() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock()
}

/// Candidates come from a shard at a time, so the engine has few: then each draw sees several keys.
const SHARDS: &str = "64";

/// An engine with `key:0` to `key:399`; the odd ones expire, later the higher the number.
fn full(policy: &str) -> Bench {
    let tenacity = ("maxmemory-eviction-tenacity", "100");
    let bench = Bench::open(&[("maxmemory-policy", policy), tenacity, ("shards", SHARDS), ("save", "\"\"")]);
    let mut client = bench.client();
    let value = "x".repeat(VALUE_BYTES);
    for number in 0..KEYS {
        client.ask(&format!("SET key:{number} {value}"));
        if number % 2 == 1 {
            client.ask(&format!("EXPIRE key:{number} {}", 1000 + number));
        }
        bench.clock.advance_ms(1000);
    }
    drop(client);
    bench
}

/// Bounds memory to what is used less a quarter of the values, makes room, and lifts the bound again.
fn tighten(bench: &Bench) {
    let limit = allocated_bytes() - KEYS * VALUE_BYTES / 4;
    assert_eq!(bench.client().ask(&format!("CONFIG SET maxmemory {limit}")), "OK");
    bench.client().ask("PING");
    assert!(allocated_bytes() <= limit + 100_000, "room was made");
    bench.client().ask("CONFIG SET maxmemory 0");
}

fn left(bench: &Bench, is_counted: impl Fn(usize) -> bool) -> usize {
    let mut client = bench.client();
    (0..KEYS).filter(|&key| is_counted(key) && client.ask(&format!("EXISTS key:{key}")) == "1").count()
}

#[test]
fn without_eviction_what_may_need_memory_is_refused() {
    let _alone = alone();
    let bench = full("noeviction");
    let mut client = bench.client();
    client.ask("CONFIG SET maxmemory 1000");
    let refusal = "(error) OOM command not allowed when used memory > 'maxmemory'.";
    assert_eq!(client.ask("SET a 1"), refusal);
    assert_eq!(client.ask("LPUSH list a"), refusal);
    assert!(client.ask("GET key:0").starts_with("xxx"));
    assert_eq!(client.ask("DEL key:0"), "1");
    client.ask("MULTI");
    assert_eq!(client.ask("SET a 1"), refusal);
    assert_eq!(client.ask("EXEC"), "(error) EXECABORT Transaction discarded because of previous errors.");
    let reply = client.ask("EVAL return(redis.call('SET',KEYS[1],'1')) 1 a");
    assert!(reply.contains("OOM"), "{reply}");
    assert_eq!(client.ask("DBSIZE"), (KEYS - 1).to_string(), "nothing was evicted");
    client.ask("CONFIG SET maxmemory 0");
    assert_eq!(client.ask("SET a 1"), "OK");
}

#[test]
fn allkeys_lru_evicts_what_has_not_been_used_for_long() {
    let _alone = alone();
    let bench = full("allkeys-lru");
    tighten(&bench);
    let (old, new) = (left(&bench, |key| key < KEYS / 2), left(&bench, |key| key >= KEYS / 2));
    assert!(old + new < KEYS && old + new > KEYS / 2, "{old} old keys, {new} new ones");
    assert!(new > old + KEYS / 8, "{old} old keys, {new} new ones");
    let evicted = KEYS - old - new;
    assert!(bench.client().ask("INFO stats").contains(&format!("evicted_keys:{evicted}\r\n")));
}

#[test]
fn volatile_policies_spare_keys_without_an_expiry() {
    let _alone = alone();
    for policy in ["volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl"] {
        let bench = full(policy);
        tighten(&bench);
        assert_eq!(left(&bench, |key| key % 2 == 0), KEYS / 2, "{policy}");
        let (soon, late) = (left(&bench, |key| key < KEYS / 2), left(&bench, |key| key >= KEYS / 2));
        assert!(soon + late < KEYS, "{policy}");
        assert!(policy != "volatile-ttl" || soon < late, "{soon} expire soon, {late} late");
    }
}

#[test]
fn a_volatile_policy_refuses_when_nothing_is_left_to_evict() {
    let _alone = alone();
    let bench = full("volatile-random");
    let mut client = bench.client();
    client.ask("CONFIG SET maxmemory 1000");
    assert!(client.ask("SET a 1").starts_with("(error) OOM"));
    assert_eq!(left(&bench, |key| key % 2 == 1), 0);
    assert_eq!(left(&bench, |key| key % 2 == 0), KEYS / 2);
}

#[test]
fn the_background_evicts_as_well_and_tells_of_it() {
    let _alone = alone();
    let bench = full("allkeys-random");
    let (mut client, mut listener) = (bench.client(), bench.client());
    client.ask("CONFIG SET notify-keyspace-events Ee");
    listener.ask("PSUBSCRIBE *");
    let limit = allocated_bytes() - KEYS * VALUE_BYTES / 4;
    client.ask(&format!("CONFIG SET maxmemory {limit}"));
    bench.store.background().round();
    client.ask("CONFIG SET maxmemory 0");
    let heard = listener.heard();
    assert!(!heard.is_empty());
    assert!(heard.iter().all(|message| message.contains("__keyevent@0__:evicted, key:")), "{heard:?}");
    assert_eq!(left(&bench, |_| true), KEYS - heard.len());
}
