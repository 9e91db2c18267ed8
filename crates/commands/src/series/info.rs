//! TS.INFO.

use mantissa_protocol::{Args, Reply};
use mantissa_store::Collection;
use mantissa_store::series::Rule;

use super::{compaction, series};
use crate::access::Access;
use crate::error::{Error, Outcome};
use crate::parse;

/// Fields of a reply without DEBUG.
const FIELDS: usize = 14;

pub(super) fn info(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if !(2..=3).contains(&args.len()) {
        return Err(Error::arity("ts.info"));
    }
    let policy = super::settings(access).policy;
    let (key, series) = (args.at(1), series(access, args.at(1))?);
    let options = series.options();
    let with_chunks = args.get(2).is_some_and(|word| parse::is(word, "DEBUG"));
    let first = series.first_from(series.oldest_kept()).map_or(0, |sample| sample.time);
    let last = series.last().map_or(0, |sample| sample.time);
    reply.map(if with_chunks { FIELDS + 2 } else { FIELDS });
    let integer = |reply: &mut Reply, name: &str, value: u64| {
        reply.simple(name);
        reply.integer(value.cast_signed());
    };
    integer(reply, "totalSamples", series.count(series.oldest_kept(), u64::MAX));
    integer(reply, "memoryUsage", series.memory_usage() as u64);
    integer(reply, "firstTimestamp", first);
    integer(reply, "lastTimestamp", last);
    integer(reply, "retentionTime", options.retention_ms);
    integer(reply, "chunkCount", series.chunk_count() as u64);
    integer(reply, "chunkSize", options.chunk_bytes);
    reply.simple("chunkType");
    reply.simple(if options.is_compressed { "compressed" } else { "uncompressed" });
    reply.simple("duplicatePolicy");
    reply.simple(options.policy.unwrap_or(policy).name());
    reply.simple("labels");
    let labels: Vec<_> = options.labels.iter().map(|(name, value)| (&**name, Some(&**value))).collect();
    super::write_labels(reply, &labels);
    reply.simple("sourceKey");
    match compaction::source_of(access, key, series) {
        Some(source) => reply.bulk(source),
        None => reply.null(),
    }
    reply.simple("rules");
    write_rules(&compaction::rules_of(access, key, series), reply);
    integer(reply, "ignoreMaxTimeDiff", options.ignore_time_ms);
    reply.simple("ignoreMaxValDiff");
    reply.double(options.ignore_value);
    if with_chunks {
        reply.simple("keySelfName");
        reply.bulk(key);
        reply.simple("Chunks");
        write_chunks(series, reply);
    }
    Ok(())
}

fn write_rules(rules: &[&Rule], reply: &mut Reply) {
    let is_map = reply.is_resp3();
    if is_map {
        reply.map(rules.len());
    } else {
        reply.array(rules.len());
    }
    for rule in rules {
        if is_map {
            reply.bulk(&rule.destination);
            reply.array(3);
        } else {
            reply.array(4);
            reply.bulk(&rule.destination);
        }
        reply.integer(rule.duration);
        reply.simple(&rule.aggregation.name().to_ascii_uppercase());
        reply.integer(rule.align.cast_signed());
    }
}

fn write_chunks(series: &mantissa_store::Series, reply: &mut Reply) {
    const CHUNK_FIELDS: usize = 5;
    let mut scratch = Vec::new();
    let list = reply.defer();
    let mut count = 0;
    for piece in series.pieces(0, u64::MAX) {
        let bytes = piece.bytes();
        let samples = piece.read(&mut scratch);
        let bounds =
            [samples.first(), samples.last()].map(|sample| sample.map_or(-1, |s| s.time.cast_signed()));
        reply.map(CHUNK_FIELDS);
        reply.simple("startTimestamp");
        reply.integer(bounds[0]);
        reply.simple("endTimestamp");
        reply.integer(bounds[1]);
        reply.simple("samples");
        reply.integer(samples.len() as i64);
        reply.simple("size");
        reply.integer(bytes as i64);
        reply.simple("bytesPerSample");
        super::text::write_value(reply, bytes as f64 / samples.len().max(1) as f64);
        count += 1;
    }
    reply.finish_array(list, count);
}
