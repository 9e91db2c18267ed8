//! Snapshots: every entry as it was at one instant, while commands go on changing them.
//!
//! # Guarantee
//!
//! [`crate::LockedShards::begin_snapshot`] is called with all shards locked: that instant is the cut.
//! From then on each entry of the cut is delivered exactly once, with the key, value and expiry that it had
//! at the cut and the number that its database had then, whatever is done to the keyspace meanwhile: changes,
//! removals, renames, growing and shrinking tables, flushed and swapped databases. Entries that came later
//! are never delivered. (The access clock alone may be a later one.)
//!
//! # Mechanism
//!
//! Every entry carries one bit, its mark, in the pointer that the table holds (no cache miss more), and every
//! [`Database`] one bit, its epoch. While no snapshot is under way all marks equal the epoch. The cut flips
//! the epoch of each database that is not empty: no entry is touched, and yet all of them differ now. From
//! then on *an entry belongs to the cut and has not been delivered if and only if its mark differs from the
//! epoch*:
//!
//! 1. A new entry gets the epoch as its mark: it does not differ, and it does not belong to the cut.
//! 2. A saver walks each table by its scan cursor, a bounded step with the shard locked at a time, delivers
//!    what differs and sets its mark.
//! 3. A writer that changes or removes an entry that differs hands its old image over first and sets the
//!    mark. All ways to a mutable entry lead through [`Database`], which sees to it. A small entry is copied,
//!    a collection shares its nodes with its image, a long string its bytes, and the writer copies what of
//!    them it changes.
//!
//! So an entry is delivered at most once, since delivering sets the mark, which is cleared by nothing; and
//! with the value of the cut, since rule 3 comes before any change. It is delivered at least once: if it
//! stays until the walk ends, the scan visits it, because [`crate::Table`] guarantees that for what is there
//! throughout, however it grows and shrinks; if it goes before, rule 3 applies. When the walk is at its end
//! nothing differs any more, which is the state before the cut, with the other value of the epoch.
//!
//! Marks and epoch are compared within one database only. Entries that move between databases or keys are
//! taken out (rule 3) and put in again (rule 1). Databases are swapped together with their epochs, and what
//! is delivered bears the number of the cut, which is kept in the [`Part`]. A flushed database goes to the
//! saver as a whole, marks and epoch included, and is walked there without any lock.
//!
//! # Costs
//!
//! Without a snapshot: one predictable branch for each change. With one: a copy of a small entry at its first
//! change; for a collection or a long string some allocations, and later a copy of each node, or chunk of
//! 256 KiB, that is changed while the image lives. Images are passed on in batches, so that what waits is
//! what the savers have not got to yet; a helping saver learns when that is much
//! ([`Snapshot::wait_for_pile`]).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex};

use crate::entry::Entry;
use crate::shard::{Database, Shard};
use crate::text::{self, TextImage};

pub mod moving;
#[cfg(test)]
mod tests;

/// Approximate bytes of images that are passed on together.
const BATCH_BYTES: usize = 32 << 10;
/// What a visited bucket costs of a step, and an entry beside its bytes.
const VISIT_COST: usize = 64;

/// What a database hands over to the savers.
pub enum Handed {
    /// Entries as they were at the cut.
    Images {
        /// The number of their database.
        database: usize,
        /// They themselves.
        images: Vec<Image>,
        /// Memory that may be free once they have been taken, in bytes: their own, and the long strings that
        /// they share. Of collections nothing that they share counts.
        bytes: usize,
    },
    /// A whole database that was flushed; see [`Database::snapshot_step`].
    Flushed(Box<Database>),
}

impl Handed {
    /// Memory that is free once it has been taken, of images.
    fn bytes(&self) -> usize {
        match self {
            Handed::Images { bytes, .. } => *bytes,
            Handed::Flushed(_) => 0,
        }
    }
}

/// An entry that the walk delivers.
pub enum Delivered<'a> {
    /// A small one, to be looked at at once: its shard is locked.
    Entry(&'a Entry),
    /// A large one, which shares its value: to be looked at without any lock.
    Image(Image),
}

/// An entry as it was at the cut.
pub enum Image {
    /// A copy of a string of up to 256 KiB, or one of a collection, which shares its nodes if it is large.
    Entry(Entry),
    /// One of a long string, which shares its bytes.
    Text {
        /// The key.
        key: Box<[u8]>,
        /// The expiry, Unix time in ms.
        expiry: Option<i64>,
        /// The access clock.
        clock: u32,
        /// The value.
        text: TextImage,
    },
}

