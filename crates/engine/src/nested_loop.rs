//! The nested event loop of a worker that is inside a long command.
//!
//! While a script runs or a large value is read, the worker lends the rest of its state to its thread. Both
//! call [`serve_others`] now and then: it handles the events of the worker's other connections. A command
//! among them that needs what a slow script holds is refused with `BUSY`. What reads a large value holds
//! nothing.

use scoped_tls_hkt::scoped_thread_local;

/// The event loop of a worker that is inside a command.
pub trait NestedLoop {
    /// Handles the events that have come in.
    fn serve(&mut self);
}

scoped_thread_local!(static mut NESTED_LOOP: for<'a> &'a mut (dyn NestedLoop + 'a));

/// Makes `nested_loop` the one of this thread while `work` runs.
pub fn lend<R>(nested_loop: &mut dyn NestedLoop, work: impl FnOnce() -> R) -> R {
    NESTED_LOOP.set(nested_loop, work)
}

/// Has the worker of this thread serve its other connections.
pub fn serve_others() {
    if NESTED_LOOP.is_set() {
        NESTED_LOOP.with(|nested_loop| nested_loop.serve());
    }
}
