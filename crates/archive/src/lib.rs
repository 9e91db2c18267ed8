//! An archive of snapshots: any number of dumps in one repository, each byte of equal data kept once.
//!
//! ```text
//! config                     what kind of archive it is
//! packs/NAME                 blocks of chunks, compressed, and sealed if the archive is encrypted
//! indexes/NAME               the chunks of the pack of that name
//! snapshots/TIME-NAME        manifests: the chunks of a snapshot in order
//! log/TIME-NAME              what was changed after snapshots, as commands with their times
//! damaged/                   what `repair` found to be of no use any more
//! lock, unfinished/          who writes; what was being written
//! ```
//!
//! These are files of a folder, or objects of a bucket ([`store_at`]).
//!
//! A snapshot is a stream of records in the order of database and key, values as DUMP has them but
//! uncompressed. It is cut into chunks where contents say so (`chunker`). Chunks are named by their BLAKE3
//! hash, and those that are new go into packs (`pack`). The manifest comes last (`manifest`): whatever was
//! stored before a process is killed belongs to no snapshot, harms none, and goes with the next
//! [`Archive::prune`]. Nothing is ever changed in place. A manifest means chunks by their names, which the
//! index of a pack keeps even if the pack was damaged and removed ([`Archive::repair`]).
//!
//! Making a snapshot takes memory for the names of all chunks, some 50 bytes each, and 128 MB for sorting;
//! the rest of the sorting is in temporary files. Every byte that is read is checked against the hash that
//! names it. `docs/archive.md` describes the format.
#![forbid(unsafe_code)]

pub mod chunker;
mod create;
pub mod hashes;
mod journal;
mod keys;
mod lacks;
mod manifest;
mod order;
mod pack;
mod place;
mod prune;
mod repack;
mod repair;
mod repository;
mod restore;
mod s3;
mod sort;
mod store;
#[cfg(test)]
mod tests;
#[doc(hidden)]
pub mod trial;
mod wire;

pub use create::Origin;
pub use journal::{Frame, Replayed, Segment};
pub use keys::KeyFile;
pub use lacks::{Gap, Incomplete, Place};
pub use manifest::{Facts, Position};
pub use place::store_at;
pub use prune::{Pruned, Retention};
pub use repair::{DamagedPack, Repaired};
pub use repository::{Archive, Snapshot, days, utc_digits};
pub use restore::{Report, Restored, Selection};
pub use store::Store;
