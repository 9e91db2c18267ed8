//! What a command of the server has at hand: its client, its worker's context, and the keyspace where it
//! needs it.

use mantissa_commands::{Access, Mode};
use mantissa_store::ShardSet;

use crate::client::Client;
use crate::commit::{Command, commit};
use crate::context::Context;
use crate::server::Server;

/// See the module's description.
pub struct Session<'s, 'k> {
    /// The worker's context.
    pub context: &'s mut Context,
    /// The client.
    pub client: &'s mut Client,
    /// Inside EXEC: the transaction's view of the keyspace, whose locks are held.
    pub access: Option<&'s mut Access<'k>>,
}

impl Session<'_, '_> {
    /// The server.
    pub fn server(&self) -> &'static Server {
        self.context.server
    }

    /// Whether the command runs inside EXEC.
    pub fn in_transaction(&self) -> bool {
        self.access.is_some()
    }

    /// Runs `work` with a view of these shards: the transaction's inside EXEC, else one locked for just that.
    /// What it changes is committed.
    pub fn with_access<R>(&mut self, shards: ShardSet, work: impl FnOnce(&mut Access<'_>) -> R) -> R {
        if let Some(access) = &mut self.access {
            return work(access);
        }
        with_shards(self.context, None, self.client.database, shards, work)
    }
}

/// Runs `work` with a view of these shards, locked for just that. What it changes is committed, as done by
/// `command`.
pub fn with_shards<R>(
    context: &mut Context,
    command: Command<'_>,
    database: usize,
    shards: ShardSet,
    work: impl FnOnce(&mut Access<'_>) -> R,
) -> R {
    let server = context.server;
    let Context { live, now_ms, random_state, collected, outbox, .. } = context;
    let locked = server.keyspace.lock(shards);
    let mode = Mode::default();
    let mut access = Access::new(locked, database, *now_ms, &live.settings, mode, random_state, collected);
    let result = work(&mut access);
    let trash = commit(server, outbox, &mut access, command, true);
    drop(access);
    server.free(trash);
    result
}
