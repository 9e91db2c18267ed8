//! The command table: every registered command, found by name.

use std::borrow::Cow;

use hashbrown::HashTable;
use mantissa_protocol::Args;

use crate::DataHandler;
use crate::error::Error;
use crate::spec::{BeginSearch, Categories, Info, KeySpec, Spec, Traits};

/// A registered command or subcommand; `H` is the server's type of handlers.
#[derive(Debug)]
pub struct Command<H> {
    /// Place in the table, for counters beside it. Subcommands have numbers of their own.
    pub index: usize,
    /// The name that clients use, `get` or `client|list`; after rename-command the new one.
    pub name: String,
    /// Everything but the code.
    pub info: &'static Info,
    /// The code; `None` for a container that only has subcommands.
    pub handler: Option<H>,
    /// Subcommands.
    pub subcommands: Vec<Command<H>>,
    /// The index of the command that it runs, to which its user needs the right too.
    pub carries: Option<usize>,
    /// Whether its only key is its first argument.
    pub has_one_key: bool,
}

impl<H> Command<H> {
    /// The name under which it is registered, whatever it has been renamed to: `get` or `client|list`.
    pub fn registered_name(&self) -> &str {
        if self.name.contains('|') { &self.name } else { self.info.name }
    }

    /// The same as errors show it: redis-server has the commands of vector sets in capitals.
    pub fn shown_name(&self) -> Cow<'_, str> {
        let name = self.registered_name();
        let is_of_vectors = self.info.own_categories.has(Categories::VECTORSET);
        if is_of_vectors { name.to_ascii_uppercase().into() } else { name.into() }
    }

    /// The subcommand of this name, whatever its case.
    pub fn subcommand(&self, name: &[u8]) -> Option<&Command<H>> {
        self.subcommands.iter().find(|command| command.info.name.as_bytes().eq_ignore_ascii_case(name))
    }
}

/// The argument at which a command begins that MANTISSA.PACKED carries.
pub const CARRIED_AT: usize = 2;
/// Most bytes of a client's words that an error shows.
const SHOWN_BYTES_MAX: usize = 128;

/// All commands.
#[derive(Debug)]
pub struct Registry<H> {
    commands: Vec<Command<H>>,
    by_name: HashTable<usize>,
    next_index: usize,
    /// For each command the one that MANTISSA.PACKED stands for when it carries it.
    packed: Vec<Option<Command<H>>>,
}

impl<H> Default for Registry<H> {
    fn default() -> Self {
        Registry { commands: Vec::new(), by_name: HashTable::new(), next_index: 0, packed: Vec::new() }
    }
}

/// Hashes a name without regard to case, eight bytes at a time.
#[inline]
fn name_hash(name: &[u8]) -> u64 {
    const MIX: u64 = 0x9E37_79B9_7F4A_7C15;
    const CASE: u64 = 0x2020_2020_2020_2020;
    let mut hash = name.len() as u64;
    let mut chunks = name.chunks_exact(8);
    for chunk in &mut chunks {
        let word = u64::from_le_bytes(chunk.try_into().unwrap_or_default()) | CASE;
        hash = (hash ^ word).wrapping_mul(MIX).rotate_left(29);
    }
    let mut last = [0; 8];
    last[..chunks.remainder().len()].copy_from_slice(chunks.remainder());
    let mixed = (hash ^ (u64::from_le_bytes(last) | CASE)).wrapping_mul(MIX);
    mixed ^ (mixed >> 32)
}

