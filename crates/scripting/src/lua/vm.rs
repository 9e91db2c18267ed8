//! The virtual machine: Lua 5.1 with a memory limit and without bytecode, files and access to the process.
//!
//! Known vulnerabilities of Lua 5.1.5 and of the C libraries that redis-server adds to it, and what prevents
//! them here:
//!
//! - The parser (CVE-2025-49844: the collector may free the name of the chunk that is parsed): the collector
//!   is stopped while the parser works. No code of a script runs in the meantime, because `load` puts the
//!   parts of the text together first.
//! - `unpack` (CVE-2025-46817: its range overflows): the range is checked before, in 64 bits.
//! - Metatables of basic types (CVE-2025-46818: scripts of other users see changes): scripts get a read-only
//!   view of the one of strings.
//! - Long brackets (CVE-2025-46819: counting `=` overflows): a text is far shorter than 2^31 bytes.
//! - bit, cjson, cmsgpack, struct (CVE-2024-31449, CVE-2022-24834, CVE-2018-11218, CVE-2018-11219 and more):
//!   they are written in safe Rust.
//! - Bytecode (the interpreter does not check it): a text that begins with its first byte is refused.
//! - Patterns (the matcher recurses on the C stack): they are matched in Rust, with bounds on depth and time.

use std::borrow::Cow;
use std::cell::Cell;
use std::rc::Rc;

use mantissa_lua::{Item, Kept, Program, Stack};
use mantissa_protocol::{Args, Protocol, Reply, Slice};
use mlua::chunk::ChunkMode;
use mlua::{Function, Lua, LuaOptions, StdLib, Table, Value};

use super::budget::{self, MEMORY_BYTES_MAX};
use super::convert::Names;
use super::host;
use super::native::{self, Native};
use super::run::{self, Compiled};
use super::{api, base, convert, libraries, registering};
use crate::host::{CallError, Host};
use crate::language::{Code, Ending, Language, Machine, Problem, Registration};

/// Bytes in use after a script from which on garbage is collected at once, unless more was left in use the
/// last time.
const COLLECT_BYTES: usize = 32 << 20;
/// Bytes of source that are compiled between two ticks.
const SOURCE_BYTES: usize = 16 << 10;
/// Capacity in bytes up to which the buffers of a command are kept.
const BUFFER_BYTES_KEPT: usize = 64 << 10;
/// The first byte of bytecode.
const BYTECODE_MARK: u8 = 0x1B;

const PRELUDE: &str = include_str!("prelude.lua");
/// The name that scripts have in errors.
pub const SCRIPT_NAME: &str = "user_script";
/// The name of the source of a script, and of a library. Lua shows them without the first character.
const SCRIPT_CHUNK: &str = "@user_script";
const LIBRARY_CHUNK: &str = "@user_function";
/// The name of the prelude in frames.
pub const PRELUDE_NAME: &str = "=prelude";

/// An environment for scripts: its globals, and the functions of the prelude that serve it.
pub struct Environment {
    compile: Function,
    load: Function,
    /// The globals themselves, in which KEYS and ARGV are set.
    pub globals: Kept,
    /// The handler of errors: makes a table of one.
    pub describe: Kept,
    /// Removes what a script has stored where it must not.
    pub clean: Kept,
}

impl Environment {
    fn new(
        program: &Program,
        maker: &Function,
        fields: Table,
        loading: Option<Table>,
    ) -> mlua::Result<Environment> {
        let made: Table = maker.call((fields, loading))?;
        let keep = |name: &str| program.keep(made.get::<Value>(name)?);
        Ok(Environment {
            compile: made.get("compile")?,
            load: made.get("load")?,
            globals: keep("inner_globals")?,
            describe: keep("describe")?,
            clean: keep("clean")?,
        })
    }

    /// Compiles a text, or tells why it does not compile.
    pub fn compile(&self, lua: &Lua, text: &[u8], name: &str) -> mlua::Result<Result<Function, Vec<u8>>> {
        let (chunk, problem): (Option<Function>, Option<mlua::LuaString>) =
            self.compile.call((lua.create_string(text)?, name))?;
        Ok(chunk.ok_or_else(|| problem.map(|text| text.as_bytes().to_vec()).unwrap_or_default()))
    }

    /// Runs the code of a library: whether it went well, and what it raised.
    pub fn load(&self, chunk: &Function) -> mlua::Result<(bool, Value)> {
        self.load.call(chunk)
    }
}

/// Lua 5.1.
pub struct Lua51 {
    /// The version of Redis that scripts are told, as `8.2.3`.
    pub redis_version: &'static str,
}

impl Language for Lua51 {
    fn machine(&self) -> Result<Box<dyn Machine>, String> {
        let vm = Vm::new(self.redis_version).map_err(|error| native::first_line(&error))?;
        Ok(Box::new(vm))
    }
}

