//! The process, the operating system and the processor: signals, crashes, clocks, scheduling, limits, direct
//! I/O, checks of UTF-8.
//!
//! The lowest crate: it knows nothing of data, sockets or commands. Everything here is safe to call from safe
//! code; each unsafe block gives its reason. Only [`clock`], [`QuickInstant`] and [`ThreadClock`] are called
//! often.

pub mod authorities;
pub mod clock;
pub mod crash;
pub mod descriptors;
pub mod direct_io;
pub mod locale;
pub mod pages;
pub mod process;
pub mod process_title;
mod quick_instant;
pub mod scheduling;
pub mod signals;
pub mod simulation;
pub mod sockets;
pub mod supervision;
mod thread_clock;
pub mod utf8;

pub use quick_instant::QuickInstant;
pub use thread_clock::ThreadClock;
