//! Bytes on their way out: the send queue of a connection, and the pool of buffers that the queues draw on.
//!
//! A queue keeps the buffers it was given, in order, and hands them to the kernel as they are. Small ones
//! that have to wait are joined, so that a slow reader of many short messages does not hold a buffer for
//! each. Buffers that the kernel is reading (`pinned`) are never touched before it is done.

use std::collections::VecDeque;
use std::io::IoSlice;

/// Buffers up to this capacity are kept for reuse.
const POOLED_CAPACITY_MAX: usize = 16 * 1024;
/// The capacity of a fresh buffer.
const FRESH_CAPACITY: usize = 2 * 1024;
/// The bytes that the pool of a driver may hold.
const POOL_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Only shorter sends are joined with the one before.
const JOINED_BYTES_MAX: usize = 16 * 1024;
/// Joining makes a buffer no longer than this.
const JOINED_TOTAL_MAX: usize = 64 * 1024;

/// Buffers at rest, the one used last on top, where it is still in the cache.
pub(crate) struct BufferPool {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

impl BufferPool {
    pub(crate) fn new() -> Self {
        BufferPool { buffers: Vec::new(), bytes: 0 }
    }

    pub(crate) fn take(&mut self) -> Vec<u8> {
        match self.buffers.pop() {
            Some(buffer) => {
                self.bytes -= buffer.capacity();
                buffer
            }
            None => Vec::with_capacity(FRESH_CAPACITY),
        }
    }

    pub(crate) fn put(&mut self, mut buffer: Vec<u8>) {
        let capacity = buffer.capacity();
        if capacity != 0 && capacity <= POOLED_CAPACITY_MAX && self.bytes + capacity <= POOL_BYTES_MAX {
            buffer.clear();
            self.bytes += capacity;
            self.buffers.push(buffer);
        }
    }
}

/// What a connection has yet to send.
#[derive(Default)]
pub(crate) struct Outgoing {
    /// The front buffer; empty when the queue is.
    first: Vec<u8>,
    /// How much of `first` has gone.
    first_sent: usize,
    /// The buffers behind it.
    #[allow(clippy::box_collection, reason = "rarely there, and 8 bytes in every connection instead of 32")]
    rest: Option<Box<VecDeque<Vec<u8>>>>,
    unsent: usize,
    /// The number of buffers, from the front, that the kernel is reading.
    pinned: u32,
}

impl Outgoing {
    pub(crate) fn is_empty(&self) -> bool {
        self.unsent == 0
    }

    /// Bytes that the kernel has not taken yet.
    pub(crate) fn unsent(&self) -> usize {
        self.unsent
    }

    fn count(&self) -> usize {
        if self.unsent == 0 { 0 } else { 1 + self.rest.as_ref().map_or(0, |rest| rest.len()) }
    }

    /// Queues bytes of which the first `sent` have gone: none unless the queue is empty.
    pub(crate) fn push_from(&mut self, bytes: Vec<u8>, sent: usize, pool: &mut BufferPool) {
        if bytes.len() <= sent {
            return pool.put(bytes);
        }
        if self.unsent == 0 {
            debug_assert!(self.first.is_empty() && self.pinned == 0);
            self.unsent = bytes.len() - sent;
            self.first_sent = sent;
            self.first = bytes;
            return;
        }
        debug_assert_eq!(sent, 0);
        self.unsent += bytes.len();
        let tail_is_pinned = self.count() == self.pinned as usize;
        if !tail_is_pinned && bytes.len() <= JOINED_BYTES_MAX {
            let tail = match self.rest.as_mut().and_then(|rest| rest.back_mut()) {
                Some(tail) => tail,
                None => &mut self.first,
            };
            if tail.len() + bytes.len() <= JOINED_TOTAL_MAX {
                tail.extend_from_slice(&bytes);
                return pool.put(bytes);
            }
        }
        self.rest.get_or_insert_default().push_back(bytes);
    }

