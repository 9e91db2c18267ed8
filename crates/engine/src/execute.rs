//! Requests of clients: each is run, queued, refused or postponed. Messages for the same client that the
//! request causes are put before or after its reply here.
//!
//! A request that leaves work runs again once that is done, from its beginning: whatever keeps a request from
//! running keeps it from running then.

use std::sync::atomic::Ordering;

use mantissa_commands::spec::{Flags, Traits};
use mantissa_commands::{Error, parse};
use mantissa_protocol::{Args, Reply};
use mantissa_store::KeyHash;

use crate::call::{self, Call};
use crate::context::Context;
use crate::invocation::{Command, Handler};
use crate::session::{ReplyMode, Session, flag};
use crate::tier::fetch;
use crate::{admission, calls, eviction, tracking, transaction, warning};

/// Most bytes that are kept of a reply that is not sent (CLIENT REPLY OFF or SKIP).
const SUPPRESSED_BYTES_MAX: usize = 64 << 10;

/// The outcome of [`execute`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The request has run, was queued or was refused, and its reply is written.
    Done,
    /// CLIENT PAUSE or a failover holds it back. The caller executes it again later.
    HeldBack,
    /// It waits for work of this server: a slow disk, a value on disk or another long read
    /// ([`Context::puts_off_images`]). The caller executes it again later.
    Postponed,
    /// The request has left a large value to read, as [`Context::leaves_images`] allows. The caller calls
    /// [`read_image`], which replies.
    Image,
}

/// Runs one request of a client. `command` is what it calls, if that is known; `hint` is the hash of its
/// first key, if that has been computed.
#[inline]
pub fn execute(
    context: &mut Context,
    session: &mut Session,
    request: (Option<&'static Command>, Args<'_>),
    hint: Option<KeyHash>,
    reply: &mut Reply,
) -> Progress {
    if !session.reply_mode.is_silent() {
        return run(context, session, request, hint, (reply, None));
    }
    let mut suppressed = Reply::new(session.protocol).limited(SUPPRESSED_BYTES_MAX);
    run(context, session, request, hint, (reply, Some(&mut suppressed)))
}

/// Runs a request. What it replies goes to `suppressed`, if there is that, and messages to `reply`.
fn run(
    context: &mut Context,
    session: &mut Session,
    (command, args): (Option<&'static Command>, Args<'_>),
    hint: Option<KeyHash>,
    (reply, mut suppressed): (&mut Reply, Option<&mut Reply>),
) -> Progress {
    let mut start = reply.len();
    let resolved = match command.map_or_else(|| context.resolve(args), Ok) {
        Ok(command) => {
            session.shared.last_command.store(command.index as u32 + 1, Ordering::Relaxed);
            release_kept_lock(context, command);
            evict(context, session, reply);
            start = reply.len();
            let admitted = admission::of_request(context, session, command, args);
            admitted.map(|()| command).map_err(|error| (Some(command), error))
        }
        Err(error) => Err((None, error)),
    };
    let command = match resolved {
        Ok(command) => command,
        Err(_) if is_http(args) => {
            warning!("A client spoke HTTP, maybe a page that tries to reach the server: it is closed");
            session.killed = true;
            return Progress::Done;
        }
        Err((_, error)) if error == admission::AWAITS_ROLE => return Progress::HeldBack,
        Err((command, error)) => {
            reject(context, session, command, error, suppressed.as_deref_mut().unwrap_or(reply));
            finish(context, session, None, args, (reply, start, suppressed));
            return Progress::Done;
        }
    };
    let queues = session.transaction.is_some() && !command.info.traits.has(Traits::NOT_QUEUED);
    if let Some(progress) = hold_back(context, session, (command, args), queues) {
        return progress;
    }
    if context.engine.tier.is_used() && !queues {
        match prepare(context, session, (command, args)) {
            fetch::Ready::Now => fetch::allow_rerun(context, session),
            fetch::Ready::Later => return Progress::Postponed,
            fetch::Ready::Never(error) => {
                reject(context, session, Some(command), error, suppressed.as_deref_mut().unwrap_or(reply));
                finish(context, session, None, args, (reply, start, suppressed));
                return Progress::Done;
            }
        }
    }
    if queues {
        transaction::queue(session, command, args, suppressed.as_deref_mut().unwrap_or(reply));
    } else {
        context.outbox.current = Some(session.shared.id);
        let call = Call { command, args, hash: hint };
        call::run_request(context, session, call, suppressed.as_deref_mut().unwrap_or(reply));
        context.outbox.current = None;
        context.outbox.command_ended();
        if session.rerun.is_noted && fetch::is_to_rerun(context, session) {
            reply.truncate(start);
            return Progress::Postponed;
        }
        if context.image.is_some() {
            return run_left(context, session, (command, args), hint, (reply, suppressed));
        }
    }
    finish(context, session, Some(command), args, (reply, start, suppressed));
    Progress::Done
}

/// Goes on with a request that has left an image, unless it is put off: does its work and runs it again, if
/// it has left that.
#[cold]
fn run_left(
    context: &mut Context,
    session: &mut Session,
    (command, args): (&'static Command, Args<'_>),
    hint: Option<KeyHash>,
    replies: (&mut Reply, Option<&mut Reply>),
) -> Progress {
    if call::take_put_off(context) {
        return Progress::Postponed;
    }
    if !call::do_work(context) {
        return Progress::Image;
    }
    let progress = run(context, session, (Some(command), args), hint, replies);
    // If the request is refused or postponed, the work was in vain.
    context.collected.set_work_done(None);
    progress
}

