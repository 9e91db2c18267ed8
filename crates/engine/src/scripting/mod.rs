//! Scripts and functions: their texts, what is compiled of them, and which of them run.
//!
//! The language itself is in the crate `mantissa-scripting`. A script runs on the thread of the worker that
//! received it, on that worker's machine ([`machine`]), to its end; [`crate::eval`] runs it. All workers
//! share the texts of scripts and what is known of them ([`source`]), but not compiled code.

pub mod functions;
pub mod machine;
pub mod running;
pub mod source;

pub use machine::with_machine;
pub use running::Scripting;

/// The language of scripts.
#[cfg(feature = "lua")]
static LUA: mantissa_scripting::Lua51 =
    mantissa_scripting::Lua51 { redis_version: crate::version::REDIS_VERSION };

/// The language that scripts are written in; none if the engine was built without one.
pub(crate) fn language() -> Option<&'static dyn mantissa_scripting::Language> {
    #[cfg(feature = "lua")]
    return Some(&LUA);
    #[cfg(not(feature = "lua"))]
    return None;
}
