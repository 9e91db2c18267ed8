//! The command table: the commands on data and the engine's own.

use std::collections::BTreeMap;
use std::sync::Arc;

use mantissa_commands::FAMILIES;
use mantissa_config::Config;
use mantissa_persist::storage::Storage;
use parking_lot::Mutex;

use crate::engine::Engine;
use crate::host::Host;
use crate::invocation::Handler;

pub use crate::invocation::{Command, Registry};

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
    registry.add_carriers(|handler| Handler::Data(*handler));
    for (old, new) in renames {
        let (old, new) = (String::from_utf8_lossy(old), String::from_utf8_lossy(new));
        if !registry.rename(&old, &new) {
            return Err(format!("rename-command {old} \"{new}\": no such command, or the new name is taken"));
        }
    }
    Ok(registry)
}

impl Engine {
    /// An engine with an empty keyspace, whose append-only files and dumps are in `storage`. An error says
    /// which `rename-command` of the configuration does not fit.
    pub fn new(
        config: Config,
        storage: Arc<dyn Storage>,
        host: Arc<dyn Host>,
    ) -> Result<Arc<Engine>, String> {
        let (registry, original_registry) = (build(&config.rename_commands)?, build(&[])?);
        Ok(Engine::with_commands(config, registry, original_registry, storage, host))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_by_their_indexes() {
        let registry = build(&[]).expect("nothing is renamed");
        let mut count = 0;
        for command in
            registry.iter().flat_map(|command| std::iter::once(command).chain(&command.subcommands))
        {
            assert_eq!(registry.at_index(command.index).map(|found| &found.name), Some(&command.name));
            count += 1;
        }
        assert_eq!(count, registry.index_count());
        assert!(registry.at_index(count).is_none());
    }
}
