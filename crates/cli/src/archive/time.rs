//! Times as users write them: `2026-11-25T07:00:00Z`, `2026-11-25 07:00`, or Unix time in seconds. All are
//! UTC.

use mantissa_archive::days;

/// Unix time in seconds.
pub(crate) fn parse(text: &str) -> Option<u64> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok();
    }
    let (date, time) = text.trim_end_matches('Z').split_once(['T', ' ']).unwrap_or((text, "0:0"));
    let [year, month, day] = numbers(date, '-')?[..] else { return None };
    let (hour, minute, second) = match numbers(time, ':')?[..] {
        [hour, minute] => (hour, minute, 0),
        [hour, minute, second] => (hour, minute, second),
        _ => return None,
    };
    let is_date = (1970..10_000).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    let is_time = hour < 24 && minute < 60 && second < 60;
    (is_date && is_time).then(|| days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
}

fn numbers(text: &str, between: char) -> Option<Vec<u64>> {
    let number = |digits: &str| {
        let is_number = (1..=4).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| digits.parse().ok())?
    };
    text.split(between).map(number).collect()
}

/// A time as `2026-11-25T07:00:00Z`.
pub(crate) fn text(unix_s: u64) -> String {
    let digits = mantissa_archive::utc_digits(unix_s.saturating_mul(1000));
    // `20261125T070000000Z`.
    let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
    let date = [part(0, 4), part(4, 6), part(6, 8)].join("-");
    format!("{date}T{}Z", [part(9, 11), part(11, 13), part(13, 15)].join(":"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_written() {
        assert_eq!(parse("1000000000"), Some(1_000_000_000));
        assert_eq!(parse("2001-09-09T01:46:40Z"), Some(1_000_000_000));
        assert_eq!(parse("2001-09-09 01:46"), Some(999_999_960));
        assert_eq!(parse("2024-02-29"), Some(1_709_164_800));
        assert_eq!(text(1_709_164_800), "2024-02-29T00:00:00Z");
        for bad in [
            "",
            "x",
            "2024-13-01",
            "2024-01-01T24:00",
            "2024-01-01T1",
            "1969-01-01",
            "+5",
            "2024-01-01T1:2:3:4",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
        for unix_s in (0..4_000_000_000).step_by(86_399 * 7) {
            assert_eq!(parse(&text(unix_s)), Some(unix_s));
        }
    }
}
