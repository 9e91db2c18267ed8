//! Reading and writing fields together with their expiry: HGETEX, HSETEX, HGETDEL.

use std::collections::HashSet;

use mantissa_number::format_i64;
use mantissa_protocol::{Args, Reply};
use mantissa_store::{FieldChange, Hash};
use smallvec::SmallVec;

use super::expiry::{
    fields_at, log_fields, note_deleted, note_expiry, note_past, parse_time, unless_wrong_type,
};
use super::{open, open_or_new, remove_expired, unexpired_value, write_value, write_values};
use crate::access::Access;
use crate::collection_scan::write_element;
use crate::effects::EventClass;
use crate::error::{Error, Outcome};
use crate::expiry::TimeForm;
use crate::parse;

const NOT_POSITIVE: &str = "ERR Number of fields must be a positive integer";

/// EX, PX, EXAT, PXAT
fn time_form(argument: &[u8]) -> Option<TimeForm> {
    let forms = [
        ("EX", TimeForm::SECONDS),
        ("PX", TimeForm::MILLISECONDS),
        ("EXAT", TimeForm::UNIX_SECONDS),
        ("PXAT", TimeForm::UNIX_MILLISECONDS),
    ];
    forms.into_iter().find(|(name, _)| parse::is(argument, name)).map(|(_, form)| form)
}

/// What HGETEX does to the expiry of the fields.
#[derive(Clone, Copy)]
enum NewExpiry {
    Keep,
    Persist,
    At(i64),
}

fn parse_hgetex<'a>(args: Args<'a>, clock_ms: i64) -> Outcome<(NewExpiry, Args<'a>)> {
    let (mut at, mut expiry) = (2, NewExpiry::Keep);
    if parse::is(args.at(2), "PERSIST") {
        (at, expiry) = (3, NewExpiry::Persist);
    } else if let Some(form) = time_form(args.at(2)) {
        expiry = NewExpiry::At(parse_time(args.at(3), form, clock_ms, "hgetex")?);
        at = 4;
        if args.len() < 6 {
            return Err(Error::arity("hgetex"));
        }
    }
    Ok((expiry, fields_at(args, at, NOT_POSITIVE)?))
}

pub(super) fn hgetex(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (key, now_ms) = (args.at(1), access.now_ms());
    let parsed = parse_hgetex(args, access.clock_ms());
    let (expiry, fields) = unless_wrong_type(access, key, parsed)?;
    remove_expired(access, key, fields)?;
    let hash = access.collection_to_write::<Hash>(key)?;
    let is_there = hash.is_some();
    if matches!(expiry, NewExpiry::At(time) if time <= now_ms) {
        // Each goes once its value has been read, so one that is named again is not there any more.
        let mut seen = HashSet::new();
        reply.array(fields.len());
        for field in fields {
            let hash = hash.filter(|_| seen.insert(field));
            write_value(reply, hash.and_then(|hash| unexpired_value(hash, field, now_ms)));
        }
    } else {
        write_values(access, hash, fields, reply);
    }
    if !is_there || matches!(expiry, NewExpiry::Keep) {
        return Ok(());
    }
    let Some(hash) = access.hash_mut(key)? else { return Ok(()) };
    let mut affected: Vec<&[u8]> = Vec::new();
    hash.expect_expiries();
    for field in fields {
        let is_affected = hash.change_field(field, |_, old| match expiry {
            NewExpiry::At(time) if time <= now_ms => (FieldChange::Remove, true),
            NewExpiry::At(time) => (FieldChange::Expire(Some(time)), true),
            NewExpiry::Persist if old.is_some() => (FieldChange::Expire(None), true),
            NewExpiry::Persist | NewExpiry::Keep => (FieldChange::Keep, false),
        });
        if is_affected == Some(true) {
            affected.push(field);
        }
    }
    if let NewExpiry::At(time) = expiry {
        note_expiry(access, key, time, &affected);
    } else if !affected.is_empty() {
        access.event(EventClass::HASH, "hpersist", key);
        access.changed_by(key, affected.len() as u64);
        log_fields(access, &[b"HPERSIST", key], &affected);
    }
    Ok(())
}

pub(super) fn hgetdel(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let key = args.at(1);
    let fields = unless_wrong_type(access, key, fields_at(args, 2, NOT_POSITIVE))?;
    let hash = open(access, key, fields)?;
    reply.array(fields.len());
    let Some(hash) = hash else {
        fields.iter().for_each(|_| reply.null());
        return Ok(());
    };
    let mut removed: SmallVec<[&[u8]; 4]> = SmallVec::new();
    for field in fields {
        let taken = hash.change_field(field, |value, _| (FieldChange::Remove, write_element(reply, value)));
        match taken {
            Some(()) => removed.push(field),
            None => reply.null(),
        }
    }
    if hash.is_tracked_in_vain() {
        access.track_fields(key);
    }
    if !removed.is_empty() {
        access.changed_by(key, removed.len() as u64);
        note_deleted(access, key, &removed);
    }
    Ok(())
}

/// The options of HSETEX.
#[derive(Default)]
struct SetOptions<'a> {
    /// FNX
    only_if_missing: bool,
    /// FXX
    only_if_there: bool,
    /// What Valkey's NX and XX want: that there is a hash, or that there is none.
    wants_hash: Option<bool>,
    /// KEEPTTL
    keep: bool,
    /// Unix time in ms.
    time: Option<i64>,
    /// Fields and values.
    pairs: Option<Args<'a>>,
}

