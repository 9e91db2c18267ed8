//! Values of Lua's that are kept from outside.

use std::os::raw::c_int;

use mlua::{Lua, Value, ffi};

/// A value that is kept alive in a machine.
pub struct Kept {
    /// Keeps the machine.
    _lua: Lua,
    state: *mut ffi::lua_State,
    number: c_int,
}

impl Kept {
    /// Keeps a value. `state` is that of the machine's main thread.
    pub(crate) fn new(lua: &Lua, state: *mut ffi::lua_State, value: Value) -> mlua::Result<Kept> {
        let mut number = ffi::LUA_NOREF;
        // SAFETY: the value is there, and the reference takes it.
        unsafe { lua.exec_raw::<()>(value, |state| number = ffi::luaL_ref(state, ffi::LUA_REGISTRYINDEX)) }?;
        Ok(Kept { _lua: lua.clone(), state, number })
    }

    /// Its number in the registry.
    pub(crate) fn number(&self) -> c_int {
        self.number
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // SAFETY: the machine is alive. The elements of the registry that this sets are there already, so
        // nothing is allocated, and a few slots are always free.
        unsafe { ffi::luaL_unref(self.state, ffi::LUA_REGISTRYINDEX, self.number) }
    }
}