/// A virtual machine with its two environments.
pub struct Vm {
    /// The virtual machine.
    pub lua: Lua,
    /// Its stack.
    pub program: Program,
    /// The names of fields that replies of scripts have.
    pub names: Names,
    /// What EVAL's scripts see.
    pub scripts: Environment,
    /// What functions see.
    pub functions: Environment,
    /// Bytes in use after a script from which on garbage is collected at once.
    collect_bytes: usize,
}

impl Vm {
    /// A machine without scripts.
    fn new(redis_version: &str) -> mlua::Result<Vm> {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH | StdLib::OS;
        let lua = Lua::new_with(libraries, LuaOptions::new().catch_rust_panics(false))?;
        let prelude = lua.load(PRELUDE).set_name(PRELUDE_NAME).into_function()?;
        let maker: Function = prelude.call(natives(&lua)?)?;
        let program = Program::new(&lua, MEMORY_BYTES_MAX)?;
        let names = Names::new(&program)?;
        let scripts = Environment::new(&program, &maker, api::script_fields(&lua, redis_version)?, None)?;
        let (fields, loading) =
            (api::common_fields(&lua, redis_version)?, api::loading_fields(&lua, redis_version)?);
        let functions = Environment::new(&program, &maker, fields, Some(loading))?;
        budget::prepare(&lua)?;
        Ok(Vm { lua, program, names, scripts, functions, collect_bytes: COLLECT_BYTES })
    }

    fn compile(&self, environment: &Environment, text: &[u8], name: &str) -> Result<Function, Problem> {
        match environment.compile(&self.lua, text, name) {
            Ok(compiled) => compiled.map_err(Problem::Code),
            Err(error) => Err(Problem::Machine(native::first_line(&error))),
        }
    }
}

impl Machine for Vm {
    fn compile_script(&mut self, text: &[u8]) -> Result<Code, Problem> {
        let chunk = self.compile(&self.scripts, text, SCRIPT_CHUNK)?;
        let kept = self.program.keep(chunk);
        let chunk = kept.map_err(|error| Problem::Machine(native::first_line(&error)))?;
        Ok(Code::new(Compiled::Script { chunk, is_one_line: !text.contains(&b'\n') }))
    }

    fn compile_library(&mut self, text: &[u8]) -> Result<Code, Problem> {
        let chunk = self.compile(&self.functions, text, LIBRARY_CHUNK)?;
        Ok(Code::new(Compiled::Library(chunk)))
    }

    fn load(&mut self, library: &Code, host: &mut dyn Host) -> Result<Vec<Registration>, Problem> {
        registering::load(self, library, host)
    }

    fn run(
        &mut self,
        code: &Code,
        keys: Args<'_>,
        arguments: Args<'_>,
        host: &mut dyn Host,
        reply: &mut Reply,
    ) -> Ending {
        let ending = run::run(self, code, (keys, arguments), host, reply);
        if self.lua.used_memory() > self.collect_bytes {
            self.collect_garbage();
            self.collect_bytes = COLLECT_BYTES.max(2 * self.lua.used_memory());
        }
        ending
    }

    fn collect_garbage(&mut self) {
        // An error of a finalizer; what is left then is freed in the next cycle.
        let _failed = self.lua.gc_collect();
    }

    fn used_bytes(&self) -> usize {
        self.lua.used_memory()
    }
}

/// The functions that the prelude is given.
fn natives(lua: &Lua) -> mlua::Result<Table> {
    let natives = lua.create_table()?;
    let buffers = Rc::new(Cell::new(CallBuffers::default()));
    let shared = Rc::clone(&buffers);
    natives.set("call", native::in_place(lua, move |stack| call(stack, &buffers))?)?;
    natives.set("pcall", native::in_place(lua, move |stack| protected_call(stack, &shared))?)?;
    natives.set("error_value", lua.create_function(native::error_value)?)?;
    natives.set("new_cjson", lua.create_function(|lua, ()| libraries::new_json(lua))?)?;
    let aborted = |_: &Lua, ()| Ok(host::ask(|host| host.is_aborted()).unwrap_or(false));
    natives.set("aborted", lua.create_function(aborted)?)?;
    natives.set("where", lua.create_function(position)?)?;
    natives.set("after_cycle", lua.create_function(budget::after_cycle)?)?;
    natives.set("switched", lua.create_function(budget::switched)?)?;
    natives.set("is_native", lua.create_function(is_native)?)?;
    let read: Function = lua.globals().get("load")?;
    natives.set("at", lua.create_function(|lua, raised: bool| Ok(native::place_of_call(lua, raised)))?)?;
    natives.set("load", lua.create_function(move |lua, arguments| load(lua, &read, arguments))?)?;
    natives.set("collect", lua.create_function(collect)?)?;
    let random = Rc::new(Cell::new(api::Random::default()));
    let same = Rc::clone(&random);
    natives.set("random", native::in_place(lua, move |stack| api::random(&random, stack))?)?;
    natives.set("randomseed", native::in_place(lua, move |stack| api::seed(&same, stack))?)?;
    natives.set("base", lua.create_function(base::functions)?)?;
    natives.set("new_pcall", lua.create_function(base::protected_call)?)?;
    natives.set("tables", lua.create_function(base::table_functions)?)?;
    natives.set("strings", libraries::pattern::functions(lua)?)?;
    natives.set("patterns", libraries::pattern::helpers(lua)?)?;
    natives.set("libraries", libraries::all(lua)?)?;
    Ok(natives)
}

