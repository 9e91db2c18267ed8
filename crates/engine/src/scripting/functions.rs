//! Libraries of functions: loading them, finding them, and what all workers share of them.
//!
//! A library's code is run once in each machine that needs it, when a function of it is first called
//! there; what it keeps in its own variables is therefore kept by each worker for itself.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mantissa_commands::{Error, Outcome};
use mantissa_protocol::{Args, Protocol, Reply};
use mantissa_scripting::{BAD_NAME, CallError, Code, Host, LogLevel, Registration, ScriptFlags, is_name};
use parking_lot::{RwLock, RwLockWriteGuard};

use super::machine::{WorkerMachine, error_of, write_log};
use super::source::{KeyUsage, declaration_words};

/// How long the code of a library may run when it is loaded.
const LOAD_TIME_MAX: Duration = Duration::from_millis(500);

/// What is known of a function.
#[derive(Debug)]
pub struct FunctionInfo {
    /// Its name.
    pub name: Vec<u8>,
    /// Its description.
    pub description: Option<Vec<u8>>,
    /// What it declares.
    pub flags: ScriptFlags,
    /// What is known of its keys.
    pub key_usage: KeyUsage,
}

/// A library.
#[derive(Debug)]
pub struct Library {
    /// Unique, also among libraries of the same name.
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
    shared: RwLock<Shared>,
    next_number: AtomicU64,
    /// Grows with every change, before it.
    generation: AtomicU64,
}

/// Libraries and the names of their functions.
#[derive(Clone, Default)]
struct Shared {
    libraries: Libraries,
    /// By the function's name in lower case: its library and its place there.
    functions: HashMap<Box<[u8]>, (Arc<Library>, usize)>,
}

impl Shared {
    /// Adds a library, unless its name or that of one of its functions is taken.
    fn insert(&mut self, library: &Arc<Library>, policy: Policy) -> Outcome {
        if policy == Policy::Append && self.libraries.contains_key(&library.name) {
            return Err(taken(&library.name));
        }
        for function in &library.functions {
            let other = self.functions.get(&function.name.to_ascii_lowercase()[..]);
            if other.is_some_and(|(other, _)| other.name != library.name) {
                return Err(Error::quoting("ERR Function ", &function.name, " already exists"));
            }
        }
        self.remove(&library.name);
        for (place, function) in library.functions.iter().enumerate() {
            let name = function.name.to_ascii_lowercase().into_boxed_slice();
            self.functions.insert(name, (Arc::clone(library), place));
        }
        self.libraries.insert(library.name.clone(), Arc::clone(library));
        Ok(())
    }

