//! The language of rules: what each modifier of ACL SETUSER does to a user's rights.

use std::collections::BTreeSet;

use indexmap::IndexMap;
use mantissa_commands::spec::Categories;
use mantissa_commands::{Command, Registry, parse};

use super::password::Password;
use super::selector::{READ, Selector, WRITE};
use super::user::Rights;
use mantissa_config::split_words;

/// Why a modifier is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// There is no such command or category.
    Unknown,
    /// It is no modifier.
    Syntax,
    /// A key pattern where all keys are allowed.
    AllKeys,
    /// A channel pattern where all channels are allowed.
    AllChannels,
    /// The user does not have the password that is to be removed.
    NoSuchPassword,
    /// Not a digest of a password.
    BadDigest,
    /// A first argument of a subcommand.
    FirstWordOfSubcommand,
    /// A number that no database can have.
    DatabaseRange,
}

impl RuleError {
    /// The text that Redis gives.
    pub fn text(self) -> &'static str {
        match self {
            RuleError::Unknown => "Unknown command or category name in ACL",
            RuleError::Syntax => "Syntax error",
            RuleError::AllKeys => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not \
                 have any effect. Try 'resetkeys' to start with an empty list of patterns"
            }
            RuleError::AllChannels => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not \
                 have any effect. Try 'resetchannels' to start with an empty list of channels"
            }
            RuleError::NoSuchPassword => "The password you are trying to remove from the user does not exist",
            RuleError::BadDigest => {
                "The password hash must be exactly 64 characters and contain only lowercase hexadecimal \
                 characters"
            }
            RuleError::FirstWordOfSubcommand => "Allowing first-arg of a subcommand is not supported",
            RuleError::DatabaseRange => "The provided database ID is out of range",
        }
    }
}

/// The names that rules may use: those under which commands are registered, whatever they have been renamed
/// to.
pub struct Vocabulary<'r, H> {
    by_name: IndexMap<&'static str, &'r Command<H>>,
    /// New users and selectors may use all channels.
    pub all_channels: bool,
}

impl<'r, H> Vocabulary<'r, H> {
    /// The names of these commands. `all_channels` is the setting `acl-pubsub-default`.
    pub fn new(registry: &'r Registry<H>, all_channels: bool) -> Vocabulary<'r, H> {
        let by_name = registry.registered().map(|command| (command.info.name, command)).collect();
        Vocabulary { by_name, all_channels }
    }

    /// All commands that are no subcommands.
    pub fn top_level(&self) -> impl Iterator<Item = &'r Command<H>> {
        self.by_name.values().copied()
    }

    /// All commands and subcommands.
    pub fn every(&self) -> impl Iterator<Item = &'r Command<H>> {
        self.top_level().flat_map(|command| std::iter::once(command).chain(&command.subcommands))
    }

    /// The command of a name such as `get` or `client|list`, whatever its case.
    pub fn command(&self, name: &[u8]) -> Option<&'r Command<H>> {
        let name = std::str::from_utf8(name).ok()?.to_ascii_lowercase();
        match name.split_once('|') {
            None => self.by_name.get(name.as_str()).copied(),
            Some((container, name)) => self.by_name.get(container)?.subcommand(name.as_bytes()),
        }
    }
}

/// Puts the words of selectors, from one that begins with `(` to one that ends with `)`, together into one.
/// The error is the place of the word that begins a selector without an end.
pub fn join_selectors<'w>(words: impl IntoIterator<Item = &'w [u8]>) -> Result<Vec<Vec<u8>>, usize> {
    let mut joined: Vec<Vec<u8>> = Vec::new();
    let mut open: Option<(usize, Vec<u8>)> = None;
    for (index, word) in words.into_iter().enumerate() {
        match &mut open {
            Some((_, selector)) => {
                selector.push(b' ');
                selector.extend_from_slice(word);
            }
            None if word.starts_with(b"(") && !word.ends_with(b")") => open = Some((index, word.to_vec())),
            None => joined.push(word.to_vec()),
        }
        if word.ends_with(b")")
            && let Some((_, selector)) = open.take()
        {
            joined.push(selector);
        }
    }
    match open {
        Some((index, _)) => Err(index),
        None => Ok(joined),
    }
}

/// Whether a text cannot be a part of a rule or a name: it has spaces or NULs.
pub fn has_spaces(text: &[u8]) -> bool {
    text.iter().any(|&byte| matches!(byte, b' ' | b'\t'..=b'\r' | 0))
}

