//! What a directive accepts: parsing words into a [`Value`] and printing it in the form that `CONFIG GET`
//! shows.

use super::refusal::Refusal;
use super::special;
use super::value::Value;
use super::words::{ParseContext, WRONG_COUNT, parse_memory, text};
use mantissa_number::parse_i64;

/// The shape of a setting.
#[derive(Clone, Copy)]
pub enum Kind {
    /// `yes` or `no`.
    Bool,
    /// A whole number within a range.
    Integer {
        /// The least value.
        min: i64,
        /// The greatest value.
        max: i64,
    },
    /// A whole number that is never negative, within a range.
    Unsigned {
        /// The least value.
        min: u64,
        /// The greatest value.
        max: u64,
    },
    /// A file mode in octal, from 0.
    Octal {
        /// The greatest value.
        max: u64,
    },
    /// A size such as `512mb`, up to 2^63 - 1 bytes.
    Memory {
        /// The least number of bytes.
        min: u64,
        /// Whether the message about a size that is too big tells the range.
        signed: bool,
    },
    /// A size, or a percentage such as `5%`.
    MemoryOrPercentage,
    /// One of these words, in any case.
    Choice(&'static [&'static str]),
    /// UTF-8 text.
    Text,
    /// Text that this function accepts.
    Checked(fn(&str) -> Result<(), &'static str>),
    /// Any bytes.
    Bytes,
    /// A folder that exists, kept as an absolute path.
    Directory,
    /// Pairs of seconds and changes.
    Save,
    /// Addresses to listen on.
    Bind,
    /// Groups of class, hard limit, soft limit, seconds.
    OutputLimits,
    /// Letters of event classes.
    Events,
    /// Percentiles from 0 to 100.
    Percentiles,
    /// Three numbers from -2000 to 2000.
    OomScores,
    /// A host and a port, or `no one`.
    ReplicaOf,
    /// Words of SHUTDOWN's options.
    Shutdown,
}

const NOT_INTEGER: &str = "argument couldn't be parsed into an integer";
const NEGATIVE: &str = "argument must be greater or equal to 0";
const NOT_MEMORY: &str = "argument must be a memory value";
const NOT_OCTAL: &str = "argument couldn't be parsed as an octal number";
const NOT_PERCENT: &str = "argument must be a memory or percent value";
impl Kind {
    /// Parses the words after a directive's name.
    pub fn parse(&self, words: &[&[u8]], context: &ParseContext<'_>) -> Result<Value, Refusal> {
        match *self {
            Kind::Save => special::parse_save(words, context),
            Kind::Bind => special::parse_bind(words),
            Kind::OutputLimits => special::parse_limits(words, context),
            Kind::Percentiles => special::parse_percentiles(words),
            Kind::OomScores => special::parse_oom_scores(words),
            Kind::ReplicaOf => special::parse_replica_of(words),
            Kind::Shutdown => special::parse_shutdown(words),
            _ => match words {
                [word] => self.parse_word(word, context),
                _ => Err(WRONG_COUNT.into()),
            },
        }
    }

    /// A text ends before a NUL byte, a number must not have one.
    fn parse_word(&self, word: &[u8], context: &ParseContext<'_>) -> Result<Value, Refusal> {
        let word = match self {
            Kind::Integer { .. } | Kind::Unsigned { .. } | Kind::Bytes => word,
            _ => word.split(|&byte| byte == 0).next().unwrap_or_default(),
        };
        match *self {
            Kind::Bool if word.eq_ignore_ascii_case(b"yes") => Ok(Value::Bool(true)),
            Kind::Bool if word.eq_ignore_ascii_case(b"no") => Ok(Value::Bool(false)),
            Kind::Bool => Err("argument must be 'yes' or 'no'".into()),
            Kind::Integer { min, max } => {
                let value = parse_i64(word).ok_or(NOT_INTEGER)?;
                within(value, min, max)
            }
            Kind::Unsigned { min, max } => {
                let value = parse_i64(word).ok_or(NOT_INTEGER)?;
                u64::try_from(value).map_err(|_| NEGATIVE)?;
                within(value, min as i64, i64::try_from(max).unwrap_or(i64::MAX))
            }
            Kind::Octal { max } => {
                let value = parse_octal(word).ok_or(NOT_OCTAL)?;
                if value > max {
                    return Err(format!("argument must be between 0 and {max:o} inclusive").into());
                }
                Ok(Value::Integer(value as i64))
            }
            Kind::Memory { min, signed } => match parse_memory(word).ok_or(NOT_MEMORY)? {
                Some(size) => within(size, min as i64, i64::MAX),
                None if signed => within(-1, min as i64, i64::MAX),
                None => Err(NEGATIVE.into()),
            },
            Kind::MemoryOrPercentage => special::parse_memory_or_percent(word).ok_or(NOT_PERCENT)?,
            Kind::Choice(names) => {
                match names.iter().position(|name| word.eq_ignore_ascii_case(name.as_bytes())) {
                    Some(index) => Ok(Value::Choice(index)),
                    None => Err(special::one_of(names)),
                }
            }
            Kind::Text => text(word).map(|_| Value::Bytes(word.to_vec())),
            Kind::Checked(check) => {
                check(text(word)?)?;
                Ok(Value::Bytes(word.to_vec()))
            }
            Kind::Bytes => Ok(Value::Bytes(word.to_vec())),
            Kind::Directory => special::parse_directory(text(word)?, context.directory),
            Kind::Events => special::parse_events(word),
            _ => Err(WRONG_COUNT.into()),
        }
    }

    /// Prints a value as `CONFIG GET` does.
    pub fn format(&self, value: &Value) -> Vec<u8> {
        match (self, value) {
            (Kind::Shutdown, Value::Integer(bits)) => special::format_shutdown(*bits),
            (Kind::Events, Value::Integer(bits)) => special::format_events(*bits as u32),
            (Kind::Octal { .. }, Value::Integer(mode)) => format!("{mode:o}").into_bytes(),
            (Kind::Choice(names), Value::Choice(index)) => {
                names.get(*index).copied().unwrap_or_default().into()
            }
            (_, Value::Bool(value)) => if *value { "yes" } else { "no" }.into(),
            (_, Value::Integer(value)) => value.to_string().into_bytes(),
            (_, Value::Choice(index)) => index.to_string().into_bytes(),
            (_, Value::Bytes(bytes)) => bytes.clone(),
            (_, Value::Words(words)) => words.join(&b' '),
            (_, Value::Numbers(numbers)) => special::format_numbers(numbers),
            (_, Value::Save(points)) => special::format_save(points),
            (_, Value::Limits(limits)) => special::format_limits(limits),
            (_, Value::Memory(memory)) => special::format_memory_or_percent(memory),
            (_, Value::Scores([first, second, third])) => format!("{first} {second} {third}").into_bytes(),
            (_, Value::Address(None)) => Vec::new(),
            (_, Value::Address(Some((host, port)))) => format!("{host} {port}").into_bytes(),
        }
    }
}

fn within(value: i64, min: i64, max: i64) -> Result<Value, Refusal> {
    if value < min || value > max {
        return Err(format!("argument must be between {min} and {max} inclusive").into());
    }
    Ok(Value::Integer(value))
}

fn parse_octal(word: &[u8]) -> Option<u64> {
    if word.is_empty() {
        return Some(0);
    }
    if !word.iter().all(|byte| (b'0'..=b'7').contains(byte)) {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(word).ok()?, 8).ok()
}
