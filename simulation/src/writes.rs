//! Writes of all kinds, whose replies do not matter: they may be refused.

use mantissa_engine::embedded::LocalClient;

use crate::scheduler::Random;

const KEYS: u64 = 6;

/// Reads what may have expired.
pub fn read(client: &mut LocalClient<'_>) {
    for key in 0..KEYS {
        client.call(&["GET", &format!("text:{key}")]);
        client.call(&["HGETALL", &format!("hash:{key}")]);
    }
}

/// Runs a write, a transaction, a script, or a read that may find something expired.
pub fn write(client: &mut LocalClient<'_>, random: &mut Random) {
    let mut name = |kind: &str| format!("{kind}:{}", random.below(KEYS));
    let (text, list, set, scores) = (name("text"), name("list"), name("set"), name("scores"));
    let (hash, stream, other) = (name("hash"), name("stream"), name("list"));
    let (value, time) = (random.below(1000).to_string(), (1 + random.below(400)).to_string());
    let long = "long".repeat(random.below(300) as usize);
    let script = "redis.call('RPUSH', KEYS[1], ARGV[1]); redis.call('INCRBY', KEYS[2], 7); \
                  return redis.call('SPOP', KEYS[3])";
    let undeclared = "redis.call('SET', ARGV[1], ARGV[2]); return redis.call('LPOP', ARGV[3])";
    let vectors = format!("vectors:{}", random.below(2));
    let (element, third) = (random.below(40).to_string(), random.below(1000).to_string());
    let mut call = |line: &[&str]| _ = client.call(line);
    match random.below(30) {
        0 => call(&["SET", &text, &value]),
        1 => call(&["SET", &text, &value, "PX", &time]),
        2 => call(&["INCRBYFLOAT", &text, "1.5"]),
        3 => call(&["APPEND", &text, &long]),
        4 => call(&["PEXPIRE", &hash, &time]),
        5 => call(&["GETEX", &text, "PX", &time]),
        6 => call(&["RPUSH", &list, &value, &long]),
        7 => call(&["BLPOP", &list, &other, "0.05"]),
        8 => call(&["BLMOVE", &list, &other, "LEFT", "RIGHT", "0.3"]),
        9 => call(&["SADD", &set, &value, &time]),
        10 => call(&["SPOP", &set]),
        11 => call(&["ZADD", &scores, &value, &time]),
        12 => call(&["BZPOPMIN", &scores, "0.05"]),
        13 => call(&["HSET", &hash, &time, &value, "field", "1"]),
        14 => call(&["HPEXPIRE", &hash, &time, "FIELDS", "1", "field"]),
        15 => call(&["XADD", &stream, "MAXLEN", "~", "5", "*", "field", &value]),
        16 => {
            call(&["XGROUP", "CREATE", &stream, "group", "0", "MKSTREAM"]);
            call(&["XREADGROUP", "GROUP", "group", "one", "BLOCK", "20", "STREAMS", &stream, ">"]);
        }
        17 => call(&["EVAL", script, "3", &list, &text, &set, &value]),
        18 => call(&["EVAL", undeclared, "0", &text, &value, &list]),
        19 => {
            call(&["SELECT", "1"]);
            call(&["SET", &text, &value, "PX", &time]);
            call(&["MOVE", &text, "0"]);
            call(&["SELECT", "0"]);
        }
        20 => call(&["SORT", &list, "ALPHA", "STORE", &other]),
        21 => read(client),
        22 => call(&["RENAME", &text, "text:0"]),
        23..=26 => call(&["VADD", &vectors, "VALUES", "3", &value, &time, &third, &element, "M", "4"]),
        27 => {
            call(&["VADD", &vectors, "VALUES", "3", &value, &time, "1", &element, "CAS", "M", "4", "EF", "9"])
        }
        28 => call(&["VREM", &vectors, &element]),
        _ => {
            call(&["MULTI"]);
            call(&["RPUSH", &list, &value]);
            call(&["SET", &text, &value, "PX", &time]);
            call(&["GET", &text]);
            call(&["LPOP", &other]);
            call(&["EXEC"]);
        }
    }
}
