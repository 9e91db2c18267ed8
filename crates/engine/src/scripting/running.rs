//! The scripts that run now: which they are, for how long they have run, and how they are killed.
//!
//! Each worker runs at most one script at a time and has a slot for it here. A script that runs past
//! `busy-reply-threshold` is slow: from then on commands that need what it holds are refused instead of
//! waiting, its own worker serves other connections from within the script, and it can be killed as long as
//! it has not written.
//!
//! Invariant: a script that has called a command that writes is not killed, and one that is to be killed
//! calls none. Only the end of a server that keeps nothing (SHUTDOWN NOSAVE) cuts what has written.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mantissa_commands::spec::{Info, ScriptSource};
use mantissa_commands::{Error, Outcome};
use mantissa_protocol::Args;
use mantissa_scripting::{Language, ScriptFlags};
use mantissa_sys::{clock, simulation};
use parking_lot::Mutex;

use super::functions::LibraryStore;
use super::machine::is_running_here;
use super::source::{self, ScriptCache};

/// Interval at which a script waits for commands that sweep the keyspace, and these for scripts.
const PAUSE: Duration = Duration::from_micros(100);

/// A script that has run for less is not killed: nobody can have meant it.
const KILLED_AFTER_MS: u64 = 100;

const IDLE: u8 = 0;
const SCRIPT: u8 = 1;
const FUNCTION: u8 = 2;

/// What has become of a script: nothing yet, or one of the others for good.
const UNWRITTEN: u8 = 0;
const WROTE: u8 = 1;
const KILLED: u8 = 2;

/// What a worker runs.
#[derive(Default)]
#[repr(align(128))]
pub struct Slot {
    kind: AtomicU8,
    /// When it began, in ms since [`Scripting::started`].
    began_ms: AtomicU64,
    /// It has run past the threshold.
    slow: AtomicBool,
    /// Whether it has called a command that writes, or is to end.
    fate: AtomicU8,
    /// Bytes that the worker's machine uses.
    vm_bytes: AtomicU64,
    /// The name of the function and the command that called it, known once it is slow.
    pub call: Mutex<(Vec<u8>, Vec<Vec<u8>>)>,
}

impl Slot {
    /// Whether it has run past the threshold.
    pub fn is_slow(&self) -> bool {
        self.slow.load(Ordering::Relaxed)
    }

    /// Whether it has called a command that writes.
    #[inline]
    pub fn has_written(&self) -> bool {
        self.fate.load(Ordering::Relaxed) == WROTE
    }

    /// Whether it is to end.
    #[inline]
    pub fn is_killed(&self) -> bool {
        self.fate.load(Ordering::Relaxed) == KILLED
    }

    /// Notes that it is about to write. False if it is to end: then it must not.
    #[inline]
    pub fn begin_write(&self) -> bool {
        self.has_written() || self.settle(WROTE)
    }

    /// Has it end. False if it has written.
    fn kill(&self) -> bool {
        self.is_killed() || self.settle(KILLED)
    }

    fn settle(&self, fate: u8) -> bool {
        self.fate.compare_exchange(UNWRITTEN, fate, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

/// What all workers share of scripts.
pub struct Scripting {
    /// Unique among the engines of the process.
    pub number: u64,
    /// Scripts by digest.
    pub cache: ScriptCache,
    /// Libraries of functions.
    pub libraries: LibraryStore,
    /// The language of scripts; without one every script is refused.
    pub language: Option<&'static dyn Language>,
    slots: Box<[Slot]>,
    /// The number of slow scripts.
    slow_count: AtomicU64,
    /// Commands that visit shard after shard, or wait to. They and scripts keep out of each other's way: such
    /// a command cannot give up once it has begun, and so must never wait for a script that may be slow.
    sweeps: AtomicU64,
    started: Instant,
}

/// A script or function that runs, until it is dropped.
pub struct Running<'s> {
    scripting: &'s Scripting,
    worker: usize,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.scripting.end(self.worker);
    }
}

/// A command that sweeps the keyspace; scripts wait until it is dropped.
pub struct Sweep<'s>(&'s Scripting);

