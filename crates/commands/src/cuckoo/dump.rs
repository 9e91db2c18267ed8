//! CF.SCANDUMP and CF.LOADCHUNK.

use mantissa_protocol::{Args, Reply};
use mantissa_store::{CuckooFilter, ValueType};

use super::{NOT_FOUND, filter};
use crate::access::Access;
use crate::error::{Error, Outcome};

/// The place that names the header.
const HEADER: i64 = 1;
const INVALID_POSITION: Error = Error::fixed("Invalid position");

pub(super) fn scandump(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() != 3 {
        return Err(Error::arity("cf.scandump"));
    }
    let place = mantissa_number::parse_i64(args.at(2)).filter(|&place| place >= 0).ok_or(INVALID_POSITION)?;
    let filter = filter(access, args.at(1))?;
    let piece = match place {
        _ if filter.items() == 0 => None,
        0 => Some((HEADER, filter.dump_header())),
        _ => filter.dump_piece(place),
    };
    reply.array(2);
    match piece {
        Some((next, bytes)) => {
            reply.integer(next);
            reply.bulk(&bytes);
        }
        None => {
            reply.integer(0);
            reply.null();
        }
    }
    Ok(())
}

pub(super) fn loadchunk(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() != 4 {
        return Err(Error::arity("cf.loadchunk"));
    }
    let (key, bytes) = (args.at(1), args.at(3));
    let place = mantissa_number::parse_i64(args.at(2)).filter(|&place| place != 0).ok_or(INVALID_POSITION)?;
    match access.collection_mut::<CuckooFilter>(key)? {
        Some(_) if place == HEADER => return Err(Error::fixed("ERR item exists")),
        Some(filter) => {
            filter.load_piece(place, bytes).ok_or(Error::fixed("Couldn't load chunk!"))?;
        }
        None if place == HEADER => {
            let made = CuckooFilter::from_header(bytes).ok_or(Error::fixed("Invalid header"))?;
            let filter = made.ok_or(Error::fixed("Couldn't create filter!"))?;
            access.put(key, filter.into_value(), None)?;
        }
        None => return Err(NOT_FOUND),
    }
    access.changed(key);
    reply.ok();
    Ok(())
}
