//! Languages of scripts, and Lua 5.1 as the one that there is.
//!
//! The engine uses a language through two traits and a few plain types:
//!
//! - A [`Language`] makes a [`Machine`] for each thread that runs scripts. The machine compiles texts, loads
//!   libraries and runs what it has compiled.
//! - A [`Host`] is what a running script may ask of the engine: to call a command, to write a line to the
//!   log. The caller of [`Machine::run`] and [`Machine::load`] passes it in.
//!
//! All three can be used as `dyn` objects. The interface needs the protocol only; Lua is behind the feature
//! `lua`, so that an engine without any language compiles without it.
#![forbid(unsafe_code)]

mod host;
mod language;
#[cfg(feature = "lua")]
mod lua;

pub use host::{CallError, Host, LogLevel, TICK_PAUSE_MAX};
pub use language::{
    BAD_NAME, Code, Ending, Language, Machine, Place, Problem, Registration, ReturnedError, ScriptFlags,
    hexadecimal, is_name,
};
#[cfg(feature = "lua")]
pub use lua::Lua51;
