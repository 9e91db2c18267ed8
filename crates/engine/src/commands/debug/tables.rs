//! The subcommands of DEBUG that look at how values are stored.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use mantissa_commands::{Error, Outcome, parse};
use mantissa_persist::payload::dump_value;
use mantissa_persist::write::WriteOptions;
use mantissa_protocol::{Args, Reply};
use mantissa_store::{Database, Entry, ValueRef};

use super::{with_any_entry, with_entry};
use crate::client_memory;
use crate::invocation::Invocation;
use crate::session::flag;

/// Bytes of a serialized value that are not the value itself: its type, the version and the checksum.
const PAYLOAD_FRAME_BYTES: usize = 11;

/// DEBUG OBJECT.
pub(super) fn object(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let limits = &invocation.context.active.config;
    let (node_size, depth) = (limits.list_max_listpack_size, limits.list_compress_depth);
    let text = with_any_entry(invocation, args, |entry, now_ms| {
        let payload = dump_value(entry.value(), &WriteOptions::default());
        let mut text = format!(
            "Value at:{:p} refcount:1 encoding:{} serializedlength:{} lru:{} lru_seconds_idle:{}",
            entry.address(),
            entry.encoding(),
            payload.len().saturating_sub(PAYLOAD_FRAME_BYTES),
            entry.clock(),
            mantissa_commands::idle_seconds(entry.clock(), now_ms),
        );
        if let (ValueRef::List(list), "quicklist") = (entry.value(), entry.encoding()) {
            let nodes = list.nodes().count();
            let plain = WriteOptions { compress: false, ..WriteOptions::default() };
            let bytes = dump_value(entry.value(), &plain).len().saturating_sub(PAYLOAD_FRAME_BYTES);
            let _to_memory = write!(
                text,
                " ql_nodes:{nodes} ql_avg_node:{:.2} ql_listpack_max:{node_size} ql_compressed:{} \
                 ql_uncompressed_size:{bytes}",
                list.len() as f64 / nodes.max(1) as f64,
                u8::from(depth != 0),
            );
        }
        text
    })?;
    reply.simple(&text);
    Ok(())
}

/// DEBUG LISTPACK and DEBUG QUICKLIST: nothing is printed here, but whether it could be is told.
pub(super) fn structure(
    invocation: &mut Invocation<'_, '_, '_>,
    args: Args<'_>,
    (encoding, title): (&str, &str),
    reply: &mut Reply,
) -> Outcome {
    let found = with_entry(invocation, args, |entry, _| entry.encoding())?;
    if !found.starts_with(encoding) {
        return Err(Error::new(format!("ERR Not a {encoding} encoded object.")));
    }
    reply.simple(&format!("{title} structure printed on stdout"));
    Ok(())
}

/// DEBUG SDSLEN: the lengths of a key and of its string. Neither has spare capacity here; the sizes are those
/// of what is allocated for both.
pub(super) fn sdslen(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let text = with_any_entry(invocation, args, |entry, _| {
        let value = entry.as_string().filter(|_| entry.string_encoding() != Some("int"))?;
        let mut digits = [0; 20];
        Some(format!(
            "key_sds_len:{}, key_sds_avail:0, key_zmalloc: {}, \
             val_sds_len:{}, val_sds_avail:0, val_zmalloc: 0",
            entry.key().len(),
            entry.memory_usage(),
            value.text(&mut digits).len(),
        ))
    })?;
    reply.simple(&text.ok_or(Error::fixed("ERR Not an sds encoded string."))?);
    Ok(())
}

