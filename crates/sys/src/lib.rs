//! The process and the operating system: signals, crashes, clocks, scheduling, limits, direct I/O.
//!
//! The lowest crate: it knows nothing of data, sockets or commands. Everything here is safe to call from safe
//! code; each unsafe block gives its reason. Only [`clock`] and [`ThreadClock`] are called often.

pub mod authorities;
pub mod clock;
pub mod crash;
pub mod descriptors;
pub mod direct_io;
pub mod locale;
pub mod pages;
pub mod process;
pub mod scheduling;
pub mod signals;
pub mod simulation;
pub mod supervision;
mod thread_clock;

pub use thread_clock::ThreadClock;
