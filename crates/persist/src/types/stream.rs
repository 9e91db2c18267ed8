//! Streams as files hold them.
//!
//! ```text
//! nodes:     count, { first id (string of 16 bytes), listpack (string) }
//! numbers:   length, last id, [ first id, largest deleted id, entries added ]      [..]: from form 2
//! groups:    count, { name, last delivered id, [ entries read ], pending, consumers }
//! pending:   count, { id (16 bytes), delivered at (8 bytes), delivery count }
//! consumers: count, { name, seen at, [[ active at ]], count, ids (16 bytes) }      [[..]]: from form 3
//!            from form 5: count, ids (16 bytes) of pending entries without a consumer
//! producers: from form 4: seconds, entries kept, count, { name, count, { name, id } }, two numbers
//! ```
//!
//! Forms 4 and 5 are those of Redis 8.6 and 8.8. A stream is written in form 4 if it has had producers, and
//! in form 5 if it has pending entries that consumers gave back.

use super::Codec;
use crate::aof::Rebuilder;
use crate::digest::Mixer;
use crate::format::{put_length, value_type};
use crate::load::{Input, Stop, skip_each, skip_length, skip_string, skip_strings};
use crate::source::{LoadError, Source};
use crate::write::{Encoder, Spill, Target, offer};
use mantissa_number::write_i64;
use mantissa_store::EncodingLimits;
use mantissa_store::stream::{
    ConsumerId, Group, NUMBER_TEXT_MAX, Node, Pending, ProducerLimits, Producers, Stream, StreamId,
    StreamLevel,
};
use std::collections::BTreeMap;
use std::io::{Read, Write};

/// Bytes of an identifier where it is no pair of lengths.
const ID_BYTES: u64 = 16;
/// Says "unknown" in the place of a count of entries read.
const ENTRIES_READ_UNKNOWN: u64 = u64::MAX;

/// What a pending entry is until its consumer is known.
type Unclaimed = BTreeMap<StreamId, (i64, u64)>;

