//! What the BF commands tell of a filter: BF.INFO, BF.CARD and BF.DEBUG.

use mantissa_protocol::{Args, Reply};
use mantissa_store::BloomFilter;

use super::filter;
use crate::access::Access;
use crate::error::{Error, Outcome};
use crate::parse;

/// What BF.INFO tells: the option that asks for it alone, and its name.
const FIELDS: [(&str, &str); 5] = [
    ("CAPACITY", "Capacity"),
    ("SIZE", "Size"),
    ("FILTERS", "Number of filters"),
    ("ITEMS", "Number of items inserted"),
    ("EXPANSION", "Expansion rate"),
];

/// The value of a field, by its place in [`FIELDS`].
fn value(filter: &BloomFilter, field: usize) -> Option<i64> {
    Some(match field {
        0 => filter.capacity() as i64,
        1 => filter.module_bytes() as i64,
        2 => filter.parts().len() as i64,
        3 => filter.items() as i64,
        _ if filter.is_fixed() => return None,
        _ => filter.growth().into(),
    })
}

pub(super) fn info(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if !(2..=3).contains(&args.len()) {
        return Err(Error::arity("bf.info"));
    }
    let filter = filter(access, args.at(1))?;
    let write = |field: usize, reply: &mut Reply, is_named: bool| {
        if is_named {
            reply.simple(FIELDS[field].1);
        }
        match value(filter, field) {
            Some(value) => reply.integer(value),
            None => reply.null(),
        }
    };
    let Some(option) = args.get(2) else {
        reply.map(FIELDS.len());
        (0..FIELDS.len()).for_each(|field| write(field, reply, true));
        return Ok(());
    };
    let field = FIELDS.iter().position(|(name, _)| parse::is(option, name));
    let field = field.ok_or(Error::fixed("Invalid information value"))?;
    if reply.is_resp3() {
        reply.map(1);
    } else {
        reply.array(1);
    }
    write(field, reply, reply.is_resp3());
    Ok(())
}

pub(super) fn card(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() != 2 {
        return Err(Error::arity("bf.card"));
    }
    let filter = access.collection::<BloomFilter>(args.at(1))?;
    reply.integer(filter.map_or(0, BloomFilter::items) as i64);
    Ok(())
}

pub(super) fn debug(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() != 2 {
        return Err(Error::arity("bf.debug"));
    }
    let filter = filter(access, args.at(1))?;
    reply.array(1 + filter.parts().len());
    reply.bulk(format!("size:{}", filter.items()).as_bytes());
    let width = if filter.is_wide() { 64 } else { 32 };
    for part in filter.parts() {
        let shape = part.shape();
        let text = format!(
            "bytes:{} bits:{} hashes:{} hashwidth:{width} capacity:{} size:{} ratio:{}",
            part.byte_len(),
            shape.bits,
            shape.hashes,
            shape.entries,
            part.items(),
            six_digits(shape.error),
        );
        reply.bulk(text.as_bytes());
    }
    Ok(())
}

/// A number as C's `%g` prints it: six digits, without zeros behind them.
fn six_digits(number: f64) -> String {
    let text = format!("{number:.5e}");
    let Some((digits, exponent)) = text.split_once('e') else { return text };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim = |text: &str| text.trim_end_matches('0').trim_end_matches('.').to_owned();
    if (-4..6).contains(&exponent) {
        return trim(&format!("{number:.*}", (5 - exponent) as usize));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trim(digits), exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::six_digits;

    #[test]
    fn numbers_are_printed_as_c_does() {
        for (number, text) in [
            (0.005, "0.005"),
            (0.0025, "0.0025"),
            (0.495, "0.495"),
            (5e-301, "5e-301"),
            (0.01 / 16384.0, "6.10352e-07"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (0.99999999, "1"),
        ] {
            assert_eq!(six_digits(number), text);
        }
    }
}
