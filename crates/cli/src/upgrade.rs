//! `mantissa upgrade`: a running server goes on as another process.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use mantissa_protocol::Value;

use crate::connection::Connection;
use crate::output::{self, tell};
use crate::target::{TargetOptions, ask};
use crate::usage;

/// Have a running server go on as another process, which closes no connection
///
/// The process may be of another version of the program, and have other settings, of those too that can not
/// be changed while a server runs. It gets all data and connections. The data are in memory twice for a
/// while. If anything fails, the running server goes on as if nothing had happened.
#[derive(Parser, Debug)]
#[command(
    name = "mantissa upgrade",
    bin_name = "mantissa upgrade",
    version,
    disable_help_flag = true,
    override_usage = "mantissa upgrade [OPTIONS] [-- --DIRECTIVE VALUE ...]"
)]
pub(crate) struct UpgradeOptions {
    /// The program that goes on; the file that the server was started from, if this is not given
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    #[command(flatten)]
    target: TargetOptions,
    /// Print this help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    /// Directives as `mantissa server` takes them, beside those that are in force
    #[arg(last = true, value_name = "--DIRECTIVE VALUE")]
    directives: Vec<OsString>,
}

/// Runs it with these arguments, of which the first is the name it was called by.
pub fn run(args: impl Iterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.collect();
    let options = match UpgradeOptions::try_parse_from(&args) {
        Ok(options) => options,
        Err(error) => return usage::explain::<UpgradeOptions>(&args, &error),
    };
    match upgrade(&options).and_then(|text| tell!("{text}")) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => output::fail(&error),
    }
}

fn upgrade(options: &UpgradeOptions) -> io::Result<String> {
    let target = options.target.target().map_err(io::Error::other)?;
    let mut connection = target.open()?;
    let before = process_id(&mut connection);
    let mut command: Vec<Vec<u8>> = vec![b"MANTISSA.UPGRADE".to_vec()];
    if let Some(binary) = &options.binary {
        let path = std::path::absolute(binary)?;
        command.extend([b"BINARY".to_vec(), path.into_os_string().into_vec()]);
    }
    if !options.directives.is_empty() {
        command.push(b"OPTION".to_vec());
        command.extend(options.directives.iter().cloned().map(OsStringExt::into_vec));
    }
    let bar = ProgressBar::new_spinner().with_style(ProgressStyle::default_spinner());
    bar.set_message("the new process gets the data");
    bar.enable_steady_tick(Duration::from_millis(100));
    let began = Instant::now();
    let reply = ask(&mut connection, &command);
    bar.finish_and_clear();
    let reply = match reply {
        Ok(reply) => reply,
        Err(error) => {
            // Connections with TLS do not go over: who serves tells whether the upgrade has succeeded.
            let serving = target.open().ok().and_then(|mut connection| process_id(&mut connection));
            return match (before, serving) {
                (Some(before), Some(serving)) if serving != before => {
                    Ok(format!("process {serving} serves, after {:.1} s", began.elapsed().as_secs_f64()))
                }
                _ => Err(error),
            };
        }
    };
    match reply {
        Value::Simple(text) => {
            let text = String::from_utf8_lossy(&text).into_owned();
            let text = text.strip_prefix("OK ").unwrap_or(&text).to_owned();
            Ok(format!("{text}, after {:.1} s", began.elapsed().as_secs_f64()))
        }
        other => Err(io::Error::other(format!("an unexpected reply: {other:?}"))),
    }
}

/// The process that serves, as INFO says it.
fn process_id(connection: &mut Connection) -> Option<u32> {
    let reply = ask(connection, &[b"INFO".to_vec(), b"server".to_vec()]).ok()?;
    let text = String::from_utf8_lossy(reply.as_bytes()?).into_owned();
    text.lines().find_map(|line| line.strip_prefix("process_id:")?.trim().parse().ok())
}
