//! The functions of `redis` that do not run commands, and `math.random`.

use std::borrow::Cow;
use std::cell::Cell;

use mantissa_lua::{Item, Stack};
use mantissa_protocol::Protocol;
use mlua::{Lua, Table, Value};
use sha1::{Digest as _, Sha1};

use super::budget::{self, Output};
use super::host;
use super::native::{self, Arguments, Native, Passed as _, Problem};
use super::vm::{Command, reply_problem};
use crate::host::LogLevel;
use crate::language::hexadecimal;

const LEVELS: [(&str, LogLevel); 4] = [
    ("LOG_DEBUG", LogLevel::Debug),
    ("LOG_VERBOSE", LogLevel::Verbose),
    ("LOG_NOTICE", LogLevel::Notice),
    ("LOG_WARNING", LogLevel::Warning),
];

/// Bytes of a digest between two charges.
const DIGEST_BYTES: usize = 64 << 10;
/// The flag for effects that go to the append-only file.
const REPL_AOF: i64 = 1;
/// Where the effects of a script go: `redis.REPL_*`.
const DESTINATIONS: [(&str, i64); 5] =
    [("REPL_NONE", 0), ("REPL_AOF", REPL_AOF), ("REPL_SLAVE", 2), ("REPL_REPLICA", 2), ("REPL_ALL", 3)];

/// A version as a number, a byte for each part: 0x080203 for 8.2.3.
fn version_number(version: &str) -> i64 {
    version.split('.').fold(0, |number, part| number << 8 | part.parse::<i64>().unwrap_or(0))
}

/// The fields of `redis` that scripts and functions have in common.
pub fn common_fields(lua: &Lua, version: &str) -> mlua::Result<Table> {
    let fields = lua.create_table()?;
    for (number, (name, _)) in LEVELS.into_iter().enumerate() {
        fields.set(name, number)?;
    }
    for (name, number) in DESTINATIONS {
        fields.set(name, number)?;
    }
    fields.set("REDIS_VERSION", version)?;
    fields.set("REDIS_VERSION_NUM", version_number(version))?;
    fields.set("log", native::function(lua, write_log)?)?;
    fields.set("sha1hex", native::in_place(lua, sha1hex)?)?;
    fields.set("error_reply", native::in_place(lua, error_reply)?)?;
    fields.set("status_reply", native::in_place(lua, status_reply)?)?;
    fields.set("setresp", native::function(lua, set_protocol)?)?;
    fields.set("set_repl", native::function(lua, set_destinations)?)?;
    fields.set("acl_check_cmd", native::in_place(lua, check_command)?)?;
    Ok(fields)
}

/// The fields of `redis` while the code of a library is loaded.
pub fn loading_fields(lua: &Lua, version: &str) -> mlua::Result<Table> {
    let fields = lua.create_table()?;
    for (number, (name, _)) in LEVELS.into_iter().enumerate() {
        fields.set(name, number)?;
    }
    fields.set("REDIS_VERSION", version)?;
    fields.set("REDIS_VERSION_NUM", version_number(version))?;
    fields.set("log", native::function(lua, write_log)?)?;
    fields.set("register_function", native::function(lua, super::registering::register)?)?;
    Ok(fields)
}

/// The fields of `redis` for scripts.
pub fn script_fields(lua: &Lua, version: &str) -> mlua::Result<Table> {
    let fields = common_fields(lua, version)?;
    fields.set("replicate_commands", native::function(lua, |_, _| Ok(true))?)?;
    fields.set("breakpoint", native::function(lua, |_, _| Ok(false))?)?;
    fields.set("debug", native::function(lua, |_, _| Ok(()))?)?;
    Ok(fields)
}

fn write_log(lua: &Lua, args: &Arguments) -> Native<()> {
    if args.len() < 2 {
        return reply_problem("ERR redis.log() requires two arguments or more.");
    }
    let level = match args.get(0) {
        Some(Value::Integer(level)) => *level,
        Some(Value::Number(level)) => super::convert::truncate(*level),
        _ => return reply_problem("ERR First argument must be a number (log level)."),
    };
    let Some((_, level)) = usize::try_from(level).ok().and_then(|level| LEVELS.get(level)) else {
        return reply_problem("ERR Invalid log level.");
    };
    let mut line = Output::default();
    for text in args.iter().skip(1).filter_map(native::text_of) {
        if line.len() > 0 {
            line.push(lua, b' ')?;
        }
        line.extend(lua, text.as_ref())?;
    }
    host::ask(|host| host.log(*level, line.as_bytes()));
    Ok(())
}

fn sha1hex(stack: &mut Stack<'_>) -> Native<usize> {
    if stack.arguments() != 1 {
        return reply_problem("ERR wrong number of arguments");
    }
    let text = match stack.value(0) {
        Item::Text(_) | Item::Number(_) => stack.text(0, "sha1hex")?,
        _ => Cow::Borrowed(&[][..]),
    };
    let mut digest = Sha1::new();
    for part in text.chunks(DIGEST_BYTES) {
        budget::charge(part.len())?;
        digest.update(part);
    }
    stack.push_text(hexadecimal(&digest.finalize()).as_bytes())?;
    Ok(1)
}

