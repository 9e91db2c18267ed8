//! RDB files: reading, writing and checking.
//!
//! [`load`] reads a file into a keyspace or any other target, [`write`] writes one, [`check`] looks through
//! one, [`payload`] does the same for the single values of DUMP and RESTORE, and [`digest`] tells whether two
//! keyspaces hold the same. [`storage`] is under all file I/O. The format itself is in [`format`], [`lzf`]
//! and [`packed`].
#![forbid(unsafe_code)]

pub mod check;
pub mod digest;
pub mod format;
pub mod load;
pub mod lzf;
pub mod packed;
pub mod payload;
pub mod source;
pub mod storage;
pub mod write;
