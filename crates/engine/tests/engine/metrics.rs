//! The text of metrics, from an engine without sockets.

use crate::support::{Ask, Bench};
use mantissa_engine::metrics::{Format, Scraper, readiness};
use mantissa_store::ShardSet;
use mantissa_sys::process;

/// The value of a series, as its line has it.
fn value<'t>(text: &'t str, series: &str) -> Option<&'t str> {
    text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))
}

#[test]
fn a_scrape_waits_for_no_shard() {
    let bench = Bench::open(&[]);
    let (engine, mut client) = (bench.store.engine(), bench.client());
    let mut scraper = Scraper::new(engine);
    let mut scrape = || {
        let text = scraper.scrape(engine, process::cpu_times(), Format::Prometheus);
        String::from_utf8(text).expect("the text is UTF-8")
    };
    for number in 0..500 {
        client.ask(&format!("SET key:{number} value"));
    }
    let before = scrape();
    assert_eq!(value(&before, "redis_db_keys{db=\"db0\"}"), Some("500"));
    assert_eq!(value(&before, "mantissa_scrape_stale_shards"), Some("0"));
    client.ask("FLUSHALL");
    let all_but_one = {
        let _held = engine.keyspace.lock(ShardSet::one(3));
        scrape()
    };
    assert_eq!(value(&all_but_one, "mantissa_scrape_stale_shards"), Some("1"));
    let kept = value(&all_but_one, "redis_db_keys{db=\"db0\"}").and_then(|text| text.parse::<u32>().ok());
    assert!(kept.is_some_and(|kept| (1..100).contains(&kept)), "{kept:?}");
    let after = scrape();
    assert_eq!(value(&after, "redis_db_keys{db=\"db0\"}"), Some("0"));
    assert_eq!(value(&after, "redis_commands_total{cmd=\"set\"}"), Some("500"));
    assert_eq!(value(&after, "redis_exporter_scrapes_total"), Some("3"));
}

#[test]
fn an_engine_that_is_full_is_not_ready() {
    let bench = Bench::open(&[]);
    let (engine, mut client) = (bench.store.engine(), bench.client());
    let is_ready = || readiness(engine).is_ok();
    assert!(is_ready());
    client.ask("CONFIG SET maxmemory 1");
    // Without the counting allocator of the server nothing is counted as used.
    let is_counted = mantissa_store::allocator::allocated_bytes() > 1;
    assert_eq!(is_ready(), !is_counted);
    client.ask("CONFIG SET maxmemory-policy allkeys-lru");
    assert!(is_ready());
}
