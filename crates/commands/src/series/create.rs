//! Making and altering series.

use mantissa_protocol::{Args, Reply};
use mantissa_store::ValueType;
use mantissa_store::series::Series;

use super::options::Given;
use crate::access::Access;
use crate::effects::EventClass;
use crate::error::{Error, Outcome};

pub(super) fn create(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() < 2 {
        return Err(Error::arity("ts.create"));
    }
    let given = Given::parse(args, "ts.create")?;
    let key = args.at(1);
    if access.find_mut(key).is_some() {
        return Err(Error::fixed("ERR TSDB: key already exists"));
    }
    access.put(key, Series::new(given.options()).into_value(), None)?;
    reply.ok();
    access.modified(key, EventClass::MODULE, "ts.create");
    Ok(())
}

pub(super) fn alter(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() < 2 {
        return Err(Error::arity("ts.alter"));
    }
    let given = Given::parse(args, "ts.alter")?;
    let key = args.at(1);
    let labels = given.alter(super::series_mut(access, key)?.options_mut());
    if let Some(labels) = labels {
        access.set_labels(key, labels);
    }
    reply.ok();
    access.modified(key, EventClass::MODULE, "ts.alter");
    Ok(())
}
