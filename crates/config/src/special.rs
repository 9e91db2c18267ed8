//! The settings whose values have a grammar of their own: save points, addresses, output limits, event
//! classes, percentiles and the like. Each has its parser and its printer side by side.

use super::refusal::{Refusal, reason};
use super::value::{MemoryOrPercent, OutputBufferLimit, SavePoint, ShutdownFlags, Value};
use super::words::{ParseContext, WRONG_COUNT, parse_memory, split_memory, text};
use mantissa_commands::EventClass;
use mantissa_number::parse_i64;
use std::path::Path;

// ---- Save points ------------------------------------------------------------------------------------------

const BAD_SAVE: &str = "Invalid save parameters";

/// Pairs of seconds (from 1) and changes (from 0). Lines of one file add up; one empty word, or none, forgets
/// all.
pub(super) fn parse_save(words: &[&[u8]], context: &ParseContext<'_>) -> Result<Value, Refusal> {
    let mut points = match context.current {
        Value::Save(points) if context.repeated => points.clone(),
        _ => Vec::new(),
    };
    if matches!(words, [] | [b""]) {
        return Ok(Value::Save(Vec::new()));
    }
    let (pairs, rest) = words.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(BAD_SAVE.into());
    }
    for [seconds, changes] in pairs {
        let seconds = parse_digits(seconds).filter(|&seconds| seconds >= 1).ok_or(BAD_SAVE)?;
        let changes = parse_digits(changes).ok_or(BAD_SAVE)?;
        points.push(SavePoint { seconds, changes });
    }
    Ok(Value::Save(points))
}

pub(super) fn format_save(points: &[SavePoint]) -> Vec<u8> {
    let words: Vec<String> =
        points.iter().map(|point| format!("{} {}", point.seconds, point.changes)).collect();
    words.join(" ").into_bytes()
}

