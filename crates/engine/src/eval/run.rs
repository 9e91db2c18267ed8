//! A run of a script: the commands that it calls, the shards that it holds, and how it is ended early.
//!
//! A run is atomic: at any time it holds the shards of every key that it has touched, and it releases none
//! before it has ended. Which shards it takes before it begins:
//!
//! - inside MULTI, those of the transaction, which are all;
//! - all, if it has never run, or if an earlier run touched a key that it had not declared;
//! - else those of the declared keys.
//!
//! Only in the last case can a key lie in another shard. If nothing has been written yet, the run is
//! restarted with all shards; the commands so far have only read. Otherwise it takes the missing shards while
//! it keeps its own ([`LockedShards::extend`]). If runs would wait for each other in a circle, or another
//! script is slow, the command fails, and with it the script, with what it wrote so far in place, as after
//! any other error. Later runs of a script that has touched an undeclared key take all shards first.
//!
//! A run that meets a value on disk before it has written anything ends, and begins anew once the value has
//! been read. Otherwise the value is read with the shards held.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mantissa_commands::spec::{Flags, Traits};
use mantissa_commands::{Access, Error, Locks, Outcome, find_keys};
use mantissa_protocol::{Args, Protocol, Reply};
use mantissa_scripting::{CallError, Host, LogLevel, TICK_PAUSE_MAX};
use mantissa_store::ShardSet;

use crate::admission::{self, ScriptRights};
use crate::call::{self, Call, Record};
use crate::context::Context;
use crate::invocation::Command;
use crate::locking::{linked_shards, shards_of};
use crate::nested_loop;
use crate::scripting::machine::write_log;
use crate::scripting::running::Slot;
use crate::scripting::source::KeyUsage;
use crate::session::Session;
use crate::tier::fetch;
use crate::{calls, warning};

#[cfg(doc)]
use mantissa_store::LockedShards;
use mantissa_sys::{QuickInstant, clock};

/// Why a run ends early. The script cannot catch that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abort {
    /// SCRIPT KILL, FUNCTION KILL or the end of the engine. It has not written, or nothing is kept.
    Killed,
    /// It is to be run again with all shards.
    Restart,
    /// It is to be run again once values have been read from disk.
    Unread,
    /// A handler has panicked.
    Panicked,
}

/// What a script is allowed and known to do.
#[derive(Clone, Copy)]
pub struct Rules<'a> {
    /// It must not write.
    pub read_only: bool,
    /// It may do everything when memory is full.
    pub allow_oom: bool,
    /// It is a function.
    pub is_function: bool,
    /// The shards belong to this run, not to a transaction around it.
    pub owns_locks: bool,
    /// The keys that it has declared.
    pub keys: Args<'a>,
    /// What is known of its keys.
    pub key_usage: &'a KeyUsage,
    /// The command that called it.
    pub call: Args<'a>,
    /// Calls that it made before it began again: they have been counted and shown.
    pub called_before: usize,
    /// Lines that it wrote to the log before it began again.
    pub logged_before: usize,
}

/// One run of a script.
pub struct Run<'s, 'k, 'e> {
    context: &'s mut Context<'e>,
    session: &'s mut Session,
    access: &'s mut Access<'k>,
    rules: Rules<'s>,
    protocol: Protocol,
    /// Whether commands are logged; the script may turn that off.
    logs: bool,
    began: Instant,
    last_tick: Instant,
    /// The same moment by the clock of calls.
    ticked: QuickInstant,
    /// A command with effects beyond replies has been called.
    has_effects: bool,
    /// Calls so far, refused ones too.
    pub called_count: usize,
    /// Lines that it has written to the log.
    pub logged_count: usize,
    /// A key was touched that had not been declared.
    pub touched_undeclared: bool,
    /// Set once it is to end early.
    pub abort: Option<Abort>,
}

impl<'s, 'k, 'e> Run<'s, 'k, 'e> {
    /// A run that has not begun.
    pub fn new(
        context: &'s mut Context<'e>,
        session: &'s mut Session,
        access: &'s mut Access<'k>,
        rules: Rules<'s>,
    ) -> Self {
        let now = clock::now();
        if rules.owns_locks {
            context.unit_time_us = None;
        }
        Run {
            context,
            session,
            access,
            rules,
            protocol: Protocol::Resp2,
            logs: true,
            began: now,
            last_tick: now,
            ticked: QuickInstant::now(),
            has_effects: false,
            called_count: 0,
            logged_count: 0,
            touched_undeclared: false,
            abort: None,
        }
    }

