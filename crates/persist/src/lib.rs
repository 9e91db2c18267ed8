//! RDB files: reading, writing and checking.
#![forbid(unsafe_code)]

pub mod format;
pub mod lzf;
pub mod packed;
