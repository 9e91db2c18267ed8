//! Bits of strings: SETBIT, BITCOUNT, BITPOS, BITOP, BITFIELD.

use crate::DataSpec;

/// The registration table.
pub(crate) const COMMANDS: &[DataSpec] = &[];
