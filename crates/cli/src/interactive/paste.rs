//! Commands from text that may have several lines, as a terminal hands over what is pasted: one a line, but
//! for a line end within quotes, which belongs to its argument.

use mantissa_protocol::split_quoted;

/// What text comes to.
#[derive(PartialEq, Eq, Debug, Default)]
pub(crate) struct Typed {
    /// The commands that are whole.
    pub(crate) commands: Vec<String>,
    /// The start of one whose quote is still open; empty if there is none.
    pub(crate) rest: String,
}

/// Splits text into commands.
pub(crate) fn split(text: &str) -> Typed {
    let mut typed = Typed::default();
    for line in text.split('\n') {
        if !typed.rest.is_empty() {
            typed.rest.push('\n');
        }
        typed.rest.push_str(line);
        if open_quote(&typed.rest).is_none() {
            let command = std::mem::take(&mut typed.rest);
            if !command.trim().is_empty() {
                typed.commands.push(command);
            }
        }
    }
    typed
}

/// The quote that is open at the end of a text.
pub(crate) fn open_quote(text: &str) -> Option<char> {
    if split_quoted(text.as_bytes()).is_ok() {
        return None;
    }
    ['"', '\''].into_iter().find(|quote| split_quoted(format!("{text}{quote}").as_bytes()).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_that_are_open() {
        for (text, quote) in [
            ("GET \"a", '"'),
            ("EVAL 'return 1", '\''),
            ("EVAL \"return 1\n  + 2", '"'),
            ("SET a don't", '\''),
        ] {
            assert_eq!(open_quote(text), Some(quote), "{text}");
        }
        for text in ["GET \"a\"", "GET a", "", "GET \"a\"b"] {
            assert_eq!(open_quote(text), None, "{text}");
        }
    }

    #[test]
    fn a_line_is_a_command() {
        let splits_into = |text: &str, commands: &[&str], rest: &str| {
            let typed = split(text);
            assert_eq!(
                (typed.commands, typed.rest.as_str()),
                (commands.iter().map(|one| one.to_string()).collect(), rest)
            );
        };
        splits_into("", &[], "");
        splits_into("PING", &["PING"], "");
        splits_into("SADD p 1\nSADD p 2\n\n", &["SADD p 1", "SADD p 2"], "");
        splits_into("EVAL 'a\nb' 0\nPING", &["EVAL 'a\nb' 0", "PING"], "");
        splits_into("PING\nSET a 'b\nPING", &["PING"], "SET a 'b\nPING");
        splits_into("GET \"a\"b\nPING", &["GET \"a\"b", "PING"], "");
    }
}
