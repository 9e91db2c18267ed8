//! A language of scripts and its machines.

use std::any::Any;
use std::rc::Rc;

use mantissa_protocol::{Args, Reply};

use crate::host::Host;

/// A language in which scripts and functions are written.
pub trait Language: Send + Sync {
    /// A new machine, for the thread that calls this. Fails with the reason.
    fn machine(&self) -> Result<Box<dyn Machine>, String>;
}

/// Compiles and runs code on one thread. Scripts of the same machine do not disturb each other, apart from
/// what they leave in tables that the language lets them share.
pub trait Machine {
    /// Compiles a script, without the line that declares its flags.
    fn compile_script(&mut self, text: &[u8]) -> Result<Code, Problem>;

    /// Compiles the code of a library, without the line that declares its name. [`Machine::load`] runs it.
    fn compile_library(&mut self, text: &[u8]) -> Result<Code, Problem>;

    /// Runs the code of a library once and returns the functions that it registers, in that order.
    fn load(&mut self, library: &Code, host: &mut dyn Host) -> Result<Vec<Registration>, Problem>;

    /// Runs a script or a function of a library. What it returns is appended to `reply`; if it does not end
    /// well, `reply` may hold a part of a reply, which is for the caller to remove.
    fn run(
        &mut self,
        code: &Code,
        keys: Args<'_>,
        arguments: Args<'_>,
        host: &mut dyn Host,
        reply: &mut Reply,
    ) -> Ending;

    /// Frees what nothing refers to any more.
    fn collect_garbage(&mut self);

    /// Bytes of memory in use.
    fn used_bytes(&self) -> usize;
}

/// Compiled code. Only the machine that made it can run it, and the machine may free it once all clones are
/// dropped.
#[derive(Clone)]
pub struct Code(Rc<dyn Any>);

impl Code {
    /// Wraps what a machine compiles to.
    pub fn new(compiled: impl Any) -> Code {
        Code(Rc::new(compiled))
    }

    /// What a machine compiled to, if it is of this type.
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

/// Why code does not compile or load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The code is wrong, for this reason.
    Code(Vec<u8>),
    /// The machine failed, such as for lack of memory.
    Machine(String),
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It returned a value, which the reply holds.
    Returned {
        /// The errors in it, of which there may be many.
        errors: Vec<ReturnedError>,
    },
    /// It raised an error.
    Raised {
        /// The text without the leading `-`.
        text: Vec<u8>,
        /// Where it was raised, if that is known.
        place: Option<Place>,
        /// The engine's statistics count it already.
        counted: bool,
    },
    /// The machine failed, such as for lack of memory.
    Failed(String),
}

/// An error in what a script has returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReturnedError {
    /// The start of its text without the leading `-`, at most [`ReturnedError::BYTES_MAX`] bytes.
    pub start: Vec<u8>,
    /// The engine's statistics count it already.
    pub counted: bool,
}

impl ReturnedError {
    /// Enough to tell an error's code.
    pub const BYTES_MAX: usize = 64;
}

/// A place in the source of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The name of the source.
    pub source: Vec<u8>,
    /// The line, counted from 1.
    pub line: Vec<u8>,
}

/// A function that a library has registered.
pub struct Registration {
    /// Its name, which [`is_name`] has accepted.
    pub name: Vec<u8>,
    /// The description that its author gave.
    pub description: Option<Vec<u8>>,
    /// What it declares.
    pub flags: ScriptFlags,
    /// Its code.
    pub code: Code,
}

/// What the first line of a script, or the registration of a function, may declare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScriptFlags {
    /// Nothing was declared: the rules of scripts from before declarations hold.
    pub undeclared: bool,
    /// It does not write.
    pub no_writes: bool,
    /// It runs also when memory is short.
    pub allow_oom: bool,
    /// It runs also on a replica with stale data.
    pub allow_stale: bool,
    /// It does not run on a cluster.
    pub no_cluster: bool,
    /// It may touch keys of several slots.
    pub allow_cross_slot_keys: bool,
}

impl ScriptFlags {
    /// The names that Redis uses.
    pub const NAMES: [&'static str; 5] =
        ["no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"];

    /// Whether flags were declared, and not that it only reads.
    pub fn declares_writes(self) -> bool {
        !self.undeclared && !self.no_writes
    }

    /// Sets the flag of this name; false if there is none.
    pub fn set(&mut self, name: &[u8]) -> bool {
        match name {
            b"no-writes" => self.no_writes = true,
            b"allow-oom" => self.allow_oom = true,
            b"allow-stale" => self.allow_stale = true,
            b"no-cluster" => self.no_cluster = true,
            b"allow-cross-slot-keys" => self.allow_cross_slot_keys = true,
            _ => return false,
        }
        true
    }

    /// The names of the flags that are set.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let set =
            [self.no_writes, self.allow_oom, self.allow_stale, self.no_cluster, self.allow_cross_slot_keys];
        Self::NAMES.into_iter().zip(set).filter(|(_, set)| *set).map(|(name, _)| name)
    }
}

/// The error for a name that [`is_name`] refuses.
pub const BAD_NAME: &str = "ERR Library names can only contain letters, numbers, or underscores(_) and must \
                            be at least one character long";

/// Whether a library or function may have this name.
pub fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

/// A digest in hexadecimal.
pub fn hexadecimal(digest: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    digest
        .iter()
        .flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]])
        .map(char::from)
        .collect()
}
