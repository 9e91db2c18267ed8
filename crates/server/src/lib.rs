//! The server: workers, clients, configuration, and the commands that concern them.
#![forbid(unsafe_code)]

pub mod config;
pub mod daemon;
pub mod latency;
pub mod log;
pub mod slowlog;
