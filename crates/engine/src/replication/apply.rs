//! Applying a primary's stream.
//!
//! The stream is cut into units: a command, or all from MULTI to EXEC. With the shards of a unit locked its
//! commands are run, and its bytes appended to the log as they came. So whoever holds all shards finds the
//! data as of the end of the log, and replicas of this server read the same bytes at the same offsets.
//! Commands that change no data (SELECT, PING) go to the log with the unit behind them, or under the lock of
//! some shard.
//!
//! Values on disk that commands need are read before, with nothing locked ([`crate::tier::read_ahead`]). The
//! stream stops in front of the first command that lacks one, in a transaction too: what is behind that
//! point has had no effect, is not in the log and does not count in the offset. It is looked at anew, with
//! the epoch as it is by then, when the values have come.
//!
//! A server that changes its role has the epoch of the link grow while it holds all shards. From then on
//! nothing of the former stream is applied.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mantissa_commands::spec::{Flags, InStream, Traits};
use mantissa_commands::{Access, Collected, DataHandler, Mode, Outcome, parse};
use mantissa_protocol::{Args, Parsed, Protocol, Reply, RequestLimits, RequestParser, Slice};
use mantissa_store::{LockedShards, PREFETCHED_KEYS_MIN, Shard, ShardSet};
use mantissa_sys::{QuickInstant, simulation};

use crate::batch::{Batch, Request};
use crate::call::{self, Call};
use crate::commit::commit;
use crate::context::{Context, Outbox};
use crate::engine::Engine;
use crate::invocation::{Command, Handler};
use crate::locking::{lock_linked, lock_patiently, shards_held_for};
use crate::replay::{self, Origin};
use crate::session::{Session, flag};
use crate::tier::read_ahead::ReadAhead;
use crate::tier::{fetch, offload};
use crate::{admission, calls, lazy_free, tracking};

/// Bytes that are kept of a reply, which nobody gets.
const REPLY_BYTES_MAX: usize = 64 << 10;

/// How long values are moved to disk between two looks at the stream.
const ROOM_TIME_MAX: Duration = Duration::from_millis(20);
/// How long is waited for a disk that is behind.
const DISK_PAUSE: Duration = Duration::from_millis(1);

/// What has been done with the front of the input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Its length in bytes. They are in the log; line feeds between commands are not.
    pub used: usize,
    /// The primary asks for an acknowledgement of the offset that has been reached. The caller sends it and
    /// comes again with the rest at once, more input or not.
    pub ack: bool,
    /// What comes next waits for values on disk. The caller [waits](Applier::wait) and comes again with the
    /// rest, more input or not.
    pub waits: bool,
}

/// Why the taking of requests has ended.
#[derive(PartialEq, Eq)]
enum Stop {
    /// No whole request is left.
    End,
    /// At a GETACK that is to be answered first.
    Ack,
    /// At a command whose values are being read.
    Unread,
}

/// How far the input has been taken.
#[derive(Clone, Copy, Default)]
struct Progress {
    /// What is before has been appended to the log.
    logged: usize,
    /// What is before has been run.
    applied: usize,
    /// What is before has been read: more than has been run inside a transaction.
    read: usize,
}

/// A transaction whose EXEC has not come yet, at the front of the input.
struct Open {
    /// The bytes of it that have been read.
    read: usize,
    /// The shards of its commands so far.
    shards: ShardSet,
    /// The database that is selected behind them.
    database: usize,
}

/// Applies a primary's stream.
pub struct Applier<'e> {
    context: Context<'e>,
    session: Session,
    reply: Reply,
    parser: RequestParser,
    batch: Batch,
    transaction: Option<Open>,
    /// The GETACK at the front of the input has been answered.
    is_acknowledged: bool,
    prefetches: bool,
    /// The disk keeps writes of clients from being accepted.
    is_disk_refusing: bool,
    /// What is read of the commands at the front.
    read_ahead: ReadAhead,
    /// The epoch of the link that the stream comes from.
    epoch: u64,
}

