//! Waking a driver from another thread.
//!
//! One atomic tells whether the driver sleeps. Waking a driver that is at work or already woken is a single
//! swap; only a sleeping one costs a write to its event descriptor. Events of that descriptor are
//! edge-triggered in both drivers, so it is never read empty.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::event::{EventfdFlags, eventfd};

/// The driver is at work, or about to look at the state before it sleeps.
const AWAKE: u8 = 0;
/// The driver waits in the kernel.
const ASLEEP: u8 = 1;
/// The current iteration has been asked to end and has not ended yet.
const WOKEN: u8 = 2;

struct Shared {
    state: AtomicU8,
    fd: OwnedFd,
}

/// Ends the current wait of a driver, or the next one if it does not wait. Cheap to clone and to call.
#[derive(Clone)]
pub struct Waker {
    shared: Arc<Shared>,
}

impl Waker {
    pub(crate) fn new() -> io::Result<Waker> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Waker { shared: Arc::new(Shared { state: AtomicU8::new(AWAKE), fd }) })
    }

    /// Makes the driver return from its current iteration, or from the next one without waiting. What the
    /// caller wrote before is visible to the driver's thread after that iteration.
    pub fn wake(&self) {
        if self.shared.state.swap(WOKEN, Ordering::AcqRel) != ASLEEP {
            return;
        }
        let result = rustix::io::write(&self.shared.fd, &1u64.to_ne_bytes());
        debug_assert_eq!(result, Ok(8), "the counter is far from full");
    }

    /// Before waiting: whether the driver may sleep. If so, wakers write to the descriptor from now on.
    pub(crate) fn fall_asleep(&self) -> bool {
        let state = &self.shared.state;
        state.compare_exchange(AWAKE, ASLEEP, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// After waiting, or instead of it.
    pub(crate) fn awake(&self) {
        self.shared.state.swap(AWAKE, Ordering::AcqRel);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wake_up_is_never_lost() {
        let waker = Waker::new().expect("an event descriptor");
        assert!(waker.fall_asleep());
        waker.awake();
        waker.wake();
        waker.wake();
        assert!(!waker.fall_asleep(), "woken before it slept");
        waker.awake();
        assert!(waker.fall_asleep());
        waker.wake();
        let mut count = [0u8; 8];
        let got = rustix::io::read(&waker, &mut count);
        assert_eq!((got, u64::from_ne_bytes(count)), (Ok(8), 1), "only a sleeping driver costs a write");
    }
}
