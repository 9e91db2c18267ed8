//! Writing the log: by a thread of its own, or by the worker that waits for it where that is quicker.

use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mantissa_persist::aof::{Failure, SyncPolicy, Writer};

use crate::inbox::Message;
use crate::server::Server;
use crate::{notice, warning};

/// How long it sleeps if nobody wakes it.
const SLEEP_MAX: Duration = Duration::from_secs(3600);
/// How long it gathers what is logged before it writes, where nobody waits for that.
const GATHERING: Duration = Duration::from_millis(1);

/// Starts it.
pub(super) fn start(server: &'static Server) -> io::Result<()> {
    let aof = &server.aof;
    aof.writer.lock().start_syncer()?;
    let body = move || {
        mantissa_net::process::take_short_turns();
        loop {
            let pause = aof.writer.lock().pause(Instant::now(), SLEEP_MAX);
            aof.log.wait(&pause);
            let mut writer = aof.writer.lock();
            writer.gather();
            turn(server, &mut writer);
            drop(writer);
            if server.aof.log.policy() != SyncPolicy::Always && !server.stopping.load(Ordering::Relaxed) {
                std::thread::sleep(GATHERING);
            }
        }
    };
    std::thread::Builder::new().name("aof".to_owned()).spawn(body).map(drop)
}

/// Writes the log on a worker that has something in it to be made durable, if nobody else writes and it is
/// quick. False if there is something left to do.
pub fn write_at_once(server: &'static Server, worker: usize) -> bool {
    let aof = &server.aof;
    let Some(mut writer) = aof.writer.try_lock() else { return false };
    if !writer.is_quick() {
        return false;
    }
    aof.await_no_longer(worker);
    turn(server, &mut writer);
    writer.is_idle()
}

fn turn(server: &'static Server, writer: &mut Writer) {
    let aof = &server.aof;
    let (before, was_stalled) = (aof.log.durable(), aof.log.is_stalled());
    let outcome = writer.turn(Instant::now());
    aof.increment_bytes.store(writer.file_bytes(), Ordering::Relaxed);
    let is_lost = matches!(outcome, Err(Failure::Closed(_)));
    if is_lost || aof.log.durable() > before {
        aof.tell_durable(server, is_lost);
    }
    if was_stalled && !aof.log.is_stalled() {
        server.send_all(|| Message::Resume);
    }
    match outcome {
        Ok(()) => {
            if !writer.is_failing() && aof.write_failed.swap(false, Ordering::Relaxed) {
                notice!("AOF write error looks solved. The server can write again.");
            }
        }
        Err(Failure::Switch(error)) => warning!("The next file of the AOF could not be begun: {error}"),
        Err(Failure::Closed(error)) => {
            warning!("The AOF is switched off without what could not be written: {}", reason(&error));
        }
        Err(Failure::Write(error)) => fail(server, "write", &error),
        Err(Failure::Sync(error)) => {
            fail(server, "fsync", &error);
            // The system has dropped what it could not write: only a new base has it for sure.
            aof.rewrite.is_scheduled.store(true, Ordering::Relaxed);
        }
    }
}

/// Notes an error, after which writes are refused. With `appendfsync always` the server ends: it could keep
/// no promise.
fn fail(server: &'static Server, what: &str, error: &io::Error) {
    let aof = &server.aof;
    let reason = reason(error);
    if aof.log.policy() == SyncPolicy::Always {
        warning!(
            "AOF {what} error: {reason}. The fsync policy is 'always', so the server can't go on. Exiting..."
        );
        std::process::exit(1);
    }
    if !aof.write_failed.swap(true, Ordering::Relaxed) {
        warning!("AOF {what} error: {reason}. Writes are refused until it is solved.");
    }
    *aof.write_error.lock() = reason;
}

/// What the system says about an error, without its number.
pub(super) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}
