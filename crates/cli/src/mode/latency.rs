//! How long a PING takes, measured again and again; and how long this machine keeps a program waiting.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use crate::format::Format;
use crate::observe::{SAMPLE_INTERVAL, measure};
use crate::output::print;
use crate::session::Session;

/// How long is measured where the output is no terminal, if nothing is said.
const ONE_OUTPUT_INTERVAL: Duration = Duration::from_secs(1);
/// How long a line of the history covers, if nothing is said.
const HISTORY_INTERVAL: Duration = Duration::from_secs(15);

/// Measurements in whole milliseconds, as redis-cli counts them.
#[derive(Default)]
struct Figures {
    count: u64,
    min_ms: u128,
    max_ms: u128,
    total_ms: u128,
}

impl Figures {
    fn add(&mut self, taken: Duration) {
        let taken_ms = taken.as_millis();
        self.min_ms = if self.count == 0 { taken_ms } else { self.min_ms.min(taken_ms) };
        self.max_ms = self.max_ms.max(taken_ms);
        self.total_ms += taken_ms;
        self.count += 1;
    }

    fn show(&self, format: Format) -> String {
        let Figures { count, min_ms, max_ms, .. } = self;
        let average = self.total_ms as f64 / (*count).max(1) as f64;
        match format {
            Format::Terminal => format!("min: {min_ms}, max: {max_ms}, avg: {average:.2} ({count} samples)"),
            Format::Raw => format!("{min_ms} {max_ms} {average:.2} {count}"),
            Format::Csv => format!("{min_ms},{max_ms},{average:.2},{count}"),
            Format::Json | Format::QuotedJson => {
                format!("{{\"min\": {min_ms}, \"max\": {max_ms}, \"avg\": {average:.2}, \"count\": {count}}}")
            }
        }
    }
}

/// Measures for a while and prints the figures; on a terminal, shows them live.
pub(crate) fn run(session: &mut Session) -> io::Result<bool> {
    let format = session.settings().format;
    if format == Format::Terminal && io::stdout().is_terminal() {
        return crate::dashboard::latency(session);
    }
    let length = session.settings().interval.unwrap_or(ONE_OUTPUT_INTERVAL);
    let (start, mut figures) = (Instant::now(), Figures::default());
    loop {
        figures.add(measure(session)?);
        if start.elapsed() > length {
            print(format!("{}\n", figures.show(format)).as_bytes())?;
            return Ok(true);
        }
        std::thread::sleep(SAMPLE_INTERVAL);
    }
}

/// Measures without end, a line for each window of time.
pub(crate) fn history(session: &mut Session) -> io::Result<bool> {
    let format = session.settings().format;
    let length = session.settings().interval.unwrap_or(HISTORY_INTERVAL);
    let live = format == Format::Terminal && io::stdout().is_terminal();
    let mut windows_left = session.settings().repeat;
    loop {
        let (start, mut figures) = (Instant::now(), Figures::default());
        while start.elapsed() <= length {
            figures.add(measure(session)?);
            if live {
                print(format!("\x1b[0G\x1b[2K{}", figures.show(format)).as_bytes())?;
            }
            std::thread::sleep(SAMPLE_INTERVAL);
        }
        let line = if live { String::new() } else { figures.show(format) };
        print(format!("{line} -- {:.2} seconds range\n", start.elapsed().as_secs_f64()).as_bytes())?;
        windows_left = windows_left.map(|windows| windows - 1);
        if windows_left == Some(0) {
            return Ok(true);
        }
    }
}

/// Runs a piece of work over and over and tells how long it was at most kept from running.
pub(crate) fn intrinsic(seconds: u64) -> io::Result<bool> {
    let (start, mut longest, mut runs) = (Instant::now(), Duration::ZERO, 0_u64);
    let length = Duration::from_secs(seconds);
    let mut before = start;
    let mut state = 1_u64;
    while start.elapsed() < length {
        for _ in 0..64 {
            state = std::hint::black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
        let now = Instant::now();
        let taken = now - before;
        before = now;
        runs += 1;
        if taken.as_micros() > longest.as_micros() {
            longest = taken;
            print(format!("Max latency so far: {} microseconds.\n", longest.as_micros()).as_bytes())?;
            before = Instant::now();
        }
    }
    let average_ns = start.elapsed().as_nanos() as f64 / runs.max(1) as f64;
    let text = format!(
        "\n{runs} total runs (avg latency: {:.4} microseconds / {average_ns:.2} nanoseconds per run).\n\
         Worst run took {:.0}x longer than the average latency.\n",
        average_ns / 1000.0,
        longest.as_nanos() as f64 / average_ns.max(f64::MIN_POSITIVE)
    );
    print(text.as_bytes())?;
    Ok(true)
}
