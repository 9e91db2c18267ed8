//! Functions of Lua's base and table libraries that know sealed tables, or bound what the original does.
//!
//! Each looks at its arguments and then lets the original go on in its place, so errors are the original's.
//! `prelude.lua` makes the sealed tables; it says what they are.

use mantissa_lua::{End, Item, Stack};
use mlua::{Function, Lua, Table};

use super::convert;
use super::native::{self, Native, Passed as _, Problem};
use super::run;

const READ_ONLY: &[u8] = b"Attempt to modify a readonly table";
/// The most results of `unpack` that fit on the stack beside the arguments.
const RESULTS_MAX: i64 = 7999;
/// Bounds of a range up to which nothing of it overflows.
const PLAIN_MAX: f64 = 1e9;
/// Most elements that one call of Lua's own functions moves: ticks cannot interrupt it.
const MOVES_MAX: i64 = 100_000;

// The values of these functions of their own.
/// The real tables by their sealed ones.
const REAL: usize = 0;
/// The sealed tables by their real ones.
const SEALED: usize = 1;
/// What `getmetatable` returns for sealed tables.
const SHOWN: usize = 2;
/// The key in `SHOWN` of what it returns for strings.
const STRINGS: usize = 3;
/// The name of the field that hides a metatable.
const HIDDEN: usize = 4;

/// The functions of the base library. The tables are the prelude's of these names.
pub fn functions(lua: &Lua, (real_of, sealed_of, shown): (Table, Table, Table)) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let globals = lua.globals();
    for (name, body) in [
        ("next", read as fn(&mut Stack<'_>) -> Native<End>),
        ("rawget", read),
        ("rawset", rawset),
        ("setmetatable", setmetatable),
        ("unpack", unpack),
    ] {
        let original: Function = globals.get(name)?;
        table.set(name, native::before(lua, Some(&original), &real_of, body)?)?;
    }
    let own = (real_of.clone(), sealed_of, shown, "string", "__metatable");
    table.set("getmetatable", native::before(lua, None, own, getmetatable)?)?;
    let own = (real_of, globals.get::<Function>("next")?, table.get::<Function>("next")?);
    table.set("pairs", native::before(lua, None, own, pairs)?)?;
    Ok(table)
}

/// `pcall`. `caught` gets the results of calls that failed, and returns those for the script.
pub fn protected_call(lua: &Lua, caught: Function) -> mlua::Result<Function> {
    const CAUGHT: usize = 0;
    let original: Function = lua.globals().get("pcall")?;
    native::before(lua, Some(&original), caught, |stack| match stack.arguments() {
        0 => Err(native::wrong_as(0, "pcall", "value expected".to_owned())),
        _ => Ok(End::Checked(CAUGHT)),
    })
}

/// `insert` and `remove` of the table library. The functions move many elements so that ticks can interrupt
/// them.
pub fn table_functions(
    lua: &Lua,
    (real_of, insert_far, remove_far): (Table, Function, Function),
) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let originals: Table = lua.globals().get("table")?;
    let original: Function = originals.get("insert")?;
    table.set("insert", native::before(lua, Some(&original), (&real_of, insert_far), insert)?)?;
    let original: Function = originals.get("remove")?;
    table.set("remove", native::before(lua, Some(&original), (real_of, remove_far), remove)?)?;
    Ok(table)
}

/// Pushes the real table of an argument, from 0, if it is a sealed one.
#[inline]
fn push_real(stack: &mut Stack<'_>, index: usize) -> Native<bool> {
    let slot = index as isize + 1;
    // All sealed tables have metatables.
    if !stack.push_metatable(slot)? {
        return Ok(false);
    }
    stack.push_own_field(REAL, slot)?;
    Ok(stack.item(-1) == Item::Table)
}

/// Puts the real table into the place of an argument, from 0, that is a sealed one. Scripts must not get it.
#[inline]
fn unseal(stack: &mut Stack<'_>, index: usize) -> Native<()> {
    if push_real(stack, index)? {
        stack.set_argument(index + 1);
    }
    Ok(())
}

/// Raises the error for changes of sealed tables, which has no position.
#[cold]
fn refuse<T>(stack: &mut Stack<'_>) -> Native<T> {
    stack.push_text(READ_ONLY)?;
    Err(Problem::Fault(mantissa_lua::Fault::Raised))
}

/// What `next` and `rawget` do first.
fn read(stack: &mut Stack<'_>) -> Native<End> {
    unseal(stack, 0)?;
    Ok(End::Original)
}

