//! Showing what is longer than the screen.

use std::io::{self, IsTerminal, Write};
use std::process::{Command, Stdio};

use ratatui::crossterm::terminal;

use crate::output::print;

/// The pager if the variable PAGER names none: keeps colours, and leaves the text on the screen.
const PAGER: &str = "less -RFX";

/// Prints text, through a pager if it is longer than the screen and there is one.
pub(crate) fn show(text: &[u8]) -> io::Result<()> {
    let Ok((_, rows)) = terminal::size() else { return print(text) };
    let lines = text.iter().filter(|byte| **byte == b'\n').count();
    if lines < usize::from(rows) || !io::stdout().is_terminal() || !through_pager(text) {
        return print(text);
    }
    Ok(())
}

/// Runs the pager; whether it ran.
fn through_pager(text: &[u8]) -> bool {
    let named = std::env::var("PAGER").unwrap_or_else(|_| PAGER.to_owned());
    let mut words = named.split_whitespace();
    let Some(program) = words.next() else { return false };
    let Ok(mut child) = Command::new(program).args(words).stdin(Stdio::piped()).spawn() else {
        return false;
    };
    if let Some(mut input) = child.stdin.take() {
        // A person who has seen enough ends the pager before it has read all.
        let _ = input.write_all(text);
    }
    child.wait().is_ok()
}
