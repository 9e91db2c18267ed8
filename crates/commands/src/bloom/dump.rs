//! BF.SCANDUMP and BF.LOADCHUNK.

use mantissa_protocol::{Args, Reply};
use mantissa_store::{BloomFilter, ValueType};

use super::{NOT_FOUND, filter};
use crate::access::Access;
use crate::error::{Error, Outcome};
use crate::parse;

/// The place that names the header.
const HEADER: i64 = 1;

pub(super) fn scandump(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() != 3 {
        return Err(Error::arity("bf.scandump"));
    }
    let filter = filter(access, args.at(1))?;
    let place = parse::integer_or(args.at(2), "Second argument must be numeric")?;
    let (next, bytes) = match place {
        0 => (HEADER, filter.dump_header()),
        _ => filter.dump_piece(place),
    };
    reply.array(2);
    reply.integer(next);
    reply.bulk(&bytes);
    Ok(())
}

pub(super) fn loadchunk(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() != 4 {
        return Err(Error::arity("bf.loadchunk"));
    }
    let (key, bytes) = (args.at(1), args.at(3));
    let place = parse::integer_or(args.at(2), "ERR Second argument must be numeric")?;
    match access.collection_mut::<BloomFilter>(key)? {
        Some(filter) => filter.load_piece(place, bytes).map_err(Error::fixed)?,
        None if place == HEADER => {
            let filter = BloomFilter::from_header(bytes).map_err(Error::fixed)?;
            access.put(key, filter.into_value(), None)?;
        }
        None => return Err(NOT_FOUND),
    }
    access.changed(key);
    reply.ok();
    Ok(())
}
