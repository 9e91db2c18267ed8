//! The terminal programs.
#![forbid(unsafe_code)]
