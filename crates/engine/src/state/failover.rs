//! The state of a failover that FAILOVER has begun on this primary.

use std::sync::atomic::{AtomicU8, Ordering};

use parking_lot::Mutex;

use super::replication::Address;

/// The steps of a failover, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailoverState {
    /// There is none.
    None,
    /// Writes wait, until a replica has everything.
    WaitsForSync,
    /// The server follows the target, and asks it to take over.
    InProgress,
}

/// What FAILOVER has asked for.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The replica that is to take over; any if there is none.
    pub target: Option<Address>,
    /// When the wait for it ends, Unix time in ms.
    pub deadline_ms: Option<i64>,
    /// It takes over at that time even if it lacks something.
    pub forces: bool,
}

/// A failover.
#[derive(Default)]
pub struct Failover {
    state: AtomicU8,
    /// What was asked for, while there is one. Held by who changes the state.
    pub plan: Mutex<Option<Plan>>,
}

impl Failover {
    /// The state.
    pub fn state(&self) -> FailoverState {
        match self.state.load(Ordering::Acquire) {
            0 => FailoverState::None,
            1 => FailoverState::WaitsForSync,
            _ => FailoverState::InProgress,
        }
    }

    /// Sets the state.
    pub fn set_state(&self, state: FailoverState) {
        self.state.store(state as u8, Ordering::Release);
    }

    /// Its name in INFO.
    pub fn name(&self) -> &'static str {
        match self.state() {
            FailoverState::None => "no-failover",
            FailoverState::WaitsForSync => "waiting-for-sync",
            FailoverState::InProgress => "failover-in-progress",
        }
    }
}
