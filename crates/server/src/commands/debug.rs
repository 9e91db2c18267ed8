//! DEBUG: what tests and tools look at.

use crate::registry::ServerSpec;

/// The registration table.
pub(super) const COMMANDS: &[ServerSpec] = &[];