impl<'e> Applier<'e> {
    /// For a stream in which `database` is selected, of the link as it is now. The log has a backlog.
    pub fn new(engine: &'e Engine, database: usize) -> Self {
        let context = Context::new(engine, engine.link_number());
        let mut session = replay::session(&context);
        session.shared.mark(flag::PRIMARY, true);
        session.select(database.min(engine.keyspace.database_count() - 1));
        Applier {
            context,
            session,
            reply: new_reply(),
            parser: RequestParser::default(),
            batch: Batch::default(),
            transaction: None,
            is_acknowledged: false,
            prefetches: false,
            is_disk_refusing: false,
            read_ahead: ReadAhead::default(),
            epoch: engine.replication.link.epoch.load(Ordering::Acquire),
        }
    }

    /// The database that is selected in the stream.
    pub fn database(&self) -> usize {
        self.session.database
    }

    /// Waits for the values that the stream stops for, or for the disk, or for so long. It may return early.
    pub fn wait(&self, time_max: Duration) {
        match self.read_ahead.is_waiting() {
            true => self.read_ahead.wait(time_max),
            false => simulation::sleep(DISK_PAUSE.min(time_max)),
        }
    }

    /// Applies the whole units at the front of `bytes`, which begins where the last call has ended. An error
    /// says why the stream cannot go on; what came before it has been applied, up to the end of the log.
    pub fn apply(&mut self, bytes: &[u8]) -> Result<Applied, String> {
        if self.read_ahead.is_waiting() {
            return Ok(Applied { waits: true, ..Applied::default() });
        }
        self.context.refresh();
        if self.is_disk_behind() {
            return Ok(Applied { waits: true, ..Applied::default() });
        }
        self.context.command_began = QuickInstant::now();
        let keys = self.context.engine.keyspace.estimate_keys();
        self.prefetches = keys.map_or(self.prefetches, |count| count >= PREFETCHED_KEYS_MIN);
        self.is_disk_refusing =
            admission::disk_refusal(self.context.engine, &self.context.active.config).is_err();
        let outcome = self.apply_units(bytes);
        if self.context.outbox.has_changed() {
            tracking::broadcast(&mut self.context.outbox);
        }
        self.context.outbox.end_iteration(false);
        self.batch.trim();
        outcome
    }

    /// Moves values to disk, where some go. Whether the disk is so far behind that writes wait for it.
    fn is_disk_behind(&mut self) -> bool {
        let limit = self.context.active.config.maxmemory;
        if limit == 0 || self.context.engine.tier.file().is_none() {
            return false;
        }
        let _what_is_left_goes_later = offload::make_room(&mut self.context, limit, ROOM_TIME_MAX, |_| false);
        offload::has_to_wait(self.context.engine, limit)
    }

    fn apply_units(&mut self, bytes: &[u8]) -> Result<Applied, String> {
        let read = self.transaction.as_ref().map_or(0, |open| open.read);
        let mut progress = Progress { read, ..Progress::default() };
        let taken = self.take_all(bytes, &mut progress);
        // Whatever has happened, the offset is that of what has been applied.
        self.log_rest(bytes, &mut progress)?;
        let stop = taken?;
        if stop != Stop::End {
            // It has looked at what comes behind.
            self.parser = RequestParser::default();
        }
        if let Some(open) = &mut self.transaction {
            open.read = progress.read - progress.applied;
        }
        Ok(Applied { used: progress.applied, ack: stop == Stop::Ack, waits: stop == Stop::Unread })
    }

    /// Takes all whole requests, or those before what has to come first.
    fn take_all(&mut self, bytes: &[u8], progress: &mut Progress) -> Result<Stop, String> {
        loop {
            let mut position = progress.read;
            let ended = self.batch.parse(bytes, &mut position, &mut self.parser, &RequestLimits::TRUSTED);
            let mut batch = self.take_batch(bytes);
            let is_used = self.context.engine.tier.is_used();
            let ready = if is_used { self.count_ready(bytes, &batch) } else { None };
            if let Some(count) = ready {
                batch.requests.truncate(count);
            }
            let taken = self.take_requests(bytes, &batch, progress);
            self.batch = batch;
            if taken? {
                return Ok(Stop::Ack);
            }
            if ready.is_some() {
                return Ok(Stop::Unread);
            }
            if progress.read < position {
                self.skip_line_feeds(bytes, position, progress)?;
            }
            match ended {
                Parsed::Error(error) => return Err(format!("the primary's stream is damaged: {error}")),
                Parsed::Incomplete { .. } => return Ok(Stop::End),
                _ => {}
            }
        }
    }

