//! Selectors: a set of commands, with the keys and channels that these may touch.
//!
//! Checking a call costs one bit for the command; then, unless all keys are allowed, finding the keys and
//! matching each against the patterns in turn; and the same for channels.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap, HashSet};

use indexmap::{IndexMap, IndexSet};
use mantissa_commands::spec::{Categories, Channels, Databases, Flags, Info, KeyFlags};
use mantissa_commands::{Command, KeyPosition, KeyPositions, find_keys, glob, key_flags, parse};
use mantissa_protocol::Args;

use super::rules::Vocabulary;

/// A key may be read.
pub const READ: u8 = 1;
/// A key may be written.
pub const WRITE: u8 = 2;

/// Why a call is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Denial {
    /// The command.
    Command,
    /// The database that this argument names; the client's, or all, if it is the command's name.
    Database(usize),
    /// The key at this argument.
    Key(usize),
    /// The channel at this argument.
    Channel(usize),
}

/// A set of commands by [`Command::index`]. The last word is not 0, so that equal sets are equal values.
#[derive(Clone, Debug, Default, PartialEq)]
struct CommandSet(Vec<u64>);

impl CommandSet {
    fn has(&self, index: usize) -> bool {
        self.0.get(index / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
    }

    fn put(&mut self, index: usize, present: bool) {
        if self.0.len() <= index / 64 {
            self.0.resize(index / 64 + 1, 0);
        }
        let bit = 1 << (index % 64);
        if present {
            self.0[index / 64] |= bit;
        } else {
            self.0[index / 64] &= !bit;
        }
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }
}

/// A set of commands, keys and channels that its user may use.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selector {
    commands: CommandSet,
    /// All commands are allowed and none has been taken away since.
    all_commands: bool,
    /// The rules start from all commands instead of from none.
    starts_with_all: bool,
    /// First arguments that allow a command which is not allowed as such, by its index, in lower case.
    first_words: HashMap<usize, HashSet<Box<[u8]>>>,
    /// Command rules in the order in which they are shown, without their sign, and whether they allow.
    rules: IndexMap<Box<[u8]>, bool>,
    all_keys: bool,
    /// Key patterns, with what may be done.
    keys: IndexMap<Box<[u8]>, u8>,
    all_channels: bool,
    channels: IndexSet<Box<[u8]>>,
    /// The databases, if not all of them.
    databases: Option<BTreeSet<usize>>,
}

/// Changes, as modifiers ask for them.
impl Selector {
    /// A selector that allows nothing, or all channels and nothing else.
    pub fn new(all_channels: bool) -> Selector {
        Selector { all_channels, ..Selector::default() }
    }

    /// `allkeys`, `resetkeys`.
    pub fn set_all_keys(&mut self, all: bool) {
        self.all_keys = all;
        self.keys.clear();
    }

    /// `allchannels`, `resetchannels`.
    pub fn set_all_channels(&mut self, all: bool) {
        self.all_channels = all;
        self.channels.clear();
    }

    /// `allcommands`, `nocommands`.
    pub fn set_all_commands<H>(&mut self, vocabulary: &Vocabulary<'_, H>, all: bool) {
        vocabulary.every().for_each(|command| self.commands.put(command.index, all));
        (self.all_commands, self.starts_with_all) = (all, all);
        self.rules.clear();
        self.first_words.clear();
    }

    /// Adds a key pattern. Not all keys are allowed already.
    pub fn add_keys(&mut self, pattern: &[u8], permission: u8) {
        *self.keys.entry(pattern.into()).or_default() |= permission;
    }

    /// Adds a channel pattern. Not all channels are allowed already.
    pub fn add_channels(&mut self, pattern: &[u8]) {
        self.channels.insert(pattern.into());
    }

    /// `alldbs`, or the databases of `db=` or `resetdbs`.
    pub fn set_databases(&mut self, databases: Option<BTreeSet<usize>>) {
        self.databases = databases;
    }

    /// Allows or forbids a command with its subcommands. `rule` is what is shown of it.
    pub fn set_command<H>(&mut self, command: &Command<H>, rule: &[u8], allow: bool) {
        self.put(command, allow);
        self.note_rule(rule, allow);
    }

    /// Allows a command that has no subcommands with this first argument only.
    pub fn add_first_word<H>(&mut self, command: &Command<H>, word: &[u8], rule: &[u8]) {
        self.first_words.entry(command.index).or_default().insert(word.to_ascii_lowercase().into());
        self.note_rule(rule, true);
    }

    /// Allows or forbids the commands of a category. A command's subcommands follow it.
    pub fn set_category<H>(
        &mut self,
        vocabulary: &Vocabulary<'_, H>,
        category: (Categories, &str),
        allow: bool,
    ) {
        for command in vocabulary.top_level() {
            for command in std::iter::once(command).chain(&command.subcommands) {
                if command.info.categories().has(category.0) {
                    self.put(command, allow);
                }
            }
        }
        self.note_rule(format!("@{}", category.1).as_bytes(), allow);
    }

