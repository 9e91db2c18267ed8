//! INCREX, as of Redis 8.8: a counter with bounds and an expiry. It is logged as SET, which every server
//! knows.

use mantissa_number::{INTEGER_TEXT_MAX, LongDouble, format_i64};
use mantissa_protocol::{Args, Reply};
use mantissa_store::{StringRef, Value};
use smallvec::SmallVec;

use super::log_set_until;
use crate::DataSpec;
use crate::access::Access;
use crate::effects::{EventClass, removal};
use crate::error::{Error, Outcome};
use crate::expiry::Expiration;
use crate::parse;
use crate::spec::{Categories, Flags, Group, KeyFlags, KeySpec};

/// What is counted in: integers, or what INCRBYFLOAT counts in.
trait Number: Copy {
    const LEAST: Self;
    const LARGEST: Self;
    const ZERO: Self;
    /// What an argument that is no such number is called.
    const NOT_ONE: &'static str;
    /// The key event of a change.
    const EVENT: &'static str;

    fn parse(argument: &[u8]) -> Option<Self>;

    /// The number that a string is.
    fn of(text: StringRef<'_>) -> Outcome<Self>;

    fn is_less_than(self, other: Self) -> bool;

    /// The sum; `None` beyond the largest and least numbers.
    fn plus(self, other: Self) -> Option<Self>;

    /// What has to be added to `from` for this one.
    fn distance_from(self, from: Self) -> Outcome<Self>;

    fn store(self, access: &mut Access<'_>, key: &[u8]) -> Outcome;

    fn text(self) -> SmallVec<[u8; 32]>;

    fn reply(self, reply: &mut Reply);
}

impl Number for i64 {
    const LEAST: i64 = i64::MIN;
    const LARGEST: i64 = i64::MAX;
    const ZERO: i64 = 0;
    const NOT_ONE: &'static str = " is not an integer or out of range";
    const EVENT: &'static str = "incrby";

    fn parse(argument: &[u8]) -> Option<i64> {
        mantissa_number::parse_i64(argument)
    }

    fn of(text: StringRef<'_>) -> Outcome<i64> {
        text.integer().ok_or(Error::NOT_INTEGER)
    }

    fn is_less_than(self, other: i64) -> bool {
        self < other
    }

    fn plus(self, other: i64) -> Option<i64> {
        self.checked_add(other)
    }

    fn distance_from(self, from: i64) -> Outcome<i64> {
        self.checked_sub(from).ok_or(Error::fixed("ERR applied increment would overflow"))
    }

    fn store(self, access: &mut Access<'_>, key: &[u8]) -> Outcome {
        let (mut entry, is_new) = access.find_or_insert(key, || Value::Integer(self))?;
        if !is_new {
            entry.set_integer(self);
        }
        Ok(())
    }

    fn text(self) -> SmallVec<[u8; 32]> {
        SmallVec::from_slice(format_i64(&mut [0; INTEGER_TEXT_MAX], self))
    }

    fn reply(self, reply: &mut Reply) {
        reply.integer(self);
    }
}

impl Number for LongDouble {
    const LEAST: LongDouble = LongDouble::LEAST;
    const LARGEST: LongDouble = LongDouble::LARGEST;
    const ZERO: LongDouble = LongDouble::ZERO;
    const NOT_ONE: &'static str = " is not a valid float";
    const EVENT: &'static str = "incrbyfloat";

    fn parse(argument: &[u8]) -> Option<LongDouble> {
        LongDouble::parse(argument)
    }

    fn of(text: StringRef<'_>) -> Outcome<LongDouble> {
        let number = match text {
            StringRef::Integer(number) => LongDouble::from_i64(number),
            StringRef::Bytes(text) => LongDouble::parse(text).ok_or(Error::NOT_FLOAT)?,
        };
        if number.is_infinite() { Err(Error::fixed("ERR value cannot be Infinity")) } else { Ok(number) }
    }

    fn is_less_than(self, other: LongDouble) -> bool {
        self.is_less_than(other)
    }

    fn plus(self, other: LongDouble) -> Option<LongDouble> {
        Some(self + other).filter(|sum| !sum.is_infinite())
    }

    fn distance_from(self, from: LongDouble) -> Outcome<LongDouble> {
        let distance = self.plus(-from);
        distance.ok_or(Error::fixed("ERR applied increment would be Infinity"))
    }

    fn store(self, access: &mut Access<'_>, key: &[u8]) -> Outcome {
        let text = self.text();
        let (mut entry, is_new) = access.find_or_insert(key, || Value::String(text.to_vec()))?;
        if !is_new {
            entry.set_string(&text);
        }
        entry.mark_as_text();
        Ok(())
    }

    fn text(self) -> SmallVec<[u8; 32]> {
        let mut text = Vec::new();
        self.write(&mut text);
        SmallVec::from_vec(text)
    }

    fn reply(self, reply: &mut Reply) {
        reply.double_text(&self.text());
    }
}

/// The options, of which each may come once.
#[derive(Default)]
struct Options<'a> {
    by_integer: Option<&'a [u8]>,
    by_float: Option<&'a [u8]>,
    lower: Option<&'a [u8]>,
    upper: Option<&'a [u8]>,
    saturates: bool,
    expiration: Option<Expiration<'a>>,
    only_without_expiry: bool,
}

impl<'a> Options<'a> {
    fn parse(args: Args<'a>) -> Outcome<Options<'a>> {
        let mut options = Options::default();
        let mut at = 2;
        while let Some(word) = args.get(at) {
            let Options { by_integer, by_float, lower, upper, saturates, expiration, only_without_expiry } =
                &mut options;
            let with_argument =
                [("BYINT", by_integer), ("BYFLOAT", by_float), ("LBOUND", lower), ("UBOUND", upper)];
            let flags = [("SATURATE", saturates), ("ENX", only_without_expiry)];
            if let Some((_, place)) = with_argument.into_iter().find(|(name, _)| parse::is(word, name)) {
                let argument = args.get(at + 1).filter(|_| place.is_none()).ok_or(Error::SYNTAX)?;
                (*place, at) = (Some(argument), at + 2);
            } else if let Some((_, flag)) = flags.into_iter().find(|(name, _)| parse::is(word, name)) {
                if std::mem::replace(flag, true) {
                    return Err(Error::SYNTAX);
                }
                at += 1;
            } else {
                let (next, after) = Expiration::parse(args, at).ok_or(Error::SYNTAX)?;
                if next == Expiration::Keep || expiration.replace(next).is_some() {
                    return Err(Error::SYNTAX);
                }
                at = after;
            }
        }
        let is_persisted = options.expiration == Some(Expiration::Persist);
        if options.by_integer.is_some() && options.by_float.is_some()
            || options.only_without_expiry && is_persisted
        {
            return Err(Error::SYNTAX);
        }
        if options.only_without_expiry && options.expiration.is_none() {
            return Err(Error::fixed("ERR ENX flag requires an expiration"));
        }
        Ok(options)
    }
}

/// A number that an argument has to be.
fn number<N: Number>(argument: &[u8], name: &str) -> Outcome<N> {
    N::parse(argument).ok_or_else(|| Error::new(format!("ERR {name}{}", N::NOT_ONE)))
}

/// INCREX key [BYFLOAT increment | BYINT increment] [LBOUND bound] [UBOUND bound] [SATURATE]
///     [EX seconds | PX milliseconds | EXAT seconds | PXAT milliseconds | PERSIST] [ENX]
fn increx(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let options = Options::parse(args)?;
    let key = args.at(1);
    match (options.by_float, options.by_integer) {
        (Some(argument), _) => {
            let by: LongDouble = number(argument, "Increment")?;
            if by.is_infinite() {
                return Err(Error::fixed("ERR BYFLOAT increment cannot be Infinity"));
            }
            add(access, (key, by), &options, reply)
        }
        (None, Some(argument)) => add(access, (key, number::<i64>(argument, "Increment")?), &options, reply),
        (None, None) => add(access, (key, 1), &options, reply),
    }
}

fn add<N: Number>(
    access: &mut Access<'_>,
    (key, by): (&[u8], N),
    options: &Options<'_>,
    reply: &mut Reply,
) -> Outcome {
    let lower = options.lower.map_or(Ok(N::LEAST), |argument| number(argument, "LBOUND"))?;
    let upper = options.upper.map_or(Ok(N::LARGEST), |argument| number(argument, "UBOUND"))?;
    if upper.is_less_than(lower) {
        return Err(Error::fixed("ERR LBOUND can't be greater than UBOUND"));
    }
    let time = match options.expiration {
        Some(Expiration::Set(form, argument)) => {
            let time = form.parse_positive(argument, access.clock_ms(), "increx")?;
            Some((time, form.absolute && time <= access.now_ms()))
        }
        _ => None,
    };
    let (old, old_expiry) = match access.find_mut(key) {
        None => (N::ZERO, None),
        Some(entry) => (N::of(entry.as_string().ok_or(Error::WRONG_TYPE)?)?, entry.expiry()),
    };
    let is_within = |sum: N| !sum.is_less_than(lower) && !upper.is_less_than(sum);
    let sum = match old.plus(by) {
        Some(sum) if is_within(sum) => sum,
        _ if !options.saturates => {
            reply.array(2);
            old.reply(reply);
            N::ZERO.reply(reply);
            return Ok(());
        }
        // Beyond all numbers it is the last of them on that side.
        sum => match sum.unwrap_or(if by.is_less_than(N::ZERO) { N::LEAST } else { N::LARGEST }) {
            sum if sum.is_less_than(lower) => lower,
            sum if upper.is_less_than(sum) => upper,
            sum => sum,
        },
    };
    let applied = sum.distance_from(old)?;
    let time = time.filter(|_| !options.only_without_expiry || old_expiry.is_none());
    put(access, (key, sum), (time, options.expiration == Some(Expiration::Persist)))?;
    reply.array(2);
    sum.reply(reply);
    applied.reply(reply);
    Ok(())
}

/// Stores a number. A time at which it expires says whether that is over already.
fn put<N: Number>(
    access: &mut Access<'_>,
    (key, number): (&[u8], N),
    (time, persists): (Option<(i64, bool)>, bool),
) -> Outcome {
    if let Some((_, true)) = time {
        let is_lazy = access.settings().lazy_expire;
        if access.delete_as(is_lazy, key) {
            access.log_instead(&[removal(is_lazy), key]);
        }
        return Ok(());
    }
    number.store(access, key)?;
    access.modified(key, EventClass::STRING, N::EVENT);
    let text = number.text();
    if let Some((time, _)) = time {
        access.set_expiry(key, Some(time));
        access.event(EventClass::GENERIC, "expire", key);
        log_set_until(access, key, &text, time);
    } else if persists {
        if access.expiry(key).flatten().is_some() && access.set_expiry(key, None) {
            access.event(EventClass::GENERIC, "persist", key);
        }
        access.log_instead(&[b"SET", key, &text]);
    } else {
        access.log_instead(&[b"SET", key, &text, b"KEEPTTL"]);
    }
    Ok(())
}

/// The registration table.
pub(crate) const COMMANDS: &[DataSpec] =
    &[DataSpec::new("increx", -2, increx, Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST))
        .categories(Categories::STRING)
        .keys(&[KeySpec::one(1, KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::UPDATE))])
        .docs(
            Group::String,
            "8.8.0",
            "O(1)",
            "Adds a number to a counter within bounds, and sets its expiry; a missing key counts as 0.",
        )
        .arguments(
            "key:key#0 increment:oneof(float:double@BYFLOAT integer:integer@BYINT)? \
            saturate:pure-token@SATURATE? lowerbound:string@LBOUND? upperbound:string@UBOUND? \
            expiration:oneof(seconds:integer@EX milliseconds:integer@PX unix-time-seconds:unix-time@EXAT \
            unix-time-milliseconds:unix-time@PXAT persist:pure-token@PERSIST)? enx:pure-token@ENX?",
        )];
