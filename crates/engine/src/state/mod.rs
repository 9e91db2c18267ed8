//! What subsystems own whose work needs the whole engine: [`crate::engine::Engine`] holds it, and the modules
//! above the engine that have the same names work on it. Nothing here knows the engine.

pub mod aof;
pub mod archive;
pub mod backup;
pub mod failover;
pub mod loading;
pub mod persistence;
pub mod progress;
pub mod replication;
pub mod serving;
pub mod tier;
pub mod tracking;