/// The buffers of commands that scripts call, kept from one to the next.
#[derive(Default)]
struct CallBuffers {
    command: Command,
    reply: Vec<u8>,
}

impl CallBuffers {
    /// Keeps the buffers, unless they have become large.
    fn keep(mut self, place: &Cell<CallBuffers>) {
        if self.command.bytes.capacity() + self.reply.capacity() <= BUFFER_BYTES_KEPT {
            self.reply.clear();
            place.set(self);
        }
    }
}

/// The text of a command's error, and whether it has been counted.
type Refusal = (Cow<'static, [u8]>, bool);

/// Runs a command for a script and pushes its reply, unless it fails.
fn run_command(stack: &mut Stack<'_>, buffers: &Cell<CallBuffers>) -> Native<Result<(), Refusal>> {
    const OUTSIDE: &[u8] = b"ERR redis.call/pcall can only be called inside a script invocation";
    let CallBuffers { mut command, reply } = buffers.take();
    if let Err(problem) = command.fill_from(stack) {
        return Ok(Err((Cow::Borrowed(problem.as_bytes()), false)));
    }
    let mut reply = Reply::with_buffer(reply, Protocol::Resp2).limited(MEMORY_BYTES_MAX);
    let outcome = host::ask(|host| host.call(command.args(), &mut reply));
    let result = match outcome {
        Some(Ok(())) => convert::push_reply(stack, reply.as_bytes()).map(Ok),
        Some(Err(CallError { text, counted })) => Ok(Err((Cow::Owned(text), counted))),
        None => Ok(Err((Cow::Borrowed(OUTSIDE), false))),
    };
    CallBuffers { command, reply: reply.into_bytes() }.keep(buffers);
    result
}

/// `redis.call`.
fn call(stack: &mut Stack<'_>, buffers: &Cell<CallBuffers>) -> Native<usize> {
    match run_command(stack, buffers)? {
        Ok(()) => Ok(1),
        Err((text, counted)) => Ok(native::raise_reply(stack, &text, counted)?),
    }
}

/// `redis.pcall`.
fn protected_call(stack: &mut Stack<'_>, buffers: &Cell<CallBuffers>) -> Native<usize> {
    if let Err((text, counted)) = run_command(stack, buffers)? {
        native::push_error(stack, &text, counted)?;
    }
    Ok(1)
}

/// The arguments of a command that a script calls.
#[derive(Default)]
pub struct Command {
    /// The arguments back to back.
    bytes: Vec<u8>,
    slices: Vec<Slice>,
}

impl Command {
    /// The arguments.
    pub fn args(&self) -> Args<'_> {
        Args::new(&self.bytes, &self.slices)
    }

    /// Takes the arguments of a function; the error if they are no command.
    pub fn fill_from(&mut self, stack: &Stack<'_>) -> Result<(), &'static str> {
        self.bytes.clear();
        self.slices.clear();
        for slot in 1..=stack.arguments() {
            match stack.argument(slot) {
                Item::Text(text) => self.push(text)?,
                Item::Number(number) => self.push_number(number),
                _ => return Err("ERR Lua redis lib command arguments must be strings or integers"),
            }
        }
        if self.slices.is_empty() {
            return Err("ERR Please specify at least one argument for this redis lib call");
        }
        if budget::charge(self.bytes.len()).is_err() {
            return Err("ERR not enough memory");
        }
        Ok(())
    }

    /// Appends a number: an integer, or 17 significant digits.
    fn push_number(&mut self, number: f64) {
        const EXACT: f64 = (i64::MAX / 2) as f64;
        let start = self.bytes.len();
        if number == number.trunc() && number.abs() <= EXACT {
            mantissa_number::write_i64(&mut self.bytes, number as i64);
        } else if number.is_nan() && number.is_sign_negative() {
            self.bytes.extend_from_slice(b"-nan");
        } else {
            mantissa_number::write_score(&mut self.bytes, number);
        }
        self.slices.push(Slice { start, len: self.bytes.len() - start });
    }

    fn push(&mut self, text: &[u8]) -> Result<(), &'static str> {
        if text.len() > MEMORY_BYTES_MAX - self.bytes.len() {
            return Err("ERR not enough memory");
        }
        self.slices.push(Slice { start: self.bytes.len(), len: text.len() });
        self.bytes.extend_from_slice(text);
        Ok(())
    }
}

