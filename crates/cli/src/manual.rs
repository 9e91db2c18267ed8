//! Completions for shells and man pages, from the same definitions as the command lines.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, Command, CommandFactory, Parser, ValueEnum};
use clap_complete::Shell;

use crate::benchmark::CommandLine as BenchmarkOptions;
use crate::check::CheckOptions;
use crate::options::Options;
use crate::transfer::{ExportOptions, ImportOptions};

/// Print the completions of a shell: `source <(mantissa completions bash)`.
#[derive(Parser, Debug)]
#[command(name = "mantissa completions", bin_name = "mantissa completions", version)]
struct CompletionOptions {
    /// The shell
    #[arg(value_enum)]
    shell: Shells,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shells {
    Bash,
    Zsh,
    Fish,
}

/// Write the man pages to a folder.
#[derive(Parser, Debug)]
#[command(name = "mantissa manual", bin_name = "mantissa manual", version)]
struct ManualOptions {
    /// The folder
    folder: PathBuf,
}

/// The whole program as one definition.
fn program() -> Command {
    let server = Command::new("server")
        .about("Run the server")
        .disable_help_flag(true)
        .arg(Arg::new("config").value_name("CONFIG-FILE").help("A config file, as redis-server's"));
    let named = |command: Command, name: &'static str| command.name(name).disable_version_flag(true);
    Command::new("mantissa")
        .about("An in-memory data server that speaks Redis's protocol, and tools for such servers")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand(server)
        .subcommand(named(Options::command(), "cli"))
        .subcommand(named(BenchmarkOptions::command(), "benchmark"))
        .subcommand(named(ImportOptions::command(), "import"))
        .subcommand(named(ExportOptions::command(), "export"))
        .subcommand(named(CheckOptions::command(), "check"))
        .subcommand(named(CompletionOptions::command(), "completions"))
        .subcommand(named(ManualOptions::command(), "manual"))
}

/// Runs `mantissa completions` with these arguments, of which the first is the name it was called by.
pub fn completions(args: impl Iterator<Item = OsString>) -> ExitCode {
    let options = CompletionOptions::parse_from(args);
    let shell = match options.shell {
        Shells::Bash => Shell::Bash,
        Shells::Zsh => Shell::Zsh,
        Shells::Fish => Shell::Fish,
    };
    clap_complete::generate(shell, &mut program(), "mantissa", &mut io::stdout());
    ExitCode::SUCCESS
}

/// Runs `mantissa manual` with these arguments, of which the first is the name it was called by.
pub fn manual(args: impl Iterator<Item = OsString>) -> ExitCode {
    let options = ManualOptions::parse_from(args);
    let written = fs::create_dir_all(&options.folder)
        .and_then(|()| clap_mangen::generate_to(program(), &options.folder));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", options.folder.display());
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_are_consistent() {
        program().debug_assert();
    }
}