fn error_reply(stack: &mut Stack<'_>) -> Native<usize> {
    let (1, Item::Text(text)) = (stack.arguments(), stack.value(0)) else {
        native::push_error(stack, b"ERR wrong number or type of arguments", false)?;
        return Ok(1);
    };
    budget::admit(stack, text.len())?;
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let whole = match text.contains(&b' ') {
        true => Cow::Borrowed(text),
        false => Cow::Owned([b"ERR ", text].concat()),
    };
    native::push_error(stack, &whole, false)?;
    Ok(1)
}

fn status_reply(stack: &mut Stack<'_>) -> Native<usize> {
    let (1, Item::Text(_)) = (stack.arguments(), stack.value(0)) else {
        native::push_error(stack, b"ERR wrong number or type of arguments", false)?;
        return Ok(1);
    };
    stack.push_table(0, 1)?;
    stack.push_text(b"ok")?;
    stack.push_copy(1)?;
    stack.set()?;
    Ok(1)
}

fn set_protocol(_lua: &Lua, args: &Arguments) -> Native<()> {
    if args.len() != 1 {
        return reply_problem("ERR redis.setresp() requires one argument.");
    }
    let number = args.get(0).and_then(native::number_of).map_or(0, super::convert::truncate);
    let protocol = match number {
        2 => Protocol::Resp2,
        3 => Protocol::Resp3,
        _ => return reply_problem("ERR RESP version must be 2 or 3."),
    };
    host::ask(|host| host.set_protocol(protocol));
    Ok(())
}

fn set_destinations(_lua: &Lua, args: &Arguments) -> Native<()> {
    if args.len() != 1 {
        return reply_problem("ERR redis.set_repl() requires one argument.");
    }
    let flags = args.get(0).and_then(native::number_of).map_or(0, super::convert::truncate);
    if flags & !3 != 0 {
        return reply_problem(
            "ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.",
        );
    }
    host::ask(|host| host.set_logs(flags & REPL_AOF != 0));
    Ok(())
}

fn check_command(stack: &mut Stack<'_>) -> Native<usize> {
    let mut command = Command::default();
    if let Err(text) = command.fill_from(stack) {
        return reply_problem(text);
    }
    match host::ask(|host| host.may_run(command.args())) {
        None => reply_problem("ERR redis.acl_check_cmd can only be called inside a script invocation"),
        Some(None) => reply_problem("ERR Invalid command passed to redis.acl_check_cmd()"),
        Some(Some(may_run)) => {
            stack.push_boolean(may_run)?;
            Ok(1)
        }
    }
}

/// The generator of `math.random`, that of drand48: a seed gives the same numbers as in redis-server.
#[derive(Clone, Copy)]
pub struct Random(u64);

impl Default for Random {
    fn default() -> Self {
        Random(0x1234_ABCD_330E)
    }
}

impl Random {
    /// The generator after the next number.
    fn step(self) -> Random {
        Random(self.0.wrapping_mul(0x5_DEEC_E66D).wrapping_add(0xB) & 0xFFFF_FFFF_FFFF)
    }

    /// Its number, 31 bits.
    fn number(self) -> u32 {
        (self.0 >> 17) as u32
    }
}

/// `math.random`.
pub fn random(state: &Cell<Random>, stack: &mut Stack<'_>) -> Native<usize> {
    const NUMBERS: u32 = i32::MAX as u32;
    state.set(state.get().step());
    let fraction = f64::from(state.get().number() % NUMBERS) / f64::from(NUMBERS);
    let empty =
        |number: usize| Problem::Text(format!("bad argument #{number} to 'random' (interval is empty)"));
    let number = match stack.arguments() {
        0 => fraction,
        1 => {
            let last = stack.integer(0, "random")? as i32;
            if last < 1 {
                return Err(empty(1));
            }
            (fraction * f64::from(last)).floor() + 1.0
        }
        2 => {
            let (first, last) = (stack.integer(0, "random")? as i32, stack.integer(1, "random")? as i32);
            if first > last {
                return Err(empty(2));
            }
            let count = f64::from(last) - f64::from(first) + 1.0;
            (fraction * count).floor() + f64::from(first)
        }
        _ => return Err(Problem::Text("wrong number of arguments".to_owned())),
    };
    stack.push_number(number)?;
    Ok(1)
}

/// `math.randomseed`.
pub fn seed(state: &Cell<Random>, stack: &mut Stack<'_>) -> Native<usize> {
    let seed = stack.integer(0, "randomseed")?;
    state.set(Random((u64::from(seed as u32) << 16) | 0x330E));
    Ok(0)
}
