//! What is sent: tests, mixtures, commands with random parts.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use mantissa_number::{write_f64, write_u64};
use rand::rngs::SmallRng;
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rand_distr::{Distribution as _, Zipf};

/// The digits that stand for a random number in a key.
const RANDOM_DIGITS: usize = 12;
/// What stands for a random number, a value, and a random double in a command.
const NUMBER_MARK: &[u8] = b"__rand_int__";
const VALUE_MARK: &[u8] = b"__data__";
const DOUBLE_MARK: &[u8] = b"__rand_float__";
/// How far random doubles go.
const DOUBLE_MAX: f64 = 1e6;

/// A part of an argument.
#[derive(Clone, PartialEq, Debug)]
enum Part {
    /// As it is.
    Text(Vec<u8>),
    /// A number out of the keyspace, in twelve digits.
    Number,
    /// A value of a size from the distribution.
    Value,
    /// A double with all its digits.
    Double,
}

/// A command.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    arguments: Vec<Vec<Part>>,
    /// Sent as it is, without the protocol's framing.
    inline: bool,
}

impl Template {
    fn new(arguments: impl IntoIterator<Item = impl Into<Vec<u8>>>) -> Template {
        let arguments = arguments.into_iter().map(|argument| parts(&argument.into())).collect();
        Template { arguments, inline: false }
    }

    fn of_text(text: &str) -> Template {
        Template::new(text.split(' '))
    }
}

/// Takes an argument apart at its marks.
fn parts(argument: &[u8]) -> Vec<Part> {
    let marks = [(NUMBER_MARK, Part::Number), (VALUE_MARK, Part::Value), (DOUBLE_MARK, Part::Double)];
    let (mut found, mut text, mut at) = (Vec::new(), Vec::new(), 0);
    while at < argument.len() {
        match marks.iter().find(|(mark, _)| argument[at..].starts_with(mark)) {
            Some((mark, part)) => {
                if !text.is_empty() {
                    found.push(Part::Text(std::mem::take(&mut text)));
                }
                found.push(part.clone());
                at += mark.len();
            }
            None => {
                text.push(argument[at]);
                at += 1;
            }
        }
    }
    if !text.is_empty() {
        found.push(Part::Text(text));
    }
    found
}

/// What is measured at a time: one command, or several with weights.
#[derive(Clone, Debug)]
pub(crate) struct Test {
    pub(crate) title: String,
    commands: Vec<(u64, Template)>,
}

/// A test that is known by name: its names, its title, its command, whether it runs if none is named.
struct Known(&'static [&'static str], &'static str, &'static str, bool);

const KNOWN: [Known; 27] = [
    Known(&["ping_inline", "ping"], "PING_INLINE", "PING", true),
    Known(&["ping_mbulk", "ping"], "PING_MBULK", "PING", true),
    Known(&["set"], "SET", "SET key:__rand_int__ __data__", true),
    Known(&["get"], "GET", "GET key:__rand_int__", true),
    Known(&["incr"], "INCR", "INCR counter:__rand_int__", true),
    Known(&["lpush"], "LPUSH", "LPUSH mylist __data__", true),
    Known(&["rpush"], "RPUSH", "RPUSH mylist __data__", true),
    Known(&["lpop"], "LPOP", "LPOP mylist", true),
    Known(&["rpop"], "RPOP", "RPOP mylist", true),
    Known(&["sadd"], "SADD", "SADD myset element:__rand_int__", true),
    Known(&["hset"], "HSET", "HSET myhash element:__rand_int__ __data__", true),
    Known(&["spop"], "SPOP", "SPOP myset", true),
    Known(&["zadd"], "ZADD", "ZADD myzset __score__ element:__rand_int__", true),
    Known(&["zpopmin"], "ZPOPMIN", "ZPOPMIN myzset", true),
    Known(
        &["lrange", "lrange_100", "lrange_300", "lrange_500", "lrange_600"],
        "LPUSH (needed to benchmark LRANGE)",
        "LPUSH mylist __data__",
        true,
    ),
    Known(&["lrange", "lrange_100"], "LRANGE_100 (first 100 elements)", "LRANGE mylist 0 99", true),
    Known(&["lrange", "lrange_300"], "LRANGE_300 (first 300 elements)", "LRANGE mylist 0 299", true),
    Known(&["lrange", "lrange_500"], "LRANGE_500 (first 500 elements)", "LRANGE mylist 0 499", true),
    Known(&["lrange", "lrange_600"], "LRANGE_600 (first 600 elements)", "LRANGE mylist 0 599", true),
    Known(&["mset"], "MSET (10 keys)", "MSET", true),
    Known(&["xadd"], "XADD", "XADD mystream * myfield __data__", false),
    Known(&["hget"], "HGET", "HGET myhash element:__rand_int__", false),
    Known(&["sismember"], "SISMEMBER", "SISMEMBER myset element:__rand_int__", false),
    Known(&["zadd_float"], "ZADD_FLOAT", "ZADD board __rand_float__ member:__rand_int__", false),
    Known(&["zincrby_float"], "ZINCRBY_FLOAT", "ZINCRBY board __rand_float__ member:__rand_int__", false),
    Known(&["zscore_float"], "ZSCORE_FLOAT", "ZSCORE board member:__rand_int__", false),
    Known(
        &["zrangebyscore_float"],
        "ZRANGEBYSCORE_FLOAT (10 elements)",
        "ZRANGE board __rand_float__ +inf BYSCORE LIMIT 0 10 WITHSCORES",
        false,
    ),
];