    /// The bytes to send next, if one buffer holds all there is.
    pub(crate) fn single(&self) -> Option<&[u8]> {
        match &self.rest {
            Some(rest) if !rest.is_empty() => None,
            _ => self.first.get(self.first_sent..),
        }
    }

    /// The first buffers to send, as many as fit in `parts`. Returns their number.
    pub(crate) fn gather<'a>(&'a self, parts: &mut [IoSlice<'a>]) -> usize {
        let rest = self.rest.iter().flat_map(|rest| rest.iter()).map(Vec::as_slice);
        let first = self.first.get(self.first_sent..).unwrap_or_default();
        let mut count = 0;
        for (part, bytes) in parts.iter_mut().zip(std::iter::once(first).chain(rest)) {
            *part = IoSlice::new(bytes);
            count += 1;
        }
        count
    }

    /// Marks the first `count` buffers as being read by the kernel.
    pub(crate) fn pin(&mut self, count: usize) {
        debug_assert!(self.pinned == 0 && count <= self.count());
        self.pinned = count as u32;
    }

    /// The kernel is done reading, and took `sent` bytes.
    pub(crate) fn advance(&mut self, sent: usize, pool: &mut BufferPool) {
        debug_assert!(sent <= self.unsent);
        self.pinned = 0;
        self.unsent -= sent;
        let mut left = sent;
        while left > 0 {
            let front = self.first.len() - self.first_sent;
            if left < front {
                self.first_sent += left;
                return;
            }
            left -= front;
            self.first_sent = 0;
            let next = self.rest.as_mut().and_then(|rest| rest.pop_front()).unwrap_or_default();
            pool.put(std::mem::replace(&mut self.first, next));
        }
        if self.unsent == 0 {
            self.rest = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(queue: &Outgoing) -> Vec<u8> {
        let mut parts = [IoSlice::new(&[]); 64];
        let count = queue.gather(&mut parts);
        parts[..count].iter().flat_map(|part| part.iter().copied()).collect()
    }

    #[test]
    fn bytes_leave_in_order_whatever_the_kernel_takes() {
        let mut pool = BufferPool::new();
        for step in [1, 7, 4096, 100_000] {
            let mut queue = Outgoing::default();
            let mut expected = Vec::new();
            for number in 0..40usize {
                let bytes = vec![number as u8; number * number * 20];
                expected.extend_from_slice(&bytes);
                queue.push_from(bytes, 0, &mut pool);
            }
            assert_eq!(queue.unsent(), expected.len());
            let mut sent = 0;
            while !queue.is_empty() {
                let front = contents(&queue);
                assert_eq!(front[..], expected[sent..sent + front.len()]);
                let took = step.min(front.len()).max(expected.len() / 500);
                let took = took.min(front.len());
                queue.advance(took, &mut pool);
                sent += took;
            }
            assert_eq!(sent, expected.len());
        }
    }

    #[test]
    fn a_pinned_buffer_is_not_appended_to() {
        let mut pool = BufferPool::new();
        let mut queue = Outgoing::default();
        queue.push_from(b"one".to_vec(), 0, &mut pool);
        queue.pin(1);
        queue.push_from(b"two".to_vec(), 0, &mut pool);
        queue.push_from(b"three".to_vec(), 0, &mut pool);
        assert_eq!(queue.count(), 2, "the third joins the second");
        assert!(queue.single().is_none());
        queue.advance(3, &mut pool);
        assert_eq!(queue.single(), Some(&b"twothree"[..]));
        queue.advance(8, &mut pool);
        assert!(queue.is_empty() && queue.rest.is_none());
    }

    #[test]
    fn the_pool_is_bounded() {
        let mut pool = BufferPool::new();
        pool.put(Vec::with_capacity(POOLED_CAPACITY_MAX + 1));
        assert_eq!(pool.bytes, 0);
        for _ in 0..10_000 {
            pool.put(Vec::with_capacity(4096));
        }
        assert!(pool.bytes <= POOL_BYTES_MAX);
        assert_eq!(pool.take().len(), 0);
    }
}
