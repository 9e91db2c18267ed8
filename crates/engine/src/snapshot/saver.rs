//! A saver: walks shards, encodes what belongs to the cut, and sends it to the thread that writes.

use mantissa_sys::clock;
use std::cell::RefCell;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use mantissa_persist::write::{Encoder, long_text_on_disk};
use mantissa_store::ShardSet;
use mantissa_store::snapshot::{Delivered, Handed, Image};

use super::Job;
use super::outlet::{Chunk, Outlet};
use super::texts::Texts;

/// What a step with a shard locked may cost, in bytes.
const STEP_COST: usize = 32 << 10;
/// Bytes of a record up to which savers bring values from disk at the same time.
const BROUGHT_BYTES_MAX: usize = 8 << 20;
/// Maximum time to encode a large value before `sched_yield`.
const RUN_MAX: Duration = Duration::from_micros(100);

/// One thread's part in a snapshot.
pub(super) struct Saver<'j, 'a> {
    job: &'j Job<'a>,
    encoder: Encoder<'a>,
    outlet: RefCell<Outlet<'j, 'a>>,
    chunk: Vec<u8>,
    /// The database that the chunk has selected.
    selected: Option<usize>,
    /// Strings that the step has come across.
    texts: Texts,
    /// Images of other entries that it has come across, with the numbers of their databases.
    images: Vec<(usize, Image)>,
    keys: u64,
    /// The shard that is being walked.
    walked: Option<usize>,
}

impl<'j, 'a> Saver<'j, 'a> {
    pub fn new(job: &'j Job<'a>, sender: SyncSender<Chunk>) -> Self {
        Saver {
            job,
            encoder: Encoder::new(job.options.clone(), job.usage_of),
            outlet: RefCell::new(Outlet::new(job, sender)),
            chunk: Vec::new(),
            selected: None,
            texts: Texts::default(),
            images: Vec::new(),
            keys: 0,
            walked: None,
        }
    }

    /// Works until nothing is left to do.
    pub fn run(mut self) {
        loop {
            self.take_handed();
            self.walked = self.next_shard();
            let Some(index) = self.walked else { break };
            self.walk(index);
            self.walked = None;
            self.job.snapshot.close_shard();
        }
        while let Some(handed) = self.job.snapshot.wait() {
            self.take(handed);
        }
        self.finish();
    }

    /// Like [`Saver::run`], in a thread of its own, which keeps the low priority.
    pub fn run_at_low_priority(self) {
        mantissa_sys::scheduling::lower_priority();
        self.run();
    }

    /// Takes images that writers have handed over whenever enough bytes of them wait, until no more will
    /// come.
    pub fn relieve(mut self, pile_bytes: usize) {
        while self.job.snapshot.wait_for_pile(pile_bytes) {
            if let Some(handed) = self.job.snapshot.next() {
                self.take(handed);
            }
        }
        self.finish();
    }

    fn next_shard(&self) -> Option<usize> {
        let index = self.job.next_shard.fetch_add(1, Ordering::Relaxed);
        (index < self.job.keyspace.shard_count()).then_some(index)
    }

    fn finish(&mut self) {
        self.outlet.borrow_mut().finish(&mut self.chunk);
        self.job.progress.processed(self.keys);
    }

    fn walk(&mut self, index: usize) {
        loop {
            // After a yield the time slice is fresh: the thread is hardly preempted while it holds the lock.
            std::thread::yield_now();
            let mut locked = self.job.keyspace.lock(ShardSet::one(index));
            let Some(shard) = locked.shard_mut(index) else { return };
            let is_done =
                shard.snapshot_step(STEP_COST, &mut |number, delivered| self.deliver(number, delivered));
            drop(locked);
            self.settle();
            if is_done {
                return;
            }
            self.take_handed();
        }
    }

    fn take_handed(&mut self) {
        while let Some(handed) = self.job.snapshot.next() {
            self.take(handed);
            std::thread::yield_now();
        }
    }

    fn take(&mut self, handed: Handed) {
        match handed {
            Handed::Images { database: number, images, .. } => {
                for image in images {
                    self.encode_image(number, image);
                }
                self.settle();
            }
            Handed::Flushed(mut database) => loop {
                if self.job.has_ended() {
                    // Nothing of it is wanted: it is freed.
                    return;
                }
                let is_done = database
                    .snapshot_step(STEP_COST, &mut |number, delivered| self.deliver(number, delivered));
                self.settle();
                if is_done {
                    return;
                }
            },
        }
    }

