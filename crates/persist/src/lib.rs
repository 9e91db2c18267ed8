//! RDB files: reading, writing and checking.
#![forbid(unsafe_code)]