    /// Removes a library; false if there is none.
    fn remove(&mut self, name: &[u8]) -> bool {
        let Some(library) = self.libraries.remove(name) else { return false };
        for function in &library.functions {
            self.functions.remove(&function.name.to_ascii_lowercase()[..]);
        }
        true
    }
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
        self.shared.read().libraries.clone()
    }

    /// The number of libraries.
    pub fn count(&self) -> usize {
        self.shared.read().libraries.len()
    }

    /// The number of libraries and of functions, and the bytes of their code.
    pub fn figures(&self) -> (usize, usize, usize) {
        let shared = self.shared.read();
        let libraries = &shared.libraries;
        (
            libraries.len(),
            shared.functions.len(),
            libraries.values().map(|library| library.code.len() + 200).sum(),
        )
    }

    fn change(&self) -> RwLockWriteGuard<'_, Shared> {
        let shared = self.shared.write();
        self.generation.fetch_add(1, Ordering::Release);
        shared
    }

    /// Grows with every change. What is found after it was read is not older.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The function of this name, whatever its case: its library and its place there.
    pub fn find(&self, name: &[u8]) -> Option<(Arc<Library>, usize)> {
        // Most names fit.
        let mut buffer = [0; 64];
        let longer;
        let lower = match buffer.get_mut(..name.len()) {
            Some(lower) => {
                lower.copy_from_slice(name);
                lower.make_ascii_lowercase();
                &*lower
            }
            None => {
                longer = name.to_ascii_lowercase();
                &longer[..]
            }
        };
        self.shared.read().functions.get(lower).cloned()
    }

    /// Compiles a library and adds it. Returns its name.
    pub fn load(&self, vm: &mut WorkerMachine, code: &[u8], policy: Policy) -> Outcome<Vec<u8>> {
        let is_taken =
            |name: &[u8]| policy == Policy::Append && self.shared.read().libraries.contains_key(name);
        let (library, functions) = self.prepare(vm, code, is_taken)?;
        self.change().insert(&library, policy)?;
        vm.libraries.insert(library.number, functions);
        Ok(library.name.clone())
    }

    /// Adds several libraries, all or none, after removing all others if `flush` says so.
    pub fn restore(&self, vm: &mut WorkerMachine, codes: &[Vec<u8>], policy: Policy, flush: bool) -> Outcome {
        let mut loaded = Vec::new();
        for code in codes {
            loaded.push(self.prepare(vm, code, |_| false)?);
        }
        let mut shared = self.change();
        let mut new = if flush { Shared::default() } else { shared.clone() };
        for (library, _) in &loaded {
            new.insert(library, policy).map_err(|error| {
                let text = error.text().replace("Library '", "Library ").replace("' already", " already");
                Error::new(text)
            })?;
        }
        *shared = new;
        drop(shared);
        for (library, functions) in loaded {
            vm.libraries.insert(library.number, functions);
        }
        Ok(())
    }

    /// Removes a library; false if there is none.
    pub fn delete(&self, name: &[u8]) -> bool {
        self.change().remove(name)
    }

    /// Removes all libraries, and tells how many functions they had.
    pub fn flush(&self) -> usize {
        let flushed = std::mem::take(&mut *self.change());
        flushed.functions.len()
    }

    fn prepare(
        &self,
        vm: &mut WorkerMachine,
        code: &[u8],
        is_taken: impl Fn(&[u8]) -> bool,
    ) -> Outcome<(Arc<Library>, CompiledLibrary)> {
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

/// The functions of a library in a machine, by their names.
pub type CompiledLibrary = HashMap<Vec<u8>, Code>;

type Registered = (Vec<FunctionInfo>, CompiledLibrary);

/// Runs the code of a library and collects what it registers.
fn run_code(vm: &mut WorkerMachine, code: &[u8]) -> Outcome<Registered> {
    const FAILED: &[u8] = b"ERR Error registering functions: ";
    let chunk = vm.machine.compile_library(code);
    let chunk = chunk.map_err(|problem| error_of(problem, b"ERR Error compiling function: "))?;
    let mut loading = Loading::new();
    let registered = vm.machine.load(&chunk, &mut loading);
    if loading.is_late {
        return Err(Error::from_bytes([FAILED, b"ERR FUNCTION LOAD timeout"].concat()));
    }
    let registered = registered.map_err(|problem| error_of(problem, FAILED))?;
    let compiled = registered.iter().map(|known| (known.name.clone(), known.code.clone())).collect();
    let info = |known: Registration| FunctionInfo {
        name: known.name,
        description: known.description,
        flags: known.flags,
        key_usage: KeyUsage::default(),
    };
    Ok((registered.into_iter().map(info).collect(), compiled))
}

/// The code of a function of a library in this machine, where that of the library is run if it has not been.
pub(super) fn compiled(vm: &mut WorkerMachine, library: &Library, name: &[u8]) -> Outcome<Code> {
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

/// The host of code that is being loaded, which may run for a time and call nothing.
struct Loading {
    deadline: Instant,
    last_tick: Instant,
    is_late: bool,
}

impl Loading {
    fn new() -> Loading {
        let now = Instant::now();
        Loading { deadline: now + LOAD_TIME_MAX, last_tick: now, is_late: false }
    }
}

impl Host for Loading {
    fn call(&mut self, _args: Args<'_>, _reply: &mut Reply) -> Result<(), CallError> {
        let text = b"ERR redis.call/pcall can only be called inside a script invocation".to_vec();
        Err(CallError { text, counted: false })
    }

    fn is_aborted(&self) -> bool {
        self.is_late
    }

    fn tick(&mut self) -> bool {
        self.last_tick = Instant::now();
        self.is_late = self.is_late || self.last_tick > self.deadline;
        !self.is_late
    }

    fn last_tick(&self) -> Instant {
        self.last_tick
    }

    fn protocol(&self) -> Protocol {
        Protocol::Resp2
    }

    fn set_protocol(&mut self, _protocol: Protocol) {}

    fn set_logs(&mut self, _logs: bool) {}

    fn may_run(&mut self, _args: Args<'_>) -> Option<bool> {
        None
    }

    fn log(&mut self, level: LogLevel, line: &[u8]) {
        write_log(level, line);
    }
}
