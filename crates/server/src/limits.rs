//! Bounds on clients: how many, how idle, how much they send and leave unread.

use std::sync::atomic::Ordering;

use mantissa_net::{Conn, Peer};

use crate::client::{Client, flag};
use crate::config::Config;
use crate::context::Context;
use crate::server::Server;
use crate::{stats, warning};

/// The error for a new connection that is not to be served, if so.
pub fn refusal(server: &Server, config: &Config, peer: &Peer) -> Option<&'static str> {
    if server.client_count.load(Ordering::Relaxed) >= config.maxclients as usize {
        return Some("-ERR max number of clients reached\r\n");
    }
    let protected = config.protected_mode && server.acl.default_user().rights().no_password;
    (protected && !peer.is_loopback()).then_some(
        "-DENIED Mantissa runs in protected mode: no password is set, so only connections from this machine \
         are served. To accept others: set a password (requirepass), or turn the mode off with CONFIG SET \
         protected-mode no from this machine, or start the server with --protected-mode no.\r\n",
    )
}

/// Whether a client has left more unread than its class may. Keeps track of how long the soft limit has been
/// exceeded.
pub fn output_exceeded(config: &Config, client: &mut Client, unsent: u64, now_ms: i64) -> bool {
    let class = if client.shared.has(flag::PUBSUB) { 2 } else { 0 };
    let limit = &config.client_output_buffer_limits[class];
    if limit.hard_bytes > 0 && unsent >= limit.hard_bytes {
        return true;
    }
    if limit.soft_bytes == 0 || unsent < limit.soft_bytes {
        client.soft_limit_since_ms = 0;
        return false;
    }
    if client.soft_limit_since_ms == 0 {
        client.soft_limit_since_ms = now_ms;
    }
    (now_ms - client.soft_limit_since_ms) / 1000 > limit.soft_seconds as i64
}

/// Marks a client for closing if it has left more unread than it may.
pub fn bound_output(context: &Context, client: &mut Client, unsent: u64) {
    if client.killed || !output_exceeded(&context.live.config, client, unsent, context.now_ms) {
        return;
    }
    client.killed = true;
    let counters = &context.server.stats.workers[context.worker];
    stats::add(&counters.output_limit_disconnections, 1);
    let origin = client.shared.peer.remote_text();
    warning!("Client {} at {origin} is closed: it has left {unsent} bytes unread", client.shared.id);
}

/// Says in the log that a client is closed because of an unfinished request.
pub fn log_query_limit(client: &Client, bytes: u64) {
    let origin = client.shared.peer.remote_text();
    warning!("Client {} at {origin} is closed: its unfinished request has {bytes} bytes", client.shared.id);
}

/// The clients that have been idle for longer than `timeout` allows, and those whose soft limit has run out.
pub fn idle_clients(context: &Context, clients: &mut [Option<Box<Client>>]) -> Vec<Conn> {
    let config = &context.live.config;
    let allowed_ms = i64::from(config.timeout_s) * 1000;
    let mut idle = Vec::new();
    for client in clients.iter_mut().flatten() {
        let active_ms = client.shared.active_ms.load(Ordering::Relaxed);
        let exempt = client.blocked.is_some() || client.shared.has(flag::PUBSUB | flag::MONITOR);
        let timed_out = allowed_ms > 0 && !exempt && context.now_ms - active_ms > allowed_ms;
        let over_soft_limit = client.soft_limit_since_ms > 0
            && output_exceeded(
                config,
                client,
                client.shared.output_bytes.load(Ordering::Relaxed),
                context.now_ms,
            );
        if timed_out || over_soft_limit {
            idle.push(client.conn);
        }
    }
    idle
}
