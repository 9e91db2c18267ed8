//! Asking for a password.

use std::io::{self, BufRead, IsTerminal};

/// Asks for a password on the terminal without showing it, or reads a line where there is no terminal.
pub(crate) fn ask(prompt: &str) -> io::Result<String> {
    if io::stdin().is_terminal() {
        return rpassword::prompt_password(prompt);
    }
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}
