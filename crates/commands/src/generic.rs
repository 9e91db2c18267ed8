//! Commands on keys of any type: expiry, scanning, copying, renaming, OBJECT.

use crate::DataSpec;

/// The registration table.
pub(crate) const COMMANDS: &[DataSpec] = &[];
