//! The commands on arrays, beside what Redis's own tests expect.

use crate::testing::Bench;

/// What commands of one key `k` reply, in one line.
fn replies(bench: &mut Bench, commands: &[&str]) -> Vec<String> {
    let flat = |reply: String| reply.trim_end().replace("\r\n", " ");
    commands.iter().map(|command| flat(bench.run(command))).collect()
}

fn check(script: &[(&str, &str)]) {
    let mut bench = Bench::new();
    for (command, expected) in script {
        assert_eq!(replies(&mut bench, &[command]), [*expected], "{command}");
    }
}

#[test]
fn elements_are_set_and_read() {
    check(&[
        ("ARSET k 3 a b c", ":3"),
        ("ARSET k 5 d e", ":1"),
        ("ARMSET k 0 x 3 y", ":1"),
        ("ARGET k 3", "$1 y"),
        ("ARGET k 4", "$1 b"),
        ("ARGET k 2", "$-1"),
        ("ARGET none 2", "$-1"),
        ("ARMGET k 0 1 6", "*3 $1 x $-1 $1 e"),
        ("ARMGET none 0 1", "*2 $-1 $-1"),
        ("ARLEN k", ":7"),
        ("ARCOUNT k", ":5"),
        ("ARLEN none", ":0"),
        ("ARGETRANGE k 2 4", "*3 $-1 $1 y $1 b"),
        ("ARGETRANGE k 4 2", "*3 $1 b $1 y $-1"),
        ("ARGETRANGE none 5 4", "*2 $-1 $-1"),
        ("ARSCAN k 0 18446744073709551614 LIMIT 2", "*2 *2 :0 $1 x *2 :3 $1 y"),
        ("ARSCAN k 5 4", "*2 *2 :5 $1 d *2 :4 $1 b"),
        ("ARSCAN none 0 4", "*0"),
        ("ARSET k 18446744073709551614 last", ":1"),
        ("ARLEN k", ":18446744073709551615"),
        ("TYPE k", "+array"),
        ("OBJECT ENCODING k", "$12 sliced-array"),
    ]);
}

