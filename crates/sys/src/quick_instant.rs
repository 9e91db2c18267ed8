//! A monotonic clock for short times, which is read for each command: the processor's time stamp counter,
//! where the system keeps time by it as well. Elsewhere it is the system's monotonic clock.
//!
//! On a Xeon under KVM a reading takes 16 ns, where `clock_gettime` takes 27. The counter is read without a
//! fence, so a reading can be some tens of cycles early.
//!
//! Its rate is measured once, for a millisecond, against the system's clock, so a time is wrong by about one
//! part in 10,000. Whether the system keeps time by the counter is asked once too.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::simulation;

/// How long the rate is measured.
const MEASURED: Duration = Duration::from_millis(1);
/// Pairs of readings of both clocks, of which the one counts that took the least time.
const PAIRS: usize = 8;
/// Nanoseconds a step that are believed, times 2^32: counters run at 100 MHz to 10 GHz.
const BELIEVED: std::ops::RangeInclusive<u64> = (1 << 32) / 10..=10 << 32;

/// A moment. It means something only beside others of the same process.
///
/// ```text
/// bit 0      1: steps of the counter, 0: nanoseconds of the system's clock
/// bit 1-63   their number
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuickInstant(u64);

const COUNTED: u64 = 1;

impl QuickInstant {
    /// Now. In a simulation it is the simulated time.
    #[inline]
    pub fn now() -> QuickInstant {
        if simulation::scheduler().is_none() && nanoseconds_a_step() != 0 {
            QuickInstant(steps() << 1 | COUNTED)
        } else {
            QuickInstant(system_ns() << 1)
        }
    }

    /// Nanoseconds since an earlier moment; 0 if it is a later one.
    #[inline]
    pub fn nanos_since(self, earlier: QuickInstant) -> u64 {
        let elapsed = (self.0 >> 1).saturating_sub(earlier.0 >> 1);
        match (self.0 & COUNTED, earlier.0 & COUNTED) {
            (COUNTED, COUNTED) => ((u128::from(elapsed) * u128::from(nanoseconds_a_step())) >> 32) as u64,
            (0, 0) => elapsed,
            // One of them was simulated.
            _ => 0,
        }
    }

    /// A moment that is so many nanoseconds later.
    pub fn later_by(self, nanoseconds: u64) -> QuickInstant {
        let steps = match self.0 & COUNTED {
            COUNTED => (u128::from(nanoseconds) << 32) / u128::from(nanoseconds_a_step().max(1)),
            _ => u128::from(nanoseconds),
        };
        QuickInstant(self.0.saturating_add((steps as u64) << 1))
    }

    /// The time since an earlier moment; zero if it is a later one.
    #[inline]
    pub fn duration_since(self, earlier: QuickInstant) -> Duration {
        Duration::from_nanos(self.nanos_since(earlier))
    }
}

/// Nanoseconds of a step of the counter, times 2^32; 0 if the counter tells no time.
#[inline]
fn nanoseconds_a_step() -> u64 {
    static RATE: OnceLock<u64> = OnceLock::new();
    *RATE.get_or_init(measure)
}

#[cold]
fn measure() -> u64 {
    if !tells_time() {
        return 0;
    }
    let (first_step, first) = pair();
    std::thread::sleep(MEASURED);
    let (last_step, last) = pair();
    let elapsed = last.saturating_duration_since(first).as_nanos() << 32;
    let rate = elapsed.checked_div(u128::from(last_step.saturating_sub(first_step)));
    rate.and_then(|rate| u64::try_from(rate).ok()).filter(|rate| BELIEVED.contains(rate)).unwrap_or(0)
}

/// A reading of both clocks at nearly the same time.
fn pair() -> (u64, Instant) {
    let read = || {
        let before = steps();
        let moment = Instant::now();
        let after = steps();
        (after.saturating_sub(before), (before + after.saturating_sub(before) / 2, moment))
    };
    let mut best = read();
    for _ in 1..PAIRS {
        let other = read();
        if other.0 < best.0 {
            best = other;
        }
    }
    best.1
}

#[cold]
fn system_ns() -> u64 {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    match simulation::scheduler() {
        Some(scheduler) => (scheduler.unix_us().max(0) as u64).saturating_mul(1000),
        None => ORIGIN.get_or_init(Instant::now).elapsed().as_nanos() as u64,
    }
}

/// Whether the system takes the counter for one that runs at a constant rate, the same on all processors.
#[cfg(target_arch = "x86_64")]
fn tells_time() -> bool {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    std::fs::read(path).is_ok_and(|source| source.trim_ascii() == b"tsc")
}

#[cfg(not(target_arch = "x86_64"))]
fn tells_time() -> bool {
    false
}

/// The counter.
#[cfg(target_arch = "x86_64")]
#[inline]
fn steps() -> u64 {
    // SAFETY: every x86-64 processor has the instruction. Where a process may not use it (PR_SET_TSC), the
    // system's own clock, which uses it as well, would fail first.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn steps() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_tells_the_same_time_as_the_systems_clock() {
        // Other programs can interrupt between the two readings, so the least difference counts.
        let least = (0..20).map(|_| {
            let (began, moment) = (Instant::now(), QuickInstant::now());
            std::thread::sleep(Duration::from_millis(5));
            let (quick, exact) = (QuickInstant::now().duration_since(moment), began.elapsed());
            assert!(quick <= exact + exact / 1000, "{quick:?} in {exact:?}");
            exact.abs_diff(quick)
        });
        let least = least.min().unwrap_or_default();
        assert!(least < Duration::from_micros(50), "{least:?}");
    }

    #[test]
    fn an_earlier_moment_is_no_time_ago() {
        let earlier = QuickInstant::now();
        std::thread::sleep(Duration::from_micros(10));
        let later = QuickInstant::now();
        assert_eq!(earlier.nanos_since(later), 0);
        assert!(later.nanos_since(earlier) >= 10_000);
    }

    #[test]
    fn a_simulated_moment_does_not_compare_with_others() {
        let (counted, simulated) = (QuickInstant(1_000 << 1 | COUNTED), QuickInstant(2_000 << 1));
        assert_eq!((counted.nanos_since(simulated), simulated.nanos_since(counted)), (0, 0));
        assert_eq!(QuickInstant(5_000 << 1).duration_since(simulated), Duration::from_nanos(3_000));
    }
}
