//! Serving other connections of a worker from within a slow script.
//!
//! While a command that may run a script is executed, the worker lends the rest of itself to the thread. A
//! slow script calls [`serve_others`] every so often: events of the worker's other connections are handled as
//! ever, except that a command is refused (`BUSY`) if it needs what the script holds.

use scoped_tls_hkt::scoped_thread_local;

/// What a worker lends.
pub trait Pump {
    /// Handles the events that have come in.
    fn serve(&mut self);
}

scoped_thread_local!(static mut PUMP: for<'a> &'a mut (dyn Pump + 'a));

/// Lends a worker to this thread while `work` runs.
pub fn lend<R>(pump: &mut dyn Pump, work: impl FnOnce() -> R) -> R {
    PUMP.set(pump, work)
}

/// Lets the worker of this thread look after its other connections.
pub fn serve_others() {
    if PUMP.is_set() {
        PUMP.with(|pump| pump.serve());
    }
}
