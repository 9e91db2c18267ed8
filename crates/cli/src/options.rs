//! The command line.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use mantissa_protocol::split_quoted;

use crate::connection::Address;
use crate::format::Format;
use crate::tls::TlsOptions;
use crate::uri::Uri;

/// Send commands to a server: one from the command line, or many from standard input or a prompt.
#[derive(Parser, Debug)]
#[command(
    name = "mantissa cli",
    version,
    disable_help_flag = true,
    disable_help_subcommand = true,
    args_override_self = true,
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
    /// Ask for the password without showing it
    #[arg(long)]
    askpass: bool,
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
    #[arg(short = 'r', long, value_name = "TIMES", allow_negative_numbers = true)]
    repeat: Option<i64>,
    /// Wait this many seconds between repetitions, steps of --scan and --stat, and 100 steps of --bigkeys
    #[arg(short = 'i', long, value_name = "SECONDS")]
    interval: Option<f64>,
    /// Take the last argument of the command from standard input
    #[arg(short = 'x', conflicts_with = "input_tag")]
    input_as_last_argument: bool,
    /// Take the argument that is this word from standard input
    #[arg(short = 'X', value_name = "TAG")]
    input_tag: Option<OsString>,
    /// Arguments are quoted strings with escapes, such as '"\x00a"'
    #[arg(long)]
    quoted_input: bool,
    /// Go where MOVED and ASK errors point to
    #[arg(short = 'c')]
    redirections: bool,
    /// Exit with an error code when the reply is an error
    #[arg(short = 'e')]
    error_code: bool,
    /// Show replies as they are, which is the default where the output is not a terminal
    #[arg(long, overrides_with = "no_raw")]
    raw: bool,
    /// Show replies for people also where the output is not a terminal
    #[arg(long)]
    no_raw: bool,
    /// Show replies as comma-separated values
    #[arg(long, overrides_with_all = ["raw", "no_raw"])]
    csv: bool,
    /// Show replies as JSON; speaks RESP3 unless told otherwise
    #[arg(long, overrides_with_all = ["raw", "no_raw", "csv"])]
    json: bool,
    /// Show replies as JSON in ASCII: other bytes become escapes
    #[arg(long, overrides_with_all = ["raw", "no_raw", "csv", "json"])]
    quoted_json: bool,
    /// What separates the elements of raw replies [default: a line end]
    #[arg(short = 'd', value_name = "DELIMITER")]
    element_delimiter: Option<OsString>,
    /// Seconds to wait for the connection; 0 is as long as the system does
    #[arg(short = 't', value_name = "SECONDS")]
    connect_timeout: Option<f64>,
    /// What follows raw replies [default: a line end]
    #[arg(short = 'D', value_name = "DELIMITER")]
    reply_delimiter: Option<OsString>,
    /// Whether to show messages that answer no command [default: on a terminal]
    #[arg(long, value_name = "yes|no")]
    show_pushes: Option<String>,
    /// Run a Lua script from a file; arguments are KEYS, a comma, and ARGV
    #[arg(long, value_name = "FILE")]
    eval: Option<PathBuf>,
    /// Seconds to wait for replies after everything was sent; 0 is forever
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pipe_timeout: u64,
    #[command(flatten)]
    tls: TlsOptions,
    #[command(flatten)]
    mode: ModeOptions,
    /// Which keys to list or look at
    #[arg(long, value_name = "PATTERN")]
    pattern: Option<OsString>,
    /// The same as a quoted string with escapes
    #[arg(long, value_name = "PATTERN", overrides_with = "pattern")]
    quoted_pattern: Option<OsString>,
    /// How many keys SCAN looks at in a step
    #[arg(long, value_name = "NUMBER")]
    count: Option<u64>,
    /// Keys of which type to list
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// Accepted and without effect
    #[arg(long, hide = true)]
    verbose: bool,
    /// Print this help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    #[command(subcommand)]
    command: Option<Words>,
}

