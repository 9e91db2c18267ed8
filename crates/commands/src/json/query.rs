//! Commands that tell of values without printing them.

use mantissa_protocol::{Args, Reply};
use mantissa_store::Json;
use mantissa_store::json::{Number, Shape, View};

use super::path::Path;
use super::{
    Access, Error, NO_KEY, Outcome, at_least, no_path, no_such, optional_path, read, wrong_path_type,
};

/// The first match of a legacy path.
pub(super) fn first_match<'a>(document: &'a Json, path: &Path) -> Outcome<View<'a>> {
    path.check()?;
    path.first(document.root())?.ok_or_else(|| no_path(path.fixed()))
}

/// Replies an array of what `write` writes for each match.
pub(super) fn each_match(
    document: &Json,
    path: &Path,
    reply: &mut Reply,
    mut write: impl FnMut(View<'_>, &mut Reply),
) -> Outcome {
    let deferred = reply.defer();
    let mut count = 0;
    path.visit(document.root(), |_, value| {
        write(value, reply);
        count += 1;
        if reply.has_overflowed() {
            return std::ops::ControlFlow::Break(());
        }
        std::ops::ControlFlow::Continue(())
    })?;
    reply.finish_array(deferred, count);
    Ok(())
}

/// Replies that a key is missing: null to a legacy path, an error to a JSONPath.
pub(super) fn missing_key(path: &Path, reply: &mut Reply, error: Error) -> Outcome {
    if !path.is_legacy {
        return Err(error);
    }
    reply.null();
    Ok(())
}

/// JSON.TYPE key [path]
pub(super) fn type_of(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    at_least(2, args, "json.type")?;
    let path = optional_path(args, 2);
    let document = read(access, args.at(1))?;
    if reply.is_resp3() {
        reply.array(1);
    }
    let Some(document) = document else {
        reply.null();
        return Ok(());
    };
    nothing_unless_legacy(&path)?;
    if path.is_legacy {
        match path.first(document.root())? {
            Some(value) => reply.bulk(super::type_name(value).as_bytes()),
            None => reply.null(),
        }
        return Ok(());
    }
    each_match(document, &path, reply, |value, reply| reply.bulk(super::type_name(value).as_bytes()))
}

pub(super) fn strlen(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    at_least(2, args, "json.strlen")?;
    let path = optional_path(args, 2);
    let Some(document) = read(access, args.at(1))? else { return missing_key(&path, reply, NO_KEY) };
    path.check()?;
    if path.is_legacy {
        let value = first_match(document, &path)?;
        let text = value.string().ok_or_else(|| wrong_path_type("string", super::type_name(value)))?;
        reply.integer(text.len() as i64);
        return Ok(());
    }
    each_match(document, &path, reply, |value, reply| match value.string() {
        Some(text) => reply.integer(text.len() as i64),
        None => reply.null(),
    })
}

pub(super) fn objlen(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    at_least(2, args, "json.objlen")?;
    let path = optional_path(args, 2);
    let Some(document) = read(access, args.at(1))? else {
        let error = no_such(path.original(), "not an object");
        return missing_key(&path, reply, error);
    };
    nothing_unless_legacy(&path)?;
    if path.is_legacy {
        match path.first(document.root())? {
            None => reply.null(),
            Some(value) if value.is_object() => reply.integer(value.len() as i64),
            Some(value) => return Err(wrong_path_type("object", super::type_name(value))),
        }
        return Ok(());
    }
    each_match(document, &path, reply, |value, reply| match value.is_object() {
        true => reply.integer(value.len() as i64),
        false => reply.null(),
    })
}

/// The error of what is no JSONPath. What is no legacy path leads nowhere.
fn nothing_unless_legacy(path: &Path) -> Outcome {
    if path.is_legacy { Ok(()) } else { path.check() }
}

fn write_keys(object: View<'_>, reply: &mut Reply) {
    reply.array(object.len());
    object.members().for_each(|(key, _)| reply.bulk(key));
}

pub(super) fn objkeys(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    at_least(2, args, "json.objkeys")?;
    let path = optional_path(args, 2);
    let Some(document) = read(access, args.at(1))? else { return missing_key(&path, reply, NO_KEY) };
    nothing_unless_legacy(&path)?;
    if path.is_legacy {
        match path.first(document.root())? {
            None => reply.null(),
            Some(value) if value.is_object() => write_keys(value, reply),
            Some(_) => return Err(no_such(path.fixed(), "not an object")),
        }
        return Ok(());
    }
    each_match(document, &path, reply, |value, reply| match value.is_object() {
        true => write_keys(value, reply),
        false => reply.null(),
    })
}

/// Writes a value in the types of the protocol: containers are arrays that begin with their bracket.
fn write_resp(value: View<'_>, reply: &mut Reply) {
    match value.shape() {
        Shape::Null => reply.null(),
        Shape::Boolean(value) => reply.simple(if value { "true" } else { "false" }),
        Shape::Number(Number::Integer(value)) => reply.integer(value),
        Shape::Number(number) => reply.double(number.to_f64()),
        Shape::String(text) => reply.bulk(text),
        Shape::Array => {
            reply.array(1 + value.len());
            reply.simple("[");
            value.elements().for_each(|element| write_resp(element, reply));
        }
        Shape::Object => {
            reply.array(1 + 2 * value.len());
            reply.simple("{");
            for (key, value) in value.members() {
                reply.bulk(key);
                write_resp(value, reply);
            }
        }
    }
}

pub(super) fn resp(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    at_least(2, args, "json.resp")?;
    let path = super::path_or_root(args, 2)?;
    let Some(document) = read(access, args.at(1))? else {
        reply.null();
        return Ok(());
    };
    path.check()?;
    if path.is_legacy {
        write_resp(first_match(document, &path)?, reply);
        return Ok(());
    }
    each_match(document, &path, reply, write_resp)
}
