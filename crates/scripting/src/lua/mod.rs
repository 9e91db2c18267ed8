//! Lua 5.1.

mod api;
mod base;
mod budget;
mod convert;
mod host;
mod libraries;
mod native;
mod registering;
mod run;
mod vm;

pub use vm::Lua51;