    /// Has the values on disk read that the commands of a batch need. How many of its requests can be taken
    /// before that; `None`: all of them.
    fn count_ready(&mut self, bytes: &[u8], batch: &Batch) -> Option<usize> {
        let mut search = self.read_ahead.search(self.context.engine);
        let mut database = self.transaction.as_ref().map_or(self.session.database, |open| open.database);
        for request in &batch.requests {
            let args = request.args(bytes, &batch.slices);
            let command = replay::command_of(&mut self.context, args).ok();
            let goes_on = search.add(database, command, args);
            database = command.map_or(database, |_| fetch::database_after(args, database));
            if !goes_on {
                break;
            }
        }
        self.read_ahead.end(search)
    }

    /// The batch, with what its commands will look at on the way to the caches.
    fn take_batch(&mut self, bytes: &[u8]) -> Batch {
        if self.batch.requests.len() > 1 && self.transaction.is_none() {
            let (keyspace, database) = (&self.context.engine.keyspace, self.session.database);
            if self.prefetches {
                self.batch.prefetch(keyspace, database, bytes);
            }
            self.batch.fetch_ahead(keyspace, database, bytes);
        }
        std::mem::take(&mut self.batch)
    }

    /// Takes the requests of a batch, until one is a GETACK to be answered first: then true.
    fn take_requests(
        &mut self,
        bytes: &[u8],
        batch: &Batch,
        progress: &mut Progress,
    ) -> Result<bool, String> {
        for request in &batch.requests {
            if request.start != progress.read {
                self.skip_line_feeds(bytes, request.start, progress)?;
            }
            if bytes[request.start] != b'*' {
                return Err("the primary's stream is damaged: it has an inline command".to_owned());
            }
            if self.take_request(bytes, request, &batch.slices, progress)? {
                return Ok(true);
            }
            progress.read = request.end;
        }
        Ok(false)
    }

    /// Takes a request. True if it is a GETACK that is to be answered first.
    #[inline]
    fn take_request(
        &mut self,
        bytes: &[u8],
        request: &Request,
        slices: &[Slice],
        progress: &mut Progress,
    ) -> Result<bool, String> {
        let args = request.args(bytes, slices);
        let command = match replay::command_of(&mut self.context, args) {
            Ok(command) => command,
            // Inside a transaction that is told when it runs.
            Err(_) if self.transaction.is_some() => return Ok(false),
            Err(reason) => {
                progress.applied = request.end;
                self.note_failure(args, &reason)?;
                return Ok(false);
            }
        };
        if self.transaction.is_some() {
            self.take_queued(bytes, (command, args), request.end, progress)?;
            return Ok(false);
        }
        if let Some(Handler::Data(handler)) = command.handler {
            let call = Call { command, args, hash: request.hash };
            self.apply_data(call, handler, &bytes[..request.end], progress)?;
            return Ok(false);
        }
        match command.info.in_stream {
            InStream::Begins => {
                let database = self.session.database;
                self.transaction = Some(Open { read: 0, shards: ShardSet::EMPTY, database });
            }
            InStream::Talks if self.is_to_be_acknowledged(args) => return Ok(true),
            InStream::Talks | InStream::ChangesNothing => {
                progress.applied = request.end;
                self.run_unlocked(command, args)?;
            }
            _ => {
                let shards = shards_held_for(self.context.engine, command, args);
                self.apply_unit(bytes, request.start..request.end, shards, progress)?;
            }
        }
        Ok(false)
    }

    fn is_to_be_acknowledged(&mut self, args: Args<'_>) -> bool {
        if !args.get(1).is_some_and(|word| parse::is(word, "GETACK")) {
            return false;
        }
        self.is_acknowledged = !self.is_acknowledged;
        self.is_acknowledged
    }

