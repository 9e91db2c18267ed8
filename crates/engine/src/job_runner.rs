//! Running jobs ([`crate::jobs`]) in the background thread.
//!
//! Jobs take turns, in runs of [`RUN_TIME`], with pauses that leave half of a core to others. A shard is
//! locked for [`LOCK_TIME`] or [`LOCK_ENTRIES`] entries at a time, and never waited for. A key that is there
//! during the whole job is visited exactly once, any other at most once
//! ([`mantissa_store::Database::walk`]).
//!
//! A job ends when its client has gone.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mantissa_commands::Outcome;
use mantissa_protocol::Reply;
use mantissa_store::Database;
use mantissa_sys::clock;

use crate::admission;
use crate::blocking;
use crate::context::Context;
use crate::engine::Engine;
use crate::jobs::{Deletion, Fact, Job, KeyWalk, Task, Tree, Work};
use crate::key_sizes::bytes_of;
use crate::session::BlockedClient;
use crate::shard_access::try_with_shard;

/// How long one run takes.
const RUN_TIME: Duration = Duration::from_millis(1);
/// The shortest pause between two runs.
const PAUSE_MIN: Duration = Duration::from_micros(50);
/// How long a shard is locked at a time, and entries that are visited meanwhile.
const LOCK_TIME: Duration = Duration::from_micros(100);
const LOCK_ENTRIES: usize = 512;
/// The same where keys are deleted.
const LOCK_DELETIONS: usize = 64;
/// Times that one run locks a shard, at most.
const LOCKS_MAX: usize = 64;

/// The part of the background thread that runs jobs.
#[derive(Default)]
pub struct Runner {
    /// Not before this.
    next_run: Option<Instant>,
}

impl Runner {
    /// When it goes on, if there is a job.
    pub fn next_run(&self, engine: &Engine) -> Option<Instant> {
        (!engine.jobs.is_empty()).then(|| self.next_run.unwrap_or_else(clock::now))
    }

    /// Goes on with a job if it is time.
    pub fn go_on(&mut self, context: &mut Context) {
        let began = clock::now();
        if self.next_run.is_some_and(|run| run > began) {
            return;
        }
        let engine = context.engine;
        let Some(job) = engine.jobs.next() else { return };
        match blocked_in(engine, &job) {
            None => engine.jobs.remove(job.id),
            Some(blocked) => {
                if let Some(reply) = run(&job, &blocked, context, began + RUN_TIME) {
                    engine.jobs.remove(job.id);
                    blocking::release_after(engine, &blocked, reply, context.outbox.logged_lsn);
                }
            }
        }
        let ended = clock::now();
        self.next_run = Some(ended + (ended - began).max(PAUSE_MIN));
    }
}

/// The client of a job, if it still waits for it.
fn blocked_in(engine: &Engine, job: &Job) -> Option<Arc<BlockedClient>> {
    let blocked = engine.blocked.lock().get(&job.client).cloned()?;
    let is_waiting = blocked.ticket == job.ticket && *blocked.waiting.lock();
    is_waiting.then_some(blocked)
}

/// Goes on until `deadline`. The reply at the end.
fn run(job: &Job, blocked: &BlockedClient, context: &mut Context, deadline: Instant) -> Option<Vec<u8>> {
    let mut reply = Reply::new(blocked.protocol);
    if !job.filter.permit.is_current(&job.user) {
        reply.error("NOPERM The rights of the user have changed during the walk");
        return Some(reply.into_bytes());
    }
    let mut work = job.work.lock();
    let Work { walk, task } = &mut *work;
    let is_stopped = job.is_stopped();
    let is_complete = is_stopped || visit(job, context, walk, task, deadline);
    job.share.store((walk.share() * 1e6) as u64, Ordering::Relaxed);
    if !is_complete {
        return None;
    }
    if is_stopped && matches!(task, Task::Tree(_)) {
        reply.error("ERR The walk was stopped");
        return Some(reply.into_bytes());
    }
    reply.map(3 + if let Task::Tree(_) = task { Tree::PAIRS } else { Deletion::PAIRS });
    reply.bulk(b"database");
    reply.integer(job.filter.database as i64);
    reply.bulk(b"prefix");
    reply.bulk(&job.filter.prefix);
    match task {
        Task::Tree(tree) => tree.write(&mut reply),
        Task::Delete(deletion) => deletion.write(is_stopped, &mut reply),
    }
    reply.bulk(b"elapsed-ms");
    reply.integer(clock::since(job.began).as_millis() as i64);
    Some(reply.into_bytes())
}