impl Known {
    fn test(&self, has_random_keys: bool) -> Test {
        let Known(_, title, text, _) = self;
        let score = if has_random_keys { "__rand_int__" } else { "0" };
        let mut template = match *title {
            "MSET (10 keys)" => {
                let pairs = (0..10).flat_map(|_| ["key:__rand_int__", "__data__"]);
                Template::new(std::iter::once("MSET").chain(pairs))
            }
            _ => Template::of_text(&text.replace("__score__", score)),
        };
        template.inline = *title == "PING_INLINE";
        Test { title: (*title).to_owned(), commands: vec![(1, template)] }
    }
}

impl Test {
    /// The tests that run if none is named.
    pub(crate) fn all(has_random_keys: bool) -> Vec<Test> {
        KNOWN.iter().filter(|known| known.3).map(|known| known.test(has_random_keys)).collect()
    }

    /// The tests of a name.
    pub(crate) fn named(name: &str, has_random_keys: bool) -> Result<Vec<Test>, String> {
        let name = name.to_ascii_lowercase();
        let tests: Vec<Test> = KNOWN
            .iter()
            .filter(|known| known.0.contains(&name.as_str()))
            .map(|known| known.test(has_random_keys))
            .collect();
        if tests.is_empty() { Err(format!("There is no test '{name}'.")) } else { Ok(tests) }
    }

    /// The test of one command.
    pub(crate) fn of_command(words: &[OsString]) -> Test {
        let title: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let words = words.iter().map(|word| word.clone().into_vec());
        Test { title: title.join(" "), commands: vec![(1, Template::new(words))] }
    }
}

/// Tests with weights.
#[derive(Clone, Debug)]
pub(crate) struct Mix(Vec<(String, u64)>);

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Mix, String> {
        let parsed = text.split(',').map(|part| {
            let (name, weight) = part.split_once(':').unwrap_or((part, "1"));
            let weight = weight.parse().map_err(|_| format!("'{weight}' is not a weight"))?;
            match Test::named(name, false)?.len() {
                1 if weight > 0 => Ok((name.to_owned(), weight)),
                1 => Err("a weight is at least 1".to_owned()),
                _ => Err(format!("'{name}' is more than one test")),
            }
        });
        Ok(Mix(parsed.collect::<Result<_, String>>()?))
    }
}

impl Mix {
    /// The test that chooses among these.
    pub(crate) fn test(&self, has_random_keys: bool) -> Test {
        let commands = self.0.iter().flat_map(|(name, weight)| {
            let tests = Test::named(name, has_random_keys).unwrap_or_default();
            tests.into_iter().flat_map(|test| test.commands).map(|(_, template)| (*weight, template))
        });
        let title: Vec<String> = self.0.iter().map(|(name, weight)| format!("{name}:{weight}")).collect();
        Test { title: format!("MIX {}", title.join(",")), commands: commands.collect() }
    }
}

/// Sizes of values in bytes, with weights: each is chosen evenly between two bounds.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Sizes(Vec<(usize, usize, u64)>);