    /// Takes a command inside a transaction; with EXEC the transaction runs.
    fn take_queued(
        &mut self,
        bytes: &[u8],
        (command, args): (&'static Command, Args<'_>),
        end: usize,
        progress: &mut Progress,
    ) -> Result<(), String> {
        let Some(open) = &mut self.transaction else { return Ok(()) };
        if command.info.in_stream != InStream::Ends {
            open.shards = open.shards.union(shards_held_for(self.context.engine, command, args));
            open.database = fetch::database_after(args, open.database);
            return Ok(());
        }
        let shards = open.shards;
        self.transaction = None;
        self.apply_unit(bytes, progress.applied..end, shards, progress)
    }

    /// Line feeds between commands are signs of life, and no part of the stream.
    #[cold]
    fn skip_line_feeds(&mut self, bytes: &[u8], end: usize, progress: &mut Progress) -> Result<(), String> {
        if self.transaction.is_some() || bytes[progress.read..end].iter().any(|byte| *byte != b'\n') {
            return Err("the primary's stream is damaged: a command without a name".to_owned());
        }
        self.log_rest(bytes, progress)?;
        *progress = Progress { logged: end, applied: end, read: end };
        Ok(())
    }

    /// Appends to the log what has been run and waits for that.
    fn log_rest(&mut self, bytes: &[u8], progress: &mut Progress) -> Result<(), String> {
        if progress.logged < progress.applied {
            let from = std::mem::replace(&mut progress.logged, progress.applied);
            let mut locked = self.lock(ShardSet::one(0))?;
            let (now_s, database) = (self.context.now_ms / 1000, self.session.database);
            append(&mut self.context.outbox, &mut locked, &bytes[from..progress.applied], (now_s, database));
        }
        Ok(())
    }

