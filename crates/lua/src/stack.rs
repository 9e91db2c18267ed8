//! Reading and pushing values.
//!
//! Lua raises an error where an allocation fails, by a jump that leaves Rust's values as they are. No jump
//! crosses code of this crate's callers: an operation that might need more memory than the limit allows is
//! done in a protected call of its own. The others cannot fail, because a step of Lua's needs at most some
//! multiple of the memory in use: a table or the table of strings that grows is twice as large as before.

use std::ffi::CStr;
use std::marker::PhantomData;
use std::os::raw::{c_char, c_int};

use mlua::ffi;

use crate::kept::Kept;

/// Values of a closure before the function's own ones.
pub(crate) const CLOSURE_VALUES: c_int = 2;
/// Bytes that an operation may need besides its text and what grows with the memory in use.
const SMALL_BYTES: usize = 4 << 20;
/// Bytes that operations may need until the memory in use is looked at again.
const UNCHECKED_BYTES: usize = 64 << 10;
/// Bytes of a small value.
const VALUE_BYTES: usize = 64;
/// Slots that are made free at a time. No operation here takes more than a few.
const SLOTS: c_int = 32;
const SLOTS_MIN: c_int = 4;

/// Why something ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An error was raised; its value is the last one of the stack.
    Raised,
    /// There is not enough memory, or no more room on the stack.
    Memory,
}

/// What lies in a slot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Item<'s> {
    /// There is no such slot.
    None,
    /// Nil.
    Nil,
    /// A boolean.
    Boolean(bool),
    /// A number.
    Number(f64),
    /// A string.
    Text(&'s [u8]),
    /// A table.
    Table,
    /// A function.
    Function,
    /// A pointer.
    Pointer {
        /// Whether it is null.
        is_null: bool,
    },
    /// A coroutine.
    Thread,
    /// A userdata.
    Other,
}

impl Item<'_> {
    /// The name of the type, as Lua's `type` says it.
    pub fn type_name(&self) -> &'static str {
        match self {
            Item::None => "no value",
            Item::Nil => "nil",
            Item::Boolean(_) => "boolean",
            Item::Number(_) => "number",
            Item::Text(_) => "string",
            Item::Table => "table",
            Item::Function => "function",
            Item::Thread => "thread",
            Item::Pointer { .. } | Item::Other => "userdata",
        }
    }
}

/// Where a function on Lua's stack of calls was called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// What the function is: `Lua`, `C`, `main` or `tail`.
    pub what: &'static str,
    /// The name of its source.
    pub source: Vec<u8>,
    /// The same for messages.
    pub short_source: String,
    /// The line that runs, if it is known.
    pub line: Option<usize>,
}

/// The part of a stack that belongs to a function: its arguments, and above them what it has pushed.
///
/// Slots count from 1. What lies at or below the floor stays as it is as long as the stack exists.
pub struct Stack<'s> {
    state: *mut ffi::lua_State,
    /// Bytes of memory that the machine may use.
    limit: usize,
    floor: c_int,
    /// The slot up to which Lua has made room before it called the function.
    granted: c_int,
    /// A function runs that this crate has made.
    is_call: bool,
    /// Slots that are known to be free.
    free: c_int,
    /// Bytes that operations may need before the memory in use is looked at.
    unchecked: usize,
    lifetime: PhantomData<&'s mut ()>,
}

