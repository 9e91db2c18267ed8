//! The batching delay: how long the event loop waits for further events after the first.
//!
//! Each iteration of the event loop costs one or two system calls and often a sleep; waking a sleeping
//! driver costs the sender. With many busy connections a delay of some microseconds lets several events
//! share that cost. Replies are later by at most the delay, in practice earlier, because both sides do less
//! work.
//!
//! With few busy connections a delay would only add latency. So connections that received something are
//! counted in windows of a millisecond, and with fewer than `BUSY_MIN` of them there is no delay.

use std::time::{Duration, Instant};

use mantissa_sys::scheduling;

const WINDOW: Duration = Duration::from_millis(1);
/// With fewer busy connections there is no delay.
const BUSY_MIN: u32 = 24;
/// The most events that an iteration waits for.
const EVENTS_MAX: u32 = 64;
/// The delay of a new driver, at most.
const LONGEST: Duration = Duration::from_micros(50);

pub(crate) struct BatchingDelay {
    /// The longest delay; zero for none.
    longest: Duration,
    /// The number of the current window. A connection remembers the last one in which it was counted.
    window: u16,
    started: Option<Instant>,
    /// The busy connections of this window and of the one before.
    busy: u32,
    busy_before: u32,
}

impl BatchingDelay {
    pub(crate) fn new() -> BatchingDelay {
        scheduling::use_precise_timeouts();
        BatchingDelay { longest: LONGEST, window: 1, started: None, busy: 0, busy_before: 0 }
    }

    /// Sets the longest delay; zero for none.
    pub(crate) fn set(&mut self, longest: Duration) {
        self.longest = longest;
    }

    /// Counts a connection that received something. `counted_in` is the last window that counted it.
    pub(crate) fn count(&mut self, counted_in: &mut u16) {
        if *counted_in != self.window {
            *counted_in = self.window;
            self.busy += 1;
        }
    }

    /// How many events an iteration waits for, and how long at most; `None` to wait for one only.
    pub(crate) fn plan(&mut self, timeout: Option<Duration>) -> Option<(u32, Duration)> {
        if self.longest.is_zero() {
            return None;
        }
        self.next_window(Instant::now());
        let busy = self.busy.max(self.busy_before);
        let enough = timeout.is_none_or(|timeout| timeout > self.longest);
        (busy >= BUSY_MIN && enough).then(|| ((busy / 2).min(EVENTS_MAX), self.longest))
    }

    fn next_window(&mut self, now: Instant) {
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
        let mut delay = BatchingDelay::new();
        let mut memory = [0u16; 100];
        assert_eq!(delay.plan(None), None);
        // One connection, however often it sends.
        for _ in 0..1000 {
            delay.count(&mut memory[0]);
        }
        assert_eq!(delay.busy, 1);
        memory.iter_mut().for_each(|counted_in| delay.count(counted_in));
        assert_eq!(delay.busy, 100);
        delay.started = Some(Instant::now());
        assert_eq!(delay.plan(None), Some((50, LONGEST)));
        assert_eq!(delay.plan(Some(Duration::from_micros(1))), None);
        // The count of the last window is good for the next one, and then no more.
        let start = Instant::now();
        delay.started = Some(start);
        delay.next_window(start + WINDOW);
        assert_eq!((delay.busy, delay.busy_before), (0, 100));
        delay.next_window(start + WINDOW * 2);
        assert_eq!((delay.busy, delay.busy_before), (0, 0));
        delay.set(Duration::ZERO);
        assert_eq!(delay.plan(None), None);
    }
}