/// Decimal digits, with leading zeros and a plus sign allowed; what is too big counts as 2^63 - 1.
fn parse_digits(word: &[u8]) -> Option<u64> {
    let digits = word.strip_prefix(b"+").unwrap_or(word);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let sum =
        digits.iter().fold(0u64, |sum, digit| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0')));
    Some(sum.min(i64::MAX as u64))
}

// ---- Addresses --------------------------------------------------------------------------------------------

const BIND_ADDRESSES_MAX: usize = 16;

/// Up to 16 addresses; none, or one empty word, listens on no TCP port.
pub(super) fn parse_bind(words: &[&[u8]]) -> Result<Value, Refusal> {
    if words.len() > BIND_ADDRESSES_MAX {
        return Err("Too many bind addresses specified.".into());
    }
    if matches!(words, [b""]) {
        return Ok(Value::Words(Vec::new()));
    }
    for word in words {
        text(word)?;
    }
    Ok(Value::Words(words.iter().map(|word| word.to_vec()).collect()))
}

/// A host and a port from 0 to 65535; `no one`, or an empty host and port, is none.
pub(super) fn parse_replica_of(words: &[&[u8]]) -> Result<Value, Refusal> {
    let [host, port] = words else { return Err(WRONG_COUNT.into()) };
    if host.eq_ignore_ascii_case(b"no") && port.eq_ignore_ascii_case(b"one")
        || host.is_empty() && port.is_empty()
    {
        return Ok(Value::Address(None));
    }
    let port = parse_i64(port).and_then(|port| u16::try_from(port).ok()).ok_or("Invalid master port")?;
    Ok(Value::Address(Some((text(host)?.to_owned(), port))))
}

// ---- Output limits ----------------------------------------------------------------------------------------

const CLASSES: [&str; 3] = ["normal", "slave", "pubsub"];

/// Groups of class, hard limit, soft limit and seconds; classes that are not named keep theirs.
pub(super) fn parse_limits(words: &[&[u8]], context: &ParseContext<'_>) -> Result<Value, Refusal> {
    let mut limits = match context.current {
        Value::Limits(limits) => *limits,
        _ => Default::default(),
    };
    let (groups, rest) = words.as_chunks::<4>();
    if !rest.is_empty() {
        return Err("Wrong number of arguments in buffer limit configuration.".into());
    }
    for [class, hard, soft, seconds] in groups {
        let class: &[u8] = if class.eq_ignore_ascii_case(b"replica") { b"slave" } else { class };
        let index = CLASSES.iter().position(|name| class.eq_ignore_ascii_case(name.as_bytes()));
        let index = index.ok_or("Invalid client class specified in buffer limit configuration.")?;
        let limit = parse_limit(hard, soft, seconds);
        limits[index] =
            limit.ok_or("Error in hard, soft or soft_seconds setting in buffer limit configuration.")?;
    }
    Ok(Value::Limits(limits))
}

fn parse_limit(hard: &[u8], soft: &[u8], seconds: &[u8]) -> Option<OutputBufferLimit> {
    let size = |word: &[u8]| if word.is_empty() { None } else { parse_memory(word)?.map(|size| size as u64) };
    Some(OutputBufferLimit {
        hard_bytes: size(hard)?,
        soft_bytes: size(soft)?,
        soft_seconds: parse_digits(seconds)?,
    })
}

pub(super) fn format_limits(limits: &[OutputBufferLimit; 3]) -> Vec<u8> {
    let group = |(class, limit): (&&str, &OutputBufferLimit)| {
        format!("{class} {} {} {}", limit.hard_bytes, limit.soft_bytes, limit.soft_seconds)
    };
    CLASSES.iter().zip(limits).map(group).collect::<Vec<_>>().join(" ").into_bytes()
}

// ---- Keyspace events --------------------------------------------------------------------------------------

/// The letters, in the order in which they are printed.
const CLASS_LETTERS: &[(u8, u32)] = &[
    (b'g', EventClass::GENERIC.0),
    (b'$', EventClass::STRING.0),
    (b'l', EventClass::LIST.0),
    (b's', EventClass::SET.0),
    (b'h', EventClass::HASH.0),
    (b'z', EventClass::SORTED_SET.0),
    (b'x', EventClass::EXPIRED.0),
    (b'e', EventClass::EVICTED.0),
    (b't', EventClass::STREAM.0),
    (b'd', EventClass::MODULE.0),
    (b'a', EventClass::ARRAY.0),
    (b'n', EventClass::NEW.0),
    (b'o', EventClass::OVERWRITTEN.0),
    (b'c', EventClass::TYPE_CHANGED.0),
];
/// `A`: all but what is asked for by name only: `m`, `n`, `o` and `c`.
const ALL_CLASSES: u32 = EventClass::GENERIC.0
    | EventClass::STRING.0
    | EventClass::LIST.0
    | EventClass::SET.0
    | EventClass::HASH.0
    | EventClass::SORTED_SET.0
    | EventClass::EXPIRED.0
    | EventClass::EVICTED.0
    | EventClass::STREAM.0
    | EventClass::MODULE.0
    | EventClass::ARRAY.0;
const OTHER_LETTERS: &[(u8, u32)] =
    &[(b'K', EventClass::KEYSPACE.0), (b'E', EventClass::KEYEVENT.0), (b'm', EventClass::KEY_MISS.0)];

pub(super) fn parse_events(word: &[u8]) -> Result<Value, Refusal> {
    let mut bits = 0;
    for letter in word {
        let known = CLASS_LETTERS.iter().chain(OTHER_LETTERS).chain(&[(b'A', ALL_CLASSES)]);
        match known.into_iter().find(|(known, _)| known == letter) {
            Some((_, bit)) => bits |= bit,
            None => return Err("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.".into()),
        }
    }
    Ok(Value::Integer(i64::from(bits)))
}

/// The letters of a set of event classes. As in Redis, `n`, `o` and `c` are not printed next to `A`.
pub(super) fn format_events(bits: u32) -> Vec<u8> {
    let mut letters = Vec::new();
    let mut add = |table: &[(u8, u32)]| {
        letters.extend(table.iter().filter(|(_, bit)| bits & bit != 0).map(|(letter, _)| *letter))
    };
    match bits & ALL_CLASSES == ALL_CLASSES {
        true => add(&[(b'A', ALL_CLASSES)]),
        false => add(CLASS_LETTERS),
    }
    add(OTHER_LETTERS);
    letters
}

// ---- Percentiles ------------------------------------------------------------------------------------------

pub(super) fn parse_percentiles(words: &[&[u8]]) -> Result<Value, Refusal> {
    if matches!(words, [] | [b""]) {
        return Ok(Value::Numbers(Vec::new()));
    }
    let mut numbers = Vec::with_capacity(words.len());
    for word in words {
        let number = mantissa_number::parse_score(word)
            .ok_or("Invalid latency-tracking-info-percentiles parameters")?;
        if !(0.0..=100.0).contains(&number) {
            return Err("latency-tracking-info-percentiles parameters should sit between [0.0,100.0]".into());
        }
        numbers.push(number);
    }
    Ok(Value::Numbers(numbers))
}

/// Up to six decimals, without zeros at the end.
pub(super) fn format_numbers(numbers: &[f64]) -> Vec<u8> {
    numbers.iter().map(|&number| format_percentile(number)).collect::<Vec<_>>().join(" ").into_bytes()
}

/// One percentile as `CONFIG GET` and INFO print it.
pub fn format_percentile(number: f64) -> String {
    let text = format!("{number:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

// ---- Memory in bytes or percent ---------------------------------------------------------------------------

/// None where it is neither a size nor a percentage. As in redis-server a size beyond 63 bits wraps around.
/// A negative one is a percentage.
pub(super) fn parse_memory_or_percent(word: &[u8]) -> Option<Result<Value, Refusal>> {
    let number = match word.strip_suffix(b"%") {
        Some(percent) => -parse_i64(percent).filter(|&percent| percent >= 0)?,
        None => {
            let (digits, scale) = split_memory(word)?;
            let add = |sum: u64, digit: &u8| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
            digits.iter().fold(0, add).wrapping_mul(scale as u64) as i64
        }
    };
    let memory = match number {
        0.. => MemoryOrPercent::Bytes(number as u64),
        -100..0 => MemoryOrPercent::Percent(number.unsigned_abs() as u8),
        _ => return Some(Err("percentage argument must be less or equal to 100".into())),
    };
    Some(Ok(Value::Memory(memory)))
}

pub(super) fn format_memory_or_percent(memory: &MemoryOrPercent) -> Vec<u8> {
    match memory {
        MemoryOrPercent::Bytes(bytes) => bytes.to_string(),
        MemoryOrPercent::Percent(0) => "0".to_owned(),
        MemoryOrPercent::Percent(percent) => format!("{percent}%"),
    }
    .into_bytes()
}

// ---- Others -----------------------------------------------------------------------------------------------

pub(super) fn parse_oom_scores(words: &[&[u8]]) -> Result<Value, Refusal> {
    let words: [&[u8]; 3] = words.try_into().map_err(|_| WRONG_COUNT)?;
    let mut scores = [0; 3];
    for (score, word) in scores.iter_mut().zip(words) {
        let number = parse_i64(word).filter(|number| (-2000..=2000).contains(number));
        *score =
            number.ok_or("Invalid oom-score-adj-values, elements must be between -2000 and 2000.")? as i32;
    }
    Ok(Value::Scores(scores))
}

pub(super) fn parse_shutdown(words: &[&[u8]]) -> Result<Value, Refusal> {
    let names = ShutdownFlags::NAMES;
    if words.is_empty() {
        return Err(one_of(names));
    }
    let mut bits = 0;
    for word in words {
        let index = names.iter().position(|name| word.eq_ignore_ascii_case(name.as_bytes()));
        match index.ok_or_else(|| one_of(names))? {
            0 => {}
            index => bits |= 1 << (index - 1),
        }
    }
    if bits & 3 == 3 {
        return Err("shutdown options SAVE and NOSAVE can't be used simultaneously".into());
    }
    Ok(Value::Integer(bits))
}

pub(super) fn format_shutdown(bits: i64) -> Vec<u8> {
    let (none, names) = ShutdownFlags::NAMES.split_first().expect("the list of names is not empty");
    let set = names.iter().enumerate().filter(|(index, _)| bits >> index & 1 == 1).map(|(_, name)| *name);
    let words: Vec<&str> = set.collect();
    if words.is_empty() { none.as_bytes().to_vec() } else { words.join(" ").into_bytes() }
}

/// The refusal of a word that is none of `names`.
pub(super) fn one_of(names: &[&str]) -> Refusal {
    /// Of Valkey, or of later versions of Redis: errors are those of Redis 8.2.
    const LATER: [&str; 5] = ["safe", "failover", "flush-before-load", "volatile-lrm", "allkeys-lrm"];
    let names: Vec<_> = names.iter().copied().filter(|name| !LATER.contains(name)).collect();
    format!("argument(s) must be one of the following: {}", names.join(", ")).into()
}

/// An existing folder as an absolute path; `base` is where relative ones start.
pub(super) fn parse_directory(word: &str, base: &str) -> Result<Value, Refusal> {
    if word.is_empty() {
        return Err("No such file or directory".into());
    }
    let path = Path::new(base).join(word).canonicalize().map_err(|error| reason(&error))?;
    if !path.is_dir() {
        return Err("Not a directory".into());
    }
    let path = path.into_os_string().into_string().map_err(|_| "argument must be UTF-8 text")?;
    Ok(Value::Bytes(path.into_bytes()))
}

pub(super) fn check_database_file(name: &str) -> Result<(), &'static str> {
    if name.contains('/') {
        return Err("dbfilename can't be a path, just a filename");
    }
    Ok(())
}

pub(super) fn check_log_file_name(name: &str) -> Result<(), &'static str> {
    match name {
        "" => Err("appendfilename can't be empty"),
        _ if name.contains('/') => Err("appendfilename can't be a path, just a filename"),
        _ => Ok(()),
    }
}

pub(super) fn check_log_folder_name(name: &str) -> Result<(), &'static str> {
    match name {
        "" => Err("appenddirname can't be empty"),
        _ if name.contains('/') => Err("appenddirname can't be a path, just a dirname"),
        _ => Ok(()),
    }
}