/// The largest value, in bytes.
const SIZE_MAX: usize = 512 << 20;

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Sizes, String> {
        let size = |text: &str| match text.parse() {
            Ok(size) if (1..=SIZE_MAX).contains(&size) => Ok(size),
            _ => Err(format!("'{text}' is not a size between 1 and {SIZE_MAX}")),
        };
        let parsed = text.split(',').map(|part| {
            let (range, weight) = part.split_once(':').unwrap_or((part, "1"));
            let weight = weight.parse().map_err(|_| format!("'{weight}' is not a weight"))?;
            let (low, high) = range.split_once('-').unwrap_or((range, range));
            let (low, high) = (size(low)?, size(high)?);
            if low > high || weight == 0 {
                Err(format!("'{part}' is empty"))
            } else {
                Ok((low, high, weight))
            }
        });
        Ok(Sizes(parsed.collect::<Result<_, String>>()?))
    }
}

impl Sizes {
    fn max(&self) -> usize {
        self.0.iter().map(|(_, high, _)| *high).max().unwrap_or(1)
    }

    fn choose(&self, random: &mut SmallRng) -> usize {
        match &self.0[..] {
            [(low, high, _)] if low == high => *low,
            sizes => {
                let (low, high, _) = sizes[weighted(random, sizes.iter().map(|(.., weight)| *weight))];
                random.random_range(low..=high)
            }
        }
    }
}

impl std::fmt::Display for Sizes {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0[..] {
            [(low, high, _)] if low == high => write!(formatter, "{low}"),
            sizes => {
                for (i, (low, high, weight)) in sizes.iter().enumerate() {
                    write!(formatter, "{}{low}-{high}:{weight}", if i == 0 { "" } else { "," })?;
                }
                Ok(())
            }
        }
    }
}

/// Which of the weights a random number falls into.
fn weighted(random: &mut SmallRng, weights: impl Iterator<Item = u64> + Clone) -> usize {
    let total: u64 = weights.clone().sum();
    let mut left = random.random_range(0..total.max(1));
    for (i, weight) in weights.enumerate() {
        if left < weight {
            return i;
        }
        left -= weight;
    }
    0
}

/// How numbers are chosen out of the keyspace.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum KeyChoice {
    /// Each is as likely as any other.
    Uniform,
    /// One after another.
    Sequential,
    /// The first are the most likely, with this exponent.
    Zipfian(f64),
}

impl FromStr for KeyChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<KeyChoice, String> {
        let (name, exponent) = text.split_once(':').unwrap_or((text, "0.99"));
        match (name, exponent.parse()) {
            ("uniform", _) => Ok(KeyChoice::Uniform),
            ("sequential", _) => Ok(KeyChoice::Sequential),
            ("zipfian", Ok(exponent)) if exponent > 0.0 && f64::is_finite(exponent) => {
                Ok(KeyChoice::Zipfian(exponent))
            }
            ("zipfian", _) => Err(format!("'{exponent}' is not an exponent")),
            _ => Err(format!("'{name}' is none of uniform, sequential, zipfian")),
        }
    }
}

/// Where the random parts of requests come from; each thread has its own.
pub(crate) struct Source<'a> {
    test: &'a Test,
    sizes: &'a Sizes,
    keyspace: Option<u64>,
    zipf: Option<Zipf<f64>>,
    /// The next number in sequence, for all threads, if that is how numbers are chosen.
    sequence: Option<&'a AtomicU64>,
    random: SmallRng,
    values: Vec<u8>,
    argument: Vec<u8>,
}