impl<'s> Stack<'s> {
    /// The stack of the function that runs. What it has now are its arguments.
    ///
    /// # Safety
    ///
    /// `state` belongs to this thread and outlives the stack. While the stack exists nothing else touches the
    /// slots of the function that runs there, and none of Lua's jumps leaves that function.
    pub(crate) unsafe fn new(state: *mut ffi::lua_State, limit: usize) -> Stack<'s> {
        // SAFETY: the caller's promise.
        let floor = unsafe { ffi::lua_gettop(state) };
        Stack {
            state,
            limit,
            floor,
            granted: 0,
            is_call: false,
            free: 0,
            unchecked: 0,
            lifetime: PhantomData,
        }
    }

    /// The stack of a function that Lua has just called: it has some slots above its arguments, even where
    /// these are as many as Lua allows.
    ///
    /// # Safety
    ///
    /// As for [`Stack::new`]. The function is one of this crate's and has pushed nothing yet.
    pub(crate) unsafe fn of_call(state: *mut ffi::lua_State, limit: usize) -> Stack<'s> {
        // SAFETY: the caller's promise.
        let stack = unsafe { Stack::new(state, limit) };
        let granted = stack.floor + ffi::LUA_MINSTACK;
        Stack { granted, is_call: true, free: ffi::LUA_MINSTACK, ..stack }
    }

    /// The number of slots in use.
    #[inline]
    pub fn len(&self) -> usize {
        self.top() as usize
    }

    #[inline]
    fn top(&self) -> c_int {
        // SAFETY: the state is alive.
        unsafe { ffi::lua_gettop(self.state) }
    }

    /// Whether no slot is in use.
    pub fn is_empty(&self) -> bool {
        self.top() == 0
    }

    /// The number of arguments.
    #[inline]
    pub fn arguments(&self) -> usize {
        self.floor as usize
    }

    /// An argument, from 1. Its text lives as long as the stack, because nothing takes an argument off it.
    #[inline]
    pub fn argument(&self, slot: usize) -> Item<'s> {
        match c_int::try_from(slot) {
            // SAFETY: the slot lies at or below the floor.
            Ok(slot) if slot >= 1 && slot <= self.floor => unsafe { item(self.state, slot) },
            _ => Item::None,
        }
    }

    /// The function's own value of this number, from 0. Its text lives as long as the stack, because only
    /// numbers are replaced.
    #[inline]
    pub fn own(&self, number: usize) -> Item<'s> {
        if !self.is_call {
            return Item::None;
        }
        // SAFETY: a function of this crate's runs; a value that it does not have is none.
        unsafe { item(self.state, own_index(number)) }
    }

    /// Replaces the function's own value of this number, if that is a number.
    #[inline]
    pub fn set_own_number(&mut self, number: usize, value: f64) -> Result<(), Fault> {
        if !matches!(self.own(number), Item::Number(_)) {
            return Ok(());
        }
        self.push_number(value)?;
        // SAFETY: the new value is there, and the function has the one that it replaces.
        unsafe { ffi::lua_replace(self.state, own_index(number)) };
        Ok(())
    }

    /// Pushes the function's own value of this number.
    #[inline]
    pub fn push_own(&mut self, number: usize) -> Result<(), Fault> {
        if !self.is_call {
            return self.push_nil();
        }
        self.reserve()?;
        // SAFETY: there is room; a value that the function does not have is nil.
        unsafe { ffi::lua_pushvalue(self.state, own_index(number)) };
        Ok(())
    }

    /// Pushes what the function's own table of this number has under the key in a slot; nil if that is no
    /// table.
    #[inline]
    pub fn push_own_field(&mut self, number: usize, key: isize) -> Result<(), Fault> {
        if self.own(number) != Item::Table {
            return self.push_nil();
        }
        self.push_copy(key)?;
        // SAFETY: the key is there, and reading allocates nothing.
        unsafe { ffi::lua_rawget_(self.state, own_index(number)) };
        Ok(())
    }

    /// The number in a slot, or the one that its text is read as by Lua.
    #[inline]
    pub fn to_number(&self, slot: isize) -> Option<f64> {
        let slot = self.slot(slot)?;
        // SAFETY: there is this slot. Its value is not converted where it lies.
        unsafe {
            let number = ffi::lua_tonumber(self.state, slot);
            (number != 0.0 || ffi::lua_isnumber(self.state, slot) != 0).then_some(number)
        }
    }

    /// The length of the table in a slot, without metatables. 0 if it is no table.
    #[inline]
    pub fn table_len(&self, slot: isize) -> usize {
        let slot = self.slot(slot).filter(|slot| self.is_table(*slot));
        // SAFETY: there is this slot.
        slot.map_or(0, |slot| unsafe { ffi::lua_objlen(self.state, slot) })
    }

    /// Pushes the metatable of the value in a slot, if it has one.
    #[inline]
    pub fn push_metatable(&mut self, slot: isize) -> Result<bool, Fault> {
        let Some(slot) = self.slot(slot) else { return Ok(false) };
        self.reserve()?;
        // SAFETY: there is room, and there is this slot.
        Ok(unsafe { ffi::lua_getmetatable(self.state, slot) } != 0)
    }

    /// Puts the last value into the place of an argument, from 1, if that is a table. Texts stay, because
    /// they are lent.
    #[inline]
    pub fn set_argument(&mut self, slot: usize) {
        let slot = c_int::try_from(slot).unwrap_or(0);
        if slot >= 1 && slot <= self.floor && self.owns(1) && self.is_table(slot) {
            // SAFETY: both slots are there. What is replaced is a table, whose content is lent to nobody.
            unsafe { ffi::lua_replace(self.state, slot) };
        }
    }

    /// What lies in a slot, from 1, or from the end with -1 for the last one.
    #[inline]
    pub fn item(&self, slot: isize) -> Item<'_> {
        match self.slot(slot) {
            // SAFETY: there is this slot, and nothing is taken off the stack while it is lent.
            Some(slot) => unsafe { item(self.state, slot) },
            None => Item::None,
        }
    }

    #[inline]
    fn slot(&self, slot: isize) -> Option<c_int> {
        // Arguments stay, so the top need not be asked for.
        if slot >= 1 && slot <= self.floor as isize {
            return Some(slot as c_int);
        }
        let top = self.top() as isize;
        let slot = if slot < 0 { top + 1 + slot } else { slot };
        (slot >= 1 && slot <= top).then_some(slot as c_int)
    }

    /// Whether an operation that needs so many bytes succeeds whatever else it needs.
    #[inline]
    fn has_room(&mut self, bytes: usize) -> bool {
        match self.unchecked.checked_sub(bytes.saturating_add(VALUE_BYTES)) {
            Some(left) => {
                self.unchecked = left;
                true
            }
            None => self.find_room(bytes),
        }
    }

    fn find_room(&mut self, bytes: usize) -> bool {
        let needed = self.used().saturating_mul(3).saturating_add(bytes.saturating_mul(2));
        let has_room = needed.saturating_add(SMALL_BYTES) <= self.limit;
        self.unchecked = if has_room { UNCHECKED_BYTES } else { 0 };
        has_room
    }

    /// Bytes of memory in use.
    pub fn used(&self) -> usize {
        // SAFETY: counting changes nothing.
        let kilobytes = unsafe { ffi::lua_gc(self.state, ffi::LUA_GCCOUNT, 0) };
        kilobytes as usize * 1024
    }

    /// Collects all garbage.
    pub fn collect(&self) {
        // SAFETY: what lies on the stack is no garbage. An error of a finalizer ends here, and is taken off.
        unsafe {
            if ffi::lua_cpcall(self.state, collect, std::ptr::null_mut()) != ffi::LUA_OK {
                ffi::lua_settop(self.state, -2);
            }
        }
    }

    /// Sets after how many instructions the hook of the thread that runs is called, if it has one.
    pub fn set_hook_interval(&self, instructions: u32) {
        let instructions = c_int::try_from(instructions).unwrap_or(c_int::MAX);
        // SAFETY: the hook is the one that is set already.
        unsafe {
            if let Some(hook) = ffi::lua_gethook(self.state) {
                ffi::lua_sethook(self.state, Some(hook), ffi::LUA_MASKCOUNT, instructions);
            }
        }
    }

    /// Sees to it that a few more slots can be used.
    #[inline]
    fn reserve(&mut self) -> Result<(), Fault> {
        if self.free > SLOTS_MIN {
            self.free -= 1;
            return Ok(());
        }
        self.find_slots()
    }

    fn find_slots(&mut self) -> Result<(), Fault> {
        if self.used() + SMALL_BYTES > self.limit {
            return Err(Fault::Memory);
        }
        for slots in [SLOTS, SLOTS_MIN + 1] {
            // SAFETY: growing the stack needs far less memory than SMALL_BYTES.
            if unsafe { ffi::lua_checkstack(self.state, slots) } != 0 {
                self.free = slots - 1;
                return Ok(());
            }
        }
        let granted = self.granted - self.top();
        if granted > SLOTS_MIN {
            self.free = granted - 1;
            return Ok(());
        }
        Err(Fault::Memory)
    }

    /// Does `operation`, which pushes a value and needs so many bytes, in a protected call where it might
    /// fail.
    #[inline]
    fn make(&mut self, bytes: usize, operation: impl Fn(*mut ffi::lua_State) + Copy) -> Result<(), Fault> {
        self.reserve()?;
        if self.has_room(bytes) {
            operation(self.state);
            return Ok(());
        }
        // SAFETY: the state is alive and has room.
        unsafe { protect(self.state, 0, operation) }
    }

    /// Pushes nil.
    #[inline]
    pub fn push_nil(&mut self) -> Result<(), Fault> {
        self.reserve()?;
        // SAFETY: there is room.
        unsafe { ffi::lua_pushnil(self.state) };
        Ok(())
    }

    /// Pushes a boolean.
    #[inline]
    pub fn push_boolean(&mut self, value: bool) -> Result<(), Fault> {
        self.reserve()?;
        // SAFETY: there is room.
        unsafe { ffi::lua_pushboolean(self.state, c_int::from(value)) };
        Ok(())
    }

    /// Pushes a number.
    #[inline]
    pub fn push_number(&mut self, number: f64) -> Result<(), Fault> {
        self.reserve()?;
        // SAFETY: there is room.
        unsafe { ffi::lua_pushnumber(self.state, number) };
        Ok(())
    }

    /// Pushes a null pointer.
    #[inline]
    pub fn push_null(&mut self) -> Result<(), Fault> {
        self.reserve()?;
        // SAFETY: there is room.
        unsafe { ffi::lua_pushlightuserdata(self.state, std::ptr::null_mut()) };
        Ok(())
    }

    /// Pushes a copy of the value in a slot.
    #[inline]
    pub fn push_copy(&mut self, slot: isize) -> Result<(), Fault> {
        let slot = self.slot(slot).ok_or(Fault::Memory)?;
        self.reserve()?;
        // SAFETY: there is room, and there is this slot.
        unsafe { ffi::lua_pushvalue(self.state, slot) };
        Ok(())
    }

    /// Pushes a string.
    #[inline]
    pub fn push_text(&mut self, text: &[u8]) -> Result<(), Fault> {
        self.make(text.len(), |state| {
            // SAFETY: there is room, and the text is alive.
            unsafe { ffi::lua_pushlstring(state, text.as_ptr().cast::<c_char>(), text.len()) };
        })
    }

    /// Pushes an empty table with room for so many elements and fields.
    #[inline]
    pub fn push_table(&mut self, elements: usize, fields: usize) -> Result<(), Fault> {
        let count = |count: usize| c_int::try_from(count).map_err(|_| Fault::Memory);
        let (elements_room, fields_room) = (count(elements)?, count(fields)?);
        const ELEMENT_BYTES: usize = 16;
        const FIELD_BYTES: usize = 80;
        let bytes = elements.saturating_mul(ELEMENT_BYTES).saturating_add(fields.saturating_mul(FIELD_BYTES));
        self.make(bytes, |state| {
            // SAFETY: there is room.
            unsafe { ffi::lua_createtable(state, elements_room, fields_room) };
        })
    }

    /// Pushes what `kept` keeps.
    #[inline]
    pub fn push_kept(&mut self, kept: &Kept) -> Result<(), Fault> {
        self.reserve()?;
        // SAFETY: there is room, and reading an element of the registry allocates nothing.
        unsafe { ffi::lua_rawgeti_(self.state, ffi::LUA_REGISTRYINDEX, kept.number()) };
        Ok(())
    }

    /// Puts the last value into the place of the one so many slots before it, unless that is an argument.
    pub fn replace(&mut self, before: usize) {
        let slot = self.top() as isize - before as isize;
        if let Some(slot) = self.slot(slot).filter(|slot| *slot > self.floor && *slot < self.top()) {
            // SAFETY: both slots are there, above the floor.
            unsafe { ffi::lua_replace(self.state, slot) };
        }
    }

    /// Whether so many slots lie above the floor.
    #[inline]
    fn owns(&self, count: c_int) -> bool {
        self.top() - self.floor >= count
    }

    #[inline]
    fn is_table(&self, slot: c_int) -> bool {
        // SAFETY: the state is alive; a slot that does not exist has no type.
        unsafe { ffi::lua_type(self.state, slot) == ffi::LUA_TTABLE }
    }

    /// Takes the last so many values off the stack, but no arguments.
    #[inline]
    pub fn pop(&mut self, count: usize) {
        let owned = self.top() - self.floor;
        let count = c_int::try_from(count).unwrap_or(owned).min(owned);
        // SAFETY: so many values are there.
        unsafe { ffi::lua_settop(self.state, -count - 1) };
    }

    /// Stores the last value in the table below it as the element of this index, and takes it off.
    #[inline]
    pub fn set_element(&mut self, index: usize) -> Result<(), Fault> {
        let index = c_int::try_from(index).map_err(|_| Fault::Memory)?;
        if !self.owns(2) || !self.is_table(-2) {
            return Err(Fault::Memory);
        }
        if self.has_room(0) {
            // SAFETY: a table and a value are there.
            unsafe { ffi::lua_rawseti_(self.state, -2, index) };
            return Ok(());
        }
        self.push_copy(-2)?;
        // SAFETY: the value and the copy of the table are there; they change places.
        unsafe { ffi::lua_insert(self.state, -2) };
        // SAFETY: both are there.
        unsafe { protect(self.state, 2, |state| ffi::lua_rawseti_(state, 1, index)) }
    }

    /// Stores the last value in the table two below it under the key between them, and takes both off. A key
    /// that is nil or NaN is left out.
    #[inline]
    pub fn set(&mut self) -> Result<(), Fault> {
        if !self.owns(3) || !self.is_table(-3) {
            return Err(Fault::Memory);
        }
        // SAFETY: there is this slot.
        let is_key = unsafe {
            match ffi::lua_type(self.state, -2) {
                ffi::LUA_TNIL => false,
                ffi::LUA_TNUMBER => !ffi::lua_tonumber(self.state, -2).is_nan(),
                _ => true,
            }
        };
        if !is_key {
            self.pop(2);
            return Ok(());
        }
        if self.has_room(0) {
            // SAFETY: a table, a key that it takes, and a value are there.
            unsafe { ffi::lua_rawset(self.state, -3) };
            return Ok(());
        }
        self.push_copy(-3)?;
        // SAFETY: the key, the value and the copy of the table are there; the table comes first.
        unsafe { ffi::lua_insert(self.state, -3) };
        // SAFETY: all three are there.
        unsafe { protect(self.state, 3, |state| ffi::lua_rawset(state, 1)) }
    }

    /// Pushes the element of this index of the table in a slot; nil if that is no table.
    #[inline]
    pub fn push_element(&mut self, slot: isize, index: usize) -> Result<(), Fault> {
        let slot = self.slot(slot).filter(|slot| self.is_table(*slot));
        let (Some(slot), Ok(index)) = (slot, c_int::try_from(index)) else { return self.push_nil() };
        self.reserve()?;
        // SAFETY: there is room, and reading allocates nothing.
        unsafe { ffi::lua_rawgeti_(self.state, slot, index) };
        Ok(())
    }

    /// Pushes the field of the table in a slot that has the kept name; nil if that is no table.
    #[inline]
    pub fn push_field(&mut self, slot: isize, name: &Kept) -> Result<(), Fault> {
        let Some(slot) = self.slot(slot).filter(|slot| self.is_table(*slot)) else { return self.push_nil() };
        self.push_kept(name)?;
        // SAFETY: the name is there, and reading allocates nothing.
        unsafe { ffi::lua_rawget_(self.state, slot) };
        Ok(())
    }

    /// Replaces the last value, a key, by what the table in a slot has under it; by nil if that is no table.
    #[inline]
    pub fn get(&mut self, slot: isize) -> Result<(), Fault> {
        if !self.owns(1) {
            return Err(Fault::Memory);
        }
        match self.slot(slot).filter(|slot| self.is_table(*slot)) {
            // SAFETY: a key and the table are there, and reading allocates nothing.
            Some(slot) => unsafe { ffi::lua_rawget_(self.state, slot) },
            None => {
                self.pop(1);
                self.push_nil()?;
            }
        }
        Ok(())
    }

    /// Calls `visit` for all pairs of the table in a slot, which has the key in the slot before the last and
    /// the value in the last. It may push values, and must not change the table; what it leaves is taken off.
    /// False from `visit` ends the visits.
    pub fn each<E: From<Fault>>(
        &mut self,
        slot: isize,
        mut visit: impl FnMut(&mut Stack<'_>) -> Result<bool, E>,
    ) -> Result<(), E> {
        let Some(slot) = self.slot(slot).filter(|slot| self.is_table(*slot)) else { return Ok(()) };
        self.push_nil()?;
        let floor = self.floor;
        let key = self.top();
        let mut outcome = Ok(true);
        while matches!(outcome, Ok(true)) {
            outcome = self.reserve().map(|()| true).map_err(E::from);
            // SAFETY: the key comes from the last step, and the table is as it was: the values of `visit` lie
            // above the floor, the table below.
            if outcome.is_err() || unsafe { ffi::lua_next(self.state, slot) } == 0 {
                break;
            }
            self.floor = key + 1;
            outcome = visit(self);
            self.floor = floor;
            // SAFETY: the key stays there.
            unsafe { ffi::lua_settop(self.state, key) };
        }
        self.floor = floor;
        // SAFETY: what was pushed here is taken off.
        unsafe { ffi::lua_settop(self.state, key - 1) };
        outcome.map(|_| ())
    }

    /// Calls the function that lies before the last `arguments` values, and puts its result in their place.
    /// With the slot of a handler that is called where an error is raised. The error is the last value then.
    pub fn call(&mut self, arguments: usize, handler: Option<isize>) -> Result<(), Fault> {
        let handler = handler.and_then(|slot| self.slot(slot)).unwrap_or(0);
        let Ok(arguments) = c_int::try_from(arguments) else { return Err(Fault::Memory) };
        if !self.owns(arguments + 1) {
            return Err(Fault::Memory);
        }
        self.unchecked = 0;
        // SAFETY: the function and its arguments are there, and errors end in this call.
        let status = unsafe { ffi::lua_pcall(self.state, arguments, 1, handler) };
        if status == ffi::LUA_OK { Ok(()) } else { Err(Fault::Raised) }
    }

    /// The function that many calls up from the one that runs, and where it is; `None` where there is none.
    pub fn place(&self, level: usize) -> Option<Place> {
        let level = c_int::try_from(level).ok()?;
        // SAFETY: a structure of numbers and pointers, which Lua fills.
        let mut frame: ffi::lua_Debug = unsafe { std::mem::zeroed() };
        // SAFETY: the state is alive.
        if unsafe { ffi::lua_getstack(self.state, level, &raw mut frame) } == 0 {
            return None;
        }
        // SAFETY: the frame was found; nothing is pushed for these letters.
        if unsafe { ffi::lua_getinfo(self.state, c"Sl".as_ptr(), &raw mut frame) } == 0 {
            return None;
        }
        // SAFETY: Lua's texts live while the function does.
        let text = |pointer: *const c_char| unsafe { text_at(pointer) };
        let what = match &text(frame.what)[..] {
            b"Lua" => "Lua",
            b"C" => "C",
            b"main" => "main",
            _ => "tail",
        };
        let short_source = String::from_utf8_lossy(&text(frame.short_src.as_ptr())).into_owned();
        let line = usize::try_from(frame.currentline).ok();
        Some(Place { what, source: text(frame.source), short_source, line })
    }

    /// The name by which the function that runs was called, and whether as a method; `None` where it is not
    /// known.
    pub fn call_name(&self) -> Option<(String, bool)> {
        // SAFETY: a structure of numbers and pointers, which Lua fills.
        let mut frame: ffi::lua_Debug = unsafe { std::mem::zeroed() };
        // SAFETY: the state is alive, and the frame is read only if it was found. Nothing is pushed for this
        // letter, and Lua's texts live while the function does.
        unsafe {
            if ffi::lua_getstack(self.state, 0, &raw mut frame) == 0
                || ffi::lua_getinfo(self.state, c"n".as_ptr(), &raw mut frame) == 0
                || frame.name.is_null()
            {
                return None;
            }
            let name = String::from_utf8_lossy(&text_at(frame.name)).into_owned();
            Some((name, text_at(frame.namewhat) == b"method"))
        }
    }
}

