//! Reading a configuration: the file, standard input and the command line, in this order. Later values
//! replace earlier ones.

use super::error::{ConfigError, Origin, Warning};
use super::foreign;
use super::line::{needs_quotes, quote, split_words};
use super::refusal::{Refusal, reason};
use super::words::WRONG_COUNT;
use super::{Config, DIRECTIVES, INERT, MULTI, directive, is_pattern};
use mantissa_commands::glob;
use std::collections::HashSet;
use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How deep `include` may nest.
const INCLUDE_DEPTH_MAX: usize = 16;
const BAD_DIRECTIVE: &str = "Bad directive or wrong number of arguments";
const NOT_YET: &str = "this version does not implement it yet";
const DUPLICATE_USER: &str = "Duplicate user found. A user can only be defined once in config files";

/// The directives that change whose data a server has and have no effect yet, and what would start instead.
const UNSUPPORTED: [(&str, &str); 2] = [
    (
        "cluster-enabled",
        "clusters are not supported yet: a server that claims all slots would start \
         ('cluster-emulated yes' lets clients of a cluster use this one)",
    ),
    ("loadmodule", "modules are not supported: a server without their commands and types would start"),
];

/// Directives of the past: their names and how many words may follow. They do nothing.
const OBSOLETE: &[(&[u8], std::ops::RangeInclusive<usize>)] = &[
    (b"list-max-ziplist-entries", 1..=1),
    (b"list-max-ziplist-value", 1..=1),
    (b"lua-replicate-commands", 1..=1),
    (b"io-threads-do-reads", 1..=1),
];

impl Config {
    /// Reads the configuration that the arguments of a command line ask for; the name of the program is not
    /// among them.
    ///
    /// The first argument is a file unless it begins with `-`; `-` alone, first or last, is standard input;
    /// then `--name value ...` sets single directives. `--save` without a value forgets the save points.
    pub fn from_args(arguments: &[OsString]) -> Result<(Config, Vec<Warning>), ConfigError> {
        let arguments: Vec<&[u8]> = arguments.iter().map(|argument| argument.as_bytes()).collect();
        let command_line = CommandLine::split(&arguments);
        let mut loader = Loader::new();
        if let Some(path) = command_line.file {
            let path = String::from_utf8_lossy(path).into_owned();
            loader.config.file = std::path::absolute(&path).ok();
            loader.read_file(&path, 0)?;
        }
        if command_line.standard_input {
            let mut content = Vec::new();
            io::stdin().read_to_end(&mut content).map_err(|error| ConfigError::unreadable("-", &error))?;
            loader.read_lines("-", &content, 0)?;
        }
        for words in command_line.directives {
            loader.apply(&words, &Origin::Arguments, &command_line_text(&words), 0)?;
        }
        loader.finish()
    }

    /// Reads the text of a configuration file that is called `name` in errors.
    pub fn from_text(name: &str, content: &[u8]) -> Result<(Config, Vec<Warning>), ConfigError> {
        let mut loader = Loader::new();
        loader.read_lines(name, content, 0)?;
        loader.finish()
    }

    /// Reads the text of a configuration file, then directives as on a command line. `file` is what CONFIG
    /// REWRITE will write to.
    pub fn from_text_and_arguments(
        content: &[u8],
        file: Option<PathBuf>,
        arguments: &[Vec<u8>],
    ) -> Result<(Config, Vec<Warning>), ConfigError> {
        let arguments: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
        let mut loader = Loader::new();
        loader.config.file = file;
        loader.read_lines("the running server's configuration", content, 0)?;
        for words in CommandLine::split(&arguments).directives {
            loader.apply(&words, &Origin::Arguments, &command_line_text(&words), 0)?;
        }
        loader.finish()
    }

    /// The error that stops the start because the `index`th of [`Config::rename_commands`] can not be done.
    pub fn rename_error(&self, index: usize, reason: &str) -> ConfigError {
        let origin = self.rename_origins.get(index).cloned().unwrap_or(Origin::Arguments);
        let mut line = b"rename-command".to_vec();
        if let Some((old, new)) = self.rename_commands.get(index) {
            append_words(&mut line, &[old.clone(), new.clone()]);
        }
        ConfigError::new(origin, &line, reason)
    }

