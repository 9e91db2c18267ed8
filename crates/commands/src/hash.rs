//! Hashes, with expiry by field.

use crate::DataSpec;

/// The registration table.
pub(crate) const COMMANDS: &[DataSpec] = &[];