pub(super) fn check_backup_folder_name(name: &str) -> Result<(), &'static str> {
    match name {
        "" => Err("backupdirname can't be empty"),
        "." | ".." => Err("backupdirname can't be a path, just a dirname"),
        _ if name.contains('/') => Err("backupdirname can't be a path, just a dirname"),
        _ => Ok(()),
    }
}

pub(super) fn check_hostname(name: &str) -> Result<(), &'static str> {
    if name.len() >= 256 {
        return Err("Hostnames must be less than 256 characters");
    }
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.') {
        return Err("Hostnames may only contain alphanumeric characters, hyphens or dots");
    }
    Ok(())
}

/// A node name is printed in lines of text whose parts are set off by some of these signs.
pub(super) fn check_node_name(name: &str) -> Result<(), &'static str> {
    let refused = |byte: u8| b"!#$%&()*+:;<>?@[]^{|}~".contains(&byte);
    match name.bytes().any(refused) {
        true => Err("Announced human node name contained invalid character"),
        false => Ok(()),
    }
}

pub(super) fn check_locale(name: &str) -> Result<(), &'static str> {
    if mantissa_sys::locale::is_locale(name) { Ok(()) } else { Err("Invalid locale name") }
}

/// A folder, by its path or as a file:// URL, or a bucket.
pub(super) fn check_archive_url(url: &str) -> Result<(), &'static str> {
    if url.starts_with("s3://") {
        return Ok(());
    }
    let path = url.strip_prefix("file://").unwrap_or(url);
    if url.contains("://") && !path.starts_with('/') {
        return Err(
            "argument must be the path of a folder, a file:// URL with an absolute path, or an s3:// URL",
        );
    }
    Ok(())
}