/// Where a function's own value of this number lies, from 0.
#[inline]
pub(crate) fn own_index(number: usize) -> c_int {
    ffi::lua_upvalueindex(CLOSURE_VALUES + 1 + c_int::try_from(number).unwrap_or(c_int::from(u8::MAX)))
}

/// A text of C's; empty where there is none.
///
/// # Safety
///
/// The pointer is null or that of a text that ends with a zero.
unsafe fn text_at(pointer: *const c_char) -> Vec<u8> {
    if pointer.is_null() {
        return Vec::new();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(pointer) }.to_bytes().to_vec()
}

/// Collects all garbage.
unsafe extern "C-unwind" fn collect(state: *mut ffi::lua_State) -> c_int {
    // SAFETY: Lua calls this with its state.
    unsafe { ffi::lua_gc(state, ffi::LUA_GCCOLLECT, 0) };
    0
}

/// What lies in a slot.
///
/// # Safety
///
/// The state is alive, there is this slot, and its value stays there for `'s`.
#[inline]
unsafe fn item<'s>(state: *mut ffi::lua_State, slot: c_int) -> Item<'s> {
    // SAFETY: the caller's promise; each value is read as what it is, so nothing is converted.
    unsafe {
        match ffi::lua_type(state, slot) {
            ffi::LUA_TNIL => Item::Nil,
            ffi::LUA_TBOOLEAN => Item::Boolean(ffi::lua_toboolean(state, slot) != 0),
            ffi::LUA_TNUMBER => Item::Number(ffi::lua_tonumber(state, slot)),
            ffi::LUA_TSTRING => {
                let mut len = 0;
                let text = ffi::lua_tolstring(state, slot, &raw mut len);
                Item::Text(std::slice::from_raw_parts(text.cast::<u8>(), len))
            }
            ffi::LUA_TTABLE => Item::Table,
            ffi::LUA_TFUNCTION => Item::Function,
            ffi::LUA_TTHREAD => Item::Thread,
            ffi::LUA_TLIGHTUSERDATA => Item::Pointer { is_null: ffi::lua_touserdata(state, slot).is_null() },
            ffi::LUA_TNONE => Item::None,
            _ => Item::Other,
        }
    }
}

