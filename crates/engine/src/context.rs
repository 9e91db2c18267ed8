//! The state of a thread that runs commands.

use std::collections::BTreeMap;
use std::sync::Arc;

use mantissa_commands::{Collected, Error};
use mantissa_persist::log::{Lsn, Unit};
use mantissa_protocol::Args;
use mantissa_sys::QuickInstant;
use mantissa_sys::clock::{unix_ms, unix_us};
use mantissa_sys::simulation::{self, Fault};

use crate::active_config::ActiveConfig;
use crate::engine::Engine;
use crate::host::{ConnId, Message, Target};
use crate::hot_keys::Sampler;
use crate::image::Image;
use crate::invocation::Command;
use crate::memory_limit::Evictor;
use crate::session::{SharedSession, flag};

/// The state that a thread keeps from one command to the next.
pub struct Context<'e> {
    /// The engine.
    pub engine: &'e Engine,
    /// The worker's number.
    pub worker: usize,
    /// The clock, read once per event: Unix time in ms.
    pub now_ms: i64,
    /// The time that TIME tells in the transaction or script that runs, Unix time in us, once it has.
    pub unit_time_us: Option<i64>,
    /// When the present command began: when the one before it ended, or its batch began.
    pub command_began: QuickInstant,
    /// The present command has replied an error.
    pub has_failed: bool,
    /// The configuration as of the last time this worker looked: a copy of its own, since those who share one
    /// would write to its number of holders by turns.
    pub active: Arc<ActiveConfig>,
    /// State of the random numbers.
    pub random_state: u64,
    /// The commands that were called here.
    pub called: CalledCommands,
    /// The present command was called by a script.
    pub in_script: bool,
    /// A log is being loaded: commands are not logged, and nothing expires.
    pub is_loading: bool,
    /// Memory is full, and nothing could be evicted before the present command.
    pub out_of_memory: bool,
    /// The next request has the same key: the lock of its shard may be kept for it.
    pub keeps_lock: bool,
    /// It may have been kept by the request before.
    pub has_kept_lock: bool,
    /// What this thread knows of memory and candidates for eviction.
    pub evictor: Evictor,
    /// Chooses the commands whose keys are counted as hot keys.
    pub sampler: Sampler,
    /// A request that reads a large value may leave that to [`crate::execute::read_image`].
    pub leaves_images: bool,
    /// A request that reads a large value is put off: the thread is reading another one.
    pub puts_off_images: bool,
    /// What the present request has left.
    pub(crate) image: Option<Image>,
    /// Effects of the present command, for its commit.
    pub collected: Collected,
    /// Messages for clients.
    pub outbox: Outbox<'e>,
}

/// Commands by the names that requests called them by, letter case included: the same ones are called again
/// and again. A name has one place, and of two names with the same place the later one has it.
pub struct CalledCommands {
    places: [Called; 1 << Self::PLACE_BITS],
}

#[derive(Clone, Copy)]
struct Called {
    name: [u8; Self::NAME_BYTES_MAX],
    len: usize,
    command: Option<&'static Command>,
}

impl Called {
    const NAME_BYTES_MAX: usize = 16;
    const NONE: Called = Called { name: [0; Self::NAME_BYTES_MAX], len: 0, command: None };
}

impl Default for CalledCommands {
    fn default() -> Self {
        CalledCommands { places: [Called::NONE; 1 << Self::PLACE_BITS] }
    }
}

impl CalledCommands {
    const PLACE_BITS: u32 = 6;

    /// The place of a name, by its length and four of its letters.
    #[inline]
    fn place(name: &[u8]) -> usize {
        let letter = |index: usize| u64::from(name.get(index).copied().unwrap_or(0));
        let [middle, last] = [name.len() / 2, name.len().saturating_sub(1)];
        let letters = letter(0) | letter(1) << 8 | letter(middle) << 16 | letter(last) << 24;
        let spread = (letters | (name.len() as u64) << 32).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (spread >> (u64::BITS - Self::PLACE_BITS)) as usize
    }

    #[inline]
    fn find(&self, name: &[u8]) -> Option<&'static Command> {
        let called = &self.places[Self::place(name)];
        called.command.filter(|_| called.name.get(..called.len) == Some(name))
    }

    fn note(&mut self, name: &[u8], command: &'static Command) {
        // The first word does not tell subcommands apart, whose names are those of both words.
        let tells = command.subcommands.is_empty() && command.name.as_bytes().eq_ignore_ascii_case(name);
        let called = &mut self.places[Self::place(name)];
        if let (true, Some(place)) = (tells, called.name.get_mut(..name.len())) {
            place.copy_from_slice(name);
            (called.len, called.command) = (name.len(), Some(command));
        }
    }
}