/// What to do other than run commands.
#[derive(Args, Debug)]
struct ModeOptions {
    /// Send standard input, which is in the protocol, as it is; count replies and errors
    #[arg(long)]
    pipe: bool,
    /// List the keys, by SCAN
    #[arg(long)]
    scan: bool,
    /// Look for the keys with the most elements
    #[arg(long)]
    bigkeys: bool,
    /// Look for the keys that take the most memory
    #[arg(long)]
    memkeys: bool,
    /// Look for both at once, and show the biggest keys and how sizes are distributed
    #[arg(long)]
    keystats: bool,
    /// As --keystats, looking at so many elements of a key
    #[arg(long, value_name = "NUMBER")]
    keystats_samples: Option<u64>,
    /// How many keys --keystats shows
    #[arg(long, value_name = "NUMBER", default_value_t = 10)]
    top: usize,
    /// As --memkeys, looking at so many elements of a key
    #[arg(long, value_name = "NUMBER")]
    memkeys_samples: Option<u64>,
    /// Look for the keys used most; the server must count uses (maxmemory-policy *lfu)
    #[arg(long)]
    hotkeys: bool,
    /// Show how the server does: a dashboard on a terminal, lines elsewhere
    #[arg(long)]
    stat: bool,
    /// Measure the time of a PING; on a terminal with a histogram that goes on
    #[arg(long)]
    latency: bool,
    /// As --latency, a new line every 15 seconds or -i
    #[arg(long)]
    latency_history: bool,
    /// Latency as a spectrum in colours, a line every second or -i
    #[arg(long)]
    latency_dist: bool,
    /// Measure for so many seconds how long this machine keeps a program waiting
    #[arg(long, value_name = "SECONDS")]
    intrinsic_latency: Option<u64>,
    /// Save the server's data to a file, as a dump; `-` is standard output
    #[arg(long, value_name = "FILE")]
    rdb: Option<PathBuf>,
    /// As --rdb, but the functions only
    #[arg(long, value_name = "FILE")]
    functions_rdb: Option<PathBuf>,
    /// Not supported: the server has no slots to manage
    #[arg(long, num_args = 0.., value_name = "WORD", hide = true)]
    cluster: Option<Vec<OsString>>,
    /// Not supported
    #[arg(long, value_name = "KEYS", hide = true)]
    lru_test: Option<u64>,
    /// Shows the commands that replicas get
    #[arg(long, visible_alias = "slave")]
    replica: bool,
    /// Not supported
    #[arg(long, visible_alias = "ldb-sync-mode", hide = true)]
    ldb: bool,
}

/// What the program does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// Run commands.
    Commands,
    /// Send what is in the protocol already.
    Pipe,
    /// List keys.
    Scan,
    /// Look for the keys with the most elements.
    BigKeys,
    /// Look for the keys that take the most memory, looking at so many elements of each.
    MemoryKeys(Option<u64>),
    /// Look for both, and show so many keys; looking at so many elements of each.
    KeyStatistics(usize, Option<u64>),
    /// Look for the keys used most.
    HotKeys,
    /// Show how the server does.
    Stat,
    /// Measure the time of a PING.
    Latency,
    /// The same, in windows of time.
    LatencyHistory,
    /// The same, as a spectrum.
    LatencySpectrum,
    /// Measure this machine for so many seconds.
    IntrinsicLatency(u64),
    /// Save a dump to a file, of the functions only if so.
    Dump(PathBuf, bool),
    /// Show the commands that replicas get.
    Replica,
}

