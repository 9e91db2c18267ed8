//! How a server does, as a line for each interval.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use super::expect;
use crate::session::{Session, print};

/// The pause between two lines, if nothing is said.
pub(crate) const INTERVAL: Duration = Duration::from_secs(1);
/// After how many lines the heading comes again.
const LINES_BETWEEN_HEADINGS: u64 = 20;

const HEADING: &str = "\
------- data ------ --------------------- load -------------------- - child -
keys       mem      clients blocked requests            connections          
";

/// What INFO says.
pub(crate) struct Info(HashMap<String, String>);

impl Info {
    /// Asks for it.
    pub(crate) fn fetch(session: &mut Session) -> io::Result<Info> {
        let reply = expect(session, &["INFO"])?;
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

    fn child(&self) -> &'static str {
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

/// Prints lines until the end, or as many as the command line says.
pub(crate) fn run(session: &mut Session) -> io::Result<bool> {
    let interval = session.settings().interval.unwrap_or(INTERVAL);
    let lines = session.settings().repeat.and_then(|lines| u64::try_from(lines).ok());
    let (mut line, mut requests_before) = (0, 0);
    loop {
        let info = Info::fetch(session)?;
        if line % LINES_BETWEEN_HEADINGS == 0 {
            print(HEADING.as_bytes())?;
        }
        let requests = info.integer("total_commands_processed");
        let shown = if line == 0 {
            format!("{requests} (+0)")
        } else {
            format!("{requests} (+{})", requests.saturating_sub(requests_before))
        };
        requests_before = requests;
        let row = format!(
            "{:<11}{:<9}{:<8}{:<8}{shown:<20}{:<12}{}\n",
            info.keys(),
            human_bytes(info.integer("used_memory")),
            info.text("connected_clients"),
            info.text("blocked_clients"),
            info.text("total_connections_received"),
            info.child(),
        );
        print(row.as_bytes())?;
        line += 1;
        if lines.is_some_and(|lines| line >= lines) {
            return Ok(true);
        }
        std::thread::sleep(interval);
    }
}
