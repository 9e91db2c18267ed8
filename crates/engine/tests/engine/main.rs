//! Tests of the engine through its own door, without sockets. One program, as each takes long to link.

#[path = "../hostile_stream/mod.rs"]
mod hostile_stream;
mod support;

mod acl;
mod apply;
mod blocking;
mod call;
mod commit;
mod expiry;
mod install;
mod jobs;
mod metrics;
mod opening;
mod replica;
mod storage;
mod tracking;
mod transactions;
mod work;
