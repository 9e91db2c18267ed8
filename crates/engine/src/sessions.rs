//! Sessions begin, begin anew, log in and end.

use std::sync::Arc;

use crate::blocking::{self, Deadlines};
use crate::context::Context;
use crate::host::{Peer, Target};
use crate::replication::primary;
use crate::session::{Session, SharedSession};
use crate::{commands, stats, transaction};

pub use commands::connection::{begin_anew, log_in};
pub use commands::tickets::log_in_by_ticket;

/// The session of a client that has just come. `descriptor` is what CLIENT LIST shows as `fd`.
pub fn begin(context: &Context, peer: Peer, descriptor: i32, target: Target) -> Session {
    let engine = context.engine;
    let (id, user) = (engine.next_client_id(), engine.acl.default_user());
    let shared = Arc::new(SharedSession::new(id, peer, descriptor, context.now_ms, target, user));
    stats::add(&engine.stats.workers[context.worker].connections, 1);
    engine.clients.write().insert(shared.id, Arc::clone(&shared));
    Session::new(shared, target.conn, !engine.acl.needs_login())
}

/// Ends a session: it waits for nothing any more, is subscribed to nothing, and in no list. No shard may be
/// locked.
pub fn end(context: &Context, session: &mut Session, deadlines: &mut Deadlines) {
    let engine = context.engine;
    if let Some(blocked) = session.blocked.take() {
        *blocked.waiting.lock() = false;
        deadlines.remove(&blocked);
        blocking::stop_waiting(engine, &blocked);
    }
    primary::leave(engine, session);
    transaction::end(context, session);
    commands::leave_everything(context, session);
    engine.clients.write().remove(&session.shared.id);
}
