//! When something recurs: `every 6h`, `at 03:00,15:00`.
//!
//! Times are those of UTC and do not depend on when the server started, so that a restart neither delays nor
//! repeats anything: `every 6h` is at 0, 6, 12 and 18 o'clock.

const MINUTE_MS: u64 = 60_000;
const DAY_MS: u64 = 86_400_000;
/// The longest interval: a year.
const INTERVAL_MAX_MS: u64 = 366 * DAY_MS;
const TIMES_MAX: usize = 1440;

const BAD: &str = "argument must be 'every <number><s|m|h|d>', 'at HH:MM[,HH:MM ...]' or empty";

/// A rule that says when.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Schedule {
    /// At the multiples of so many milliseconds since 1970.
    Every(u64),
    /// Each day at these milliseconds after midnight, in order.
    At(Vec<u64>),
}

impl Schedule {
    /// Reads a rule; `None` for the empty one, which says never.
    pub fn parse(text: &str) -> Result<Option<Schedule>, &'static str> {
        let mut words = text.split_ascii_whitespace();
        let schedule = match (words.next(), words.next()) {
            (None, _) => return Ok(None),
            (Some(word), Some(interval)) if word.eq_ignore_ascii_case("every") => {
                Schedule::Every(parse_interval(interval).ok_or(BAD)?)
            }
            (Some(word), Some(times)) if word.eq_ignore_ascii_case("at") => {
                let times: Option<Vec<u64>> = times.split(',').take(TIMES_MAX).map(parse_time).collect();
                let mut times = times.ok_or(BAD)?;
                times.sort_unstable();
                Schedule::At(times)
            }
            _ => return Err(BAD),
        };
        if words.next().is_some() { Err(BAD) } else { Ok(Some(schedule)) }
    }

    /// The last time at or before `now_ms`, as Unix time in milliseconds.
    pub fn last(&self, now_ms: u64) -> u64 {
        match self {
            Schedule::Every(interval_ms) => now_ms - now_ms % interval_ms,
            Schedule::At(times) => {
                let midnight = now_ms - now_ms % DAY_MS;
                let today = times.iter().rev().find(|time| midnight + **time <= now_ms);
                match (today, times.last()) {
                    (Some(time), _) => midnight + time,
                    (None, last) => (midnight + last.copied().unwrap_or(0)).saturating_sub(DAY_MS),
                }
            }
        }
    }

    /// The first time after `now_ms`.
    pub fn next(&self, now_ms: u64) -> u64 {
        match self {
            Schedule::Every(interval_ms) => self.last(now_ms) + interval_ms,
            Schedule::At(times) => {
                let midnight = now_ms - now_ms % DAY_MS;
                let today = times.iter().find(|time| midnight + **time > now_ms);
                let tomorrow = DAY_MS + times.first().copied().unwrap_or(0);
                midnight + today.copied().unwrap_or(tomorrow)
            }
        }
    }
}

/// `90s`, `15m`, `6h`, `1d`, in milliseconds.
fn parse_interval(text: &str) -> Option<u64> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let unit_ms = match unit {
        "s" => 1000,
        "m" => MINUTE_MS,
        "h" => 60 * MINUTE_MS,
        "d" => DAY_MS,
        _ => return None,
    };
    let number = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<u64>().ok())??;
    number.checked_mul(unit_ms).filter(|interval_ms| (1..=INTERVAL_MAX_MS).contains(interval_ms))
}

/// `03:00`, in milliseconds after midnight.
fn parse_time(text: &str) -> Option<u64> {
    let (hour, minute) = text.split_once(':')?;
    let number = |digits: &str, below: u64| {
        let is_number = (1..=2).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| digits.parse::<u64>().ok())?.filter(|number| *number < below)
    };
    Some((number(hour, 24)? * 60 + number(minute, 60)?) * MINUTE_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: u64 = 60 * MINUTE_MS;

    #[test]
    fn rules_are_read_or_refused() {
        assert_eq!(Schedule::parse("  "), Ok(None));
        assert_eq!(Schedule::parse("every 6h"), Ok(Some(Schedule::Every(6 * HOUR_MS))));
        let times = vec![3 * HOUR_MS, 15 * HOUR_MS + 30 * MINUTE_MS];
        assert_eq!(Schedule::parse("AT 15:30,3:00"), Ok(Some(Schedule::At(times))));
        let bad =
            ["every", "every h", "every 0h", "every 6", "every 9999999999999999999d", "every +6h", "x 1h"];
        let also =
            ["at", "at 24:00", "at 3", "at 03:60", "at 03:00,", "at 3:00 4:00", "every 6h x", "every é"];
        for text in bad.into_iter().chain(also) {
            assert!(Schedule::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_follow_the_clock() {
        let every = Schedule::Every(6 * HOUR_MS);
        assert_eq!((every.last(13 * HOUR_MS), every.next(13 * HOUR_MS)), (12 * HOUR_MS, 18 * HOUR_MS));
        assert_eq!((every.last(12 * HOUR_MS), every.next(12 * HOUR_MS)), (12 * HOUR_MS, 18 * HOUR_MS));
        let at = Schedule::At(vec![3 * HOUR_MS, 15 * HOUR_MS]);
        let day = 10 * DAY_MS;
        assert_eq!(at.last(day + 4 * HOUR_MS), day + 3 * HOUR_MS);
        assert_eq!(at.next(day + 4 * HOUR_MS), day + 15 * HOUR_MS);
        assert_eq!(at.last(day + HOUR_MS), day - 9 * HOUR_MS);
        assert_eq!(at.next(day + 23 * HOUR_MS), day + 27 * HOUR_MS);
        assert_eq!(at.last(HOUR_MS), 0);
    }
}
