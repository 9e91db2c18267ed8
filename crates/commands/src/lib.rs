//! The command table and the commands on data, one file per family.
#![forbid(unsafe_code)]
