//! Packed replies: MANTISSA.PACKED carries another command and replies the numbers of its reply as bytes
//! ([`mantissa_protocol::packed`]).
//!
//! Which commands it carries is said in their rows ([`Spec::packed`](crate::Spec::packed)). Those whose
//! replies can be long write numbers from where they lie ([`packs`]); the others reply as ever, into a buffer
//! of their own, and the numbers are read from that text ([`packs_text`]). A command that is not carried
//! costs nothing for it.

use mantissa_number::parse_i64;
use mantissa_protocol::packed::{Cause, Failure, Form, PackedWriter};
use mantissa_protocol::{Args, Protocol, Reply};
use mantissa_store::StringRef;
use mantissa_store::listpack::Element;

use crate::access::Access;
use crate::error::{Error, Outcome};
use crate::spec::{BeginSearch, Categories, FindKeys, Flags, Group, KeyFlags, KeySpec, Locks, Traits};
use crate::{DataHandler, DataSpec};

/// Writes the numbers of a command's reply. The arguments are those of the command.
pub(crate) type PackedHandler = fn(&mut Access<'_>, Args<'_>, &mut PackedWriter) -> Outcome;

/// The handler that [`Spec::packed`](crate::Spec::packed) takes, of a [`PackedHandler`].
macro_rules! packs {
    ($write:expr) => {
        |access, args, reply| $crate::packed::answer(access, args, reply, $write)
    };
}

/// The same for a command whose reply is read as text; of its ordinary handler.
macro_rules! packs_text {
    ($handler:expr) => {
        $crate::packed::packs!(|access, args, writer| {
            $crate::packed::write_text(access, args, writer, $handler)
        })
    };
}

/// The same for a command that writes and replies fractions.
macro_rules! packs_changed_fraction {
    ($handler:expr) => {
        $crate::packed::packs!(|access, args, writer| {
            $crate::packed::expect_fractions(writer)?;
            $crate::packed::write_changed_fraction(access, args, writer, $handler)
        })
    };
}

pub(crate) use {packs, packs_changed_fraction, packs_text};

/// Runs a command that is carried and replies its numbers. Argument 1 is the type, the command follows.
pub(crate) fn answer(
    access: &mut Access<'_>,
    args: Args<'_>,
    reply: &mut Reply,
    write: PackedHandler,
) -> Outcome {
    let form = Form::parse(args.at(1)).ok_or(Error::fixed(
        "ERR unknown type of packed numbers, must be F64, F32, VARINT, DELTA, F64NAN or F32NAN",
    ))?;
    let mut writer = PackedWriter::new(form);
    let written = write(access, args.from(2), &mut writer);
    access.log_carried(args.from(2));
    written?;
    writer.finish(reply).map_err(error)
}

fn error(Failure { index, cause }: Failure) -> Error {
    let what = match cause {
        Cause::NotANumber => "is not a number",
        Cause::Missing => "is missing",
        Cause::NotAnInteger => "is not an integer",
        Cause::Descends => "is below the one before",
        Cause::TooMany => "is one too many",
    };
    Error::new(format!("ERR element {index} of the reply {what}"))
}

/// Refuses types of integers for a command that changes data and replies fractions: the change would be made
/// and its reply lost.
pub(crate) fn expect_fractions(writer: &PackedWriter) -> Outcome {
    match writer.form().takes_fractions() {
        true => Ok(()),
        false => Err(Error::fixed("ERR this command replies fractions and changes data: use F64 or F32")),
    }
}

/// Runs the ordinary handler of a command and writes the numbers of its reply.
pub(crate) fn write_text(
    access: &mut Access<'_>,
    args: Args<'_>,
    writer: &mut PackedWriter,
    handler: DataHandler,
) -> Outcome {
    write_texts(access, args, writer, handler, PackedWriter::text)
}

/// The same for a command that has changed something by then: what is beyond a double, as long doubles may
/// be, is written as an infinity.
pub(crate) fn write_changed_fraction(
    access: &mut Access<'_>,
    args: Args<'_>,
    writer: &mut PackedWriter,
    handler: DataHandler,
) -> Outcome {
    write_texts(access, args, writer, handler, PackedWriter::rounded_text)
}

fn write_texts(
    access: &mut Access<'_>,
    args: Args<'_>,
    writer: &mut PackedWriter,
    handler: DataHandler,
    write: fn(&mut PackedWriter, &[u8]),
) -> Outcome {
    let mut reply = Reply::new(Protocol::Resp3);
    handler(access, args, &mut reply)?;
    let mut rest = reply.as_bytes();
    if !matches!(rest.first(), Some(b'*' | b'%' | b'~')) {
        writer.set_scalar();
    }
    while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
        let (line, after) = rest.split_at(end + 1);
        rest = after;
        let [kind, text @ .., b'\r', b'\n'] = line else { continue };
        match kind {
            b':' | b',' | b'+' => write(writer, text),
            b'#' => writer.integer(i64::from(text == b"t")),
            b'_' => writer.missing(),
            b'$' => {
                let len = parse_i64(text).and_then(|len| usize::try_from(len).ok()).unwrap_or(0);
                let (bulk, after) = rest.split_at(len.min(rest.len()));
                write(writer, bulk);
                rest = after.get(2..).unwrap_or_default();
            }
            // The elements of an aggregate follow its header.
            _ => {}
        }
    }
    Ok(())
}

/// Writes an element of a collection.
#[inline]
pub(crate) fn write_element(writer: &mut PackedWriter, element: Element<'_>) {
    match element {
        Element::Integer(integer) => writer.integer(integer),
        Element::Bytes(text) => writer.text(text),
    }
}

/// Writes an element of a collection, or that there is none.
#[inline]
pub(crate) fn write_value(writer: &mut PackedWriter, value: Option<Element<'_>>) {
    match value {
        Some(value) => write_element(writer, value),
        None => writer.missing(),
    }
}

/// Writes a string, or that there is none.
#[inline]
pub(crate) fn write_string(writer: &mut PackedWriter, value: Option<StringRef<'_>>) {
    match value {
        Some(StringRef::Integer(integer)) => writer.integer(integer),
        Some(StringRef::Bytes(text)) => writer.text(text),
        None => writer.missing(),
    }
}

fn help(_: &mut Access<'_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    const LINES: &[&str] = &[
        "MANTISSA.PACKED <type> <command> [<arg> ...]",
        "    Runs the command and replies its numbers as bytes, in one bulk string.",
        "    Types: F64, F32, VARINT, DELTA; F64NAN and F32NAN have NaN for what is no number.",
        "HELP",
        "    This text.",
    ];
    reply.array(LINES.len());
    LINES.iter().for_each(|line| reply.simple(line));
    Ok(())
}

const ANY_TIME: Flags = Flags::LOADING.or(Flags::STALE);

/// The registration table.
pub(crate) const COMMANDS: &[DataSpec] = &[DataSpec::container("mantissa.packed", -3, Flags::MOVABLE_KEYS)
    .traits(Traits::CARRIES)
    .keys(&[KeySpec::other(
        BeginSearch::Unknown,
        FindKeys::Unknown,
        KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::UPDATE),
    )
    .notes("Those of the command that it runs")])
    .docs(
        Group::Generic,
        "0.1.0",
        "That of the command",
        "Runs a command and replies its numbers as bytes, in one bulk string.",
    )
    .arguments("type:string command:string arg:string?*")
    .subcommands(&[DataSpec::new("help", 2, help, ANY_TIME)
        .locks(Locks::Nothing)
        .categories(Categories::KEYSPACE)
        .docs(Group::Generic, "0.1.0", "O(1)", "Explains packed replies.")])];
