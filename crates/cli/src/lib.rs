//! `mantissa cli`: talk to a server from a terminal, a pipe or a script.
//!
//! Options, the shape of the output and the exit codes are those of redis-cli, so that scripts keep working.
//! What differs: JSON output is always valid JSON, all RESP3 types are shown, and a command is sent again
//! after a lost connection only if it cannot have been executed.
//!
//! | module | what it does |
//! | --- | --- |
//! | `options` | the command line |
//! | `usage` | what is said of a command line that is wrong |
//! | `connection` | bytes to and from the server |
//! | `tls` | the same, encrypted |
//! | `format` | a reply as text |
//! | `packed` | packed replies with their numbers as text |
//! | `output`, `pager` | standard output, with a pager for what is longer than the screen |
//! | `session` | one command after another: logging in, messages, reconnecting |
//! | `lines` | commands from lines of text, and the built-in ones |
//! | `interactive` | the prompt, with history, completion and hints |
//! | `docs` | what the server says about its commands |
//! | `mode` | what else there is to do: mass insertion, listing and weighing keys, statistics, dumps |
//! | `observe`, `scan` | what modes and dashboard ask a server: INFO, the time of a PING, keys in batches |
//! | `dashboard` | pictures on a terminal |
//! | `benchmark`, `transfer`, `check` | `mantissa benchmark`, `import` and `export`, `check` |
//! | `archive` | `mantissa archive` |
//! | `aof_files` | which files an append-only file consists of |
//! | `upgrade` | `mantissa upgrade` |
//! | `probe` | `mantissa probe` |
//! | `manual` | completions for shells, man pages |
#![forbid(unsafe_code)]

mod aof_files;
mod archive;
mod benchmark;
mod check;
mod connection;
mod dashboard;
mod docs;
mod format;
mod interactive;
mod lines;
mod manual;
mod mode;
mod observe;
mod options;
mod output;
mod packed;
mod pager;
mod probe;
mod scan;
mod secret;
mod session;
mod target;
mod tls;
mod transfer;
mod unfinished;
mod upgrade;
mod uri;
mod usage;
mod whole_file;

pub use archive::run as archive;
pub use benchmark::run as benchmark;
pub use check::check;
pub use manual::{completions, manual};
pub use output::say;
pub use probe::run as probe;
pub use transfer::{export, import};
pub use upgrade::run as upgrade;

use std::ffi::OsString;
use std::io::{self, IsTerminal, Read};
use std::process::ExitCode;

use clap::Parser;

use crate::options::{Mode, Options, Settings};
use crate::session::Session;

/// Runs the program with these arguments, of which the first is the name it was called by.
pub fn run(args: impl Iterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.collect();
    let options = match Options::try_parse_from(&args) {
        Ok(options) => options,
        Err(error) => return usage::explain::<Options>(&args, &error),
    };
    let settings = match options.into_settings() {
        Ok(settings) => settings,
        Err(message) => {
            if message == options::INVALID_QUOTES {
                // Nothing is left to do if it cannot be printed.
                let _ = output::tell!("{message}");
            } else {
                eprintln!("{message}")
            }
            return ExitCode::FAILURE;
        }
    };
    match run_with(settings) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        // The reader of the output has closed it, or the missing connection has been reported.
        Err(error) if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::NotConnected) => {
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("Error: {}", options::without_number(&error));
            ExitCode::FAILURE
        }
    }
}

/// Does what the settings ask for; whether it succeeded.
fn run_with(mut settings: Settings) -> io::Result<bool> {
    if settings.input_as_last_argument || settings.input_tag.is_some() {
        let mut input = Vec::new();
        io::stdin().read_to_end(&mut input)?;
        match settings.input_tag.take() {
            None => settings.command.push(input),
            Some(tag) => match settings.command.iter_mut().find(|word| **word == tag) {
                Some(word) => *word = input,
                None => {
                    eprintln!("Using -X option but stdin tag not match.");
                    return Ok(false);
                }
            },
        }
    }
    if let Some(script) = settings.eval.take() {
        settings.command = match script.into_command(&settings.command) {
            Ok(command) => command,
            Err(error) => {
                eprintln!("{error}");
                return Ok(false);
            }
        };
    }
    let command = std::mem::take(&mut settings.command);
    let mode = settings.mode.clone();
    if let Mode::IntrinsicLatency(_) = mode {
        return mode::run(mode, Session::new(settings));
    }
    let mut session = Session::new(settings);
    if mode == Mode::Commands && lines::is_help(&command) {
        return lines::help_once(&mut session, &command);
    }
    if let Err(error) = session.connect() {
        session.report_unreachable(&error);
        let goes_on = command.is_empty() && io::stdin().is_terminal() && mode == Mode::Commands;
        if !goes_on {
            return Ok(false);
        }
    }
    if mode != Mode::Commands {
        return mode::run(mode, session);
    }
    if command.is_empty() {
        if io::stdin().is_terminal() {
            interactive::run(&mut session)?;
        } else {
            lines::run_all(&mut session, io::stdin().lock())?;
        }
        return Ok(true);
    }
    let succeeded = session.run_repeatedly(&command)?;
    Ok(succeeded || !session.settings().error_code)
}
