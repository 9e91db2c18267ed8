//! A string with an allocation of its own, which a snapshot can read while it changes.
//!
//! # Invariant
//!
//! An image ([`Text::share`]) yields the bytes that the text had when it was made. Image and text share one
//! buffer, under a lock: the image reads a chunk of [`CHUNK_BYTES`] at a time, and a writer of the text
//! first copies the chunks that the change touches and that the image has not read. A text that goes away or
//! gets other content leaves the buffer to its image. So a change costs a copy of what it touches, rounded up
//! to chunks, and never one of the whole; no chunk is copied twice; and the text is shared no longer than the
//! image lives.

use std::cell::UnsafeCell;
use std::collections::BTreeMap;
use std::ops::{Deref, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mantissa_memory::allocator;
use parking_lot::Mutex;

/// Bytes that are copied or kept together.
pub(crate) const CHUNK_BYTES: usize = 256 << 10;
/// Bytes up to which a text that grows gets a quarter more than it needs, and an eighth beyond.
const QUARTER_BYTES_MAX: usize = 1 << 20;

/// A string of more than 4 KB. It derefs to its bytes.
pub struct Text(Buffer);

enum Buffer {
    Own(Vec<u8>),
    Shared(Arc<Shared>),
}

/// Bytes that have been kept for images, by all texts.
static KEPT_BYTES: AtomicU64 = AtomicU64::new(0);

/// Bytes that changes of texts have copied so far since an image shared them.
pub(crate) fn kept_bytes() -> u64 {
    KEPT_BYTES.load(Ordering::Relaxed)
}

struct Shared {
    /// Read through `&Text` without the lock, or through the image with it; changed through `&mut Text` with
    /// it.
    bytes: UnsafeCell<Vec<u8>>,
    /// The length of the image. The buffer is never shorter while it is shared.
    len: usize,
    reading: Mutex<Reading>,
}

// SAFETY: the buffer is changed only by the holder of `&mut Text`, which excludes readers through the text,
// with the lock held, which excludes the image.
unsafe impl Sync for Shared {}

/// How far the image has been read.
struct Reading {
    /// The number of the next chunk.
    next: usize,
    /// Chunks from there on that have changed since, as they were.
    kept: BTreeMap<usize, Vec<u8>>,
}

impl Shared {
    fn new(bytes: Vec<u8>) -> Arc<Self> {
        let (len, reading) = (bytes.len(), Reading { next: 0, kept: BTreeMap::new() });
        Arc::new(Shared { bytes: UnsafeCell::new(bytes), len, reading: Mutex::new(reading) })
    }

    /// The place of a chunk in the image.
    fn range(&self, chunk: usize) -> Range<usize> {
        chunk * CHUNK_BYTES..self.len.min((chunk + 1) * CHUNK_BYTES)
    }

    /// Keeps the chunks in which these bytes are, before they change.
    fn keep(&self, reading: &mut Reading, bytes: &[u8], changed: Range<usize>) {
        if changed.is_empty() {
            return;
        }
        let end = changed.end.min(self.len).div_ceil(CHUNK_BYTES);
        for chunk in (changed.start / CHUNK_BYTES).max(reading.next)..end {
            reading.kept.entry(chunk).or_insert_with(|| {
                let range = self.range(chunk);
                KEPT_BYTES.fetch_add(range.len() as u64, Ordering::Relaxed);
                bytes[range].to_vec()
            });
        }
    }
}

impl Text {
    /// Adds bytes to the end.
    pub fn append(&mut self, more: &[u8]) {
        let len = self.len();
        self.change(len..len, |bytes| {
            reserve_len(bytes, len + more.len());
            bytes.extend_from_slice(more);
        });
    }

    /// Makes the text at least `len` bytes long, the new ones zero.
    pub fn grow(&mut self, len: usize) {
        let before = self.len();
        if before == 0 {
            self.0 = Buffer::Own(vec![0; len]);
        } else if len > before {
            self.change(before..before, |bytes| {
                reserve_len(bytes, len);
                bytes.resize(len, 0);
            });
        }
    }

    /// Replaces the bytes from `start` on by these; the text grows if it is shorter.
    pub fn overwrite(&mut self, start: usize, part: &[u8]) {
        let range = start..start + part.len();
        self.grow(range.end);
        self.change(range.clone(), |bytes| bytes[range].copy_from_slice(part));
    }

    /// Replaces all bytes.
    pub fn set(&mut self, text: &[u8]) {
        match &mut self.0 {
            Buffer::Own(bytes) if (text.len()..=2 * text.len()).contains(&bytes.capacity()) => {
                bytes.clear();
                bytes.extend_from_slice(text);
            }
            buffer => *buffer = Buffer::Own(text.to_vec()),
        }
    }

    /// The bytes, to change as one likes. Copies all of them if they are shared.
    pub fn make_mut(&mut self) -> &mut Vec<u8> {
        self.settle();
        if let Buffer::Shared(_) = self.0 {
            self.0 = Buffer::Own(self.to_vec());
        }
        match &mut self.0 {
            Buffer::Own(bytes) => bytes,
            Buffer::Shared(_) => unreachable!("it has just been replaced"),
        }
    }

    /// The capacity in bytes.
    pub(crate) fn capacity(&self) -> usize {
        self.bytes().capacity()
    }

    /// An image of the text as it is now. Copies nothing, unless an earlier image is still being read.
    pub fn share(&mut self) -> TextImage {
        self.settle();
        match &mut self.0 {
            Buffer::Own(bytes) => {
                let shared = Shared::new(std::mem::take(bytes));
                self.0 = Buffer::Shared(Arc::clone(&shared));
                TextImage(shared)
            }
            Buffer::Shared(_) => TextImage(Shared::new(self.to_vec())),
        }
    }

    /// Whether an image of the text is being read.
    pub(crate) fn is_shared(&mut self) -> bool {
        self.settle();
        matches!(self.0, Buffer::Shared(_))
    }

    /// Changes nothing but the bytes of a range of the present text and what comes behind its end.
    fn change(&mut self, changed: Range<usize>, change: impl FnOnce(&mut Vec<u8>)) {
        self.settle();
        match &mut self.0 {
            Buffer::Own(bytes) => change(bytes),
            Buffer::Shared(shared) => {
                let mut reading = shared.reading.lock();
                // SAFETY: `self` is borrowed exclusively and the lock is held; see `Shared::bytes`.
                let bytes = unsafe { &mut *shared.bytes.get() };
                shared.keep(&mut reading, bytes, changed);
                change(bytes);
            }
        }
    }

    /// Takes the buffer back if no image is left.
    fn settle(&mut self) {
        if let Buffer::Shared(shared) = &mut self.0
            && let Some(shared) = Arc::get_mut(shared)
        {
            self.0 = Buffer::Own(std::mem::take(shared.bytes.get_mut()));
        }
    }

    fn bytes(&self) -> &Vec<u8> {
        match &self.0 {
            Buffer::Own(bytes) => bytes,
            // SAFETY: a change needs `&mut self`; others only read.
            Buffer::Shared(shared) => unsafe { &*shared.bytes.get() },
        }
    }
}

impl Deref for Text {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.bytes()
    }
}

