//! How native functions reach the host of the script that calls them.
//!
//! Native functions live as long as their machine, the host only as long as its run. So the host is kept in a
//! thread-local variable during the run.

use scoped_tls_hkt::scoped_thread_local;

use crate::host::Host;

scoped_thread_local!(static mut HOST: for<'a> &'a mut (dyn Host + 'a));

/// Makes `host` the host of this thread while `work` runs.
pub fn lend<R>(host: &mut dyn Host, work: impl FnOnce() -> R) -> R {
    HOST.set(host, work)
}

/// Asks the host of this thread; `None` if no script runs.
pub fn ask<R>(question: impl FnOnce(&mut dyn Host) -> R) -> Option<R> {
    HOST.is_set().then(|| HOST.with(|host| question(host)))
}

/// A string of Lua's, or the text of a number.
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