/// The source and line of the innermost function of a script, for the handler of errors.
fn position(lua: &Lua, (): ()) -> mlua::Result<(Option<String>, Option<usize>)> {
    // Below this function lies the handler, and then what raised the error.
    for level in 2..16 {
        let found = lua.inspect_stack(level, |frame| {
            let source = frame.source();
            let name = source.source.map(|name| name.into_owned()).unwrap_or_default();
            let is_script = matches!(source.what, "Lua" | "main") && name != PRELUDE_NAME;
            is_script.then(|| (name, frame.current_line()))
        });
        match found {
            None => break,
            Some(Some((name, line))) => return Ok((Some(name), line)),
            Some(None) => {}
        }
    }
    let name = native::is_one_line().then(|| SCRIPT_CHUNK.to_owned());
    Ok((name, native::is_one_line().then_some(1)))
}

/// Compiles a text; nil and the reason if it does not compile.
fn load(
    lua: &Lua,
    read: &Function,
    (text, chunk_name): (mlua::LuaString, mlua::LuaString),
) -> mlua::Result<(Value, Value)> {
    let (text, name) = (text.as_bytes(), chunk_name.as_bytes());
    let name = String::from_utf8_lossy(&name).into_owned();
    let name = name.split('\0').next().unwrap_or_default().to_owned();
    if text.first() == Some(&BYTECODE_MARK) {
        let shown = short_name(&name);
        let reason = format!("{shown}:1: unexpected symbol near 'char(27)'");
        return Ok((Value::Nil, Value::String(lua.create_string(reason)?)));
    }
    lua.gc_stop();
    if text.len() > SOURCE_BYTES {
        let loaded = read.call((parts(lua, text)?, chunk_name));
        lua.gc_restart();
        return loaded;
    }
    let loaded = lua.load(&text[..]).set_name(name).set_mode(ChunkMode::Text).into_function();
    lua.gc_restart();
    match loaded {
        Ok(function) => Ok((Value::Function(function), Value::Nil)),
        Err(mlua::Error::SyntaxError { message, .. }) => {
            Ok((Value::Nil, Value::String(lua.create_string(message)?)))
        }
        Err(mlua::Error::MemoryError(message)) => {
            Ok((Value::Nil, Value::String(lua.create_string(message)?)))
        }
        Err(error) => Err(error),
    }
}

/// A function that returns a text in parts and charges for each.
fn parts(lua: &Lua, text: mlua::BorrowedBytes) -> mlua::Result<Function> {
    let at = Cell::new(0);
    lua.create_function(move |lua, ()| {
        budget::charge(SOURCE_BYTES * 4)?;
        let from = at.replace((at.get() + SOURCE_BYTES).min(text.len()));
        lua.create_string(&text[from..at.get()])
    })
}

/// Whether a function is not written in Lua.
fn is_native(_lua: &Lua, function: Function) -> mlua::Result<bool> {
    Ok(function.info().what == "C")
}

/// The name of a chunk in messages: the one that was given, or the first line of the text.
fn short_name(name: &str) -> String {
    match name.strip_prefix(['=', '@']) {
        Some(name) => name.to_owned(),
        None => {
            let line: String = name.lines().next().unwrap_or_default().chars().take(40).collect();
            format!("[string \"{line}\"]")
        }
    }
}

/// `collectgarbage`, except that scripts can neither stop the collector nor set its speed.
fn collect(lua: &Lua, (option, argument): (Value, Value)) -> mlua::Result<Value> {
    let _ignored = argument;
    let Some(option) = native::text_of(&option) else { return Ok(Value::Nil) };
    Ok(match option.as_ref() {
        b"count" => Value::Number(lua.used_memory() as f64 / 1024.0),
        b"collect" => {
            lua.gc_collect()?;
            Value::Integer(0)
        }
        b"step" => Value::Boolean(lua.gc_step()?),
        b"stop" | b"restart" => Value::Integer(0),
        b"setpause" | b"setstepmul" => Value::Integer(200),
        _ => Value::Nil,
    })
}

/// The error for arguments that a check refuses, as an error reply.
pub fn reply_problem<T>(text: &'static str) -> Native<T> {
    Err(native::Problem::Reply(text))
}
