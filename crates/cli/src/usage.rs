//! What is said of a command line that asks for help or is wrong.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::output;

/// Prints what there is to say instead of running, and gives the exit code. `-h` at the end asks for help, as
/// it does where redis-cli reads it; elsewhere it names a host. A program called as one of Redis's speaks as
/// that one does.
pub(crate) fn explain<T: CommandFactory>(args: &[OsString], error: &clap::Error) -> ExitCode {
    let last = args.last().and_then(|word| word.to_str()).unwrap_or_default();
    if last == "-h" && error.kind() == ErrorKind::InvalidValue {
        return output::say(T::command().render_help().to_string().as_bytes());
    }
    let name = args.first().and_then(|name| name.to_str()).unwrap_or_default();
    if error.use_stderr() && (name.starts_with("redis-") || name.starts_with("valkey-")) {
        if let Some((one, other)) = conflict(error) {
            eprintln!("Options {one} and {other} are mutually exclusive.");
            return ExitCode::FAILURE;
        }
        let word = match (error.kind(), error.get(ContextKind::InvalidArg)) {
            (ErrorKind::UnknownArgument, Some(ContextValue::String(word))) => word,
            _ => last,
        };
        eprintln!("Unrecognized option or bad number of args for: '{word}'");
        return ExitCode::FAILURE;
    }
    // Nothing is left to do if it cannot be printed.
    let _ = error.print();
    if error.use_stderr() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// The options that exclude each other, where that is the error.
fn conflict(error: &clap::Error) -> Option<(&'static str, &'static str)> {
    let option = |kind| match error.get(kind) {
        Some(ContextValue::String(shown)) => shown.get(..2),
        Some(ContextValue::Strings(shown)) => shown.first().and_then(|shown| shown.get(..2)),
        _ => None,
    };
    match (option(ContextKind::InvalidArg)?, option(ContextKind::PriorArg)?) {
        ("-x", "-X") | ("-X", "-x") => Some(("-x", "-X")),
        ("-2", "-3") | ("-3", "-2") => Some(("-2", "-3")),
        _ => None,
    }
}
