//! Completions for shells and man pages, from the same definitions as the command lines; the man page of the
//! configuration file is made from the table of directives.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Arg, Command, CommandFactory, Parser, ValueEnum};
use clap_complete::Shell;
use mantissa_config::reference::{self, roff};

use crate::archive::ArchiveOptions;
use crate::benchmark::CommandLine as BenchmarkOptions;
use crate::check::CheckOptions;
use crate::options::Options;
use crate::probe::ProbeOptions;
use crate::transfer::{ExportOptions, ImportOptions};
use crate::upgrade::UpgradeOptions;

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
        .arg(Arg::new("config").value_name("CONFIG-FILE").help("A config file, as redis-server's"))
        .arg(Arg::new("directives").value_name("--DIRECTIVE VALUE").num_args(0..).last(true).help(
            "Any directive of mantissa.conf(5), with two dashes in front; it wins over the file. A dash as \
             the last argument reads more directives from standard input",
        ));
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
        .subcommand(named(ArchiveOptions::command(), "archive"))
        .subcommand(named(UpgradeOptions::command(), "upgrade"))
        .subcommand(named(ProbeOptions::command(), "probe"))
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
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut program(), "mantissa", &mut text);
    crate::output::say(&text)
}

/// What the man pages of the program and of the server say beyond the options: a heading, then what is
/// described and the description.
type Part = (&'static str, &'static [(&'static str, &'static str)]);

const PROGRAM_PARTS: [Part; 3] = [
    (
        "OTHER NAMES",
        &[(
            "`redis-server`, `redis-cli`, `redis-benchmark`, `redis-check-rdb`, `redis-check-aof`",
            "Called by one of these names, or by one that begins with `valkey-`, for instance through a \
                 link, the program does what that program does.",
        )],
    ),
    (
        "ENVIRONMENT",
        &[
            ("`REDISCLI_AUTH`", "The password for the tools, where no option gives one."),
            (
                "`MANTISSA_HISTORY`",
                "The file of the prompt's history; empty keeps none. The default is what \
                 `REDISCLI_HISTFILE` names, else ~/.mantissa_history.",
            ),
            ("`MANTISSA_RC`", "The file of the prompt's preferences. The default is ~/.mantissarc."),
            ("`PAGER`", "The program that shows long replies at the prompt."),
            ("`NO_COLOR`", "Prints without colours where it is not empty."),
            ("`SSL_CERT_FILE`", "Certificate authorities that the tools trust, where no option names them."),
        ],
    ),
    (
        "EXIT STATUS",
        &[
            ("0", "Done."),
            (
                "1",
                "Not done: no connection, damage in a file that was checked, options that were not \
                 understood; with `mantissa cli -e` an error reply.",
            ),
            ("2", "There is no such subcommand."),
        ],
    ),
];

const SERVER_PARTS: [Part; 3] = [
    (
        "SIGNALS",
        &[
            (
                "`SIGTERM`, `SIGINT`",
                "End the server. By default it saves a dump first if save points are set; see \
                 shutdown-on-sigterm and shutdown-on-sigint. Where saving fails the server goes on. A second \
                 SIGINT ends it at once, with status 1.",
            ),
            ("`SIGHUP`", "Opens the log file again, after it was moved away for log rotation."),
            (
                "`SIGSEGV`, `SIGBUS`, `SIGFPE`, `SIGILL`, `SIGABRT`",
                "Write a crash report to the log and end the server by the same signal; see \
                 crash-log-enabled.",
            ),
            ("`SIGALRM`", "Where watchdog-period is set, logs where the threads are."),
        ],
    ),
    (
        "FILES",
        &[
            (
                "mantissa.conf",
                "The configuration; its path is given on the command line. See mantissa.conf(5).",
            ),
            ("dump.rdb", "The dump, in the folder dir; its name is dbfilename."),
            (
                "appendonlydir/",
                "The append-only file, in the folder dir: a base file, increments, a manifest. Its names are \
                 appenddirname and appendfilename.",
            ),
            ("/var/run/mantissa.pid", "The process id, in the background; another name is pidfile."),
        ],
    ),
    (
        "EXIT STATUS",
        &[
            ("0", "The server was told to end, and what was to be saved is saved."),
            (
                "1",
                "The configuration is wrong, an address is not free, data could not be loaded, or the last \
                 changes could not be saved. Standard error or the log says which.",
            ),
            ("a signal", "The server crashed; the report is in the log."),
        ],
    ),
];

/// Adds parts to a page, before its last one, which tells the version.
fn add_parts(page: &Path, parts: &[Part], see_also: &str) -> io::Result<()> {
    let text = fs::read_to_string(page)?;
    let (before, after) = text.split_at(text.rfind(".SH VERSION").unwrap_or(text.len()));
    let mut out = before.to_owned();
    for (heading, entries) in parts {
        out += &format!(".SH {}\n", roff(heading));
        for (what, about) in *entries {
            out += &format!(".TP\n{}\n{}\n", roff(what), roff(about));
        }
    }
    fs::write(page, out + &format!(".SH SEE ALSO\n{}\n", roff(see_also)) + after)
}

/// Writes all man pages.
fn write_manual(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    clap_mangen::generate_to(program(), folder)?;
    add_parts(&folder.join("mantissa.1"), &PROGRAM_PARTS, "mantissa-server(1), mantissa.conf(5)")?;
    add_parts(&folder.join("mantissa-server.1"), &SERVER_PARTS, "mantissa(1), mantissa.conf(5)")?;
    fs::write(folder.join("mantissa.conf.5"), reference::manual_page(env!("CARGO_PKG_VERSION")))
}

/// Runs `mantissa manual` with these arguments, of which the first is the name it was called by.
pub fn manual(args: impl Iterator<Item = OsString>) -> ExitCode {
    let options = ManualOptions::parse_from(args);
    match write_manual(&options.folder) {
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