fn rawset(stack: &mut Stack<'_>) -> Native<End> {
    if stack.arguments() >= 3 && push_real(stack, 0)? {
        return refuse(stack);
    }
    Ok(End::Original)
}

fn setmetatable(stack: &mut Stack<'_>) -> Native<End> {
    if !matches!(stack.value(1), Item::Nil | Item::Table) {
        return Ok(End::Original);
    }
    if push_real(stack, 0)? {
        return refuse(stack);
    }
    unseal(stack, 1)?;
    Ok(End::Original)
}

fn getmetatable(stack: &mut Stack<'_>) -> Native<End> {
    match stack.value(0) {
        Item::None => return Err(native::wrong_as(0, "getmetatable", "value expected".to_owned())),
        Item::Text(_) => {
            stack.push_own(STRINGS)?;
            stack.push_own_field(SHOWN, -1)?;
            return Ok(End::Results(1));
        }
        _ => {}
    }
    if !stack.push_metatable(1)? {
        stack.push_nil()?;
        return Ok(End::Results(1));
    }
    stack.push_own_field(REAL, 1)?;
    if stack.item(-1) != Item::Nil {
        stack.push_own_field(SHOWN, 1)?;
        return Ok(End::Results(1));
    }
    stack.pop(1);
    stack.push_own(HIDDEN)?;
    stack.get(-2)?;
    if stack.item(-1) != Item::Nil {
        return Ok(End::Results(1));
    }
    stack.pop(1);
    stack.push_own_field(SEALED, -1)?;
    if stack.item(-1) == Item::Nil {
        stack.pop(1);
    }
    Ok(End::Results(1))
}

fn pairs(stack: &mut Stack<'_>) -> Native<End> {
    /// Lua's own `next`, and the one that knows sealed tables.
    const NEXT: usize = 1;
    const NEXT_OF_SEALED: usize = 2;
    if stack.value(0) != Item::Table {
        return Err(native::wrong(0, "pairs", "table", stack.value(0).type_name()));
    }
    let next = if push_real(stack, 0)? { NEXT_OF_SEALED } else { NEXT };
    stack.push_own(next)?;
    stack.push_copy(1)?;
    stack.push_nil()?;
    Ok(End::Results(3))
}

/// An argument as the original converts it to an `int`, or `otherwise` if there is none. The original raises
/// an error where it is no number.
fn int(stack: &Stack<'_>, index: usize, otherwise: i64) -> i64 {
    if stack.is_none(index) {
        return otherwise;
    }
    stack.read_number(index).map_or(0, |number| i64::from(convert::truncate(number) as i32))
}

fn unpack(stack: &mut Stack<'_>) -> Native<End> {
    unseal(stack, 0)?;
    // The range of all elements does not overflow.
    if stack.arguments() < 2 || stack.value(0) != Item::Table {
        return Ok(End::Original);
    }
    if let (Item::Number(first), Item::Number(last)) = (stack.value(1), stack.value(2))
        && first.abs() < PLAIN_MAX
        && last.abs() < PLAIN_MAX
        && last - first < PLAIN_MAX
    {
        return Ok(End::Original);
    }
    let count = if stack.is_none(2) { stack.table_len(1) as i64 } else { 0 };
    let (first, last) = (int(stack, 1, 1), int(stack, 2, count));
    let room = RESULTS_MAX - stack.arguments().saturating_sub(1) as i64;
    if first <= last && (last > i64::from(i32::MAX) || last - first >= room) {
        // What the original says of a wrong argument comes first.
        let is_wrong = |index| !stack.is_none(index) && stack.read_number(index).is_none();
        if !is_wrong(1) && !is_wrong(2) {
            return Err(Problem::Text("too many results to unpack".to_owned()));
        }
    }
    Ok(End::Original)
}

fn insert(stack: &mut Stack<'_>) -> Native<End> {
    const FAR: usize = 1;
    if push_real(stack, 0)? {
        run::note_stored();
    }
    if stack.arguments() == 3 && stack.value(0) == Item::Table {
        let is_far = stack.table_len(1) as i64 - int(stack, 1, 0) > MOVES_MAX;
        if is_far && stack.read_number(1).is_some() {
            return Ok(End::Other(FAR));
        }
    }
    Ok(End::Original)
}

fn remove(stack: &mut Stack<'_>) -> Native<End> {
    const FAR: usize = 1;
    if stack.arguments() >= 2 {
        let (len, place) = (stack.table_len(1) as i64, int(stack, 1, i64::MAX));
        if place >= 1 && len - place > MOVES_MAX && stack.read_number(1).is_some() {
            return Ok(End::Other(FAR));
        }
    }
    Ok(End::Original)
}
