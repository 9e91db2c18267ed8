//! A disk that fails, or is full, and with `everysec` works again.
//!
//! - What has been acknowledged is there after a crash, as far as `appendfsync` promises it; the log is the
//!   state after some unit.
//! - While the log can not be written, writes are refused.
//! - With `everysec` the log goes on once the disk works. With `always` something is lost that was promised
//!   to be durable: writes stay refused.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use mantissa_protocol::Value;
use mantissa_sys::simulation;

use crate::crash::{self, Policy, Recording};
use crate::disk::Disk;
use crate::history::{Operation, Transaction};
use crate::scenario::{self, LIST_COUNT, Run, start, wait_until};
use crate::scheduler::Random;

const WRITERS_MAX: u64 = 6;
const CALLS_MAX: u64 = 20;
/// Clients that do not write.
const OTHER_CLIENTS: usize = 2;
/// Among how many operations of the disk it begins to fail, and how many fail.
const OPERATIONS_MAX: u64 = 80;
const FAILURES_MAX: u64 = 5;
/// Room on a disk that is filled: less than the run writes.
const ROOM_BYTES_MAX: u64 = 6000;
/// A failed write is tried again a second later, and what a failed sync leaves is written anew after that.
const RECOVERY_ROUNDS: usize = 100;
const ROUND: Duration = Duration::from_millis(100);

/// Runs one seed.
pub fn run(random: &mut Random) {
    let policy = [Policy::EverySecond, Policy::Always][random.below(2) as usize];
    let sessions = 1 + random.below(WRITERS_MAX);
    let disk = Disk::default();
    let run = Run::open(&disk, policy, sessions as usize + OTHER_CLIENTS);
    let recording = Recording::begin(run.store.engine());
    // Where the disk has no room to preallocate, the log has no checksums with `always` either.
    scenario::set_crashes(&run, &disk, true, random);
    match random.below(3) {
        0 => disk.fill_up_after(random.below(ROOM_BYTES_MAX)),
        kind => {
            let kind = [io::ErrorKind::StorageFull, io::ErrorKind::Other][kind as usize - 1];
            disk.fail(random.below(OPERATIONS_MAX), 1 + random.below(FAILURES_MAX), kind);
        }
    }
    for _ in 0..sessions {
        let (seed, run) = (random.draw(), Arc::clone(&run));
        start("writer", move || write(&run, &mut Random(seed)));
    }
    scenario::save_meanwhile(&run, random);
    wait_until(|| run.ended.load(Ordering::Relaxed) as u64 == sessions);
    check_refusal(&run);
    disk.repair();
    match policy {
        Policy::Always => check_refusal(&run),
        _ => check_recovery(&run),
    }
    let history = std::mem::take(&mut *run.history.lock().unwrap_or_else(PoisonError::into_inner));
    let states = {
        let look = crash::look(run.store.engine());
        let states = recording.finish();
        states.check_look(look);
        states
    };
    for image in disk.take_images() {
        scenario::check_acknowledged(&history, &image, policy);
        states.check_image(&image, policy);
    }
    if !run.store.engine().aof.is_lost() {
        scenario::check_reopening(&run, &disk, policy);
    }
}

/// Appends values. Notes those whose appends were acknowledged.
fn write(run: &Run, random: &mut Random) {
    let mut client = run.store.client().expect("there is room");
    for _ in 0..1 + random.below(CALLS_MAX) {
        let key = random.below(LIST_COUNT);
        let value = run.next_value.fetch_add(1, Ordering::Relaxed);
        match client.call(&["RPUSH", &format!("list:{key}"), &value.to_string()]) {
            Value::Integer(_) => {
                let operations = vec![Operation::Append(key as usize, value)];
                let transaction = Transaction { began: 0, ended: 0, operations };
                run.history.lock().unwrap_or_else(PoisonError::into_inner).push(transaction);
            }
            error => assert!(is_refusal(&error), "{error:?}"),
        }
        simulation::sleep(Duration::from_millis(random.below(300)));
    }
    run.ended.fetch_add(1, Ordering::Relaxed);
}

fn is_refusal(reply: &Value) -> bool {
    matches!(reply, Value::Error(text) if text.starts_with(b"MISCONF "))
}

/// Writes are refused while the log can not be written.
fn check_refusal(run: &Run) {
    let has_failed = || run.store.engine().aof.write_failed.load(Ordering::Relaxed);
    let failed_before = has_failed();
    let reply = run.store.client().expect("there is room").call(&["SET", "refused", "1"]);
    assert!(
        !failed_before || !has_failed() || is_refusal(&reply),
        "{reply:?} while the log can not be written"
    );
}

/// Writes go on once the disk works.
fn check_recovery(run: &Run) {
    let mut client = run.store.client().expect("there is room");
    let mut goes_on = || client.call(&["SET", "again", "1"]) == Value::Simple(b"OK".to_vec());
    for _ in 0..RECOVERY_ROUNDS {
        run.store.background().round();
        if goes_on() {
            return;
        }
        simulation::sleep(ROUND);
    }
    panic!("writes are still refused");
}
