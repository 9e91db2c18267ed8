//! Accounting of calls: time, failures, error codes, the logs of slow and large commands, latency events and
//! hot keys.
//!
//! A call counts once, when it ends: a client's request, a queued command of a transaction, a command that a
//! script calls, and a blocked command that has been served.

use mantissa_sys::QuickInstant;
use mantissa_sys::clock::unix_ms;
use std::time::Duration;

use mantissa_commands::spec::Flags;
use mantissa_commands::{Error, Outcome, find_keys};
use mantissa_protocol::Args;

use crate::command_log::{Cause, Kept, LoggedCommand};
use crate::context::Context;
use crate::invocation::Command;
use crate::secrets::shown_arguments;
use crate::session::{BlockedClient, Served, Session};
use crate::stats;

impl Context<'_> {
    /// Counts an error by its code, and marks the present call as failed.
    pub fn count_error(&mut self, text: &str) {
        self.engine.stats.count_error(self.worker, text);
        self.has_failed = true;
    }

    #[cold]
    #[inline(never)]
    fn read_clock(&mut self) {
        self.now_ms = unix_ms();
    }

    /// Nanoseconds since the present command began. The next one begins now.
    fn lap(&mut self) -> u64 {
        let now = QuickInstant::now();
        now.nanos_since(std::mem::replace(&mut self.command_began, now))
    }
}

/// The clock is read once for the requests that come together, and after a call of this time: what follows
/// one counts its expiries and deadlines from then.
const CLOCK_STEP_NS: u64 = 1_000_000;

/// Counts a call that has run. Its time is counted from the end of the call before it.
#[inline]
pub fn ended(
    context: &mut Context,
    session: &Session,
    call: (&'static Command, Args<'_>),
    outcome: &Outcome,
) {
    if let Err(error) = outcome {
        context.count_error(&error.text());
    }
    let spent_ns = context.lap();
    let failed = std::mem::take(&mut context.has_failed);
    record(context, session, call, spent_ns, failed);
    if spent_ns >= CLOCK_STEP_NS {
        context.read_clock();
    }
}

/// Counts a call that is refused before it runs. `command` is what it calls, if that is known.
pub fn rejected(context: &Context, command: Option<&Command>, error: &Error) {
    let stats = &context.engine.stats;
    if let Some(command) = command {
        stats::add(&stats.commands[context.worker][command.index].rejected, 1);
    }
    stats.count_error(context.worker, &error.text());
}

/// Stores the time that a call took until it blocked.
pub fn waits(context: &mut Context, blocked: &BlockedClient) {
    context.has_failed = false;
    blocked.spent_ns.store(context.lap(), std::sync::atomic::Ordering::Relaxed);
}

/// Counts the call of a blocked command that has been served, or has timed out.
pub fn ended_waiting(context: &mut Context, session: &Session, blocked: &BlockedClient, served: &Served) {
    let (command, args) = (blocked.command, blocked.args.as_args());
    let error = served.error();
    if let Some(error) = &error {
        context.engine.stats.count_error(context.worker, error);
    }
    if served.is_rejected {
        stats::add(&context.engine.stats.commands[context.worker][command.index].rejected, 1);
        return;
    }
    let spent_ns = blocked.spent_ns.load(std::sync::atomic::Ordering::Relaxed) + served.spent_ns;
    record(context, session, (command, args), spent_ns, error.is_some());
    note_latency(context, "command-unblocking", served.spent_ns);
}

/// Records a latency event if it took as long as `latency-monitor-threshold`.
#[inline]
pub fn note_latency(context: &Context, event: &'static str, spent_ns: u64) {
    if context.active.config.latency_monitor_threshold_ms > 0 {
        context.engine.note_latency(event, Duration::from_nanos(spent_ns));
    }
}