/// Does `operation` in a protected call with the last `takes` values, which are taken off; its result, if it
/// pushes one, takes their place.
///
/// # Safety
///
/// So many values are there, and `operation` owns nothing.
unsafe fn protect<F: Fn(*mut ffi::lua_State) + Copy>(
    state: *mut ffi::lua_State,
    takes: c_int,
    operation: F,
) -> Result<(), Fault> {
    unsafe extern "C-unwind" fn enter<F: Fn(*mut ffi::lua_State) + Copy>(
        state: *mut ffi::lua_State,
    ) -> c_int {
        // SAFETY: the last argument points to the operation, which the caller of this function holds.
        unsafe {
            let operation = *ffi::lua_touserdata(state, -1).cast::<F>();
            ffi::lua_settop(state, -2);
            let before = ffi::lua_gettop(state);
            operation(state);
            ffi::lua_gettop(state).saturating_sub(before).max(0)
        }
    }
    // SAFETY: cpcall would make the closure in the protected call, but takes no values; so it makes it here.
    unsafe {
        let before = ffi::lua_gettop(state) - takes;
        let made = push_closure(state, enter::<F>);
        if made.is_err() {
            ffi::lua_settop(state, before);
            return made;
        }
        ffi::lua_insert(state, before + 1);
        ffi::lua_pushlightuserdata(state, (&raw const operation).cast_mut().cast());
        if ffi::lua_pcall(state, takes + 1, ffi::LUA_MULTRET, 0) == ffi::LUA_OK {
            return Ok(());
        }
        ffi::lua_settop(state, before);
        Err(Fault::Memory)
    }
}

