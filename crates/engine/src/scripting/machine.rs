//! The interpreter of each worker, and the scripts and libraries compiled for it.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use mantissa_commands::{Error, Outcome};
use mantissa_scripting::{Code, LogLevel, Machine, Problem};

use super::functions::{self, CompiledLibrary, Library, LibraryStore};
use super::running::Scripting;
use super::source::{Digest, EVAL_SCRIPTS_MAX, Script, ScriptCache};
use crate::{config, log};

/// Libraries held beside twice as many as there are, before those that are gone are looked for.
const LIBRARIES_KEPT_MAX: usize = 64;

/// Names of functions that are held.
const FUNCTIONS_KEPT_MAX: usize = 4096;

thread_local! {
    /// The machine of the worker on this thread, made when its first script comes.
    static MACHINE: RefCell<Option<WorkerMachine>> = const { RefCell::new(None) };
}

/// A script that has been compiled for a worker's machine.
pub struct Compiled {
    /// The script.
    pub script: Arc<Script>,
    /// Its code.
    pub code: Code,
}

/// A function that has been compiled for a worker's machine.
pub struct CompiledFunction {
    /// Its library.
    pub library: Arc<Library>,
    /// Its place there.
    pub place: usize,
    /// Its code.
    pub code: Code,
}

/// A worker's machine.
pub struct WorkerMachine {
    /// The machine.
    pub machine: Box<dyn Machine>,
    /// The functions of libraries, by the library's number.
    pub libraries: HashMap<u64, CompiledLibrary>,
    compiled: HashMap<Digest, Rc<Compiled>, foldhash::fast::RandomState>,
    /// Functions by the names that they were called by, as of a generation of the libraries.
    functions: HashMap<Box<[u8]>, Rc<CompiledFunction>>,
    generation: u64,
    /// The epoch of the cache that `compiled` belongs to.
    epoch: u64,
    /// The cache's number: a thread may work for one engine after another.
    owner: u64,
}

impl WorkerMachine {
    fn new(scripting: &Scripting) -> Outcome<WorkerMachine> {
        let language = scripting.language.ok_or(Error::fixed("ERR This server runs no scripts"))?;
        Ok(WorkerMachine {
            machine: language.machine().map_err(|text| Error::new(format!("ERR {text}")))?,
            libraries: HashMap::new(),
            compiled: HashMap::default(),
            functions: HashMap::new(),
            generation: 0,
            epoch: scripting.cache.epoch(),
            owner: scripting.number,
        })
    }

    /// Forgets libraries that are gone, if many are held.
    fn forget_libraries(&mut self, store: &LibraryStore) {
        if self.libraries.len() > LIBRARIES_KEPT_MAX
            && self.libraries.len() > LIBRARIES_KEPT_MAX + 2 * store.count()
        {
            let present = store.snapshot();
            let numbers: HashSet<u64> = present.values().map(|library| library.number).collect();
            self.libraries.retain(|number, _| numbers.contains(number));
        }
    }

    /// A script that is in the cache, if it has been compiled here; its use is noted.
    pub fn compiled(&self, digest: &Digest, cache: &ScriptCache) -> Option<Rc<Compiled>> {
        let compiled = self.compiled.get(digest).filter(|compiled| !compiled.script.is_evicted())?;
        cache.note_use(&compiled.script);
        Some(Rc::clone(compiled))
    }

    /// Keeps a script that has been compiled.
    pub fn keep(&mut self, script: Arc<Script>, code: Code) -> Rc<Compiled> {
        let digest = script.digest;
        let compiled = Rc::new(Compiled { script, code });
        self.compiled.insert(digest, Rc::clone(&compiled));
        compiled
    }

    /// The function of this name, whatever its case.
    pub fn function(&mut self, store: &LibraryStore, name: &[u8]) -> Outcome<Rc<CompiledFunction>> {
        let generation = store.generation();
        if self.generation != generation || self.functions.len() > FUNCTIONS_KEPT_MAX {
            self.functions.clear();
            self.generation = generation;
        }
        if let Some(function) = self.functions.get(name) {
            return Ok(Rc::clone(function));
        }
        let (library, place) = store.find(name).ok_or(Error::fixed("ERR Function not found"))?;
        let code = functions::compiled(self, &library, &library.functions[place].name)?;
        let function = Rc::new(CompiledFunction { library, place, code });
        self.functions.insert(name.into(), Rc::clone(&function));
        Ok(function)
    }

    /// Forgets everything compiled if the cache has been emptied since.
    fn follow(&mut self, epoch: u64) {
        if self.epoch != epoch {
            self.epoch = epoch;
            self.compiled.clear();
            self.machine.collect_garbage();
        }
    }

    /// Forgets scripts that the cache has evicted, if many of them are held.
    pub fn forget_evicted(&mut self, cache: &ScriptCache) {
        if self.compiled.len() > EVAL_SCRIPTS_MAX + cache.count() {
            self.compiled.retain(|digest, _| cache.contains(digest));
        }
    }
}

/// Runs `work` with this worker's machine. Fails if a script runs on it.
pub fn with_machine<R>(
    scripting: &Scripting,
    work: impl FnOnce(&mut WorkerMachine) -> Outcome<R>,
) -> Outcome<R> {
    MACHINE.with(|machine| {
        let Ok(mut machine) = machine.try_borrow_mut() else { return Err(scripting.busy_error()) };
        let vm = match &mut *machine {
            Some(vm) if vm.owner == scripting.number => vm,
            none => none.insert(WorkerMachine::new(scripting)?),
        };
        vm.follow(scripting.cache.epoch());
        vm.forget_libraries(&scripting.libraries);
        work(vm)
    })
}

/// Runs code that [`with_machine`] has compiled on this worker's machine.
pub fn run_on_machine<R>(
    scripting: &Scripting,
    work: impl FnOnce(&mut dyn Machine) -> Outcome<R>,
) -> Outcome<R> {
    MACHINE.with(|machine| {
        let Ok(mut machine) = machine.try_borrow_mut() else { return Err(scripting.busy_error()) };
        let Some(vm) = &mut *machine else { return Err(Error::fixed("ERR no machine")) };
        work(&mut *vm.machine)
    })
}

/// Whether a script runs on this thread.
pub fn is_running_here() -> bool {
    MACHINE.with(|machine| machine.try_borrow().is_err())
}

/// The error reply for code that does not compile or load; `before` is what it says before the reason.
pub fn error_of(problem: Problem, before: &[u8]) -> Error {
    match problem {
        Problem::Code(reason) => Error::from_bytes([before, &reason].concat()),
        Problem::Machine(text) => Error::new(format!("ERR {text}")),
    }
}

/// Writes a line of a script to the log.
pub fn write_log(level: LogLevel, line: &[u8]) {
    let level = match level {
        LogLevel::Debug => config::LogLevel::Debug,
        LogLevel::Verbose => config::LogLevel::Verbose,
        LogLevel::Notice => config::LogLevel::Notice,
        LogLevel::Warning => config::LogLevel::Warning,
    };
    log::write(level, format_args!("{}", String::from_utf8_lossy(line)));
}
