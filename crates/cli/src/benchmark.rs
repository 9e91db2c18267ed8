//! `mantissa benchmark`: how fast a server is.
//!
//! Options, tests and the shape of the output are those of redis-benchmark. Beyond it: a fixed rate that does
//! not wait for replies, so that a stall counts for every request that it delays; distributions of keys and
//! sizes; mixtures of commands; two servers in alternating rounds; the server's processor time for each
//! operation; JSON and HTML.
//!
//! | module | what it does |
//! | --- | --- |
//! | `options` | the command line |
//! | `workload` | what is sent |
//! | `engine` | connections that send and wait, on one or more threads |
//! | `replies` | counting replies without keeping them |
//! | `report` | figures as text, CSV and JSON |
//! | `compare` | two servers side by side |
//! | `page` | a page with charts |
//! | `estimate` | medians of rounds |
//! | `provenance` | the date and the command line |

mod compare;
mod engine;
mod estimate;
mod options;
mod page;
pub(crate) mod provenance;
mod replies;
mod report;
mod workload;

use std::ffi::OsString;
use std::io::{self, IsTerminal, Read};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use self::engine::{Outcome, Plan};
use self::options::{Form, Options};
use self::workload::Test;
use crate::output::tell;
use crate::target::{Target, ask};
use crate::usage;

/// Runs the program with these arguments, of which the first is the name it was called by.
pub fn run(args: impl Iterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.collect();
    let options = match Options::try_parse_from(&args) {
        Ok(options) => options,
        Err(error) => return usage::explain::<Options>(&args, &error),
    };
    match run_with(options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

pub(crate) use self::engine::LATENCY_MAX_US;
pub(crate) use self::estimate::Estimate;
pub(crate) use self::options::Options as CommandLine;
pub(crate) use self::page::escape;

/// A server and what it says about itself.
pub(crate) struct Subject {
    target: Target,
    name: String,
    save: String,
    append_only: String,
}

impl Subject {
    fn new(target: Target) -> io::Result<Subject> {
        let mut connection = target.open()?;
        let mut setting = |name: &str| -> String {
            let reply = ask(&mut connection, &["CONFIG", "GET", name]).ok();
            let value = reply.as_ref().and_then(|reply| reply.as_elements()?.get(1)?.as_bytes());
            value.map(|value| String::from_utf8_lossy(value).into_owned()).unwrap_or_default()
        };
        let (save, append_only) = (setting("save"), setting("appendonly"));
        let info = ask(&mut connection, &["INFO", "server"]).ok();
        let text = info.as_ref().and_then(|info| info.as_bytes()).map(String::from_utf8_lossy);
        let text = text.unwrap_or_default();
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
        let version = field("mantissa_version:")
            .map(|version| format!("mantissa {version}"))
            .or(field("valkey_version:").map(|version| format!("valkey {version}")))
            .or(field("redis_version:").map(|version| format!("redis {version}")));
        let name = format!("{} ({})", target.address.plain(), version.unwrap_or("unknown".to_owned()));
        Ok(Subject { target, name, save, append_only })
    }

    /// The processor time that the server has used so far; `None` if it does not say.
    fn processor_time(&self) -> Option<Duration> {
        let mut connection = self.target.open().ok()?;
        let info = ask(&mut connection, &["INFO", "cpu"]).ok()?;
        let text = String::from_utf8_lossy(info.as_bytes()?).into_owned();
        let seconds = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.parse::<f64>().ok());
        Duration::try_from_secs_f64(seconds("used_cpu_sys:")? + seconds("used_cpu_user:")?).ok()
    }
}

/// What came of a test.
pub(crate) struct Measured {
    pub(crate) title: String,
    pub(crate) outcome: Outcome,
    /// Processor time of the server for an operation.
    pub(crate) processor_us: Option<f64>,
}

fn run_with(mut options: Options) -> io::Result<bool> {
    if options.input_as_last_argument {
        let mut input = Vec::new();
        io::stdin().read_to_end(&mut input)?;
        options.command.push(OsString::from(String::from_utf8_lossy(&input).into_owned()));
    }
    let target = options.target().map_err(io::Error::other)?;
    if options.idle {
        return idle(&target, options.clients);
    }
    let tests = options.tests().map_err(io::Error::other)?;
    let subject = Subject::new(target)?;
    if let Some(place) = &options.compare {
        let other = Target::parse(place, Some(&subject.target)).map_err(io::Error::other)?;
        return compare::run(&options, &subject, &Subject::new(other)?, &tests);
    }
    let mut failed = false;
    loop {
        let mut results = Vec::new();
        if options.form() == Form::Csv {
            report::print_csv_heading(io::stdout().lock())?;
        }
        for test in &tests {
            let measured = measure(&options, &subject, test, io::stdout().is_terminal())?;
            report::print(&options, &subject, &measured, io::stdout().lock())?;
            failed |= measured.outcome.errors > 0;
            if let Some(error) = &measured.outcome.first_error {
                eprintln!("Error from server {}: {error}", subject.target.address.plain());
            }
            results.push(measured);
        }
        match options.form() {
            Form::Json => report::print_json(&options, &subject, &results, io::stdout().lock())?,
            Form::Quiet | Form::Full => tell!("")?,
            Form::Csv => {}
        }
        if let Some(path) = &options.html {
            std::fs::write(path, {
                let tests = results.iter().map(|one| vec![one]).collect();
                page::write(&options, &[page::Side { subject: &subject, tests }], &[])
            })?;
        }
        if !options.run_forever {
            return Ok(!failed);
        }
    }
}

/// Runs a test.
fn measure(options: &Options, subject: &Subject, test: &Test, shows_progress: bool) -> io::Result<Measured> {
    let plan = Plan::new(options, &subject.target, test);
    let before = subject.processor_time();
    let outcome = engine::run(&plan, shows_progress && options.form() != Form::Json)?;
    let used = before.zip(subject.processor_time()).map(|(before, after)| after.saturating_sub(before));
    let count = outcome.requests().max(1) as f64;
    let processor_us = used.map(|used| used.as_secs_f64() * 1e6 / count);
    Ok(Measured { title: test.title.clone(), outcome, processor_us })
}

/// Opens connections and keeps them open until the program is ended, or the server ends one of them.
fn idle(target: &Target, clients: usize) -> io::Result<bool> {
    /// What is readable may be no reply, with TLS.
    const REPLY_WAIT: Duration = Duration::from_millis(100);
    tell!("Creating {clients} idle connections and waiting forever (Ctrl+C when done)")?;
    let mut connections = (0..clients).map(|_| target.open()).collect::<io::Result<Vec<_>>>()?;
    let mut poll = Poll::new()?;
    for (number, connection) in connections.iter().enumerate() {
        connection.set_read_timeout(Some(REPLY_WAIT))?;
        let descriptor = connection.descriptor();
        poll.registry().register(&mut SourceFd(&descriptor), Token(number), Interest::READABLE)?;
    }
    let mut events = Events::with_capacity(64);
    loop {
        match poll.poll(&mut events, None) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        for event in &events {
            let Some(connection) = connections.get_mut(event.token().0) else { continue };
            match connection.receive() {
                Ok(reply) => {
                    if let Some(error) = reply.as_error() {
                        let text = String::from_utf8_lossy(error);
                        return Err(io::Error::other(format!("Error from server: {text}")));
                    }
                }
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                }
                Err(error) => return Err(io::Error::other(format!("Error: {error}"))),
            }
        }
    }
}
