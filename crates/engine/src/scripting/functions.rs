//! Libraries of functions: loading them, finding them, and what all workers share of them.
//!
//! A library's code is run once in each virtual machine that needs it, when a function of it is first called
//! there; what it keeps in its own variables is therefore kept by each worker for itself.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mantissa_commands::{Error, Outcome};
use mantissa_protocol::{Protocol, Reply};
use mlua::{Function, Lua, Value};
use parking_lot::RwLock;

use super::budget;
use super::host::{self, Host, Text};
use super::native::{self, Arguments, Native, Raised};
use super::source::{Habits, ScriptFlags, declaration_words};
use super::vm::{Vm, reply_problem};

/// How long the code of a library may run when it is loaded.
const LOAD_TIME_MAX: Duration = Duration::from_millis(500);

/// What is known of a function.
#[derive(Debug)]
pub struct FunctionInfo {
    /// Its name.
    pub name: Vec<u8>,
    /// What its author says of it.
    pub description: Option<Vec<u8>>,
    /// What it declares.
    pub flags: ScriptFlags,
    /// What is known of its keys.
    pub habits: Habits,
}

/// A library.
#[derive(Debug)]
pub struct Library {
    /// Tells it from earlier ones of the same name.
    pub number: u64,
    /// Its name.
    pub name: Vec<u8>,
    /// Its code, with the declaration.
    pub code: Box<[u8]>,
    /// Its functions, in the order of their names.
    pub functions: Vec<FunctionInfo>,
}

/// Libraries by name.
pub type Libraries = BTreeMap<Vec<u8>, Arc<Library>>;

/// The libraries that all workers share.
#[derive(Default)]
pub struct LibraryStore {
    libraries: RwLock<Libraries>,
    next_number: AtomicU64,
}

/// What to do with a library whose name is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Refuse it.
    Append,
    /// Put it in the place of the old one.
    Replace,
}

impl LibraryStore {
    /// The libraries as they are now.
    pub fn snapshot(&self) -> Libraries {
        self.libraries.read().clone()
    }

    /// The number of libraries and of functions, and the bytes of their code.
    pub fn figures(&self) -> (usize, usize, usize) {
        let libraries = self.libraries.read();
        let functions = libraries.values().map(|library| library.functions.len()).sum();
        (libraries.len(), functions, libraries.values().map(|library| library.code.len() + 200).sum())
    }

    /// The function of this name, whatever its case: its library and its place there.
    pub fn find(&self, name: &[u8]) -> Option<(Arc<Library>, usize)> {
        let libraries = self.libraries.read();
        libraries.values().find_map(|library| {
            let place = library.functions.iter().position(|known| known.name.eq_ignore_ascii_case(name));
            place.map(|place| (Arc::clone(library), place))
        })
    }

    /// Compiles a library and adds it. Returns its name.
    pub fn load(&self, vm: &mut Vm, code: &[u8], policy: Policy) -> Outcome<Vec<u8>> {
        let (library, functions) = self
            .prepare(vm, code, |name| policy == Policy::Append && self.libraries.read().contains_key(name))?;
        let mut libraries = self.libraries.write();
        insert(&mut libraries, &library, policy)?;
        drop(libraries);
        vm.libraries.insert(library.number, functions);
        Ok(library.name.clone())
    }

    /// Adds several libraries, all or none, after removing all others if `flush` says so.
    pub fn restore(&self, vm: &mut Vm, codes: &[Vec<u8>], policy: Policy, flush: bool) -> Outcome {
        let mut loaded = Vec::new();
        for code in codes {
            loaded.push(self.prepare(vm, code, |_| false)?);
        }
        let mut libraries = self.libraries.write();
        let mut new = if flush { Libraries::new() } else { libraries.clone() };
        for (library, _) in &loaded {
            insert(&mut new, library, policy).map_err(|error| {
                let text = error.text().replace("Library '", "Library ").replace("' already", " already");
                Error::new(text)
            })?;
        }
        *libraries = new;
        drop(libraries);
        for (library, functions) in loaded {
            vm.libraries.insert(library.number, functions);
        }
        Ok(())
    }

    /// Removes a library; false if there is none.
    pub fn delete(&self, name: &[u8]) -> bool {
        self.libraries.write().remove(name).is_some()
    }

