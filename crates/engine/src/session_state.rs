//! The state of a session in a form that another process can take over: see the hand-over of an upgrade in
//! the server.
//!
//! What registers a session with the engine is kept as the commands that do so (SUBSCRIBE, WATCH, MULTI and
//! what it has queued, the command that it waits in). Restoring runs them again, in silence and without the
//! checks for clients. The rest is pairs of a name and a value; names that are not known are left out, so
//! that two versions understand each other.
//!
//! Invariant: while sessions are captured and until they are restored no command runs in either process. So a
//! watched key has not changed in between, and a command that waited waits again. Of one that comes later
//! this is not known ([`SessionState::miss_changes`]).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use mantissa_commands::{Error, Outcome};
use mantissa_protocol::{Args, OwnedArgs, Protocol, Reply, decode_request, encode_request};

use crate::blocking::Deadlines;
use crate::call::{self, Call};
use crate::context::Context;
use crate::engine::Engine;
use crate::host::{Peer, Target};
use crate::registry::Command;
use crate::replication::passing::{self, PassedReplica};
use crate::session::{ReplyMode, Session, SharedSession, flag};
use crate::{sessions, stats, tracking, transaction};

/// Bits of the flags that are values of their own; the others follow from the commands.
const OWN_FLAGS: u32 = flag::NO_EVICT | flag::NO_TOUCH | flag::REDIRECTED | flag::READONLY;

/// A command that a session waits in.
struct Waiting {
    args: OwnedArgs,
    database: usize,
    /// When it began to wait, Unix time in ms: its timeout counts from there.
    since_ms: i64,
    /// Its place in line: lower ones are served first.
    ticket: u64,
}

/// The state of a session.
#[derive(Default)]
pub struct SessionState {
    id: u64,
    user: Vec<u8>,
    authenticated: bool,
    resp3: bool,
    database: usize,
    /// CLIENT REPLY, as [`reply_mode_number`] has it.
    reply_mode: u64,
    flags: u32,
    connected_ms: i64,
    active_ms: i64,
    received_bytes: u64,
    sent_bytes: u64,
    command_count: u64,
    name: Vec<u8>,
    library_name: Vec<u8>,
    library_version: Vec<u8>,
    /// Commands that register it, each with its database.
    commands: Vec<(usize, OwnedArgs)>,
    /// Commands queued since MULTI.
    queued: Option<Vec<OwnedArgs>>,
    /// EXEC will refuse.
    aborted: bool,
    /// A watched key has changed.
    dirty: bool,
    tracking_flags: u32,
    redirect: u64,
    prefixes: Vec<Vec<u8>>,
    /// The field sets of HIMPORT: the name of each and its fields.
    field_sets: Vec<OwnedArgs>,
    waiting: Option<Waiting>,
    /// The offset behind its last write that was logged; 0 if there is none.
    logged_offset: u64,
    replica: Option<PassedReplica>,
}

fn reply_mode_number(mode: ReplyMode) -> u64 {
    match mode {
        ReplyMode::On => 0,
        ReplyMode::Off => 1,
        ReplyMode::SkipNext => 2,
        ReplyMode::Skip => 3,
    }
}

fn reply_mode_of(number: u64) -> ReplyMode {
    match number {
        0 => ReplyMode::On,
        1 => ReplyMode::Off,
        2 => ReplyMode::SkipNext,
        _ => ReplyMode::Skip,
    }
}

fn words(words: &[&[u8]]) -> OwnedArgs {
    OwnedArgs::from_slices(words)
}

