//! The way of encoded bytes from a saver to the thread that writes.

use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;

use parking_lot::MutexGuard;

use super::Job;

/// Bytes from which on a chunk is sent.
const CHUNK_BYTES: usize = 1 << 20;
/// Bytes up to which a chunk grows while another saver sends the chunks of a large value.
const CHUNK_BYTES_MAX: usize = 16 << 20;
/// Bytes up to which a chunk is reused.
const CHUNK_BYTES_KEPT: usize = 2 * CHUNK_BYTES;

/// Encoded bytes.
pub(super) type Chunk = Vec<u8>;

/// Where savers send what they have encoded.
pub(super) struct Outlet<'j, 'a> {
    job: &'j Job<'a>,
    sender: SyncSender<Chunk>,
    /// Held while the chunks of one value are sent.
    stream: Option<MutexGuard<'j, ()>>,
}

impl<'j, 'a> Outlet<'j, 'a> {
    pub fn new(job: &'j Job<'a>, sender: SyncSender<Chunk>) -> Self {
        Outlet { job, sender, stream: None }
    }

    /// Sends a full chunk between two entries. Does not while another saver sends a large value, unless the
    /// chunk has become large. True if it was sent: the next entry begins a new chunk.
    pub fn offer(&mut self, bytes: &mut Vec<u8>) -> bool {
        if bytes.len() < CHUNK_BYTES {
            return false;
        }
        let stream = match bytes.len() < CHUNK_BYTES_MAX {
            true => self.job.stream.try_lock(),
            false => Some(self.job.stream.lock()),
        };
        let Some(_stream) = stream else { return false };
        self.send(bytes);
        true
    }

    /// Sends a chunk of a value. Until [`Outlet::end_value`] no other saver sends.
    pub fn spill(&mut self, bytes: &mut Vec<u8>) {
        if bytes.len() >= CHUNK_BYTES {
            if self.stream.is_none() {
                self.stream = Some(self.job.stream.lock());
            }
            self.send(bytes);
        }
    }

    /// Sends the rest of a value of which chunks have been sent. False if none have. After true the next
    /// entry begins a new chunk.
    pub fn end_value(&mut self, bytes: &mut Vec<u8>) -> bool {
        let is_streamed = self.stream.is_some();
        if is_streamed {
            self.send(bytes);
            self.stream = None;
        }
        is_streamed
    }

    /// Sends what is left at the end.
    pub fn finish(&mut self, bytes: &mut Vec<u8>) {
        if !bytes.is_empty() {
            let _stream = self.job.stream.lock();
            self.send(bytes);
        }
    }

    fn send(&self, bytes: &mut Vec<u8>) {
        let mut spare = self.job.spare.lock().pop().unwrap_or_default();
        if spare.capacity() > CHUNK_BYTES_KEPT || spare.capacity() < CHUNK_BYTES {
            spare = Vec::with_capacity(CHUNK_BYTES + CHUNK_BYTES / 4);
        }
        let bytes = std::mem::replace(bytes, spare);
        if self.job.failed.load(Ordering::Relaxed) {
            return;
        }
        // An error says that writing has failed, which that thread tells.
        let _ = self.sender.send(bytes);
    }
}
