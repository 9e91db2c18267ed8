//! FCALL, FCALL_RO and FUNCTION.

use std::cell::Cell;
use std::sync::Arc;

use mantissa_commands::{Access, Error, Outcome, glob, parse};
use mantissa_persist::write::WriteOptions;
use mantissa_protocol::{Args, Reply};
use mantissa_store::ShardSet;

use super::{Name, ScriptCall, declared_keys, show};
use crate::invocation::Invocation;
use crate::scripting::functions::{Library, Policy};
use crate::scripting::machine::with_machine;
use crate::shard_access::with_shards;

/// FCALL.
pub fn fcall(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    run(invocation, args, reply, false)
}

/// FCALL_RO.
pub fn fcall_ro(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    run(invocation, args, reply, true)
}

fn run(
    invocation: &mut Invocation<'_, '_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
    read_only: bool,
) -> Outcome {
    show(invocation, args);
    let scripting = &invocation.engine().scripting;
    let function = with_machine(scripting, |vm| vm.function(&scripting.libraries, args.at(1)))?;
    let key_count = declared_keys(args, Error::fixed("ERR Bad number of keys provided"))?;
    let info = &function.library.functions[function.place];
    if read_only && !info.flags.no_writes {
        return Err(Error::fixed("ERR Can not execute a script with write flag using *_ro command."));
    }
    let call = ScriptCall {
        args,
        key_count,
        read_only: read_only || info.flags.no_writes,
        allow_oom: info.flags.allow_oom,
        is_function: true,
        name: Name::Function(&info.name),
        key_usage: &info.key_usage,
        called: Cell::default(),
        logged: Cell::default(),
    };
    call.run(invocation, reply, &function.code)
}

/// Changes the libraries, while a shard is locked: so the change is either in a snapshot, or in the log
/// behind it. It is logged as the command that it is, and counts as a change for save points.
fn change<R>(
    invocation: &mut Invocation<'_, '_, '_>,
    args: Args<'_>,
    work: impl FnOnce() -> Outcome<R>,
) -> Outcome<R> {
    let database = invocation.session.database;
    let apply = |access: &mut Access<'_>| {
        let outcome = work();
        if outcome.is_ok() {
            access.count_changes(1);
        }
        outcome
    };
    match &mut invocation.access {
        // The commit of a transaction logs its commands.
        Some(access) => apply(access),
        None => with_shards(invocation.context, Some((database, args)), database, ShardSet::one(0), apply),
    }
}

/// FUNCTION LOAD.
pub fn load(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let mut policy = Policy::Append;
    for option in args.range(2..args.len() - 1) {
        if !parse::is(option, "REPLACE") {
            return Err(Error::quoting("ERR Unknown option given: ", option, ""));
        }
        policy = Policy::Replace;
    }
    let engine = invocation.engine();
    let code = args.at(args.len() - 1);
    let load = || with_machine(&engine.scripting, |vm| engine.scripting.libraries.load(vm, code, policy));
    let name = change(invocation, args, load)?;
    reply.bulk(&name);
    Ok(())
}

/// FUNCTION DELETE.
pub fn delete(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let engine = invocation.engine();
    change(invocation, args, || match engine.scripting.libraries.delete(args.at(2)) {
        true => Ok(()),
        false => Err(Error::fixed("ERR Library not found")),
    })?;
    reply.ok();
    Ok(())
}

/// FUNCTION FLUSH.
pub fn flush(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    match args.get(2) {
        None => {}
        Some(_) if args.len() > 3 => {
            let before = "ERR unknown subcommand or wrong number of arguments for '";
            return Err(Error::quoting(before, args.at(1), "'. Try FUNCTION HELP."));
        }
        Some(word) if parse::is(word, "SYNC") || parse::is(word, "ASYNC") => {}
        Some(_) => return Err(Error::fixed("ERR FUNCTION FLUSH only supports SYNC|ASYNC option")),
    }
    let engine = invocation.engine();
    let functions = change(invocation, args, || Ok(engine.scripting.libraries.flush()))?;
    if invocation.context.active.flushes_lazily(args.get(2)) {
        // Redis counts the interpreter beside them.
        engine.count_flushed_scripts(functions, 1);
    }
    reply.ok();
    Ok(())
}