impl Codec for Stream {
    const FORMS: &'static [u8] = &[
        value_type::STREAM_LISTPACKS,
        value_type::STREAM_LISTPACKS_2,
        value_type::STREAM_LISTPACKS_3,
        value_type::STREAM_LISTPACKS_4,
        value_type::STREAM_LISTPACKS_5,
    ];
    const DIGEST_NUMBER: u32 = 6;
    const MAY_BE_EMPTY: bool = true;

    fn form(&self, target: Target) -> Option<u8> {
        let later = match self.level() {
            StreamLevel::Usual => None,
            StreamLevel::Producers => Some(value_type::STREAM_LISTPACKS_4),
            StreamLevel::GivenBack => Some(value_type::STREAM_LISTPACKS_5),
        };
        if later.is_some() {
            return later.filter(|_| matches!(target, Target::File | Target::Replica));
        }
        // The second form takes consumers to have been active when they were seen.
        let mut consumers = self.groups().flat_map(|(_, group)| group.consumers());
        let is_second =
            target != Target::File && consumers.all(|(_, one)| one.active_at_ms == one.seen_at_ms);
        Some(if is_second { value_type::STREAM_LISTPACKS_2 } else { value_type::STREAM_LISTPACKS_3 })
    }

    fn write(&self, form: u8, encoder: &mut Encoder<'_>, out: &mut Vec<u8>, spill: Spill<'_>) {
        put_length(self.nodes().len() as u64, out);
        for node in self.nodes() {
            write_node(node, encoder, out);
            if !spill(out) {
                return;
            }
        }
        write_after_nodes(self, form, self.first_id(), encoder, out, spill);
    }

    fn write_owned(mut self, form: u8, encoder: &mut Encoder<'_>, out: &mut Vec<u8>, spill: Spill<'_>) {
        let first_id = self.first_id();
        put_length(self.nodes().len() as u64, out);
        while let Some(node) = self.give_up_first_node() {
            write_node(&node, encoder, out);
            drop(node);
            spill(out);
        }
        write_after_nodes(&self, form, first_id, encoder, out, spill);
    }

    fn read<R: Read>(source: &mut Source<R>, form: u8, _: &EncodingLimits) -> Result<Self, LoadError> {
        let offset = source.offset();
        let mut stream = Stream::new();
        let node_count = source.length()?;
        for _ in 0..node_count {
            let offset = source.offset();
            let Ok(first) = <[u8; 16]>::try_from(source.string()?) else {
                return source.error(offset, "stream node's key is not the size of an identifier");
            };
            let offset = source.offset();
            let node = Node::from_listpack(StreamId::from_be_bytes(first), source.string()?);
            if let Err(error) = node.and_then(|node| stream.push_node(node)) {
                return source.error(offset, error.to_string());
            }
        }
        let length = source.length()?;
        if length != stream.len() {
            return source.error(offset, "stream's length differs from its entries");
        }
        stream.last_id = identifier(source)?;
        if stream
            .range_reversed(StreamId::MIN, StreamId::MAX)
            .next()
            .is_some_and(|entry| entry.id > stream.last_id)
        {
            return source.error(offset, "stream has entries above its last identifier");
        }
        if form >= value_type::STREAM_LISTPACKS_2 {
            identifier(source)?;
            stream.max_deleted_id = identifier(source)?;
            stream.entries_added = source.length()?;
        } else {
            stream.entries_added = length;
        }
        let group_count = source.length()?;
        for _ in 0..group_count {
            read_group(source, form, &mut stream)?;
        }
        if form >= value_type::STREAM_LISTPACKS_4 {
            let producers = read_producers(source)?;
            if !producers.is_usual() {
                stream.set_producers(producers);
            }
        }
        Ok(stream)
    }

    fn skip(input: &mut impl Input, form: u8) -> Result<(), Stop> {
        let is_counted = form >= value_type::STREAM_LISTPACKS_2;
        skip_each(input, |input| skip_strings(input, 2))?;
        skip_lengths(input, if is_counted { 8 } else { 3 })?;
        skip_each(input, |input| {
            skip_string(input)?;
            skip_lengths(input, if is_counted { 3 } else { 2 })?;
            skip_each(input, |input| {
                input.skip(ID_BYTES + 8)?;
                skip_lengths(input, 1)
            })?;
            skip_each(input, |input| {
                skip_string(input)?;
                input.skip(if form >= value_type::STREAM_LISTPACKS_3 { 16 } else { 8 })?;
                skip_ids(input)
            })?;
            if form >= value_type::STREAM_LISTPACKS_5 { skip_ids(input) } else { Ok(()) }
        })?;
        if form < value_type::STREAM_LISTPACKS_4 {
            return Ok(());
        }
        skip_lengths(input, 2)?;
        skip_each(input, |input| {
            skip_string(input)?;
            skip_each(input, |input| {
                skip_string(input)?;
                skip_lengths(input, 2)
            })
        })?;
        skip_lengths(input, 2)
    }

    fn rebuild<W: Write>(&self, key: &[u8], to: &mut Rebuilder<W>) -> Result<(), String> {
        let last_id = self.last_id.to_string();
        for entry in self.entries() {
            let id = entry.id.to_string();
            let mut words = vec![b"XADD".to_vec(), key.to_vec(), id.into_bytes()];
            entry.fields.for_each(|(name, value)| words.extend([name.to_vec(), value.to_vec()]));
            to.command(&words)?;
        }
        if self.is_empty() {
            // An entry that is trimmed at once leaves an empty stream.
            to.command(&[b"XADD", key, b"MAXLEN", b"0", b"0-1", b"x", b"y"])?;
        }
        let (added, deleted) = (self.entries_added.to_string(), self.max_deleted_id.to_string());
        let counters = [b"ENTRIESADDED", added.as_bytes(), b"MAXDELETEDID", deleted.as_bytes()];
        to.command(&[&[b"XSETID", key, last_id.as_bytes()], &counters[..]].concat())?;
        self.groups().try_for_each(|(name, group)| rebuild_group(key, name, group, to))?;
        self.producers().map_or(Ok(()), |producers| rebuild_producers(key, producers, to))
    }

    fn digest(&self, digest: &mut Mixer) {
        for entry in self.entries() {
            digest.mix(format!("{}.{}", entry.id.ms, entry.id.seq).as_bytes());
            for (field, value) in entry.fields {
                digest.mix(field.bytes(&mut [0; NUMBER_TEXT_MAX]));
                digest.mix(value.bytes(&mut [0; NUMBER_TEXT_MAX]));
            }
        }
    }
}

