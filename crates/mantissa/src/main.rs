//! The `mantissa` program: its subcommands.
#![forbid(unsafe_code)]

use std::ffi::OsString;
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
  mantissa completions SHELL                              Print completions for bash, zsh or fish
  mantissa manual FOLDER                                  Write man pages
  mantissa --version                                      Print the version
";

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
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
