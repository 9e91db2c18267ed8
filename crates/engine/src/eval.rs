//! Running scripts and functions: EVAL, EVALSHA, their read-only forms and SCRIPT here, FCALL and FUNCTION in
//! [`functions`]. [`run`] says which shards a script locks, and why that makes it atomic.

pub mod functions;
mod run;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use mantissa_commands::spec::KeyFlags;
use mantissa_commands::{Access, Error, Outcome, parse};
use mantissa_protocol::{Args, Reply};
use mantissa_scripting::{Code, Ending, Place};

use crate::call::with_held;
use crate::context::Context;
use crate::invocation::Invocation;
use crate::locking::Wanted;
use crate::scripting::machine::{Compiled, WorkerMachine, error_of, run_on_machine, with_machine};
use crate::scripting::source::{self, KeyUsage, Script};
use crate::session::Session;
use crate::{monitor, warning};
use run::{Abort, Rules, Run};

/// The number of keys that a call of a script declares.
pub fn key_count(args: Args<'_>) -> Outcome<usize> {
    declared_keys(args, Error::NOT_INTEGER)
}

/// The number of keys that a call of a script or function declares; the error if that is no integer.
fn declared_keys(args: Args<'_>, not_integer: Error) -> Outcome<usize> {
    let count = mantissa_number::parse_i64(args.at(2)).ok_or(not_integer)?;
    if count > (args.len() - 3) as i64 {
        return Err(Error::fixed("ERR Number of keys can't be greater than number of args"));
    }
    usize::try_from(count).map_err(|_| Error::fixed("ERR Number of keys can't be negative"))
}

/// EVAL.
pub fn eval(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    eval_text(invocation, args, reply, false)
}

/// EVAL_RO.
pub fn eval_ro(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    eval_text(invocation, args, reply, true)
}

/// EVALSHA.
pub fn evalsha(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    eval_digest(invocation, args, reply, false)
}

/// EVALSHA_RO.
pub fn evalsha_ro(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    eval_digest(invocation, args, reply, true)
}

fn eval_text(
    invocation: &mut Invocation<'_, '_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
    read_only: bool,
) -> Outcome {
    show(invocation, args);
    key_count(args)?;
    let context = &*invocation.context;
    let compiled = with_machine(&context.engine.scripting, |vm| prepare(context, vm, args.at(1), false))?;
    run_script(invocation, args, reply, &compiled, read_only)
}

fn eval_digest(
    invocation: &mut Invocation<'_, '_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
    read_only: bool,
) -> Outcome {
    const MISSING: Error = Error::fixed("NOSCRIPT No matching script. Please use EVAL.");
    show(invocation, args);
    let digest = source::parse_digest(args.at(1)).ok_or(MISSING)?;
    key_count(args)?;
    let context = &*invocation.context;
    let compiled = with_machine(&context.engine.scripting, |vm| {
        let cache = &context.engine.scripting.cache;
        match vm.compiled(&digest, cache) {
            Some(compiled) => Ok(compiled),
            None => compile(vm, cache.get(&digest).ok_or(MISSING)?),
        }
    })?;
    run_script(invocation, args, reply, &compiled, read_only)
}

/// Shows the call to monitors, before what the script calls.
pub fn show(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>) {
    let engine = invocation.engine();
    // A transaction that has begun anew comes to its first script once.
    let is_new = invocation.session.rerun.count == 0 || invocation.access.is_some();
    if is_new && engine.monitor_count.load(std::sync::atomic::Ordering::Relaxed) > 0 {
        monitor::show_always(invocation.context, invocation.session, args);
    }
}

/// The script of this text, compiled for this worker; it is cached if it is new.
fn prepare(context: &Context, vm: &mut WorkerMachine, text: &[u8], keep: bool) -> Outcome<Rc<Compiled>> {
    let cache = &context.engine.scripting.cache;
    let digest = source::digest_of(text);
    let known = match vm.compiled(&digest, cache) {
        None => cache.get(&digest).map(|script| compile(vm, script)).transpose()?,
        compiled => compiled,
    };
    if let Some(compiled) = known {
        if keep {
            cache.keep(&compiled.script);
        }
        return Ok(compiled);
    }
    let script = Script::new(digest, text)?;
    let code = compile_body(vm, &script)?;
    let compiled = vm.keep(cache.add(script, keep), code);
    vm.forget_evicted(cache);
    Ok(compiled)
}

fn compile(vm: &mut WorkerMachine, script: Arc<Script>) -> Outcome<Rc<Compiled>> {
    let code = compile_body(vm, &script)?;
    Ok(vm.keep(script, code))
}

fn compile_body(vm: &mut WorkerMachine, script: &Script) -> Outcome<Code> {
    let compiled = vm.machine.compile_script(script.body());
    compiled.map_err(|problem| error_of(problem, b"ERR Error compiling script (new function): "))
}