/// Visits keys until `deadline`. True at the end of the job.
fn visit(job: &Job, context: &mut Context, walk: &mut KeyWalk, task: &mut Task, deadline: Instant) -> bool {
    for _ in 0..LOCKS_MAX {
        let Some(index) = walk.next_shard() else { return true };
        let until = deadline.min(clock::now() + LOCK_TIME);
        match task {
            Task::Tree(tree) => count(job, context, (walk, index, until), |key, fact| tree.add(key, fact)),
            Task::Delete(deletion) if deletion.is_dry_run => {
                count(job, context, (walk, index, until), |_, fact| deletion.tally.add(fact));
            }
            Task::Delete(deletion) => {
                if context.engine.pauses(context.now_ms, true) {
                    return false;
                }
                if let Err(error) = delete(job, context, (walk, index, until), deletion) {
                    deletion.failure = Some(error.bytes().into());
                    return true;
                }
            }
        }
        if clock::now() >= deadline {
            break;
        }
    }
    walk.next_shard().is_none()
}

/// A step of a walk: a shard, and how long it may be locked.
type Step<'w> = (&'w mut KeyWalk, usize, Instant);

/// Has `note` called with some keys of a shard, unless it is in use.
fn count(job: &Job, context: &Context, (walk, index, until): Step<'_>, note: impl FnMut(&[u8], Fact)) {
    if let Some(locked) = context.engine.keyspace.try_lock_one(index)
        && let Some(shard) = locked.shard(index)
    {
        let database = &shard.databases[job.filter.database];
        look(job, database, context.now_ms, (walk, index, until), LOCK_ENTRIES, note);
    }
}

/// Deletes some keys of a shard, unless it is in use.
fn delete(
    job: &Job,
    context: &mut Context,
    (walk, index, until): Step<'_>,
    deletion: &mut Deletion,
) -> Outcome {
    let engine = context.engine;
    admission::write_refusal(engine, &context.active.config)?;
    let read_only = engine.replication.is_replica() && context.active.config.replica_read_only;
    let number = job.filter.database;
    let deleted = try_with_shard(context, index, number, |access| {
        if read_only {
            return Err(admission::READ_ONLY);
        }
        let (now_ms, mut found) = (access.now_ms(), Vec::new());
        access.visit_shard(index, |shard| {
            let note = |key: &[u8], fact| found.push((Box::<[u8]>::from(key), fact));
            look(job, &shard.databases[number], now_ms, (walk, index, until), LOCK_DELETIONS, note);
        });
        let mut words: Vec<&[u8]> = vec![b"UNLINK"];
        for (key, fact) in &found {
            if access.delete_as(true, key) {
                words.push(key);
                deletion.tally.add(*fact);
            }
        }
        if words.len() > 1 {
            access.log_instead(&words);
        }
        Ok(())
    });
    deleted.unwrap_or(Ok(()))
}

/// Has `note` called with the keys that a job is about, among some of a shard.
fn look(
    job: &Job,
    database: &Database,
    now_ms: i64,
    (walk, index, until): Step<'_>,
    entries_max: usize,
    mut note: impl FnMut(&[u8], Fact),
) {
    let (mut visited, mut matched) = (0, 0);
    walk.step(index, database, entries_max, until, |entry| {
        visited += 1;
        if job.filter.has(entry, now_ms) {
            matched += 1;
            let (kind, expires) = (entry.kind(), entry.expiry().is_some());
            note(entry.key(), Fact { kind, expires, bytes: bytes_of(entry) as u64 });
        }
    });
    job.visited.fetch_add(visited, Ordering::Relaxed);
    job.matched.fetch_add(matched, Ordering::Relaxed);
}
