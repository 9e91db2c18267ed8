//! Loading libraries: `redis.register_function`.

use std::cell::RefCell;

use mlua::{Function, Lua, Value};

use super::native::{self, Arguments, Native};
use super::run::Compiled;
use super::vm::{Vm, reply_problem};
use super::{budget, host};
use crate::host::Host;
use crate::language::{BAD_NAME, Code, Problem, Registration, ScriptFlags, is_name};

thread_local! {
    /// The functions that the library being loaded has registered; `None` while none is being loaded.
    static REGISTERED: RefCell<Option<Vec<Registered>>> = const { RefCell::new(None) };
}

/// A function that a library has registered, as the machine has it.
struct Registered {
    name: Vec<u8>,
    description: Option<Vec<u8>>,
    flags: ScriptFlags,
    function: Function,
}

/// Runs the code of a library and collects what it registers.
pub fn load(vm: &Vm, library: &Code, host: &mut dyn Host) -> Result<Vec<Registration>, Problem> {
    let machine_failed = |error: mlua::Error| Problem::Machine(native::first_line(&error));
    let Some(Compiled::Library(chunk)) = library.get() else {
        return Err(Problem::Machine("this is no library of this machine".to_owned()));
    };
    REGISTERED.set(Some(Vec::new()));
    native::note_one_line(false);
    budget::begin(&vm.lua).map_err(machine_failed)?;
    let ended = host::lend(host, || vm.functions.load(chunk));
    let registered = REGISTERED.take().unwrap_or_default();
    match ended.map_err(machine_failed)? {
        (true, _) => registered.into_iter().map(|new| kept(vm, new).map_err(machine_failed)).collect(),
        (false, problem) => {
            let text = match &problem {
                Value::Table(table) => {
                    table.raw_get("err").ok().and_then(|text: Value| native::text_of(&text))
                }
                other => native::text_of(other),
            };
            Err(Problem::Code(text.map_or_else(Vec::new, |text| text.as_ref().to_vec())))
        }
    }
}

/// A function with its code kept in the machine.
fn kept(vm: &Vm, new: Registered) -> mlua::Result<Registration> {
    let Registered { name, description, flags, function } = new;
    let code = Code::new(Compiled::Function(vm.program.keep(function)?));
    Ok(Registration { name, description, flags, code })
}

/// `redis.register_function`, in both of its forms.
pub fn register(_lua: &Lua, args: &Arguments) -> Native<()> {
    let new = match args.len() {
        1 => match args.get(0) {
            Some(Value::Table(table)) => named_arguments(table)?,
            _ => {
                return reply_problem(
                    "ERR calling redis.register_function with a single argument is only applicable to Lua \
                     table (representing named arguments).",
                );
            }
        },
        2 => {
            let Some(name) = args.get(0).and_then(native::text_of) else {
                return reply_problem("ERR first argument to redis.register_function must be a string");
            };
            let Some(Value::Function(function)) = args.get(1) else {
                return reply_problem("ERR second argument to redis.register_function must be a function");
            };
            let (name, flags) = (name.as_ref().to_vec(), ScriptFlags::default());
            Registered { name, description: None, flags, function: function.clone() }
        }
        _ => return reply_problem("ERR wrong number of arguments to redis.register_function"),
    };
    if !is_name(&new.name) {
        return reply_problem(BAD_NAME);
    }
    let is_new = REGISTERED.with(|registered| match &mut *registered.borrow_mut() {
        None => None,
        Some(all) if all.iter().any(|known| known.name.eq_ignore_ascii_case(&new.name)) => Some(false),
        Some(all) => {
            all.push(new);
            Some(true)
        }
    });
    match is_new {
        Some(true) => Ok(()),
        Some(false) => reply_problem("ERR Function already exists in the library"),
        None => reply_problem("ERR redis.register_function can only be called on FUNCTION LOAD command"),
    }
}

fn named_arguments(table: &mlua::Table) -> Native<Registered> {
    let (mut name, mut description, mut function) = (None, None, None);
    let mut flags = ScriptFlags::default();
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair?;
        let Some(key) = native::text_of(&key) else {
            return reply_problem("ERR named argument key given to redis.register_function is not a string");
        };
        match key.as_ref() {
            b"function_name" => match native::text_of(&value) {
                Some(text) => name = Some(text.as_ref().to_vec()),
                None => {
                    return reply_problem(
                        "ERR function_name argument given to redis.register_function must be a string",
                    );
                }
            },
            b"description" => match native::text_of(&value) {
                Some(text) => description = Some(text.as_ref().to_vec()),
                None => {
                    return reply_problem(
                        "ERR description argument given to redis.register_function must be a string",
                    );
                }
            },
            b"callback" => match value {
                Value::Function(value) => function = Some(value),
                _ => {
                    return reply_problem(
                        "ERR callback argument given to redis.register_function must be a function",
                    );
                }
            },
            b"flags" => match value {
                Value::Table(names) => read_flags(&names, &mut flags)?,
                _ => {
                    return reply_problem(
                        "ERR flags argument to redis.register_function must be a table representing function \
                         flags",
                    );
                }
            },
            _ => return reply_problem("ERR unknown argument given to redis.register_function"),
        }
    }
    let Some(name) = name else {
        return reply_problem("ERR redis.register_function must get a function name argument");
    };
    let Some(function) = function else {
        return reply_problem("ERR redis.register_function must get a callback argument");
    };
    Ok(Registered { name, description, flags, function })
}

fn read_flags(names: &mlua::Table, flags: &mut ScriptFlags) -> Native<()> {
    for index in 1.. {
        let name: Value = names.raw_get(index)?;
        match &name {
            Value::Nil => break,
            Value::String(name) if flags.set(&name.as_bytes()) => {}
            _ => return reply_problem("ERR unknown flag given"),
        }
    }
    Ok(())
}