impl<H> Registry<H> {
    /// Adds a family's table. `wrap` turns its handlers into the server's.
    pub fn add<X>(&mut self, table: &'static [Spec<X>], wrap: impl Fn(&'static X) -> H + Copy) {
        for spec in table {
            let command = self.build(spec, None, wrap);
            self.push(command);
        }
    }

    /// Renames a command; an empty new name removes it. False if there is no such command or the new name is
    /// taken.
    pub fn rename(&mut self, old: &str, new: &str) -> bool {
        let Some(at) = self.position(old.as_bytes()) else { return false };
        if !new.is_empty() && self.position(new.as_bytes()).is_some() {
            return false;
        }
        if let Ok(entry) = self.by_name.find_entry(name_hash(old.as_bytes()), |&other| other == at) {
            entry.remove();
        }
        if !new.is_empty() {
            self.commands[at].name = new.to_ascii_lowercase();
            self.index_name(at);
        }
        true
    }

    /// The command of this name, whatever its case.
    #[inline]
    pub fn lookup(&self, name: &[u8]) -> Option<&Command<H>> {
        self.position(name).map(|at| &self.commands[at])
    }

    /// The command or subcommand that a request calls, or the error to reply. A container that is called
    /// without a subcommand is refused by its arity.
    #[inline]
    pub fn resolve(&self, args: Args<'_>) -> Result<&Command<H>, Error> {
        let Some(command) = self.lookup(args.at(0)) else { return Err(unknown_command(args)) };
        let Some(name) = args.get(1).filter(|_| !command.subcommands.is_empty()) else { return Ok(command) };
        match command.subcommand(name) {
            Some(subcommand) if self.is_reachable(subcommand) => Ok(subcommand),
            None if command.info.traits.has(Traits::CARRIES) => self.carried(command, args),
            _ => {
                let after = format!("'. Try {} HELP.", command.name.to_ascii_uppercase());
                let shown = &name[..name.len().min(SHOWN_BYTES_MAX)];
                Err(Error::quoting("ERR unknown subcommand '", shown, &after))
            }
        }
    }

    /// Whether a subcommand can be called: not where renaming has hidden the command that it runs.
    #[inline]
    fn is_reachable(&self, subcommand: &Command<H>) -> bool {
        subcommand.carries.is_none() || self.position(subcommand.info.name.as_bytes()).is_some()
    }

    /// What a request calls whose first word is `container`, which carries the command that begins with
    /// argument 2.
    #[cold]
    fn carried<'a>(&'a self, container: &'a Command<H>, args: Args<'_>) -> Result<&'a Command<H>, Error> {
        let Some(name) = args.get(CARRIED_AT) else { return Ok(container) };
        let Some(at) = self.position(name) else { return Err(unknown_command(args.from(CARRIED_AT))) };
        match self.packed.get(at) {
            Some(Some(command)) => Ok(command),
            _ => {
                let shown = &name[..name.len().min(SHOWN_BYTES_MAX)];
                Err(Error::quoting("ERR the reply of '", shown, "' cannot be packed"))
            }
        }
    }

    /// Makes the commands that carry others, once all are added. `wrap` turns handlers into the server's.
    pub fn add_carriers(&mut self, wrap: impl Fn(&'static DataHandler) -> H) {
        let mut commands = self.commands.iter();
        let Some(packing) = commands.find(|command| command.info.traits.has(Traits::CARRIES)) else { return };
        let (index, name) = (packing.index, packing.name.clone());
        let packed = self.commands.iter().map(|command| {
            let handler = command.info.packed.as_ref().map(&wrap)?;
            let info: &Info = Box::leak(Box::new(carried_info(command.info)));
            Some(Command {
                index,
                name: format!("{name}|{}", command.name),
                info,
                handler: Some(handler),
                subcommands: Vec::new(),
                carries: Some(command.index),
                has_one_key: info.has_one_key(),
            })
        });
        self.packed = packed.collect();
        let indexes: Vec<(&str, usize)> =
            self.commands.iter().map(|command| (command.info.name, command.index)).collect();
        for subcommand in self.commands.iter_mut().flat_map(|command| &mut command.subcommands) {
            if subcommand.info.traits.has(Traits::CARRIES) {
                let carried = indexes.iter().find(|(name, _)| *name == subcommand.info.name);
                subcommand.carries = carried.map(|(_, index)| *index);
            }
        }
    }

    /// All commands that can be called, in the order of registration.
    pub fn iter(&self) -> impl Iterator<Item = &Command<H>> {
        let reachable = |command: &&Command<H>| self.lookup(command.name.as_bytes()).is_some();
        self.commands.iter().filter(reachable)
    }

    /// All commands, also those that renaming has removed, by the names under which they are registered.
    pub fn registered(&self) -> impl Iterator<Item = &Command<H>> {
        self.commands.iter()
    }

    /// The command or subcommand of this index.
    pub fn at_index(&self, index: usize) -> Option<&Command<H>> {
        // Subcommands have the numbers after that of their container.
        let after = self.commands.partition_point(|command| command.index <= index);
        let command = &self.commands[after.checked_sub(1)?];
        match index - command.index {
            0 => Some(command),
            number => command.subcommands.get(number - 1),
        }
    }

    /// One more than the highest [`Command::index`].
    pub fn index_count(&self) -> usize {
        self.next_index
    }

    fn build<X>(
        &mut self,
        spec: &'static Spec<X>,
        parent: Option<&str>,
        wrap: impl Fn(&'static X) -> H + Copy,
    ) -> Command<H> {
        let index = self.next_index;
        self.next_index += 1;
        let name = match parent {
            Some(parent) => format!("{parent}|{}", spec.info.name),
            None => spec.info.name.to_owned(),
        };
        let subcommands = spec.subcommands.iter().map(|sub| self.build(sub, Some(&name), wrap)).collect();
        Command {
            index,
            name,
            info: &spec.info,
            handler: spec.handler.as_ref().map(wrap),
            subcommands,
            carries: None,
            has_one_key: spec.info.has_one_key(),
        }
    }

    fn push(&mut self, command: Command<H>) {
        debug_assert!(
            self.position(command.name.as_bytes()).is_none(),
            "{} is registered twice",
            command.name
        );
        self.commands.push(command);
        self.index_name(self.commands.len() - 1);
    }

    fn index_name(&mut self, at: usize) {
        let commands = &self.commands;
        let hash = name_hash(commands[at].name.as_bytes());
        self.by_name.insert_unique(hash, at, |&other| name_hash(commands[other].name.as_bytes()));
    }

    #[inline]
    fn position(&self, name: &[u8]) -> Option<usize> {
        let same = |&at: &usize| self.commands[at].name.as_bytes().eq_ignore_ascii_case(name);
        self.by_name.find(name_hash(name), same).copied()
    }
}

/// What there is to know of a command that is carried: its arguments come later.
fn carried_info(info: &Info) -> Info {
    debug_assert!(info.more_keys.is_none() && info.key_flags_of.is_none() && info.script.is_none());
    let later = |spec: &KeySpec| KeySpec {
        begin: match spec.begin {
            BeginSearch::Index(index) => BeginSearch::Index(index + CARRIED_AT as i32),
            BeginSearch::Keyword(keyword, from) if from >= 0 => {
                BeginSearch::Keyword(keyword, from + CARRIED_AT as i32)
            }
            begin => begin,
        },
        ..*spec
    };
    let keys: Vec<KeySpec> = info.keys.iter().map(later).collect();
    let arity = if info.arity < 0 { info.arity - CARRIED_AT as i32 } else { info.arity + CARRIED_AT as i32 };
    Info { arity, keys: Vec::leak(keys), packed: None, part_of: None, elements_of: None, ..*info }
}

/// The error for a name that is not registered, with the beginning of its arguments, as Redis words it. Bytes
/// are shown as they are, up to the first NUL.
fn unknown_command(args: Args<'_>) -> Error {
    let shown = |text: &[u8], bytes_max: usize| -> Vec<u8> {
        text.iter().copied().take(bytes_max).take_while(|&byte| byte != 0).collect()
    };
    let mut arguments = Vec::new();
    for argument in args.from(1) {
        if arguments.len() >= SHOWN_BYTES_MAX {
            break;
        }
        let text = shown(argument, SHOWN_BYTES_MAX - arguments.len());
        arguments.extend([b"'", &text[..], b"' "].concat());
    }
    let name = shown(args.at(0), SHOWN_BYTES_MAX);
    let parts: [&[u8]; 4] = [b"ERR unknown command '", &name, b"', with args beginning with: ", &arguments];
    Error::from_bytes(parts.concat())
}
