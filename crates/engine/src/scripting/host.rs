//! How functions that scripts call reach the run that they belong to.
//!
//! The functions live as long as their virtual machine, the run only while its script does; so the run is
//! lent to the thread for that time.

use mantissa_protocol::{Protocol, Reply};
use scoped_tls_hkt::scoped_thread_local;

use super::native::Raised;

/// What a running script may ask of the server.
pub trait Host {
    /// Runs a command: its reply or its error.
    fn call(&mut self, args: &[Text]) -> Result<Reply, Raised>;

    /// Whether the script is to end, whatever it makes of errors.
    fn is_aborted(&self) -> bool;

    /// Called every so often while Lua code runs. False if the script is to end.
    fn tick(&mut self) -> bool;

    /// The protocol of the replies that the script sees and gives.
    fn protocol(&self) -> Protocol;

    /// Chooses the protocol of the replies that the script sees.
    fn set_protocol(&mut self, protocol: Protocol);

    /// Chooses whether commands that the script calls from now on are logged.
    fn set_logs(&mut self, logs: bool);

    /// Whether the client may run this command; `None` if there is no such command.
    fn may_run(&mut self, args: &[Text]) -> Option<bool>;
}

scoped_thread_local!(static mut HOST: for<'a> &'a mut (dyn Host + 'a));

/// Lends a run to this thread while `work` runs.
pub fn lend<R>(host: &mut dyn Host, work: impl FnOnce() -> R) -> R {
    HOST.set(host, work)
}

/// Asks the run of this thread, if there is one.
pub fn ask<R>(question: impl FnOnce(&mut dyn Host) -> R) -> Option<R> {
    HOST.is_set().then(|| HOST.with(|host| question(host)))
}

/// An argument of a command.
pub enum Text {
    /// A string of Lua's.
    Lent(mlua::BorrowedBytes),
    /// The text of a number.
    Owned(Vec<u8>),
}

impl AsRef<[u8]> for Text {
    fn as_ref(&self) -> &[u8] {
        match self {
            Text::Lent(bytes) => bytes,
            Text::Owned(bytes) => bytes,
        }
    }
}

/// Whether a script runs on this thread.
pub fn is_lent() -> bool {
    HOST.is_set()
}
