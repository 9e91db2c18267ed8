//! The command line of `mantissa benchmark`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Parser;

use super::workload::{KeyChoice, Mix, Sizes, Test};
use crate::target::{Target, TargetOptions};

/// Measure how fast a server is, with redis-benchmark's tests, a mixture of them, or one command.
#[derive(Parser, Debug)]
#[command(
    name = "mantissa benchmark",
    version,
    disable_help_flag = true,
    args_override_self = true,
    override_usage = "mantissa benchmark [OPTIONS] [COMMAND [ARGUMENT]...]"
)]
pub(crate) struct Options {
    #[command(flatten)]
    place: TargetOptions,
    /// Number of connections
    #[arg(short = 'c', long, value_name = "NUMBER", default_value_t = 50,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=100_000))]
    pub(crate) clients: usize,
    /// Number of requests of each test
    #[arg(short = 'n', long, value_name = "NUMBER", default_value_t = 100_000)]
    pub(crate) requests: u64,
    /// Measure for so many seconds, in place of a number of requests
    #[arg(long, value_name = "SECONDS")]
    pub(crate) duration: Option<f64>,
    /// Size of values in bytes: SIZE, MIN-MAX, or SIZE:WEIGHT,SIZE:WEIGHT...
    #[arg(short = 'd', long = "size", value_name = "SIZES", default_value = "3")]
    pub(crate) sizes: Sizes,
    /// Number of the database
    #[arg(long, value_name = "NUMBER")]
    dbnum: Option<u32>,
    /// Speak RESP3
    #[arg(short = '3')]
    resp3: bool,
    /// Number of threads
    #[arg(long, value_name = "NUMBER",
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=512))]
    pub(crate) threads: Option<usize>,
    /// Turn on CLIENT TRACKING first
    #[arg(long)]
    pub(crate) enable_tracking: bool,
    /// 1 keeps connections open, 0 connects anew for each request
    #[arg(short = 'k', value_name = "BOOLEAN", default_value_t = 1)]
    pub(crate) keep_alive: u8,
    /// Use random keys, members and scores out of so many; replaces __rand_int__ in commands
    #[arg(short = 'r', long, value_name = "NUMBER")]
    pub(crate) keyspace: Option<u64>,
    /// How keys are chosen: uniform, sequential, or zipfian[:EXPONENT]
    #[arg(long, value_name = "CHOICE", default_value = "uniform")]
    pub(crate) keys: KeyChoice,
    /// Requests in a pipeline
    #[arg(short = 'P', long, value_name = "NUMBER", default_value_t = 1,
          value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) pipeline: u64,
    /// Send so many requests a second in all, whether replies come or not; latency counts from the time at
    /// which a request was due
    #[arg(long, value_name = "NUMBER")]
    pub(crate) rate: Option<f64>,
    /// Only show requests a second
    #[arg(short = 'q')]
    pub(crate) quiet: bool,
    /// Decimal places of latencies
    #[arg(long, value_name = "NUMBER", default_value_t = 3)]
    pub(crate) precision: usize,
    /// Show results as comma-separated values
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Show results as JSON
    #[arg(long)]
    json: bool,
    /// Write a page with charts
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Run the tests forever
    #[arg(short = 'l')]
    pub(crate) run_forever: bool,
    /// Tests to run, separated by commas. Beyond redis-benchmark's: xadd, zadd_float, zincrby_float,
    /// zscore_float, zrangebyscore_float
    #[arg(short = 't', long, value_name = "TESTS", value_delimiter = ',')]
    tests: Vec<String>,
    /// A mixture of tests, with weights: get:9,set:1
    #[arg(long, value_name = "TEST:WEIGHT,...", conflicts_with = "tests")]
    mix: Option<Mix>,
    /// Open connections and wait
    #[arg(short = 'I')]
    pub(crate) idle: bool,
    /// Take the last argument of the command from standard input
    #[arg(short = 'x')]
    pub(crate) input_as_last_argument: bool,
    /// Measure another server as well, in alternating rounds, and show the ratios
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) compare: Option<String>,
    /// Number of rounds with --compare
    #[arg(long, value_name = "NUMBER", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub(crate) rounds: u32,
    /// Seed of all that is random
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Not supported: the server has no slots
    #[arg(long, hide = true)]
    cluster: bool,
    /// Errors are always shown, which redis-benchmark asks for so
    #[arg(short = 'e', hide = true)]
    shows_errors: bool,
    /// Print version
    #[arg(short = 'v', action = clap::ArgAction::Version, hide = true)]
    prints_version: Option<bool>,
    /// Print this help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    /// A command to measure in place of the tests
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// How results are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// A line for each test.
    Quiet,
    /// All figures.
    Full,
    /// Comma-separated values.
    Csv,
    /// JSON.
    Json,
}

impl Options {
    /// How to show results.
    pub(crate) fn form(&self) -> Form {
        match () {
            () if self.csv => Form::Csv,
            () if self.json => Form::Json,
            () if self.quiet => Form::Quiet,
            () => Form::Full,
        }
    }

    /// The server to measure.
    pub(crate) fn target(&self) -> Result<Target, String> {
        if self.cluster {
            return Err("--cluster is not supported: the server has no slots".to_owned());
        }
        if let Some(option) = self.command.first().filter(|word| word.as_encoded_bytes().starts_with(b"-")) {
            let option = option.to_string_lossy();
            return Err(format!("Invalid option \"{option}\" or option argument missing"));
        }
        if self.password_is_shown() {
            eprintln!("{}", crate::options::PASSWORD_WARNING);
        }
        let mut target = self.place.target()?;
        target.database = self.dbnum.unwrap_or(target.database);
        target.resp3 = self.resp3;
        Ok(target)
    }

    fn password_is_shown(&self) -> bool {
        self.place.password.is_some()
    }

    /// What is to be measured.
    pub(crate) fn tests(&self) -> Result<Vec<Test>, String> {
        if !self.command.is_empty() {
            return Ok(vec![Test::of_command(&self.command)]);
        }
        if let Some(mix) = &self.mix {
            return Ok(vec![mix.test(self.keyspace.is_some())]);
        }
        if self.tests.is_empty() {
            return Ok(Test::all(self.keyspace.is_some()));
        }
        let mut tests = Vec::new();
        for name in &self.tests {
            tests.extend(Test::named(name, self.keyspace.is_some())?);
        }
        Ok(tests)
    }
}
