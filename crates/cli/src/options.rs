//! The command line.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::connection::Address;
use crate::format::Format;

/// Send commands to a server: one from the command line, or many from standard input or a prompt.
#[derive(Parser, Debug)]
#[command(
    name = "mantissa cli",
    version,
    disable_help_flag = true,
    disable_help_subcommand = true,
    override_usage = "mantissa cli [OPTIONS] [COMMAND [ARGUMENT]...]"
)]
pub(crate) struct Options {
    /// Host name or address of the server
    #[arg(short = 'h', long, value_name = "HOST", default_value = "127.0.0.1")]
    host: String,
    /// Port of the server
    #[arg(short = 'p', long, value_name = "PORT", default_value_t = 6379)]
    port: u16,
    /// Unix socket of the server, in place of host and port
    #[arg(short = 's', long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Where and how to log in: redis://[[USER:]PASSWORD@]HOST[:PORT][/DATABASE]
    #[arg(short = 'u', long, value_name = "URI")]
    uri: Option<String>,
    /// Password; the variable REDISCLI_AUTH keeps it out of the list of processes
    #[arg(short = 'a', long = "pass", value_name = "PASSWORD")]
    password: Option<String>,
    /// Name to log in with
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Do not warn about passwords on the command line
    #[arg(long)]
    no_auth_warning: bool,
    /// Number of the database
    #[arg(short = 'n', long, value_name = "NUMBER")]
    database: Option<u32>,
    /// Speak RESP2, which is the default
    #[arg(short = '2', conflicts_with = "resp3")]
    resp2: bool,
    /// Speak RESP3
    #[arg(short = '3')]
    resp3: bool,
    /// Run the command this many times; a negative number means forever
    #[arg(short = 'r', long, value_name = "TIMES", default_value_t = 1, allow_negative_numbers = true)]
    repeat: i64,
    /// Wait this many seconds between repetitions
    #[arg(short = 'i', long, value_name = "SECONDS", default_value_t = 0.0)]
    interval: f64,
    /// Take the last argument of the command from standard input
    #[arg(short = 'x')]
    input_as_last_argument: bool,
    /// Exit with an error code when the reply is an error
    #[arg(short = 'e')]
    error_code: bool,
    /// Show replies as they are, which is the default where the output is not a terminal
    #[arg(long, conflicts_with = "no_raw")]
    raw: bool,
    /// Show replies for people also where the output is not a terminal
    #[arg(long)]
    no_raw: bool,
    /// Show replies as comma-separated values
    #[arg(long, conflicts_with_all = ["raw", "no_raw"])]
    csv: bool,
    /// Show replies as JSON; speaks RESP3 unless told otherwise
    #[arg(long, conflicts_with_all = ["raw", "no_raw", "csv"])]
    json: bool,
    /// What separates the elements of raw replies [default: a line end]
    #[arg(short = 'd', value_name = "DELIMITER")]
    element_delimiter: Option<OsString>,
    /// What follows raw replies [default: a line end]
    #[arg(short = 'D', value_name = "DELIMITER")]
    reply_delimiter: Option<OsString>,
    /// Whether to show messages that answer no command [default: on a terminal]
    #[arg(long, value_name = "yes|no")]
    show_pushes: Option<String>,
    /// Run a Lua script from a file; arguments are KEYS, a comma, and ARGV
    #[arg(long, value_name = "FILE")]
    eval: Option<PathBuf>,
    /// Send standard input, which is in the protocol, as it is; count replies and errors
    #[arg(long)]
    pipe: bool,
    /// Seconds to wait for replies after everything was sent; 0 is forever
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pipe_timeout: u64,
    /// List the keys, by SCAN
    #[arg(long)]
    scan: bool,
    /// Which keys to list
    #[arg(long, value_name = "PATTERN")]
    pattern: Option<OsString>,
    /// How many keys SCAN looks at in a step
    #[arg(long, value_name = "NUMBER")]
    count: Option<u64>,
    /// Keys of which type to list
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// Print this help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    #[command(subcommand)]
    command: Option<Words>,
}

/// What follows the options.
#[derive(Subcommand, Debug)]
enum Words {
    /// A command and its arguments, whatever they look like.
    #[command(external_subcommand)]
    Command(Vec<OsString>),
}

