//! How often a running script looks at the clock, and how much memory its native functions may take.
//!
//! A look ([`Host::tick`](super::host::Host::tick)) lets the worker serve others while the script is slow,
//! and ends a script that is to end. Between two looks lie at most
//!
//! - [`WORK`] units of work of native functions in Rust, which they [`charge`]: a unit for each byte or step;
//! - as many instructions of Lua as [`interval_of`] allows. An instruction may take time in proportion to the
//!   memory in use: `..` and `<` of long strings, a full table that grows, `string.upper`. So the interval is
//!   the shorter the more memory is in use. One that has taken long makes the next one shorter.
//!
//! Strings can double within a few instructions. The collector calls [`heed`] each time that it has gone
//! round, which is before memory has grown to three times its size.
//!
//! An interval belongs to a coroutine. The prelude calls [`switched`] whenever another one goes on, so that
//! the one that runs has the interval that is known here.

use std::cell::Cell;
use std::time::{Duration, Instant};

use mlua::prelude::{LuaGcIncParams, LuaGcMode};
use mlua::{HookTriggers, Lua, VmState};

use super::host;
use super::native::Native;

/// Most bytes that scripts of a worker may hold at a time.
pub const MEMORY_BYTES_MAX: usize = 512 << 20;

/// Units of work of native functions between two looks: about half a millisecond.
const WORK: usize = 128 << 10;
/// Bytes that a text may grow by without accounting for them.
const FEW_BYTES: usize = 32;
/// A text of so many bytes may shorten the interval.
const LONG_BYTES: usize = 16 << 10;
/// Work that switching to another coroutine counts for.
const SWITCH_WORK: usize = 256;
/// Bytes of memory times instructions between two looks.
const BYTE_INSTRUCTIONS: usize = 1 << 30;
/// Most instructions between two looks.
const INSTRUCTIONS_MAX: usize = 1 << 14;
/// An interval that takes longer is too long; one that takes less than a quarter of it may grow.
const PAUSE_MAX: Duration = Duration::from_millis(1);
/// The collector begins when memory has grown to this many percent, if that is within the limit ...
const COLLECTOR_PAUSE: usize = 250;
/// ... but not before this many ...
const COLLECTOR_PAUSE_MIN: usize = 110;
/// ... and does this many percent of the work that is needed to keep up.
const COLLECTOR_SPEED: i32 = 20_000;