    /// The error that stops the start because the `index`th of [`Config::users`] can not be made.
    pub fn user_error(&self, index: usize, reason: &str) -> ConfigError {
        let origin = self.user_origins.get(index).cloned().unwrap_or(Origin::Arguments);
        ConfigError::new(origin, b"user", reason)
    }
}

fn append_words(line: &mut Vec<u8>, words: &[Vec<u8>]) {
    for word in words {
        line.push(b' ');
        match needs_quotes(word) {
            true => line.extend(quote(word)),
            false => line.extend(word),
        }
    }
}

fn command_line_text(words: &[Vec<u8>]) -> Vec<u8> {
    let Some((name, rest)) = words.split_first() else { return Vec::new() };
    let mut text = [b"--", name.as_slice()].concat();
    append_words(&mut text, rest);
    text
}

/// The parts of a command line.
struct CommandLine<'a> {
    file: Option<&'a [u8]>,
    standard_input: bool,
    directives: Vec<Vec<Vec<u8>>>,
}

impl<'a> CommandLine<'a> {
    fn split(arguments: &[&'a [u8]]) -> CommandLine<'a> {
        let mut parts = CommandLine { file: None, standard_input: false, directives: Vec::new() };
        let mut rest = arguments;
        if let [first, after @ ..] = arguments
            && !first.starts_with(b"-")
        {
            parts.file = Some(first);
            rest = after;
        }
        // Whether the current directive has a value: only then does `--` begin another one.
        let mut has_value = true;
        for (index, &argument) in rest.iter().enumerate() {
            let is_edge = index + 1 == rest.len() || (index == 0 && parts.file.is_none());
            if argument == b"-" && is_edge {
                parts.standard_input = true;
                continue;
            }
            match argument.strip_prefix(b"--") {
                Some(name) if has_value => {
                    let words = split_words(name).unwrap_or_else(|| vec![name.to_vec()]);
                    has_value = words.len() != 1;
                    parts.directives.push(words);
                    // An empty list of save points that a shell script dropped.
                    let no_value = rest.get(index + 1).is_none_or(|next| next.starts_with(b"--"));
                    if argument == b"--save" && no_value {
                        parts.add_value(b"");
                        has_value = true;
                    }
                }
                _ => {
                    parts.add_value(argument);
                    has_value = true;
                }
            }
        }
        parts
    }

    fn add_value(&mut self, value: &[u8]) {
        match self.directives.last_mut() {
            Some(words) => words.push(value.to_vec()),
            None => self.directives.push(vec![value.to_vec()]),
        }
    }
}

struct Loader {
    config: Config,
    /// Names of the rows that were given.
    given: HashSet<&'static str>,
    warnings: Vec<Warning>,
    log_file_line: Option<(Origin, Vec<u8>)>,
    replicaof_line: Option<(Origin, Vec<u8>)>,
    /// Where each directive of [`UNSUPPORTED`] was last given, and the line.
    unsupported_lines: [Option<(Origin, Vec<u8>)>; UNSUPPORTED.len()],
}

impl Loader {
    fn new() -> Loader {
        Loader {
            config: Config::default(),
            given: HashSet::new(),
            warnings: Vec::new(),
            log_file_line: None,
            replicaof_line: None,
            unsupported_lines: [const { None }; UNSUPPORTED.len()],
        }
    }

    fn read_file(&mut self, path: &str, depth: usize) -> Result<(), ConfigError> {
        let full = Path::new(&self.config.dir).join(path);
        let content = std::fs::read(full).map_err(|error| ConfigError::unreadable(path, &error))?;
        self.read_lines(path, &content, depth)
    }

    fn read_lines(&mut self, name: &str, content: &[u8], depth: usize) -> Result<(), ConfigError> {
        let path: Arc<str> = name.into();
        for (index, line) in content.split(|&byte| byte == b'\n').enumerate() {
            let line = line.trim_ascii();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            let origin = Origin::File { path: path.clone(), line: index + 1 };
            let Some(words) = split_words(line) else {
                return Err(ConfigError::new(origin, line, "Unbalanced quotes in configuration line"));
            };
            self.apply(&words, &origin, line, depth)?;
        }
        Ok(())
    }

    /// Applies the words of one line.
    fn apply(
        &mut self,
        words: &[Vec<u8>],
        origin: &Origin,
        text: &[u8],
        depth: usize,
    ) -> Result<(), ConfigError> {
        let Some((name, values)) = words.split_first() else { return Ok(()) };
        let name = name.to_ascii_lowercase();
        let error = |reason: &str| ConfigError::new(origin.clone(), text, reason);
        let Some(directive) = directive(&name) else {
            return self.apply_other(&name, values, origin, text, depth);
        };
        if !directive.has(MULTI) && values.len() != 1 {
            return Err(error(WRONG_COUNT));
        }
        let split: Vec<&[u8]> = match values {
            [value] if !value.is_empty() => directive.split_value(value),
            _ => values.iter().map(Vec::as_slice).collect(),
        };
        let repeated = !self.given.insert(directive.name);
        self.config.assign(directive, &split, repeated).map_err(|reason| error(&reason))?;
        if directive.name == "logfile" {
            self.log_file_line = Some((origin.clone(), text.to_vec()));
        }
        if directive.name == "replicaof" {
            self.replicaof_line = Some((origin.clone(), text.to_vec()));
        }
        self.note_line(directive.name, origin, text);
        Ok(())
    }

    /// Applies a line whose directive is no setting.
    fn apply_other(
        &mut self,
        name: &[u8],
        values: &[Vec<u8>],
        origin: &Origin,
        text: &[u8],
        depth: usize,
    ) -> Result<(), ConfigError> {
        let error = |reason: &str| ConfigError::new(origin.clone(), text, reason);
        match (name, values) {
            (b"include", [pattern]) => return self.include(pattern, origin, text, depth + 1),
            (b"rename-command", [old, new]) => {
                self.config.rename_commands.push((old.clone(), new.clone()));
                self.config.rename_origins.push(origin.clone());
            }
            (b"user", [user, rules @ ..]) => {
                if self.config.users.iter().any(|(other, _)| other == user) {
                    let user = String::from_utf8_lossy(user);
                    return Err(error(&format!("Error in user declaration '{user}': {DUPLICATE_USER}")));
                }
                self.config.users.push((user.clone(), rules.to_vec()));
                self.config.user_origins.push(origin.clone());
            }
            (b"loadmodule", [path, arguments @ ..]) => match foreign::built_in(path) {
                Some(module) => self.apply_arguments(module, arguments).map_err(|reason| error(&reason))?,
                None => {
                    self.config.modules.push((path.clone(), arguments.to_vec()));
                    self.note_line("loadmodule", origin, text);
                    self.warn("loadmodule", "modules are not supported");
                }
            },
            (b"sentinel", _) => return Err(error("sentinel directive while not in sentinel mode")),
            _ if OBSOLETE.iter().any(|(old, counts)| *old == name && counts.contains(&values.len())) => {
                self.warn(&String::from_utf8_lossy(name), "it is obsolete");
            }
            _ => match foreign::default_without_effect(name).filter(|_| !values.is_empty()) {
                None => return Err(error(BAD_DIRECTIVE)),
                Some(default) if values.join(&b' ') == default.as_bytes() => {}
                Some(_) => self.warn(&String::from_utf8_lossy(name), NOT_YET),
            },
        }
        Ok(())
    }

    /// Applies the arguments of a module that is built in.
    fn apply_arguments(&mut self, module: &foreign::Module, arguments: &[Vec<u8>]) -> Result<(), Refusal> {
        let settings = module.settings(arguments).map_err(|word| {
            let word = String::from_utf8_lossy(word);
            Refusal::from(format!("The argument '{word}' of this module is not known here"))
        })?;
        for (name, value) in settings.given {
            if let Some(row) = directive(name.as_bytes()) {
                self.given.insert(row.name);
                self.config.assign(row, &[value], false)?;
            }
        }
        if !settings.without_effect.is_empty() {
            let words = String::from_utf8_lossy(&settings.without_effect.join(&b' ')).into_owned();
            let message = format!("Arguments of 'loadmodule' have no effect here: {words}");
            self.warnings.push(Warning { directive: "loadmodule".to_owned(), message });
        }
        Ok(())
    }

    fn include(
        &mut self,
        pattern: &[u8],
        origin: &Origin,
        text: &[u8],
        depth: usize,
    ) -> Result<(), ConfigError> {
        let error = |reason: &str| ConfigError::new(origin.clone(), text, reason);
        if depth > INCLUDE_DEPTH_MAX {
            return Err(error("includes are nested too deeply"));
        }
        let Ok(pattern) = std::str::from_utf8(pattern) else {
            return Err(error("argument must be UTF-8 text"));
        };
        if !is_pattern(pattern.as_bytes()) {
            return self.read_file(pattern, depth);
        }
        for path in matching_files(Path::new(&self.config.dir), pattern) {
            self.read_file(&path.to_string_lossy(), depth)?;
        }
        Ok(())
    }

    /// Remembers where a directive of [`UNSUPPORTED`] stands.
    fn note_line(&mut self, directive: &str, origin: &Origin, text: &[u8]) {
        if let Some(index) = UNSUPPORTED.iter().position(|(name, _)| *name == directive) {
            self.unsupported_lines[index] = Some((origin.clone(), text.to_vec()));
        }
    }

    /// Refuses what would start as something else than the configuration says, unless it says that too.
    fn check_unsupported(&self) -> Result<(), ConfigError> {
        let config = &self.config;
        let asked = [config.cluster_enabled, !config.modules.is_empty()];
        if config.ignore_unsupported_directives {
            return Ok(());
        }
        for (index, (name, why)) in UNSUPPORTED.iter().enumerate() {
            if let (true, Some((origin, text))) = (asked[index], &self.unsupported_lines[index]) {
                let reason = format!(
                    "'{name}' has no effect: {why}. 'ignore-unsupported-directives yes' starts it anyway"
                );
                return Err(ConfigError::new(origin.clone(), text, reason));
            }
        }
        Ok(())
    }

    fn warn(&mut self, directive: &str, why: &str) {
        let message = format!("The directive '{directive}' is accepted but has no effect: {why}");
        self.warnings.push(Warning { directive: directive.to_owned(), message });
    }

    /// Checks what concerns several settings, and warns about settings that have no effect.
    fn finish(mut self) -> Result<(Config, Vec<Warning>), ConfigError> {
        if let Some((origin, text)) = &self.replicaof_line
            && self.config.cluster_enabled
            && self.config.replicaof.is_some()
        {
            return Err(ConfigError::new(
                origin.clone(),
                text,
                "replicaof directive not allowed in cluster mode",
            ));
        }
        if let Some((origin, text)) = &self.log_file_line
            && !self.config.logfile.is_empty()
            && let path = Path::new(&self.config.dir).join(&self.config.logfile)
            && let Err(error) = std::fs::OpenOptions::new().append(true).create(true).open(path)
        {
            let reason = format!("Can't open the log file: {}", reason(&error));
            return Err(ConfigError::new(origin.clone(), text, reason));
        }
        self.check_unsupported()?;
        for directive in DIRECTIVES {
            let given = self.given.contains(directive.name);
            if given && directive.has(INERT) && !directive.is_default(&self.config) {
                self.warn(directive.name, NOT_YET);
            }
        }
        Ok((self.config, self.warnings))
    }
}

/// The existing files that a path with patterns in its parts stands for, sorted. Names that begin with a dot
/// match only a pattern that does.
fn matching_files(base: &Path, pattern: &str) -> Vec<PathBuf> {
    let mut found = vec![base.to_owned()];
    if pattern.starts_with('/') {
        found = vec![PathBuf::from("/")];
    }
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        let mut next = Vec::new();
        for folder in found {
            if !is_pattern(part.as_bytes()) {
                next.push(folder.join(part));
                continue;
            }
            let Ok(entries) = std::fs::read_dir(&folder) else { continue };
            for name in entries.filter_map(|entry| Some(entry.ok()?.file_name())) {
                let hidden = name.as_bytes().starts_with(b".") && !part.starts_with('.');
                if !hidden && glob::matches(part.as_bytes(), name.as_bytes()) {
                    next.push(folder.join(name));
                }
            }
        }
        found = next;
    }
    found.retain(|path| path.exists());
    found.sort();
    found
}