impl ModeOptions {
    fn into_mode(self) -> Result<Mode, String> {
        let refused = |name: &str, why: &str| Err(format!("{name} is not supported: {why}"));
        if self.cluster.is_some() {
            return refused("--cluster", "every command works on any keys of one server, there are no slots");
        }
        if self.lru_test.is_some() {
            return refused("--lru-test", "use `mantissa benchmark` with -r");
        }
        if self.ldb {
            return refused("--ldb", "the server has no debugger for scripts");
        }
        Ok(match self {
            ModeOptions { rdb: Some(path), .. } => Mode::Dump(path, false),
            ModeOptions { functions_rdb: Some(path), .. } => Mode::Dump(path, true),
            ModeOptions { intrinsic_latency: Some(seconds), .. } => Mode::IntrinsicLatency(seconds),
            ModeOptions { memkeys_samples: Some(samples), .. } => Mode::MemoryKeys(Some(samples)),
            ModeOptions { replica: true, .. } => Mode::Replica,
            ModeOptions { pipe: true, .. } => Mode::Pipe,
            ModeOptions { scan: true, .. } => Mode::Scan,
            ModeOptions { bigkeys: true, .. } => Mode::BigKeys,
            ModeOptions { keystats: true, top, keystats_samples, .. } => {
                Mode::KeyStatistics(top, keystats_samples)
            }
            ModeOptions { keystats_samples: Some(samples), top, .. } => {
                Mode::KeyStatistics(top, Some(samples))
            }
            ModeOptions { memkeys: true, .. } => Mode::MemoryKeys(None),
            ModeOptions { hotkeys: true, .. } => Mode::HotKeys,
            ModeOptions { stat: true, .. } => Mode::Stat,
            ModeOptions { latency_history: true, .. } => Mode::LatencyHistory,
            ModeOptions { latency: true, .. } => Mode::Latency,
            ModeOptions { latency_dist: true, .. } => Mode::LatencySpectrum,
            _ => Mode::Commands,
        })
    }
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
    /// How long to wait for the connection.
    pub(crate) connect_timeout: Option<Duration>,
    /// How often to run the command or a step, if that is said; negative is forever.
    pub(crate) repeat: Option<i64>,
    /// How long to wait between two runs or steps, if that is said.
    pub(crate) interval: Option<Duration>,
    pub(crate) input_as_last_argument: bool,
    pub(crate) input_tag: Option<Vec<u8>>,
    pub(crate) redirections: bool,
    pub(crate) error_code: bool,
    pub(crate) format: Format,
    pub(crate) element_delimiter: Vec<u8>,
    pub(crate) reply_delimiter: Vec<u8>,
    pub(crate) show_pushes: bool,
    pub(crate) eval: Option<Script>,
    pub(crate) mode: Mode,
    /// `None` is forever.
    pub(crate) pipe_timeout: Option<Duration>,
    /// Which keys SCAN is to list.
    pub(crate) scan_options: Vec<Vec<u8>>,
    pub(crate) command: Vec<Vec<u8>>,
}

/// A Lua script to run.
pub(crate) struct Script(PathBuf);

impl Script {
    /// The EVAL command for the script, with arguments as the command line gives them: `KEY ... , ARG ...`.
    pub(crate) fn into_command(self, arguments: &[Vec<u8>]) -> io::Result<Vec<Vec<u8>>> {
        let text = std::fs::read(&self.0).map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("Can't open file '{}': {}", self.0.display(), without_number(&error)),
            )
        })?;
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

/// Whether to show messages that answer no command.
fn shows_pushes(wish: Option<&str>, is_terminal: bool) -> Result<bool, String> {
    match wish {
        None => Ok(is_terminal),
        Some("yes" | "y") => Ok(true),
        Some("no" | "n") => Ok(false),
        Some(other) => Err(format!("Unknown --show-pushes value '{other}' (valid: '[y]es', '[n]o')")),
    }
}

