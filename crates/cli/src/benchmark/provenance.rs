//! Where figures come from: the date and the command line, without passwords.

use std::ffi::OsString;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// What stands for a password.
const HIDDEN: &str = "***";

/// The present as date and time of day in UTC.
pub(crate) fn now() -> String {
    date(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs())
}

/// Seconds of unix time as date and time of day, by Howard Hinnant's algorithm `civil_from_days`.
fn date(seconds: u64) -> String {
    let (days, of_day) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", of_day / 3600, of_day / 60 % 60)
}

/// The command line of this process, as a shell would read it.
pub(crate) fn command_line() -> String {
    let mut words = std::env::args_os();
    let program = words.next().unwrap_or_default();
    let name = Path::new(&program).file_name().unwrap_or_default().to_owned();
    shown(std::iter::once(name).chain(words))
}

fn shown(words: impl Iterator<Item = OsString>) -> String {
    let mut hides_next = false;
    let words = words.map(|word| {
        let word = word.to_string_lossy().into_owned();
        let is_password = std::mem::replace(&mut hides_next, word == "-a" || word == "--pass");
        let word =
            match word.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once('@')?))) {
                _ if is_password => HIDDEN.to_owned(),
                Some((scheme, (_, place))) => format!("{scheme}://{HIDDEN}@{place}"),
                None if word.starts_with("--pass=") => format!("--pass={HIDDEN}"),
                None if word.len() > 2 && word.starts_with("-a") => format!("-a{HIDDEN}"),
                None => word,
            };
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=,@%+*".contains(&byte);
        if !word.is_empty() && word.bytes().all(is_plain) {
            word
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_827_696), "2000-02-29 12:34 UTC");
        assert_eq!(date(4_102_444_799), "2099-12-31 23:59 UTC");
    }

    #[test]
    fn passwords_are_hidden() {
        let shown = |words: &[&str]| shown(words.iter().map(OsString::from));
        assert_eq!(
            shown(&["m", "-a", "secret", "-n", "5", "SET", "a b", "it's"]),
            "m -a *** -n 5 SET 'a b' 'it'\\''s'"
        );
        assert_eq!(shown(&["m", "-asecret", "--pass=secret"]), "m -a*** --pass=***");
        assert_eq!(shown(&["m", "-u", "redis://u:p@host:1/2"]), "m -u redis://***@host:1/2");
    }
}
