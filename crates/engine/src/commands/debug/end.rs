//! The subcommands of DEBUG that end the server.

use mantissa_sys::simulation;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use mantissa_commands::{Error, Outcome, parse};
use mantissa_protocol::Args;

use crate::engine::Engine;
use crate::invocation::Invocation;
use crate::{notice, persistence, warning};
use mantissa_config::ShutdownFlags;
use mantissa_sys::clock::unix_ms;

/// What is asked for when memory is exhausted.
const TOO_MANY_BYTES: i64 = i64::MAX;

/// DEBUG SEGFAULT.
pub(super) fn segfault() {
    mantissa_sys::crash::fault();
}

/// DEBUG PANIC.
pub(super) fn panic(engine: &Engine) -> ! {
    guru(engine, &format!("DEBUG PANIC called at Unix time {}", unix_ms() / 1000))
}

/// DEBUG OOM.
pub(super) fn out_of_memory(engine: &Engine) -> ! {
    warning!("Out Of Memory allocating {TOO_MANY_BYTES} bytes!");
    guru(engine, &format!("Redis aborting for OUT OF MEMORY. Allocating {TOO_MANY_BYTES} bytes!"))
}

/// DEBUG ASSERT.
pub(super) fn assertion(engine: &Engine) -> ! {
    engine.host().abort(format!("=== ASSERTION FAILED ===\n==> {} '1 == 2' is not true", place()))
}

fn guru(engine: &Engine, message: &str) -> ! {
    engine.host().abort(format!(
        "------------------------------------------------\n\
         !!! Software Failure. Press left mouse button to continue\n\
         Guru Meditation: {message} #{}\n\
         ------------------------------------------------",
        place()
    ))
}

fn place() -> String {
    format!("{}:{}", file!(), line!())
}

/// DEBUG RESTART and DEBUG CRASH-AND-RECOVER: starts the program anew, with the same arguments.
pub(super) fn restart(invocation: &mut Invocation<'_, '_, '_>, args: Args<'_>, gracefully: bool) -> Outcome {
    const FAILED: Error = Error::fixed("ERR failed to restart the server. Check server logs.");
    let delay_ms = args
        .get(2)
        .map(|text| parse::integer_in(text, 0, i64::MAX, "ERR value is out of range, must be positive"));
    let delay_ms = delay_ms.transpose()?.unwrap_or(0);
    let engine = invocation.engine();
    if gracefully && !persistence::save_before_exit(engine, ShutdownFlags::default()) {
        return Err(FAILED);
    }
    notice!("The server starts anew in {delay_ms} ms");
    simulation::sleep(Duration::from_millis(delay_ms.unsigned_abs()));
    if gracefully {
        crate::aof::backup::end(engine);
        crate::aof::finish(engine);
    }
    let mut words = std::env::args_os();
    let name: OsString = words.next().unwrap_or_else(|| "redis-server".into());
    let error = Command::new("/proc/self/exe").arg0(name).args(words).exec();
    warning!("The server could not start anew: {error}");
    Err(FAILED)
}
