//! Expiry of fields: the HEXPIRE and HTTL families, HPERSIST, and the removal of expired
//! fields.

use mantissa_number::format_i64;
use mantissa_protocol::{Args, Reply};
use mantissa_store::FieldChange;
use smallvec::SmallVec;

use super::open;
use crate::access::Access;
use crate::effects::EventClass;
use crate::error::{Error, Outcome};
use crate::expiry::TimeForm;
use crate::parse;

/// The latest expiry of a field, a Unix time in ms.
const EXPIRY_MS_MAX: i64 = (1 << 46) - 1;
/// What is replied for a field that is not there.
const NO_FIELD: i64 = -2;
/// What is replied for a field that does not expire.
const NO_EXPIRY: i64 = -1;
/// Expired fields that a write removes beside those that it names.
const REMOVED_BESIDE_MAX: usize = 16;

const NOT_POSITIVE: &str = "ERR Number of fields must be a positive integer";

/// Removes expired fields of a hash: those of `fields`, and a few others.
pub(super) fn remove_expired(access: &mut Access<'_>, key: &[u8], fields: Args<'_>) -> Outcome {
    let now_ms = access.now_ms();
    let Some(hash) = access.hash_mut(key)? else { return Ok(()) };
    let mut removed: Vec<Box<[u8]>> = Vec::new();
    for field in fields {
        let expiry = hash.get(field).and_then(|(_, expiry)| expiry);
        if expiry.is_some_and(|time| time <= now_ms) && hash.remove(field) {
            removed.push(field.into());
        }
    }
    hash.remove_expired(now_ms, REMOVED_BESIDE_MAX, |field| removed.push(field.into()));
    note_removed(access, key, removed)
}

/// Removes up to `limit` expired fields of a hash, for active expiry. Returns their number.
pub(crate) fn remove_expired_fields(access: &mut Access<'_>, key: &[u8], limit: usize) -> usize {
    let now_ms = access.now_ms();
    let mut removed: Vec<Box<[u8]>> = Vec::new();
    if let Some(hash) = access.peek_hash_mut(key) {
        hash.remove_expired(now_ms, limit, |field| removed.push(field.into()));
    }
    let count = removed.len();
    match count {
        0 => access.track_fields(key),
        _ => drop(note_removed(access, key, removed)),
    }
    count
}

/// Says that fields were removed because their time had passed, and removes the hash if it is empty now.
fn note_removed(access: &mut Access<'_>, key: &[u8], removed: Vec<Box<[u8]>>) -> Outcome {
    if removed.is_empty() {
        return Ok(());
    }
    access.event(EventClass::HASH, "hexpired", key);
    access.changed_by(key, 0);
    access.expired_fields(key, removed);
    let is_empty = access.peek_hash_mut(key).is_some_and(|hash| hash.is_empty());
    access.remove_if_empty(key, is_empty);
    access.track_fields(key);
    Ok(())
}

/// When a number that stands for a time says that fields are to expire: a Unix time in ms.
pub(super) fn parse_time(argument: &[u8], form: TimeForm, now_ms: i64, name: &str) -> Outcome<i64> {
    let number = parse::integer(argument)?;
    if number < 0 {
        return Err(Error::fixed("ERR invalid expire time, must be >= 0"));
    }
    let time = form.unix_ms(number, now_ms, name)?;
    if time > EXPIRY_MS_MAX { Err(Error::invalid_expiry(name)) } else { Ok(time) }
}

/// The fields that follow `FIELDS numfields` at `at`, which must be all of the rest.
pub(super) fn fields_at<'a>(args: Args<'a>, at: usize, not_positive: &'static str) -> Outcome<Args<'a>> {
    if !args.get(at).is_some_and(|word| parse::is(word, "FIELDS")) {
        return Err(Error::fixed("ERR Mandatory argument FIELDS is missing or not at the right position"));
    }
    let count = args.get(at + 1).unwrap_or_default();
    let count = parse::integer_in(count, 1, i64::MAX, not_positive)?;
    let fields = args.from(at + 2);
    if count != fields.len() as i64 {
        return Err(Error::fixed("ERR The `numfields` parameter must match the number of arguments"));
    }
    Ok(fields)
}

