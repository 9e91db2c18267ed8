//! Running code of Lua's from outside.

use mlua::{IntoLua, Lua, ffi};

use crate::kept::Kept;
use crate::stack::Stack;

/// The stack of a machine's main thread, for code that is run from outside.
pub struct Program {
    lua: Lua,
    state: *mut ffi::lua_State,
    limit: usize,
}

impl Program {
    /// That of a machine. `limit`: bytes of memory that it may use.
    pub fn new(lua: &Lua, limit: usize) -> mlua::Result<Program> {
        let mut state = std::ptr::null_mut();
        // SAFETY: the state is noted, and nothing is pushed.
        unsafe { lua.exec_raw::<()>((), |main| state = main) }?;
        Ok(Program { lua: lua.clone(), state, limit })
    }

    /// Keeps a value alive.
    pub fn keep(&self, value: impl IntoLua) -> mlua::Result<Kept> {
        let value = value.into_lua(&self.lua)?;
        Kept::new(&self.lua, self.state, value)
    }

    /// Gives `work` the stack. What it leaves there is taken off.
    pub fn run<R>(&mut self, work: impl FnOnce(&mut Stack<'_>) -> R) -> R {
        // SAFETY: the machine lives as long as this. Its main thread runs nothing now but what has called
        // this, and that finds its own slots as they were.
        let mut stack = unsafe { Stack::new(self.state, self.limit) };
        let before = stack.len();
        let result = work(&mut stack);
        stack.pop(stack.len() - before);
        result
    }
}