fn own_copy(engine: &Engine) -> Arc<ActiveConfig> {
    Arc::new(ActiveConfig::clone(&engine.active_config()))
}

impl<'e> Context<'e> {
    /// The context of a thread. Threads that are no workers have numbers from the number of workers on.
    pub fn new(engine: &'e Engine, worker: usize) -> Self {
        let mut collected = Collected::default();
        if worker < engine.worker_count() && engine.worker_count() > 1 {
            // Without other workers nobody would be there to use the unlocked shard.
            collected.allow_work();
        }
        Context {
            engine,
            worker,
            now_ms: unix_ms(),
            unit_time_us: None,
            command_began: QuickInstant::now(),
            has_failed: false,
            active: own_copy(engine),
            random_state: unix_us() as u64 ^ ((worker as u64) << 56),
            called: CalledCommands::default(),
            in_script: false,
            is_loading: false,
            out_of_memory: false,
            keeps_lock: false,
            has_kept_lock: false,
            evictor: Evictor::default(),
            sampler: Sampler::default(),
            leaves_images: false,
            puts_off_images: false,
            image: None,
            collected,
            outbox: Outbox::new(worker, engine),
        }
    }

    /// Whether a sink for the reply to [`crate::execute::read_image`] may pay.
    pub fn streams_image(&self) -> bool {
        self.image.as_ref().is_some_and(Image::is_streamed)
    }

    /// The command or subcommand that a request calls, or the error to reply.
    #[inline]
    pub fn resolve(&mut self, args: Args<'_>) -> Result<&'static Command, Error> {
        let name = args.at(0);
        if let Some(command) = self.called.find(name) {
            return Ok(command);
        }
        let command = self.engine.registry.resolve(args)?;
        self.called.note(name, command);
        Ok(command)
    }

    /// Forgets what a command had left that failed inside the server.
    pub fn command_failed(&mut self) {
        self.image = None;
        self.collected.clear();
    }

    /// Reads the clock and picks up a changed configuration.
    pub fn refresh(&mut self) {
        self.now_ms = unix_ms();
        self.evictor.expect_change();
        self.outbox.is_refused = self.engine.aof.is_refusing();
        if self.active.version != self.engine.config_version() {
            self.active = own_copy(self.engine);
        }
    }
}

/// Messages to clients. Those for clients of this worker are kept until the reply of the present command;
/// others are sent at once.
pub struct Outbox<'e> {
    worker: usize,
    engine: &'e Engine,
    local: Vec<(ConnId, Arc<[u8]>)>,
    /// The client whose command runs.
    pub current: Option<u64>,
    /// Changed keys, for tracking in broadcasting mode, with the client that changed each, if it was only
    /// one.
    changed: BTreeMap<Box<[u8]>, Option<u64>>,
    /// The commands that the present command, transaction or script appends to the log.
    pub unit: Unit,
    /// Messages for other workers that wait for the LSN of the present unit.
    waiting: Vec<(usize, Message)>,
    /// Messages about clients that the present command has served, until it ends.
    served: Vec<(usize, Message)>,
    /// The LSN up to which the log must be confirmed before the replies of the present client may leave.
    pub required_lsn: Lsn,
    /// The LSN behind the last unit that was appended here.
    pub logged_lsn: Lsn,
    /// Something has been appended since the writer was last told.
    has_logged: bool,
    /// A script was cut after it had written: the present unit is not logged.
    pub is_cut: bool,
    /// The log refused writes when the present requests came. What is appended for them is no client's write:
    /// an expired key was removed.
    is_refused: bool,
}

impl<'e> Outbox<'e> {
    /// An empty outbox of a worker.
    pub fn new(worker: usize, engine: &'e Engine) -> Self {
        Outbox {
            worker,
            engine,
            local: Vec::new(),
            current: None,
            changed: BTreeMap::new(),
            unit: Unit::default(),
            waiting: Vec::new(),
            served: Vec::new(),
            required_lsn: 0,
            logged_lsn: 0,
            has_logged: false,
            is_cut: false,
            is_refused: false,
        }
    }

