//! MSETEX, as of Redis 8.4 and Valkey 9.1: strings with one expiry, all of them or none. It is logged in
//! commands that every server knows.

use mantissa_protocol::{Args, Reply};
use smallvec::SmallVec;

use super::{log_set_until, store};
use crate::DataSpec;
use crate::access::{Access, NewExpiry};
use crate::error::{Error, Outcome};
use crate::expiry::Expiration;
use crate::parse;
use crate::spec::{BeginSearch, Categories, FindKeys, Flags, Group, KeyFlags, KeySpec};

/// Which keys have to be there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// None: `NX`.
    None,
    /// All: `XX`.
    All,
}

/// The options behind the pairs.
fn options(args: Args<'_>, mut at: usize) -> Outcome<(Option<Wanted>, Option<Expiration<'_>>)> {
    let (mut wanted, mut expiration) = (None, None);
    while at < args.len() {
        let word = args.at(at);
        let one =
            [("NX", Wanted::None), ("XX", Wanted::All)].into_iter().find(|(name, _)| parse::is(word, name));
        if let Some((_, one)) = one {
            if wanted.is_some_and(|other| other != one) {
                return Err(Error::SYNTAX);
            }
            (wanted, at) = (Some(one), at + 1);
            continue;
        }
        let (next, after) = Expiration::parse(args, at).ok_or(Error::SYNTAX)?;
        if next == Expiration::Persist || expiration.is_some_and(|old: Expiration<'_>| !old.admits(next)) {
            return Err(Error::SYNTAX);
        }
        (expiration, at) = (Some(next), after);
    }
    Ok((wanted, expiration))
}

/// MSETEX numkeys key value [key value ...] [NX | XX] [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL]
fn msetex(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    const BAD_COUNT: &str = "ERR invalid numkeys value or out of range";
    let count = parse::integer_in(args.at(1), 1, i64::from(i32::MAX), BAD_COUNT)? as usize;
    let end = 2 + 2 * count;
    if end > args.len() {
        return Err(Error::SYNTAX);
    }
    let (wanted, expiration) = options(args, end)?;
    let expiry = match expiration {
        None => NewExpiry::Clear,
        Some(Expiration::Set(form, argument)) => {
            NewExpiry::At(form.parse_positive(argument, access.clock_ms(), "msetex")?)
        }
        Some(_) => NewExpiry::Keep,
    };
    let pairs = args.range(2..end);
    if let Some(wanted) = wanted {
        for key in pairs.iter().step_by(2) {
            if access.find_mut(key).is_some() != (wanted == Wanted::All) {
                reply.integer(0);
                return Ok(());
            }
        }
    }
    for at in (0..pairs.len()).step_by(2) {
        let (key, text) = (pairs.at(at), pairs.at(at + 1));
        access.hint(key, access.keyspace().hash(key));
        store(access, key, text, expiry)?;
        match expiry {
            NewExpiry::At(time) => log_set_until(access, key, text, time),
            NewExpiry::Keep => access.log_instead(&[b"SET", key, text, b"KEEPTTL"]),
            NewExpiry::Clear => {}
        }
    }
    if expiry == NewExpiry::Clear {
        let words: SmallVec<[&[u8]; 16]> = std::iter::once(&b"MSET"[..]).chain(pairs.iter()).collect();
        access.log_instead(&words);
    }
    reply.integer(1);
    Ok(())
}

/// The registration table.
pub(crate) const COMMANDS: &[DataSpec] = &[DataSpec::new(
    "msetex",
    -4,
    msetex,
    Flags::WRITE.or(Flags::DENYOOM),
)
.categories(Categories::STRING)
.keys(&[KeySpec::other(
    BeginSearch::Index(1),
    FindKeys::Count { count_index: 0, first: 1, step: 2 },
    KeyFlags::OW.or(KeyFlags::UPDATE),
)])
.docs(
    Group::String,
    "8.4.0",
    "O(N) for N keys",
    "Stores several strings with one expiry, if all or none of the keys are there.",
)
.tips(&["request_policy:multi_shard", "response_policy:all_succeeded"])
.arguments(
    "numkeys:integer data:block(key:key#0 value:string)* condition:oneof(nx:pure-token@NX xx:pure-token@XX)? \
        expiration:oneof(seconds:integer@EX milliseconds:integer@PX unix-time-seconds:unix-time@EXAT \
        unix-time-milliseconds:unix-time@PXAT keepttl:pure-token@KEEPTTL)?",
)];
