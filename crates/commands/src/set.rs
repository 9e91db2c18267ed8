//! Sets.

use crate::DataSpec;

/// The registration table.
pub(crate) const COMMANDS: &[DataSpec] = &[];