/// NX, XX, GT, LT
#[derive(Clone, Copy)]
enum Condition {
    Always,
    NoExpiry,
    AnyExpiry,
    Later,
    Earlier,
}

impl Condition {
    fn parse(argument: &[u8]) -> Option<Condition> {
        let names = [
            ("NX", Condition::NoExpiry),
            ("XX", Condition::AnyExpiry),
            ("GT", Condition::Later),
            ("LT", Condition::Earlier),
        ];
        names.into_iter().find(|(name, _)| parse::is(argument, name)).map(|(_, condition)| condition)
    }

    /// Whether the old expiry lets the new one come.
    fn admits(self, old: Option<i64>, new: i64) -> bool {
        match self {
            Condition::Always => true,
            Condition::NoExpiry => old.is_none(),
            Condition::AnyExpiry => old.is_some(),
            Condition::Later => old.is_some_and(|old| new > old),
            Condition::Earlier => old.is_none_or(|old| new < old),
        }
    }
}

pub(super) fn hexpire(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    expire(access, args, reply, TimeForm::SECONDS, "hexpire")
}

pub(super) fn hpexpire(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    expire(access, args, reply, TimeForm::MILLISECONDS, "hpexpire")
}

pub(super) fn hexpireat(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    expire(access, args, reply, TimeForm::UNIX_SECONDS, "hexpireat")
}

pub(super) fn hpexpireat(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    expire(access, args, reply, TimeForm::UNIX_MILLISECONDS, "hpexpireat")
}

/// What was read of the arguments. Where they are wrong and the key holds something else than a hash as well,
/// that comes first.
pub(super) fn unless_wrong_type<T>(access: &mut Access<'_>, key: &[u8], parsed: Outcome<T>) -> Outcome<T> {
    if parsed.is_err() {
        access.hash_mut(key)?;
    }
    parsed
}

/// Time, condition and fields of HEXPIRE and its like.
fn parse_expire<'a>(
    args: Args<'a>,
    form: TimeForm,
    clock_ms: i64,
    name: &str,
) -> Outcome<(i64, Condition, Args<'a>)> {
    let time = parse_time(args.at(2), form, clock_ms, name)?;
    let condition = Condition::parse(args.at(3));
    let at = if condition.is_some() { 4 } else { 3 };
    let fields = fields_at(args, at, "ERR Parameter `numFields` should be greater than 0")?;
    Ok((time, condition.unwrap_or(Condition::Always), fields))
}

fn expire(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply, form: TimeForm, name: &str) -> Outcome {
    let (key, now_ms) = (args.at(1), access.now_ms());
    let parsed = parse_expire(args, form, access.clock_ms(), name);
    let (time, condition, fields) = unless_wrong_type(access, key, parsed)?;
    reply.array(fields.len());
    let Some(hash) = open(access, key, fields)? else {
        fields.iter().for_each(|_| reply.integer(NO_FIELD));
        return Ok(());
    };
    hash.expect_expiries();
    let mut affected: SmallVec<[&[u8]; 4]> = SmallVec::new();
    for field in fields {
        let result = hash.change_field(field, |_, old| match condition.admits(old, time) {
            false => (FieldChange::Keep, 0),
            true if time <= now_ms => (FieldChange::Remove, 2),
            true => (FieldChange::Expire(Some(time)), 1),
        });
        let result = result.unwrap_or(NO_FIELD);
        if result > 0 {
            affected.push(field);
        }
        reply.integer(result);
    }
    note_expiry(access, key, time, &affected);
    Ok(())
}