    /// Removes all libraries, and tells how many functions they had.
    pub fn flush(&self) -> usize {
        let libraries = std::mem::take(&mut *self.libraries.write());
        libraries.values().map(|library| library.functions.len()).sum()
    }

    fn prepare(
        &self,
        vm: &mut Vm,
        code: &[u8],
        is_taken: impl Fn(&[u8]) -> bool,
    ) -> Outcome<(Arc<Library>, Compiled)> {
        let (name, declaration_bytes) = parse_declaration(code)?;
        if is_taken(&name) {
            return Err(taken(&name));
        }
        let (mut functions, compiled) = run_code(vm, code.get(declaration_bytes..).unwrap_or_default())?;
        if functions.is_empty() {
            return Err(Error::fixed("ERR No functions registered"));
        }
        functions.sort_by(|left, right| left.name.cmp(&right.name));
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        Ok((Arc::new(Library { number, name, code: code.into(), functions }), compiled))
    }
}

fn taken(name: &[u8]) -> Error {
    Error::quoting("ERR Library '", name, "' already exists")
}

/// Adds a library, unless its name or that of one of its functions is taken.
fn insert(libraries: &mut Libraries, library: &Arc<Library>, policy: Policy) -> Outcome {
    if policy == Policy::Append && libraries.contains_key(&library.name) {
        return Err(taken(&library.name));
    }
    for function in &library.functions {
        let others = libraries.values().filter(|other| other.name != library.name);
        let mut names = others.flat_map(|other| &other.functions).map(|other| &other.name);
        if names.any(|name| name.eq_ignore_ascii_case(&function.name)) {
            return Err(Error::quoting("ERR Function ", &function.name, " already exists"));
        }
    }
    libraries.insert(library.name.clone(), Arc::clone(library));
    Ok(())
}

const BAD_NAME: &str = "ERR Library names can only contain letters, numbers, or underscores(_) and must be \
                        at least one character long";

fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

/// The name that the first line of a library declares, and the length of that line.
fn parse_declaration(code: &[u8]) -> Outcome<(Vec<u8>, usize)> {
    if !code.starts_with(b"#!") {
        return Err(Error::fixed("ERR Missing library metadata"));
    }
    let end = code.iter().position(|&byte| byte == b'\n');
    let Some(end) = end else { return Err(Error::fixed("ERR Invalid library metadata")) };
    let words = declaration_words(&code[..end]).filter(|words| !words.is_empty());
    let Some(words) = words else { return Err(Error::fixed("ERR Invalid library metadata")) };
    let mut name: Option<&[u8]> = None;
    for word in &words[1..] {
        match word.get(..5).filter(|start| start.eq_ignore_ascii_case(b"name=")) {
            Some(_) if name.is_some() => {
                return Err(Error::fixed(
                    "ERR Invalid metadata value, name argument was given multiple times",
                ));
            }
            Some(_) => name = word.get(5..),
            None => return Err(Error::quoting("ERR Invalid metadata value given: ", word, "")),
        }
    }
    let Some(name) = name else { return Err(Error::fixed("ERR Library name was not given")) };
    if !is_name(name) {
        return Err(Error::fixed(BAD_NAME));
    }
    let engine = words[0].get(2..).unwrap_or_default();
    if !engine.eq_ignore_ascii_case(b"lua") {
        return Err(Error::quoting("ERR Engine '", engine, "' not found"));
    }
    Ok((name.to_vec(), end))
}

thread_local! {
    /// The functions that the library under way has registered; `None` while none is loaded.
    static REGISTERED: RefCell<Option<Vec<(FunctionInfo, Function)>>> = const { RefCell::new(None) };
}

/// The functions of a library in a virtual machine, by their names.
pub type Compiled = HashMap<Vec<u8>, Function>;

type Registered = (Vec<FunctionInfo>, Compiled);