#[test]
fn what_is_wrong_is_told_as_redis_tells_it() {
    check(&[
        ("ARSET k -1 a", "-ERR invalid array index"),
        ("ARSET k 18446744073709551615 a", "-ERR invalid array index"),
        ("ARSET k 18446744073709551614 a b", "-ERR array index overflow"),
        ("EXISTS k", ":0"),
        ("ARMSET k 0 a 1", "-ERR wrong number of arguments for 'armset' command"),
        ("ARMSET k 0 a x b", "-ERR invalid array index"),
        ("ARDELRANGE k 0 1 2", "-ERR wrong number of arguments for 'ardelrange' command"),
        ("ARGETRANGE k 0 1000000", "-ERR range exceeds maximum of 1000000 items"),
        ("ARSCAN k 0 1 LIMIT 0", "-ERR LIMIT must be positive"),
        ("ARSCAN k 0 1 LIMIT x", "-ERR value is not an integer or out of range"),
        ("ARSCAN k 0 1 LIMITS 1", "-ERR syntax error"),
        ("ARSCAN k 0 1 LIMIT", "-ERR wrong number of arguments for 'arscan' command"),
        ("ARRING k 0 a", "-ERR size must be positive"),
        ("ARRING k x a", "-ERR invalid size"),
        ("ARLASTITEMS k x", "-ERR invalid COUNT"),
        ("ARLASTITEMS k 0 what", "*0"),
        ("ARLASTITEMS k 1 what", "-ERR syntax error"),
        ("ARINFO k", "-ERR no such key"),
        ("ARINFO k ALL", "-ERR syntax error"),
        ("AROP k 0 1 AVG", "-ERR unknown operation"),
        ("AROP k 0 1 MATCH", "-ERR MATCH requires a value argument"),
        ("AROP k 0 1 SUM 1", "-ERR wrong number of arguments for 'arop' command"),
        ("ARGREP k - + LIMIT 1", "-ERR syntax error"),
        ("ARGREP k - + MATCH a LIMIT", "-ERR syntax error"),
        ("ARGREP k - + MATCH a LIMIT 0", "-ERR LIMIT must be positive"),
        ("ARGREP k - + RE (", "-ERR invalid regular expression: Missing ')'"),
        ("SET s v", "+OK"),
        ("ARSET s 0 a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("ARGET s x", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("ARLEN s", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
    ]);
}

#[test]
fn elements_are_removed_and_the_last_one_takes_the_key() {
    check(&[
        ("ARSET k 0 a b c d e", ":5"),
        ("ARDEL k 1 1 9", ":1"),
        ("ARDELRANGE k 3 2 4 4", ":3"),
        ("ARDELRANGE k 1 100", ":0"),
        ("ARCOUNT k", ":1"),
        ("ARDEL k 0", ":1"),
        ("EXISTS k", ":0"),
        ("ARDEL k 0", ":0"),
        ("ARSET k 7 a", ":1"),
        ("ARDELRANGE k 0 18446744073709551614", ":1"),
        ("EXISTS k", ":0"),
    ]);
    let mut bench = Bench::new();
    bench.settings.notify = u32::MAX;
    bench.run("ARSET k 0 a");
    bench.run("ARDEL k 0");
    let names: Vec<&str> = bench.effects.events.iter().map(|event| event.name).collect();
    assert_eq!(names, ["ardel", "del"]);
}

#[test]
fn insertions_go_on_where_the_last_one_was() {
    check(&[
        ("ARNEXT k", ":0"),
        ("ARSEEK k 5", ":0"),
        ("ARINSERT k a b", ":1"),
        ("ARNEXT k", ":2"),
        ("ARSEEK k 10", ":1"),
        ("ARINSERT k c", ":10"),
        ("ARNEXT k", ":11"),
        ("ARLASTITEMS k 3", "*3 $-1 $-1 $1 c"),
        ("ARSEEK k 0", ":1"),
        ("ARNEXT k", ":0"),
        ("ARSEEK k 18446744073709551615", ":1"),
        ("ARNEXT k", "$-1"),
        ("ARINSERT k d", "-ERR insert index overflow"),
        ("ARSEEK k 18446744073709551614", ":1"),
        ("ARINSERT k d e", "-ERR insert index overflow"),
        ("ARINSERT k d", ":18446744073709551614"),
    ]);
    check(&[
        ("ARINSERT k a b c d e", ":4"),
        ("ARLASTITEMS k 3", "*3 $1 c $1 d $1 e"),
        ("ARLASTITEMS k 3 REV", "*3 $1 e $1 d $1 c"),
        ("ARDEL k 1", ":1"),
        ("ARLASTITEMS k 10", "*5 $1 a $-1 $1 c $1 d $1 e"),
        ("ARLASTITEMS k 10 REV", "*5 $1 e $1 d $1 c $-1 $1 a"),
        ("ARDEL k 4", ":1"),
        ("ARLASTITEMS k 10", "*4 $1 a $-1 $1 c $1 d"),
        ("ARSEEK k 2", ":1"),
        ("ARLASTITEMS k 3", "*3 $1 d $1 a $-1"),
        ("ARSET k 2000000 z", ":1"),
        ("ARLASTITEMS k 1000001", "-ERR count exceeds maximum of 1000000 items"),
    ]);
}

#[test]
fn rings_begin_anew_and_keep_the_latest_items_when_their_size_changes() {
    check(&[
        ("ARRING k 3 a b c d", ":0"),
        ("ARGETRANGE k 0 2", "*3 $1 d $1 b $1 c"),
        // A larger one begins with the oldest item that is left.
        ("ARRING k 5 e", ":3"),
        ("ARGETRANGE k 0 4", "*5 $1 b $1 c $1 d $1 e $-1"),
        // A smaller one keeps the latest.
        ("ARRING k 2 f", ":0"),
        ("ARGETRANGE k 0 3", "*4 $1 f $1 e $-1 $-1"),
        ("ARLASTITEMS k 5", "*2 $1 e $1 f"),
        ("ARCOUNT k", ":2"),
    ]);
    // A hole ends what is kept.
    check(&[
        ("ARRING k 5 a b c d e f", ":0"),
        ("ARDEL k 3", ":1"),
        ("ARRING k 4 g", ":2"),
        ("ARGETRANGE k 0 4", "*5 $1 e $1 f $1 g $-1 $-1"),
    ]);
    check(&[("ARSET k 0 a b c", ":3"), ("ARRING k 2 x", ":0"), ("ARGETRANGE k 0 1", "*2 $1 x $1 c")]);
}

#[test]
fn ranges_are_searched() {
    check(&[
        ("ARMSET k 0 RedisArray 1 redis-match 2 array-only 3 plain 9 foo123", ":5"),
        ("ARGREP k - + MATCH array", "*1 :2"),
        ("ARGREP k - + MATCH array NOCASE", "*2 :0 :2"),
        ("ARGREP k + - MATCH array NOCASE WITHVALUES", "*2 *2 :2 $10 array-only *2 :0 $10 RedisArray"),
        ("ARGREP k - + MATCH redis GLOB *array* AND NOCASE", "*1 :0"),
        ("ARGREP k - + OR MATCH redis LIMIT 3 GLOB *array* AND LIMIT 1 NOCASE", "*1 :0"),
        ("ARGREP k - + EXACT plain RE ^.*[0-9]{3}$", "*2 :3 :9"),
        ("ARGREP k 1 3 MATCH a LIMIT 2", "*2 :1 :2"),
        ("ARGREP none - + MATCH a", "*0"),
    ]);
}

#[test]
fn ranges_are_made_one_value() {
    check(&[
        ("ARMSET k 0 10 1 20.5 2 thirty 3 0.1 4 -3 5 9223372036854775807", ":6"),
        ("AROP k 0 2 SUM", "$4 30.5"),
        ("AROP k 0 4 MIN", "$2 -3"),
        ("AROP k 4 0 MAX", "$4 20.5"),
        ("AROP k 0 5 MAX", "$22 9.2233720368547758e+18"),
        ("AROP k 0 1 AND", ":0"),
        ("AROP k 0 1 OR", ":30"),
        ("AROP k 0 3 XOR", ":30"),
        ("AROP k 2 2 SUM", "$-1"),
        ("AROP k 2 2 AND", "$-1"),
        ("AROP k 0 9 USED", ":6"),
        ("AROP k 0 9 MATCH thirty", ":1"),
        ("AROP none 0 9 USED", ":0"),
        ("AROP none 0 9 SUM", "$-1"),
        ("ARMSET k 0 0.1 1 0.2", ":0"),
        ("AROP k 0 1 SUM", "$3 0.3"),
    ]);
}

#[test]
fn what_is_told_of_the_layout_is_what_redis_would_have() {
    check(&[
        ("ARMSET k 0 a 1 b 100 c", ":3"),
        (
            "ARINFO k",
            "*14 $5 count :3 $3 len :101 $17 next-insert-index :0 $6 slices :1 $14 directory-size :1 $17 \
             super-dir-entries :0 $10 slice-size :4096",
        ),
        ("ARSET k 2 a b c d e f g h i", ":9"),
        (
            "ARINFO k FULL",
            "*24 $5 count :12 $3 len :101 $17 next-insert-index :0 $6 slices :1 $14 directory-size :1 $17 \
             super-dir-entries :0 $10 slice-size :4096 $12 dense-slices :1 $13 sparse-slices :0 $14 \
             avg-dense-size $3 128 $14 avg-dense-fill $7 0.09375 $15 avg-sparse-size $1 0",
        ),
    ]);
}
