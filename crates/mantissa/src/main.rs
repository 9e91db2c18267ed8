//! The `mantissa` program: its subcommands.
#![forbid(unsafe_code)]

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

/// The arguments, with the subcommand that the program's own name stands for.
fn arguments() -> impl Iterator<Item = OsString> {
    let mut words = std::env::args_os();
    let program = words.next().map(PathBuf::from);
    let name = program.as_deref().and_then(Path::file_name).and_then(OsStr::to_str).unwrap_or_default();
    let other = name.strip_prefix("redis-").or_else(|| name.strip_prefix("valkey-"));
    let known = OTHER_NAMES.iter().find(|(known, _)| other == Some(known));
    let meant = known.map_or(&[][..], |(_, meant)| meant);
    meant.iter().map(OsString::from).chain(words)
}

fn main() -> ExitCode {
    let mut arguments = arguments();
    let subcommand = arguments.next().unwrap_or_default();
    let rest: Vec<OsString> = arguments.collect();
    match subcommand.to_str() {
        Some("server") => mantissa_server::run(&rest),
        Some("cli") => mantissa_cli::run(std::iter::once(subcommand).chain(rest)),
        Some("benchmark") => mantissa_cli::benchmark(std::iter::once(subcommand).chain(rest)),
        Some("import") => mantissa_cli::import(std::iter::once(subcommand).chain(rest)),
        Some("export") => mantissa_cli::export(std::iter::once(subcommand).chain(rest)),
        Some("check") => mantissa_cli::check(std::iter::once(subcommand).chain(rest)),
        Some("completions") => mantissa_cli::completions(std::iter::once(subcommand).chain(rest)),
        Some("manual") => mantissa_cli::manual(std::iter::once(subcommand).chain(rest)),
        Some("--version" | "-v" | "version") => {
            println!("mantissa {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        Some("--help" | "-h" | "help") => {
            print!("{USAGE}");
            ExitCode::SUCCESS
        }
        _ => {
            eprint!("{USAGE}");
            ExitCode::from(2)
        }
    }
}
