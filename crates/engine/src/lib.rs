//! The engine: data and rules, without sockets.
//!
//! An [`Engine`] owns a keyspace, users, scripts and the log. A [`Session`] is a client's state. [`execute`]
//! runs a request of a session. Replies go to the caller, and messages for other sessions leave through the
//! [`Host`] that the program around the engine provides.
//!
//! A request's way: [`execute`] (checks, locks, statistics) -> a handler -> [`commit`] (what the write
//! caused) -> the reply.
#![forbid(unsafe_code)]

pub mod acl;
pub mod active_config;
pub mod admission;
pub mod aof;
pub mod background;
pub mod batch;
pub mod blocking;
pub mod call;
pub mod calls;
pub mod client;
mod client_figures;
pub mod client_memory;
mod command_log;
pub mod commands;
pub mod commit;
mod compaction;
pub mod context;
pub mod embedded;
pub mod engine;
pub mod engine_state;
pub mod eval;
pub mod eviction;
pub mod execute;
mod expiry;
mod field_sets;
pub mod host;
mod hot_keys;
mod image;
pub mod invocation;
mod job_runner;
mod jobs;
mod key_sizes;
mod latency;
mod lazy_free;
pub mod loading;
pub mod locking;
pub mod log;
pub mod memory_limit;
pub mod metrics;
mod monitor;
pub mod nested_loop;
mod own_expiry;
pub mod persistence;
mod pubsub;
pub mod registry;
mod reload;
mod replay;
pub mod replication;
pub mod scripting;
mod secrets;
pub mod session;
pub mod session_state;
pub mod sessions;
mod shard_access;
mod skipping;
pub mod snapshot;
pub mod state;
pub mod stats;
pub mod tier;
pub mod tracking;
pub mod transaction;
mod turnover;
mod version;

pub use engine::Engine;
pub use host::Host;
pub use mantissa_config as config;
pub use session::Session;
