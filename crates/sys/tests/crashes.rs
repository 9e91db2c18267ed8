//! Crashes of a process of its own: this test program, run again with a variable that says how it is to
//! crash.

use std::hint::black_box;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::mpsc;

use mantissa_sys::crash;

const WAY: &str = "MANTISSA_TEST_CRASH";
const SIGSEGV: i32 = 11;

/// What a process that crashes in this way prints, with the signal that ends it.
fn crash(way: &str) -> (String, Option<i32>) {
    let program = std::env::current_exe().expect("this program has a path");
    let output = Command::new(program)
        .args(["a_process_that_crashes", "--exact", "--nocapture"])
        .env(WAY, way)
        .output()
        .expect("this program runs");
    (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.signal())
}

/// Not a test of its own: what the others run.
#[test]
fn a_process_that_crashes() {
    let Ok(way) = std::env::var(WAY) else { return };
    let (sender, installed) = mpsc::channel();
    let faults_again = way == "fault while reporting";
    std::thread::spawn(move || {
        sender.send(crash::install()).expect("the process waits");
        let crash = crash::wait().expect("there is a crash");
        if faults_again {
            crash::fault();
        }
        println!("signal {}, {} frames", crash.signal, crash.frames.len());
        crash::reported();
    });
    installed.recv().expect("the thread sends").expect("handlers can be set");
    crash::enable(true);
    let crashing = std::thread::Builder::new().stack_size(256 << 10).spawn(move || {
        crash::prepare_thread();
        if way == "overflow" {
            println!("{}", descend(0));
        }
        crash::fault();
    });
    crashing.expect("a thread starts").join().expect("the process has ended by then");
}

/// Calls itself until the stack is used up.
fn descend(depth: u64) -> u64 {
    let room = black_box([depth; 64]);
    if depth == u64::MAX { 0 } else { descend(depth + 1) + room[0] }
}

#[test]
fn an_overflow_of_the_stack_is_reported() {
    let (said, signal) = crash("overflow");
    assert!(said.contains("BUG REPORT START") && said.contains("Return addresses: 0x"), "{said}");
    assert!(said.contains("signal 11, ") && !said.contains(", 0 frames"), "{said}");
    assert_eq!(signal, Some(SIGSEGV), "{said}");
}

#[test]
fn a_fault_while_reporting_ends_the_process() {
    let (said, signal) = crash("fault while reporting");
    assert!(said.contains("BUG REPORT START") && said.contains("Return addresses: 0x"), "{said}");
    assert!(!said.contains("frames"), "{said}");
    assert_eq!(signal, Some(SIGSEGV), "{said}");
}
