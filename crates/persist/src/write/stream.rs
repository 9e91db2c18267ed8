//! Streams; `load/stream.rs` draws the form.

use super::value::offer;
use super::{Encoder, Spill};
use crate::format::put_length;
use mantissa_store::stream::{Group, Node, Stream, StreamId};

impl Encoder<'_> {
    pub(super) fn stream(&mut self, stream: &Stream, out: &mut Vec<u8>, spill: Spill<'_>) {
        put_length(stream.nodes().len() as u64, out);
        for node in stream.nodes() {
            self.node(node, out);
            spill(out);
        }
        self.after_nodes(stream, stream.first_id(), out, spill);
    }

    /// The same of a stream whose nodes are given up on the way.
    pub(super) fn owned_stream(&mut self, mut stream: Stream, out: &mut Vec<u8>, spill: Spill<'_>) {
        let first_id = stream.first_id();
        put_length(stream.nodes().len() as u64, out);
        while let Some(node) = stream.give_up_first_node() {
            self.node(&node, out);
            drop(node);
            spill(out);
        }
        self.after_nodes(&stream, first_id, out, spill);
    }

    fn node(&mut self, node: &Node, out: &mut Vec<u8>) {
        self.string(&node.first().to_be_bytes(), out);
        self.string(&node.to_listpack(), out);
    }

    fn after_nodes(&mut self, stream: &Stream, first_id: StreamId, out: &mut Vec<u8>, spill: Spill<'_>) {
        put_length(stream.len(), out);
        put_identifier(stream.last_id, out);
        put_identifier(first_id, out);
        put_identifier(stream.max_deleted_id, out);
        put_length(stream.entries_added, out);
        put_length(stream.groups().len() as u64, out);
        for (name, group) in stream.groups() {
            self.string(name, out);
            self.group(group, out, spill);
        }
    }

    fn group(&mut self, group: &Group, out: &mut Vec<u8>, spill: Spill<'_>) {
        put_identifier(group.last_delivered, out);
        put_length(group.entries_read.unwrap_or(u64::MAX), out);
        put_length(group.pending().len() as u64, out);
        for (index, (id, pending)) in group.pending().iter().enumerate() {
            out.extend_from_slice(&id.to_be_bytes());
            out.extend_from_slice(&pending.delivered_at_ms.to_le_bytes());
            put_length(pending.delivery_count, out);
            offer(index, out, spill);
        }
        put_length(group.consumers().len() as u64, out);
        for (_, consumer) in group.consumers() {
            self.string(consumer.name(), out);
            out.extend_from_slice(&consumer.seen_at_ms.to_le_bytes());
            out.extend_from_slice(&consumer.active_at_ms.to_le_bytes());
            put_length(consumer.pending().len() as u64, out);
            for (index, id) in consumer.pending().ids().enumerate() {
                out.extend_from_slice(&id.to_be_bytes());
                offer(index, out, spill);
            }
        }
    }
}

fn put_identifier(id: StreamId, out: &mut Vec<u8>) {
    put_length(id.ms, out);
    put_length(id.seq, out);
}
