//! What the CF commands tell of a filter: CF.INFO and CF.DEBUG.

use mantissa_protocol::{Args, Reply};

use super::filter;
use crate::access::Access;
use crate::error::{Error, Outcome};

pub(super) fn info(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() != 2 {
        return Err(Error::arity("cf.info"));
    }
    let filter = filter(access, args.at(1))?;
    let shape = filter.shape();
    let fields = [
        ("Size", filter.module_bytes()),
        ("Number of buckets", shape.buckets),
        ("Number of filters", filter.filters() as u64),
        ("Number of items inserted", filter.items()),
        ("Number of items deleted", filter.deletions()),
        ("Bucket size", shape.bucket_size.into()),
        ("Expansion rate", shape.growth.into()),
        ("Max iterations", shape.steps.into()),
    ];
    reply.map(fields.len());
    for (name, value) in fields {
        reply.simple(name);
        reply.integer(value.cast_signed());
    }
    Ok(())
}

pub(super) fn debug(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() != 2 {
        return Err(Error::arity("cf.debug"));
    }
    let filter = filter(access, args.at(1))?;
    let shape = filter.shape();
    let text = format!(
        "bktsize:{} buckets:{} items:{} deletes:{} filters:{} max_iterations:{} expansion:{}",
        shape.bucket_size,
        shape.buckets,
        filter.items(),
        filter.deletions(),
        filter.filters(),
        shape.steps,
        shape.growth,
    );
    reply.bulk(text.as_bytes());
    Ok(())
}
