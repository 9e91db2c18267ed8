//! Hooks by which a simulation runs threads one at a time, on a clock of its own.
//!
//! A simulated thread has a [`Scheduler`]. Where threads could interrupt each other it calls [`yield_point`],
//! where it waits for others [`wait`]; it reads the clock and starts threads through this crate. Outside a
//! simulation each hook costs one load of a flag.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvError, TryRecvError};
use std::time::Duration;

/// What a simulated thread starts as another.
pub type Task = Box<dyn FnOnce() + Send>;

/// A defect that a simulation plants, to show that its checks find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Changes do not mark the keys that clients watch.
    UnmarkedWatch,
    /// Blocked clients are served in the reverse order of their arrival.
    NewestFirst,
    /// A transaction releases its locks between its commands.
    SplitTransaction,
    /// A command goes to the log after its locks have been released.
    LateLog,
    /// A write does not lock the shards that serving blocked clients may need.
    NarrowLocks,
    /// Replies do not wait until the log is written.
    EarlyReply,
    /// Replies wait until the log is in the file, where they should wait for the disk.
    UnsyncedReply,
    /// The name of a new manifest is not made durable.
    UnsyncedManifest,
    /// A rewrite removes the old files before the new manifest names their successors.
    EarlyRemoval,
    /// A key that is evicted, or has expired, is not deleted in the log.
    UnloggedRemoval,
    /// The history before a promotion counts as known beyond the promotion.
    LongSecondHistory,
    /// A replica that comes back is not sent what it lacks.
    SkippedBacklog,
    /// A start takes the offset of the last position in the files for that of their end.
    StaleOffset,
    /// A replica removes what has expired by itself.
    ExpiringReplica,
    /// A replica acknowledges what it has received and not applied.
    EarlyAck,
}

/// What decides which simulated thread goes on, and what time it is.
pub trait Scheduler: Send + Sync {
    /// Another thread may go on here.
    fn yield_point(&self);

    /// The calling thread waits for another, or until this much time has passed. It may return early.
    fn wait(&self, time_max: Option<Duration>);

    /// The clock: microseconds since 1970 in UTC.
    fn unix_us(&self) -> i64;

    /// Starts a simulated thread.
    fn spawn(&self, name: &str, task: Task);

    /// A random number that the seed of the simulation chooses; none where chance may.
    fn draw(&self) -> Option<u64> {
        None
    }

    /// Whether this defect is planted.
    fn has_fault(&self, _fault: Fault) -> bool {
        false
    }
}

/// Whether there ever was a simulation in this process.
static HAS_SIMULATION: AtomicBool = AtomicBool::new(false);

thread_local! {
    static SCHEDULER: RefCell<Option<Arc<dyn Scheduler>>> = const { RefCell::new(None) };
}

/// Makes the calling thread a simulated one, until the result is dropped.
pub fn enter(scheduler: Arc<dyn Scheduler>) -> Entered {
    HAS_SIMULATION.store(true, Ordering::Relaxed);
    SCHEDULER.with(|current| *current.borrow_mut() = Some(scheduler));
    Entered(())
}

/// A thread that is part of a simulation.
pub struct Entered(());

impl Drop for Entered {
    fn drop(&mut self) {
        SCHEDULER.with(|current| *current.borrow_mut() = None);
    }
}

/// The scheduler of the calling thread, if it is simulated.
#[inline]
pub fn scheduler() -> Option<Arc<dyn Scheduler>> {
    if HAS_SIMULATION.load(Ordering::Relaxed) { current() } else { None }
}

#[cold]
fn current() -> Option<Arc<dyn Scheduler>> {
    SCHEDULER.with(|current| current.borrow().clone())
}

/// A point at which threads may interrupt each other. Nothing outside a simulation.
#[inline]
pub fn yield_point() {
    if let Some(scheduler) = scheduler() {
        scheduler.yield_point();
    }
}

/// In a simulation, lets others go on until something may have changed, and returns true. False outside of
/// one: the caller waits in its own way.
#[inline]
pub fn wait(time_max: Option<Duration>) -> bool {
    match scheduler() {
        Some(scheduler) => {
            scheduler.wait(time_max);
            true
        }
        None => false,
    }
}

/// Whether the calling thread is simulated.
#[inline]
pub fn is_active() -> bool {
    HAS_SIMULATION.load(Ordering::Relaxed) && current().is_some()
}

/// Whether the simulation of the calling thread has this defect planted. False outside of a simulation.
#[inline]
pub fn has_fault(fault: Fault) -> bool {
    HAS_SIMULATION.load(Ordering::Relaxed) && current().is_some_and(|scheduler| scheduler.has_fault(fault))
}

/// A random number that the seed of the simulation chooses; none outside of a simulation.
pub fn draw() -> Option<u64> {
    scheduler().and_then(|scheduler| scheduler.draw())
}

/// Locks a mutex that may be held across a yield point: by `attempt`, and outside of a simulation by `lock`.
#[inline]
pub fn lock<T>(attempt: impl Fn() -> Option<T>, lock: impl FnOnce() -> T) -> T {
    while is_active() {
        match attempt() {
            Some(locked) => return locked,
            None => _ = wait(None),
        }
    }
    lock()
}

/// Receives from a channel, like `receiver.recv()`.
pub fn receive<T>(receiver: &Receiver<T>) -> Result<T, RecvError> {
    if !is_active() {
        return receiver.recv();
    }
    loop {
        match receiver.try_recv() {
            Ok(value) => return Ok(value),
            Err(TryRecvError::Disconnected) => return Err(RecvError),
            Err(TryRecvError::Empty) => _ = wait(None),
        }
    }
}

/// Sleeps.
pub fn sleep(time: Duration) {
    let Some(scheduler) = scheduler() else { return std::thread::sleep(time) };
    let end_us = scheduler.unix_us() + i64::try_from(time.as_micros()).unwrap_or(i64::MAX / 2);
    loop {
        let left_us = u64::try_from(end_us - scheduler.unix_us()).unwrap_or(0);
        if left_us == 0 {
            return;
        }
        scheduler.wait(Some(Duration::from_micros(left_us)));
    }
}

/// Starts a detached thread.
pub fn spawn(name: &str, task: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    match scheduler() {
        Some(scheduler) => {
            scheduler.spawn(name, Box::new(task));
            Ok(())
        }
        None => std::thread::Builder::new().name(name.to_owned()).spawn(task).map(drop),
    }
}
