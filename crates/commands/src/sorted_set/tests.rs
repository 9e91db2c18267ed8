//! What sorted set commands cause: changes, events, and what is logged for those that may wait.

use crate::effects::EventClass;
use crate::testing::Bench;

fn logging_bench() -> Bench {
    let mut bench = Bench::new();
    bench.keyspace.set_logged(true);
    bench.settings.notify = !EventClass::KEY_MISS.0;
    bench
}

#[test]
fn changes_and_events_are_those_of_redis() {
    let mut bench = logging_bench();
    let cases = [
        ("ZADD z 1 a 2 b", 2, "new z, zadd z"),
        ("ZADD z 1 a", 0, ""),
        ("ZADD z 5 a", 1, "zadd z"),
        ("ZADD z XX 5 zz", 0, ""),
        ("ZADD no XX 5 zz", 0, ""),
        ("ZADD z CH 5 a 6 b 7 c", 2, "zadd z"),
        ("ZADD z INCR 0 a", 0, ""),
        ("ZADD z INCR 1 a", 1, "zincr z"),
        ("ZINCRBY z 1 a", 1, "zincr z"),
        ("ZREM z a nob", 1, "zrem z"),
        ("ZREM z nob", 0, ""),
        ("ZREMRANGEBYRANK z 5 10", 0, ""),
        ("ZREMRANGEBYRANK z 0 0", 1, "zremrangebyrank z"),
        ("ZREMRANGEBYSCORE z -inf inf", 1, "zremrangebyscore z, del z"),
        ("ZADD z 1 a 2 b 3 c", 3, "new z, zadd z"),
        ("ZPOPMIN z", 1, "zpopmin z"),
        ("ZPOPMAX z 0", 0, ""),
        ("ZPOPMAX z 5", 2, "zpopmax z, del z"),
        ("ZADD z 1 a 2 b 3 c", 3, "new z, zadd z"),
        ("ZUNIONSTORE d 1 z", 1, "new d, zunionstore d"),
        ("ZUNIONSTORE d 1 no", 1, "del d"),
        ("ZUNIONSTORE d 1 no", 0, ""),
        ("SET d v", 1, "new d, set d"),
        ("ZDIFFSTORE d 1 z", 1, "overwritten d, type_changed d, zdiffstore d"),
        ("ZRANGESTORE d z 0 1", 1, "overwritten d, zrangestore d"),
        ("ZRANGESTORE d z 5 6", 1, "del d"),
    ];
    for (command, dirty, events) in cases {
        bench.run(command);
        let seen: Vec<String> = bench.events().iter().map(|(name, key)| format!("{name} {key}")).collect();
        assert_eq!((bench.effects.dirty, &seen.join(", ")[..]), (dirty, events), "{command}");
    }
}

#[test]
fn commands_that_wait_are_logged_as_ones_that_do_not() {
    let mut bench = logging_bench();
    bench.run("ZADD z 1 a 2 b 3 c 4 d 5 e 6 f");
    let cases = [
        ("BZPOPMIN no z 0", "ZPOPMIN z"),
        ("BZPOPMAX no z 0", "ZPOPMAX z"),
        ("ZMPOP 2 no z MAX COUNT 2", "ZPOPMAX z 2"),
        ("BZMPOP 0 2 no z MIN", "ZPOPMIN z 1"),
        ("ZADD z 1 a", "as it came"),
    ];
    for (command, logged) in cases {
        bench.run(command);
        assert_eq!(bench.log(), [logged], "{command}");
    }
    assert_eq!(bench.run("BZPOPMIN no no2 1"), "");
    assert!(bench.effects.blocking.take().is_some());
}

#[test]
fn zeros_keep_their_sign_only_beyond_the_small_form() {
    let mut bench = Bench::new();
    bench.run("ZADD z -0 m");
    assert_eq!(bench.run("ZSCORE z m"), "$1\r\n0\r\n");
    bench.run(&format!("ZADD z 1 {}", "x".repeat(70)));
    bench.run("ZADD z -0 n");
    assert_eq!(bench.run("ZSCORE z n"), "$2\r\n-0\r\n");
    bench.run("ZADD z 0 n");
    assert_eq!(bench.run("ZSCORE z n"), "$2\r\n-0\r\n");
    assert_eq!(bench.run("ZUNION 1 z WEIGHTS -1 WITHSCORES").matches("-0").count(), 1);
}

#[test]
fn samples_have_no_repetition() {
    let mut bench = Bench::new();
    for number in 0..300 {
        bench.run(&format!("ZADD z {number} m{number}"));
    }
    for count in [1, 7, 299, 300, 1000] {
        let reply = bench.run(&format!("ZRANDMEMBER z {count}"));
        let mut members: Vec<&str> = reply.lines().filter(|line| line.starts_with('m')).collect();
        members.sort_unstable();
        members.dedup();
        assert_eq!(members.len(), count.min(300), "{count}");
    }
}