    /// Locks shards, at least one. An error says that the stream has ended meanwhile.
    fn lock(&self, mut shards: ShardSet) -> Result<LockedShards<'e>, String> {
        if shards.is_empty() {
            shards.insert(0);
        }
        let locked = lock_patiently(self.context.engine, shards, || self.has_ended());
        let locked = locked.filter(|_| !self.has_ended());
        locked.ok_or_else(|| "the server follows another primary now, or none".to_owned())
    }

    /// Locks one shard: at once, in the usual case.
    #[inline]
    fn lock_one(&self, index: usize) -> Result<LockedShards<'e>, String> {
        let engine = self.context.engine;
        match engine.keyspace.try_lock_one(index) {
            Some(locked) if !self.has_ended() && !locked.shard(index).is_none_or(Shard::has_waiters) => {
                Ok(locked)
            }
            locked => {
                drop(locked);
                self.lock(ShardSet::one(index))
            }
        }
    }

    /// Whether the server has another primary now, or none.
    #[inline]
    fn has_ended(&self) -> bool {
        let engine = self.context.engine;
        engine.stopping.load(Ordering::Relaxed)
            || engine.replication.link.epoch.load(Ordering::Acquire) != self.epoch
    }

    /// Ends the server rather than apply what its disk does not take, unless the configuration allows that.
    #[inline]
    fn check_disk(&self) -> Result<(), String> {
        match self.is_disk_refusing && !self.context.active.config.replica_ignore_disk_write_errors {
            false => Ok(()),
            true => {
                self.context.engine.host().shut_down(1);
                Err("Replica was unable to write command to disk.".to_owned())
            }
        }
    }

    /// Runs a command on data, the usual case, with which `bytes` ends, and appends to the log all of them
    /// that waits for that. If a value that it needs can not be read, it does not run.
    #[inline]
    fn apply_data(
        &mut self,
        call: Call<'_>,
        handler: DataHandler,
        bytes: &[u8],
        progress: &mut Progress,
    ) -> Result<(), String> {
        let Call { command, args, hash } = call;
        self.check_disk()?;
        let engine = self.context.engine;
        let only_key = if command.has_one_key { args.get(1) } else { None };
        let hint = only_key.map(|key| (key, hash.unwrap_or_else(|| engine.keyspace.hash(key))));
        let mut locked = match hint {
            Some((_, hash)) => self.lock_one(engine.keyspace.shard_of(hash))?,
            None => self.lock(shards_held_for(engine, command, args))?,
        };
        if command.info.traits.has(Traits::FOLLOWS_LINKS) {
            locked = lock_linked(engine, locked, (command, args, self.session.database), |shards| {
                self.lock(shards)
            })?;
        }
        let Context { active, now_ms, random_state, collected, outbox, .. } = &mut self.context;
        let (database, now_ms) = (self.session.database, *now_ms);
        let (settings, mode) = (&active.settings, Mode::default());
        let mut access = Access::new(locked, database, now_ms, settings, mode, random_state, collected);
        access.begin_applying();
        if let Some((key, hash)) = hint {
            access.hint(key, hash);
        }
        // A value that can not be read ends the link, and a full synchronization follows: nothing may be left
        // out.
        fetch::bring(engine, &access, command, args).map_err(|error| error.text().into_owned())?;
        let outcome = handler(&mut access, args, &mut self.reply);
        let to_free = commit(engine, outbox, &mut access, None, true);
        let raw = &bytes[progress.logged..];
        append(outbox, access.locked_mut(), raw, (now_ms / 1000, database));
        (progress.logged, progress.applied, progress.read) = (bytes.len(), bytes.len(), bytes.len());
        drop(access);
        lazy_free::free(engine, to_free);
        self.end_call(command, args, &outcome);
        match outcome {
            Ok(()) => Ok(()),
            Err(error) => self.note_failure(args, &error.text()),
        }
    }

    /// Runs the commands of a part of `bytes` with these shards locked, and appends to the log all that waits
    /// for that. If a value that they need can not be read, none of them runs.
    fn apply_unit(
        &mut self,
        bytes: &[u8],
        unit: Range<usize>,
        shards: ShardSet,
        progress: &mut Progress,
    ) -> Result<(), String> {
        self.check_disk()?;
        let body = &bytes[unit.clone()];
        let locked = self.lock(shards)?;
        let active = Arc::clone(&self.context.active);
        let (mut random_state, mut collected) = (self.context.random_state, Collected::default());
        let (database, now_ms) = (self.session.database, self.context.now_ms);
        let (settings, mode) = (&active.settings, Mode::default());
        let (random, collected) = (&mut random_state, &mut collected);
        let mut access = Access::new(locked, database, now_ms, settings, mode, random, collected);
        access.begin_applying();
        if self.context.engine.tier.is_used() {
            self.bring_unit(&mut access, body)?;
        }
        progress.applied = unit.end;
        let mut failed = Vec::new();
        let (mut parser, mut batch, mut position) = (RequestParser::default(), Batch::default(), 0);
        while position < body.len() {
            batch.parse(body, &mut position, &mut parser, &RequestLimits::TRUSTED);
            for request in &batch.requests {
                let args = request.args(body, &batch.slices);
                if let Err(reason) = self.run_held(&mut access, args) {
                    failed.push((args.at(0).to_vec(), reason));
                }
            }
        }
        access.select(self.session.database);
        let (engine, outbox) = (self.context.engine, &mut self.context.outbox);
        let to_free = commit(engine, outbox, &mut access, None, true);
        let from = std::mem::replace(&mut progress.logged, progress.applied);
        let raw = &bytes[from..progress.applied];
        append(outbox, access.locked_mut(), raw, (now_ms / 1000, self.session.database));
        drop(access);
        self.context.random_state = random_state;
        lazy_free::free(engine, to_free);
        failed.iter().try_for_each(|(name, reason)| self.note_failure_of(name, reason))
    }

    /// Reads the values on disk that a unit needs before any of its commands runs.
    fn bring_unit(&mut self, access: &mut Access<'_>, body: &[u8]) -> Result<(), String> {
        let mut database = self.session.database;
        let (mut parser, mut batch, mut position) = (RequestParser::default(), Batch::default(), 0);
        while position < body.len() {
            batch.parse(body, &mut position, &mut parser, &RequestLimits::TRUSTED);
            for request in &batch.requests {
                let args = request.args(body, &batch.slices);
                database = fetch::database_after(args, database);
                if database < access.database_count() {
                    access.select(database);
                    let command = replay::command_of(&mut self.context, args)?;
                    fetch::bring(self.context.engine, access, command, args)
                        .map_err(|error| error.text().into_owned())?;
                }
            }
        }
        Ok(())
    }

    /// Runs a command of a unit under the locks of `access`.
    fn run_held(&mut self, access: &mut Access<'_>, args: Args<'_>) -> Result<(), String> {
        let command = replay::command_of(&mut self.context, args)?;
        let outcome = match command.info.in_stream {
            InStream::Begins | InStream::Ends | InStream::Talks => Ok(()),
            _ if !may_run(command) => {
                return Err(format!("ERR '{}' is no command of a primary's stream", command.name));
            }
            _ => {
                access.select(self.session.database);
                let call = Call::new(command, args);
                call::invoke(&mut self.context, &mut self.session, call, Some(access), &mut self.reply)
            }
        };
        let to_free = commit(self.context.engine, &mut self.context.outbox, access, None, false);
        access.keep_lazy_free(to_free);
        self.end_call(command, args, &outcome);
        outcome.map_err(|error| error.text().into_owned())
    }

    /// Runs a command that changes no data.
    fn run_unlocked(&mut self, command: &'static Command, args: Args<'_>) -> Result<(), String> {
        let outcome = match command.info.in_stream {
            InStream::Talks => Ok(()),
            _ => {
                let call = Call::new(command, args);
                call::invoke(&mut self.context, &mut self.session, call, None, &mut self.reply)
            }
        };
        self.end_call(command, args, &outcome);
        match outcome {
            Ok(()) => Ok(()),
            Err(error) => self.note_failure(args, &error.text()),
        }
    }

    #[inline]
    fn end_call(&mut self, command: &'static Command, args: Args<'_>, outcome: &Outcome) {
        if self.reply.has_overflowed() {
            self.reply = new_reply();
        }
        self.reply.truncate(0);
        let call = Call::new(command, args);
        call::show(&mut self.context, &self.session, call);
        calls::ended(&mut self.context, &self.session, (command, args), outcome);
    }

    #[cold]
    fn note_failure(&self, args: Args<'_>, reason: &str) -> Result<(), String> {
        self.note_failure_of(args.at(0), reason)
    }

    fn note_failure_of(&self, name: &[u8], reason: &str) -> Result<(), String> {
        let name = String::from_utf8_lossy(name);
        let outcome = replay::note_failure(&self.context, Origin::Primary, &name, reason);
        if outcome.is_err() {
            self.context.engine.host().shut_down(1);
        }
        outcome
    }
}

fn new_reply() -> Reply {
    Reply::new(Protocol::Resp2).limited(REPLY_BYTES_MAX)
}

/// Whether a command may come from a primary: what writes, and what is passed on. Others belong to a client's
/// connection, or lock shards of their own.
fn may_run(command: &Command) -> bool {
    let flags = command.info.flags;
    match (command.info.in_stream, command.handler) {
        (InStream::Never, _) | (_, None) => false,
        (InStream::Runs | InStream::ChangesNothing, _) | (_, Some(Handler::Data(_))) => true,
        _ => flags.has(Flags::WRITE) || flags.has(Flags::MAY_REPLICATE),
    }
}

/// Appends a primary's bytes to the log, in which `database` is selected behind them.
#[inline]
fn append(outbox: &mut Outbox, locked: &mut LockedShards<'_>, bytes: &[u8], (now_s, database): (i64, usize)) {
    let engine = outbox.engine();
    outbox.unit.set_verbatim(bytes, database);
    let lsn = engine.log.append(&mut outbox.unit, now_s);
    outbox.note_logged(lsn);
    if engine.aof.holds_replies() {
        locked.note_logged(lsn);
    }
    outbox.send_waiting();
}