impl Drop for Sweep<'_> {
    fn drop(&mut self) {
        self.0.sweeps.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Scripting {
    /// For this many threads.
    pub fn new(thread_count: usize, language: Option<&'static dyn Language>) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        Scripting {
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            cache: ScriptCache::default(),
            libraries: LibraryStore::default(),
            language,
            slots: (0..thread_count).map(|_| Slot::default()).collect(),
            slow_count: AtomicU64::new(0),
            sweeps: AtomicU64::new(0),
            started: clock::now(),
        }
    }

    /// A worker's slot.
    pub fn slot(&self, worker: usize) -> &Slot {
        &self.slots[worker.min(self.slots.len() - 1)]
    }

    /// Notes that a worker begins a script or function, once no command sweeps the keyspace. `holds_locks`
    /// says that shards are locked already, as inside MULTI: then there is no waiting.
    pub fn begin(&self, worker: usize, is_function: bool, holds_locks: bool) -> Running<'_> {
        let slot = self.slot(worker);
        let kind = if is_function { FUNCTION } else { SCRIPT };
        loop {
            slot.kind.store(kind, Ordering::SeqCst);
            if holds_locks || self.sweeps.load(Ordering::SeqCst) == 0 {
                break;
            }
            slot.kind.store(IDLE, Ordering::SeqCst);
            while self.sweeps.load(Ordering::SeqCst) > 0 {
                simulation::sleep(PAUSE);
            }
        }
        slot.began_ms.store(clock::since(self.started).as_millis() as u64, Ordering::Relaxed);
        slot.fate.store(UNWRITTEN, Ordering::Relaxed);
        Running { scripting: self, worker }
    }

    /// Lets a command sweep the keyspace, once no script runs. Fails if a script is slow.
    pub fn begin_sweep(&self) -> Outcome<Sweep<'_>> {
        let sweep = Sweep(self);
        self.sweeps.fetch_add(1, Ordering::SeqCst);
        while self.slots.iter().any(|slot| slot.kind.load(Ordering::SeqCst) != IDLE) {
            if is_running_here() || self.is_busy() {
                return Err(self.busy_error());
            }
            simulation::sleep(PAUSE);
        }
        Ok(sweep)
    }

    /// Notes that it is slow.
    pub fn mark_slow(&self, worker: usize) {
        if !self.slot(worker).slow.swap(true, Ordering::Relaxed) {
            self.slow_count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Notes how many bytes a worker's machine uses.
    pub fn note_memory(&self, worker: usize, used_bytes: usize) {
        self.slot(worker).vm_bytes.store(used_bytes as u64, Ordering::Relaxed);
    }

    /// Notes the end of what a worker runs.
    fn end(&self, worker: usize) {
        let slot = self.slot(worker);
        slot.kind.store(IDLE, Ordering::SeqCst);
        if slot.slow.load(Ordering::Relaxed) {
            slot.slow.store(false, Ordering::Relaxed);
            self.slow_count.fetch_sub(1, Ordering::Relaxed);
            *slot.call.lock() = Default::default();
        }
    }

    /// Whether any script is slow.
    #[inline]
    pub fn is_busy(&self) -> bool {
        self.slow_count.load(Ordering::Relaxed) > 0
    }

    /// Whether any script is slow but that of this worker.
    pub fn is_other_slow(&self, worker: usize) -> bool {
        let own = usize::from(self.slot(worker).is_slow());
        self.slow_count.load(Ordering::Relaxed) > own as u64
    }

    /// Bytes that the machines use.
    pub fn vm_bytes(&self) -> u64 {
        self.slots.iter().map(|slot| slot.vm_bytes.load(Ordering::Relaxed)).sum()
    }

    /// For how long what runs in a slot has run, in ms.
    pub fn elapsed_ms(&self, slot: &Slot) -> u64 {
        let now_ms = clock::since(self.started).as_millis() as u64;
        now_ms.saturating_sub(slot.began_ms.load(Ordering::Relaxed))
    }

    /// The running slot that has run for longest among those of a kind.
    pub fn longest(&self, function: bool) -> Option<&Slot> {
        let kind = if function { FUNCTION } else { SCRIPT };
        let running = self.slots.iter().filter(|slot| slot.kind.load(Ordering::Acquire) == kind);
        let running = running.filter(|slot| slot.is_slow() || self.elapsed_ms(slot) >= KILLED_AFTER_MS);
        running.max_by_key(|slot| self.elapsed_ms(slot))
    }

    /// The refusal of commands while a script is slow.
    pub fn busy_error(&self) -> Error {
        let function =
            self.slots.iter().any(|slot| slot.is_slow() && slot.kind.load(Ordering::Relaxed) == FUNCTION);
        Error::fixed(if function {
            "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE."
        } else {
            "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
        })
    }

    /// Whether a call is one of a script or function that declares its flags, and does not declare that it
    /// may run when memory is full.
    pub fn needs_memory(&self, info: &Info, args: Args<'_>) -> bool {
        self.flags_of(info, args).is_some_and(|flags| flags.declares_writes() && !flags.allow_oom)
    }

    /// The flags of the script or function that a command runs, as far as they are known.
    pub fn flags_of(&self, info: &Info, args: Args<'_>) -> Option<ScriptFlags> {
        match info.script? {
            ScriptSource::Text => source::declared_flags(args.at(1)),
            ScriptSource::Digest => {
                let digest = source::parse_digest(args.at(1));
                digest.and_then(|digest| self.cache.get(&digest)).map(|script| script.flags)
            }
            ScriptSource::Function => {
                self.libraries.find(args.at(1)).map(|(library, place)| library.functions[place].flags)
            }
        }
    }

    /// Kills every slow script that has not written, because the engine ends.
    pub fn kill_slow(&self) {
        for slot in self.slots.iter().filter(|slot| slot.is_slow()) {
            let _one_that_has_written_goes_on = slot.kill();
        }
    }

    /// SCRIPT KILL and FUNCTION KILL.
    pub fn kill(&self, function: bool) -> Outcome {
        let other = || self.longest(!function).filter(|slot| slot.is_slow());
        let Some(slot) = self.longest(function).or_else(other) else {
            return Err(Error::fixed("NOTBUSY No scripts in execution right now."));
        };
        const UNKILLABLE: Error = Error::fixed(
            "UNKILLABLE Sorry the script already executed write commands against the dataset. You can either \
             wait the script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command.",
        );
        if slot.has_written() {
            return Err(UNKILLABLE);
        }
        let is_function = slot.kind.load(Ordering::Relaxed) == FUNCTION;
        if is_function != function {
            return Err(self.busy_error());
        }
        if slot.kill() { Ok(()) } else { Err(UNKILLABLE) }
    }
}
