//! Making and altering series.

use mantissa_protocol::{Args, Reply};
use mantissa_store::ValueType;
use mantissa_store::series::{Options, Rule, Series};

use super::options::Given;
use super::settings;
use crate::access::Access;
use crate::effects::EventClass;
use crate::error::{Error, Outcome};
use crate::series_settings::Compaction;

pub(super) fn create(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() < 2 {
        return Err(Error::arity("ts.create"));
    }
    let given = Given::parse(args, "ts.create")?;
    let key = args.at(1);
    if access.find_mut(key).is_some() {
        return Err(Error::fixed("ERR TSDB: key already exists"));
    }
    make(access, key, given, false)?;
    reply.ok();
    access.modified(key, EventClass::MODULE, "ts.create");
    Ok(())
}

/// Puts a new series at a key, with the compactions that settings tell it, if it is to have some. Whether
/// what it was told by settings is logged: then the command has to log what else it does.
pub(super) fn make(access: &mut Access<'_>, key: &[u8], given: Given, is_compacted: bool) -> Outcome<bool> {
    let settings = settings(access);
    let options = given.options(settings);
    let is_logged = settings.is_for_new();
    if is_logged && access.logs() {
        log_made(access, key, &options);
    }
    let mut series = Series::new(options);
    let compactions = if is_compacted { &settings.compactions[..] } else { &[] };
    for compaction in compactions {
        let destination = compaction.destination(key);
        // A key that is there already stays as it is.
        if access.find_mut(&destination).is_some() || *destination == *key {
            continue;
        }
        let Compaction { aggregation, duration, align, .. } = *compaction;
        let options = compaction.options(settings, &series.options().labels);
        if access.logs() {
            log_made(access, &destination, &options);
            let (name, duration, align) = (aggregation.name(), duration.to_string(), align.to_string());
            let words = [name.as_bytes(), duration.as_bytes(), align.as_bytes()];
            let [name, duration, align] = words;
            access.log_instead(&[b"TS.CREATERULE", key, &destination, b"AGGREGATION", name, duration, align]);
        }
        let mut made = Series::new(options);
        made.set_source(Some(key));
        access.put(&destination, made.into_value(), None)?;
        access.changed_by(&destination, 0);
        series.add_rule(Rule::new(&destination, aggregation, duration, align));
    }
    access.put(key, series.into_value(), None)?;
    Ok(is_logged)
}

/// Logs a series with all that it was told.
fn log_made(access: &mut Access<'_>, key: &[u8], options: &Options) {
    let numbers = [options.retention_ms, options.chunk_bytes, options.ignore_time_ms].map(|n| n.to_string());
    let ignore_value = options.ignore_value.to_string();
    let encoding: &[u8] = if options.is_compressed { b"COMPRESSED" } else { b"UNCOMPRESSED" };
    let [retention, chunk_bytes, ignore_time] = numbers.each_ref().map(|number| number.as_bytes());
    let mut words: Vec<&[u8]> = vec![b"TS.CREATE", key, b"RETENTION", retention, b"ENCODING", encoding];
    words.extend([b"CHUNK_SIZE", chunk_bytes, b"IGNORE", ignore_time, ignore_value.as_bytes()]);
    if let Some(policy) = options.policy {
        words.extend([b"DUPLICATE_POLICY", policy.name().as_bytes()]);
    }
    if !options.labels.is_empty() {
        words.push(b"LABELS");
        words.extend(options.labels.iter().flat_map(|(name, value)| [&**name, &**value]));
    }
    access.log_instead(&words);
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