impl<'a> Source<'a> {
    /// The source of a thread; the threads share `sequence`.
    pub(crate) fn new(
        test: &'a Test,
        sizes: &'a Sizes,
        keyspace: Option<u64>,
        choice: KeyChoice,
        seed: u64,
        thread: usize,
        sequence: &'a AtomicU64,
    ) -> Source<'a> {
        let mut random =
            SmallRng::seed_from_u64(seed.wrapping_add((thread as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        let mut values = vec![0; sizes.max()];
        random.fill_bytes(&mut values);
        // Letters, so that values can be read.
        values.iter_mut().for_each(|byte| *byte = b'a' + *byte % 26);
        let zipf = match (choice, keyspace) {
            (KeyChoice::Zipfian(exponent), Some(keyspace)) => {
                Zipf::new(keyspace.max(1) as f64, exponent).ok()
            }
            _ => None,
        };
        Source {
            test,
            sizes,
            keyspace,
            zipf,
            sequence: (choice == KeyChoice::Sequential).then_some(sequence),
            random,
            values,
            argument: Vec::new(),
        }
    }

    fn number(&mut self) -> Option<u64> {
        let keyspace = self.keyspace?.max(1);
        Some(if let Some(zipf) = &self.zipf {
            (zipf.sample(&mut self.random) as u64).saturating_sub(1).min(keyspace - 1)
        } else if let Some(sequence) = self.sequence {
            sequence.fetch_add(1, Ordering::Relaxed) % keyspace
        } else {
            self.random.random_range(0..keyspace)
        })
    }

    /// Appends a request.
    pub(crate) fn write(&mut self, out: &mut Vec<u8>) {
        let commands = &self.test.commands;
        let chosen = match commands.len() {
            1 => 0,
            _ => weighted(&mut self.random, commands.iter().map(|(weight, _)| *weight)),
        };
        let template = &commands[chosen].1;
        if !template.inline {
            out.push(b'*');
            write_u64(out, template.arguments.len() as u64);
            out.extend_from_slice(b"\r\n");
        }
        for argument in &template.arguments {
            let mut written = std::mem::take(&mut self.argument);
            written.clear();
            argument.iter().for_each(|part| self.write_part(part, &mut written));
            if !template.inline {
                out.push(b'$');
                write_u64(out, written.len() as u64);
                out.extend_from_slice(b"\r\n");
            }
            out.extend_from_slice(&written);
            out.extend_from_slice(b"\r\n");
            self.argument = written;
        }
    }

    fn write_part(&mut self, part: &Part, out: &mut Vec<u8>) {
        match part {
            Part::Text(text) => out.extend_from_slice(text),
            Part::Number => match self.number() {
                None => out.extend_from_slice(NUMBER_MARK),
                Some(mut number) => {
                    let mut digits = [b'0'; RANDOM_DIGITS];
                    for digit in digits.iter_mut().rev() {
                        *digit = b'0' + (number % 10) as u8;
                        number /= 10;
                    }
                    out.extend_from_slice(&digits);
                }
            },
            Part::Value => {
                let size = self.sizes.choose(&mut self.random);
                out.extend_from_slice(&self.values[..size]);
            }
            Part::Double => write_f64(out, self.random.random::<f64>() * DOUBLE_MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(test: &Test, sizes: &str, keyspace: Option<u64>, choice: KeyChoice) -> Vec<String> {
        let sizes = sizes.parse().expect("valid sizes");
        let sequence = AtomicU64::new(0);
        let mut source = Source::new(test, &sizes, keyspace, choice, 7, 0, &sequence);
        (0..200)
            .map(|_| {
                let mut out = Vec::new();
                source.write(&mut out);
                String::from_utf8(out).expect("text")
            })
            .collect()
    }

    #[test]
    fn requests() {
        let get = &Test::named("get", false).expect("a test")[0];
        let all = written(get, "3", None, KeyChoice::Uniform);
        assert_eq!(all[0], "*2\r\n$3\r\nGET\r\n$16\r\nkey:__rand_int__\r\n");
        let all = written(get, "3", Some(10), KeyChoice::Sequential);
        assert!(all[11].ends_with("key:000000000001\r\n"));
        let all = written(get, "3", Some(1000), KeyChoice::Zipfian(1.2));
        let first = all.iter().filter(|request| request.contains("key:000000000000")).count();
        assert!(first > 20, "{first}");
        let ping = &Test::named("ping", false).expect("a test")[0];
        assert_eq!(written(ping, "3", None, KeyChoice::Uniform)[0], "PING\r\n");
    }

    #[test]
    fn sizes_and_mixtures() {
        let mix: Mix = "get:9,set:1".parse().expect("a mixture");
        let all = written(&mix.test(true), "10-20:1,100:1", Some(5), KeyChoice::Uniform);
        let sets: Vec<&String> = all.iter().filter(|request| request.contains("SET")).collect();
        assert!((5..60).contains(&sets.len()), "{}", sets.len());
        assert!(sets.iter().any(|request| request.contains("$100\r\n")));
        assert!(sets.iter().any(|request| !request.contains("$100\r\n")));
        for wrong in ["0", "5-3", "x", "1:0", ""] {
            assert!(wrong.parse::<Sizes>().is_err(), "{wrong}");
        }
        assert!("ping:1".parse::<Mix>().is_err() && "none:1".parse::<Mix>().is_err());
    }
}
