//! The server: workers with event loops and connections around one engine, the start and the end.
//!
//! A request's way: [`worker`] (bytes, parsing, batches) -> [`mantissa_engine::execute`] -> the reply.
#![forbid(unsafe_code)]

mod archive;
mod balance;
mod conn_id;
mod connection;
mod console;
mod crash;
pub mod daemon;
mod engine_host;
mod freeze;
mod handover;
mod http;
mod inbox;
mod limits;
mod loading;
mod network;
mod oom_score;
mod outgoing;
mod reconfigure;
mod scraping;
mod service;
mod start;
mod supervision;
mod title;
mod tls;
mod websocket;
mod worker;

pub use mantissa_engine::commands::REDIS_VERSION;
pub use mantissa_store::allocator::CountingAllocator;
pub use start::run;