impl<'a> SetOptions<'a> {
    fn parse(args: Args<'a>, now_ms: i64) -> Outcome<Self> {
        let mut options = SetOptions::default();
        let mut at = 2;
        while at < args.len() && options.pairs.is_none() {
            at = options.parse_one(args, at, now_ms)?;
        }
        Ok(options)
    }

    /// Reads the option at `at` and returns the position after it.
    fn parse_one(&mut self, args: Args<'a>, at: usize, now_ms: i64) -> Outcome<usize> {
        let option = args.at(at);
        if parse::is(option, "FIELDS") {
            self.pairs = Some(Self::parse_fields(args, at)?);
            return Ok(args.len());
        }
        let form = time_form(option);
        let is_keep = parse::is(option, "KEEPTTL");
        if form.is_some() || is_keep {
            if self.keep || self.time.is_some() {
                return Err(Error::fixed(
                    "ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified",
                ));
            }
            self.keep = is_keep;
            let Some(form) = form else { return Ok(at + 1) };
            let argument = args.get(at + 1).ok_or(Error::fixed("ERR missing expire time"))?;
            self.time = Some(parse_time(argument, form, now_ms, "hsetex")?);
            return Ok(at + 2);
        }
        let (is_new, is_old) = (parse::is(option, "NX"), parse::is(option, "XX"));
        if is_new || is_old {
            if self.wants_hash.is_some_and(|wanted| wanted != is_old) {
                return Err(Error::SYNTAX);
            }
            self.wants_hash = Some(is_old);
            return Ok(at + 1);
        }
        let (missing, there) = (parse::is(option, "FNX"), parse::is(option, "FXX"));
        if !missing && !there {
            return Err(Error::quoting("ERR unknown argument: ", option, ""));
        }
        if self.only_if_missing || self.only_if_there {
            return Err(Error::fixed("ERR Only one of FXX or FNX arguments can be specified"));
        }
        (self.only_if_missing, self.only_if_there) = (missing, there);
        Ok(at + 1)
    }

    fn parse_fields(args: Args<'a>, at: usize) -> Outcome<Args<'a>> {
        if at + 3 >= args.len() {
            return Err(Error::arity("hsetex"));
        }
        let error = "ERR invalid number of fields";
        let count = parse::integer_in(args.at(at + 1), 1, i64::from(i32::MAX), error)?;
        let pairs = args.from(at + 2);
        if pairs.len() as i64 != count * 2 { Err(Error::arity("hsetex")) } else { Ok(pairs) }
    }
}

pub(super) fn hsetex(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (key, now_ms) = (args.at(1), access.now_ms());
    let options = SetOptions::parse(args, access.clock_ms())?;
    let time = options.time;
    let Some(pairs) = options.pairs else { return Err(Error::fixed("ERR missing FIELDS argument")) };
    let fields: SmallVec<[&[u8]; 8]> = pairs.iter().step_by(2).collect();
    let names_fields = options.only_if_missing || options.only_if_there;
    if names_fields || options.wants_hash.is_some() {
        let hash = open(access, key, pairs)?;
        let is_there = |field: &&[u8]| hash.as_ref().is_some_and(|hash| hash.get(field).is_some());
        let is_refused = options.wants_hash.is_some_and(|wanted| wanted != hash.is_some())
            || names_fields && fields.iter().any(|field| is_there(field) == options.only_if_missing);
        if is_refused {
            reply.integer(0);
            return Ok(());
        }
    }
    let limits = &access.settings().limits;
    let hash = open_or_new(access, key, pairs)?;
    hash.expect(fields.len(), pairs.iter().map(<[u8]>::len).max().unwrap_or(0), limits);
    if time.is_some() {
        hash.expect_expiries();
    }
    for (field, value) in fields.iter().zip(pairs.iter().skip(1).step_by(2)) {
        match time {
            Some(time) if time > now_ms => hash.set_with_expiry(field, value, time, limits),
            _ if options.keep => hash.set_keeping_expiry(field, value, limits),
            _ => hash.set(field, value, limits),
        };
    }
    access.event(EventClass::HASH, "hset", key);
    access.changed_by(key, fields.len() as u64);
    if let Some(time) = time {
        finish_expiry(access, key, time, &fields, pairs);
    } else if options.wants_hash.is_some() {
        // Redis's HSETEX has no NX and XX.
        log_setting(access, key, if options.keep { &[b"KEEPTTL"] } else { &[] }, pairs);
    }
    reply.integer(1);
    Ok(())
}

/// Logs the setting of fields: HSETEX with what these options say of their expiry.
fn log_setting(access: &mut Access<'_>, key: &[u8], expiry: &[&[u8]], pairs: Args<'_>) {
    if !access.logs() {
        return;
    }
    let mut count_digits = [0; 20];
    let mut command: Vec<&[u8]> = vec![b"HSETEX", key];
    command.extend(expiry);
    command.extend([b"FIELDS", format_i64(&mut count_digits, pairs.len() as i64 / 2)]);
    command.extend(pairs.iter());
    access.log_instead(&command);
}

/// Says that the fields that were set expire, or removes them because their time has passed already.
fn finish_expiry(access: &mut Access<'_>, key: &[u8], time: i64, fields: &[&[u8]], pairs: Args<'_>) {
    if time <= access.now_ms() {
        if let Some(hash) = access.peek_hash_mut(key) {
            fields.iter().for_each(|field| {
                hash.remove(field);
            });
        }
        return note_past(access, key, fields);
    }
    access.event(EventClass::HASH, "hexpire", key);
    access.track_fields(key);
    log_setting(access, key, &[b"PXAT", format_i64(&mut [0; 20], time)], pairs);
}
