//! The server's command table: the commands on data and the server's own.

use std::collections::BTreeMap;

use mantissa_commands::{DataHandler, FAMILIES, Outcome, Spec};
use mantissa_protocol::{Args, Reply};
use parking_lot::Mutex;

use crate::invocation::Invocation;

/// A command that needs more than the keyspace: its client, the configuration, other clients. Replies as a
/// data handler does.
pub type EngineHandler = fn(&mut Invocation<'_, '_, '_>, Args<'_>, &mut Reply) -> Outcome;

/// A row of a table of server commands.
pub type EngineSpec = Spec<EngineHandler>;

/// The code of a command.
#[derive(Clone, Copy, Debug)]
pub enum Handler {
    /// A command on data.
    Data(DataHandler),
    /// A command of the server.
    Engine(EngineHandler),
}

/// A registered command.
pub type Command = mantissa_commands::Command<Handler>;
/// All registered commands.
pub type Registry = mantissa_commands::Registry<Handler>;

/// `rename-command` directives: old and new names.
type Renames = Vec<(Vec<u8>, Vec<u8>)>;

/// All commands. `renames` are those of the configuration; an error names the one that does not fit. Tables
/// live as long as the program, one for each set of renames.
pub fn build(renames: &[(Vec<u8>, Vec<u8>)]) -> Result<&'static Registry, String> {
    static BUILT: Mutex<BTreeMap<Renames, &'static Registry>> = Mutex::new(BTreeMap::new());
    let mut built = BUILT.lock();
    if let Some(registry) = built.get(renames) {
        return Ok(registry);
    }
    let registry: &'static Registry = Box::leak(Box::new(build_anew(renames)?));
    built.insert(renames.to_vec(), registry);
    Ok(registry)
}

fn build_anew(renames: &[(Vec<u8>, Vec<u8>)]) -> Result<Registry, String> {
    let mut registry = Registry::default();
    for family in FAMILIES.iter().chain(crate::commands::DATA_FAMILIES) {
        registry.add(family, |handler| Handler::Data(*handler));
    }
    for family in crate::commands::FAMILIES {
        registry.add(family, |handler| Handler::Engine(*handler));
    }
    for (old, new) in renames {
        let (old, new) = (String::from_utf8_lossy(old), String::from_utf8_lossy(new));
        if !registry.rename(&old, &new) {
            return Err(format!("rename-command {old} \"{new}\": no such command, or the new name is taken"));
        }
    }
    Ok(registry)
}
