//! Packed arguments: MANTISSA.UNPACK has ZADD, RPUSH, HSET or MSET take numbers as bytes.
//!
//! Scores go where they are kept without any text. What Redis keeps as text is printed here, as it prints
//! scores. The log has the ordinary command, so that any server can read it.

use mantissa_number::{FloatText, SCORE_TEXT_MAX, format_f32, format_i64, format_score};
use mantissa_protocol::packed::{Numbers, Packed};
use mantissa_protocol::{Args, OwnedArgs, Reply};

use crate::access::Access;
use crate::error::{Error, Outcome};
use crate::spec::{Categories, Flags, Group, KeyFlags, KeySpec, Locks, Traits};
use crate::{DataHandler, DataSpec, hash, list, sorted_set, string};

const MALFORMED: Error = Error::fixed("ERR malformed packed numbers");

/// Reads packed numbers, of which each must be there.
fn read(argument: &[u8]) -> Outcome<Packed<'_>> {
    let packed = Packed::read(argument).map_err(|_| MALFORMED)?;
    if packed.numbers.is_empty() {
        return Err(Error::fixed("ERR there are no packed numbers"));
    }
    match packed.first_null() {
        Some(index) => Err(not_a_number(index)),
        None => Ok(packed),
    }
}

/// Reads packed numbers and a name for each.
fn read_named(argument: &[u8]) -> Outcome<(Numbers, Vec<&[u8]>)> {
    let Packed { numbers, names, .. } = read(argument)?;
    match names {
        Some(names) if names.len() == numbers.len() => Ok((numbers, names)),
        _ => Err(Error::fixed("ERR packed numbers with names are needed")),
    }
}

/// The numbers as doubles, of which none may be NaN.
fn doubles(numbers: Numbers) -> Outcome<Vec<f64>> {
    let values = match numbers {
        Numbers::Doubles(values) => values,
        Numbers::Floats(values) => values.into_iter().map(f64::from).collect(),
        Numbers::Integers(values) => values.into_iter().map(|value| value as f64).collect(),
    };
    match values.iter().position(|value| value.is_nan()) {
        Some(index) => Err(not_a_number(index)),
        None => Ok(values),
    }
}

fn not_a_number(index: usize) -> Error {
    Error::new(format!("ERR packed number {index} is not a number"))
}

/// Texts of numbers, back to back.
struct Texts {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Texts {
    /// Prints numbers, of which none may be NaN.
    fn of(numbers: &Numbers) -> Outcome<Texts> {
        let mut texts = Texts { bytes: Vec::new(), ends: Vec::with_capacity(numbers.len()) };
        match numbers {
            Numbers::Doubles(values) => {
                for &value in values {
                    texts.add(value.is_nan(), format_score(&mut [0; SCORE_TEXT_MAX], value))?;
                }
            }
            Numbers::Floats(values) => {
                for &value in values {
                    texts.add(value.is_nan(), float_text(value).as_bytes())?;
                }
            }
            Numbers::Integers(values) => {
                for &value in values {
                    texts.add(false, format_i64(&mut [0; 20], value))?;
                }
            }
        }
        Ok(texts)
    }

    fn add(&mut self, is_nan: bool, text: &[u8]) -> Outcome {
        if is_nan {
            return Err(not_a_number(self.ends.len()));
        }
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len());
        Ok(())
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(&0).chain(&self.ends);
        starts.zip(&self.ends).map(|(&start, &end)| &self.bytes[start..end])
    }
}

/// The shortest text that reads back as the float; of an integer without a point.
fn float_text(value: f32) -> String {
    let mut buffer = [0; SCORE_TEXT_MAX];
    if value.fract() == 0.0 || !value.is_finite() {
        return String::from_utf8_lossy(format_score(&mut buffer, f64::from(value))).into_owned();
    }
    format_f32(&mut FloatText::new(), value).to_owned()
}

/// Runs a command that was put together from packed numbers, and logs it in the place of what came.
fn run(access: &mut Access<'_>, words: &[&[u8]], reply: &mut Reply, handler: DataHandler) -> Outcome {
    let command = OwnedArgs::from_slices(words);
    let outcome = handler(access, command.as_args(), reply);
    access.log_carried(command.as_args());
    outcome
}

/// MANTISSA.UNPACK ZADD key packed
fn zadd(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (numbers, members) = read_named(args.at(3))?;
    let scores = doubles(numbers)?;
    let outcome = sorted_set::add_all(access, reply, args.at(2), &scores, &members);
    if access.logs() {
        let texts = Texts::of(&Numbers::Doubles(scores))?;
        let mut words: Vec<&[u8]> = vec![b"ZADD", args.at(2)];
        texts.iter().zip(&members).for_each(|(text, member)| words.extend([text, *member]));
        access.log_carried(OwnedArgs::from_slices(&words).as_args());
    }
    outcome
}

