//! Latency as a spectrum: a line for each window of time, a letter for each class of latency, its colour for
//! how many measurements fell into it. For terminals with 256 colours.

use std::fmt::Write as _;
use std::io;
use std::time::{Duration, Instant};

use crate::observe::{SAMPLE_INTERVAL, measure};
use crate::output::print;
use crate::session::Session;

/// How long a line covers, if nothing is said.
const WINDOW: Duration = Duration::from_secs(1);
/// Colours of the terminal for shares from 0 to 100 %.
const PALETTE: [u8; 19] =
    [0, 233, 234, 235, 237, 239, 241, 243, 245, 247, 144, 143, 142, 184, 226, 214, 208, 202, 196];
/// Classes: up to so many microseconds, and the letter.
const CLASSES: [(u64, char); 31] = [
    (10, '.'),
    (125, '-'),
    (250, '*'),
    (500, '#'),
    (1_000, '1'),
    (2_000, '2'),
    (3_000, '3'),
    (4_000, '4'),
    (5_000, '5'),
    (6_000, '6'),
    (7_000, '7'),
    (8_000, '8'),
    (9_000, '9'),
    (10_000, 'A'),
    (20_000, 'B'),
    (30_000, 'C'),
    (40_000, 'D'),
    (50_000, 'E'),
    (100_000, 'F'),
    (200_000, 'G'),
    (300_000, 'H'),
    (400_000, 'I'),
    (500_000, 'J'),
    (1_000_000, 'K'),
    (2_000_000, 'L'),
    (4_000_000, 'M'),
    (8_000_000, 'N'),
    (16_000_000, 'O'),
    (30_000_000, 'P'),
    (60_000_000, 'Q'),
    (u64::MAX, '?'),
];
/// After how many lines the legend comes again.
const LINES_BETWEEN_LEGENDS: u64 = 32;

/// Measures and draws without end, or as many lines as the command line says.
pub(crate) fn run(session: &mut Session) -> io::Result<bool> {
    let length = session.settings().interval.unwrap_or(WINDOW);
    let lines = session.settings().repeat.and_then(|lines| u64::try_from(lines).ok());
    let mut line = 0;
    while lines.is_none_or(|lines| line < lines) {
        if line % LINES_BETWEEN_LEGENDS == 0 {
            print(legend().as_bytes())?;
        }
        let (start, mut counts, mut total) = (Instant::now(), [0_u64; CLASSES.len()], 0_u64);
        while start.elapsed() <= length {
            let taken_us = u64::try_from(measure(session)?.as_micros()).unwrap_or(u64::MAX);
            let class = CLASSES.partition_point(|(limit_us, _)| *limit_us < taken_us);
            counts[class.min(CLASSES.len() - 1)] += 1;
            total += 1;
            std::thread::sleep(SAMPLE_INTERVAL);
        }
        print(draw(&counts, total).as_bytes())?;
        line += 1;
    }
    Ok(true)
}

fn draw(counts: &[u64; CLASSES.len()], total: u64) -> String {
    let mut out = String::from("\x1b[38;5;0m");
    for (count, (_, letter)) in counts.iter().zip(CLASSES) {
        let share = *count as f64 / total.max(1) as f64;
        let step = (share * (PALETTE.len() - 1) as f64).ceil() as usize;
        // Writing to a string cannot fail.
        let _ = write!(out, "\x1b[48;5;{}m{letter}", PALETTE[step.min(PALETTE.len() - 1)]);
    }
    out.push_str("\x1b[0m\n");
    out
}

fn legend() -> String {
    let rule = "-".repeat(45);
    let colours: String = PALETTE.iter().map(|colour| format!("\x1b[48;5;{colour}m ")).collect();
    format!(
        "{rule}\n\
         . - * #          .01 .125 .25 .5 milliseconds\n\
         1,2,3,...,9      from 1 to 9     milliseconds\n\
         A,B,C,D,E        10,20,30,40,50  milliseconds\n\
         F,G,H,I,J        .1,.2,.3,.4,.5       seconds\n\
         K,L,M,N,O,P,Q,?  1,2,4,8,16,30,60,>60 seconds\n\
         From 0 to 100%: {colours}\x1b[0m\n{rule}\n"
    )
}
