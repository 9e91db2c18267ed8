//! What a server has beside its keys: libraries of functions and ACL users.

use std::collections::BTreeMap;
use std::io;

use mantissa_protocol::Value;

use super::options::ImportOptions;
use super::sink::Tally;
use crate::connection::Connection;
use crate::output::tell;
use crate::target::Target;

/// The user that every server has.
const DEFAULT_USER: &str = "default";

/// What a server has beside its keys.
#[derive(Default)]
pub(crate) struct Beside {
    /// The code of each library of functions by its name.
    libraries: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The rules of each user by its name, as ACL LIST has them.
    users: BTreeMap<String, String>,
}

impl Beside {
    /// Asks a server. One that is too old has no functions and no users; what it does not let the user see is
    /// told and left out.
    pub(crate) fn of(target: &Target) -> io::Result<Beside> {
        let mut connection = target.open()?;
        let mut beside = Beside::default();
        for library in asked(&mut connection, &["FUNCTION", "LIST", "WITHCODE"], "functions")? {
            if let (Some(name), Some(code)) =
                (field(&library, "library_name"), field(&library, "library_code"))
            {
                beside.libraries.insert(name.to_vec(), code.to_vec());
            }
        }
        for line in asked(&mut connection, &["ACL", "LIST"], "ACL users")? {
            let line = String::from_utf8_lossy(line.as_bytes().unwrap_or_default()).into_owned();
            if let Some((name, rules)) = line.strip_prefix("user ").and_then(|rest| rest.split_once(' ')) {
                beside.users.insert(name.to_owned(), rules.to_owned());
            }
        }
        Ok(beside)
    }

    /// Libraries that there are.
    pub(crate) fn library_count(&self) -> usize {
        self.libraries.len()
    }

    /// Users that there are but for the one that every server has.
    pub(crate) fn user_count(&self) -> usize {
        self.users.keys().filter(|name| *name != DEFAULT_USER).count()
    }

    /// Stores what the options ask for, and says what is left out.
    pub(crate) fn copy(&self, options: &ImportOptions, target: &Target) -> io::Result<Tally> {
        let mut connection = target.open()?;
        let mut tally = Tally::default();
        if options.copies_all() {
            for code in self.libraries.values() {
                load_library(&mut connection, code, options.replace, &mut tally)?;
            }
        } else if self.library_count() > 0 {
            let what = counted(self.library_count() as u64, LIBRARY);
            eprintln!("Not copied: {what}, as only a part of the keys was asked for.");
        }
        if options.acl_users {
            self.copy_users(&mut connection, options.replace, &mut tally)?;
        } else if self.user_count() > 0 {
            let what = counted(self.user_count() as u64, USER);
            eprintln!("Not copied: {what} (see --acl-users).");
        }
        Ok(tally)
    }

    fn copy_users(&self, connection: &mut Connection, replace: bool, tally: &mut Tally) -> io::Result<()> {
        let there: Vec<Value> = asked(connection, &["ACL", "USERS"], "ACL users")?;
        for (name, rules) in &self.users {
            let is_there = there.iter().any(|one| one.as_bytes() == Some(name.as_bytes()));
            if is_there && !replace {
                tally.users_existing += u64::from(name != DEFAULT_USER);
                continue;
            }
            let mut command = ["ACL", "SETUSER", name, "reset"].map(str::to_owned).to_vec();
            command.extend(rule_words(rules));
            match connection.ask(&command)?.as_error() {
                None => tally.users += 1,
                Some(error) => tally.fail(name.as_bytes(), &String::from_utf8_lossy(error)),
            }
        }
        Ok(())
    }

    /// Compares what is copied by these options with what another server has; whether all is the same.
    pub(crate) fn verify(&self, options: &ImportOptions, other: &Beside) -> io::Result<bool> {
        let mut same = true;
        if options.copies_all() && self.library_count() > 0 {
            same &= verify_each(&self.libraries, &other.libraries, LIBRARY)?;
        }
        if options.acl_users {
            let named = |beside: &Beside| -> BTreeMap<String, String> {
                let all = beside.users.clone().into_iter();
                all.filter(|(name, _)| options.replace || name != DEFAULT_USER).collect()
            };
            same &= verify_each(&named(self), &named(other), USER)?;
        }
        Ok(same)
    }
}

