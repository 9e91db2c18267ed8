//! Runs compiled code: passes keys and arguments in, and tells how it ended.

use mantissa_protocol::{Args, Reply};
use mlua::{Function, Lua, Table, Value};

use super::vm::Vm;
use super::{budget, convert, host, native};
use crate::host::Host;
use crate::language::{Code, Ending, Place};

/// What [`Code`] of this machine is.
pub enum Compiled {
    /// A script.
    Script {
        /// Its code.
        chunk: Function,
        /// Its text has one line only.
        is_one_line: bool,
    },
    /// The code of a library.
    Library(Function),
    /// A function that a library has registered.
    Function(Function),
}

/// Bytes that Lua needs for a string in a table besides its text, at most.
const VALUE_BYTES: usize = 1 << 10;

/// How a run ended: whether it returned, and what it returned or raised.
pub type Ended = mlua::Result<(bool, Value)>;

/// Runs a script or function; see [`Machine::run`](crate::Machine::run).
pub fn run(
    vm: &Vm,
    code: &Code,
    (keys, arguments): (Args<'_>, Args<'_>),
    host: &mut dyn Host,
    reply: &mut Reply,
) -> Ending {
    let start = reply.len();
    match run_and_reply(vm, code, (keys, arguments), host, reply) {
        Ok((true, value)) => {
            let is_error = reply.as_bytes().get(start) == Some(&b'-');
            Ending::Returned { counted: is_error && is_counted(&value) }
        }
        Ok((false, value)) => describe(&value),
        Err(error) => Ending::Failed(native::first_line(&error)),
    }
}

fn run_and_reply(
    vm: &Vm,
    code: &Code,
    (keys, arguments): (Args<'_>, Args<'_>),
    host: &mut dyn Host,
    reply: &mut Reply,
) -> Ended {
    let bytes = |args: Args<'_>| args.iter().map(|arg| arg.len() + VALUE_BYTES).sum::<usize>();
    let (keys, arguments) = budget::with_memory(&vm.lua, bytes(keys) + bytes(arguments), || {
        Ok::<_, mlua::Error>((strings(&vm.lua, keys)?, strings(&vm.lua, arguments)?))
    })?;
    budget::begin(&vm.lua)?;
    host::lend(host, || {
        let (is_well, value) = match code.get() {
            Some(Compiled::Script { chunk, is_one_line }) => {
                native::note_one_line(*is_one_line);
                vm.scripts.run(chunk, keys, arguments)?
            }
            Some(Compiled::Function(function)) => {
                native::note_one_line(false);
                vm.functions.run_function(function, keys, arguments)?
            }
            _ => return Err(mlua::Error::runtime("this is no script of this machine")),
        };
        if let (true, Some(protocol)) = (is_well, host::ask(|host| host.protocol())) {
            // The names of fields that it looks for.
            budget::with_memory(&vm.lua, VALUE_BYTES, || convert::write_reply(reply, &value, protocol))?;
        }
        Ok((is_well, value))
    })
}

/// An array of strings.
fn strings(lua: &Lua, args: Args<'_>) -> mlua::Result<Table> {
    let table = lua.create_table_with_capacity(args.len(), 0)?;
    for (index, text) in args.iter().enumerate() {
        table.raw_set(index + 1, lua.create_string(text)?)?;
    }
    Ok(table)
}

/// The error that a script raised.
fn describe(value: &Value) -> Ending {
    let Value::Table(table) = value else {
        let text = match value {
            Value::String(text) => text.as_bytes().to_vec(),
            _ => b"unknown error".to_vec(),
        };
        return Ending::Raised { text: [b"ERR ", &text[..]].concat(), place: None, counted: false };
    };
    let mut text = field(table, "err").unwrap_or_else(|| b"ERR unknown error".to_vec());
    if text.first() == Some(&b'-') {
        text.remove(0);
    }
    let place = field(table, "source").zip(field(table, "line"));
    let place = place.map(|(source, line)| Place { source, line });
    Ending::Raised { text, place, counted: is_counted(value) }
}

/// The text of a field.
fn field(table: &Table, name: &str) -> Option<Vec<u8>> {
    let value: Value = table.raw_get(name).ok()?;
    native::text_of(&value).map(|text| text.as_ref().to_vec())
}

/// Whether an error reply that a script returns or raises was counted when its command failed.
fn is_counted(value: &Value) -> bool {
    let Value::Table(table) = value else { return false };
    matches!(table.raw_get("ignore_error_stats_update"), Ok(Value::Boolean(true)))
}
