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

use mantissa_protocol::Reply;
use mantissa_sys::clock;

use crate::blocking;
use crate::context::Context;
use crate::engine::Engine;
use crate::jobs::{Fact, Job, KeyWalk, Task, Tree, Work};
use crate::key_sizes::bytes_of;
use crate::session::BlockedClient;

/// How long one run takes.
const RUN_TIME: Duration = Duration::from_millis(1);
/// The shortest pause between two runs.
const PAUSE_MIN: Duration = Duration::from_micros(50);
/// How long a shard is locked at a time, and entries that are visited meanwhile.
const LOCK_TIME: Duration = Duration::from_micros(100);
const LOCK_ENTRIES: usize = 512;
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
                    blocking::release(engine, &blocked, reply);
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
    let is_complete = !is_stopped && visit(job, context, walk, task, deadline);
    job.share.store((walk.share() * 1e6) as u64, Ordering::Relaxed);
    if !is_complete && !is_stopped {
        return None;
    }
    match task {
        Task::Tree(_) if is_stopped => reply.error("ERR The walk was stopped"),
        Task::Tree(tree) => {
            reply.map(Tree::PAIRS + 3);
            reply.bulk(b"database");
            reply.integer(job.filter.database as i64);
            reply.bulk(b"prefix");
            reply.bulk(&job.filter.prefix);
            tree.write(&mut reply);
            reply.bulk(b"elapsed-ms");
            reply.integer(clock::since(job.began).as_millis() as i64);
        }
    }
    Some(reply.into_bytes())
}

/// Visits keys until `deadline`. True at the end of the walk.
fn visit(job: &Job, context: &mut Context, walk: &mut KeyWalk, task: &mut Task, deadline: Instant) -> bool {
    let keyspace = &context.engine.keyspace;
    for _ in 0..LOCKS_MAX {
        let Some(index) = walk.next_shard() else { return true };
        let (mut visited, mut matched) = (0, 0);
        if let Some(locked) = keyspace.try_lock_one(index)
            && let Some(shard) = locked.shard(index)
        {
            let database = &shard.databases[job.filter.database];
            let until = deadline.min(clock::now() + LOCK_TIME);
            walk.step(index, database, LOCK_ENTRIES, until, |entry| {
                visited += 1;
                if job.filter.has(entry, context.now_ms) {
                    matched += 1;
                    let (kind, expires) = (entry.kind(), entry.expiry().is_some());
                    let fact = Fact { kind, expires, bytes: bytes_of(entry) as u64 };
                    match task {
                        Task::Tree(tree) => tree.add(entry.key(), fact),
                    }
                }
            });
        }
        job.visited.fetch_add(visited, Ordering::Relaxed);
        job.matched.fetch_add(matched, Ordering::Relaxed);
        if clock::now() >= deadline {
            break;
        }
    }
    walk.next_shard().is_none()
}
