//! The server: workers with event loops and connections around one engine, the start and the end.
//!
//! A request's way: [`worker`] (bytes, parsing, batches) -> [`mantissa_engine::execute`] -> the reply.
#![forbid(unsafe_code)]

mod balance;
mod connection;
mod crash;
pub mod daemon;
mod http;
mod inbox;
mod limits;
mod network;
mod reconfigure;
mod scraping;
mod start;
mod supervision;
mod tls;
mod worker;

pub use mantissa_store::allocator::CountingAllocator;
pub use start::run;
