//! The prompt: line editing, history, completion and hints.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;

use mantissa_protocol::split_quoted;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, Helper};

use crate::docs::Docs;
use crate::lines::{self, Next};
use crate::session::Session;

/// The most lines that the history keeps.
const HISTORY_LEN_MAX: usize = 5000;

/// Reads and runs commands until the person leaves.
pub(crate) fn run(session: &mut Session) -> io::Result<bool> {
    session.set_interactive();
    let docs = Rc::new(fetch_docs(session));
    let mut editor = open_editor(Rc::clone(&docs)).map_err(io::Error::other)?;
    let history = history_path();
    if let Some(path) = &history {
        // There is none at first.
        let _ = editor.load_history(path);
    }
    loop {
        let line = match editor.readline(&session.prompt()) {
            Ok(line) => line,
            Err(ReadlineError::Eof | ReadlineError::Interrupted) => return Ok(true),
            Err(ReadlineError::Io(error)) => return Err(error),
            Err(error) => return Err(io::Error::other(error)),
        };
        if !line.trim().is_empty() && !has_secret(&line) {
            editor.add_history_entry(line.as_str()).map_err(io::Error::other)?;
            if let Some(path) = &history {
                // A history that cannot be kept is no reason to stop.
                let _ = editor.append_history(path);
            }
        }
        match lines::run(session, line.as_bytes(), Some(&docs)) {
            Ok(Next::Quit) => return Ok(true),
            Ok(Next::Hints(shown)) => {
                if let Some(helper) = editor.helper_mut() {
                    helper.shows_hints = shown;
                }
            }
            Ok(Next::Continue | Next::Failed) => {}
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Err(error),
            // Reported already.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => {}
            Err(error) => eprintln!("Error: {error}"),
        }
    }
}

fn open_editor(docs: Rc<Docs>) -> rustyline::Result<Editor<Prompt, DefaultHistory>> {
    let config = Config::builder()
        .max_history_size(HISTORY_LEN_MAX)?
        .history_ignore_dups(true)?
        .completion_type(CompletionType::Circular)
        .build();
    let mut editor = Editor::with_config(config)?;
    editor.set_helper(Some(Prompt { docs, shows_hints: true }));
    Ok(editor)
}

/// What the server says about its commands; nothing if it cannot be asked.
fn fetch_docs(session: &mut Session) -> Docs {
    let reply = session.connection().and_then(|connection| connection.ask(&["COMMAND", "DOCS"]));
    reply.map(|reply| Docs::new(&reply)).unwrap_or_default()
}

/// Where lines are kept between runs: the variable MANTISSA_HISTORY, or a file in the home folder.
fn history_path() -> Option<PathBuf> {
    match std::env::var_os("MANTISSA_HISTORY") {
        Some(path) if path.is_empty() || path == "/dev/null" => None,
        Some(path) => Some(PathBuf::from(path)),
        None => std::env::home_dir().map(|home| home.join(".mantissa_history")),
    }
}

/// Whether a line holds a password, which no file should.
fn has_secret(line: &str) -> bool {
    let words = split_quoted(line.as_bytes()).unwrap_or_default();
    let words: Vec<String> =
        words.iter().map(|word| String::from_utf8_lossy(word).to_ascii_lowercase()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match &words[..] {
        ["auth", ..] | ["acl", "setuser", ..] => true,
        ["hello" | "migrate", options @ ..] => {
            options.iter().any(|option| matches!(*option, "auth" | "auth2"))
        }
        ["config", "set", settings @ ..] => {
            settings.iter().any(|name| ["auth", "pass"].iter().any(|part| name.contains(part)))
        }
        _ => false,
    }
}

/// What rustyline asks while a person types.
struct Prompt {
    docs: Rc<Docs>,
    shows_hints: bool,
}

impl Helper for Prompt {}

impl Validator for Prompt {}

impl Completer for Prompt {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let typed = line.get(..at).unwrap_or_default();
        let about = ["help ", "HELP "].into_iter().find(|start| typed.starts_with(start)).map_or(0, str::len);
        Ok((about, self.docs.complete(&typed[about..])))
    }
}

impl Hinter for Prompt {
    type Hint = String;

    fn hint(&self, line: &str, at: usize, _: &Context<'_>) -> Option<String> {
        if self.shows_hints && at == line.len() { self.docs.hint(line) } else { None }
    }
}

impl Highlighter for Prompt {
    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        Cow::Owned(format!("\x1b[90m{hint}\x1b[0m"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_do_not_get_into_the_history() {
        for line in [
            "AUTH x",
            "auth user pass",
            "ACL SETUSER a on >p",
            "HELLO 3 AUTH a b",
            "CONFIG SET requirepass x",
            "config set maxmemory 1 masterauth x",
            "MIGRATE h 1 k 0 1 AUTH2 u p",
        ] {
            assert!(has_secret(line), "{line}");
        }
        for line in ["GET auth", "HELLO 3", "CONFIG SET maxmemory 1", "ACL LIST", "", "\""] {
            assert!(!has_secret(line), "{line}");
        }
    }
}