/// A noun: for one, for several.
type Noun = (&'static str, &'static str);
pub(crate) const LIBRARY: Noun = ("library of functions", "libraries of functions");
pub(crate) const USER: Noun = ("ACL user", "ACL users");

/// A number of things.
pub(crate) fn counted(count: u64, noun: Noun) -> String {
    format!("{count} {}", if count == 1 { noun.0 } else { noun.1 })
}

/// Loads a library of functions; one that is there already is counted.
pub(crate) fn load_library(
    connection: &mut Connection,
    code: &[u8],
    replace: bool,
    tally: &mut Tally,
) -> io::Result<()> {
    let mut command = vec![&b"FUNCTION"[..], b"LOAD"];
    if replace {
        command.push(b"REPLACE");
    }
    command.push(code);
    match connection.ask(&command)?.as_error() {
        None => tally.libraries += 1,
        Some(error) if error.ends_with(b"already exists") => tally.libraries_existing += 1,
        Some(error) => tally.fail(b"a library of functions", &String::from_utf8_lossy(error)),
    }
    Ok(())
}

/// Says how many are the same on both sides; whether all are.
fn verify_each<K: Ord, V: PartialEq>(
    ours: &BTreeMap<K, V>,
    theirs: &BTreeMap<K, V>,
    noun: Noun,
) -> io::Result<bool> {
    let (mut same, mut missing, mut different) = (0, 0, 0);
    for (name, value) in ours {
        match theirs.get(name) {
            None => missing += 1,
            Some(other) if other == value => same += 1,
            Some(_) => different += 1,
        }
    }
    let be = if same == 1 { "is" } else { "are" };
    let mut line = format!("verified: {} {be} the same", counted(same, noun));
    for (count, one, several) in [(missing, "is missing", "are missing"), (different, "differs", "differ")] {
        if count > 0 {
            line += &format!(", {count} {}", if count == 1 { one } else { several });
        }
    }
    tell!("{line}")?;
    Ok(missing + different == 0)
}

/// The rules of a user as arguments: a selector in parentheses is one.
fn rule_words(rules: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in rules.split(' ') {
        match words.last_mut() {
            Some(last) if last.starts_with('(') && !last.ends_with(')') => {
                last.push(' ');
                last.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
}

/// The elements of a reply; none if the server does not know the command or refuses it, which is told.
fn asked(connection: &mut Connection, command: &[&str], what: &str) -> io::Result<Vec<Value>> {
    let reply = connection.ask(command)?;
    if let Some(error) = reply.as_error() {
        let error = String::from_utf8_lossy(error);
        if !error.to_ascii_lowercase().contains("unknown") {
            eprintln!("Not copied: {what}, which the server does not show: {error}");
        }
        return Ok(Vec::new());
    }
    Ok(match reply {
        Value::Array(elements) | Value::Set(elements) => elements,
        _ => Vec::new(),
    })
}

/// A field of a map, which RESP2 sends as an array.
fn field<'v>(entry: &'v Value, name: &str) -> Option<&'v [u8]> {
    match entry {
        Value::Map(pairs) => {
            pairs.iter().find(|(key, _)| key.as_bytes() == Some(name.as_bytes()))?.1.as_bytes()
        }
        entry => {
            let pairs = entry.as_elements()?.chunks_exact(2);
            pairs.into_iter().find(|pair| pair[0].as_bytes() == Some(name.as_bytes()))?[1].as_bytes()
        }
    }
}

/// Says what an export leaves out: users always, functions where the file has no place for them or only a
/// part was asked for.
pub(crate) fn tell_what_export_drops(source: &Target, drops_functions: bool) -> io::Result<()> {
    let beside = Beside::of(source)?;
    let mut left_out = Vec::new();
    if drops_functions && beside.library_count() > 0 {
        left_out.push(counted(beside.library_count() as u64, LIBRARY));
    }
    if beside.user_count() > 0 {
        left_out.push(counted(beside.user_count() as u64, USER));
    }
    if !left_out.is_empty() {
        eprintln!("Not in the file: {}.", left_out.join(", "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_one_word() {
        let words = rule_words("on #ab ~* (~x +get) (+set %R~y) +@all");
        assert_eq!(words, ["on", "#ab", "~*", "(~x +get)", "(+set %R~y)", "+@all"]);
    }
}