/// FUNCTION LIST.
pub fn list(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (mut pattern, mut with_code) = (None, false);
    let mut at = 2;
    while let Some(option) = args.get(at) {
        at += 1;
        if !with_code && parse::is(option, "WITHCODE") {
            with_code = true;
        } else if pattern.is_none() && parse::is(option, "LIBRARYNAME") {
            let given = args.get(at).ok_or(Error::fixed("ERR library name argument was not given"))?;
            pattern = Some(given.to_ascii_lowercase());
            at += 1;
        } else {
            return Err(Error::quoting("ERR Unknown argument ", option, ""));
        }
    }
    let libraries = invocation.engine().scripting.libraries.snapshot();
    let fits = |library: &&Arc<Library>| {
        pattern.as_ref().is_none_or(|pattern| glob::matches(pattern, &library.name.to_ascii_lowercase()))
    };
    let chosen: Vec<_> = libraries.values().filter(fits).collect();
    reply.array(chosen.len());
    chosen.into_iter().for_each(|library| write_library(reply, library, with_code));
    Ok(())
}

fn write_library(reply: &mut Reply, library: &Library, with_code: bool) {
    reply.map(if with_code { 4 } else { 3 });
    reply.bulk(b"library_name");
    reply.bulk(&library.name);
    reply.bulk(b"engine");
    reply.bulk(b"LUA");
    reply.bulk(b"functions");
    reply.array(library.functions.len());
    for function in &library.functions {
        reply.map(3);
        reply.bulk(b"name");
        reply.bulk(&function.name);
        reply.bulk(b"description");
        match &function.description {
            Some(description) => reply.bulk(description),
            None => reply.null(),
        }
        reply.bulk(b"flags");
        reply.set(function.flags.names().count());
        function.flags.names().for_each(|name| reply.simple(name));
    }
    if with_code {
        reply.bulk(b"library_code");
        reply.bulk(&library.code);
    }
}

/// FUNCTION STATS.
pub fn stats(invocation: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    let engine = invocation.engine();
    if engine.scripting.is_busy() && engine.scripting.longest(true).is_none() {
        return Err(engine.scripting.busy_error());
    }
    reply.map(2);
    reply.bulk(b"running_script");
    match engine.scripting.longest(true).filter(|slot| slot.is_slow()) {
        None => reply.null(),
        Some(slot) => {
            let (name, call) = slot.call.lock().clone();
            reply.map(3);
            reply.bulk(b"name");
            reply.bulk(&name);
            reply.bulk(b"command");
            reply.array(call.len());
            call.iter().for_each(|word| reply.bulk(word));
            reply.bulk(b"duration_ms");
            reply.integer(engine.scripting.elapsed_ms(slot) as i64);
        }
    }
    let (libraries, functions, _) = engine.scripting.libraries.figures();
    reply.bulk(b"engines");
    reply.map(1);
    reply.bulk(b"LUA");
    reply.map(2);
    reply.bulk(b"libraries_count");
    reply.integer(libraries as i64);
    reply.bulk(b"functions_count");
    reply.integer(functions as i64);
    Ok(())
}

/// FUNCTION KILL.
pub fn kill(invocation: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    let engine = invocation.engine();
    engine.scripting.kill(true)?;
    reply.ok();
    Ok(())
}

/// FUNCTION DUMP.
pub fn dump(invocation: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    let libraries = invocation.engine().scripting.libraries.snapshot();
    let options =
        WriteOptions { compress: invocation.context.active.config.rdbcompression, ..WriteOptions::default() };
    let codes = libraries.values().map(|library| &*library.code);
    reply.bulk(&mantissa_persist::payload::dump_libraries(codes, &options));
    Ok(())
}

/// FUNCTION RESTORE.
pub fn restore(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    const WRONG: Error =
        Error::fixed("ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.");
    let (policy, flush) = match args.get(3) {
        None => (Policy::Append, false),
        Some(_) if args.len() > 4 => {
            let before = "ERR unknown subcommand or wrong number of arguments for '";
            return Err(Error::quoting(before, args.at(1), "'. Try FUNCTION HELP."));
        }
        Some(word) if parse::is(word, "APPEND") => (Policy::Append, false),
        Some(word) if parse::is(word, "REPLACE") => (Policy::Replace, false),
        Some(word) if parse::is(word, "FLUSH") => (Policy::Append, true),
        Some(_) => return Err(WRONG),
    };
    let codes = mantissa_persist::payload::restore_libraries(args.at(2))
        .map_err(|error| Error::new(format!("ERR {}", error.text())))?;
    let engine = invocation.engine();
    change(invocation, args, || {
        with_machine(&engine.scripting, |vm| engine.scripting.libraries.restore(vm, &codes, policy, flush))
    })?;
    reply.ok();
    Ok(())
}
