//! How often a running script ticks, and how much memory its native functions may take.
//!
//! A tick ([`Host::tick`](crate::Host::tick)) lets the engine look at the clock, serve other clients while
//! the script is slow, and end the script. Ticks are about a millisecond apart. Two counters cause them:
//!
//! - Native functions [`charge`] their work, a unit for each byte or step. [`WORK`] units cause a tick.
//! - A hook of Lua's causes a tick after a number of instructions, the interval.
//!
//! The interval depends on the memory in use ([`interval_of`]), because one instruction may take time in
//! proportion to it: `..` and `<` of long strings, a full table that grows, `string.upper`. It is halved when
//! an interval has taken too long.
//!
//! Strings can double within a few instructions. So the interval is also adjusted after each cycle of the
//! garbage collector ([`after_cycle`]), which comes before memory has grown to three times its size.
//!
//! Lua has a hook for each coroutine. The prelude calls [`switched`] whenever another coroutine goes on, so
//! that it gets the present interval.

use std::cell::Cell;

use mantissa_lua::Stack;
use mlua::prelude::{LuaGcIncParams, LuaGcMode};
use mlua::{HookTriggers, Lua, VmState};

use super::host;
use super::native::Native;
use crate::host::TICK_PAUSE_MAX;

/// Most bytes that scripts of a worker may hold at a time.
pub const MEMORY_BYTES_MAX: usize = 512 << 20;

/// Units of work of native functions between two ticks: about half a millisecond.
const WORK: usize = 128 << 10;
/// Bytes by which a text may grow without charge.
const FEW_BYTES: usize = 32;
/// Capacity in bytes that a text begins with.
const FIRST_BYTES: usize = 512;
/// Capacity in bytes up to which the buffer of a text is kept.
const KEPT_BYTES: usize = 4 << 10;
/// Length in bytes from which a new text may shorten the interval.
const LONG_BYTES: usize = 16 << 10;
/// Units of work of a switch to another coroutine.
const SWITCH_WORK: usize = 256;
/// Most instructions between two ticks, times bytes of memory in use.
const BYTE_INSTRUCTIONS: usize = 1 << 30;
/// Most instructions between two ticks.
const INSTRUCTIONS_MAX: usize = 1 << 14;
/// Lua's `setpause`: a cycle of the collector begins when memory has grown to this many percent ...
const COLLECTOR_PAUSE: usize = 250;
/// ... or to fewer where the memory limit is near, but to no fewer than these.
const COLLECTOR_PAUSE_MIN: usize = 110;
/// Lua's `setstepmul`: the speed of the collector in percent of the speed of allocation.
const COLLECTOR_SPEED: i32 = 20_000;

