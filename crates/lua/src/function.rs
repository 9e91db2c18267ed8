//! Functions for Lua.
//!
//! A function is a closure of Lua's: its first value keeps what the second points to, and the others are the
//! values of its own, which its body reads by [`Stack::own`] and more.

use std::os::raw::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use mlua::{Function, IntoLuaMulti, Lua, MultiValue, Value, ffi};

use crate::stack::{CLOSURE_VALUES, Fault, Stack, own_index};

/// Lua's own text for a lack of memory, which it always holds.
const NO_MEMORY: &str = "not enough memory";
/// The error of a function that panicked.
const PANICKED: &str = "internal error";

/// How a function ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With so many results, the last values of its stack.
    Results(usize),
    /// With what the original function returns for the arguments as they are now, or raises.
    Original,
    /// The same for its own value of this number, a function.
    Other(usize),
    /// As with `Original`. If the first result is false, this own value, a function, gets the results and
    /// returns others.
    Checked(usize),
}

/// What Lua holds of a function.
struct Held<F> {
    /// Bytes of memory that the machine may use.
    limit: usize,
    original: Option<ffi::lua_CFunction>,
    body: F,
}

/// Makes a function for Lua. `limit`: bytes of memory that the machine may use.
///
/// Where `body` fails with [`Fault::Raised`], the last value of its stack is the error.
pub fn function(
    lua: &Lua,
    limit: usize,
    body: impl Fn(&mut Stack<'_>) -> Result<usize, Fault> + 'static,
) -> mlua::Result<Function> {
    let (values, enter) = hold(lua, limit, None, move |stack| body(stack).map(End::Results))?;
    close(lua, values, (), enter)
}

/// Makes a function with values of its own, which may let another function go on in its place:
/// `original`, one that is written in C and has no values of its own. It runs as if it had been called
/// itself, so its errors name the place of the call.
pub fn function_before(
    lua: &Lua,
    limit: usize,
    original: Option<&Function>,
    own: impl IntoLuaMulti,
    body: impl Fn(&mut Stack<'_>) -> Result<End, Fault> + 'static,
) -> mlua::Result<Function> {
    let mut found = None;
    if let Some(original) = original {
        // SAFETY: the function is there; it is looked at and taken off.
        unsafe {
            lua.exec_raw::<()>(original, |state| {
                if ffi::lua_getupvalue(state, 1, 1).is_null() {
                    found = ffi::lua_tocfunction(state, 1);
                }
                ffi::lua_settop(state, 0);
            })
        }?;
        if found.is_none() {
            return Err(mlua::Error::runtime("this function is not written in C, or has values of its own"));
        }
    }
    let (values, enter) = hold(lua, limit, found, body)?;
    close(lua, values, own, enter)
}

/// Makes a function that makes functions. What `prepare` returns are not results, but the values of a new
/// function's own, for which `step` is the body.
pub fn maker(
    lua: &Lua,
    limit: usize,
    prepare: impl Fn(&mut Stack<'_>) -> Result<usize, Fault> + 'static,
    step: impl Fn(&mut Stack<'_>) -> Result<usize, Fault> + 'static,
) -> mlua::Result<Function> {
    let (step_values, enter_step) = hold(lua, limit, None, move |stack| step(stack).map(End::Results))?;
    let (values, enter) = hold_maker(lua, limit, prepare, enter_step)?;
    close(lua, values, step_values, enter)
}

/// The values that each closure of a body begins with, and what runs it.
fn hold<F: Fn(&mut Stack<'_>) -> Result<End, Fault> + 'static>(
    lua: &Lua,
    limit: usize,
    original: Option<ffi::lua_CFunction>,
    body: F,
) -> mlua::Result<(MultiValue, ffi::lua_CFunction)> {
    Ok((hold_alive(lua, Held { limit, original, body })?, enter::<F>))
}

/// The same for a maker, which makes closures that `enter_step` runs.
fn hold_maker<F: Fn(&mut Stack<'_>) -> Result<usize, Fault> + 'static>(
    lua: &Lua,
    limit: usize,
    body: F,
    enter_step: ffi::lua_CFunction,
) -> mlua::Result<(MultiValue, ffi::lua_CFunction)> {
    Ok((hold_alive(lua, Held { limit, original: Some(enter_step), body })?, enter_maker::<F>))
}

/// A value that keeps this alive, and a pointer to it.
fn hold_alive<T: 'static>(lua: &Lua, held: T) -> mlua::Result<MultiValue> {
    let held = Rc::new(held);
    let pointer = mlua::LightUserData(Rc::as_ptr(&held).cast_mut().cast());
    let owner = lua.create_any_userdata(held)?;
    Ok([Value::UserData(owner), Value::LightUserData(pointer)].into_iter().collect())
}

/// Makes a closure.
fn close(
    lua: &Lua,
    mut values: MultiValue,
    own: impl IntoLuaMulti,
    enter: ffi::lua_CFunction,
) -> mlua::Result<Function> {
    values.extend(own.into_lua_multi(lua)?);
    let count = values.len() as c_int;
    // SAFETY: so many values are there, and the closure takes all. The first keeps what the second points to
    // until the closure is freed with it.
    unsafe { lua.exec_raw(values, |state| ffi::lua_pushcclosure(state, enter, count)) }
}

/// Runs a body. Returns the number of arguments too.
///
/// # Safety
///
/// Lua has called the function that runs, and its second value points to a `Held<F>`.
#[inline]
unsafe fn run<'s, F: 's, R>(
    state: *mut ffi::lua_State,
    body: impl FnOnce(&F, &mut Stack<'_>) -> Result<R, Fault>,
) -> (&'s Held<F>, c_int, Result<R, Fault>) {
    // SAFETY: the second value of the closure points to this, as long as there is the closure.
    let held = unsafe { &*ffi::lua_touserdata(state, ffi::lua_upvalueindex(2)).cast::<Held<F>>() };
    // SAFETY: Lua calls this on the thread of the machine, and the stack ends before this function does.
    let mut stack = unsafe { Stack::of_call(state, held.limit) };
    let outcome = catch_unwind(AssertUnwindSafe(|| body(&held.body, &mut stack))).unwrap_or_else(|panic| {
        drop(panic);
        Err(stack.push_text(PANICKED.as_bytes()).err().unwrap_or(Fault::Raised))
    });
    (held, stack.arguments() as c_int, outcome)
}

/// Raises the error of a function that failed.
///
/// # Safety
///
/// Lua has called the function that runs, and nothing of it needs to be dropped.
#[cold]
unsafe fn raise(state: *mut ffi::lua_State, fault: Fault) -> c_int {
    // SAFETY: Lua always leaves a function a few slots more than it uses, and holds this text. Otherwise the
    // error is the last value.
    unsafe {
        if fault == Fault::Memory {
            ffi::lua_settop(state, 0);
            ffi::lua_pushlstring(state, NO_MEMORY.as_ptr().cast(), NO_MEMORY.len());
        }
        ffi::lua_error(state)
    }
}

/// Runs the function that is called.
unsafe extern "C-unwind" fn enter<F: Fn(&mut Stack<'_>) -> Result<End, Fault>>(
    state: *mut ffi::lua_State,
) -> c_int {
    // SAFETY: Lua calls this.
    let (held, arguments, outcome) = unsafe { run::<F, End>(state, |body, stack| body(stack)) };
    match outcome {
        Ok(End::Results(results)) => {
            // SAFETY: the state is alive.
            c_int::try_from(results).unwrap_or(0).min(unsafe { ffi::lua_gettop(state) })
        }
        // SAFETY: nothing here needs to be dropped.
        Ok(End::Original) => unsafe { call_original(state, held.original, arguments) },
        // SAFETY: room for a value more is made, and nothing here needs to be dropped.
        Ok(End::Checked(number)) => unsafe {
            let results = call_original(state, held.original, arguments);
            if results == 0 || ffi::lua_toboolean(state, -results) != 0 {
                return results;
            }
            ffi::luaL_checkstack(state, 1, c"too many results".as_ptr());
            let place = ffi::lua_gettop(state) + 1 - results;
            ffi::lua_pushvalue(state, own_index(number));
            ffi::lua_insert(state, place);
            ffi::lua_call(state, results, ffi::LUA_MULTRET);
            ffi::lua_gettop(state) + 1 - place
        },
        // SAFETY: the stack has room for a value more, and nothing here needs to be dropped.
        Ok(End::Other(number)) => unsafe {
            ffi::lua_settop(state, arguments);
            ffi::lua_pushvalue(state, own_index(number));
            ffi::lua_insert(state, 1);
            ffi::lua_call(state, arguments, ffi::LUA_MULTRET);
            ffi::lua_gettop(state)
        },
        // SAFETY: nothing here needs to be dropped.
        Err(fault) => unsafe { raise(state, fault) },
    }
}

/// Calls the original in place of the function that runs. Returns the number of results.
///
/// # Safety
///
/// Lua has called the function that runs, with so many arguments. Nothing of it needs to be dropped.
#[inline]
unsafe fn call_original(
    state: *mut ffi::lua_State,
    original: Option<ffi::lua_CFunction>,
    arguments: c_int,
) -> c_int {
    let Some(original) = original else { return 0 };
    // SAFETY: what has been pushed is taken off, so the frame is as the original would have found it, except
    // for the values of the closure, which it does not read.
    unsafe {
        ffi::lua_settop(state, arguments);
        original(state)
    }
}

/// Runs the maker that is called.
unsafe extern "C-unwind" fn enter_maker<F: Fn(&mut Stack<'_>) -> Result<usize, Fault>>(
    state: *mut ffi::lua_State,
) -> c_int {
    // SAFETY: Lua calls this.
    let (held, _, outcome) = unsafe { run::<F, usize>(state, |body, stack| body(stack)) };
    let fault = match (outcome, held.original) {
        (Ok(own), Some(enter_step)) => {
            // SAFETY: a body leaves some slots free. The first values of the new closure are those of `step`,
            // which are this one's own. Nothing here needs to be dropped.
            unsafe {
                let own = c_int::try_from(own).unwrap_or(0).min(ffi::lua_gettop(state));
                let place = ffi::lua_gettop(state) + 1 - own;
                for number in 0..CLOSURE_VALUES {
                    ffi::lua_pushvalue(state, own_index(number as usize));
                    ffi::lua_insert(state, place + number);
                }
                ffi::lua_pushcclosure(state, enter_step, own + CLOSURE_VALUES);
            }
            return 1;
        }
        (outcome, _) => outcome.err().unwrap_or(Fault::Memory),
    };
    // SAFETY: nothing here needs to be dropped.
    unsafe { raise(state, fault) }
}
