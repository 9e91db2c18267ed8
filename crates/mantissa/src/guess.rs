//! What someone may have meant who called the program in a way that it does not know.

use std::ffi::OsString;
use std::path::Path;

/// The subcommands.
const COMMANDS: [&str; 11] = [
    "server",
    "cli",
    "benchmark",
    "import",
    "export",
    "check",
    "archive",
    "probe",
    "completions",
    "manual",
    "help",
];
/// How many letters may be wrong in a command that is guessed.
const TYPOS_MAX: usize = 2;

/// A line that says what is wrong, and a guess.
pub fn complaint(words: &[OsString]) -> String {
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let first = words.first().map_or("", String::as_str);
    let all = words.join(" ");
    let near = COMMANDS.iter().map(|name| (distance(name, first), name)).min();
    let (what, guess) = match near {
        _ if first.starts_with("--") => {
            (format!("'{first}' comes without a command"), format!("server {all}"))
        }
        _ if first.starts_with('-') => (format!("'{first}' comes without a command"), format!("cli {all}")),
        Some((typos, name)) if typos <= TYPOS_MAX && typos < first.len() => {
            let rest: String = words.iter().skip(1).map(|word| format!(" {word}")).collect();
            (format!("there is no command '{first}'"), format!("{name}{rest}"))
        }
        _ if first.ends_with(".conf") || Path::new(first).is_file() => {
            (format!("there is no command '{first}'"), format!("server {all}"))
        }
        _ => (format!("there is no command '{first}'"), format!("cli {all}")),
    };
    format!("mantissa: {what}; did you mean `mantissa {guess}`? `mantissa help` lists the commands.")
}

/// How many letters have to be put in, left out or replaced to make one word of the other (Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, letter) in one.chars().enumerate() {
        let mut before = row[0];
        row[0] = i + 1;
        for (j, wanted) in other.iter().enumerate() {
            let replaced = before + usize::from(letter != *wanted);
            before = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(before + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_guessed() {
        for (words, guess) in [
            (&["servr"][..], "`mantissa server`"),
            (&["chekc", "rdb", "f"], "`mantissa check rdb f`"),
            (&["--port", "7000"], "`mantissa server --port 7000`"),
            (&["-p", "7000", "ping"], "`mantissa cli -p 7000 ping`"),
            (&["redis.conf"], "`mantissa server redis.conf`"),
            (&["get", "k"], "`mantissa cli get k`"),
        ] {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            let said = complaint(&words);
            assert!(said.contains(guess) && said.lines().count() == 1, "{said}");
        }
    }
}
