//! Functions for Lua.

use std::os::raw::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use mlua::{Function, Lua, ffi};

use crate::stack::{Fault, Stack};

/// Lua's own text for a lack of memory, which it always holds.
const NO_MEMORY: &str = "not enough memory";
/// The error of a function that panicked.
const PANICKED: &str = "internal error";

/// What a function does: the number of its results, the last values of its stack.
type Body = dyn Fn(&mut Stack<'_>) -> Result<usize, Fault>;

/// What Lua holds of a function.
struct Held {
    /// Bytes of memory that the machine may use.
    limit: usize,
    body: Box<Body>,
}

/// Makes a function for Lua. `limit`: bytes of memory that the machine may use.
///
/// Where `body` fails with [`Fault::Raised`], the last value of its stack is the error.
pub fn function(
    lua: &Lua,
    limit: usize,
    body: impl Fn(&mut Stack<'_>) -> Result<usize, Fault> + 'static,
) -> mlua::Result<Function> {
    let held = Rc::new(Held { limit, body: Box::new(body) });
    let pointer = mlua::LightUserData(Rc::as_ptr(&held).cast_mut().cast());
    let owner = lua.create_any_userdata(held)?;
    // SAFETY: the two values are there, and the closure takes both. The first keeps what the second points to
    // until the closure is freed with it.
    unsafe { lua.exec_raw((owner, pointer), |state| ffi::lua_pushcclosure(state, enter, 2)) }
}

/// Runs the function that is called.
unsafe extern "C-unwind" fn enter(state: *mut ffi::lua_State) -> c_int {
    // SAFETY: the second value of the closure points to this, as long as there is the closure.
    let held = unsafe { &*ffi::lua_touserdata(state, ffi::lua_upvalueindex(2)).cast::<Held>() };
    // SAFETY: Lua calls this on the thread of the machine, and the stack ends before this function does.
    let mut stack = unsafe { Stack::of_call(state, held.limit) };
    let outcome = catch_unwind(AssertUnwindSafe(|| (held.body)(&mut stack))).unwrap_or_else(|panic| {
        drop(panic);
        Err(stack.push_text(PANICKED.as_bytes()).err().unwrap_or(Fault::Raised))
    });
    match outcome {
        Ok(results) => c_int::try_from(results).unwrap_or(0).min(stack.len() as c_int),
        Err(fault) => {
            if fault == Fault::Memory {
                // SAFETY: Lua always leaves a function a few slots more than it uses, and holds this text.
                unsafe {
                    ffi::lua_settop(state, 0);
                    ffi::lua_pushlstring(state, NO_MEMORY.as_ptr().cast(), NO_MEMORY.len());
                }
            }
            // SAFETY: the error is the last value, and nothing here needs to be dropped.
            unsafe { ffi::lua_error(state) }
        }
    }
}