/// What the program is to do, checked.
pub(crate) struct Settings {
    pub(crate) address: Address,
    pub(crate) user: Option<Vec<u8>>,
    pub(crate) password: Option<Vec<u8>>,
    pub(crate) database: u32,
    pub(crate) resp3: bool,
    /// How often to run the command; `None` is forever.
    pub(crate) repeat: Option<u64>,
    pub(crate) interval: Duration,
    pub(crate) input_as_last_argument: bool,
    pub(crate) error_code: bool,
    pub(crate) format: Format,
    pub(crate) element_delimiter: Vec<u8>,
    pub(crate) reply_delimiter: Vec<u8>,
    pub(crate) show_pushes: bool,
    pub(crate) eval: Option<Script>,
    pub(crate) pipe: bool,
    /// `None` is forever.
    pub(crate) pipe_timeout: Option<Duration>,
    pub(crate) scan: bool,
    pub(crate) scan_options: Vec<Vec<u8>>,
    pub(crate) command: Vec<Vec<u8>>,
}

impl Settings {
    /// Whether commands are to be run, and nothing else.
    pub(crate) fn is_plain(&self) -> bool {
        !self.pipe && !self.scan
    }
}

/// A Lua script to run.
pub(crate) struct Script(PathBuf);

impl Script {
    /// The EVAL command for the script, with arguments as the command line gives them: `KEY ... , ARG ...`.
    pub(crate) fn into_command(self, arguments: &[Vec<u8>]) -> io::Result<Vec<Vec<u8>>> {
        let text = std::fs::read(&self.0)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", self.0.display())))?;
        let key_count = arguments.iter().position(|argument| argument == b",").unwrap_or(arguments.len());
        let (keys, rest) = arguments.split_at(key_count);
        let mut command = vec![b"EVAL".to_vec(), text, key_count.to_string().into_bytes()];
        command.extend(keys.iter().chain(rest.iter().skip(1)).cloned());
        Ok(command)
    }
}

impl Words {
    fn into_bytes(self) -> impl Iterator<Item = Vec<u8>> {
        let Words::Command(words) = self;
        words.into_iter().map(OsStringExt::into_vec)
    }
}

impl Options {
    /// Checks what clap cannot, and fills in what comes from the environment.
    pub(crate) fn into_settings(self) -> Result<Settings, String> {
        let uri = self.uri.as_deref().map(Uri::parse).transpose()?.unwrap_or_default();
        let terminal = io::stdout().is_terminal();
        if (self.password.is_some() || uri.password.is_some()) && !self.no_auth_warning {
            eprintln!("Warning: a password on the command line can be seen by other users of this machine.");
        }
        let environment = std::env::var_os("REDISCLI_AUTH").map(OsStringExt::into_vec);
        let address = match self.socket {
            Some(path) => Address::Unix(path),
            None => Address::Tcp(uri.host.unwrap_or(self.host), uri.port.unwrap_or(self.port)),
        };
        let interval = Duration::try_from_secs_f64(self.interval)
            .map_err(|_| "The interval is not a number of seconds.".to_owned())?;
        let show_pushes = match self.show_pushes.as_deref() {
            None => terminal,
            Some("yes" | "y") => true,
            Some("no" | "n") => false,
            Some(_) => return Err("--show-pushes takes yes or no.".to_owned()),
        };
        let line_end = || b"\n".to_vec();
        let mut scan_options = Vec::new();
        let count = self.count.map(|count| count.to_string().into_bytes());
        for (name, value) in [
            ("MATCH", self.pattern.map(OsStringExt::into_vec)),
            ("COUNT", count),
            ("TYPE", self.kind.map(String::into_bytes)),
        ] {
            scan_options.extend(value.into_iter().flat_map(|value| [name.as_bytes().to_vec(), value]));
        }
        Ok(Settings {
            address,
            user: uri.user.or(self.user.map(String::into_bytes)),
            password: uri.password.or(self.password.map(String::into_bytes)).or(environment),
            database: self.database.or(uri.database).unwrap_or(0),
            resp3: self.resp3 || (self.json && !self.resp2),
            repeat: u64::try_from(self.repeat).ok(),
            interval,
            input_as_last_argument: self.input_as_last_argument,
            error_code: self.error_code,
            format: match () {
                () if self.csv => Format::Csv,
                () if self.json => Format::Json,
                () if self.raw || (!self.no_raw && !terminal) => Format::Raw,
                () => Format::Terminal,
            },
            element_delimiter: self.element_delimiter.map_or_else(line_end, OsStringExt::into_vec),
            reply_delimiter: self.reply_delimiter.map_or_else(line_end, OsStringExt::into_vec),
            show_pushes,
            eval: self.eval.map(Script),
            pipe: self.pipe,
            pipe_timeout: (self.pipe_timeout > 0).then(|| Duration::from_secs(self.pipe_timeout)),
            scan: self.scan,
            scan_options,
            command: self.command.into_iter().flat_map(Words::into_bytes).collect(),
        })
    }
}