impl Image {
    /// Where the value lies on disk, if it is only there: the segment, and the offset in it.
    pub fn disk_position(&self) -> Option<(u32, usize)> {
        match self {
            Image::Entry(entry) => {
                entry.cold_only().map(|cold| (cold.segment().number(), cold.place().offset()))
            }
            Image::Text { .. } => None,
        }
    }

    /// The image of an entry as it is now.
    pub(crate) fn of(entry: &mut Entry) -> Image {
        match entry.share_text() {
            None => Image::Entry(entry.image()),
            Some(text) => {
                Image::Text { key: entry.key().into(), expiry: entry.expiry(), clock: entry.clock(), text }
            }
        }
    }
}

/// The keys of a database at the cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// All keys.
    pub keys: u64,
    /// Those with an expiry.
    pub with_expiry: u64,
}

/// A snapshot under way: where databases leave what writers hand over.
pub struct Snapshot {
    queue: Mutex<Queue>,
    changed: Condvar,
    /// Signalled when enough bytes wait that another saver should help.
    piled: Condvar,
    handed_bytes: AtomicU64,
    /// What [`text::kept_bytes`] told at the cut.
    kept_bytes_before: u64,
}

struct Queue {
    handed: VecDeque<Handed>,
    /// Bytes of the images among them, and how many of them are a pile for who waits for one.
    waiting_bytes: usize,
    pile_bytes: usize,
    /// Shards whose walk is not at its end: more may be handed over.
    open_shards: usize,
}

impl Snapshot {
    /// A snapshot of `shard_count` shards, which begins now.
    pub(crate) fn new(shard_count: usize) -> Self {
        Snapshot {
            queue: Mutex::new(Queue {
                handed: VecDeque::new(),
                waiting_bytes: 0,
                pile_bytes: usize::MAX,
                open_shards: shard_count,
            }),
            changed: Condvar::new(),
            piled: Condvar::new(),
            handed_bytes: AtomicU64::new(0),
            kept_bytes_before: text::kept_bytes(),
        }
    }

    /// What has been handed over, if anything.
    pub fn next(&self) -> Option<Handed> {
        self.queue.lock().pop()
    }

    /// What has been handed over next; waits for it. `None` when nothing will come any more.
    pub fn wait(&self) -> Option<Handed> {
        let mut queue = self.queue.lock();
        loop {
            if let Some(handed) = queue.pop() {
                return Some(handed);
            }
            if queue.open_shards == 0 {
                return None;
            }
            self.changed.wait(&mut queue);
        }
    }

    /// Waits until images of `pile_bytes` bytes wait to be taken. False when all walks are at their end and
    /// there are fewer: no pile will come any more. One thread may wait for one.
    pub fn wait_for_pile(&self, pile_bytes: usize) -> bool {
        let mut queue = self.queue.lock();
        queue.pile_bytes = pile_bytes;
        while queue.waiting_bytes < pile_bytes {
            if queue.open_shards == 0 {
                return false;
            }
            self.piled.wait(&mut queue);
        }
        true
    }

    /// Says that the walk of one more shard is at its end; see [`Shard::snapshot_step`].
    pub fn close_shard(&self) {
        let mut queue = self.queue.lock();
        queue.open_shards -= 1;
        if queue.open_shards == 0 {
            self.changed.notify_all();
            self.piled.notify_all();
        }
    }

    /// Bytes that writers have copied so far: the images that they have handed over, and what they have
    /// changed of long strings since these are shared with their images. What changes of collections copy is
    /// not counted.
    pub fn copied_bytes(&self) -> u64 {
        let kept_bytes = text::kept_bytes().saturating_sub(self.kept_bytes_before);
        self.handed_bytes.load(Ordering::Relaxed) + kept_bytes
    }

    fn push(&self, handed: Handed) {
        let mut queue = self.queue.lock();
        queue.waiting_bytes += handed.bytes();
        queue.handed.push_back(handed);
        if queue.waiting_bytes >= queue.pile_bytes {
            self.piled.notify_one();
        }
        drop(queue);
        self.changed.notify_one();
    }
}

