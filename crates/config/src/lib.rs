//! Configuration: what can be set, from a file, from the command line and with `CONFIG SET`, in the language
//! of Redis.
//!
//! [`Config`] is a plain value: code reads its fields. A change makes a new value ([`Config::set`]) which the
//! caller puts into effect and then into place; nothing here has side effects other than reading files,
//! standard input and the existence of folders, and [`Config::rewrite`], which replaces a file.
//!
//! [`settings`] is the one table of directives. Values are parsed and printed by their [`kind`]; a value that
//! was accepted once prints in one canonical form, which is the one that `CONFIG GET` of Redis 8.2 shows.
#![forbid(unsafe_code)]

mod error;
mod foreign;
mod kind;
mod line;
mod load;
pub mod reference;
mod refusal;
mod rewrite;
pub mod schedule;
mod settings;
mod special;
#[cfg(test)]
mod tests;
mod value;
mod words;

pub use error::{ConfigError, Origin, SetError, Warning};
pub use kind::Kind;
pub use line::{quote, split_words};
pub use refusal::reason;
pub use settings::*;
pub use special::format_percentile;
pub use value::*;

use mantissa_commands::glob;
use refusal::Refusal;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::LazyLock;
use words::ParseContext;

/// A name or alias, and the row that it stands for.
struct Name {
    text: &'static str,
    directive: &'static Directive,
}

/// All names and aliases, sorted.
static NAMES: LazyLock<Vec<Name>> = LazyLock::new(|| {
    let with_alias =
        |directive: &'static Directive| [Some(directive.name), directive.alias].map(|text| (text, directive));
    let mut names: Vec<Name> = DIRECTIVES
        .iter()
        .flat_map(with_alias)
        .filter_map(|(text, directive)| Some(Name { text: text?, directive }))
        .collect();
    names.sort_by_key(|name| name.text);
    names
});

/// The same with Valkey's names.
static BY_NAME: LazyLock<HashMap<&'static [u8], Name>> = LazyLock::new(|| {
    let own = NAMES.iter().map(|name| (name.text.as_bytes(), Name { ..*name }));
    let mut by_name: HashMap<_, _> = own.collect();
    for (text, name) in foreign::NAMES {
        if let Some(directive) = by_name.get(name.as_bytes()).map(|name| name.directive) {
            by_name.insert(text.as_bytes(), Name { text, directive });
        }
    }
    by_name
});

static DEFAULTS: LazyLock<Config> = LazyLock::new(Config::default);

fn find(name: &[u8]) -> Option<&'static Name> {
    BY_NAME.get(name.to_ascii_lowercase().as_slice())
}

/// Whether text is a pattern rather than a name.
fn is_pattern(text: &[u8]) -> bool {
    text.iter().any(|byte| matches!(byte, b'*' | b'?' | b'['))
}

/// The row of a name or alias, in any case.
pub fn directive(name: &[u8]) -> Option<&'static Directive> {
    find(name).map(|name| name.directive)
}

impl Default for Config {
    /// Every setting at its default; `dir` is the folder the process is in.
    fn default() -> Config {
        let mut config = Config::blank();
        for directive in DIRECTIVES {
            if !matches!(directive.kind, Kind::Directory) {
                let value = directive.default_value().expect("a test checks every default");
                (directive.write)(&mut config, value);
            }
        }
        let dir = std::env::current_dir().ok().and_then(|path| path.into_os_string().into_string().ok());
        config.dir = dir.unwrap_or_else(|| "/".to_owned());
        config
    }
}

impl Directive {
    fn default_value(&self) -> Result<Value, Refusal> {
        let words = self.split_value(self.default.as_bytes());
        self.kind
            .parse(&words, &ParseContext { current: &Value::Bool(false), repeated: false, directory: "/" })
    }

    /// The words of a value that was given as one text.
    fn split_value<'a>(&self, value: &'a [u8]) -> Vec<&'a [u8]> {
        match self.has(MULTI) {
            true if value.is_empty() => Vec::new(),
            true => value.split(|&byte| byte == b' ').collect(),
            false => vec![value],
        }
    }

    /// The value in the form that `CONFIG GET` shows.
    pub fn text(&self, config: &Config) -> Vec<u8> {
        self.kind.format(&(self.read)(config))
    }

    /// Whether the setting is at its default; a folder never is.
    pub fn is_default(&self, config: &Config) -> bool {
        !matches!(self.kind, Kind::Directory) && (self.read)(config) == (self.read)(&DEFAULTS)
    }
}

