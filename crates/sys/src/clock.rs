//! Clocks: the wall clock, in UTC and in the machine's time zone, and a monotonic one.

use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::simulation;

/// The wall clock: milliseconds since 1970 in UTC; 0 before that.
pub fn unix_ms() -> i64 {
    unix_us() / 1000
}

/// The wall clock: microseconds since 1970 in UTC; 0 before that.
#[inline]
pub fn unix_us() -> i64 {
    match simulation::scheduler() {
        None => system_us(),
        Some(scheduler) => scheduler.unix_us(),
    }
}

/// The monotonic clock. In a simulation it follows the simulated wall clock.
#[inline]
pub fn now() -> Instant {
    match simulation::scheduler() {
        None => Instant::now(),
        Some(scheduler) => simulated_now(scheduler.unix_us()),
    }
}

/// The time since a moment of the monotonic clock.
#[inline]
pub fn since(moment: Instant) -> Duration {
    now().saturating_duration_since(moment)
}

#[cold]
fn simulated_now(unix_us: i64) -> Instant {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    *ORIGIN.get_or_init(Instant::now) + Duration::from_micros(u64::try_from(unix_us).unwrap_or(0))
}

fn system_us() -> i64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH);
    elapsed.map_or(0, |elapsed| i64::try_from(elapsed.as_micros()).unwrap_or(i64::MAX))
}

/// A moment on the wall clock of the machine's time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalTime {
    /// The year, such as 2026.
    pub year: i32,
    /// The month, 1 to 12.
    pub month: u32,
    /// The day of the month, 1 to 31.
    pub day: u32,
    /// The hour, 0 to 23.
    pub hour: u32,
    /// The minute, 0 to 59.
    pub minute: u32,
    /// The second, 0 to 60.
    pub second: u32,
}

/// The local time of a moment in seconds since 1970 in UTC; the start of 1970 if the system can not tell.
pub fn local_time(unix_seconds: i64) -> LocalTime {
    let time = unix_seconds as libc::time_t;
    // SAFETY: an all-zero `tm` is valid; `localtime_r` fills it or gives null and leaves it.
    let parts = unsafe {
        let mut parts: libc::tm = MaybeUninit::zeroed().assume_init();
        if libc::localtime_r(&time, &mut parts).is_null() {
            parts = MaybeUninit::zeroed().assume_init();
            parts.tm_year = 70;
            parts.tm_mday = 1;
        }
        parts
    };
    let number = |number: libc::c_int| u32::try_from(number).unwrap_or(0);
    LocalTime {
        year: parts.tm_year.saturating_add(1900),
        month: number(parts.tm_mon) + 1,
        day: number(parts.tm_mday),
        hour: number(parts.tm_hour),
        minute: number(parts.tm_min),
        second: number(parts.tm_sec),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_time_is_a_whole_number_of_minutes_from_utc() {
        let seconds = 1_795_293_859;
        let time = local_time(seconds);
        assert_eq!((time.year, time.month, time.second), (2026, 11, (seconds % 60) as u32));
        assert!((1..=31).contains(&time.day) && time.hour < 24 && time.minute < 60);
    }

    #[test]
    fn both_units_tell_the_same_time() {
        let (before, now, after) = (unix_us(), unix_ms(), unix_us());
        assert!(before / 1000 <= now && now <= after / 1000);
    }
}