impl Queue {
    fn pop(&mut self) -> Option<Handed> {
        let handed = self.handed.pop_front()?;
        self.waiting_bytes -= handed.bytes();
        Some(handed)
    }
}

impl Shard {
    /// Walks a part of what belongs to a snapshot; see [`Database::snapshot_step`]. True at the end.
    pub fn snapshot_step(
        &mut self,
        cost_max: usize,
        visit: &mut dyn FnMut(usize, Delivered<'_>) -> usize,
    ) -> bool {
        match self.databases.iter_mut().find(|database| database.observers.snapshot.is_some()) {
            None => true,
            Some(database) => {
                database.snapshot_step(cost_max, visit);
                self.databases.iter().all(|database| database.observers.snapshot.is_none())
            }
        }
    }
}

/// What a database knows of the snapshot that is under way.
pub(crate) struct Part {
    /// The number that the database had at the cut.
    number: usize,
    cursor: u64,
    /// Images that have not been passed on, and their [`Handed::Images::bytes`].
    images: Vec<Image>,
    images_bytes: usize,
    snapshot: Arc<Snapshot>,
}

impl Part {
    /// Keeps the image of an entry that is about to change or is gone.
    #[cold]
    pub(crate) fn hand_over(&mut self, entry: &mut Entry) {
        let copied_bytes = entry.image_bytes();
        self.snapshot.handed_bytes.fetch_add(copied_bytes as u64, Ordering::Relaxed);
        let image = Image::of(entry);
        self.images_bytes +=
            copied_bytes + if let Image::Text { text, .. } = &image { text.byte_len() } else { 0 };
        self.images.push(image);
        if self.images_bytes >= BATCH_BYTES {
            self.pass_on();
        }
    }

    fn pass_on(&mut self) {
        if !self.images.is_empty() {
            let bytes = std::mem::take(&mut self.images_bytes);
            let images = std::mem::take(&mut self.images);
            self.snapshot.push(Handed::Images { database: self.number, images, bytes });
        }
    }
}

impl Database {
    /// Makes this instant the cut of a snapshot, to which the database belongs under `number`.
    pub(crate) fn begin_snapshot(&mut self, number: usize, snapshot: &Arc<Snapshot>) {
        debug_assert!(self.observers.snapshot.is_none(), "one snapshot at a time");
        if self.is_empty() {
            return;
        }
        self.observers.epoch = !self.observers.epoch;
        self.observers.snapshot = Some(Box::new(Part {
            number,
            cursor: 0,
            images: Vec::new(),
            images_bytes: 0,
            snapshot: Arc::clone(snapshot),
        }));
    }

    /// Takes all entries out; `None` where a snapshot takes them over, which frees them in the end.
    pub fn take(&mut self) -> Option<Database> {
        let empty = Database::new(self.hasher);
        let mut old = std::mem::replace(self, empty);
        let Some(part) = &mut old.observers.snapshot else { return Some(old) };
        // So that who takes the database hands over nothing more: there may be nobody left to take that.
        part.pass_on();
        let snapshot = Arc::clone(&part.snapshot);
        snapshot.push(Handed::Flushed(Box::new(old)));
        None
    }

    /// Walks a part of the entries that belong to the snapshot under way and have `visit` called with those
    /// that have not been delivered, and with the number of the database at the cut. `visit` returns what
    /// that cost, in bytes; the step ends soon after the sum has reached `cost_max`. True at the end.
    pub fn snapshot_step(
        &mut self,
        cost_max: usize,
        visit: &mut dyn FnMut(usize, Delivered<'_>) -> usize,
    ) -> bool {
        let Some(part) = &mut self.observers.snapshot else { return true };
        let (epoch, mut cost) = (self.observers.epoch, 0);
        loop {
            self.table.scan_ahead(part.cursor, Entry::prefetch);
            part.cursor = self.table.scan_items(part.cursor, |entry| {
                if entry.mark() == epoch {
                    return;
                }
                cost += VISIT_COST;
                cost += match entry.is_large() {
                    false => visit(part.number, Delivered::Entry(entry)),
                    true => visit(part.number, Delivered::Image(Image::of(entry))),
                };
                entry.set_mark(epoch);
            });
            cost += VISIT_COST;
            if part.cursor == 0 {
                part.pass_on();
                self.observers.snapshot = None;
                return true;
            }
            if cost >= cost_max {
                return false;
            }
        }
    }
}
