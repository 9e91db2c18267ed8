//! A server in miniature for the tests of families: a keyspace, settings, a clock that stands still, and a
//! commit that only keeps what it is given.

use mantissa_protocol::{OwnedArgs, Protocol, Reply};
use mantissa_store::{Keyspace, ShardSet};

use crate::{
    Access, Collected, DataHandler, Effects, FAMILIES, Locks, LogChoice, Mode, Registry, Settings, find_keys,
};

/// A keyspace with what a command needs to run.
pub(crate) struct Bench {
    pub keyspace: Keyspace,
    pub settings: Settings,
    pub now_ms: i64,
    pub database: usize,
    /// What the last command caused.
    pub effects: Effects,
    registry: Registry<DataHandler>,
    random_state: u64,
    collected: Collected,
}

impl Bench {
    pub fn new() -> Bench {
        let mut registry = Registry::default();
        FAMILIES.iter().for_each(|family| registry.add(family, |handler| *handler));
        registry.add_carriers(|handler| *handler);
        Bench {
            keyspace: Keyspace::new(16, 16),
            settings: Settings::default(),
            now_ms: 1_700_000_000_000,
            database: 0,
            effects: Effects::default(),
            registry,
            random_state: 1,
            collected: Collected::default(),
        }
    }

    /// Runs a command whose arguments are separated by spaces (`""` is the empty one), and returns the bytes
    /// of the reply.
    pub fn run(&mut self, command: &str) -> String {
        let args: Vec<&[u8]> =
            command.split(' ').map(|word| if word == "\"\"" { &[] } else { word.as_bytes() }).collect();
        String::from_utf8_lossy(&self.run_args(&args)).into_owned()
    }

    /// Runs a command.
    pub fn run_args(&mut self, args: &[&[u8]]) -> Vec<u8> {
        let args = OwnedArgs::from_slices(args);
        let args = args.as_args();
        let mut reply = Reply::new(Protocol::Resp2);
        let command = match self.registry.resolve(args) {
            Ok(command) => command,
            Err(error) => {
                reply.error_bytes(error.bytes());
                return reply.into_bytes();
            }
        };
        assert!(command.info.accepts(args.len()), "{args:?}");
        let shards = match command.info.locks {
            Locks::All => self.keyspace.all_shards(),
            Locks::Sweep | Locks::Nothing => ShardSet::EMPTY,
            Locks::Keys => {
                let mut shards = ShardSet::EMPTY;
                for position in find_keys(command.info, args).unwrap_or_default() {
                    shards.insert(self.keyspace.shard_of(self.keyspace.hash(args.at(position.index))));
                }
                shards
            }
        };
        let handler = command.handler.expect("a command that can be called");
        let locked = self.keyspace.lock(shards);
        let mode = Mode { may_block: true, ..Mode::default() };
        let state = &mut self.random_state;
        let mut access =
            Access::new(locked, self.database, self.now_ms, &self.settings, mode, state, &mut self.collected);
        if let Err(error) = handler(&mut access, args, &mut reply) {
            reply.truncate(0);
            reply.error_bytes(error.bytes());
        }
        self.effects = access.take_effects();
        for (database, key) in std::mem::take(&mut self.effects.expired) {
            access.select(database);
            access.remove_if_expired(&key);
        }
        reply.into_bytes()
    }

    /// Runs `work` with one shard locked.
    pub fn with_shard<R>(&mut self, shard: usize, work: impl FnOnce(&mut Access<'_>) -> R) -> (R, Effects) {
        let locked = self.keyspace.lock(ShardSet::one(shard));
        let mode = Mode::default();
        let state = &mut self.random_state;
        let mut access =
            Access::new(locked, self.database, self.now_ms, &self.settings, mode, state, &mut self.collected);
        let result = work(&mut access);
        (result, access.take_effects())
    }

    /// The commands that the last one is logged as; its own if it is logged as it came. Needs
    /// `keyspace.set_logged`.
    pub fn log(&self) -> Vec<String> {
        match &self.effects.log {
            LogChoice::Verbatim => vec!["as it came".to_owned()],
            LogChoice::Instead(commands) => {
                let words = |command: &OwnedArgs| {
                    let args = command.as_args();
                    let words: Vec<_> =
                        args.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
                    words.join(" ")
                };
                commands.iter().map(words).collect()
            }
        }
    }

    /// The names and keys of the events that the last command caused.
    pub fn events(&self) -> Vec<(&'static str, String)> {
        let events = self.effects.events.iter();
        events.map(|event| (event.name, String::from_utf8_lossy(&event.key).into_owned())).collect()
    }
}
