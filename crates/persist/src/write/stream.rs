//! Streams; `load/stream.rs` draws the form.

use super::Encoder;
use crate::format::put_length;
use mantissa_store::stream::{Group, Stream, StreamId};

impl Encoder<'_> {
    pub(super) fn stream(&mut self, stream: &Stream, out: &mut Vec<u8>) {
        put_length(stream.nodes().len() as u64, out);
        for node in stream.nodes() {
            self.string(&node.first().to_be_bytes(), out);
            self.string(&node.to_listpack(), out);
        }
        put_length(stream.len(), out);
        put_identifier(stream.last_id, out);
        put_identifier(stream.first_id(), out);
        put_identifier(stream.max_deleted_id, out);
        put_length(stream.entries_added, out);
        put_length(stream.groups().len() as u64, out);
        for (name, group) in stream.groups() {
            self.string(name, out);
            self.group(group, out);
        }
    }

    fn group(&mut self, group: &Group, out: &mut Vec<u8>) {
        put_identifier(group.last_delivered, out);
        put_length(group.entries_read.unwrap_or(u64::MAX), out);
        put_length(group.pending().len() as u64, out);
        for (id, pending) in group.pending() {
            out.extend_from_slice(&id.to_be_bytes());
            out.extend_from_slice(&pending.delivered_at_ms.to_le_bytes());
            put_length(pending.delivery_count, out);
        }
        put_length(group.consumers().len() as u64, out);
        for (_, consumer) in group.consumers() {
            self.string(consumer.name(), out);
            out.extend_from_slice(&consumer.seen_at_ms.to_le_bytes());
            out.extend_from_slice(&consumer.active_at_ms.to_le_bytes());
            put_length(consumer.pending().len() as u64, out);
            for id in consumer.pending() {
                out.extend_from_slice(&id.to_be_bytes());
            }
        }
    }
}

fn put_identifier(id: StreamId, out: &mut Vec<u8>) {
    put_length(id.ms, out);
    put_length(id.seq, out);
}