fn write_node(node: &Node, encoder: &mut Encoder<'_>, out: &mut Vec<u8>) {
    encoder.string(&node.first().to_be_bytes(), out);
    encoder.string(&node.to_listpack(), out);
}

fn write_after_nodes(
    stream: &Stream,
    form: u8,
    first_id: StreamId,
    encoder: &mut Encoder<'_>,
    out: &mut Vec<u8>,
    spill: Spill<'_>,
) {
    put_length(stream.len(), out);
    put_identifier(stream.last_id, out);
    put_identifier(first_id, out);
    put_identifier(stream.max_deleted_id, out);
    put_length(stream.entries_added, out);
    put_length(stream.groups().len() as u64, out);
    for (name, group) in stream.groups() {
        encoder.string(name, out);
        write_group(group, form, encoder, out, spill);
    }
    if form >= value_type::STREAM_LISTPACKS_4 {
        match stream.producers() {
            Some(producers) => write_producers(producers, encoder, out, spill),
            None => write_producers(&Producers::new(ProducerLimits::USUAL), encoder, out, spill),
        }
    }
}

fn write_producers(producers: &Producers, encoder: &mut Encoder<'_>, out: &mut Vec<u8>, spill: Spill<'_>) {
    let limits = producers.limits();
    put_length(limits.duration_s.into(), out);
    put_length(limits.names_max.into(), out);
    put_length(producers.iter().len() as u64, out);
    let mut index = 0;
    for producer in producers.iter() {
        encoder.string(producer.name(), out);
        put_length(producer.sent().len() as u64, out);
        for sent in producer.sent() {
            encoder.string(&sent.name, out);
            put_identifier(sent.id, out);
            offer(index, out, spill);
            index += 1;
        }
    }
    put_length(producers.added, out);
    put_length(producers.duplicates, out);
}

fn write_group(group: &Group, form: u8, encoder: &mut Encoder<'_>, out: &mut Vec<u8>, spill: Spill<'_>) {
    put_identifier(group.last_delivered, out);
    put_length(group.entries_read.unwrap_or(u64::MAX), out);
    put_length(group.pending().len() as u64, out);
    for (index, (id, pending)) in group.pending().iter().enumerate() {
        out.extend_from_slice(&id.to_be_bytes());
        out.extend_from_slice(&pending.last_delivery_ms().to_le_bytes());
        put_length(pending.delivery_count, out);
        offer(index, out, spill);
    }
    put_length(group.consumers().len() as u64, out);
    for (_, consumer) in group.consumers() {
        encoder.string(consumer.name(), out);
        out.extend_from_slice(&consumer.seen_at_ms.to_le_bytes());
        if form >= value_type::STREAM_LISTPACKS_3 {
            out.extend_from_slice(&consumer.active_at_ms.to_le_bytes());
        }
        put_length(consumer.pending().len() as u64, out);
        for (index, id) in consumer.pending().ids().enumerate() {
            out.extend_from_slice(&id.to_be_bytes());
            offer(index, out, spill);
        }
    }
    if form >= value_type::STREAM_LISTPACKS_5 {
        put_length(group.given_back_len() as u64, out);
        for (index, (id, _)) in group.given_back().into_iter().enumerate() {
            out.extend_from_slice(&id.to_be_bytes());
            offer(index, out, spill);
        }
    }
}

fn put_identifier(id: StreamId, out: &mut Vec<u8>) {
    put_length(id.ms, out);
    put_length(id.seq, out);
}

fn identifier<R: Read>(source: &mut Source<R>) -> Result<StreamId, LoadError> {
    Ok(StreamId { ms: source.length()?, seq: source.length()? })
}