/// DEBUG HTSTATS: the tables of all shards as if they were one.
pub(super) fn database(
    invocation: &mut Invocation<'_, '_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Outcome {
    let number = mantissa_number::parse_i64(args.at(2)).ok_or(Error::NOT_INTEGER)?;
    let count = invocation.engine().keyspace.database_count();
    let number = usize::try_from(number).ok().filter(|&number| number < count);
    let number = number.ok_or(Error::fixed("ERR Out of range database"))?;
    let (mut slots, mut keys, mut with_expiry) = (0, 0, 0);
    let mut look = |database: &Database| {
        slots += database.bucket_count();
        keys += database.len();
        with_expiry += database.with_expiry_len();
    };
    let all = invocation.engine().keyspace.all_shards();
    invocation.with_access(all, |access| {
        for index in 0..access.shard_count() {
            access.visit_shard(index, |shard| look(&shard.databases[number]));
        }
    });
    let mut text = String::from("[Dictionary HT]\n");
    table(&mut text, slots, keys);
    text.push_str("[Expires HT]\n");
    table(&mut text, 0, with_expiry);
    reply.verbatim("txt", text.as_bytes());
    Ok(())
}

/// DEBUG HTSTATS-KEY.
pub(super) fn value(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let elements = with_entry(invocation, args, |entry: &Entry, _| entry.value().hash_table_len())?;
    let elements = elements.ok_or(Error::fixed(
        "ERR The value stored at the specified key is not represented using an hash table",
    ))?;
    let mut text = String::new();
    table(&mut text, elements.next_power_of_two(), elements);
    reply.verbatim("txt", text.as_bytes());
    Ok(())
}

fn table(text: &mut String, slots: usize, elements: usize) {
    if elements > 0 {
        let slots = slots.max(elements.next_power_of_two());
        let _to_memory = write!(
            text,
            "Hash table 0 stats (main hash table):\n table size: {slots}\n number of elements: {elements}\n"
        );
    }
}

/// Our lists have no such threshold: their nodes split by the limits of lists alone. The argument is checked
/// all the same.
pub(super) fn packed_threshold(args: Args<'_>) -> Outcome {
    const REFUSED: Error =
        Error::fixed("ERR argument must be a memory value bigger than 1 and smaller than 4gb");
    let text = args.at(2).to_ascii_lowercase();
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number = mantissa_number::parse_u64(&text[..digits]).ok_or(REFUSED)?;
    let factor: u64 = match &text[digits..] {
        b"" | b"b" => 1,
        b"k" => 1_000,
        b"kb" => 1 << 10,
        b"m" => 1_000_000,
        b"mb" => 1 << 20,
        b"g" => 1_000_000_000,
        b"gb" => 1 << 30,
        _ => return Err(REFUSED),
    };
    number.checked_mul(factor).filter(|&bytes| bytes < 4 << 30).map(drop).ok_or(REFUSED)
}

/// DEBUG SCRIPT: writes the text of a script, or of all, into the log.
pub(super) fn script(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>) -> Outcome {
    let cache = &invocation.engine().scripting.cache;
    let wanted = args.at(2);
    if parse::is(wanted, "LIST") {
        cache.for_each(|digest, body| {
            crate::notice!("SCRIPT SHA: {digest}\n{}", String::from_utf8_lossy(body))
        });
        return Ok(());
    }
    let mut is_found = false;
    let wanted = String::from_utf8_lossy(wanted).to_lowercase();
    cache.for_each(|digest, body| {
        if digest == wanted {
            is_found = true;
            crate::notice!("SCRIPT SHA: {digest}\n{}", String::from_utf8_lossy(body));
        }
    });
    if is_found { Ok(()) } else { Err(super::super::wrong_subcommand(args)) }
}

/// DEBUG CLIENT-EVICTION: the clients that may be evicted, by powers of two of the bytes that they take.
pub(super) fn client_eviction(invocation: &mut Invocation<'_, '_, '_>, reply: &mut Reply) -> Outcome {
    const POWER_MIN: u32 = 15;
    const BUCKETS: usize = 19;
    if client_memory::limit(&invocation.context.active.config).is_none() {
        return Err(Error::fixed("ERR maxmemory-clients is disabled."));
    }
    let mut buckets = [(0, 0); BUCKETS];
    for session in invocation.engine().clients.read().values().filter(|session| !session.has(flag::NO_EVICT))
    {
        let bytes = session.memory_bytes.load(Ordering::Relaxed);
        let power = bytes.max(1).ilog2().max(POWER_MIN - 1) - (POWER_MIN - 1);
        let bucket = &mut buckets[(power as usize).min(BUCKETS - 1)];
        *bucket = (bucket.0 + bytes, bucket.1 + 1);
    }
    let mut text = String::new();
    for (index, (bytes, clients)) in buckets.into_iter().enumerate() {
        let bounds = (1_u64 << (POWER_MIN + index as u32 - 1), (1_u64 << (POWER_MIN + index as u32)) - 1);
        let range = match index {
            0 => format!("{:10} - {:10}", 0, bounds.1),
            index if index == BUCKETS - 1 => format!("{:10}+            ", bounds.0),
            _ => format!("{:10} - {:10}", bounds.0, bounds.1),
        };
        let _to_memory = writeln!(text, "bucket {range}: tot-mem: {bytes:10}, clients: {clients}");
    }
    reply.bulk(text.as_bytes());
    Ok(())
}
