//! Walks over all keys that clients wait for: which are under way, and what they have found. The background
//! thread runs them ([`crate::job_runner`]).

mod deletion;
mod filter;
mod tally;
mod tree;
mod walk;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use mantissa_commands::{Error, Outcome};
use mantissa_sys::clock;
use parking_lot::Mutex;

use crate::acl::User;

pub use deletion::Deletion;
pub use filter::Filter;
pub use tally::Fact;
pub use tree::{Order, Shape, Tree};
pub use walk::KeyWalk;

/// Jobs that may be under way.
const JOBS_MAX: usize = 16;

/// What a job does with the keys.
pub enum Task {
    /// Counts them in a tree.
    Tree(Box<Tree>),
    /// Deletes them.
    Delete(Box<Deletion>),
}

impl Task {
    /// The name of the command.
    pub fn name(&self) -> &'static str {
        match self {
            Task::Tree(_) => "mantissa.tree",
            Task::Delete(_) => "mantissa.delete",
        }
    }
}

/// A walk that a client waits for.
pub struct Job {
    /// Its number.
    pub id: u64,
    /// The command.
    pub name: &'static str,
    /// The client.
    pub client: u64,
    /// The ticket under which the client waits.
    pub ticket: u64,
    /// Its user.
    pub user: Arc<User>,
    /// What the command was asked about.
    pub argument: Box<[u8]>,
    /// The keys that it is about.
    pub filter: Filter,
    /// When it began.
    pub began: Instant,
    /// Keys that it has looked at.
    pub visited: AtomicU64,
    /// Those of them that it is about.
    pub matched: AtomicU64,
    /// What it has walked, in millionths.
    pub share: AtomicU64,
    is_stopped: AtomicBool,
    /// Its state. Held by the thread that runs it.
    pub work: Mutex<Work>,
}

/// The state of a job.
pub struct Work {
    /// Where it is.
    pub walk: KeyWalk,
    /// What it does.
    pub task: Task,
}

/// The jobs under way.
#[derive(Default)]
pub struct Jobs {
    list: Mutex<Vec<Arc<Job>>>,
    last_id: AtomicU64,
}

impl Jobs {
    /// Adds a job, for a client that is blocked under a ticket. Fails if there are too many.
    pub fn add(
        &self,
        (client, ticket): (u64, u64),
        (user, argument): (&Arc<User>, &[u8]),
        filter: Filter,
        work: Work,
    ) -> Outcome {
        let mut list = self.list.lock();
        if list.len() >= JOBS_MAX {
            return Err(Error::new(format!("ERR {JOBS_MAX} walks are under way already")));
        }
        list.push(Arc::new(Job {
            id: self.last_id.fetch_add(1, Ordering::Relaxed) + 1,
            name: work.task.name(),
            client,
            ticket,
            user: Arc::clone(user),
            argument: argument.into(),
            filter,
            began: clock::now(),
            visited: AtomicU64::new(0),
            matched: AtomicU64::new(0),
            share: AtomicU64::new(0),
            is_stopped: AtomicBool::new(false),
            work: Mutex::new(work),
        }));
        Ok(())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.list.lock().is_empty()
    }

    /// All of them.
    pub fn all(&self) -> Vec<Arc<Job>> {
        self.list.lock().clone()
    }

    /// The first, which goes to the end.
    pub fn next(&self) -> Option<Arc<Job>> {
        let mut list = self.list.lock();
        if !list.is_empty() {
            list.rotate_left(1);
        }
        list.last().cloned()
    }

    /// Removes one.
    pub fn remove(&self, id: u64) {
        self.list.lock().retain(|job| job.id != id);
    }
}

impl Job {
    /// Has it end soon.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    /// Whether it is to end.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }
}
