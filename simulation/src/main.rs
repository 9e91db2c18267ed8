//! `simulate [--seeds N | --seed S | --hours H]`: runs seeds, and names the one that fails.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::{Duration, Instant};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = args.get(1).and_then(|text| text.parse::<u64>().ok());
    let (first, count, time_max) = match (args.first().map(String::as_str), number) {
        (None, _) => (0, 1000, None),
        (Some("--seeds"), Some(count)) => (0, count, None),
        (Some("--seed"), Some(seed)) => (seed, 1, None),
        (Some("--hours"), Some(hours)) => {
            (std::process::id().into(), u64::MAX >> 1, Some(Duration::from_secs(hours * 3600)))
        }
        _ => {
            eprintln!("usage: simulate [--seeds N | --seed S | --hours H]");
            return ExitCode::from(2);
        }
    };
    let began = Instant::now();
    let mut done = 0;
    for seed in (first..).take(usize::try_from(count).unwrap_or(usize::MAX)) {
        if time_max.is_some_and(|time_max| began.elapsed() > time_max) {
            break;
        }
        match mantissa_simulation::simulate(seed, None) {
            Ok(trace) if count == 1 => eprintln!("seed {seed}: trace {trace:016x}"),
            Ok(_) => {}
            Err(error) => {
                eprintln!("seed {seed} failed: {error}\nagain: simulate --seed {seed}");
                return ExitCode::FAILURE;
            }
        }
        done += 1;
    }
    eprintln!("{done} seeds, {:.1} s: nothing found", began.elapsed().as_secs_f64());
    ExitCode::SUCCESS
}