impl SessionState {
    /// The state of a session, which no thread serves.
    pub fn of(engine: &Engine, session: &Session) -> SessionState {
        let shared = &session.shared;
        let identity = shared.identity.lock().clone();
        let mut commands = Vec::new();
        if let Some(subscriptions) = &session.subscriptions {
            let lists = [
                (&b"SUBSCRIBE"[..], &subscriptions.channels),
                (b"PSUBSCRIBE", &subscriptions.patterns),
                (b"SSUBSCRIBE", &subscriptions.shard_channels),
            ];
            for (command, names) in lists {
                names.iter().for_each(|name| commands.push((0, words(&[command, name]))));
            }
        }
        if shared.has(flag::MONITOR) {
            commands.push((0, words(&[b"MONITOR"])));
        }
        for (database, key) in session.watching.iter().flat_map(|watching| &watching.keys) {
            commands.push((*database, words(&[b"WATCH", key])));
        }
        let transaction = session.transaction.as_deref();
        let queued = transaction.map(|it| it.queue.iter().map(|queued| queued.args.clone()).collect());
        let waiting = session.blocked.as_ref().map(|blocked| Waiting {
            args: blocked.args.clone(),
            database: blocked.database,
            since_ms: blocked.since_ms,
            ticket: blocked.ticket,
        });
        let flags = shared.flags.load(Ordering::Relaxed);
        let prefixes = session.tracker.iter().flat_map(|tracker| &tracker.prefixes);
        let field_sets = session.field_sets.iter().flat_map(|sets| sets.iter());
        SessionState {
            id: shared.id,
            user: session.user.name.to_vec(),
            authenticated: session.authenticated,
            resp3: session.protocol == Protocol::Resp3,
            database: session.database,
            reply_mode: reply_mode_number(session.reply_mode),
            flags: flags & OWN_FLAGS,
            connected_ms: shared.connected_ms,
            active_ms: shared.active_ms.load(Ordering::Relaxed),
            received_bytes: shared.received_bytes.load(Ordering::Relaxed),
            sent_bytes: shared.sent_bytes.load(Ordering::Relaxed),
            command_count: shared.command_count.load(Ordering::Relaxed),
            name: identity.name,
            library_name: identity.library_name,
            library_version: identity.library_version,
            commands,
            queued,
            aborted: transaction.is_some_and(|transaction| transaction.aborted),
            dirty: session.watching.as_ref().is_some_and(|it| it.dirty.load(Ordering::Acquire)),
            tracking_flags: flags & (flag::ALL_TRACKING & !flag::TRACKING_BROKEN),
            redirect: shared.redirect.load(Ordering::Relaxed),
            prefixes: prefixes.map(|prefix| prefix.to_vec()).collect(),
            field_sets: field_sets
                .map(|(name, fields)| {
                    let fields = fields.iter().map(|field| &field[..]);
                    OwnedArgs::from_slices(&std::iter::once(name).chain(fields).collect::<Vec<_>>())
                })
                .collect(),
            waiting,
            logged_offset: passing::passed_lsn(engine, session.logged_lsn),
            replica: PassedReplica::of(engine, session),
        }
    }

    /// Sessions are restored in this order: first those whom others may redirect messages to, at the end
    /// those that wait, by their place in line.
    pub fn place(&self) -> (bool, bool, u64) {
        let ticket = self.waiting.as_ref().map(|waiting| waiting.ticket);
        (ticket.is_some(), self.redirect != 0, ticket.unwrap_or(0))
    }

    /// It waits for nothing: another answers its command.
    pub fn wait_no_longer(&mut self) {
        self.waiting = None;
    }

    /// The number of the client.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The highest database that it uses.
    pub fn highest_database(&self) -> usize {
        let waits_in = self.waiting.iter().map(|waiting| waiting.database);
        let used = self.commands.iter().map(|(database, _)| *database).chain(waits_in);
        used.fold(self.database, usize::max)
    }