/// MANTISSA.UNPACK RPUSH key packed
fn rpush(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let packed = read(args.at(3))?;
    let texts = Texts::of(&packed.numbers)?;
    let words: Vec<&[u8]> = [b"RPUSH", args.at(2)].into_iter().chain(texts.iter()).collect();
    run(access, &words, reply, list::rpush)
}

/// MANTISSA.UNPACK HSET key packed
fn hset(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (numbers, fields) = read_named(args.at(3))?;
    let texts = Texts::of(&numbers)?;
    let mut words: Vec<&[u8]> = vec![b"HSET", args.at(2)];
    texts.iter().zip(&fields).for_each(|(text, field)| words.extend([*field, text]));
    run(access, &words, reply, hash::hset)
}

/// MANTISSA.UNPACK MSET packed key [key ...]
fn mset(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let packed = read(args.at(2))?;
    let keys = args.from(3);
    if keys.len() != packed.numbers.len() {
        return Err(Error::fixed("ERR as many packed numbers as keys are needed"));
    }
    let texts = Texts::of(&packed.numbers)?;
    let mut words: Vec<&[u8]> = vec![b"MSET"];
    texts.iter().zip(keys).for_each(|(text, key)| words.extend([key, text]));
    run(access, &words, reply, string::mset)
}

fn help(_: &mut Access<'_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    const LINES: &[&str] = &[
        "MANTISSA.UNPACK <subcommand> [<arg> ...]. Subcommands are:",
        "HSET <key> <packed>",
        "    HSET of fields, the names, and values, the numbers.",
        "MSET <packed> <key> [<key> ...]",
        "    MSET of the keys to the numbers.",
        "RPUSH <key> <packed>",
        "    RPUSH of the numbers.",
        "ZADD <key> <packed>",
        "    ZADD of members, the names, and scores, the numbers.",
        "HELP",
        "    This text.",
    ];
    reply.array(LINES.len());
    LINES.iter().for_each(|line| reply.simple(line));
    Ok(())
}

const WRITE: Flags = Flags::WRITE.or(Flags::DENYOOM);

/// A row of a subcommand: name, arity, handler, where its keys are.
const fn row(
    (name, arity): (&'static str, i32),
    handler: DataHandler,
    keys: &'static [KeySpec],
    summary: &'static str,
) -> DataSpec {
    DataSpec::new(name, arity, handler, WRITE).traits(Traits::CARRIES).keys(keys).docs(
        Group::Generic,
        "0.1.0",
        "That of the command, and O(N) for N numbers",
        summary,
    )
}

/// The registration table.
pub(crate) const COMMANDS: &[DataSpec] = &[DataSpec::container("mantissa.unpack", -2, Flags::NONE)
    .docs(Group::Generic, "0.1.0", "Depends on the subcommand.", "Stores numbers that come as bytes.")
    .subcommands(&[
        row(
            ("zadd", 4),
            zadd,
            &[KeySpec::one(2, KeyFlags::RW.or(KeyFlags::UPDATE))],
            "Gives members their scores, which come as bytes.",
        )
        .categories(Categories::SORTEDSET)
        .arguments("key:key#0 packed:string"),
        row(
            ("rpush", 4),
            rpush,
            &[KeySpec::one(2, KeyFlags::RW.or(KeyFlags::INSERT))],
            "Appends numbers, which come as bytes, to a list.",
        )
        .categories(Categories::LIST)
        .arguments("key:key#0 packed:string"),
        row(
            ("hset", 4),
            hset,
            &[KeySpec::one(2, KeyFlags::RW.or(KeyFlags::UPDATE))],
            "Gives fields numbers, which come as bytes.",
        )
        .categories(Categories::HASH)
        .arguments("key:key#0 packed:string"),
        row(
            ("mset", -4),
            mset,
            &[KeySpec::range(3, -1, 1, KeyFlags::OW.or(KeyFlags::UPDATE))],
            "Stores numbers, which come as bytes, at keys.",
        )
        .categories(Categories::STRING)
        .arguments("packed:string key:key#0*"),
        DataSpec::new("help", 2, help, Flags::LOADING.or(Flags::STALE))
            .locks(Locks::Nothing)
            .categories(Categories::KEYSPACE)
            .docs(Group::Generic, "0.1.0", "O(1)", "Lists the subcommands."),
    ])];