pub(super) fn check_schedule(text: &str) -> Result<(), &'static str> {
    crate::schedule::Schedule::parse(text).map(drop)
}

/// The names that a title may hold in braces.
const TITLE_NAMES: [&str; 7] =
    ["title", "listen-addr", "server-mode", "port", "tls-port", "unixsocket", "config-file"];

pub(super) fn check_title(template: &str) -> Result<(), &'static str> {
    const BAD_TITLE: &str = "template format is invalid or contains unknown variables";
    if template.is_empty() {
        return Err(BAD_TITLE);
    }
    let mut rest = template;
    while let Some((_, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').ok_or(BAD_TITLE)?;
        if !TITLE_NAMES.contains(&name) {
            return Err(BAD_TITLE);
        }
        rest = after;
    }
    Ok(())
}

/// Bytes of a chunk of a time series.
pub(super) fn check_chunk_bytes(text: &str) -> Result<(), &'static str> {
    let bytes = text.parse::<u64>().ok().filter(|bytes| bytes.is_multiple_of(8));
    let is_good = bytes.is_some_and(|bytes| (48..=1 << 20).contains(&bytes));
    is_good.then_some(()).ok_or("argument must be a multiple of 8 between 48 and 1048576")
}

/// A difference of values.
pub(super) fn check_difference(text: &str) -> Result<(), &'static str> {
    let is_good = text.parse::<f64>().is_ok_and(|value| value >= 0.0 && value.is_finite());
    is_good.then_some(()).ok_or("argument must be a number that is not negative")
}

/// A rate of false positives.
pub(super) fn check_error_rate(text: &str) -> Result<(), &'static str> {
    // The first part of a filter has half of the rate.
    let is_good = text.parse::<f64>().is_ok_and(|rate| rate / 2.0 > 0.0 && rate < 1.0);
    is_good.then_some(()).ok_or("argument must be a number between 0 and 1")
}

/// Compactions of time series.
pub(super) fn check_compactions(text: &str) -> Result<(), &'static str> {
    let is_good = mantissa_commands::parse_compactions(text).is_some();
    is_good.then_some(()).ok_or("argument must be AGGREGATION:DURATION:RETENTION[:ALIGNMENT], separated by ;")
}
