//! The deterministic simulation of the engine: many sessions in one process, a seed, a virtual clock,
//! a virtual disk.
//!
//! [`simulate`] runs one seed: the seed chooses what the sessions do, and who goes on at each lock and each
//! wake-up. A seed runs the same way each time. See [`scenario`] for what is checked.
#![forbid(unsafe_code)]

mod closing;
pub mod crash;
pub mod disk;
mod evicting;
mod failing;
mod graphs;
pub mod history;
mod network;
mod nodes;
mod replicating;
pub mod scenario;
pub mod scheduler;
mod streams;
mod writes;

pub use mantissa_sys::simulation::Fault;

/// Runs a seed. The hash of all choices, or what was found.
pub fn simulate(seed: u64, fault: Option<Fault>) -> Result<u64, String> {
    scheduler::run(seed, fault, move || scenario::run(seed))
}

/// Runs a seed of another kind: engines that are closed and configured while much is under way.
pub fn simulate_closing(seed: u64) -> Result<u64, String> {
    scheduler::run(seed, None, move || closing::run(seed))
}

/// Runs a seed of another kind: nodes that replicate. See `replicating` for what is checked.
pub fn simulate_replication(seed: u64, fault: Option<Fault>) -> Result<u64, String> {
    scheduler::run(seed, fault, move || replicating::run(seed))
}