impl Rights {
    /// Does what a modifier asks for.
    pub fn apply<H>(&mut self, vocabulary: &Vocabulary<'_, H>, modifier: &[u8]) -> Result<(), RuleError> {
        let is = |word: &str| parse::is(modifier, word);
        match modifier {
            b"" => {}
            _ if is("on") => self.enabled = true,
            _ if is("off") => self.enabled = false,
            _ if is("nopass") => {
                self.no_password = true;
                self.passwords.clear();
            }
            _ if is("resetpass") => {
                self.no_password = false;
                self.passwords.clear();
            }
            _ if is("sanitize-payload") => self.sanitizes = true,
            _ if is("skip-sanitize-payload") => self.sanitizes = false,
            _ if is("clearselectors") => self.selectors.clear(),
            _ if is("reset") => *self = Rights::new(vocabulary.all_channels),
            [b'>', text @ ..] => self.add_password(Password::of(text)),
            [b'<', text @ ..] => self.remove_password(Password::of(text))?,
            [b'#', digest @ ..] => {
                self.add_password(Password::from_digest(digest).ok_or(RuleError::BadDigest)?);
            }
            [b'!', digest @ ..] => {
                self.remove_password(Password::from_digest(digest).ok_or(RuleError::BadDigest)?)?;
            }
            [b'(', rules @ .., b')'] => self.selectors.push(parse_selector(vocabulary, rules)?),
            _ => apply_to_selector(&mut self.root, vocabulary, modifier)?,
        }
        Ok(())
    }

    fn add_password(&mut self, password: Password) {
        self.passwords.insert(password);
        self.no_password = false;
    }

    fn remove_password(&mut self, password: Password) -> Result<(), RuleError> {
        match self.passwords.shift_remove(&password) {
            true => Ok(()),
            false => Err(RuleError::NoSuchPassword),
        }
    }
}

/// The selector of these rules.
fn parse_selector<H>(vocabulary: &Vocabulary<'_, H>, rules: &[u8]) -> Result<Selector, RuleError> {
    let mut selector = Selector::new(vocabulary.all_channels);
    for rule in split_words(rules).unwrap_or_default() {
        apply_to_selector(&mut selector, vocabulary, &rule)?;
    }
    Ok(selector)
}

fn apply_to_selector<H>(
    selector: &mut Selector,
    vocabulary: &Vocabulary<'_, H>,
    rule: &[u8],
) -> Result<(), RuleError> {
    let is = |word: &str| parse::is(rule, word);
    match rule {
        _ if is("allkeys") || is("~*") => selector.set_all_keys(true),
        _ if is("resetkeys") => selector.set_all_keys(false),
        _ if is("allchannels") || is("&*") => selector.set_all_channels(true),
        _ if is("resetchannels") => selector.set_all_channels(false),
        _ if is("allcommands") || is("+@all") => selector.set_all_commands(vocabulary, true),
        _ if is("nocommands") || is("-@all") => selector.set_all_commands(vocabulary, false),
        // The rules of Valkey for databases.
        _ if is("alldbs") => selector.set_databases(None),
        _ if is("resetdbs") => selector.set_databases(Some(BTreeSet::new())),
        [b'd' | b'D', b'b' | b'B', b'=', numbers @ ..] => {
            selector.set_databases(Some(parse_databases(numbers)?));
        }
        [b'~' | b'%', ..] if selector.has_all_keys() => return Err(RuleError::AllKeys),
        [b'&', ..] if selector.has_all_channels() => return Err(RuleError::AllChannels),
        [b'~' | b'%' | b'&', ..] if has_spaces(rule) => return Err(RuleError::Syntax),
        [b'~', pattern @ ..] => selector.add_keys(pattern, READ | WRITE),
        [b'%', rest @ ..] => {
            let (pattern, permission) = parse_permission(rest)?;
            selector.add_keys(pattern, permission);
        }
        [b'&', pattern @ ..] => selector.add_channels(pattern),
        [sign @ (b'+' | b'-'), b'@', name @ ..] => {
            let category = Categories::ALL.iter().find(|(_, other)| parse::is(name, other));
            let category = category.ok_or(RuleError::Unknown)?;
            selector.set_category(vocabulary, *category, *sign == b'+');
        }
        [b'+', name @ ..] => allow_command(selector, vocabulary, name)?,
        [b'-', name @ ..] => {
            let command = vocabulary.command(name).ok_or(RuleError::Unknown)?;
            selector.set_command(command, command.registered_name().as_bytes(), false);
        }
        _ => return Err(RuleError::Syntax),
    }
    Ok(())
}

