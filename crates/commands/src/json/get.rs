//! JSON.GET and JSON.MGET.

use std::ops::ControlFlow;
use std::rc::Rc;

use mantissa_protocol::{Args, Reply};
use mantissa_store::Json;
use mantissa_store::json::{Layout, ListWriter, Number, Shape, View, write_string};

use smallvec::SmallVec;

use super::path::Path;
use super::{Access, Error, Outcome, at_least, no_path, path_cache, read};
use crate::parse::is;

/// How values are replied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// As text.
    Text,
    /// In the types of the protocol, containers as text.
    Expand1,
    /// In the types of the protocol.
    Expand,
}

impl Format {
    pub const NEEDS_RESP3: Error = Error::fixed("ERR FORMAT argument is not supported on RESP2");

    /// The format of this name.
    pub fn parse(name: &[u8]) -> Option<Format> {
        match name.to_ascii_uppercase().as_slice() {
            b"STRING" => Some(Format::Text),
            b"EXPAND1" => Some(Format::Expand1),
            b"EXPAND" => Some(Format::Expand),
            _ => None,
        }
    }
}

struct Options<'a> {
    layout: Layout<'a>,
    format: Format,
    paths: SmallVec<[Rc<Path>; 2]>,
}

fn parse_options<'a>(args: Args<'a>, reply: &Reply) -> Outcome<Options<'a>> {
    let mut options = Options { layout: Layout::default(), format: Format::Text, paths: SmallVec::new() };
    let mut words = args.from(2).iter();
    // As in RedisJSON, what is not UTF-8 ends the arguments.
    while let Some(word) = words.next().filter(|word| std::str::from_utf8(word).is_ok()) {
        let mut value = || words.next().ok_or_else(|| Error::arity("json.get"));
        if is(word, "indent") {
            options.layout.indent = value()?;
        } else if is(word, "newline") {
            options.layout.newline = value()?;
        } else if is(word, "space") {
            options.layout.space = value()?;
        } else if is(word, "format") {
            if !reply.is_resp3() {
                return Err(Format::NEEDS_RESP3);
            }
            let wrong = || Error::fixed("ERR wrong reply format");
            options.format = Format::parse(value()?).ok_or_else(wrong)?;
        } else if !is(word, "noescape") {
            options.paths.push(path_cache::parse(word)?);
        }
    }
    if options.paths.is_empty() {
        options.paths.push(path_cache::parse(b".")?);
    }
    Ok(options)
}

/// JSON.GET key [INDENT text] [NEWLINE text] [SPACE text] [FORMAT format] [path ...]
pub(super) fn get(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    at_least(2, args, "json.get")?;
    if args.len() == 2 {
        match read(access, args.at(1))?.map(Json::root) {
            Some(root) => reply.bulk_with(text_bytes(root), |text| root.write(text)),
            None => reply.null(),
        }
        return Ok(());
    }
    let options = parse_options(args, reply)?;
    let Some(document) = read(access, args.at(1))? else {
        reply.null();
        return Ok(());
    };
    let root = document.root();
    if let [path] = options.paths.as_slice() {
        path.check()?;
    }
    if options.format != Format::Text {
        reply.array(options.paths.len());
        for path in &options.paths {
            super::query::each_match(document, path, reply, |value, reply| {
                write_expanded(value, options.format, reply);
            })?;
        }
        return Ok(());
    }
    let is_whole = options.paths.iter().all(|path| path.is_root());
    let expected = if is_whole { text_bytes(root) } else { MATCHES_BYTES };
    let (layout, text_max) = (&options.layout, reply.bytes_max());
    reply.bulk_with(expected, |text| {
        match options.paths.as_slice() {
            [path] if path.is_legacy => {
                let value = path.first(root)?.ok_or_else(|| no_path(path.fixed()))?;
                value.write_with(layout, 0, text);
            }
            [path] => drop(write_matches(path, root, (layout, 0), text_max, text)?),
            paths => write_paths(paths, root, layout, text_max, text)?,
        }
        Ok(())
    })
}

/// About as many bytes as the matches of a path have: a length of two digits.
const MATCHES_BYTES: usize = 32;

