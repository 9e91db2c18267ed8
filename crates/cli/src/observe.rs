//! What a server says of itself, and how fast it answers: for the modes that print it and for the dashboard.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use crate::session::Session;

/// The pause between two measurements.
pub(crate) const SAMPLE_INTERVAL: Duration = Duration::from_millis(10);
/// The pause between two lines, if nothing is said.
pub(crate) const INTERVAL: Duration = Duration::from_secs(1);

/// How long one PING takes.
pub(crate) fn measure(session: &mut Session) -> io::Result<Duration> {
    let start = Instant::now();
    session.expect(&["PING"])?;
    Ok(start.elapsed())
}

/// What INFO says.
pub(crate) struct Info(HashMap<String, String>);

impl Info {
    /// Asks for it.
    pub(crate) fn fetch(session: &mut Session) -> io::Result<Info> {
        let reply = session.expect(&["INFO"])?;
        let text = String::from_utf8_lossy(reply.as_bytes().unwrap_or_default()).into_owned();
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        Ok(Info(fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()))
    }

    /// The text of a field; empty if there is none.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// The number of a field; 0 if there is none.
    pub(crate) fn number(&self, name: &str) -> f64 {
        self.text(name).parse().unwrap_or(0.0)
    }

    /// The same, whole.
    pub(crate) fn integer(&self, name: &str) -> u64 {
        self.text(name).parse().unwrap_or(0)
    }

    /// The keys in all databases.
    pub(crate) fn keys(&self) -> u64 {
        let databases = self.0.iter().filter(|(name, _)| {
            name.strip_prefix("db").is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
        });
        let keys = databases.filter_map(|(_, value)| {
            value.split(',').find_map(|part| part.strip_prefix("keys=")?.parse::<u64>().ok())
        });
        keys.sum()
    }

    /// The name of what runs in the background; empty for nothing.
    pub(crate) fn child(&self) -> &'static str {
        let states =
            [("aof_rewrite_in_progress", "AOF"), ("rdb_bgsave_in_progress", "SAVE"), ("loading", "LOAD")];
        states.into_iter().find(|(name, _)| self.text(name) == "1").map_or("", |(_, shown)| shown)
    }
}

/// Bytes for people: `1.24M`.
pub(crate) fn human_bytes(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let (mut amount, mut unit) = (bytes as f64 / 1024.0, 0);
    while amount >= 1024.0 && unit < 3 {
        amount /= 1024.0;
        unit += 1;
    }
    format!("{amount:.2}{}", ["K", "M", "G", "T"][unit])
}