fn read_group<R: Read>(source: &mut Source<R>, form: u8, stream: &mut Stream) -> Result<(), LoadError> {
    let offset = source.offset();
    let name = source.string_owned()?;
    let last_delivered = identifier(source)?;
    let entries_read = if form >= value_type::STREAM_LISTPACKS_2 {
        Some(source.length()?).filter(|&count| count != ENTRIES_READ_UNKNOWN)
    } else {
        stream.extent().entries_read_at(last_delivered)
    };
    let mut group = Group::new(last_delivered, entries_read);
    let mut unclaimed = Unclaimed::new();
    let pending_count = source.length()?;
    for _ in 0..pending_count {
        let offset = source.offset();
        let id = StreamId::from_be_bytes(source.array()?);
        let delivered_at_ms = source.milliseconds()?;
        if unclaimed.insert(id, (delivered_at_ms, source.length()?)).is_some() {
            return source.error(offset, "stream group has a pending entry twice");
        }
    }
    let consumer_count = source.length()?;
    for _ in 0..consumer_count {
        read_consumer(source, form, &mut group, &mut unclaimed)?;
    }
    if form >= value_type::STREAM_LISTPACKS_5 {
        read_given_back(source, &mut group, &mut unclaimed)?;
    }
    if !unclaimed.is_empty() {
        return source.error(offset, "stream group has a pending entry without a consumer");
    }
    if !stream.add_group(&name, group) {
        return source.error(offset, "stream has two groups of one name");
    }
    Ok(())
}

fn read_consumer<R: Read>(
    source: &mut Source<R>,
    form: u8,
    group: &mut Group,
    unclaimed: &mut Unclaimed,
) -> Result<(), LoadError> {
    let offset = source.offset();
    let name = source.string_owned()?;
    let seen_at_ms = source.milliseconds()?;
    let active_at_ms =
        if form >= value_type::STREAM_LISTPACKS_3 { source.milliseconds()? } else { seen_at_ms };
    let Some(consumer) = group.add_consumer(&name, seen_at_ms, active_at_ms) else {
        return source.error(offset, "stream group has two consumers of one name");
    };
    read_held(source, consumer, group, unclaimed)
}

/// Reads the pending entries that have no consumer.
fn read_given_back<R: Read>(
    source: &mut Source<R>,
    group: &mut Group,
    unclaimed: &mut Unclaimed,
) -> Result<(), LoadError> {
    let count = source.length()?;
    for _ in 0..count {
        let offset = source.offset();
        let id = StreamId::from_be_bytes(source.array()?);
        let Some((_, delivery_count)) = unclaimed.remove(&id) else {
            return source.error(offset, "stream group has an entry without a consumer that is not pending");
        };
        group.give_back(id, delivery_count);
    }
    Ok(())
}

/// Reads the entries that a consumer holds.
fn read_held<R: Read>(
    source: &mut Source<R>,
    consumer: ConsumerId,
    group: &mut Group,
    unclaimed: &mut Unclaimed,
) -> Result<(), LoadError> {
    let held_count = source.length()?;
    for _ in 0..held_count {
        let offset = source.offset();
        let id = StreamId::from_be_bytes(source.array()?);
        let Some((delivered_at_ms, delivery_count)) = unclaimed.remove(&id) else {
            return source.error(offset, "stream consumer has an entry that is not pending, or not its own");
        };
        group.assign(id, Pending { consumer, delivered_at_ms, delivery_count });
    }
    Ok(())
}

/// Reads what producers sent once only.
fn read_producers<R: Read>(source: &mut Source<R>) -> Result<Producers, LoadError> {
    let offset = source.offset();
    let limits = (u32::try_from(source.length()?), u32::try_from(source.length()?));
    let (Ok(duration_s), Ok(names_max)) = limits else {
        return source.error(offset, "stream has limits for producers that are out of range");
    };
    let mut producers = Producers::new(ProducerLimits { duration_s, names_max });
    let producer_count = source.length()?;
    for _ in 0..producer_count {
        let offset = source.offset();
        let producer = source.string_owned()?;
        // One that has sent nothing is left by an XADD that Redis refused.
        let sent_count = source.length()?;
        for _ in 0..sent_count {
            let name = source.string_owned()?;
            if !producers.load(&producer, &name, identifier(source)?) {
                return source.error(offset, "stream has a producer that used a name twice");
            }
        }
    }
    (producers.added, producers.duplicates) = (source.length()?, source.length()?);
    Ok(producers)
}