impl From<Vec<u8>> for Text {
    fn from(bytes: Vec<u8>) -> Self {
        Text(Buffer::Own(bytes))
    }
}

impl From<Text> for Vec<u8> {
    fn from(mut text: Text) -> Self {
        std::mem::take(text.make_mut())
    }
}

/// Reserves capacity for `len` bytes: the rest of the allocation if that suffices; else a part more than is
/// needed, so that growing byte by byte stays linear without taking twice the memory.
fn reserve_len(bytes: &mut Vec<u8>, len: usize) {
    if len <= bytes.capacity() || bytes.is_empty() {
        return;
    }
    let here = allocator::class_size(bytes.capacity());
    let more = if len <= QUARTER_BYTES_MAX { len / 4 } else { len / 8 };
    let capacity = if len <= here { here } else { allocator::class_size(len + more) };
    bytes.reserve_exact(capacity - bytes.len());
}

/// A text as it was at one instant, read once from its beginning to its end.
pub struct TextImage(Arc<Shared>);

impl TextImage {
    /// The number of bytes, those included that have been read.
    pub fn byte_len(&self) -> usize {
        self.0.len
    }

    /// Appends the next chunk to `out`. False, and nothing appended, at the end.
    pub fn read(&mut self, out: &mut Vec<u8>) -> bool {
        out.reserve(CHUNK_BYTES);
        // A thread that starts a time slice now is hardly preempted while it holds the lock.
        std::thread::yield_now();
        let mut reading = self.0.reading.lock();
        let (chunk, range) = (reading.next, self.0.range(reading.next));
        if range.is_empty() {
            return false;
        }
        reading.next += 1;
        if let Some(kept) = reading.kept.remove(&chunk) {
            drop(reading);
            out.extend_from_slice(&kept);
        } else {
            // SAFETY: the lock is held, so nobody changes the buffer.
            out.extend_from_slice(unsafe { &(&*self.0.bytes.get())[range] });
        }
        true
    }

