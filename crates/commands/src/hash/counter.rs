//! Fields that are numbers: HINCRBY and HINCRBYFLOAT. Both leave the field's expiry as it is.

use mantissa_number::LongDouble;
use mantissa_protocol::{Args, Reply};
use mantissa_store::listpack::Element;

use super::open_or_new;
use crate::access::Access;
use crate::effects::EventClass;
use crate::error::{Error, Outcome};
use crate::parse;

pub(super) fn hincrby(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (key, field) = (args.at(1), args.at(2));
    let increment = parse::integer(args.at(3))?;
    let limits = &access.settings().limits;
    let hash = open_or_new(access, key, args.range(2..3))?;
    let mut sum = 0;
    hash.update_integer(field, limits, |value| {
        let old = match value {
            Some(value) => value.integer().ok_or(Error::fixed("ERR hash value is not an integer"))?,
            None => 0,
        };
        sum = old.checked_add(increment).ok_or(Error::OVERFLOW)?;
        Ok::<_, Error>(sum)
    })?;
    access.modified(key, EventClass::HASH, "hincrby");
    reply.integer(sum);
    Ok(())
}

pub(super) fn hincrbyfloat(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (key, field) = (args.at(1), args.at(2));
    let increment = LongDouble::parse(args.at(3)).ok_or(Error::NOT_FLOAT)?;
    if increment.is_nan() || increment.is_infinite() {
        return Err(Error::fixed("ERR value is NaN or Infinity"));
    }
    let limits = &access.settings().limits;
    let hash = open_or_new(access, key, args.range(2..3))?;
    let old = match hash.get(field) {
        None => LongDouble::from_i64(0),
        Some((Element::Integer(integer), _)) => LongDouble::from_i64(integer),
        Some((Element::Bytes(text), _)) => {
            LongDouble::parse(text).ok_or(Error::fixed("ERR hash value is not a float"))?
        }
    };
    let sum = old + increment;
    if sum.is_nan() || sum.is_infinite() {
        return Err(Error::fixed("ERR increment would produce NaN or Infinity"));
    }
    let mut text = Vec::new();
    sum.write(&mut text);
    let expires = matches!(hash.get(field), Some((_, Some(_))));
    hash.set_keeping_expiry(field, &text, limits);
    access.modified(key, EventClass::HASH, "hincrbyfloat");
    match expires {
        true => access.log_instead(&[b"HSETEX", key, b"KEEPTTL", b"FIELDS", b"1", field, &text]),
        // Older servers know this one.
        false => access.log_instead(&[b"HSET", key, field, &text]),
    }
    reply.bulk(&text);
    Ok(())
}