thread_local! {
    /// Units of work until the next tick.
    static LEFT: Cell<usize> = const { Cell::new(WORK) };
    /// Instructions between two ticks.
    static INTERVAL: Cell<u32> = const { Cell::new(0) };
    /// The buffer of the last text.
    static KEPT: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Prepares a fresh virtual machine.
pub fn prepare(lua: &Lua) -> mlua::Result<()> {
    let collector = LuaGcIncParams::default().pause(COLLECTOR_PAUSE as i32).step_multiplier(COLLECTOR_SPEED);
    lua.gc_set_mode(LuaGcMode::Incremental(collector));
    lua.set_memory_limit(MEMORY_BYTES_MAX)?;
    INTERVAL.set(0);
    begin(lua)
}

/// Resets the counters before a script begins.
pub fn begin(lua: &Lua) -> mlua::Result<()> {
    LEFT.set(WORK);
    let interval = interval_of(lua.used_memory());
    if interval == INTERVAL.get() { Ok(()) } else { set_interval(lua, interval) }
}

/// Counts units of work, and ticks when they are used up. Fails if the script is to end.
#[inline]
pub fn charge(units: usize) -> mlua::Result<()> {
    match LEFT.get().checked_sub(units) {
        Some(left) => {
            LEFT.set(left);
            Ok(())
        }
        None => tick(),
    }
}

/// Ticks. Fails if the script is to end.
#[cold]
fn tick() -> mlua::Result<()> {
    LEFT.set(WORK);
    let goes_on = host::ask(|host| host.tick());
    if goes_on == Some(false) { Err(mlua::Error::runtime("the script is ended")) } else { Ok(()) }
}

/// The hook: ticks and adjusts the interval.
fn end_interval(lua: &Lua) -> mlua::Result<VmState> {
    let took = host::ask(|host| host.last_tick().elapsed()).unwrap_or_default();
    tick()?;
    let (before, most) = (INTERVAL.get(), interval_of(lua.used_memory()));
    let wanted = if took > TICK_PAUSE_MAX {
        let times = (took.as_micros() / TICK_PAUSE_MAX.as_micros()).min(u128::from(u32::MAX)) as u32;
        before / times.saturating_add(1).next_power_of_two()
    } else if took < TICK_PAUSE_MAX / 4 {
        before.saturating_mul(2)
    } else {
        before
    };
    let interval = wanted.clamp(1, most);
    if interval != before {
        set_interval(lua, interval)?;
    }
    Ok(VmState::Continue)
}

/// The most instructions between two ticks with this much memory in use, a power of two.
fn interval_of(used_bytes: usize) -> u32 {
    let most = (BYTE_INSTRUCTIONS / used_bytes.max(1)).clamp(1, INSTRUCTIONS_MAX);
    1 << most.ilog2()
}

/// Sets the interval for the coroutine that runs and for new ones.
fn set_interval(lua: &Lua, interval: u32) -> mlua::Result<()> {
    INTERVAL.set(interval);
    lua.set_global_hook(HookTriggers::new().every_nth_instruction(interval), |lua, _| end_interval(lua))
}

/// Called by a finalizer in each cycle of the collector. Sets the start of the next cycle so that it comes
/// before the memory limit, and shortens the interval to what the memory in use allows.
pub fn after_cycle(lua: &Lua, (): ()) -> mlua::Result<()> {
    let start_percent = (MEMORY_BYTES_MAX / 10 * 9).saturating_mul(100) / lua.used_memory().max(1);
    let pause = start_percent.clamp(COLLECTOR_PAUSE_MIN, COLLECTOR_PAUSE) as i32;
    lua.gc_set_mode(LuaGcMode::Incremental(LuaGcIncParams::default().pause(pause)));
    shorten(lua, interval_of(lua.used_memory()))
}

/// Sets a shorter interval. Others are ignored, because setting one restarts the count of instructions.
fn shorten(memory: &impl Memory, interval: u32) -> mlua::Result<()> {
    if interval < INTERVAL.get() { memory.set_interval(interval) } else { Ok(()) }
}

/// Sets the interval for the coroutine that goes on.
pub fn switched(lua: &Lua, (): ()) -> mlua::Result<()> {
    charge(SWITCH_WORK)?;
    set_interval(lua, INTERVAL.get().clamp(1, interval_of(lua.used_memory())))
}

/// The error for a lack of memory, with Lua's text.
pub fn no_memory() -> mlua::Error {
    mlua::Error::MemoryError("not enough memory".to_owned())
}

/// The memory of a machine.
pub trait Memory {
    /// Bytes in use.
    fn used(&self) -> usize;
    /// Collects garbage.
    fn collect(&self) -> mlua::Result<()>;
    /// Sets the interval for the coroutine that runs.
    fn set_interval(&self, interval: u32) -> mlua::Result<()>;
}

impl Memory for Lua {
    fn used(&self) -> usize {
        self.used_memory()
    }

    fn collect(&self) -> mlua::Result<()> {
        self.gc_collect()
    }

    fn set_interval(&self, interval: u32) -> mlua::Result<()> {
        set_interval(self, interval)
    }
}

impl Memory for Stack<'_> {
    fn used(&self) -> usize {
        Stack::used(self)
    }

    fn collect(&self) -> mlua::Result<()> {
        Stack::collect(self);
        Ok(())
    }

    fn set_interval(&self, interval: u32) -> mlua::Result<()> {
        INTERVAL.set(interval);
        self.set_hook_interval(interval);
        Ok(())
    }
}

