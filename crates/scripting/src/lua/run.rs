//! Runs compiled code: passes keys and arguments in, and tells how it ended.

use std::cell::Cell;

use mantissa_lua::{Fault, Item, Kept, Stack};
use mantissa_protocol::{Args, Reply};
use mlua::Function;

use super::native::{self, Native, Problem};
use super::vm::Vm;
use super::{budget, convert, host};
use crate::host::Host;
use crate::language::{Code, Ending, Place};

/// What [`Code`] of this machine is.
pub enum Compiled {
    /// A script.
    Script {
        /// Its code.
        chunk: Kept,
        /// Its text has one line only.
        is_one_line: bool,
    },
    /// The code of a library.
    Library(Function),
    /// A function that a library has registered.
    Function(Kept),
}

thread_local! {
    /// Whether a script has stored something in a table that is sealed.
    static MUST_CLEAN: Cell<bool> = const { Cell::new(false) };
}

/// Notes that a script has stored something in a table that is sealed.
pub fn note_stored() {
    MUST_CLEAN.set(true);
}

/// Runs a script or function; see [`Machine::run`](crate::Machine::run).
pub fn run(
    vm: &mut Vm,
    code: &Code,
    passed: (Args<'_>, Args<'_>),
    host: &mut dyn Host,
    reply: &mut Reply,
) -> Ending {
    if let Err(error) = budget::begin(&vm.lua) {
        return Ending::Failed(native::first_line(&error));
    }
    let Vm { program, names, scripts, functions, .. } = vm;
    let ended = host::lend(host, || {
        program.run(|stack| -> Native<Ending> {
            let outcome = match code.get() {
                Some(Compiled::Script { chunk, is_one_line }) => {
                    native::note_one_line(*is_one_line);
                    stack.push_kept(&scripts.describe)?;
                    set_globals(stack, &scripts.globals, names, passed)?;
                    stack.push_kept(chunk)?;
                    call(stack, 0, &scripts.clean)?
                }
                Some(Compiled::Function(function)) => {
                    native::note_one_line(false);
                    stack.push_kept(&functions.describe)?;
                    stack.push_kept(function)?;
                    push_strings(stack, passed.0)?;
                    push_strings(stack, passed.1)?;
                    call(stack, 2, &functions.clean)?
                }
                _ => return Ok(Ending::Failed("this is no script of this machine".to_owned())),
            };
            end(stack, outcome, names, reply)
        })
    });
    ended.unwrap_or_else(|problem| match problem {
        Problem::Lua(error) => Ending::Failed(native::first_line(&error)),
        _ => Ending::Failed(native::first_line(&budget::no_memory())),
    })
}

/// Calls a function; its result or its error is the last value then. The handler of errors lies before it.
fn call(stack: &mut Stack<'_>, arguments: usize, clean: &Kept) -> Result<Result<(), Fault>, Fault> {
    let handler = stack.len() - arguments - 1;
    let outcome = stack.call(arguments, Some(handler as isize));
    if MUST_CLEAN.take() {
        stack.push_kept(clean)?;
        // It raises nothing.
        let _cleaned = stack.call(0, None);
        stack.pop(1);
    }
    Ok(outcome)
}

/// Writes what was returned, or tells what was raised.
fn end(
    stack: &mut Stack<'_>,
    outcome: Result<(), Fault>,
    names: &convert::Names,
    reply: &mut Reply,
) -> Native<Ending> {
    if outcome.is_err() {
        return Ok(describe(stack, names)?);
    }
    let errors = match host::ask(|host| host.protocol()) {
        Some(protocol) => convert::write_reply(reply, stack, names, protocol)?,
        None => Vec::new(),
    };
    Ok(Ending::Returned { errors })
}

/// Sets KEYS and ARGV.
fn set_globals(
    stack: &mut Stack<'_>,
    globals: &Kept,
    names: &convert::Names,
    (keys, arguments): (Args<'_>, Args<'_>),
) -> Result<(), Fault> {
    stack.push_kept(globals)?;
    for (name, args) in [(&names.keys, keys), (&names.arguments, arguments)] {
        stack.push_kept(name)?;
        push_strings(stack, args)?;
        stack.set()?;
    }
    stack.pop(1);
    Ok(())
}

/// Pushes an array of strings.
fn push_strings(stack: &mut Stack<'_>, args: Args<'_>) -> Result<(), Fault> {
    stack.push_table(args.len(), 0)?;
    for (index, text) in args.iter().enumerate() {
        stack.push_text(text)?;
        stack.set_element(index + 1)?;
    }
    Ok(())
}

/// The error that a script raised, the last value.
fn describe(stack: &mut Stack<'_>, names: &convert::Names) -> Result<Ending, Fault> {
    if stack.item(-1) != Item::Table {
        let text = match stack.item(-1) {
            Item::Text(text) => text.to_vec(),
            _ => b"unknown error".to_vec(),
        };
        return Ok(Ending::Raised { text: [b"ERR ", &text[..]].concat(), place: None, counted: false });
    }
    let mut text = field(stack, &names.err)?.unwrap_or_else(|| b"ERR unknown error".to_vec());
    if text.first() == Some(&b'-') {
        text.remove(0);
    }
    let place = field(stack, &names.source)?.zip(field(stack, &names.line)?);
    let place = place.map(|(source, line)| Place { source, line });
    Ok(Ending::Raised { text, place, counted: is_counted(stack, names)? })
}

/// The text of a field of the table that is the last value.
fn field(stack: &mut Stack<'_>, name: &Kept) -> Result<Option<Vec<u8>>, Fault> {
    stack.push_field(-1, name)?;
    let text = convert::last_text(stack);
    stack.pop(1);
    Ok(text)
}

/// Whether an error reply that a script raises, the last value, was counted when its command
/// failed.
fn is_counted(stack: &mut Stack<'_>, names: &convert::Names) -> Result<bool, Fault> {
    stack.push_field(-1, &names.is_counted)?;
    let is_counted = stack.item(-1) == Item::Boolean(true);
    stack.pop(1);
    Ok(is_counted)
}