thread_local! {
    /// Units of work until the next look.
    static LEFT: Cell<usize> = const { Cell::new(WORK) };
    /// Instructions between two looks.
    static INTERVAL: Cell<u32> = const { Cell::new(0) };
    /// The end of the last look.
    static LOOKED: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Prepares a fresh virtual machine.
pub fn prepare(lua: &Lua) -> mlua::Result<()> {
    let collector = LuaGcIncParams::default().pause(COLLECTOR_PAUSE as i32).step_multiplier(COLLECTOR_SPEED);
    lua.gc_set_mode(LuaGcMode::Incremental(collector));
    lua.set_memory_limit(MEMORY_BYTES_MAX)?;
    INTERVAL.set(0);
    begin(lua)
}

/// Notes that a script begins.
pub fn begin(lua: &Lua) -> mlua::Result<()> {
    LEFT.set(WORK);
    LOOKED.set(Some(Instant::now()));
    let interval = interval_of(lua.used_memory());
    if interval == INTERVAL.get() { Ok(()) } else { set_interval(lua, interval) }
}

/// Accounts for work. Fails if the script is to end.
#[inline]
pub fn charge(units: usize) -> mlua::Result<()> {
    match LEFT.get().checked_sub(units) {
        Some(left) => {
            LEFT.set(left);
            Ok(())
        }
        None => look(),
    }
}

/// Looks at the clock.
#[cold]
fn look() -> mlua::Result<()> {
    LEFT.set(WORK);
    let goes_on = host::ask(|host| host.tick());
    LOOKED.set(Some(Instant::now()));
    if goes_on == Some(false) { Err(mlua::Error::runtime("the script is ended")) } else { Ok(()) }
}

/// Whether at this time a look was due.
pub fn is_due(at: Instant) -> bool {
    LOOKED.get().is_some_and(|looked| at.saturating_duration_since(looked) > PAUSE_MAX)
}

/// Notes that a look has been taken.
pub fn note_look() {
    LOOKED.set(Some(Instant::now()));
}

/// Called at the end of each interval.
fn end_interval(lua: &Lua) -> mlua::Result<VmState> {
    let took = LOOKED.get().map_or(Duration::ZERO, |looked| looked.elapsed());
    look()?;
    let (before, most) = (INTERVAL.get(), interval_of(lua.used_memory()));
    let wanted = if took > PAUSE_MAX {
        let times = (took.as_micros() / PAUSE_MAX.as_micros()).min(u128::from(u32::MAX)) as u32;
        before / times.saturating_add(1).next_power_of_two()
    } else if took < PAUSE_MAX / 4 {
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

/// The most instructions between two looks with this much memory in use, a power of two.
fn interval_of(used_bytes: usize) -> u32 {
    let most = (BYTE_INSTRUCTIONS / used_bytes.max(1)).clamp(1, INSTRUCTIONS_MAX);
    1 << most.ilog2()
}

/// Sets the interval of the coroutine that runs, and of those that are yet to be made.
fn set_interval(lua: &Lua, interval: u32) -> mlua::Result<()> {
    INTERVAL.set(interval);
    lua.set_global_hook(HookTriggers::new().every_nth_instruction(interval), |lua, _| end_interval(lua))
}

/// Shortens the interval to what the memory in use allows, and has the collector begin in time. An interval
/// that is set begins anew; so one that is short enough is left as it is.
pub fn heed(lua: &Lua, (): ()) -> mlua::Result<()> {
    let room = (MEMORY_BYTES_MAX / 10 * 9).saturating_mul(100) / lua.used_memory().max(1);
    let pause = room.clamp(COLLECTOR_PAUSE_MIN, COLLECTOR_PAUSE) as i32;
    lua.gc_set_mode(LuaGcMode::Incremental(LuaGcIncParams::default().pause(pause)));
    shorten(lua, interval_of(lua.used_memory()))
}

fn shorten(lua: &Lua, interval: u32) -> mlua::Result<()> {
    if interval < INTERVAL.get() { set_interval(lua, interval) } else { Ok(()) }
}

/// Gives the interval to the coroutine that goes on.
pub fn switched(lua: &Lua, (): ()) -> mlua::Result<()> {
    charge(SWITCH_WORK)?;
    set_interval(lua, INTERVAL.get().clamp(1, interval_of(lua.used_memory())))
}

/// What stands for Lua's own error of this kind.
fn no_memory() -> mlua::Error {
    mlua::Error::MemoryError("not enough memory".to_owned())
}

/// Accounts for a text of this length that a native function is about to make. Fails if Lua has no room for
/// it, or not twice, as it is copied.
pub fn admit(lua: &Lua, len: usize) -> mlua::Result<()> {
    charge(len)?;
    let fits = || lua.used_memory().saturating_add(len.saturating_mul(2)) <= MEMORY_BYTES_MAX;
    if !fits() {
        lua.gc_collect()?;
        if !fits() {
            return Err(no_memory());
        }
    }
    if len < LONG_BYTES { Ok(()) } else { shorten(lua, interval_of(lua.used_memory() + len)) }
}

/// Accounts for bytes of a reply, which has this length by now.
pub fn admit_reply(units: usize, len: usize) -> mlua::Result<()> {
    charge(units)?;
    if len > MEMORY_BYTES_MAX { Err(no_memory()) } else { Ok(()) }
}

/// A text that a native function makes. It counts as the script's memory before it is allocated.
pub struct Output<'l> {
    lua: &'l Lua,
    bytes: Vec<u8>,
}

impl<'l> Output<'l> {
    /// An empty text.
    pub fn new(lua: &'l Lua) -> Self {
        Output { lua, bytes: Vec::new() }
    }

    /// The length so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Appends bytes. A few are not accounted for: who appends many times few does that.
    #[inline]
    pub fn extend(&mut self, bytes: &[u8]) -> Native<()> {
        if bytes.len() > FEW_BYTES {
            charge(bytes.len())?;
        }
        if self.bytes.capacity() - self.bytes.len() < bytes.len() {
            self.grow(bytes.len())?;
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// Appends a byte.
    #[inline]
    pub fn push(&mut self, byte: u8) -> Native<()> {
        if self.bytes.capacity() == self.bytes.len() {
            self.grow(1)?;
        }
        self.bytes.push(byte);
        Ok(())
    }

    /// Appends zeros.
    pub fn pad(&mut self, count: usize) -> Native<()> {
        self.grow(count)?;
        self.bytes.resize(self.bytes.len() + count, 0);
        Ok(())
    }

    #[cold]
    fn grow(&mut self, more: usize) -> Native<()> {
        let len = self.bytes.len().saturating_add(more);
        admit(self.lua, len)?;
        let doubled = (self.bytes.capacity() * 2).min(MEMORY_BYTES_MAX / 2).max(len).max(64);
        self.bytes.reserve_exact(doubled - self.bytes.len());
        Ok(())
    }

    /// The text so far.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The text as a value.
    pub fn into_value(self) -> Native<mlua::Value> {
        Ok(mlua::Value::String(self.lua.create_string(self.bytes)?))
    }
}
