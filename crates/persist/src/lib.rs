//! RDB files and append-only files: reading, writing and checking.
//!
//! [`load`] reads a file into a keyspace or any other target, [`write`] writes one, [`check`] looks through
//! one, [`framing`] is what is around one on its way to a replica, [`payload`] does the same for the single
//! values of DUMP and RESTORE, and [`digest`] tells whether two keyspaces hold the same. How values of each
//! type are written and read is in `types`, one file a type; the rest of the format is in [`format`], [`lzf`]
//! and [`packed`]. [`aof`] is the format of the append-only file. [`storage`] is under all file I/O;
//! [`tier`] keeps values on disk; [`delay`] makes things slow for tests.
#![forbid(unsafe_code)]

pub mod aof;
pub mod check;
pub mod delay;
pub mod digest;
pub mod format;
pub mod framing;
pub mod load;
pub mod log;
pub mod lzf;
pub mod packed;
pub mod payload;
pub mod source;
pub mod storage;
pub mod tier;
mod types;
pub mod write;
