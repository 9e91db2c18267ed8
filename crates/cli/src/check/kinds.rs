//! What a logged command is about: the type of data, and which of its arguments are keys.

use std::collections::HashMap;
use std::sync::OnceLock;

use mantissa_protocol::Args;

/// Commands by the type that they work on. Those that are not here count as `other`.
const KINDS: &[(&str, &str)] = &[
    (
        "string",
        "append bitfield bitop decr decrby getdel getex getset incr incrby incrbyfloat mset msetnx pfadd \
         pfmerge psetex set setbit setex setnx setrange",
    ),
    (
        "hash",
        "hdel hexpire hexpireat hgetdel hgetex hincrby hincrbyfloat hmset hpersist hpexpire hpexpireat hset \
         hsetex hsetnx",
    ),
    (
        "list",
        "blmove blmovem blmpop blpop brpop brpoplpush linsert lmove lmovem lmpop lpop lpush lpushx lrem \
         lset ltrim rpop rpoplpush rpush rpushx",
    ),
    ("set", "sadd sdiffstore sinterstore smove spop srem sunionstore"),
    (
        "zset",
        "bzmpop bzpopmax bzpopmin geoadd georadius georadiusbymember geosearchstore zadd zdiffstore zincrby \
         zinterstore zmpop zpopmax zpopmin zrangestore zrem zremrangebylex zremrangebyrank zremrangebyscore \
         zunionstore",
    ),
    ("stream", "xack xackdel xadd xautoclaim xclaim xdel xdelex xgroup xreadgroup xsetid xtrim"),
    ("any", "copy del expire expireat move persist pexpire pexpireat rename renamenx restore sort unlink"),
    ("server", "eval evalsha fcall flushall flushdb function publish script spublish swapdb"),
    ("framing", "exec multi select"),
];

/// The type that a command works on; `any` for those that work on all, `framing` for SELECT, MULTI and EXEC.
pub(super) fn kind_of(name: &[u8]) -> &'static str {
    static BY_NAME: OnceLock<HashMap<&str, &str>> = OnceLock::new();
    let by_name = BY_NAME.get_or_init(|| {
        KINDS.iter().flat_map(|&(kind, names)| names.split(' ').map(move |name| (name, kind))).collect()
    });
    let lower = name.to_ascii_lowercase();
    std::str::from_utf8(&lower).ok().and_then(|name| by_name.get(name)).copied().unwrap_or("other")
}

/// The keys of a command of this type that it may change.
pub(super) fn keys_of<'a>(kind: &str, command: Args<'a>) -> impl Iterator<Item = &'a [u8]> {
    let is = |name: &str| command.get(0).is_some_and(|first| first.eq_ignore_ascii_case(name.as_bytes()));
    let (first, step, last) = match kind {
        "framing" | "server" | "other" => (1, 1, 0),
        "string" if is("bitop") => (2, 1, 2),
        "string" if is("mset") || is("msetnx") => (1, 2, usize::MAX),
        "any" if is("del") || is("unlink") => (1, 1, usize::MAX),
        "any" if is("rename") || is("renamenx") || is("copy") => (1, 1, 2),
        "set" if is("smove") => (1, 1, 2),
        "list" if is("lmove") || is("lmovem") || is("rpoplpush") => (1, 1, 2),
        "stream" if is("xgroup") => (2, 1, 2),
        _ => (1, 1, 1),
    };
    command.iter().skip(first).take(last.saturating_sub(first - 1)).step_by(step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mantissa_protocol::OwnedArgs;

    #[test]
    fn keys_are_found() {
        for (line, kind, keys) in [
            ("SET a 1 EX 2", "string", "a"),
            ("mset a 1 b 2", "string", "a b"),
            ("DEL a b c", "any", "a b c"),
            ("RENAME a b", "any", "a b"),
            ("BITOP AND a b c", "string", "a"),
            ("XGROUP CREATE s g $", "stream", "s"),
            ("SMOVE a b x", "set", "a b"),
            ("SELECT 0", "framing", ""),
            ("FUNCTION FLUSH", "server", ""),
            ("MY.COMMAND a b", "other", ""),
            ("DEL", "any", ""),
        ] {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let command = OwnedArgs::from_slices(&words);
            let found = kind_of(words[0]);
            assert_eq!(found, kind, "{line}");
            let found: Vec<_> = keys_of(found, command.as_args()).collect();
            assert_eq!(found.join(&b' '), keys.as_bytes(), "{line}");
        }
    }
}