impl Config {
    /// The configuration file, as an absolute path, if there is one.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// What the server is to its clients: `cluster` or `standalone`.
    pub fn mode(&self) -> &'static str {
        if self.cluster_emulated { "cluster" } else { "standalone" }
    }

    /// `CONFIG GET`: the settings whose names match any of the patterns, each name once. A name that was
    /// given in full comes back as it was spelled, also if patterns do not show it; the others follow in
    /// alphabetical order.
    pub fn get<P: AsRef<[u8]>>(&self, patterns: &[P]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut found = Vec::new();
        let mut seen: HashSet<Vec<u8>> = HashSet::new();
        let (globs, names): (Vec<&[u8]>, Vec<&[u8]>) =
            patterns.iter().map(AsRef::as_ref).partition(|pattern| is_pattern(pattern));
        for spelled in names {
            if let Some(name) = find(spelled)
                && seen.insert(spelled.to_ascii_lowercase())
            {
                found.push((spelled.to_vec(), name.directive.text(self)));
            }
        }
        if globs.is_empty() {
            return found;
        }
        let shown = NAMES.iter().filter(|name| !name.directive.has(HIDDEN));
        for name in
            shown.filter(|name| globs.iter().any(|glob| glob::matches_with(glob, name.text.as_bytes(), true)))
        {
            if seen.insert(name.text.into()) {
                found.push((name.text.into(), name.directive.text(self)));
            }
        }
        found
    }

    /// `CONFIG SET`: all of the settings or none. `from_local` says whether the client is on this machine,
    /// which `enable-protected-configs local` asks for.
    ///
    /// The result is to be put into effect by the caller, who may refuse it with [`SetError::failed`].
    pub fn set<N: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        pairs: &[(N, V)],
        from_local: bool,
    ) -> Result<Config, SetError> {
        let mut seen = HashSet::new();
        let mut names = Vec::with_capacity(pairs.len());
        for (spelled, _) in pairs {
            let name = find(spelled.as_ref()).ok_or_else(|| SetError::Unknown(spelled.as_ref().to_vec()))?;
            if name.directive.has(IMMUTABLE) {
                return Err(SetError::failed(name.text, "can't set immutable config"));
            }
            if name.directive.has(PROTECTED) && !self.enable_protected_configs.allows(from_local) {
                return Err(SetError::failed(name.text, "can't set protected config"));
            }
            if !seen.insert(name.text) {
                return Err(SetError::failed(name.text, "duplicate parameter"));
            }
            names.push(name);
        }
        let mut config = self.clone();
        for (name, (_, value)) in names.into_iter().zip(pairs) {
            let words = name.directive.split_value(value.as_ref());
            config
                .assign(name.directive, &words, false)
                .map_err(|reason| SetError::failed(name.text, reason))?;
        }
        Ok(config)
    }

    /// The directives in which two configurations differ.
    pub fn differences(&self, other: &Config) -> Vec<&'static Directive> {
        DIRECTIVES.iter().filter(|directive| (directive.read)(self) != (directive.read)(other)).collect()
    }

    /// Parses and sets one setting. `repeated` as in [`ParseContext`].
    fn assign(&mut self, directive: &Directive, words: &[&[u8]], repeated: bool) -> Result<(), Refusal> {
        let current = (directive.read)(self);
        let context = ParseContext { current: &current, repeated, directory: &self.dir };
        let value = directive.kind.parse(words, &context)?;
        (directive.write)(self, value);
        self.keep_within_sense();
        Ok(())
    }

    /// Moves accepted values that would not work into the range that does.
    fn keep_within_sense(&mut self) {
        self.hz = self.hz.clamp(1, 500);
        self.repl_backlog_size = self.repl_backlog_size.max(16 << 10);
        if self.watchdog_period != 0 {
            self.watchdog_period = self.watchdog_period.max(200);
        }
    }
}

impl Permission {
    /// Whether a client may, given whether it is on this machine.
    pub fn allows(self, from_local: bool) -> bool {
        match self {
            Permission::No => false,
            Permission::Yes => true,
            Permission::Local => from_local,
        }
    }
}