    fn put<H>(&mut self, command: &Command<H>, allow: bool) {
        for one in std::iter::once(command).chain(&command.subcommands) {
            self.commands.put(one.index, allow);
        }
        self.first_words.remove(&command.index);
        self.all_commands &= allow;
    }

    /// Puts a rule at the end. It takes the place of an earlier one for the same and of those for its parts.
    fn note_rule(&mut self, rule: &[u8], allow: bool) {
        let rule = rule.to_ascii_lowercase();
        if rule.contains(&b'|') {
            self.rules.shift_remove(rule.as_slice());
        } else {
            let is_part = |other: &[u8]| {
                other.strip_prefix(rule.as_slice()).is_some_and(|rest| matches!(rest, [] | [b'|', ..]))
            };
            self.rules.retain(|other, _| !is_part(other));
        }
        self.rules.insert(rule.into(), allow);
    }
}

/// What a selector allows.
impl Selector {
    /// Whether it allows everything.
    pub fn is_unrestricted(&self) -> bool {
        self.all_commands && self.all_keys && self.all_channels && self.databases.is_none()
    }

    /// Whether all keys are allowed, to read and to write.
    pub fn has_all_keys(&self) -> bool {
        self.all_keys
    }

    /// Whether all channels are allowed.
    pub fn has_all_channels(&self) -> bool {
        self.all_channels
    }

    /// The patterns of the channels that are allowed, unless all are.
    pub fn channels(&self) -> &IndexSet<Box<[u8]>> {
        &self.channels
    }

    /// Whether every key may be read.
    pub fn reads_all_keys(&self) -> bool {
        self.permits_all_keys(READ)
    }

    /// Whether this key may be read.
    pub fn reads_key(&self, key: &[u8]) -> bool {
        self.permits_key(READ, key)
    }

    /// Whether all of this may be done with every key.
    pub fn permits_all_keys(&self, needed: u8) -> bool {
        let of_all = self.keys.get(b"*".as_slice());
        self.all_keys || of_all.is_some_and(|permission| permission & needed == needed)
    }

    /// Whether all of this may be done with a key.
    pub fn permits_key(&self, needed: u8, key: &[u8]) -> bool {
        let mut patterns = self.keys.iter();
        self.all_keys
            || patterns
                .any(|(pattern, permission)| permission & needed == needed && glob::matches(pattern, key))
    }

    /// Whether a call is allowed.
    pub fn check(&self, request: &AclRequest<'_>) -> Result<(), Denial> {
        if !self.all_commands && !request.info.flags.has(Flags::NO_AUTH) && !self.allows_command(request) {
            return Err(Denial::Command);
        }
        if let Some(databases) = &self.databases
            && let Some(argument) = request.foreign_database(databases)
        {
            return Err(Denial::Database(argument));
        }
        if !self.all_keys
            && let Some(key) = request.keys().iter().find(|key| !self.allows_key(request, key))
        {
            return Err(Denial::Key(key.index));
        }
        if !self.all_channels
            && let Some((range, is_pattern)) = channel_arguments(request.info, request.args)
        {
            for index in range {
                if !allows_channel(self.channels.iter(), request.args.at(index), is_pattern) {
                    return Err(Denial::Channel(index));
                }
            }
        }
        Ok(())
    }

    fn allows_command(&self, request: &AclRequest<'_>) -> bool {
        let index = request.index;
        if request.carries.is_some_and(|carried| !self.commands.has(carried)) {
            return false;
        }
        self.commands.has(index)
            || self.first_words.get(&index).is_some_and(|words| {
                request.args.get(1).is_some_and(|word| words.contains(word.to_ascii_lowercase().as_slice()))
            })
    }

    fn allows_key(&self, request: &AclRequest<'_>, key: &KeyPosition) -> bool {
        let (needed, key) = (request.permission(key), request.args.at(key.index));
        self.keys
            .iter()
            .any(|(pattern, permission)| permission & needed == needed && glob::matches(pattern, key))
    }
}

/// A selector as text.
impl Selector {
    /// The key patterns, separated by spaces.
    pub fn describe_keys(&self) -> Vec<u8> {
        if self.all_keys {
            return b"~*".to_vec();
        }
        let sign = |permission: u8| match permission {
            READ => b"%R~".as_slice(),
            WRITE => b"%W~",
            _ => b"~",
        };
        let words = self.keys.iter().map(|(pattern, permission)| [sign(*permission), pattern].concat());
        words.collect::<Vec<_>>().join(&b' ')
    }

    /// The channel patterns, separated by spaces.
    pub fn describe_channels(&self) -> Vec<u8> {
        if self.all_channels {
            return b"&*".to_vec();
        }
        self.channels.iter().map(|pattern| [b"&", &pattern[..]].concat()).collect::<Vec<_>>().join(&b' ')
    }