/// Counts a call and logs it if it was slow or large.
#[inline]
fn record(
    context: &mut Context,
    session: &Session,
    (command, args): (&'static Command, Args<'_>),
    spent_ns: u64,
    failed: bool,
) {
    if context.sampler.is_chosen(&mut context.random_state) {
        note_hot_key(context, session.database, command, args);
    }
    let engine = context.engine;
    stats::add(&engine.stats.workers[context.worker].commands, 1);
    stats::add(&session.shared.command_count, 1);
    let counters = &engine.stats.commands[context.worker][command.index];
    stats::add(&counters.calls, 1);
    stats::add(&counters.nanoseconds, spent_ns);
    let config = &context.active.config;
    if config.latency_tracking {
        counters.histogram.get_or_init(Box::default).record(spent_ns);
    }
    let is_fast = command.info.flags.has(Flags::FAST);
    note_latency(context, if is_fast { "fast-command" } else { "command" }, spent_ns);
    if failed {
        stats::add(&counters.failed, 1);
    }
    if context.in_script {
        stats::add(&engine.stats.workers[context.worker].scripted_ns, spent_ns);
    }
    let threshold = config.slowlog_log_slower_than_us;
    if threshold >= 0 && spent_ns / 1000 >= threshold as u64 {
        log(context, session, (command, args), Cause::Slow, spent_ns / 1000);
    }
    let span = args.span() as u64;
    // Without a limit, -1, no request is large.
    if span >= config.commandlog_request_larger_than as u64 {
        log(context, session, (command, args), Cause::LargeRequest, span);
    }
}

/// Logs a request whose reply has `bytes` if these are many.
#[inline]
pub fn replied(context: &Context, session: &Session, call: (&'static Command, Args<'_>), bytes: usize) {
    // Without a limit, -1, no reply is large.
    if bytes as u64 >= context.active.config.commandlog_reply_larger_than as u64 {
        log(context, session, call, Cause::LargeReply, bytes as u64);
    }
}

/// Logs a command for a cause that `figure` tells: microseconds or bytes.
#[cold]
fn log(
    context: &Context,
    session: &Session,
    (command, args): (&'static Command, Args<'_>),
    cause: Cause,
    figure: u64,
) {
    if command.info.flags.has(Flags::SKIP_SLOWLOG) {
        return;
    }
    let (mut peer, mut name) = (String::new(), Vec::new());
    if !context.in_script {
        peer = session.shared.peer.remote_text().to_string();
        name = session.shared.identity.lock().name.clone();
    }
    let config = &context.active.config;
    let logged = LoggedCommand {
        unix_seconds: context.now_ms / 1000,
        figure: i64::try_from(figure).unwrap_or(i64::MAX),
        peer: peer.as_bytes(),
        client_name: &name,
        kept: Kept {
            arguments_max: config.slowlog_entry_max_argc as usize,
            argument_bytes_max: usize::try_from(config.slowlog_entry_max_string_len).unwrap_or(usize::MAX),
        },
    };
    let shown = shown_arguments(command.info.secrets, args);
    let entries_max = match cause {
        Cause::Slow => config.slowlog_max_len,
        Cause::LargeRequest => config.commandlog_large_request_max_len,
        Cause::LargeReply => config.commandlog_large_reply_max_len,
    };
    context.engine.command_log(cause).record(logged, shown, entries_max);
}

/// Counts one of the command's keys, picked at random, in the worker's sketch.
#[cold]
fn note_hot_key(context: &Context, database: usize, command: &Command, args: Args<'_>) {
    let Ok(keys) = find_keys(command.info, args) else { return };
    if keys.is_empty() {
        return;
    }
    // Its weight is the number of keys.
    let chosen = (context.random_state >> 20) as usize % keys.len();
    let key = args.at(keys[chosen].index);
    let hash = context.engine.keyspace.hash(key).0 ^ database as u64;
    let hot_keys = &context.engine.hot_keys;
    hot_keys.note(context.worker, (hash, database, key), keys.len() as f32, context.now_ms);
}
