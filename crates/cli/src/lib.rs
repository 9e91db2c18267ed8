//! `mantissa cli`: talk to a server from a terminal, a pipe or a script.
//!
//! Options, the shape of the output and the exit codes are those of redis-cli, so that scripts keep working.
//! What differs: JSON output is always valid JSON, all RESP3 types are shown, and a command is sent again
//! after a lost connection only if it cannot have been executed.
//!
//! | module | what it does |
//! | --- | --- |
//! | `options` | the command line |
//! | `connection` | bytes to and from the server |
//! | `format` | a reply as text |
//! | `session` | one command after another: logging in, messages, reconnecting |
//! | `lines` | commands from lines of text, and the built-in ones |
//! | `interactive` | the prompt, with history, completion and hints |
//! | `docs` | what the server says about its commands |
//! | `pipe`, `scan` | mass insertion, listing keys |
#![forbid(unsafe_code)]

mod connection;
mod docs;
mod format;
mod interactive;
mod lines;
mod options;
mod pipe;
mod scan;
mod session;

use std::ffi::OsString;
use std::io::{self, IsTerminal, Read};
use std::process::ExitCode;

use clap::Parser;

use crate::options::{Options, Settings};
use crate::session::Session;

/// Runs the program with these arguments, of which the first is the name it was called by.
pub fn run(args: impl Iterator<Item = OsString>) -> ExitCode {
    let options = match Options::try_parse_from(args) {
        Ok(options) => options,
        Err(error) => {
            // Help and version are errors to clap, too; nothing is left to do if they cannot be printed.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
        }
    };
    let settings = match options.into_settings() {
        Ok(settings) => settings,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::FAILURE;
        }
    };
    match run_with(settings) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        // Whoever reads the output has seen enough; or it has been reported that there is no connection.
        Err(error) if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::NotConnected) => {
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("Error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Does what the settings ask for; whether it succeeded.
fn run_with(mut settings: Settings) -> io::Result<bool> {
    if settings.input_as_last_argument {
        let mut input = Vec::new();
        io::stdin().read_to_end(&mut input)?;
        settings.command.push(input);
    }
    if let Some(script) = settings.eval.take() {
        settings.command = script.into_command(&settings.command)?;
    }
    let command = std::mem::take(&mut settings.command);
    let mut session = Session::new(settings);
    if let Err(error) = session.connect() {
        session.report_unreachable(&error);
        let goes_on = command.is_empty() && io::stdin().is_terminal() && session.settings().is_plain();
        if !goes_on {
            return Ok(false);
        }
    }
    if session.settings().pipe {
        return pipe::run(session);
    }
    if session.settings().scan {
        return scan::run(&mut session);
    }
    let succeeded = if !command.is_empty() {
        session.run_repeatedly(&command)?
    } else if io::stdin().is_terminal() {
        interactive::run(&mut session)?
    } else {
        lines::run_all(&mut session, io::stdin().lock())?
    };
    Ok(succeeded || !session.settings().error_code)
}
