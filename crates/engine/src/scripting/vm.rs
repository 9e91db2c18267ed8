//! A worker's virtual machine: plain Lua 5.1 with bounds on memory, closed against bytecode, files and the
//! process, and what has been compiled for it.
//!
//! Known holes of Lua 5.1.5 and of the C libraries that redis-server adds to it are closed like this:
//!
//! - The parser (CVE-2025-49844: the collector may free the name of the chunk that is parsed): the collector
//!   rests while the parser works, and no code of a script runs in the meantime, as `load` puts the pieces
//!   together first.
//! - `unpack` (CVE-2025-46817: its range overflows): the range is checked in doubles before.
//! - Metatables of basic types (CVE-2025-46818: scripts of other users inherit changes): that of strings is
//!   shown sealed only.
//! - Long brackets (CVE-2025-46819: counting `=` overflows): a text is far shorter than 2^31 bytes.
//! - bit, cjson, cmsgpack, struct (CVE-2024-31449, CVE-2022-24834, CVE-2018-11218, CVE-2018-11219 and more):
//!   they are written in safe Rust here.
//! - Bytecode (the interpreter trusts it): a text that begins with the mark of bytecode is refused.
//! - Patterns (they recurse on the C stack): they are matched in Rust, with bounds on depth and time.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

use mlua::chunk::ChunkMode;
use mlua::{Function, Lua, LuaOptions, MultiValue, StdLib, Table, Value};

use super::budget::{self, MEMORY_BYTES_MAX};
use super::functions::Libraries;
use super::host::{self, Text};
use super::native::{self, Native, Problem, Raised};
use super::source::{Digest, Script};
use super::{api, convert, libraries};

/// Bytes in use after a script from which on garbage is collected at once.
const COLLECT_BYTES: usize = 32 << 20;
/// Bytes of source that are compiled between two looks at the clock.
const SOURCE_BYTES: usize = 16 << 10;
/// Libraries held before those that are gone are looked for.
const LIBRARIES_KEPT_MAX: usize = 64;
/// The first byte of bytecode.
const BYTECODE_MARK: u8 = 0x1B;

const PRELUDE: &str = include_str!("prelude.lua");
/// The name that scripts have in errors.
pub const SCRIPT_NAME: &str = "user_script";
/// The name of the prelude in frames.
pub const PRELUDE_NAME: &str = "=prelude";

/// The functions by which a world of scripts is used.
pub struct World {
    compile: Function,
    run: Function,
    run_function: Function,
    load: Function,
}

impl World {
    fn new(maker: &Function, fields: Table, loading: Option<Table>) -> mlua::Result<World> {
        let world: Table = maker.call((fields, loading))?;
        let (compile, run) = (world.get("compile")?, world.get("run")?);
        Ok(World { compile, run, run_function: world.get("run_function")?, load: world.get("load")? })
    }

    /// Compiles a text, or tells why it does not compile.
    pub fn compile(&self, lua: &Lua, text: &[u8], name: &str) -> mlua::Result<Result<Function, Vec<u8>>> {
        let (chunk, problem): (Option<Function>, Option<mlua::LuaString>) =
            self.compile.call((lua.create_string(text)?, name))?;
        Ok(chunk.ok_or_else(|| problem.map(|text| text.as_bytes().to_vec()).unwrap_or_default()))
    }

    /// Runs a script: whether it went well, and what it returned or raised.
    pub fn run(&self, chunk: &Function, keys: Table, arguments: Table) -> mlua::Result<(bool, Value)> {
        self.run.call((chunk, keys, arguments))
    }

    /// Runs the code of a library in the same way.
    pub fn load(&self, chunk: &Function) -> mlua::Result<(bool, Value)> {
        self.load.call(chunk)
    }

    /// Runs a function of a library.
    pub fn run_function(&self, function: &Function, keys: Table, args: Table) -> mlua::Result<(bool, Value)> {
        self.run_function.call((function, keys, args))
    }
}

