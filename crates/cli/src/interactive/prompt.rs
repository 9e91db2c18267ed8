//! What the line editor asks while a person types: completions, hints.

use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;

use rustyline::completion::Completer;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};

use super::keys::KeyNames;
use crate::docs::Docs;

/// What the editor asks.
pub(crate) struct Prompt {
    pub(crate) docs: Rc<Docs>,
    pub(crate) keys: RefCell<KeyNames>,
    pub(crate) shows_hints: bool,
    pub(crate) has_colours: bool,
}

impl Helper for Prompt {}

impl Validator for Prompt {}

impl Completer for Prompt {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let typed = line.get(..at).unwrap_or_default();
        for about in ["help ", "HELP ", "? "] {
            if let Some(topic) = typed.strip_prefix(about) {
                let mut topics = self.docs.complete(topic);
                topics.extend(self.docs.complete_group(topic));
                return Ok((about.len(), topics));
            }
        }
        let names = self.docs.complete(typed);
        if !names.is_empty() {
            return Ok((0, names));
        }
        let word_start = typed.rfind(' ').map_or(0, |space| space + 1);
        let (before, word) = typed.split_at(word_start);
        if is_setting_at(before) {
            return Ok((word_start, self.keys.borrow_mut().settings(word)));
        }
        let wanted = self.docs.wanted_at(before);
        let (upper, lower_case) =
            (word.to_ascii_uppercase(), word.bytes().any(|byte| byte.is_ascii_lowercase()));
        let tokens = wanted.tokens.into_iter().filter(|token| token.starts_with(&upper));
        let mut candidates: Vec<String> =
            tokens.map(|token| if lower_case { token.to_ascii_lowercase() } else { token }).collect();
        if wanted.is_key {
            let start = word.trim_start_matches(['"', '\'']);
            candidates.extend(self.keys.borrow_mut().find(start.as_bytes()));
        }
        Ok((word_start, candidates))
    }
}

/// Whether what follows these words is the name of a setting.
fn is_setting_at(before: &str) -> bool {
    let words: Vec<String> = before.split_whitespace().map(str::to_ascii_lowercase).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match &words[..] {
        ["config", "get", ..] => true,
        ["config", "set", given @ ..] => given.len() % 2 == 0,
        _ => false,
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
        if self.has_colours { Cow::Owned(format!("\x1b[90m{hint}\x1b[0m")) } else { Cow::Borrowed(hint) }
    }

    fn highlight_char(&self, _: &str, _: usize, _: CmdKind) -> bool {
        false
    }
}
