//! What a command is to the engine, and what the handler of one that needs more than the keyspace gets: its
//! session, its worker's context, and the keyspace where it needs it.

use mantissa_commands::{Access, DataHandler, Outcome, Spec};
use mantissa_protocol::{Args, Reply};

use crate::context::Context;
use crate::engine::Engine;
use crate::session::Session;

/// A command that needs more than the keyspace: its client, the configuration, other clients. Replies as a
/// data handler does.
pub type EngineHandler = fn(&mut Invocation<'_, '_, '_>, Args<'_>, &mut Reply) -> Outcome;

/// A row of a table of engine commands.
pub type EngineSpec = Spec<EngineHandler>;

/// The code of a command.
#[derive(Clone, Copy, Debug)]
pub enum Handler {
    /// A command on data.
    Data(DataHandler),
    /// A command of the engine.
    Engine(EngineHandler),
}

/// A registered command.
pub type Command = mantissa_commands::Command<Handler>;
/// All registered commands.
pub type Registry = mantissa_commands::Registry<Handler>;

/// The session, the thread's context and the keyspace of a command that runs.
pub struct Invocation<'s, 'k, 'e> {
    /// The worker's context.
    pub context: &'s mut Context<'e>,
    /// The client.
    pub session: &'s mut Session,
    /// Inside EXEC: the transaction's view of the keyspace, whose locks are held.
    pub access: Option<&'s mut Access<'k>>,
}

impl<'e> Invocation<'_, '_, 'e> {
    /// The engine.
    pub fn engine(&self) -> &'e Engine {
        self.context.engine
    }

    /// Whether the command runs inside EXEC.
    pub fn in_transaction(&self) -> bool {
        self.access.is_some()
    }

    /// Writes a message that belongs to the reply. A client without replies gets it all the same.
    pub fn push(&mut self, reply: &mut Reply, write: impl FnOnce(&mut Reply)) {
        if !self.session.reply_mode.is_silent() {
            return write(reply);
        }
        let mut message = Reply::new(self.session.protocol);
        write(&mut message);
        let target = *self.session.shared.target.lock();
        self.context.outbox.push(target, message.into_bytes().into());
    }
}
