//! How a server does, as a line for each interval.

use std::io;

use crate::observe::{INTERVAL, Info, human_bytes};
use crate::output::print;
use crate::session::Session;

/// After how many lines the heading comes again.
const LINES_BETWEEN_HEADINGS: u64 = 20;

const HEADING: &str = "\
------- data ------ --------------------- load -------------------- - child -
keys       mem      clients blocked requests            connections          
";

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