    /// The command rules, separated by spaces.
    pub fn describe_commands(&self) -> Vec<u8> {
        let mut text = if self.starts_with_all { b"+@all".to_vec() } else { b"-@all".to_vec() };
        for (rule, allow) in &self.rules {
            text.extend_from_slice(if *allow { b" +" } else { b" -" });
            text.extend_from_slice(rule);
        }
        text
    }

    /// The databases as a rule, which is empty if there are none; nothing if all are allowed.
    pub fn describe_databases(&self) -> Option<Vec<u8>> {
        let numbers: Vec<String> = self.databases.as_ref()?.iter().map(usize::to_string).collect();
        Some(if numbers.is_empty() { Vec::new() } else { format!("db={}", numbers.join(",")).into_bytes() })
    }

    /// All of it, as it stands in a file.
    pub fn describe(&self) -> Vec<u8> {
        let mut words = Vec::new();
        let mut add = |word: Vec<u8>| {
            if !word.is_empty() {
                words.push(word);
            }
        };
        add(self.describe_keys());
        if !self.all_channels {
            add(b"resetchannels".to_vec());
        }
        add(self.describe_channels());
        if let Some(databases) = self.describe_databases() {
            add(if databases.is_empty() { b"resetdbs".to_vec() } else { databases });
        }
        add(self.describe_commands());
        words.join(&b' ')
    }
}

/// A command with its arguments that is to be checked. Its keys are found once, when a selector first asks
/// for them.
pub struct AclRequest<'a> {
    info: &'static Info,
    /// [`Command::index`].
    index: usize,
    /// [`Command::carries`].
    carries: Option<usize>,
    args: Args<'a>,
    /// The client's database.
    database: usize,
    keys: OnceCell<KeyPositions>,
}

impl<'a> AclRequest<'a> {
    /// The request to run this command in a database.
    pub fn new<H>(command: &Command<H>, args: Args<'a>, database: usize) -> AclRequest<'a> {
        AclRequest {
            info: command.info,
            index: command.index,
            carries: command.carries,
            args,
            database,
            keys: OnceCell::new(),
        }
    }

    /// Its keys. Where the arguments are too malformed to find any, the command finds none either.
    fn keys(&self) -> &KeyPositions {
        self.keys.get_or_init(|| find_keys(self.info, self.args).unwrap_or_default())
    }

    /// The argument that names a database which is not among these; 0 for the client's, or for all. What does
    /// not parse is left to the command.
    fn foreign_database(&self, allowed: &BTreeSet<usize>) -> Option<usize> {
        let is_foreign = |&argument: &usize| {
            let number = self.args.get(argument).and_then(|text| parse::integer(text).ok());
            number
                .is_some_and(|number| usize::try_from(number).is_ok_and(|number| !allowed.contains(&number)))
        };
        let named = match self.info.databases {
            Databases::All => return Some(0),
            Databases::Arguments => return (1..self.args.len()).find(is_foreign),
            Databases::Current => None,
            Databases::CurrentAndArgument(argument) => Some(argument).filter(is_foreign),
            Databases::CurrentAndOption(word) => {
                let words = (1..self.args.len()).filter(|&argument| parse::is(self.args.at(argument), word));
                words.map(|argument| argument + 1).find(is_foreign)
            }
        };
        let is_outside = || self.info.uses_data() && !allowed.contains(&self.database);
        named.or_else(|| is_outside().then_some(0))
    }

    /// What the command must be permitted to do with a key.
    fn permission(&self, key: &KeyPosition) -> u8 {
        const CHANGES: KeyFlags = KeyFlags::INSERT.or(KeyFlags::DELETE).or(KeyFlags::UPDATE);
        let flags = key_flags(self.info, key, self.args);
        let read = if flags.has(KeyFlags::ACCESS) { READ } else { 0 };
        let write = if flags.0 & CHANGES.0 != 0 { WRITE } else { 0 };
        read | write
    }
}

/// The arguments that name channels which a call wants to use, and whether they are patterns.
fn channel_arguments(info: &Info, args: Args<'_>) -> Option<(std::ops::Range<usize>, bool)> {
    match info.channels {
        Channels::None => None,
        Channels::First => Some((1..2, false)),
        Channels::All => Some((1..args.len(), false)),
        Channels::Patterns => Some((1..args.len(), true)),
    }
}

/// Whether patterns allow a channel, or a pattern of channels: that must be among them as it is.
pub fn allows_channel<'p>(
    mut patterns: impl Iterator<Item = &'p Box<[u8]>>,
    channel: &[u8],
    is_pattern: bool,
) -> bool {
    patterns.any(|pattern| match is_pattern {
        true => **pattern == *channel,
        false => glob::matches(pattern, channel),
    })
}
