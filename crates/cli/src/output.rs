//! Standard output.
//!
//! What cannot be printed is an error like others, and not a panic as with `println!`: see [`tell`].

use std::error::Error;
use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use crate::options::without_number;

/// Why standard output could not be written to, to tell it from what else fails in the same way.
#[derive(Debug)]
struct OutputFailed(String);

impl fmt::Display for OutputFailed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "standard output: {}", self.0)
    }
}

impl Error for OutputFailed {}

/// Prints right away: what is read from a pipe may be waited for.
pub(crate) fn print(text: &[u8]) -> io::Result<()> {
    let mut out = Output;
    out.write_all(text)?;
    out.flush()
}

/// Standard output for what is more than a text; its errors are told from others.
pub(crate) struct Output;

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::stdout().write(bytes).map_err(failed)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush().map_err(failed)
    }
}

fn failed(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), OutputFailed(without_number(&error)))
}

/// Prints a line, which is given as `format!` takes it.
macro_rules! tell {
    ($($part:tt)*) => {
        $crate::output::print(format!("{}\n", format_args!($($part)*)).as_bytes())
    };
}

pub(crate) use tell;

/// Prints a text. Who has stopped reading wants no more of it.
pub fn say(text: &[u8]) -> ExitCode {
    match io::stdout().write_all(text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

/// Whether standard output could not be written to.
pub(crate) fn is_of_output(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<OutputFailed>())
}

/// Names the error that a tool ends with, unless nobody reads its output any more; gives the exit code.
pub(crate) fn fail(error: &io::Error) -> ExitCode {
    if !is_of_output(error) || error.kind() != io::ErrorKind::BrokenPipe {
        eprintln!("{error}");
    }
    ExitCode::FAILURE
}