/// Releases the lock that the request before may have kept, unless the command is short and locks just the
/// shard of its key.
#[inline]
fn release_kept_lock(context: &mut Context, command: &Command) {
    if !std::mem::take(&mut context.has_kept_lock) {
        return;
    }
    let is_data = matches!(command.handler, Some(Handler::Data(_)));
    if !(is_data && command.has_one_key && command.info.flags.has(Flags::FAST)) {
        context.engine.keyspace.release_kept();
    }
}

/// How CLIENT PAUSE or a slow disk holds a request back, if one does.
#[inline]
fn hold_back(
    context: &Context,
    session: &Session,
    (command, args): (&Command, Args<'_>),
    queues: bool,
) -> Option<Progress> {
    let stalls = context.engine.aof.holds_writes();
    if !stalls && context.engine.pause.until_ms.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let may_write = transaction::may_write(context.engine, session, command, args);
    let is_paused = context.engine.pauses(context.now_ms, may_write);
    if is_paused && !command.info.traits.has(Traits::WHILE_PAUSED) {
        return Some(Progress::HeldBack);
    }
    (stalls && may_write && !queues).then_some(Progress::Postponed)
}

/// Prepares the values of a request ([`fetch::prepare`]), unless it may read much and would be put off: what
/// is read from disk for it might be given up before it runs.
fn prepare(
    context: &mut Context,
    session: &mut Session,
    (command, args): (&Command, Args<'_>),
) -> fetch::Ready {
    if context.puts_off_images && call::reads_much(command, args) {
        return fetch::Ready::Later;
    }
    fetch::prepare(context, session, (command, args))
}

/// Reads the large value that a request has left, and replies. If the reply has a sink it is streamed there.
/// False if the request has failed when a part of the reply had left: its client is to be closed.
pub fn read_image(context: &mut Context, session: &mut Session, args: Args<'_>, reply: &mut Reply) -> bool {
    let start = reply.len();
    let Some((command, is_whole)) = call::read_left_image(context, session, args, reply) else { return true };
    finish(context, session, Some(command), args, (reply, start, None));
    is_whole
}

/// Evicts keys if memory is full. Messages for the client that eviction causes come before its reply.
#[inline]
fn evict(context: &mut Context, session: &Session, reply: &mut Reply) {
    context.out_of_memory = eviction::evict_if_needed(context);
    if context.outbox.has_local() {
        context.outbox.take_for(session.conn).iter().for_each(|bytes| reply.raw(bytes));
    }
}

/// Adds messages for the same client to the reply that begins at `start`. `suppressed` is the reply of a
/// client that had turned replies off.
#[inline]
fn finish(
    context: &mut Context,
    session: &mut Session,
    command: Option<&'static Command>,
    args: Args<'_>,
    (reply, start, suppressed): (&mut Reply, usize, Option<&mut Reply>),
) {
    finish_reply(session, reply, suppressed);
    if session.shared.has(flag::TRACKING) {
        tracking::command_ended(context, session, command);
    }
    if context.outbox.has_local() {
        let messages = context.outbox.take_for(session.conn);
        let mut after = Vec::new();
        if !messages.is_empty() && command.is_some_and(|command| replies_last(context, command, args)) {
            after = reply.as_bytes().get(start..).unwrap_or_default().to_vec();
            reply.truncate(start);
        }
        messages.iter().for_each(|bytes| reply.raw(bytes));
        reply.raw(&after);
    }
}

/// Whether the reply comes after the messages that the command causes: true for commands that flush, unless
/// they free the data in the background.
fn replies_last(context: &Context, command: &Command, args: Args<'_>) -> bool {
    command.info.traits.has(Traits::REPLIES_LAST) && !context.active.flushes_lazily(args.get(1))
}

/// Whether a line is one that an HTTP client sends.
fn is_http(args: Args<'_>) -> bool {
    parse::is(args.at(0), "POST") || parse::is(args.at(0), "Host:")
}

/// Replies an error to a request that does not run.
fn reject(
    context: &mut Context,
    session: &mut Session,
    command: Option<&'static Command>,
    mut error: Error,
    reply: &mut Reply,
) {
    session.forget_fetches();
    context.engine.keyspace.release_kept();
    if command.is_some_and(|command| command.info.traits.has(Traits::RUNS_QUEUE)) {
        transaction::end(context, session);
        if !admission::Redirection::is_error(&error) {
            let reason = error.text().trim_start_matches("ERR ").to_owned();
            error = Error::new(format!("EXECABORT Transaction discarded because of: {reason}"));
        }
    } else if let Some(transaction) = &mut session.transaction {
        transaction.aborted = true;
    }
    calls::rejected(context, command, &error);
    reply.error_bytes(error.bytes());
}

/// Applies CLIENT REPLY after a command. `suppressed` is the reply of a client that had none coming. It is
/// sent if the command has changed that.
#[inline]
fn finish_reply(session: &mut Session, reply: &mut Reply, suppressed: Option<&mut Reply>) {
    if let Some(suppressed) = suppressed {
        reply.set_protocol(suppressed.protocol());
        if session.reply_mode == ReplyMode::On {
            reply.append(suppressed);
        }
    }
    match session.reply_mode {
        ReplyMode::On | ReplyMode::Off => {}
        ReplyMode::SkipNext => session.reply_mode = ReplyMode::Skip,
        // A blocked client's reply comes later, and that one is skipped.
        ReplyMode::Skip if session.blocked.is_some() => {}
        ReplyMode::Skip => session.reply_mode = ReplyMode::On,
    }
}
