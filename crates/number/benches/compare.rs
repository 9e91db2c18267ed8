//! Times reading and printing against the standard library, `fast-float2`, `ryu` and `zmij`, on the
//! datasets of `number/bench`. Contenders take turns piece by piece; what counts is the sum of each one's
//! fastest times.
//!
//! `cargo bench -p mantissa-number [-- ROUNDS] [--json]`

use std::hint::black_box;
use std::time::{Duration, Instant};

const COUNT: usize = 20_000;
const PIECE: usize = 1_000;

struct Dataset {
    name: &'static str,
    texts: Vec<String>,
    values: Vec<f64>,
}

/// splitmix64 (Steele, Lea, Flood 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn seventeen_digits(value: f64) -> String {
    // Seventeen significant digits, in place from 0.0001 up, as C's %.17g.
    let exponent = value.abs().log10().floor();
    if (-4.0..16.0).contains(&exponent) {
        format!("{value:.*}", (16.0 - exponent) as usize)
    } else {
        format!("{value:.16e}")
    }
}

fn datasets() -> Vec<Dataset> {
    let mut random = Random(20_260_601);
    let mut make = |name, text: &mut dyn FnMut(&mut Random) -> String| {
        let texts: Vec<String> = (0..COUNT).map(|_| text(&mut random)).collect();
        let values = texts.iter().map(|text| text.parse().expect("a number")).collect();
        Dataset { name, texts, values }
    };
    vec![
        make("random", &mut |random| seventeen_digits(random.unit())),
        make("canada", &mut |random| format!("{:.15}", random.unit() * 180.0 - 90.0)),
        make("mesh", &mut |random| {
            let sum: f64 = (0..12).map(|_| random.unit()).sum();
            format!("{}", ((sum - 6.0) * 1e5).trunc() / 1e6)
        }),
        make("bits", &mut |random| {
            let value =
                std::iter::repeat_with(|| f64::from_bits(random.next())).find(|value| value.is_finite());
            format!("{:.16e}", value.expect("most bits are finite"))
        }),
        make("prices", &mut |random| format!("{:.2}", (random.next() % 1_000_000) as f64 / 100.0)),
        make("unix", &mut |random| (1_600_000_000 + random.next() % 200_000_000).to_string()),
    ]
}

type Run<'a> = (&'static str, &'a dyn Fn(&Dataset, usize));

fn compare(what: &str, set: &Dataset, contenders: &[Run<'_>], rounds: usize, json: bool) {
    let mut fastest = vec![vec![Duration::MAX; COUNT / PIECE]; contenders.len()];
    for _ in 0..rounds {
        for from in (0..COUNT).step_by(PIECE) {
            for (index, (_, run)) in contenders.iter().enumerate() {
                let start = Instant::now();
                run(set, from);
                let best = &mut fastest[index][from / PIECE];
                *best = start.elapsed().min(*best);
            }
        }
    }
    let nanoseconds: Vec<f64> = fastest
        .iter()
        .map(|times| times.iter().sum::<Duration>().as_secs_f64() * 1e9 / COUNT as f64)
        .collect();
    let bytes = set.texts.iter().map(String::len).sum::<usize>() as f64 / COUNT as f64;
    if json {
        for ((who, _), time) in contenders.iter().zip(&nanoseconds) {
            let speed = bytes / time * 1e3;
            let data = set.name;
            print!("{{\"work\": \"{what}\", \"data\": \"{data}\", \"who\": \"{who}\", ");
            println!("\"ns\": {time:.2}, \"mb_s\": {speed:.0}}}");
        }
        return;
    }
    let others = &nanoseconds[1..nanoseconds.len().min(4)];
    let best = others.iter().copied().fold(f64::INFINITY, f64::min);
    let columns: String =
        nanoseconds.iter().map(|time| format!(" {time:.1} ({:.0}) |", bytes / time * 1e3)).collect();
    println!("| {what} {} |{columns} {:.2} |", set.name, best / nanoseconds[0]);
}

fn reading(read: impl Fn(&[u8]) -> Option<f64>) -> impl Fn(&Dataset, usize) {
    move |set, from| {
        let sum: f64 = set.texts[from..from + PIECE].iter().filter_map(|text| read(text.as_bytes())).sum();
        black_box(sum);
    }
}

fn printing(print: impl Fn(f64) -> usize) -> impl Fn(&Dataset, usize) {
    move |set, from| {
        let length: usize = set.values[from..from + PIECE].iter().map(|&value| print(value)).sum();
        black_box(length);
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let json = arguments.iter().any(|argument| argument == "--json");
    let rounds = arguments.iter().find_map(|argument| argument.parse().ok()).unwrap_or(200);
    let sets = datasets();
    for set in &sets {
        for (text, value) in set.texts.iter().zip(&set.values) {
            assert_eq!(mantissa_number::parse_f64(text.as_bytes()), Some(*value), "{text}");
        }
    }
    if !json {
        println!("ns a number (MB/s)\n\n| read | ours | fast-float2 | std | best other / ours |");
        println!("|---|---|---|---|---|");
    }
    let ours = reading(mantissa_number::parse_f64);
    let fast_float = reading(|text| fast_float2::parse(text).ok());
    let standard = reading(|text| std::str::from_utf8(text).ok()?.parse().ok());
    for set in &sets {
        compare(
            "read",
            set,
            &[("ours", &ours), ("fast-float2", &fast_float), ("std", &standard)],
            rounds,
            json,
        );
    }
    if !json {
        println!("\n| print | ours | zmij | ryu | std | our scores | best other / ours |");
        println!("|---|---|---|---|---|---|---|");
    }
    let ours = printing(|value| {
        black_box(mantissa_number::format_f64(&mut mantissa_number::FloatText::new(), value)).len()
    });
    let score = printing(|value| {
        black_box(mantissa_number::format_score(&mut [0; mantissa_number::SCORE_TEXT_MAX], value)).len()
    });
    let zmij = printing(|value| black_box(zmij::Buffer::new().format_finite(value)).len());
    let ryu = printing(|value| black_box(ryu::Buffer::new().format_finite(value)).len());
    let standard = printing(|value| {
        use std::io::Write;
        let mut buffer = [0u8; 400];
        let mut rest = &mut buffer[..];
        let _fits = write!(rest, "{value:e}");
        400 - black_box(rest).len()
    });
    for set in &sets {
        let contenders: [Run<'_>; 5] =
            [("ours", &ours), ("zmij", &zmij), ("ryu", &ryu), ("std", &standard), ("score", &score)];
        compare("print", set, &contenders, rounds, json);
    }
}