/// Says that these fields got an expiry, or were removed because it has passed already; logs just that.
pub(super) fn note_expiry(access: &mut Access<'_>, key: &[u8], time: i64, fields: &[&[u8]]) {
    if fields.is_empty() {
        return;
    }
    access.changed_by(key, fields.len() as u64);
    if time <= access.now_ms() {
        return note_past(access, key, fields);
    }
    access.event(EventClass::HASH, "hexpire", key);
    access.track_fields(key);
    let mut digits = [0; 20];
    log_fields(access, &[b"HPEXPIREAT", key, format_i64(&mut digits, time)], fields);
}

/// Says that fields were deleted, removes the hash if it is empty, and logs just that.
pub(super) fn note_deleted(access: &mut Access<'_>, key: &[u8], fields: &[&[u8]]) {
    access.event(EventClass::HASH, "hdel", key);
    let is_empty = access.peek_hash_mut(key).is_some_and(|hash| hash.is_empty());
    access.remove_if_empty(key, is_empty);
    if access.logs() {
        let command: Vec<&[u8]> = [b"HDEL", key].into_iter().chain(fields.iter().copied()).collect();
        access.log_instead(&command);
    }
}

/// The same for fields that were deleted because the time that they were given has passed: they count as
/// expired.
pub(super) fn note_past(access: &mut Access<'_>, key: &[u8], fields: &[&[u8]]) {
    access.count_expired_fields(fields.len());
    note_deleted(access, key, fields);
}

/// Logs a command that ends in `FIELDS numfields field...`.
pub(super) fn log_fields(access: &mut Access<'_>, start: &[&[u8]], fields: &[&[u8]]) {
    if !access.logs() {
        return;
    }
    let mut digits = [0; 20];
    let mut command = start.to_vec();
    command.extend([b"FIELDS", format_i64(&mut digits, fields.len() as i64)]);
    command.extend(fields);
    access.log_instead(&command);
}

pub(super) fn httl(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let now_ms = access.now_ms();
    tell_expiry(access, args, reply, |time| (time - now_ms + 999) / 1000)
}

pub(super) fn hpttl(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let now_ms = access.now_ms();
    tell_expiry(access, args, reply, |time| time - now_ms)
}

pub(super) fn hexpiretime(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    tell_expiry(access, args, reply, |time| (time + 999) / 1000)
}

pub(super) fn hpexpiretime(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    tell_expiry(access, args, reply, |time| time)
}

fn tell_expiry(
    access: &mut Access<'_>,
    args: Args<'_>,
    reply: &mut Reply,
    form: impl Fn(i64) -> i64,
) -> Outcome {
    let hash = access.hash_value(args.at(1))?;
    let fields = fields_at(args, 2, NOT_POSITIVE)?;
    reply.array(fields.len());
    for field in fields {
        reply.integer(match hash.and_then(|hash| hash.get(field)) {
            None => NO_FIELD,
            Some((_, None)) => NO_EXPIRY,
            Some((_, Some(time))) if time <= access.now_ms() => NO_FIELD,
            Some((_, Some(time))) => form(time),
        });
    }
    Ok(())
}

pub(super) fn hpersist(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let key = args.at(1);
    let fields = unless_wrong_type(access, key, fields_at(args, 2, NOT_POSITIVE))?;
    reply.array(fields.len());
    let Some(hash) = open(access, key, fields)? else {
        fields.iter().for_each(|_| reply.integer(NO_FIELD));
        return Ok(());
    };
    let mut changed = 0;
    for field in fields {
        let result = hash.change_field(field, |_, old| match old {
            None => (FieldChange::Keep, NO_EXPIRY),
            Some(_) => (FieldChange::Expire(None), 1),
        });
        changed += u64::from(result == Some(1));
        reply.integer(result.unwrap_or(NO_FIELD));
    }
    if hash.is_tracked_in_vain() {
        access.track_fields(key);
    }
    if changed > 0 {
        access.event(EventClass::HASH, "hpersist", key);
        access.changed_by(key, changed);
    }
    Ok(())
}
