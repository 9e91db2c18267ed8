//! Waiting a little longer while many connections are busy, so that a turn has more to do.
//!
//! Every turn costs a system call or two and often a sleep, whatever it achieves, and waking a sleeping
//! driver costs the sender. With many busy connections a turn that lets some microseconds pass finds several
//! events instead of one, and the costs are shared; replies are later by no more than that, and in practice
//! earlier, because both sides do less. With few busy connections nothing more would come, and the wait would
//! only slow them down: so the connections that have received something are counted, in windows of a
//! millisecond, and below `BUSY_MIN` of them there is no waiting.

use std::time::{Duration, Instant};

use mantissa_sys::scheduling;

const WINDOW: Duration = Duration::from_millis(1);
/// With fewer busy connections there is no extra wait.
const BUSY_MIN: u32 = 24;
/// A turn with this much to do needs no more.
const EVENTS_MAX: u32 = 64;
/// The extra wait of a new driver.
const LONGEST: Duration = Duration::from_micros(50);

pub(crate) struct Patience {
    longest: Duration,
    /// The number of the current window. A connection remembers the last one in which it was counted.
    window: u16,
    started: Option<Instant>,
    /// The busy connections of this window and of the one before.
    busy: u32,
    busy_before: u32,
}

impl Patience {
    pub(crate) fn new() -> Patience {
        scheduling::use_precise_timeouts();
        Patience { longest: LONGEST, window: 1, started: None, busy: 0, busy_before: 0 }
    }

    /// Zero for no extra wait.
    pub(crate) fn set(&mut self, longest: Duration) {
        self.longest = longest;
    }

    /// A connection has received something; `counted_in` is its memory.
    pub(crate) fn count(&mut self, counted_in: &mut u16) {
        if *counted_in != self.window {
            *counted_in = self.window;
            self.busy += 1;
        }
    }

    /// The number of events that a turn is to wait for, and for how long at most, if it is to wait for more
    /// than one.
    pub(crate) fn plan(&mut self, timeout: Option<Duration>) -> Option<(u32, Duration)> {
        if self.longest.is_zero() {
            return None;
        }
        self.turn_window(Instant::now());
        let busy = self.busy.max(self.busy_before);
        let enough = timeout.is_none_or(|timeout| timeout > self.longest);
        (busy >= BUSY_MIN && enough).then(|| ((busy / 2).min(EVENTS_MAX), self.longest))
    }

    fn turn_window(&mut self, now: Instant) {
        let age = self.started.map_or(WINDOW * 2, |started| now.saturating_duration_since(started));
        if age >= WINDOW {
            self.busy_before = if age >= WINDOW * 2 { 0 } else { self.busy };
            self.busy = 0;
            self.window = self.window.wrapping_add(1);
            self.started = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_many_busy_connections_make_a_driver_wait() {
        let mut patience = Patience::new();
        let mut memory = [0u16; 100];
        assert_eq!(patience.plan(None), None);
        // One connection, however often it asks.
        for _ in 0..1000 {
            patience.count(&mut memory[0]);
        }
        assert_eq!(patience.busy, 1);
        memory.iter_mut().for_each(|counted_in| patience.count(counted_in));
        assert_eq!(patience.busy, 100);
        patience.started = Some(Instant::now());
        assert_eq!(patience.plan(None), Some((50, LONGEST)));
        assert_eq!(patience.plan(Some(Duration::from_micros(1))), None);
        // The count of the last window is good for the next one, and then no more.
        let start = Instant::now();
        patience.started = Some(start);
        patience.turn_window(start + WINDOW);
        assert_eq!((patience.busy, patience.busy_before), (0, 100));
        patience.turn_window(start + WINDOW * 2);
        assert_eq!((patience.busy, patience.busy_before), (0, 0));
        patience.set(Duration::ZERO);
        assert_eq!(patience.plan(None), None);
    }
}
