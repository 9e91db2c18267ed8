//! A saver: walks shards, encodes what belongs to the cut, and sends it to the thread that writes.

use std::cell::RefCell;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;

use mantissa_persist::write::Encoder;
use mantissa_store::snapshot::{Delivered, Handed};
use mantissa_store::{Entry, ShardSet};

use super::Job;
use super::outlet::{Chunk, Outlet};

/// What a step with a shard locked may cost, in bytes.
const STEP_COST: usize = 32 << 10;

/// See the module's description.
pub(super) struct Saver<'j, 'a> {
    job: &'j Job<'a>,
    encoder: Encoder<'a>,
    outlet: RefCell<Outlet<'j, 'a>>,
    chunk: Vec<u8>,
    /// The database that the chunk has selected.
    selected: Option<usize>,
    /// Images that the step has come across, with the numbers of their databases.
    images: Vec<(usize, Entry)>,
    keys: u64,
}

impl<'j, 'a> Saver<'j, 'a> {
    pub fn new(job: &'j Job<'a>, sender: SyncSender<Chunk>) -> Self {
        Saver {
            job,
            encoder: Encoder::new(job.options.clone(), job.access_of),
            outlet: RefCell::new(Outlet::new(job, sender)),
            chunk: Vec::new(),
            selected: None,
            images: Vec::new(),
            keys: 0,
        }
    }

    /// Works until nothing is left to do.
    pub fn run(mut self) {
        loop {
            self.take_handed();
            let index = self.job.next_shard.fetch_add(1, Ordering::Relaxed);
            if index >= self.job.keyspace.shard_count() {
                break;
            }
            self.walk(index);
            self.job.snapshot.close_shard();
        }
        while let Some(handed) = self.job.snapshot.wait() {
            self.take(handed);
        }
        self.outlet.borrow_mut().finish(&mut self.chunk);
        self.job.progress.processed(self.keys);
    }

    fn walk(&mut self, index: usize) {
        loop {
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
        }
    }

    fn take(&mut self, handed: Handed) {
        match handed {
            Handed::Images(number, images) => {
                for image in images {
                    self.encode_image(number, image);
                }
                self.settle();
            }
            Handed::Flushed(mut database) => loop {
                let is_done = database
                    .snapshot_step(STEP_COST, &mut |number, delivered| self.deliver(number, delivered));
                self.settle();
                if is_done {
                    return;
                }
            },
        }
    }

    /// Takes an entry that a walk delivers, perhaps with its shard locked. Returns what that cost.
    fn deliver(&mut self, number: usize, delivered: Delivered<'_>) -> usize {
        match delivered {
            Delivered::Entry(entry) => {
                let before = self.chunk.len();
                self.encode(number, entry);
                self.chunk.len() - before
            }
            Delivered::Image(image) => {
                const IMAGE_COST: usize = 2048;
                self.images.push((number, image));
                IMAGE_COST
            }
        }
    }

    /// What is to be done after a step, with nothing locked.
    fn settle(&mut self) {
        for (number, image) in std::mem::take(&mut self.images) {
            self.encode_image(number, image);
        }
        if self.outlet.borrow_mut().offer(&mut self.chunk) {
            self.selected = None;
        }
        self.job.progress.processed(std::mem::take(&mut self.keys));
    }

    fn encode(&mut self, number: usize, entry: &Entry) {
        self.keys += 1;
        if self.job.failed.load(Ordering::Relaxed) {
            return;
        }
        self.select(number);
        self.encoder.entry(entry, &mut self.chunk);
    }

    /// Encodes an image; a large one in pieces.
    fn encode_image(&mut self, number: usize, image: Entry) {
        self.keys += 1;
        if self.job.failed.load(Ordering::Relaxed) {
            return;
        }
        self.select(number);
        let outlet = &self.outlet;
        let mut spill = |bytes: &mut Vec<u8>| outlet.borrow_mut().spill(bytes);
        self.encoder.image(image, &mut self.chunk, &mut spill);
        let mut outlet = self.outlet.borrow_mut();
        if outlet.end_value(&mut self.chunk) || outlet.offer(&mut self.chunk) {
            self.selected = None;
        }
    }

    fn select(&mut self, number: usize) {
        if self.selected != Some(number) {
            self.selected = Some(number);
            self.encoder.select(number, &mut self.chunk);
        }
    }
}
