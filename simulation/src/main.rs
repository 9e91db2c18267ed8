//! `simulate [--replication] [--seeds N | --seed S | --hours H]`: runs seeds, and names the one that fails.
//! With `--hours` seeds of both kinds, in turn.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::{Duration, Instant};

fn main() -> ExitCode {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let is_of_replication = args.first().is_some_and(|arg| arg == "--replication");
    args.drain(..usize::from(is_of_replication));
    let number = args.get(1).and_then(|text| text.parse::<u64>().ok());
    let (first, count, time_max) = match (args.first().map(String::as_str), number) {
        (None, _) => (0, 1000, None),
        (Some("--seeds"), Some(count)) => (0, count, None),
        (Some("--seed"), Some(seed)) => (seed, 1, None),
        (Some("--hours"), Some(hours)) => {
            (std::process::id().into(), u64::MAX >> 1, Some(Duration::from_secs(hours * 3600)))
        }
        _ => {
            eprintln!("usage: simulate [--replication] [--seeds N | --seed S | --hours H]");
            return ExitCode::from(2);
        }
    };
    let began = Instant::now();
    let mut done = 0;
    for seed in (first..).take(usize::try_from(count).unwrap_or(usize::MAX)) {
        if time_max.is_some_and(|time_max| began.elapsed() > time_max) {
            break;
        }
        let replicates = is_of_replication || (time_max.is_some() && seed % 2 == 0);
        let outcome = match replicates {
            true => mantissa_simulation::simulate_replication(seed, None),
            false => mantissa_simulation::simulate(seed, None),
        };
        match outcome {
            Ok(trace) if count == 1 => eprintln!("seed {seed}: trace {trace:016x}"),
            Ok(_) => {}
            Err(error) => {
                let kind = if replicates { "--replication " } else { "" };
                eprintln!("seed {seed} failed: {error}\nagain: simulate {kind}--seed {seed}");
                return ExitCode::FAILURE;
            }
        }
        done += 1;
    }
    eprintln!("{done} seeds, {:.1} s: nothing found", began.elapsed().as_secs_f64());
    ExitCode::SUCCESS
}