    /// Appends it as one request.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut pairs: Vec<(&[u8], Vec<u8>)> = Vec::new();
        let number = |value: u64| value.to_string().into_bytes();
        pairs.extend([
            (&b"id"[..], number(self.id)),
            (b"user", self.user.clone()),
            (b"authenticated", number(self.authenticated.into())),
            (b"resp3", number(self.resp3.into())),
            (b"database", number(self.database as u64)),
            (b"reply-mode", number(self.reply_mode)),
            (b"flags", number(self.flags.into())),
            (b"connected-ms", number(self.connected_ms as u64)),
            (b"active-ms", number(self.active_ms as u64)),
            (b"received-bytes", number(self.received_bytes)),
            (b"sent-bytes", number(self.sent_bytes)),
            (b"command-count", number(self.command_count)),
            (b"name", self.name.clone()),
            (b"library-name", self.library_name.clone()),
            (b"library-version", self.library_version.clone()),
            (b"tracking-flags", number(self.tracking_flags.into())),
            (b"redirect", number(self.redirect)),
            (b"aborted", number(self.aborted.into())),
            (b"dirty", number(self.dirty.into())),
            (b"logged-offset", number(self.logged_offset)),
        ]);
        pairs.extend(self.replica.iter().flat_map(PassedReplica::encode));
        pairs.extend(self.prefixes.iter().map(|prefix| (&b"prefix"[..], prefix.clone())));
        let request = |args: &OwnedArgs| {
            let mut bytes = Vec::new();
            encode_request(&mut bytes, args.as_args().iter());
            bytes
        };
        pairs.extend(self.field_sets.iter().map(|set| (&b"field-set"[..], request(set))));
        for (database, args) in &self.commands {
            pairs.push((b"in-database", number(*database as u64)));
            pairs.push((b"run", request(args)));
        }
        for (at, args) in self.queued.iter().flatten().enumerate() {
            pairs.push((if at == 0 { b"queue-first" } else { b"queue" }, request(args)));
        }
        if self.queued.as_ref().is_some_and(Vec::is_empty) {
            pairs.push((b"queue-empty", Vec::new()));
        }
        if let Some(waiting) = &self.waiting {
            pairs.push((b"waits-since-ms", number(waiting.since_ms as u64)));
            pairs.push((b"ticket", number(waiting.ticket)));
            pairs.push((b"in-database", number(waiting.database as u64)));
            pairs.push((b"waits", request(&waiting.args)));
        }
        let all: Vec<&[u8]> = pairs.iter().flat_map(|(name, value)| [*name, value.as_slice()]).collect();
        encode_request(out, all);
    }

    /// What [`SessionState::encode`] made. `None` if it is not that.
    pub fn decode(args: Args<'_>) -> Option<SessionState> {
        let mut state = SessionState::default();
        let (mut database, mut since_ms, mut ticket) = (0, 0, 0);
        let number = |value: &[u8]| mantissa_number::parse_u64(value);
        for at in (0..args.len()).step_by(2) {
            let value = args.get(at + 1)?;
            match args.at(at) {
                b"id" => state.id = number(value)?,
                b"user" => state.user = value.to_vec(),
                b"authenticated" => state.authenticated = number(value)? != 0,
                b"resp3" => state.resp3 = number(value)? != 0,
                b"database" => state.database = number(value)? as usize,
                b"reply-mode" => state.reply_mode = number(value)?,
                b"flags" => state.flags = number(value)? as u32 & OWN_FLAGS,
                b"connected-ms" => state.connected_ms = number(value)? as i64,
                b"active-ms" => state.active_ms = number(value)? as i64,
                b"received-bytes" => state.received_bytes = number(value)?,
                b"sent-bytes" => state.sent_bytes = number(value)?,
                b"command-count" => state.command_count = number(value)?,
                b"name" => state.name = value.to_vec(),
                b"library-name" => state.library_name = value.to_vec(),
                b"library-version" => state.library_version = value.to_vec(),
                b"tracking-flags" => state.tracking_flags = number(value)? as u32 & flag::ALL_TRACKING,
                b"redirect" => state.redirect = number(value)?,
                b"aborted" => state.aborted = number(value)? != 0,
                b"dirty" => state.dirty = number(value)? != 0,
                b"logged-offset" => state.logged_offset = number(value)?,
                b"prefix" => state.prefixes.push(value.to_vec()),
                b"field-set" => state.field_sets.push(decode_request(value)?),
                b"in-database" => database = number(value)? as usize,
                b"run" => state.commands.push((database, decode_request(value)?)),
                b"queue-empty" => state.queued = Some(Vec::new()),
                b"queue-first" | b"queue" => {
                    state.queued.get_or_insert_default().push(decode_request(value)?)
                }
                b"waits-since-ms" => since_ms = number(value)? as i64,
                b"ticket" => ticket = number(value)?,
                b"waits" => {
                    state.waiting =
                        Some(Waiting { args: decode_request(value)?, database, since_ms, ticket });
                }
                name if name.starts_with(b"replica-") => {
                    state.replica.get_or_insert_default().take(name, value)?;
                }
                _ => {}
            }
        }
        Some(state)
    }

    /// Commands have run since it was captured: what it watches may have changed.
    pub fn miss_changes(&mut self) {
        self.dirty = true;
    }

    /// A session in this state. It is in no worker's hands yet: messages for it reach nobody until its target
    /// is set. Behind it the reply to the command that it waited in, if it has no longer to wait. A command
    /// that fails where it did not is an error, but for the one that it waited in.
    pub fn restore(
        &self,
        context: &mut Context,
        peer: Peer,
        descriptor: i32,
    ) -> Result<(Session, Vec<u8>), String> {
        let mut session = self.begin(context, peer, descriptor)?;
        match self.register(context, &mut session) {
            Ok(reply) => Ok((session, reply)),
            Err(reason) => {
                sessions::end(context, &mut session, &mut Deadlines::default());
                Err(reason)
            }
        }
    }

    /// A session that is registered for nothing yet.
    fn begin(&self, context: &mut Context, peer: Peer, descriptor: i32) -> Result<Session, String> {
        let engine = context.engine;
        let user = engine.acl.user(&self.user).ok_or("its user is gone")?;
        let now_ms = self.connected_ms;
        let shared = Arc::new(SharedSession::new(self.id, peer, descriptor, now_ms, Target::NOWHERE, &user));
        engine.clients.write().insert(shared.id, Arc::clone(&shared));
        stats::add(&engine.stats.workers[context.worker].connections, 1);
        shared.active_ms.store(self.active_ms, Ordering::Relaxed);
        shared.received_bytes.store(self.received_bytes, Ordering::Relaxed);
        shared.sent_bytes.store(self.sent_bytes, Ordering::Relaxed);
        shared.command_count.store(self.command_count, Ordering::Relaxed);
        shared.change_identity(|identity| {
            identity.name.clone_from(&self.name);
            identity.library_name.clone_from(&self.library_name);
            identity.library_version.clone_from(&self.library_version);
        });
        let mut session = Session::new(shared, Target::NOWHERE.conn, self.authenticated);
        session.set_protocol(if self.resp3 { Protocol::Resp3 } else { Protocol::Resp2 });
        session.logged_lsn = passing::lsn_passed(engine, self.logged_offset);
        Ok(session)
    }

    /// Registers a session for what it was. Returns the reply to the command that it waited in, if any.
    fn register(&self, context: &mut Context, session: &mut Session) -> Result<Vec<u8>, String> {
        let engine = context.engine;
        if let Some(replica) = &self.replica {
            replica.restore(engine, session)?;
        }
        let mut reply = Vec::new();
        for (database, args) in &self.commands {
            session.select(*database);
            run_own(context, session, args).map_err(text)?;
        }
        if let Some(watching) = session.watching.as_ref().filter(|_| self.dirty) {
            watching.dirty.store(true, Ordering::Release);
        }
        for set in &self.field_sets {
            let (sets, set) = (session.field_sets.get_or_insert_default(), set.as_args());
            sets.insert(set.at(0), set.from(1).iter()).map_err(|_| "a field comes twice")?;
        }
        session.select(self.database);
        session.no_touch = self.flags & flag::NO_TOUCH != 0;
        session.shared.mark(self.flags, true);
        if self.tracking_flags & flag::TRACKING != 0 {
            let prefixes: Vec<&[u8]> = self.prefixes.iter().map(Vec::as_slice).collect();
            let mode = tracking::Mode { flags: self.tracking_flags, redirect: self.redirect };
            tracking::turn_on(engine, session, mode, &prefixes);
        }
        if let Some(queued) = &self.queued {
            run_own(context, session, &words(&[b"MULTI"])).map_err(text)?;
            self.queue(context, session, queued)?;
        }
        if let Some(waiting) = &self.waiting {
            session.select(waiting.database);
            let now_ms = std::mem::replace(&mut context.now_ms, waiting.since_ms);
            let outcome = run(context, session, &waiting.args);
            context.now_ms = now_ms;
            session.select(self.database);
            reply = outcome.unwrap_or_else(|error| {
                // Its key has another type by now, or its group is gone.
                let mut reply = Reply::new(session.protocol);
                reply.error_bytes(error.bytes());
                reply.into_bytes()
            });
            if session.blocked.is_some() || reply_mode_of(self.reply_mode).is_silent() {
                reply.clear();
            }
        }
        session.set_reply_mode(reply_mode_of(self.reply_mode));
        Ok(reply)
    }

    fn queue(
        &self,
        context: &mut Context,
        session: &mut Session,
        queued: &[OwnedArgs],
    ) -> Result<(), String> {
        let mut scrap = Reply::new(session.protocol);
        for args in queued {
            let command = context.resolve(args.as_args()).map_err(text)?;
            transaction::queue(session, command, args.as_args(), &mut scrap);
            scrap.truncate(0);
        }
        if let Some(transaction) = &mut session.transaction {
            transaction.aborted = self.aborted;
        }
        Ok(())
    }
}

/// Runs one of [`SessionState::commands`], which have the names that commands have without `rename-command`.
fn run_own(context: &mut Context, session: &mut Session, args: &OwnedArgs) -> Outcome<Vec<u8>> {
    let command = context.engine.original_registry.resolve(args.as_args())?;
    invoke(context, session, command, args)
}

/// Runs a command of the client.
fn run(context: &mut Context, session: &mut Session, args: &OwnedArgs) -> Outcome<Vec<u8>> {
    let command = context.resolve(args.as_args())?;
    invoke(context, session, command, args)
}

/// Runs a command for a session, without the checks for clients. Returns its reply.
fn invoke(
    context: &mut Context,
    session: &mut Session,
    command: &'static Command,
    args: &OwnedArgs,
) -> Outcome<Vec<u8>> {
    let args = args.as_args();
    let mut reply = Reply::new(session.protocol);
    call::invoke(context, session, Call::new(command, args), None, &mut reply)?;
    Ok(reply.into_bytes())
}

fn text(error: Error) -> String {
    error.text().into_owned()
}
