//! Bounds on clients: how many, how idle, how much they send and leave unread.

use std::sync::atomic::Ordering;

use mantissa_engine::config::{Config, OutputBufferLimit};
use mantissa_engine::context::Context;
use mantissa_engine::session::flag;
use mantissa_engine::{Engine, stats, warning};
use mantissa_net::Peer;

use crate::conn_id::peer_of;
use crate::connection::Connection;
use crate::network::Network;

/// The bytes that a client may leave unread before it has logged in: what Redis's reply buffer and its limit
/// for such clients come to.
const UNAUTHENTICATED_OUTPUT_BYTES_MAX: usize = 17 << 10;
/// What a client may always leave unread: as in Redis, where a client's first 16 KB do not count. Else a
/// limit that is too small could not be taken back.
const ALWAYS_FREE_BYTES: u64 = 16 << 10;

/// The error for a new connection that is not to be served, if so.
pub fn refusal(engine: &Engine, network: &Network, config: &Config, peer: &Peer) -> Option<&'static str> {
    if network.open_count.load(Ordering::Relaxed) >= config.maxclients as usize {
        return Some("-ERR max number of clients reached\r\n");
    }
    let protected = config.protected_mode && engine.acl.default_user().rights().no_password;
    (protected && !peer_of(peer).is_loopback()).then_some(
        "-DENIED Mantissa runs in protected mode: no password is set, so only connections from this machine \
         are served. To accept others: set a password (requirepass), or turn the mode off with CONFIG SET \
         protected-mode no from this machine, or start the server with --protected-mode no.\r\n",
    )
}

/// The limits of a client's class.
fn output_limit<'a>(config: &'a Config, connection: &Connection) -> &'a OutputBufferLimit {
    let class = match () {
        () if connection.is_replica => 1,
        () if connection.session.shared.has(flag::PUBSUB) => 2,
        () => 0,
    };
    &config.client_output_buffer_limits[class]
}

/// A limit as it counts, in bytes; 0 is none. What a client may leave unread in any case is no less.
fn in_force(bytes: u64, config: &Config, connection: &Connection) -> u64 {
    match connection.is_replica {
        _ if bytes == 0 => 0,
        true => bytes.max(config.repl_backlog_size),
        false => bytes.max(ALWAYS_FREE_BYTES),
    }
}

/// The bytes that a client may leave unread. For a replica that is never less than the backlog.
pub fn output_bytes_max(context: &Context, connection: &Connection) -> usize {
    let config = &context.active.config;
    let bytes_max = match in_force(output_limit(config, connection).hard_bytes, config, connection) {
        0 => usize::MAX,
        bytes => usize::try_from(bytes).unwrap_or(usize::MAX),
    };
    let is_logged_in = connection.session.authenticated || !context.engine.acl.needs_login();
    match is_logged_in || connection.wire.is_http() {
        true => bytes_max,
        false => bytes_max.min(UNAUTHENTICATED_OUTPUT_BYTES_MAX),
    }
}

/// Whether a client has left more unread than its class may. Keeps track of how long the soft limit has been
/// exceeded.
fn output_exceeded(context: &Context, connection: &mut Connection, unsent: u64) -> bool {
    let (config, now_ms) = (&context.active.config, context.now_ms);
    let limit = output_limit(config, connection);
    if unsent >= output_bytes_max(context, connection) as u64 {
        return true;
    }
    let soft_bytes = in_force(limit.soft_bytes, config, connection);
    if soft_bytes == 0 || unsent < soft_bytes {
        connection.soft_limit_since_ms = 0;
        return false;
    }
    if connection.soft_limit_since_ms == 0 {
        connection.soft_limit_since_ms = now_ms;
    }
    (now_ms - connection.soft_limit_since_ms) / 1000 > limit.soft_seconds as i64
}

/// Marks a client for closing if it has left more unread than it may.
pub fn bound_output(context: &Context, connection: &mut Connection, unsent: u64) {
    if !connection.session.killed && output_exceeded(context, connection, unsent) {
        if connection.is_replica {
            log_slow_replica(context, connection, unsent);
        }
        close_for_output(context, connection);
    }
}

fn log_slow_replica(context: &Context, connection: &Connection, unsent: u64) {
    let config = &context.active.config;
    let limit = output_limit(config, connection);
    let (hard_bytes, which) =
        (output_bytes_max(context, connection) as u64, "client-output-buffer-limit replica");
    if unsent >= hard_bytes {
        warning!(
            "{unsent} bytes wait for a replica, {} more than {which} (hard) allows",
            unsent - hard_bytes
        );
    } else {
        let (bytes, seconds) = (limit.soft_bytes, limit.soft_seconds);
        warning!(
            "{unsent} bytes wait for a replica, more than the {bytes} that {which} (soft) allows for \
             {seconds} s"
        );
    }
}

/// Marks a client for closing because its replies exceed its limits.
pub fn close_for_output(context: &Context, connection: &mut Connection) {
    connection.session.killed = true;
    let counters = &context.engine.stats.workers[context.worker];
    stats::add(&counters.output_limit_disconnections, 1);
    let origin = connection.session.shared.peer.remote_text();
    warning!(
        "Client {} at {origin} is closed: it has exceeded its output limits",
        connection.session.shared.id
    );
}

/// Marks a client for closing if a request takes too much: the bytes at hand, with what is queued in MULTI.
pub fn bound_query(context: &Context, connection: &mut Connection, bytes: usize) {
    let queued = connection.session.transaction.as_ref().map_or(0, |transaction| transaction.argument_bytes);
    let bytes = (bytes + connection.wire.kept_bytes() + queued) as u64;
    if connection.session.killed || bytes <= context.active.config.client_query_buffer_limit {
        return;
    }
    connection.session.killed = true;
    stats::add(&context.engine.stats.workers[context.worker].query_limit_disconnections, 1);
    let origin = connection.session.shared.peer.remote_text();
    warning!(
        "Client {} at {origin} is closed: its unfinished request has {bytes} bytes",
        connection.session.shared.id
    );
}

/// Whether a client has been idle for longer than `timeout` allows. One whose requests or replies wait is
/// not.
pub fn is_idle(context: &Context, connection: &Connection) -> bool {
    let allowed_ms = i64::from(context.active.config.timeout_s) * 1000;
    let exempt = || {
        let flags = flag::PUBSUB | flag::MONITOR | flag::REPLICA;
        connection.is_waiting()
            || connection.pending_replies.is_some()
            || connection.session.shared.has(flags)
    };
    let active_ms = connection.session.shared.active_ms.load(Ordering::Relaxed);
    allowed_ms > 0 && context.now_ms - active_ms > allowed_ms && !exempt()
}
