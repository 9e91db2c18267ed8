//! An archive of snapshots: any number of dumps in one repository, each byte of equal data kept once.
//!
//! ```text
//! config                     what kind of archive it is
//! packs/NAME                 blocks of chunks, compressed, and sealed if the archive is encrypted
//! indexes/NAME               the chunks of the pack of that name
//! snapshots/TIME-NAME        manifests: the chunks of a snapshot in order
//! lock, unfinished/          who writes; what was being written
//! ```
//!
//! A snapshot is a stream of records in the order of database and key, values as DUMP has them but
//! uncompressed. It is cut into chunks where contents say so (`chunker`). Chunks are named by their BLAKE3
//! hash, and those that are new go into packs (`pack`). The manifest comes last (`manifest`): whatever was
//! stored before a process is killed belongs to no snapshot, harms none, and goes with the next
//! [`Archive::prune`]. Nothing is ever changed in place.
//!
//! Making a snapshot takes memory for the names of all chunks, some 50 bytes each, and 128 MB for sorting;
//! the rest of the sorting is in temporary files. Every byte that is read is checked against the hash that
//! names it. `docs/archive.md` describes the format.
#![forbid(unsafe_code)]

pub mod chunker;
mod create;
mod keys;
mod manifest;
mod order;
mod pack;
mod prune;
mod repack;
mod repository;
mod restore;
mod sort;
mod store;
#[cfg(test)]
mod tests;
#[doc(hidden)]
pub mod trial;
mod wire;

pub use create::Origin;
pub use keys::KeyFile;
pub use manifest::Facts;
pub use prune::{Pruned, Retention};
pub use repository::{Archive, Snapshot};
pub use restore::{Report, Restored, Selection};
pub use store::{Folder, Store};