    /// The engine.
    pub fn engine(&self) -> &'e Engine {
        self.engine
    }

    /// The worker.
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// Whether a reply waits until the log has what it tells of. While the log refuses writes, reads do not
    /// wait: they would for as long as the disk is full.
    #[inline]
    pub fn holds_replies(&self) -> bool {
        let aof = &self.engine.aof;
        aof.holds_replies() && !(self.is_refused && aof.is_refusing())
    }

    /// Sends bytes to a client outside of any reply. They come after the reply of the command that runs now.
    pub fn push(&mut self, target: Target, bytes: Arc<[u8]>) {
        if target.worker == self.worker {
            self.local.push((target.conn, bytes));
        } else {
            self.send(target.worker, Message::Push(target.conn, bytes));
        }
    }

    /// Sends a message to a worker. Where replies wait for the log, the message waits too.
    pub fn send(&mut self, worker: usize, message: Message) {
        if self.engine.aof.holds_replies() {
            self.waiting.push((worker, message));
        } else {
            self.engine.send(worker, message);
        }
    }

    /// Sends a message to a blocked client that was served: after the command that runs now, so that this
    /// command is counted first.
    pub fn send_served(&mut self, worker: usize, message: Message) {
        match self.current {
            Some(_) => self.served.push((worker, message)),
            None => self.send(worker, message),
        }
    }

    /// To be called when a command has ended. Sends the messages to the blocked clients that it has served.
    #[inline]
    pub fn command_ended(&mut self) {
        if simulation::has_fault(Fault::LateLog) && !self.unit.is_empty() {
            let lsn = self.engine.log.append(&mut self.unit, 0);
            self.note_logged(lsn);
            self.required_lsn = lsn;
        }
        if !self.served.is_empty() {
            let served = std::mem::take(&mut self.served);
            served.into_iter().for_each(|(worker, message)| self.send(worker, message));
        }
    }

    /// Notes that something has been appended to the log, up to this LSN.
    pub fn note_logged(&mut self, lsn: Lsn) {
        self.logged_lsn = lsn;
        self.has_logged = true;
    }

    /// Whether something has been appended to the log since this was last asked.
    #[inline]
    pub fn take_logged(&mut self) -> bool {
        std::mem::take(&mut self.has_logged)
    }

    /// Sends messages that waited for the LSN of what was logged.
    #[inline]
    pub fn send_waiting(&mut self) {
        if !self.waiting.is_empty() {
            for (worker, message) in self.waiting.drain(..) {
                self.engine.send_after(worker, message, self.logged_lsn);
            }
        }
    }

    /// Sends bytes to a client outside of any reply, but not before the reply that is on its way to it
    /// because its waiting has ended.
    pub fn push_behind(&mut self, session: &SharedSession, bytes: Arc<[u8]>) {
        let target = *session.target.lock();
        if session.has(flag::BLOCKED) {
            self.send_served(target.worker, Message::Push(target.conn, bytes));
        } else {
            self.push(target, bytes);
        }
    }

    /// Adds a changed key, for tracking in broadcasting mode.
    pub fn note_changed(&mut self, key: &[u8], by: Option<u64>) {
        match self.changed.get_mut(key) {
            // Changed by several clients: none is exempt from the message by NOLOOP.
            Some(before) => *before = before.filter(|&before| by == Some(before)),
            None => _ = self.changed.insert(key.into(), by),
        }
    }

    /// Whether any changed key has been noted.
    #[inline]
    pub fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Takes the changed keys.
    pub fn take_changed(&mut self) -> BTreeMap<Box<[u8]>, Option<u64>> {
        std::mem::take(&mut self.changed)
    }

    /// Whether there are messages for clients of this worker.
    #[inline]
    pub fn has_local(&self) -> bool {
        !self.local.is_empty()
    }

    /// Takes the messages for one client.
    pub fn take_for(&mut self, conn: ConnId) -> Vec<Arc<[u8]>> {
        let mut taken = Vec::new();
        self.local.retain(|(to, bytes)| {
            if *to == conn {
                taken.push(Arc::clone(bytes));
            }
            *to != conn
        });
        taken
    }

    /// Takes the messages for all clients of this worker.
    pub fn take_all(&mut self) -> Vec<(ConnId, Arc<[u8]>)> {
        std::mem::take(&mut self.local)
    }
}