    /// Checks whether a command may run and runs it, and replies.
    fn execute(&mut self, args: Args<'_>, reply: &mut Reply) -> Outcome {
        let is_new = self.called_count >= self.rules.called_before;
        let resolved = resolve(self.context, args);
        let admitted = resolved.clone().and_then(|command| {
            self.admit(command, args, is_new)?;
            self.hold_shards(command, args)?;
            self.leave_if_unread(command, args)?;
            Ok(command)
        });
        if self.abort.is_some() {
            return admitted.map(|_| ());
        }
        self.called_count += 1;
        let command = admitted.inspect_err(|error| {
            if is_new {
                calls::rejected(self.context, resolved.ok(), error);
            }
        })?;
        if command.info.flags.has(Flags::WRITE) && !self.slot().begin_write() {
            self.abort = Some(Abort::Killed);
            return Err(Error::fixed("ERR the script is ended"));
        }
        self.has_effects |= has_effects(command);
        self.context.command_began = QuickInstant::now();
        let record = Record { is_logged: self.logs, is_counted: is_new };
        self.run_guarded(Call::new(command, args), record, reply)
    }

    /// Runs a call; a panic ends the script and closes its client.
    fn run_guarded(&mut self, call: Call<'_>, record: Record, reply: &mut Reply) -> Outcome {
        let run =
            AssertUnwindSafe(|| call::run_held(self.context, self.session, self.access, call, record, reply));
        std::panic::catch_unwind(run).unwrap_or_else(|_| {
            warning!("The command {} of a script failed inside the server", call.command.name);
            self.abort = Some(Abort::Panicked);
            Err(Error::fixed("ERR internal error"))
        })
    }

    fn slot(&self) -> &'e Slot {
        self.context.engine.scripting.slot(self.context.worker)
    }

    /// A key is touched that was not declared: runs that begin from now on take all shards.
    #[cold]
    fn touch_undeclared(&mut self) {
        self.touched_undeclared = true;
        self.rules.key_usage.note(true);
    }

    fn admit(&mut self, command: &Command, args: Args<'_>, is_new: bool) -> Outcome {
        let slot = self.slot();
        let rights = ScriptRights {
            is_read_only: self.rules.read_only,
            allows_oom: self.rules.allow_oom,
            has_written: slot.has_written(),
            is_noted: is_new,
        };
        admission::of_script(self.context, self.session, command, args, rights)
    }

    /// Ends the run if a command needs values on disk that can be read before it runs again.
    fn leave_if_unread(&mut self, command: &Command, args: Args<'_>) -> Outcome {
        if self.has_effects || !self.rules.owns_locks || !self.session.rerun.is_possible() {
            return Ok(());
        }
        self.access.select(self.session.database);
        self.session.rerun.unread = fetch::find_unread(self.context.engine, self.access, command, args);
        if self.session.rerun.unread.is_empty() {
            return Ok(());
        }
        self.abort = Some(Abort::Unread);
        Err(Error::fixed("ERR the script is run again"))
    }

    /// Sees to it that the shards that a command needs are held.
    fn hold_shards(&mut self, command: &Command, args: Args<'_>) -> Outcome {
        let keyspace = self.access.keyspace();
        let sweeps = matches!(command.info.locks, Locks::All | Locks::Sweep);
        let mut needed = ShardSet::EMPTY;
        if sweeps {
            needed = keyspace.all_shards();
            self.touch_undeclared();
        } else {
            for position in find_keys(command.info, args).unwrap_or_default() {
                let key = args.at(position.index);
                needed.insert(keyspace.shard_of(keyspace.hash(key)));
                if !self.touched_undeclared && !self.rules.keys.iter().any(|declared| declared == key) {
                    self.touch_undeclared();
                }
            }
        }
        if command.info.traits.has(Traits::FOLLOWS_LINKS) {
            needed = needed.union(shards_of(self.context.engine, command, args));
            let call = (command, args, self.session.database);
            needed = needed.union(linked_shards(self.context.engine, self.access.locked_mut(), call));
        }
        if !self.rules.owns_locks || self.access.locked_mut().set().covers(needed) {
            return Ok(());
        }
        if !self.has_effects {
            self.abort = Some(Abort::Restart);
            return Err(Error::fixed("ERR the script is run again"));
        }
        let (engine, worker) = (self.context.engine, self.context.worker);
        let give_up = || engine.scripting.is_other_slow(worker);
        if self.access.locked_mut().extend(needed, give_up) {
            return Ok(());
        }
        Err(Error::fixed(
            "ERR Script attempted to access a key that it did not declare while another script did the same",
        ))
    }
}

