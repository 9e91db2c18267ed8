//! Errors in a configuration: a line that stops the start, a warning, a refused `CONFIG SET`.

use super::refusal::{Refusal, reason};
use super::{Directive, SENSITIVE, directive};
use std::fmt;
use std::io;
use std::sync::Arc;

/// Where a line of configuration came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A line, counted from 1, of a file.
    File {
        /// The file's name as it was given; `-` is the standard input.
        path: Arc<str>,
        /// Counted from 1.
        line: usize,
    },
    /// The command line.
    Arguments,
}

/// An error in the configuration that stops the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    origin: Option<Origin>,
    text: String,
    reason: String,
}

impl ConfigError {
    /// An error in a line: where it stands, the line, and what is wrong with it. A secret in the line is not
    /// shown.
    pub(super) fn new(origin: Origin, line: &[u8], reason: impl Into<String>) -> ConfigError {
        ConfigError { origin: Some(origin), text: shown(line), reason: reason.into() }
    }

    /// A file that can not be read.
    pub(super) fn unreadable(path: &str, error: &io::Error) -> ConfigError {
        let reason = format!("can't open config file '{path}': {}", reason(error));
        ConfigError { origin: None, text: String::new(), reason }
    }

    /// What is wrong.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Where it is wrong; none if a file could not be opened.
    pub fn origin(&self) -> Option<&Origin> {
        self.origin.as_ref()
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(origin) = &self.origin else { return write!(out, "Fatal error, {}", self.reason) };
        writeln!(out, "*** FATAL CONFIG FILE ERROR (Mantissa {}) ***", env!("CARGO_PKG_VERSION"))?;
        match origin {
            Origin::File { path, line } if &**path == "-" => {
                writeln!(out, "Reading the configuration from standard input, at line {line}")?
            }
            Origin::File { path, line } => {
                writeln!(out, "Reading the configuration file '{path}', at line {line}")?
            }
            Origin::Arguments => writeln!(out, "Reading the command line")?,
        }
        write!(out, ">>> '{}'\n{}", self.text, self.reason)
    }
}

impl std::error::Error for ConfigError {}

/// Something to log at the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The directive.
    pub directive: String,
    /// The whole message.
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

/// A `CONFIG SET` that was refused; it prints as the error reply, from `ERR` on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetError {
    /// There is no such setting.
    Unknown(Vec<u8>),
    /// The value of this setting is refused, or could not be put into effect.
    Failed {
        /// The setting.
        name: String,
        /// Why.
        reason: Refusal,
    },
}

impl SetError {
    /// A setting that could not be put into effect.
    pub fn failed(name: &str, reason: impl Into<Refusal>) -> SetError {
        SetError::Failed { name: name.to_owned(), reason: reason.into() }
    }

    /// The error reply, without the leading `-`. The name of an unknown setting is the client's bytes.
    pub fn to_reply(&self) -> Vec<u8> {
        match self {
            SetError::Unknown(name) => {
                let mut reply = b"ERR Unknown option or number of arguments for CONFIG SET - '".to_vec();
                reply.extend(name.iter().take_while(|&&byte| byte != 0));
                reply.push(b'\'');
                reply
            }
            SetError::Failed { name, reason } => {
                format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}")
                    .into_bytes()
            }
        }
    }
}

impl fmt::Display for SetError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&String::from_utf8_lossy(&self.to_reply()))
    }
}

impl std::error::Error for SetError {}

/// A line as errors show it: without what follows the name of a directive that holds a secret.
fn shown(line: &[u8]) -> String {
    let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
    let name = &line[..end];
    let is_secret = |directive: &Directive| directive.has(SENSITIVE);
    let secret =
        name == b"user" || directive(name.strip_prefix(b"--").unwrap_or(name)).is_some_and(is_secret);
    let hidden = secret && end < line.len();
    let mut text = String::from_utf8_lossy(if hidden { name } else { line }).into_owned();
    if hidden {
        text.push_str(" ...");
    }
    text
}