/// Runs the code of a library and collects what it registers.
fn run_code(vm: &mut Vm, code: &[u8]) -> Outcome<Registered> {
    let compiled = vm.functions.compile(&vm.lua, code, "@user_function").map_err(super::eval::internal)?;
    let chunk = compiled.map_err(|problem| {
        let parts: [&[u8]; 2] = [b"ERR Error compiling function: ", &problem];
        Error::from_bytes(parts.concat())
    })?;
    REGISTERED.with(|registered| *registered.borrow_mut() = Some(Vec::new()));
    let mut loading = Loading { deadline: Instant::now() + LOAD_TIME_MAX, is_late: false };
    native::note_one_line(false);
    budget::begin(&vm.lua).map_err(super::eval::internal)?;
    let ended = host::lend(&mut loading, || vm.functions.load(&chunk));
    let registered = REGISTERED.with(|registered| registered.borrow_mut().take()).unwrap_or_default();
    const FAILED: &[u8] = b"ERR Error registering functions: ";
    if loading.is_late {
        return Err(Error::from_bytes([FAILED, b"ERR FUNCTION LOAD timeout"].concat()));
    }
    match ended.map_err(super::eval::internal)? {
        (true, _) => {}
        (false, problem) => {
            let text = match &problem {
                Value::Table(table) => {
                    table.raw_get("err").ok().and_then(|text: Value| native::text_of(&text))
                }
                other => native::text_of(other),
            };
            let text = text.map_or_else(Vec::new, |text| text.as_ref().to_vec());
            return Err(Error::from_bytes([FAILED, &text].concat()));
        }
    }
    let functions = registered.iter().map(|(info, function)| (info.name.clone(), function.clone())).collect();
    Ok((registered.into_iter().map(|(info, _)| info).collect(), functions))
}

/// The function of this name of a library in this virtual machine, where its code is run if it has not been.
pub fn compiled(vm: &mut Vm, library: &Library, name: &[u8]) -> Outcome<Function> {
    const MISSING: Error = Error::fixed("ERR Function not found");
    if let Some(functions) = vm.libraries.get(&library.number) {
        return functions.get(name).cloned().ok_or(MISSING);
    }
    let (_, declaration_bytes) = parse_declaration(&library.code)?;
    let (_, functions) = run_code(vm, library.code.get(declaration_bytes..).unwrap_or_default())?;
    let function = functions.get(name).cloned().ok_or(MISSING);
    vm.libraries.insert(library.number, functions);
    function
}

/// What code that is being loaded may ask for: time, and nothing else.
struct Loading {
    deadline: Instant,
    is_late: bool,
}

impl Host for Loading {
    fn call(&mut self, _args: &[Text]) -> Result<Reply, Raised> {
        let text = "ERR redis.call/pcall can only be called inside a script invocation";
        Err(Raised::Reply(text.as_bytes().to_vec(), false))
    }

    fn is_aborted(&self) -> bool {
        self.is_late
    }

    fn tick(&mut self) -> bool {
        self.is_late = self.is_late || Instant::now() > self.deadline;
        !self.is_late
    }

    fn protocol(&self) -> Protocol {
        Protocol::Resp2
    }

    fn set_protocol(&mut self, _protocol: Protocol) {}

    fn set_logs(&mut self, _logs: bool) {}

    fn may_run(&mut self, _args: &[Text]) -> Option<bool> {
        None
    }
}

/// `redis.register_function`, in both of its forms.
pub fn register(_lua: &Lua, args: &Arguments) -> Native<()> {
    let (info, function) = match args.len() {
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
            (new_info(name.as_ref().to_vec(), None, ScriptFlags::default()), function.clone())
        }
        _ => return reply_problem("ERR wrong number of arguments to redis.register_function"),
    };
    if !is_name(&info.name) {
        return reply_problem(BAD_NAME);
    }
    let is_new = REGISTERED.with(|registered| match &mut *registered.borrow_mut() {
        None => None,
        Some(all) if all.iter().any(|(known, _)| known.name.eq_ignore_ascii_case(&info.name)) => Some(false),
        Some(all) => {
            all.push((info, function));
            Some(true)
        }
    });
    match is_new {
        Some(true) => Ok(()),
        Some(false) => reply_problem("ERR Function already exists in the library"),
        None => reply_problem("ERR redis.register_function can only be called on FUNCTION LOAD command"),
    }
}

fn new_info(name: Vec<u8>, description: Option<Vec<u8>>, flags: ScriptFlags) -> FunctionInfo {
    FunctionInfo { name, description, flags, habits: Habits::default() }
}

fn named_arguments(table: &mlua::Table) -> Native<(FunctionInfo, Function)> {
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
    Ok((new_info(name, description, flags), function))
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