    /// Appends the first bytes, `bytes_max` of them or fewer, of a chunk that has not been read. Chunks are
    /// counted from 0.
    pub fn sample(&self, chunk: usize, bytes_max: usize, out: &mut Vec<u8>) {
        let reading = self.0.reading.lock();
        let range = self.0.range(chunk);
        let bytes = match reading.kept.get(&chunk) {
            Some(bytes) => bytes,
            None if range.is_empty() => return,
            // SAFETY: the lock is held, so nobody changes the buffer.
            None => unsafe { &(&*self.0.bytes.get())[range] },
        };
        out.extend_from_slice(&bytes[..bytes.len().min(bytes_max)]);
    }

    /// The number of chunks.
    pub fn chunk_count(&self) -> usize {
        self.byte_len().div_ceil(CHUNK_BYTES)
    }
}

impl Drop for TextImage {
    fn drop(&mut self) {
        // A writer of the text that does not yet know that the image is gone has nothing to keep.
        let mut reading = self.0.reading.lock();
        reading.next = usize::MAX;
        reading.kept.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_random::Random;

    fn rest(image: &mut TextImage) -> Vec<u8> {
        let mut bytes = Vec::new();
        while image.read(&mut bytes) {}
        bytes
    }

    /// Random changes between the chunks that images read, against plain copies.
    fn run(seed: u64) {
        let mut random = Random::new(seed);
        let mut below = |bound: usize| random.next() as usize % bound;
        let mut model: Vec<u8> = (0..CHUNK_BYTES * 3 + below(CHUNK_BYTES)).map(|at| at as u8).collect();
        let mut text = Text::from(model.clone());
        for _ in 0..4 {
            let (expected, mut image) = (model.clone(), text.share());
            assert_eq!(image.byte_len(), expected.len());
            let mut read = Vec::new();
            let is_dropped_early = below(4) == 0;
            loop {
                for _ in 0..below(4) {
                    let part = vec![below(256) as u8; 1 + below(CHUNK_BYTES)];
                    match below(8) {
                        0 => {
                            text.append(&part);
                            model.extend_from_slice(&part);
                        }
                        1 => {
                            let len = model.len() + below(100);
                            text.grow(len);
                            model.resize(len, 0);
                        }
                        2 if below(8) == 0 => {
                            text.set(&part);
                            model = part;
                        }
                        3 if below(8) == 0 => {
                            text.make_mut().reverse();
                            model.reverse();
                        }
                        _ => {
                            let start = below(model.len());
                            text.overwrite(start, &part);
                            model.resize(model.len().max(start + part.len()), 0);
                            model[start..start + part.len()].copy_from_slice(&part);
                        }
                    }
                }
                assert!(*text == model[..], "seed {seed}: the text is not what was written");
                let chunk = read.len().div_ceil(CHUNK_BYTES);
                let mut sample = Vec::new();
                image.sample(chunk, 10, &mut sample);
                let there = &expected[read.len().min(expected.len())..];
                assert_eq!(sample, there[..there.len().min(10)], "seed {seed}");
                if !image.read(&mut read) || is_dropped_early {
                    break;
                }
            }
            assert!(expected.starts_with(&read), "seed {seed}: the image is not what it was made of");
            assert!(is_dropped_early || read.len() == expected.len(), "seed {seed}: the image is truncated");
        }
        text.settle();
        drop(text.share());
        text.settle();
        assert!(matches!(text.0, Buffer::Own(_)), "a text without an image has its buffer");
        assert_eq!(Vec::from(text), model);
    }

    #[test]
    fn an_image_is_what_the_text_was() {
        for seed in 0..30 {
            run(seed);
        }
    }

    #[test]
    fn an_image_outlives_its_text() {
        let bytes = vec![7; 2 * CHUNK_BYTES + 1];
        let mut text = Text::from(bytes.clone());
        let (mut image, mut second) = (text.share(), text.share());
        text.append(b"more");
        assert!(image.0.reading.lock().kept.is_empty(), "what is appended changes no chunk");
        let kept_before = kept_bytes();
        text.overwrite(CHUNK_BYTES, b"x");
        assert_eq!(image.0.reading.lock().kept.len(), 1);
        assert!(kept_bytes() - kept_before >= CHUNK_BYTES as u64, "what is kept is counted");
        drop(text);
        assert!(rest(&mut image) == bytes && rest(&mut second) == bytes);
    }

    #[test]
    fn an_image_is_read_by_another_thread_meanwhile() {
        let bytes: Vec<u8> = (0..CHUNK_BYTES * 8).map(|at| (at / 1000) as u8).collect();
        let mut text = Text::from(bytes.clone());
        let mut image = text.share();
        std::thread::scope(|scope| {
            let reader = scope.spawn(move || rest(&mut image));
            let mut random = Random::new(1);
            for _ in 0..2_000 {
                let place = random.next() as usize % bytes.len();
                text.overwrite(place, &[0xee]);
                assert_eq!(text.get(place), Some(&0xee));
            }
            assert!(reader.join().is_ok_and(|read| read == bytes));
        });
    }
}