fn run_script(
    invocation: &mut Invocation<'_, '_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
    compiled: &Compiled,
    read_only: bool,
) -> Outcome {
    let Compiled { script, code } = compiled;
    if read_only && !script.flags.undeclared && !script.flags.no_writes {
        return Err(Error::fixed("ERR Can not execute a script with write flag using *_ro command."));
    }
    let call = ScriptCall {
        args,
        key_count: key_count(args)?,
        read_only: read_only || script.flags.no_writes,
        allow_oom: script.flags.allow_oom,
        is_function: false,
        name: Name::Digest(&script.digest),
        key_usage: &script.key_usage,
        called: Cell::default(),
        logged: Cell::default(),
    };
    call.run(invocation, reply, code)
}

/// What errors call a script or function by.
pub enum Name<'a> {
    /// A script.
    Digest(&'a source::Digest),
    /// A function.
    Function(&'a [u8]),
}

impl Name<'_> {
    fn text(&self) -> String {
        match self {
            Name::Digest(digest) => source::hexadecimal(&digest[..]),
            Name::Function(name) => String::from_utf8_lossy(name).into_owned(),
        }
    }
}

/// A call of a script or function.
pub struct ScriptCall<'a> {
    /// The command's arguments: name, script, number of keys, keys, arguments.
    pub args: Args<'a>,
    /// The number of keys.
    pub key_count: usize,
    /// It must not write.
    pub read_only: bool,
    /// It may do everything when memory is full.
    pub allow_oom: bool,
    /// It is a function.
    pub is_function: bool,
    /// The name that errors show.
    pub name: Name<'a>,
    /// What is known of its keys.
    pub key_usage: &'a KeyUsage,
    /// Number of calls before it began anew.
    pub called: Cell<usize>,
    /// Number of lines that it wrote to the log before.
    pub logged: Cell<usize>,
}

impl ScriptCall<'_> {
    /// Runs it, again if it turns out to need all shards, and replies.
    pub fn run(&self, invocation: &mut Invocation<'_, '_, '_>, reply: &mut Reply, code: &Code) -> Outcome {
        let began = invocation.context.command_began;
        self.called.set(invocation.session.rerun.called);
        self.logged.set(invocation.session.rerun.logged);
        let database = invocation.session.database;
        let context = &mut *invocation.context;
        let engine = context.engine;
        let running = engine.scripting.begin(context.worker, self.is_function, invocation.access.is_some());
        let outcome = if let Some(access) = &mut invocation.access {
            self.run_once(context, invocation.session, access, false, reply, code).map(|_| ())
        } else {
            self.run_locked(context, invocation.session, reply, code)
        };
        drop(running);
        invocation.session.select(database);
        if let Some(access) = &mut invocation.access {
            access.select(database);
        }
        invocation.context.command_began = began;
        outcome
    }

    /// What to lock before the run.
    fn wanted(&self, context: &Context, wide: bool) -> Wanted {
        let keyspace = &context.engine.keyspace;
        let mut wanted = Wanted::default();
        self.keys().iter().for_each(|key| wanted.add(keyspace, keyspace.hash(key)));
        if wide || !self.key_usage.has_only_declared() {
            wanted.shards = keyspace.all_shards();
        }
        wanted
    }

    fn keys(&self) -> Args<'_> {
        self.args.range(3..3 + self.key_count)
    }

    fn run_locked(
        &self,
        context: &mut Context,
        session: &mut Session,
        reply: &mut Reply,
        code: &Code,
    ) -> Outcome {
        let (start, database) = (reply.len(), session.database);
        let mut wide = false;
        loop {
            let wanted = self.wanted(context, wide);
            let ended = with_held(context, session, &wanted, !self.read_only, |context, session, access| {
                self.run_once(context, session, access, true, reply, code)
            })?;
            match ended? {
                Some(Abort::Restart) => {
                    wide = true;
                    session.select(database);
                    reply.truncate(start);
                }
                Some(Abort::Unread) => {
                    session.rerun.called = self.called.get();
                    session.rerun.logged = self.logged.get();
                    return Ok(());
                }
                _ => return Ok(()),
            }
        }
    }

    /// Runs it once and replies, unless it has to be run again.
    fn run_once(
        &self,
        context: &mut Context,
        session: &mut Session,
        access: &mut Access<'_>,
        owns_locks: bool,
        reply: &mut Reply,
        code: &Code,
    ) -> Outcome<Option<Abort>> {
        let engine = context.engine;
        let worker = context.worker;
        let rules = Rules {
            read_only: self.read_only,
            allow_oom: self.allow_oom,
            is_function: self.is_function,
            owns_locks,
            keys: self.keys(),
            key_usage: self.key_usage,
            call: self.args,
            called_before: self.called.get(),
            logged_before: self.logged.get(),
        };
        // The field sets of its client are not the script's, and the script's go with it.
        let field_sets = session.field_sets.take();
        let ended = run_on_machine(&engine.scripting, |machine| {
            let mut run = Run::new(context, session, access, rules);
            let start = reply.len();
            let ending = machine.run(code, self.keys(), self.args.from(3 + self.key_count), &mut run, reply);
            self.key_usage.note(run.touched_undeclared);
            self.called.set(self.called.get().max(run.called_count));
            self.logged.set(self.logged.get().max(run.logged_count));
            let abort = run.abort;
            // A half of it is not logged. Nothing is kept: see `Abort::Killed`.
            context.outbox.is_cut |=
                abort == Some(Abort::Killed) && engine.scripting.slot(worker).has_written();
            if !matches!(abort, Some(Abort::Restart | Abort::Unread)) {
                self.reply_ending(context, (ending, abort), start, reply);
            }
            engine.scripting.note_memory(worker, machine.used_bytes());
            Ok(abort)
        });
        session.field_sets = field_sets;
        if matches!(ended, Ok(Some(Abort::Panicked))) {
            session.killed = true;
        }
        ended
    }

    fn reply_ending(
        &self,
        context: &mut Context,
        (ending, abort): (Ending, Option<Abort>),
        start: usize,
        reply: &mut Reply,
    ) {
        let (text, counted) = match (abort, ending) {
            (Some(_), ending) => {
                warning!("The script {} has been ended", self.name.text());
                let mut text = b"ERR Script killed by user with SCRIPT KILL...".to_vec();
                if let Ending::Raised { place, .. } = ending {
                    self.add_place(place, &mut text);
                }
                (text, false)
            }
            (None, Ending::Returned { errors }) => {
                for error in errors {
                    count_error(context, &String::from_utf8_lossy(&error.start), error.counted);
                }
                return;
            }
            (None, Ending::Raised { mut text, place, counted }) => {
                self.add_place(place, &mut text);
                (text, counted)
            }
            (None, Ending::Failed(text)) => (format!("ERR {text}").into_bytes(), false),
        };
        reply.truncate(start);
        count_error(context, &String::from_utf8_lossy(&text), counted);
        reply.error_bytes(Error::from_bytes(text).bytes());
    }

    /// Appends where an error was raised, as far as it is known.
    fn add_place(&self, place: Option<Place>, text: &mut Vec<u8>) {
        if let Some(Place { source, line }) = place {
            let name = self.name.text();
            let place: [&[u8]; 7] = [b" script: ", name.as_bytes(), b", on ", &source, b":", &line, b"."];
            text.extend_from_slice(&place.concat());
        }
    }
}