/// The numbers of databases, separated by commas.
fn parse_databases(numbers: &[u8]) -> Result<BTreeSet<usize>, RuleError> {
    let parse = |number: &[u8]| {
        let digits = number.strip_prefix(b"-").unwrap_or(number);
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return Err(RuleError::Syntax);
        }
        let number = std::str::from_utf8(number).ok().and_then(|text| text.parse::<i32>().ok());
        number.and_then(|number| usize::try_from(number).ok()).ok_or(RuleError::DatabaseRange)
    };
    numbers.split(|&byte| byte == b',').map(parse).collect()
}

/// The pattern and the permission of a key rule after its `%`: `R`, `W` or both, then `~` and the pattern.
fn parse_permission(rule: &[u8]) -> Result<(&[u8], u8), RuleError> {
    let end = rule.iter().position(|&byte| byte == b'~').unwrap_or(rule.len());
    let mut permission = 0;
    for letter in &rule[..end] {
        let bit = match letter {
            b'R' | b'r' => READ,
            b'W' | b'w' => WRITE,
            _ => return Err(RuleError::Syntax),
        };
        if permission & bit != 0 {
            return Err(RuleError::Syntax);
        }
        permission |= bit;
    }
    match permission {
        0 => Err(RuleError::Syntax),
        _ => Ok((rule.get(end + 1..).unwrap_or_default(), permission)),
    }
}

/// Allows a command, a subcommand, or a command with one first argument.
fn allow_command<H>(
    selector: &mut Selector,
    vocabulary: &Vocabulary<'_, H>,
    name: &[u8],
) -> Result<(), RuleError> {
    let Some(bar) = name.iter().rposition(|&byte| byte == b'|') else {
        let command = vocabulary.command(name).ok_or(RuleError::Unknown)?;
        selector.set_command(command, command.registered_name().as_bytes(), true);
        return Ok(());
    };
    let (container, word) = (&name[..bar], &name[bar + 1..]);
    let command = vocabulary.command(container).ok_or(RuleError::Unknown)?;
    if container.contains(&b'|') {
        return Err(RuleError::FirstWordOfSubcommand);
    }
    // A word with spaces would be several rules when it is read back from a file.
    if word.is_empty() || has_spaces(word) {
        return Err(RuleError::Syntax);
    }
    if command.subcommands.is_empty() {
        selector.add_first_word(command, word, name);
    } else {
        selector.set_command(command.subcommand(word).ok_or(RuleError::Unknown)?, name, true);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rights made by these modifiers.
    fn rights<H>(vocabulary: &Vocabulary<'_, H>, modifiers: &[u8]) -> Rights {
        let mut rights = Rights::new(false);
        let words = modifiers.split(|&byte| byte == b' ');
        for modifier in join_selectors(words).expect("every selector has an end") {
            rights.apply(vocabulary, &modifier).expect("the modifiers are good");
        }
        rights
    }

    #[test]
    fn a_description_makes_the_same_rights() {
        let registry = crate::registry::build(&[]).expect("no command is renamed");
        let vocabulary = Vocabulary::new(registry, false);
        for modifiers in [
            "",
            "on nopass +@all ~* &*",
            "on >a >b skip-sanitize-payload ~a* %R~b %W~c &x &y +get -set +@hash -hdel",
            "+@all -config +config|get +select|0 +select|1 -@admin",
            "~a (+get ~b) (%R~c +@all -flushall &z) +@read",
            "+get|x ~ & (+@all allkeys allchannels)",
            "+@all ~* &* db=0,15 (+get ~a resetdbs) (+set ~b db=7,7,3) (+del ~c db=1 alldbs)",
        ] {
            let made = rights(&vocabulary, modifiers.as_bytes());
            let again = rights(&vocabulary, &made.describe());
            assert_eq!(again.describe(), made.describe());
            assert!(again == made, "{modifiers}");
        }
    }

    #[test]
    fn selectors_are_put_together() {
        let join = |words: &[&str]| join_selectors(words.iter().map(|word| word.as_bytes()));
        assert_eq!(join(&["a", "(b", "c)", "(d)"]), Ok(vec![b"a".into(), b"(b c)".into(), b"(d)".into()]));
        assert_eq!(join(&["a", "(b", "(c"]), Err(1));
        assert_eq!(join(&[")", ""]), Ok(vec![b")".to_vec(), Vec::new()]));
    }
}
