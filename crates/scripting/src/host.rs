//! What a running script may ask of the engine.

use std::time::{Duration, Instant};

use mantissa_protocol::{Args, Protocol, Reply};

/// The longest time that should pass between two calls of [`Host::tick`].
pub const TICK_PAUSE_MAX: Duration = Duration::from_millis(1);

/// What a running script may ask of the engine. It serves one run.
pub trait Host {
    /// Runs a command in the protocol of [`Host::protocol`]. `reply` is empty before; afterwards it holds the
    /// reply, which is no error. Errors are returned instead, those that the command has written included.
    fn call(&mut self, args: Args<'_>, reply: &mut Reply) -> Result<(), CallError>;

    /// Lets the engine look at the clock and serve other clients. Returns false if the script is to end.
    ///
    /// The machine calls this about once in [`TICK_PAUSE_MAX`] while code of a script runs. [`Host::call`]
    /// does so by itself.
    fn tick(&mut self) -> bool;

    /// When the last tick ended, or when the run began.
    fn last_tick(&self) -> Instant;

    /// Whether the script is to end. It must then not catch errors any more.
    fn is_aborted(&self) -> bool;

    /// The protocol of the replies that the script sees, and of the one that it gives.
    fn protocol(&self) -> Protocol;

    /// Chooses that protocol.
    fn set_protocol(&mut self, protocol: Protocol);

    /// Chooses whether the effects of later commands go to the append-only file.
    fn set_logs(&mut self, logs: bool);

    /// Whether the client may run this command; `None` if the engine knows no such command or no command can
    /// be called.
    fn may_run(&mut self, args: Args<'_>) -> Option<bool>;

    /// Writes a line to the engine's log.
    fn log(&mut self, level: LogLevel, line: &[u8]);
}

/// The error of a command that a script called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallError {
    /// The text without the leading `-`, beginning with the error's code.
    pub text: Vec<u8>,
    /// The engine's statistics count it already.
    pub counted: bool,
}

/// How important a line of the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// For the developer of the script.
    Debug,
    /// Details that are rarely needed.
    Verbose,
    /// What a production server logs.
    Notice,
    /// A problem that an operator should look at.
    Warning,
}
