//! The server's command table: the commands on data and the server's own.

use mantissa_commands::{DataHandler, FAMILIES, Outcome, Spec};
use mantissa_protocol::{Args, Reply};

use crate::session::Session;

/// A command that needs more than the keyspace: its client, the configuration, other clients. Replies as a
/// data handler does.
pub type ServerHandler = fn(&mut Session<'_, '_>, Args<'_>, &mut Reply) -> Outcome;

/// A row of a table of server commands.
pub type ServerSpec = Spec<ServerHandler>;

/// The code of a command.
#[derive(Clone, Copy, Debug)]
pub enum Handler {
    /// A command on data.
    Data(DataHandler),
    /// A command of the server.
    Server(ServerHandler),
}

/// A registered command.
pub type Command = mantissa_commands::Command<Handler>;
/// All registered commands.
pub type Registry = mantissa_commands::Registry<Handler>;

/// All commands. `renames` are those of the configuration; an error names the one that does not fit.
pub fn build(renames: &[(Vec<u8>, Vec<u8>)]) -> Result<Registry, String> {
    let mut registry = Registry::default();
    for family in FAMILIES.iter().chain(crate::commands::DATA_FAMILIES) {
        registry.add(family, |handler| Handler::Data(*handler));
    }
    for family in crate::commands::FAMILIES {
        registry.add(family, |handler| Handler::Server(*handler));
    }
    for (old, new) in renames {
        let (old, new) = (String::from_utf8_lossy(old), String::from_utf8_lossy(new));
        if !registry.rename(&old, &new) {
            return Err(format!("rename-command {old} \"{new}\": no such command, or the new name is taken"));
        }
    }
    Ok(registry)
}