/// Marks the script's call as failed. Counts the error unless it has been counted.
fn count_error(context: &mut Context, text: &str, is_counted: bool) {
    match is_counted {
        true => context.has_failed = true,
        false => context.count_error(text),
    }
}

/// SCRIPT LOAD.
pub fn script_load(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let context = &*invocation.context;
    let compiled = with_machine(&context.engine.scripting, |vm| prepare(context, vm, args.at(2), true))?;
    reply.bulk(source::hexadecimal(&compiled.script.digest).as_bytes());
    Ok(())
}

/// SCRIPT EXISTS.
pub fn script_exists(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let cache = &invocation.engine().scripting.cache;
    reply.array(args.len() - 2);
    for text in args.from(2) {
        let found = source::parse_digest(text).is_some_and(|digest| cache.contains(&digest));
        reply.integer(i64::from(found));
    }
    Ok(())
}

/// SCRIPT SHOW, as in Valkey.
pub fn script_show(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let digest = source::parse_digest(args.at(2));
    let script = digest.and_then(|digest| invocation.engine().scripting.cache.get(&digest));
    reply.bulk(&script.ok_or(Error::fixed("NOSCRIPT No matching script."))?.text);
    Ok(())
}

/// SCRIPT FLUSH.
pub fn script_flush(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let is_mode = |word: &[u8]| parse::is(word, "SYNC") || parse::is(word, "ASYNC");
    if args.len() > 3 || args.get(2).is_some_and(|word| !is_mode(word)) {
        return Err(Error::fixed("ERR SCRIPT FLUSH only support SYNC|ASYNC option"));
    }
    let flushed = invocation.engine().scripting.cache.flush();
    if invocation.context.active.flushes_lazily(args.get(2)) {
        invocation.engine().count_flushed_scripts(flushed.len(), 0);
    }
    reply.ok();
    Ok(())
}

/// SCRIPT KILL.
pub fn script_kill(invocation: &mut Invocation<'_, '_, '_>, _args: Args<'_>, reply: &mut Reply) -> Outcome {
    let engine = invocation.engine();
    engine.scripting.kill(false)?;
    reply.ok();
    Ok(())
}

/// SCRIPT DEBUG.
pub fn script_debug(_session: &mut Invocation<'_, '_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let word = args.at(2);
    if parse::is(word, "NO") {
        reply.ok();
        Ok(())
    } else if parse::is(word, "YES") || parse::is(word, "SYNC") {
        Err(Error::fixed("ERR This server has no debugger of scripts"))
    } else {
        Err(Error::fixed("ERR Use SCRIPT DEBUG YES/SYNC/NO"))
    }
}

/// What EVAL does with its keys, as far as can be told.
pub const READS_AND_WRITES: KeyFlags = KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::UPDATE);
/// What EVAL_RO does with its keys.
pub const READS: KeyFlags = KeyFlags::RO.or(KeyFlags::ACCESS);