    /// Takes an entry that a walk delivers, perhaps with its shard locked: it is only copied here. Returns
    /// what that cost.
    fn deliver(&mut self, number: usize, delivered: Delivered<'_>) -> usize {
        const IMAGE_COST: usize = 512;
        match delivered {
            Delivered::Entry(entry) if entry.has_image_on_disk() => {
                // Another name of the record, which is read with nothing locked.
                self.images.push((number, Image::Entry(entry.image())));
            }
            Delivered::Entry(entry) => match entry.as_string() {
                Some(text) => return self.texts.push(number, entry, text),
                None => {
                    self.images.push((number, Image::Entry(entry.duplicate(entry.key(), entry.expiry()))))
                }
            },
            Delivered::Image(image) => self.images.push((number, image)),
        }
        IMAGE_COST
    }

    /// What is to be done after a step, with nothing locked.
    fn settle(&mut self) {
        let mut texts = std::mem::take(&mut self.texts);
        for text in texts.iter() {
            if self.begin_entry(text.database) {
                self.encoder.string_entry(text.key, text.text, text.expiry, text.clock, &mut self.chunk);
            }
        }
        texts.clear();
        self.texts = texts;
        let mut images = std::mem::take(&mut self.images);
        // Values on disk in the order in which they lie there.
        images.sort_by_key(|(_, image)| image.disk_position());
        for (number, image) in images.drain(..) {
            self.encode_image(number, image);
        }
        self.images = images;
        if self.outlet.borrow_mut().offer(&mut self.chunk) {
            self.selected = None;
        }
        self.job.progress.processed(std::mem::take(&mut self.keys));
    }

    /// Encodes an image; a large one in chunks.
    fn encode_image(&mut self, number: usize, image: Image) {
        if !self.begin_entry(number) {
            return;
        }
        let mut alone = None;
        // A long string is read in chunks, as it is encoded.
        if let Image::Entry(entry) = &image
            && long_text_on_disk(entry).is_none()
        {
            let is_large = entry.cold_only().is_some_and(|cold| cold.place().len() > BROUGHT_BYTES_MAX);
            alone = is_large.then(|| self.job.brought.lock());
            if let Err(reason) = entry.bring() {
                return self.job.refuse(&reason);
            }
        }
        let outlet = &self.outlet;
        let mut began = clock::now();
        let mut spill = |bytes: &mut Vec<u8>| {
            outlet.borrow_mut().spill(bytes);
            if clock::since(began) >= RUN_MAX {
                std::thread::yield_now();
                began = clock::now();
            }
            !self.job.has_ended()
        };
        self.encoder.image(image, &mut self.chunk, &mut spill);
        drop(alone);
        if let Some(reason) = self.encoder.refusal() {
            self.job.refuse(reason);
        }
        let mut outlet = self.outlet.borrow_mut();
        if outlet.end_value(&mut self.chunk) || outlet.offer(&mut self.chunk) {
            self.selected = None;
        }
    }

    /// Counts an entry and selects its database. False if nothing is to be encoded any more.
    fn begin_entry(&mut self, number: usize) -> bool {
        self.keys += 1;
        if let Some(key_delay) = self.job.key_delay {
            let delay = key_delay();
            delay.wait_unless(|| self.job.has_ended() || key_delay() != delay);
        }
        if self.job.has_ended() {
            return false;
        }
        self.select(number);
        true
    }

    fn select(&mut self, number: usize) {
        if self.selected != Some(number) {
            self.selected = Some(number);
            self.encoder.select(number, &mut self.chunk);
        }
    }
}

impl Drop for Saver<'_, '_> {
    /// The walk comes to its end also where a saver panics: the others wait for that, and the next snapshot
    /// relies on it.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        self.job.failed.store(true, Ordering::Relaxed);
        while let Some(index) = self.walked.take().or_else(|| self.next_shard()) {
            let mut is_done = false;
            while !is_done {
                let mut locked = self.job.keyspace.lock(ShardSet::one(index));
                let Some(shard) = locked.shard_mut(index) else { break };
                is_done = shard.snapshot_step(STEP_COST, &mut |_, _| 1);
            }
            self.job.snapshot.close_shard();
        }
    }
}
