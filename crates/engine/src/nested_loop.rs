//! The nested event loop of a worker that is inside a long command.
//!
//! While a script runs or a large value is read, the worker lends the rest of its state to its thread. Both
//! call [`serve_others`] now and then: it handles the events of the worker's other connections. A command
//! among them that needs what a slow script holds is refused with `BUSY`. What reads a large value holds
//! nothing.

use std::cell::Cell;

use mantissa_sys::QuickInstant;
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

thread_local! {
    /// How long this thread has served others from within commands, in ns.
    static SERVED_NS: Cell<u64> = const { Cell::new(0) };
}

/// Has the worker of this thread serve its other connections. Returns how long that has taken, in ns.
pub fn serve_others() -> u64 {
    if !NESTED_LOOP.is_set() {
        return 0;
    }
    let (began, served_before) = (QuickInstant::now(), SERVED_NS.get());
    NESTED_LOOP.with(|nested_loop| nested_loop.serve());
    let served = QuickInstant::now().nanos_since(began);
    // What commands within it have added is a part of this time.
    SERVED_NS.set(served_before + served);
    served
}

/// How long this thread has served others from within commands so far, in ns.
pub fn served_ns() -> u64 {
    SERVED_NS.get()
}
