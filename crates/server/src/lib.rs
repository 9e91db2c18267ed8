//! The server: workers, clients, configuration, and the commands that concern them.
//!
//! A request's way: [`worker`] (bytes, parsing, batches) -> [`execute`] (checks, locks, statistics) -> a
//! handler -> [`commit`] (what the write caused) -> the reply.
#![forbid(unsafe_code)]

mod acl;
mod aof;
mod background;
mod balance;
mod blocking;
mod calls;
mod census;
mod client;
mod client_memory;
mod commands;
mod commit;
mod compaction;
pub mod config;
mod context;
mod crash;
pub mod daemon;
mod eviction;
mod execute;
mod expiry;
mod hot_keys;
mod inbox;
mod latency;
mod limits;
mod live;
mod loading;
pub mod log;
mod monitor;
mod persistence;
mod pubsub;
mod registry;
mod reload;
mod scripting;
mod secure;
mod server;
mod session;
mod slowlog;
mod snapshot;
mod start;
mod stats;
mod tracking;
mod transaction;
mod worker;

pub use mantissa_store::allocator::CountingAllocator;
pub use start::run;
