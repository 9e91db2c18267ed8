//! What a person prefers at the prompt. `:set NAME` turns something on, `:set noNAME` off. At the start the
//! lines of a file in the home folder are run, which may set the same.

use std::path::PathBuf;

/// What can be turned on and off: the name, what it does.
const NAMES: [(&str, &str); 4] = [
    ("hints", "show the arguments of commands while typing"),
    ("colours", "show replies in colours"),
    ("pager", "show what is longer than the screen through a pager"),
    ("timing", "show how long each command took"),
];

/// What is on and off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Preferences {
    pub(crate) hints: bool,
    pub(crate) colours: bool,
    pub(crate) pager: bool,
    pub(crate) timing: bool,
}

impl Preferences {
    /// What holds if nothing is said. The variable NO_COLOR turns colours off.
    pub(crate) fn new() -> Preferences {
        Preferences { hints: true, colours: !crate::dashboard::is_plain(), pager: true, timing: false }
    }

    /// Turns something on or off by its name; whether there is such a thing.
    pub(crate) fn set(&mut self, word: &str) -> bool {
        let word = word.to_ascii_lowercase();
        let (name, on) = word.strip_prefix("no").map_or((word.as_str(), true), |name| (name, false));
        let field = match name {
            "hints" => &mut self.hints,
            "colours" | "colors" => &mut self.colours,
            "pager" => &mut self.pager,
            "timing" => &mut self.timing,
            _ => return false,
        };
        *field = on;
        true
    }

    /// All of it for people.
    pub(crate) fn describe(&self) -> String {
        let states = [self.hints, self.colours, self.pager, self.timing];
        let line = |((name, what), on): (&(&str, &str), bool)| {
            let state = if on { "on" } else { "off" };
            format!(":set {name:<8} {what} ({state})\n")
        };
        NAMES.iter().zip(states).map(line).collect()
    }
}

/// The file whose lines are run at the start: the variable MANTISSA_RC, or a file in the home folder.
pub(crate) fn start_file() -> Option<PathBuf> {
    match std::env::var_os("MANTISSA_RC") {
        Some(path) if path.is_empty() => None,
        Some(path) => Some(PathBuf::from(path)),
        None => std::env::home_dir().map(|home| home.join(".mantissarc")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_turn_on_and_off() {
        let mut preferences = Preferences::new();
        for (name, _) in NAMES {
            assert!(preferences.set(&format!("no{name}")) && preferences.set(name));
        }
        assert!(preferences.set("NOcolors") && !preferences.colours);
        assert!(!preferences.set("nothing") && !preferences.set("no"));
        assert!(preferences.describe().contains(":set timing"));
    }
}