/// Steps over identifiers.
fn skip_ids(input: &mut impl Input) -> Result<(), Stop> {
    let count = skip_length(input)?;
    input.skip(count.checked_mul(ID_BYTES).ok_or(Stop::Unknown)?)
}

fn skip_lengths(input: &mut impl Input, count: usize) -> Result<(), Stop> {
    (0..count).try_for_each(|_| skip_length(input).map(drop))
}

/// Writes the commands that make a group.
fn rebuild_group<W: Write>(
    key: &[u8],
    name: &[u8],
    group: &Group,
    to: &mut Rebuilder<W>,
) -> Result<(), String> {
    let last = group.last_delivered.to_string();
    let read = group.entries_read.map_or_else(|| "-1".to_owned(), |read| read.to_string());
    let counters: [&[u8]; 2] = [b"ENTRIESREAD", read.as_bytes()];
    to.command(&[&[b"XGROUP", b"CREATE", key, name, last.as_bytes()], &counters[..]].concat())?;
    for (_, consumer) in group.consumers() {
        to.command(&[&b"XGROUP"[..], b"CREATECONSUMER", key, name, consumer.name()])?;
        for id in consumer.pending().ids() {
            let Some(pending) = group.pending().get(id) else { continue };
            let (id, mut time) = (id.to_string(), Vec::new());
            write_i64(&mut time, pending.delivered_at_ms);
            // XCLAIM takes no count that Redis shows as negative.
            let count = i64::try_from(pending.delivery_count).unwrap_or(0).to_string();
            let claim = [b"XCLAIM", key, name, consumer.name(), b"0", id.as_bytes()];
            let how: [&[u8]; 6] = [b"TIME", &time, b"RETRYCOUNT", count.as_bytes(), b"JUSTID", b"FORCE"];
            to.command(&[&claim[..], &how[..]].concat())?;
        }
    }
    for (id, pending) in group.given_back() {
        let count = i64::try_from(pending.delivery_count).unwrap_or(0).to_string();
        let (id, count) = (id.to_string(), count.as_bytes());
        let words: [&[u8]; 10] =
            [b"XNACK", key, name, b"FAIL", b"IDS", b"1", id.as_bytes(), b"RETRYCOUNT", count, b"FORCE"];
        to.command(&words)?;
    }
    Ok(())
}

/// Writes the commands that tell a stream what producers have sent. They have no place for its counters.
fn rebuild_producers<W: Write>(
    key: &[u8],
    producers: &Producers,
    to: &mut Rebuilder<W>,
) -> Result<(), String> {
    let limits = producers.limits();
    let (duration, most) = (limits.duration_s.to_string(), limits.names_max.to_string());
    let words = [b"XCFGSET", key, b"IDMP-DURATION", duration.as_bytes(), b"IDMP-MAXSIZE", most.as_bytes()];
    to.command(&words)?;
    for producer in producers.iter() {
        for sent in producer.sent() {
            let id = sent.id.to_string();
            to.command(&[b"XIDMPRECORD", key, producer.name(), &sent.name, id.as_bytes()])?;
        }
    }
    Ok(())
}

#[cfg(test)]
impl super::tests::Sample for Stream {
    fn with_elements(count: usize) -> Self {
        use mantissa_store::stream::NodeLimits;

        let mut stream = Stream::new();
        let id = |number: usize| StreamId { ms: number as u64 + 1, seq: 0 };
        let mut group = Group::new(id(count), None);
        let consumer = group.add_consumer(b"consumer", 1, 2).expect("it is new");
        for number in 0..count {
            let limits = NodeLimits { bytes_max: 4096, entries_max: 100 };
            stream.append(id(number), &[(&super::tests::element(number), b"v")], limits);
            group.assign(id(number), Pending { consumer, delivered_at_ms: 3, delivery_count: 4 });
        }
        stream.add_group(b"group", group);
        stream
    }

    fn disturb(&mut self) {
        let first = self.first_id();
        self.delete(first);
        let last = self.last_id;
        self.group_mut(b"group").map(|group| group.acknowledge(last));
    }
}