impl Options {
    /// Checks what clap cannot, and fills in what comes from the environment.
    pub(crate) fn into_settings(self) -> Result<Settings, String> {
        let uri = self.uri.as_deref().map(Uri::parse).transpose()?.unwrap_or_default();
        // As redis-cli: with FAKETTY replies look as at a terminal.
        let terminal = io::stdout().is_terminal() || std::env::var_os("FAKETTY").is_some();
        if (self.password.is_some() || uri.password.is_some()) && !self.no_auth_warning {
            eprintln!("{PASSWORD_WARNING}");
        }
        let environment = std::env::var_os("REDISCLI_AUTH").map(OsStringExt::into_vec);
        let address = match self.socket {
            Some(path) => Address::Unix(path),
            None => {
                let (host, port) = (uri.host.unwrap_or(self.host), uri.port.unwrap_or(self.port));
                Address::host(host, port, self.tls.config(uri.tls)?)
            }
        };
        let interval = self.interval.map(Duration::try_from_secs_f64).transpose();
        let interval = interval.map_err(|_| "The interval is not a number of seconds.".to_owned())?;
        let connect_timeout = self.connect_timeout.map(Duration::try_from_secs_f64).transpose();
        let connect_timeout = connect_timeout
            .map_err(|_| "Invalid connection timeout for -t.".to_owned())?
            .filter(|timeout| !timeout.is_zero());
        let show_pushes = shows_pushes(self.show_pushes.as_deref(), terminal)?;
        let password = if self.askpass {
            let typed = crate::secret::ask("Please input password: ");
            Some(typed.map_err(|error| format!("Error: {error}"))?.into_bytes())
        } else {
            uri.password.or(self.password.map(String::into_bytes)).or(environment)
        };
        let json = self.json || self.quoted_json;
        let line_end = || b"\n".to_vec();
        let pattern = match self.quoted_pattern {
            Some(quoted) => Some(unquote(&quoted.into_vec())?),
            None => self.pattern.map(OsStringExt::into_vec),
        };
        let words = self.command.into_iter().flat_map(Words::into_bytes);
        let command = if self.quoted_input {
            words.map(|word| unquote(&word)).collect::<Result<_, _>>()?
        } else {
            words.collect()
        };
        Ok(Settings {
            address,
            user: uri.user.or(self.user.map(String::into_bytes)),
            password,
            database: self.database.or(uri.database).unwrap_or(0),
            resp3: self.resp3 || (json && !self.resp2),
            connect_timeout,
            repeat: self.repeat,
            interval,
            input_as_last_argument: self.input_as_last_argument,
            input_tag: self.input_tag.map(OsStringExt::into_vec),
            redirections: self.redirections,
            error_code: self.error_code,
            format: match () {
                () if self.csv => Format::Csv,
                () if self.json => Format::Json,
                () if self.quoted_json => Format::QuotedJson,
                () if self.raw || (!self.no_raw && !terminal) => Format::Raw,
                () => Format::Terminal,
            },
            element_delimiter: self.element_delimiter.map_or_else(line_end, OsStringExt::into_vec),
            reply_delimiter: self.reply_delimiter.map_or_else(line_end, OsStringExt::into_vec),
            show_pushes,
            eval: self.eval.map(Script),
            mode: self.mode.into_mode()?,
            pipe_timeout: (self.pipe_timeout > 0).then(|| Duration::from_secs(self.pipe_timeout)),
            scan_options: scan_options(pattern, self.count, self.kind),
            command,
        })
    }
}

/// What SCAN is to be told about the keys that are wanted.
fn scan_options(pattern: Option<Vec<u8>>, count: Option<u64>, kind: Option<String>) -> Vec<Vec<u8>> {
    let count = count.map(|count| count.to_string().into_bytes());
    let options = [("MATCH", pattern), ("COUNT", count), ("TYPE", kind.map(String::into_bytes))];
    let given = options.into_iter().filter_map(|(name, value)| Some((name, value?)));
    given.flat_map(|(name, value)| [name.as_bytes().to_vec(), value]).collect()
}

/// What is said of a word that is no quoted string, on standard output as redis-cli does.
pub(crate) const INVALID_QUOTES: &str = "Invalid quoted string";

/// The one word that a quoted string stands for.
fn unquote(quoted: &[u8]) -> Result<Vec<u8>, String> {
    match split_quoted(quoted) {
        Ok(mut words) if words.len() == 1 => Ok(words.swap_remove(0)),
        _ => Err(INVALID_QUOTES.to_owned()),
    }
}

/// What is wrong, without the number that the system adds.
pub(crate) fn without_number(error: &io::Error) -> String {
    let text = error.to_string();
    text.split_once(" (os error").map_or(text.clone(), |(text, _)| text.to_owned())
}

/// What people are told who put a password on the command line.
pub(crate) const PASSWORD_WARNING: &str =
    "Warning: Using a password with '-a' or '-u' option on the command line interface may not be safe.";

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
        assert_eq!(parse(&["-r", "-1", "-h", "host", "PING"]).repeat, Some(-1));
    }
}
