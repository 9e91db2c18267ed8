//! Users as text: the file that `aclfile` names, and `user` lines of the configuration.
//!
//! The file has a line `user NAME RULE ...` for each user; words are separated by spaces and never quoted. It
//! is read as a whole or not at all.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::rules::{RuleError, Vocabulary, has_spaces, join_selectors};
use super::user::Rights;
use mantissa_config::Config;
use mantissa_persist::storage::Storage;

/// Rights by the names of users.
pub type Users = BTreeMap<Box<[u8]>, Rights>;

/// Where the file of users is, if the configuration has one.
pub fn path(config: &Config) -> Option<PathBuf> {
    (!config.aclfile.is_empty()).then(|| Path::new(&config.dir).join(&config.aclfile))
}

/// Reads the file of users at `path`. The error says everything that is wrong with it, and names it as the
/// configuration does.
pub fn read<H>(
    storage: &dyn Storage,
    path: &Path,
    config: &Config,
    vocabulary: &Vocabulary<'_, H>,
) -> Result<Users, Vec<u8>> {
    let shown = &config.aclfile;
    let content = storage.read_file(path, u64::MAX).map_err(|error| {
        let reason = mantissa_config::reason(&error);
        format!("Error loading ACLs, opening file '{shown}': {reason}").into_bytes()
    })?;
    let mut reader = Reader { path: shown.as_bytes(), errors: Vec::new(), users: Users::new() };
    for (index, line) in content.split(|&byte| byte == b'\n').enumerate() {
        reader.read_line(line.trim_ascii(), index + 1, vocabulary);
    }
    if reader.errors.is_empty() {
        return Ok(reader.users);
    }
    reader.errors.extend_from_slice(
        b"WARNING: ACL errors detected, no change to the previously active ACL rules was performed",
    );
    Err(reader.errors)
}

struct Reader<'p> {
    path: &'p [u8],
    errors: Vec<u8>,
    users: Users,
}

impl Reader<'_> {
    fn complain(&mut self, line: usize, parts: &[&[u8]]) {
        self.errors.extend_from_slice(self.path);
        self.errors.extend_from_slice(format!(":{line}").as_bytes());
        parts.iter().for_each(|part| self.errors.extend_from_slice(part));
    }

    fn read_line<H>(&mut self, line: &[u8], number: usize, vocabulary: &Vocabulary<'_, H>) {
        if line.is_empty() {
            return;
        }
        let mut words = line.split(|&byte| byte == b' ');
        let (Some(b"user"), Some(name)) = (words.next(), words.next()) else {
            return self.complain(number, &[b" should start with user keyword followed by the username. "]);
        };
        if has_spaces(name) {
            self.errors.push(b'\'');
            return self.complain(number, &[b": username '", name, b"' contains invalid characters. "]);
        }
        if self.users.contains_key(name) {
            let before: [&[u8]; 3] = [b"WARNING: Duplicate user '", name, b"' found on line "];
            self.errors.extend_from_slice(&before.concat());
            return self.errors.extend_from_slice(format!("{number}. ").as_bytes());
        }
        let Ok(modifiers) = join_selectors(words) else {
            return self.complain(number, &[b": Unmatched parenthesis in selector definition."]);
        };
        let mut rights = Rights::new(vocabulary.all_channels);
        let mut has_failed = false;
        for modifier in modifiers {
            let modifier = modifier.trim_ascii();
            match rights.apply(vocabulary, modifier) {
                Ok(()) => {}
                // A name that is not known is shown; anything else may be a secret.
                Err(error @ RuleError::Unknown) => {
                    let before = b": Error in applying operation '";
                    let text = error.text().as_bytes();
                    self.complain(number, &[before, modifier, b"': ", text, b". "]);
                }
                Err(error) if !has_failed => {
                    has_failed = true;
                    self.complain(number, &[b": ", error.text().as_bytes(), b". "]);
                }
                Err(_) => {}
            }
        }
        self.users.insert(name.into(), rights);
    }
}

/// The users of the configuration's `user` lines. The error is that of the first line that does not fit.
pub fn from_config<H>(config: &Config, vocabulary: &Vocabulary<'_, H>) -> Result<Users, String> {
    let mut users = Users::new();
    for (index, (name, rules)) in config.users.iter().enumerate() {
        let shown = String::from_utf8_lossy(name);
        let refuse = |at: &[u8], text: &str| {
            let at = String::from_utf8_lossy(at);
            let reason = format!("Error in user declaration '{at}': {text}");
            config.user_error(index, &reason).to_string()
        };
        if has_spaces(name) {
            return Err(refuse(name, "Spaces not allowed in ACL usernames"));
        }
        let modifiers = join_selectors(rules.iter().map(Vec::as_slice))
            .map_err(|at| refuse(&rules[at], "Unmatched parenthesis in acl selector"))?;
        let mut rights = Rights::new(vocabulary.all_channels);
        for modifier in modifiers {
            rights.apply(vocabulary, &modifier).map_err(|error| {
                // What does not parse may be a password.
                let at: &[u8] = if error == RuleError::Unknown { &modifier } else { name };
                refuse(at, error.text())
            })?;
        }
        if !rights.enabled {
            crate::notice!(
                "The user '{shown}' is disabled (there is no 'on' modifier in the user description). Make \
                 sure this is not a configuration error."
            );
        }
        users.insert(name.as_slice().into(), rights);
    }
    Ok(users)
}