/// Pushes a function without values of its own, unless there is no memory for it.
///
/// # Safety
///
/// The state is alive and has room for two values.
unsafe fn push_closure(state: *mut ffi::lua_State, function: ffi::lua_CFunction) -> Result<(), Fault> {
    unsafe extern "C-unwind" fn make(state: *mut ffi::lua_State) -> c_int {
        // SAFETY: the argument points to the function and to the place for the reference.
        unsafe {
            let made = ffi::lua_touserdata(state, 1).cast::<(ffi::lua_CFunction, c_int)>();
            ffi::lua_pushcclosure(state, (*made).0, 0);
            (*made).1 = ffi::luaL_ref(state, ffi::LUA_REGISTRYINDEX);
            0
        }
    }
    let mut made = (function, ffi::LUA_NOREF);
    // SAFETY: an error in `make` ends in this call.
    unsafe {
        if ffi::lua_cpcall(state, make, (&raw mut made).cast()) != ffi::LUA_OK {
            ffi::lua_settop(state, -2);
            return Err(Fault::Memory);
        }
        ffi::lua_rawgeti_(state, ffi::LUA_REGISTRYINDEX, made.1);
        ffi::luaL_unref(state, ffi::LUA_REGISTRYINDEX, made.1);
    }
    Ok(())
}
