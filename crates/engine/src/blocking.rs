//! Clients that wait in blocking commands: their timeouts.

use std::collections::BTreeSet;
use std::sync::Arc;

use mantissa_commands::TimeoutReply;
use mantissa_protocol::Reply;

use crate::aof;
use crate::calls::Served;
use crate::context::Context;
use crate::engine::Engine;
use crate::host::Message;
use crate::session::BlockedClient;

/// The blocked clients of a worker by deadline, soonest first.
#[derive(Default)]
pub struct Deadlines(BTreeSet<(i64, u64)>);

/// Ends a client's waiting with a reply, if it still waits. Its worker does the rest when it reads the
/// message.
pub fn release(engine: &Engine, blocked: &BlockedClient, reply: Vec<u8>) -> bool {
    let mut waiting = blocked.waiting.lock();
    if !std::mem::replace(&mut *waiting, false) {
        return false;
    }
    let target = *blocked.session.target.lock();
    engine.send(target.worker, Message::Unblock(target.conn, Served::without_run(reply)));
    true
}

/// What a client gets when its time is up.
pub fn timeout_reply(engine: &Engine, blocked: &BlockedClient) -> Vec<u8> {
    let mut reply = Reply::new(blocked.protocol);
    match blocked.blocking.on_timeout {
        TimeoutReply::Confirmations { position } => {
            aof::write_confirmations(&mut reply, engine.aof.is_durable(position));
        }
        on_timeout => on_timeout.write(&mut reply),
    }
    reply.into_bytes()
}

impl Deadlines {
    /// Notes a client that has begun to wait.
    pub fn add(&mut self, blocked: &BlockedClient) {
        if let Some(deadline) = blocked.blocking.deadline {
            self.0.insert((deadline, blocked.session.id));
        }
    }

    /// Forgets a client that waits no longer.
    pub fn remove(&mut self, blocked: &BlockedClient) {
        if let Some(deadline) = blocked.blocking.deadline {
            self.0.remove(&(deadline, blocked.session.id));
        }
    }

    /// The soonest deadline, Unix time in ms.
    pub fn first(&self) -> Option<i64> {
        self.0.first().map(|(deadline, _)| *deadline)
    }

    /// Releases those whose time is up.
    pub fn expire(&mut self, context: &Context) {
        while let Some(&(deadline, session)) = self.0.first() {
            if deadline > context.now_ms {
                return;
            }
            self.0.pop_first();
            let blocked = context.engine.blocked.lock().get(&session).map(Arc::clone);
            if let Some(blocked) = blocked.filter(|blocked| blocked.blocking.deadline == Some(deadline)) {
                release(context.engine, &blocked, timeout_reply(context.engine, &blocked));
            }
        }
    }
}