/// See the module's description.
pub struct Vm {
    /// The virtual machine.
    pub lua: Lua,
    /// What EVAL's scripts see.
    pub scripts: World,
    /// What functions see.
    pub functions: World,
    /// The functions of libraries, by the library's number.
    pub libraries: HashMap<u64, HashMap<Vec<u8>, Function>>,
    compiled: HashMap<Digest, (Arc<Script>, Function)>,
    /// The epoch of the cache that `compiled` belongs to.
    epoch: u64,
}

impl Vm {
    /// A machine without scripts.
    pub fn new(epoch: u64) -> mlua::Result<Vm> {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH | StdLib::OS;
        let lua = Lua::new_with(libraries, LuaOptions::new().catch_rust_panics(false))?;
        let prelude = lua.load(PRELUDE).set_name(PRELUDE_NAME).into_function()?;
        let maker: Function = prelude.call(natives(&lua)?)?;
        let scripts = World::new(&maker, api::script_fields(&lua)?, None)?;
        let functions = World::new(&maker, api::common_fields(&lua)?, Some(api::loading_fields(&lua)?))?;
        budget::prepare(&lua)?;
        Ok(Vm { lua, scripts, functions, libraries: HashMap::new(), compiled: HashMap::new(), epoch })
    }

    /// Forgets libraries that are gone, if many are held.
    pub fn forget_libraries(&mut self, present: impl Fn() -> Libraries) {
        if self.libraries.len() > LIBRARIES_KEPT_MAX {
            let present = present();
            let is_present = |number: &u64| present.values().any(|library| library.number == *number);
            self.libraries.retain(|number, _| is_present(number));
        }
    }

    /// What has been compiled of a script.
    pub fn compiled(&self, digest: &Digest) -> Option<(Arc<Script>, Function)> {
        self.compiled.get(digest).cloned()
    }

    /// Keeps what has been compiled.
    pub fn keep(&mut self, script: &Arc<Script>, function: &Function) {
        self.compiled.insert(script.digest, (Arc::clone(script), function.clone()));
    }

    /// Forgets everything compiled if the cache has been emptied since.
    pub fn follow(&mut self, epoch: u64) {
        if self.epoch != epoch {
            self.epoch = epoch;
            self.compiled.clear();
            let _next_cycle_frees_it = self.lua.gc_collect();
        }
    }

    /// Forgets scripts that the cache has evicted, if many are held.
    pub fn forget_evicted(&mut self, is_cached: impl Fn(&Digest) -> bool) {
        if self.compiled.len() > 2 * super::source::EVAL_SCRIPTS_MAX {
            self.compiled.retain(|digest, _| is_cached(digest));
        }
    }

    /// Tidies up after a script.
    pub fn settle(&self) {
        if self.lua.used_memory() > COLLECT_BYTES {
            let _next_cycle_frees_it = self.lua.gc_collect();
        }
    }
}

/// The functions that the prelude is given.
fn natives(lua: &Lua) -> mlua::Result<Table> {
    let natives = lua.create_table()?;
    natives.set("call", lua.create_function(call)?)?;
    natives.set("pcall", lua.create_function(protected_call)?)?;
    natives.set("reveal", lua.create_function(native::reveal)?)?;
    natives.set("new_cjson", lua.create_function(|lua, ()| libraries::new_json(lua))?)?;
    let aborted = |_: &Lua, ()| Ok(host::ask(|host| host.is_aborted()).unwrap_or(false));
    natives.set("aborted", lua.create_function(aborted)?)?;
    natives.set("where", lua.create_function(position)?)?;
    natives.set("heed", lua.create_function(budget::heed)?)?;
    natives.set("switched", lua.create_function(budget::switched)?)?;
    natives.set("is_native", lua.create_function(is_native)?)?;
    let read: Function = lua.globals().get("load")?;
    natives.set("at", lua.create_function(|lua, raised: bool| Ok(native::place_of_call(lua, raised)))?)?;
    natives.set("load", lua.create_function(move |lua, arguments| load(lua, &read, arguments))?)?;
    natives.set("collect", lua.create_function(collect)?)?;
    let random = Arc::new(std::sync::Mutex::new(api::Random::default()));
    let same = Arc::clone(&random);
    natives.set("random", native::function(lua, move |_, args| api::random(&random, args))?)?;
    natives.set("randomseed", native::function(lua, move |_, args| api::seed(&same, args))?)?;
    natives.set("strings", libraries::pattern::functions(lua)?)?;
    natives.set("patterns", libraries::pattern::helpers(lua)?)?;
    natives.set("libraries", libraries::all(lua)?)?;
    Ok(natives)
}