/// What a URI says.
#[derive(Default, PartialEq, Debug)]
struct Uri {
    user: Option<Vec<u8>>,
    password: Option<Vec<u8>>,
    host: Option<String>,
    port: Option<u16>,
    database: Option<u32>,
}

impl Uri {
    fn parse(uri: &str) -> Result<Uri, String> {
        let wrong = |what: &str| format!("{uri}: {what}");
        if uri.starts_with("rediss://") {
            return Err(wrong("connections over TLS are not supported"));
        }
        let rest = uri.strip_prefix("redis://").ok_or_else(|| wrong("a URI starts with redis://"))?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let mut parsed = Uri::default();
        let place = match authority.rsplit_once('@') {
            None => authority,
            Some((login, place)) => {
                let (user, password) = match login.split_once(':') {
                    Some((user, password)) => (user, password),
                    None => ("", login),
                };
                parsed.user = (!user.is_empty()).then(|| decode_percents(user));
                parsed.password = Some(decode_percents(password));
                place
            }
        };
        // An IPv6 address stands in brackets, as it has colons of its own.
        let (host, port) = match place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, port)) => (host, port.strip_prefix(':')),
            None => place.split_once(':').map_or((place, None), |(host, port)| (host, Some(port))),
        };
        parsed.host = (!host.is_empty()).then(|| host.to_owned());
        parsed.port = port.map(str::parse).transpose().map_err(|_| wrong("the port is not a number"))?;
        let database = (!path.is_empty()).then(|| path.parse()).transpose();
        parsed.database = database.map_err(|_| wrong("the database is not a number"))?;
        Ok(parsed)
    }
}

/// Resolves `%41` and the like; what is not of that form stays.
fn decode_percents(text: &str) -> Vec<u8> {
    let (mut decoded, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((&first, tail)) = rest.split_first() {
        let code = tail.get(..2).filter(|_| first == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        match code.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                decoded.push(byte);
                rest = &tail[2..];
            }
            None => {
                decoded.push(first);
                rest = tail;
            }
        }
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Options::command().debug_assert();
        let parse =
            |args: &[&str]| Options::try_parse_from(["cli"].iter().chain(args)).expect("valid options");
        let options = parse(&["-p", "1", "-n", "2", "LRANGE", "key", "0", "-1", "-h", "--raw"]);
        assert_eq!((options.port, options.database, options.raw), (1, Some(2), false));
        let words: Vec<Vec<u8>> = options.command.into_iter().flat_map(Words::into_bytes).collect();
        assert_eq!(words, ["LRANGE", "key", "0", "-1", "-h", "--raw"].map(|word| word.as_bytes().to_vec()));
        for words in [&["help", "GET"][..], &["", "x"], &["--", "-x"]] {
            assert!(parse(words).command.is_some(), "{words:?}");
        }
        assert!(Options::try_parse_from(["cli", "--none"]).is_err());
        assert_eq!(parse(&["-r", "-1", "-h", "host", "PING"]).repeat, -1);
    }

    #[test]
    fn uris() {
        let parsed = Uri::parse("redis://user:p%40ss%zz@host:1234/5").expect("a valid URI");
        assert_eq!(parsed.user.as_deref(), Some(&b"user"[..]));
        assert_eq!(parsed.password.as_deref(), Some(&b"p@ss%zz"[..]));
        assert_eq!(
            (parsed.host.as_deref(), parsed.port, parsed.database),
            (Some("host"), Some(1234), Some(5))
        );
        let parsed = Uri::parse("redis://secret@[::1]").expect("a valid URI");
        assert_eq!((parsed.user, parsed.password.as_deref()), (None, Some(&b"secret"[..])));
        assert_eq!((parsed.host.as_deref(), parsed.port), (Some("::1"), None));
        assert_eq!(Uri::parse("redis://").expect("a valid URI"), Uri::default());
        for wrong in ["host", "rediss://host", "redis://host:port", "redis://host/zero", "http://host"] {
            assert!(Uri::parse(wrong).is_err(), "{wrong}");
        }
    }
}
