//! COMMAND and its subcommands.

use crate::registry::ServerSpec;

/// The registration table.
pub(super) const COMMANDS: &[ServerSpec] = &[];