/// Runs a command for a script.
fn run_command(lua: &Lua, values: &MultiValue) -> mlua::Result<Result<Value, Raised>> {
    let problem = match command_arguments(values) {
        Ok(args) => match host::ask(|host| host.call(&args)) {
            Some(Ok(reply)) => return convert::to_lua(lua, reply.as_bytes()).map(Ok),
            Some(Err(raised)) => return Ok(Err(raised)),
            None => "ERR redis.call/pcall can only be called inside a script invocation",
        },
        Err(problem) => problem,
    };
    Ok(Err(Raised::Reply(problem.as_bytes().to_vec(), false)))
}

/// `redis.call`.
fn call(lua: &Lua, values: MultiValue) -> mlua::Result<Value> {
    run_command(lua, &values)?.map_err(mlua::Error::external)
}

/// `redis.pcall`.
fn protected_call(lua: &Lua, values: MultiValue) -> mlua::Result<Value> {
    match run_command(lua, &values)? {
        Ok(value) => Ok(value),
        Err(raised) => native::reveal(lua, Value::Error(Box::new(mlua::Error::external(raised)))),
    }
}

/// The arguments of a command, as texts.
pub fn command_arguments<'v>(values: impl IntoIterator<Item = &'v Value>) -> Result<Vec<Text>, &'static str> {
    let text = |value: &Value| match value {
        Value::String(text) => Ok(Text::Lent(text.as_bytes())),
        Value::Integer(number) => Ok(Text::Owned(convert::number_text(*number as f64))),
        Value::Number(number) => Ok(Text::Owned(convert::number_text(*number))),
        _ => Err("ERR Lua redis lib command arguments must be strings or integers"),
    };
    let texts: Vec<Text> = values.into_iter().map(text).collect::<Result<_, _>>()?;
    if texts.is_empty() {
        return Err("ERR Please specify at least one argument for this redis lib call");
    }
    let len: usize = texts.iter().map(|text| text.as_ref().len()).sum();
    if len > MEMORY_BYTES_MAX || budget::charge(len).is_err() {
        return Err("ERR not enough memory");
    }
    Ok(texts)
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
    let name = native::is_one_line().then(|| format!("@{SCRIPT_NAME}"));
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
        let loaded = read.call((pieces(lua, text)?, chunk_name));
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

/// A function that returns a text in pieces and looks at the clock in between.
fn pieces(lua: &Lua, text: mlua::BorrowedBytes) -> mlua::Result<Function> {
    let at = Cell::new(0);
    lua.create_function(move |lua, ()| {
        budget::charge(SOURCE_BYTES * 4)?;
        let from = at.replace((at.get() + SOURCE_BYTES).min(text.len()));
        lua.create_string(&text[from..at.get()])
    })
}

/// Whether a function is written in another language than Lua.
fn is_native(_lua: &Lua, function: Function) -> mlua::Result<bool> {
    Ok(function.info().what == "C")
}

/// How messages show the name of a chunk: the one that is given, or the first line of the text.
fn short_name(name: &str) -> String {
    match name.strip_prefix(['=', '@']) {
        Some(name) => name.to_owned(),
        None => {
            let line: String = name.lines().next().unwrap_or_default().chars().take(40).collect();
            format!("[string \"{line}\"]")
        }
    }
}

/// The collector answers scripts, but does not let them stop it.
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

/// A failed check of arguments as an error reply.
pub fn reply_problem<T>(text: &'static str) -> Native<T> {
    Err(Problem::Reply(text))
}
