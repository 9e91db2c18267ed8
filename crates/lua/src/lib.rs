//! The stack of Lua 5.1, for functions that are called often.
//!
//! mlua hands out each value with a reference that keeps it alive, and makes each allocation in a protected
//! call as soon as there is a memory limit: some hundred instructions for a value. Here arguments are read
//! where they lie and results are pushed: some ten. mlua still makes the machine, its libraries and its
//! functions that are called rarely.
//!
//! All functions that this crate makes belong to one thread, as the machine does.

mod function;
mod kept;
mod program;
mod stack;

pub use function::{End, function, function_before, maker};
pub use kept::Kept;
pub use program::Program;
pub use stack::{Fault, Item, Place, Stack};
