//! From server to server: one connection walks through the keys, others in pairs read and store them.

use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use indicatif::ProgressBar;

use super::beside::Beside;
use super::options::ImportOptions;
use super::resume::{Bookmark, Mark};
use super::sink::{Job, Sink, Tally};
use super::source::{Dumped, KeyBatch, Keys, databases, dump, select};
use super::{progress, report, verify};
use crate::connection::Connection;
use crate::target::Target;

/// What the threads share.
struct Shared<'a> {
    done: Mutex<Done<'a>>,
    bar: &'a ProgressBar,
}

/// Batches that are stored. All before `first` are; of later ones, those in `after`.
struct Done<'a> {
    first: u64,
    after: BTreeMap<u64, Option<Mark>>,
    bookmark: Option<&'a mut Bookmark>,
}

impl Done<'_> {
    /// Notes a batch that is stored, and remembers up to where all are.
    fn note(&mut self, number: u64, next: Option<Mark>) -> io::Result<()> {
        self.after.insert(number, next);
        while let Some(next) = self.after.remove(&self.first) {
            self.first += 1;
            if let (Some(bookmark), Some(mark)) = (&mut self.bookmark, next) {
                bookmark.put(&mark)?;
            }
        }
        Ok(())
    }
}

/// Copies a server; whether all arrived.
pub(crate) fn run(options: &ImportOptions, source: &Target, target: &Target) -> io::Result<bool> {
    let source = Target { database: 0, ..source.clone() };
    let target = Target { database: 0, ..target.clone() };
    let start = Instant::now();
    let all = databases(&source, options.database())?;
    let mut bookmark = match &options.resume {
        Some(path) => Some(Bookmark::open(path, options.source_name(), &source)?),
        None => None,
    };
    let from = bookmark.as_ref().and_then(Bookmark::mark);
    if let Some((database, _)) = &from {
        eprintln!("Going on where the copy was cut off, in database {database}.");
    }
    let total = all.iter().map(|(_, keys)| keys).sum();
    let bar = progress(total, "keys");
    let keys = Keys::new(&source, &all, from, options.pattern.as_deref(), options.batch)?;
    let outcome = copy(options, keys, &source, &target, bookmark.as_mut(), &bar);
    bar.finish_and_clear();
    let mut tally = outcome?;
    let beside = Beside::of(&source)?;
    tally.add(beside.copy(options, &target)?);
    if let Some(bookmark) = bookmark
        && tally.failed == 0
    {
        bookmark.remove()?;
    }
    let mut succeeded = report("imported", &tally, start.elapsed())?;
    if options.verify {
        succeeded &= verify::run(options, &source, &target, &all)?;
        succeeded &= beside.verify(options, &Beside::of(&target)?)?;
    }
    Ok(succeeded)
}

fn copy(
    options: &ImportOptions,
    mut keys: Keys,
    source: &Target,
    target: &Target,
    bookmark: Option<&mut Bookmark>,
    bar: &ProgressBar,
) -> io::Result<Tally> {
    let (sender, receiver) = sync_channel(options.threads * 2);
    let done = Done { first: 0, after: BTreeMap::new(), bookmark };
    let shared = Shared { done: Mutex::new(done), bar };
    // Of the threads alone: who sends learns that all of them have ended.
    let batches = Arc::new(Mutex::new(receiver));
    let pairs = (0..options.threads)
        .map(|_| Ok((source.open()?, Sink::open(target, options)?)))
        .collect::<io::Result<Vec<_>>>()?;
    thread::scope(|scope| {
        let shared = &shared;
        let workers: Vec<_> = pairs
            .into_iter()
            .map(|(mut reader, mut sink)| {
                let batches = Arc::clone(&batches);
                scope.spawn(move || {
                    let (mut tally, mut selected) = (Tally::default(), None);
                    while let Some((number, batch)) = next(&batches) {
                        select(&mut reader, &mut selected, batch.database)?;
                        tally.add(copy_batch(&mut reader, &mut sink, number, batch, shared)?);
                    }
                    Ok(tally)
                })
            })
            .collect();
        drop(batches);
        let mut number = 0;
        let walked = (|| {
            while let Some(batch) = keys.next()? {
                // Threads that have ended tell why below.
                if sender.send((number, batch)).is_err() || workers.iter().any(|one| one.is_finished()) {
                    break;
                }
                number += 1;
            }
            Ok(())
        })();
        drop(sender);
        let mut tally = Tally::default();
        let mut failure: io::Result<()> = walked;
        for worker in workers {
            match worker.join().map_err(|_| io::Error::other("a thread failed")).flatten() {
                Ok(part) => tally.add(part),
                Err(error) => failure = failure.and(Err(error)),
            }
        }
        failure.map(|()| tally)
    })
}

/// Copies a batch of the database that is selected.
fn copy_batch(
    reader: &mut Connection,
    sink: &mut Sink,
    number: u64,
    batch: KeyBatch,
    shared: &Shared<'_>,
) -> io::Result<Tally> {
    let dumped = dump(reader, &batch.keys)?;
    let count = batch.keys.len() as u64;
    let job_of = |(key, dumped): (Vec<u8>, Option<Dumped>)| {
        let Dumped { payload, expires_at_ms, .. } = dumped?;
        Some(Job::Payload { database: batch.database, key, payload, expires_at_ms })
    };
    let jobs: Vec<Job> = batch.keys.into_iter().zip(dumped).filter_map(job_of).collect();
    let gone = count - jobs.len() as u64;
    let mut tally = sink.store(jobs)?;
    tally.gone += gone;
    shared.bar.inc(count);
    // A batch with a key that was refused is copied again by the next attempt.
    if tally.failed == 0 {
        let mut done = shared.done.lock().map_err(|_| io::Error::other("a thread failed"))?;
        done.note(number, batch.next)?;
    }
    Ok(tally)
}

/// The next batch; `None` after the last.
fn next(batches: &Mutex<Receiver<(u64, KeyBatch)>>) -> Option<(u64, KeyBatch)> {
    batches.lock().ok()?.recv().ok()
}
