//! Pictures on a terminal that are drawn anew all the time: how a server does, and how long it takes to
//! answer. The keys q, Escape and Ctrl-C leave.

mod latency;
mod server;

pub(crate) use latency::run as latency;
pub(crate) use server::run;

use std::io;
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::style::{Color, Style};

/// Whether a person asked for no colours (the variable NO_COLOR), or the terminal has none.
pub(crate) fn is_plain() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
        || std::env::var_os("TERM").is_some_and(|value| value == "dumb")
}

/// A colour, unless there are to be none.
fn colour(colour: Color) -> Style {
    if is_plain() { Style::new() } else { Style::new().fg(colour) }
}

/// Waits for so long; whether a person asked to leave meanwhile.
fn wait(length: Duration) -> io::Result<bool> {
    let end = Instant::now() + length;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if !event::poll(left)? {
            return Ok(false);
        }
        let Event::Key(key) = event::read()? else { continue };
        let interrupted = key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c');
        if interrupted || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) {
            return Ok(true);
        }
    }
}
