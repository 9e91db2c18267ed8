//! What the tables of commands that Redis has from modules share: flags, and the specification of one key.

use crate::spec::{Flags, KeyFlags, KeySpec};

/// Flags of a command that reads.
pub(crate) const READ: Flags = Flags::READONLY.or(Flags::MODULE);
/// Flags of a command that writes and needs no memory for it.
pub(crate) const SHRINK: Flags = Flags::WRITE.or(Flags::MODULE);
/// Flags of a command that writes.
pub(crate) const WRITE: Flags = SHRINK.or(Flags::DENYOOM);
/// What is done with a key whose value is read.
pub(crate) const READS: KeyFlags = KeyFlags::RO.or(KeyFlags::ACCESS);
/// What is done with a key whose value is changed.
pub(crate) const CHANGES: KeyFlags = KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::UPDATE);
/// Argument 1 is the key, whose value is read.
pub(crate) const READ_KEY: &[KeySpec] = &[KeySpec::one(1, READS)];
/// Argument 1 is the key, whose value is changed.
pub(crate) const CHANGED_KEY: &[KeySpec] = &[KeySpec::one(1, CHANGES)];
