//! Scripts: Lua 5.1 for EVAL and functions.
//!
//! A script runs on the thread of the worker that received it, in that worker's virtual machine ([`vm`]), to
//! its end. What it holds of the keyspace meanwhile, and why that makes it atomic, is told in [`run`].
//! Texts and what is known of them are shared by all workers ([`source`]); compiled code is not.

mod api;
mod budget;
pub mod convert;
pub mod eval;
pub mod function_commands;
pub mod functions;
pub mod host;
mod libraries;
pub(crate) mod native;
pub mod pump;
mod run;
pub mod running;
pub mod source;
pub mod vm;

pub use eval::needs_memory;
pub use running::Scripting;
