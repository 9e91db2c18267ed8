//! The `mantissa` program: its subcommands.
#![forbid(unsafe_code)]

mod guess;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mantissa_server::CountingAllocator = mantissa_server::CountingAllocator;

const USAGE: &str = "\
Mantissa: an in-memory data server that speaks Redis's protocol.

Usage:
  mantissa server [CONFIG-FILE] [--DIRECTIVE VALUE ...]   Run the server
  mantissa cli [OPTIONS] [COMMAND ...]                    Talk to a server
  mantissa benchmark [OPTIONS] [COMMAND ...]              Measure how fast a server is
  mantissa import [OPTIONS] SOURCE                        Copy a live server or a file into a server
  mantissa export [OPTIONS] FILE                          Write a server's data to a file
  mantissa check rdb FILE [--json] [--top N]              Look through a dump
  mantissa check aof PATH [--fix] [--yes]                 Look through an append-only file, repair its end
  mantissa archive COMMAND ARCHIVE [...]                  Keep snapshots, each byte of equal data once
  mantissa upgrade [--binary PATH] [-- --DIRECTIVE VALUE] Have a running server go on as another process
  mantissa probe [OPTIONS]                                Measure what this machine can do
  mantissa completions SHELL                              Print completions for bash, zsh or fish
  mantissa manual FOLDER                                  Write man pages
  mantissa --version                                      Print the version

Called redis-server, redis-cli, redis-benchmark, redis-check-aof or redis-check-rdb (or valkey-... instead of
redis-...), it does what that program does. `mantissa server --help` says more about the server.
";

/// Names of programs of Redis and Valkey, without `redis-` and `valkey-`, under which this one does their
/// work, as what.
const OTHER_NAMES: [(&str, &[&str]); 5] = [
    ("server", &["server"]),
    ("cli", &["cli"]),
    ("benchmark", &["benchmark"]),
    ("check-aof", &["check", "aof"]),
    ("check-rdb", &["check", "rdb"]),
];

/// The name under which the program was called, if it is one of [`OTHER_NAMES`], and the arguments with the
/// subcommand that it stands for.
fn arguments() -> (Option<OsString>, Vec<OsString>) {
    let mut words = std::env::args_os();
    let program = words.next().map(PathBuf::from);
    let name = program.as_deref().and_then(Path::file_name).and_then(OsStr::to_str).unwrap_or_default();
    let other = name.strip_prefix("redis-").or_else(|| name.strip_prefix("valkey-"));
    let known = OTHER_NAMES.iter().find(|(known, _)| other == Some(known));
    let meant = known.map_or(&[][..], |(_, meant)| meant);
    let alias = known.map(|_| OsString::from(name));
    (alias, meant.iter().map(OsString::from).chain(words).collect())
}

fn main() -> ExitCode {
    let (alias, arguments) = arguments();
    let (subcommand, rest) = match arguments.split_first() {
        Some((subcommand, rest)) => (subcommand.clone(), rest.to_vec()),
        None => (OsString::new(), Vec::new()),
    };
    // Of `check` the first word says what is checked.
    let first = rest.get(usize::from(subcommand == "check"));
    let asks_version = first.is_some_and(|word| word == "-v" || word == "--version");
    if let Some(name) = alias.as_ref().filter(|_| asks_version && subcommand != "server") {
        let (name, own) = (name.to_string_lossy(), env!("CARGO_PKG_VERSION"));
        return mantissa_cli::say(
            format!("{name} {} (mantissa {own})\n", mantissa_server::REDIS_VERSION).as_bytes(),
        );
    }
    let name = alias.unwrap_or_else(|| subcommand.clone());
    match subcommand.to_str() {
        Some("server") => mantissa_server::run(&rest),
        Some("cli") => mantissa_cli::run(std::iter::once(name).chain(rest)),
        Some("benchmark") => mantissa_cli::benchmark(std::iter::once(name).chain(rest)),
        Some("import") => mantissa_cli::import(std::iter::once(subcommand).chain(rest)),
        Some("export") => mantissa_cli::export(std::iter::once(subcommand).chain(rest)),
        Some("check") => mantissa_cli::check(std::iter::once(subcommand).chain(rest)),
        Some("archive") => mantissa_cli::archive(std::iter::once(subcommand).chain(rest)),
        Some("upgrade") => mantissa_cli::upgrade(std::iter::once(subcommand).chain(rest)),
        Some("probe") => mantissa_cli::probe(std::iter::once(subcommand).chain(rest)),
        Some("completions") => mantissa_cli::completions(std::iter::once(subcommand).chain(rest)),
        Some("manual") => mantissa_cli::manual(std::iter::once(subcommand).chain(rest)),
        Some("--version" | "-v" | "version") => {
            mantissa_cli::say(concat!("mantissa ", env!("CARGO_PKG_VERSION"), "\n").as_bytes())
        }
        Some("--help" | "-h" | "help") => mantissa_cli::say(USAGE.as_bytes()),
        _ if arguments.is_empty() => {
            eprint!("{USAGE}");
            ExitCode::from(2)
        }
        _ => {
            eprintln!("{}", guess::complaint(&arguments));
            ExitCode::from(2)
        }
    }
}