/// Charges for a text of `len` bytes that a native function is about to make. Fails if the memory limit
/// has no memory for two of them: the text is copied once.
pub fn admit(memory: &impl Memory, len: usize) -> mlua::Result<()> {
    charge(len)?;
    let fits = || memory.used().saturating_add(len.saturating_mul(2)) <= MEMORY_BYTES_MAX;
    if !fits() {
        memory.collect()?;
        if !fits() {
            return Err(no_memory());
        }
    }
    if len < LONG_BYTES { Ok(()) } else { shorten(memory, interval_of(memory.used() + len)) }
}

/// Lifts the memory limit until it is dropped.
struct Lifted<'l>(&'l Lua);

impl Drop for Lifted<'_> {
    fn drop(&mut self) {
        // It fails only where the allocator is not mlua's.
        let _has_allocator = self.0.set_memory_limit(MEMORY_BYTES_MAX);
    }
}

/// Does `work`, which allocates at most about `bytes` of Lua's memory and runs no code of a script.
///
/// With a memory limit mlua makes each allocation in a protected call, which costs about a thousand
/// instructions. So the limit is lifted for the time of `work`, unless memory might come near it.
pub fn with_memory<R>(lua: &Lua, bytes: usize, work: impl FnOnce() -> R) -> R {
    if lua.used_memory().saturating_add(bytes) > MEMORY_BYTES_MAX / 2 {
        return work();
    }
    let _has_allocator = lua.set_memory_limit(0);
    let _lifted = Lifted(lua);
    work()
}

/// Charges for units of work on a reply of now `len` bytes. Fails if the reply is too long.
pub fn admit_reply(units: usize, len: usize) -> mlua::Result<()> {
    charge(units)?;
    if len > MEMORY_BYTES_MAX { Err(no_memory()) } else { Ok(()) }
}

/// A text that a native function makes. Its bytes are charged before they are allocated, unless they fit in
/// the buffer that is kept from one text to the next.
pub struct Output {
    bytes: Vec<u8>,
}

impl Default for Output {
    fn default() -> Output {
        Output { bytes: KEPT.take() }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if self.bytes.capacity() <= KEPT_BYTES {
            self.bytes.clear();
            // It fails while the thread ends.
            let _kept = KEPT.try_with(|kept| kept.set(std::mem::take(&mut self.bytes)));
        }
    }
}

impl Output {
    /// The length so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Appends bytes. Few bytes are not charged; a caller that appends them in a loop charges for its steps.
    #[inline]
    pub fn extend(&mut self, memory: &impl Memory, bytes: &[u8]) -> Native<()> {
        if bytes.len() > FEW_BYTES {
            charge(bytes.len())?;
        }
        if self.bytes.capacity() - self.bytes.len() < bytes.len() {
            self.grow(memory, bytes.len())?;
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// Appends a byte.
    #[inline]
    pub fn push(&mut self, memory: &impl Memory, byte: u8) -> Native<()> {
        if self.bytes.capacity() == self.bytes.len() {
            self.grow(memory, 1)?;
        }
        self.bytes.push(byte);
        Ok(())
    }

    /// Appends zeros.
    pub fn pad(&mut self, memory: &impl Memory, count: usize) -> Native<()> {
        self.grow(memory, count)?;
        self.bytes.resize(self.bytes.len() + count, 0);
        Ok(())
    }

    #[cold]
    fn grow(&mut self, memory: &impl Memory, more: usize) -> Native<()> {
        let len = self.bytes.len().saturating_add(more);
        admit(memory, len)?;
        let doubled = (self.bytes.capacity() * 2).min(MEMORY_BYTES_MAX / 2).max(len).max(FIRST_BYTES);
        self.bytes.reserve_exact(doubled - self.bytes.len());
        Ok(())
    }

    /// The text so far.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}