impl Host for Run<'_, '_, '_> {
    fn call(&mut self, args: Args<'_>, reply: &mut Reply) -> Result<(), CallError> {
        let counted = |text: &[u8]| Err(CallError { text: text.to_vec(), counted: true });
        let is_due = self.context.command_began.duration_since(self.ticked) > TICK_PAUSE_MAX;
        if self.abort.is_some() || (is_due && !self.tick()) {
            return counted(b"ERR the script is ended");
        }
        reply.set_protocol(self.protocol);
        let in_script = std::mem::replace(&mut self.context.in_script, true);
        let access_in_script = std::mem::replace(&mut self.access.in_script, true);
        let outcome = self.execute(args, reply);
        self.access.in_script = access_in_script;
        self.context.in_script = in_script;
        match outcome {
            Ok(()) if reply.has_overflowed() => counted(b"ERR the reply is larger than a script may hold"),
            Ok(()) if reply.as_bytes().first() == Some(&b'-') => {
                let line = reply.as_bytes().get(1..reply.len().saturating_sub(2)).unwrap_or_default();
                counted(line)
            }
            Ok(()) => Ok(()),
            Err(error) => counted(error.bytes()),
        }
    }

    fn is_aborted(&self) -> bool {
        self.abort.is_some()
    }

    fn tick(&mut self) -> bool {
        if self.abort.is_some() {
            return false;
        }
        let (engine, slot) = (self.context.engine, self.slot());
        let threshold_ms = self.context.active.config.busy_reply_threshold_ms;
        let elapsed = clock::since(self.began);
        if threshold_ms > 0 && elapsed >= Duration::from_millis(threshold_ms) {
            if !slot.is_slow() {
                let call = self.rules.call.iter().map(<[u8]>::to_vec).collect();
                let name = self.rules.call.get(1).unwrap_or_default().to_vec();
                *slot.call.lock() = (name, call);
                engine.scripting.mark_slow(self.context.worker);
                warning!(
                    "Slow script detected: still in execution after {} milliseconds. You can try killing the \
                     script using the {} command.",
                    elapsed.as_millis(),
                    if self.rules.is_function { "FUNCTION KILL" } else { "SCRIPT KILL" },
                );
            }
            nested_loop::serve_others();
        }
        (self.last_tick, self.ticked) = (clock::now(), QuickInstant::now());
        let keeps_nothing = || engine.persistence.ends_unsaved.load(Ordering::Relaxed);
        let ends = engine.stopping.load(Ordering::Relaxed) && (!slot.has_written() || keeps_nothing());
        if slot.is_killed() || ends {
            self.abort = Some(Abort::Killed);
            return false;
        }
        true
    }

    fn last_tick(&self) -> Instant {
        self.last_tick
    }

    fn protocol(&self) -> Protocol {
        self.protocol
    }

    fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }

    fn set_logs(&mut self, logs: bool) {
        self.logs = logs;
    }

    fn may_run(&mut self, args: Args<'_>) -> Option<bool> {
        let command = resolve(self.context, args).ok()?;
        Some(admission::try_run(&self.session.user, command, args, self.session.database).is_ok())
    }

    fn log(&mut self, level: LogLevel, line: &[u8]) {
        if self.abort.is_some() {
            return;
        }
        self.logged_count += 1;
        if self.logged_count > self.rules.logged_before {
            write_log(level, line);
        }
    }
}

/// Whether a restarted script must not repeat the command.
fn has_effects(command: &Command) -> bool {
    command.info.flags.has(Flags::WRITE)
        || command.info.flags.has(Flags::MAY_REPLICATE)
        || command.info.flags.has(Flags::PUBSUB)
}

/// The command that a script calls.
fn resolve(context: &mut Context, args: Args<'_>) -> Outcome<&'static Command> {
    const UNKNOWN: Error = Error::fixed("ERR Unknown Redis command called from script");
    context.resolve(args).map_err(|_| UNKNOWN)
}
