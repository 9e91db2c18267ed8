//! SLOWLOG, LATENCY, TIME, ROLE and LOLWUT.

use crate::registry::ServerSpec;

/// The registration table.
pub(super) const COMMANDS: &[ServerSpec] = &[];