/// About as many bytes as the text of a value has.
fn text_bytes(value: View<'_>) -> usize {
    let packed = value.memory_usage();
    packed + packed / 2 + 16
}

/// Writes the array of a path's matches with a layout, inside a number of containers, until the text has more
/// than `text_max` bytes. Returns how many there are.
pub(super) fn write_matches(
    path: &Path,
    root: View<'_>,
    (layout, depth): (&Layout<'_>, usize),
    text_max: usize,
    text: &mut Vec<u8>,
) -> Outcome<usize> {
    let mut list = ListWriter::begin(b"[]", layout, depth, text);
    let mut count = 0;
    path.visit(root, |_, value| {
        list.item(text);
        value.write_with(layout, depth + 1, text);
        count += 1;
        if text.len() > text_max { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    list.end(text);
    Ok(count)
}

/// Writes the object of several paths: with the first match of each if all are legacy paths, otherwise with
/// the array of its matches.
fn write_paths(
    paths: &[Rc<Path>],
    root: View<'_>,
    layout: &Layout<'_>,
    text_max: usize,
    text: &mut Vec<u8>,
) -> Outcome {
    let is_legacy = paths.iter().all(|path| path.is_legacy);
    // As in RedisJSON, what is no path is left out where there are others. It counts for the dialect.
    let paths: Vec<&Rc<Path>> = paths.iter().filter(|path| path.check().is_ok()).collect();
    let mut firsts = Vec::new();
    for path in paths.iter().filter(|_| is_legacy) {
        firsts.push(path.first(root)?.ok_or_else(|| no_path(path.original()))?);
    }
    // A path that comes again is left out.
    let mut seen = std::collections::HashSet::new();
    let paths = paths.iter().enumerate().filter(|(_, path)| seen.insert(path.original()));
    let mut list = ListWriter::begin(b"{}", layout, 0, text);
    for (index, path) in paths {
        list.item(text);
        write_string(path.original().as_bytes(), text);
        text.push(b':');
        text.extend_from_slice(layout.space);
        match firsts.get(index) {
            Some(value) => value.write_with(layout, 1, text),
            None => drop(write_matches(path, root, (layout, 1), text_max, text)?),
        }
    }
    list.end(text);
    Ok(())
}

/// Writes a value in the types of the protocol.
pub(super) fn write_expanded(value: View<'_>, format: Format, reply: &mut Reply) {
    match value.shape() {
        Shape::Null => reply.null(),
        Shape::Boolean(value) => reply.boolean(value),
        Shape::Number(Number::Integer(value)) => reply.integer(value),
        Shape::Number(number) => reply.double(number.to_f64()),
        Shape::String(text) if format == Format::Expand => reply.bulk(text),
        Shape::Array if format == Format::Expand => {
            reply.array(value.len());
            value.elements().for_each(|element| write_expanded(element, format, reply));
        }
        Shape::Object if format == Format::Expand => {
            reply.map(value.len());
            for (key, value) in value.members() {
                reply.bulk(key);
                write_expanded(value, format, reply);
            }
        }
        Shape::String(_) | Shape::Array | Shape::Object => {
            let mut text = Vec::new();
            value.write(&mut text);
            reply.bulk(&text);
        }
    }
}

/// JSON.MGET key [key ...] path
pub(super) fn mget(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    at_least(3, args, "json.mget")?;
    let (last, text_max) = (args.len() - 1, reply.bytes_max());
    let path = super::path_at(args, last)?;
    reply.array(last - 1);
    for key in args.range(1..last) {
        let root =
            read(access, key).ok().flatten().filter(|_| path.check().is_ok()).map(|document| document.root());
        let mut text = Vec::new();
        match root {
            Some(root) if path.is_legacy => {
                path.first(root)?.into_iter().for_each(|value| value.write(&mut text));
            }
            Some(root) => drop(write_matches(&path, root, (&Layout::default(), 0), text_max, &mut text)?),
            None => {}
        }
        if text.is_empty() { reply.null() } else { reply.bulk(&text) }
    }
    Ok(())
}
