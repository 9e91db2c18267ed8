//! JSON documents.
//!
//! Each command exists in two dialects, of which its path decides (see [`path`]): a legacy path stands for
//! its first match, and it is an error where that is not what the command needs; a JSONPath stands for all
//! matches, and the reply is an array with null where one is not what the command needs.

mod array;
mod change;
mod debug;
mod expression;
mod get;
pub mod path;
mod path_cache;
mod query;
mod scalar;
mod search;
pub mod select;
mod set;
mod table;
#[cfg(test)]
mod tests;

use std::rc::Rc;

use mantissa_protocol::Args;
use mantissa_store::Json;
use mantissa_store::json::{Fragment, ParseError, Shape, TooLarge, View};

use crate::access::Access;
use crate::effects::EventClass;
use crate::error::{Error, Outcome};
use path::Path;

pub use search::query;
pub(crate) use table::COMMANDS;

const WRONG_TYPE: Error = Error::fixed("Existing key has wrong Redis type");
const NO_KEY: Error = Error::fixed("ERR could not perform this operation on a key that doesn't exist");
const NOT_AT_ROOT: Error = Error::fixed("ERR new objects must be created at the root");
const NOT_UTF_8: Error = Error::fixed("Couldn't parse as UTF-8 string");
const NOT_INTEGER: Error = Error::fixed("Couldn't parse as integer");

/// Refuses fewer arguments than these, the name included.
fn at_least(count: usize, args: Args<'_>, name: &str) -> Outcome {
    if args.len() < count { Err(Error::arity(name)) } else { Ok(()) }
}

/// The path that an argument has.
fn path_at(args: Args<'_>, index: usize) -> Outcome<Rc<Path>> {
    path_cache::parse(args.at(index))
}

/// The path that an argument has, or the root if there is none.
fn path_or_root(args: Args<'_>, index: usize) -> Outcome<Rc<Path>> {
    path_cache::parse(args.get(index).unwrap_or(b"."))
}

/// The same, and the root also where it is not UTF-8, as in RedisJSON.
fn optional_path(args: Args<'_>, index: usize) -> Rc<Path> {
    path_or_root(args, index).unwrap_or_default()
}

/// The document at a key, to read.
fn read<'a>(access: &'a Access<'_>, key: &[u8]) -> Outcome<Option<&'a Json>> {
    access.collection::<Json>(key).map_err(|_| WRONG_TYPE)
}

/// The document at a key, to change.
fn change<'a>(access: &'a mut Access<'_>, key: &[u8]) -> Outcome<Option<&'a mut Json>> {
    access.collection_mut::<Json>(key).map_err(|_| WRONG_TYPE)
}

/// The document at a key, to change; an error if there is none.
fn change_present<'a>(access: &'a mut Access<'_>, key: &[u8]) -> Outcome<&'a mut Json> {
    change(access, key)?.ok_or(NO_KEY)
}

/// Refuses what is not UTF-8.
fn utf8(argument: &[u8]) -> Outcome {
    std::str::from_utf8(argument).map(drop).map_err(|_| NOT_UTF_8)
}

/// The value of a JSON text.
fn parse(argument: &[u8]) -> Outcome<Fragment> {
    parsed(Fragment::parse(argument), "")
}

/// The same, with the code that some commands give the error, and nothing behind the value.
fn parse_whole(argument: &[u8]) -> Outcome<Fragment> {
    parsed(Fragment::parse_whole(argument), "ERR ")
}

fn parsed<T>(outcome: Result<T, ParseError>, code: &str) -> Outcome<T> {
    outcome.map_err(|error| match error {
        ParseError::NotUtf8 => NOT_UTF_8,
        ParseError::TooLarge => TooLarge.into(),
        error => Error::new(format!("{code}{error}")),
    })
}

impl From<TooLarge> for Error {
    fn from(error: TooLarge) -> Error {
        Error::new(format!("ERR {error}"))
    }
}

/// A signed integer in decimal.
fn integer(argument: &[u8]) -> Outcome<i64> {
    mantissa_number::parse_i64(argument).ok_or(NOT_INTEGER)
}

/// Says that a command has changed a document.
fn changed(access: &mut Access<'_>, key: &[u8], event: &'static str) {
    access.modified(key, EventClass::MODULE, event);
}

/// The name of a value's type.
fn type_name(value: View<'_>) -> &'static str {
    use mantissa_store::json::Number;
    match value.shape() {
        Shape::Null => "null",
        Shape::Boolean(_) => "boolean",
        Shape::Number(Number::Double(_)) => "number",
        Shape::Number(_) => "integer",
        Shape::String(_) => "string",
        Shape::Array => "array",
        Shape::Object => "object",
    }
}

/// A legacy path leads to another type than the command needs.
fn wrong_path_type(expected: &str, found: &str) -> Error {
    Error::new(format!("WRONGTYPE wrong type of path value - expected {expected} but found {found}"))
}

/// A legacy path leads nowhere.
fn no_path(path: &str) -> Error {
    Error::new(format!("ERR Path '{}' does not exist", path.replace('\0', " ")))
}

/// A legacy path leads nowhere, or to a value that is not `what`.
fn no_such(path: &str, what: &str) -> Error {
    Error::new(format!("ERR Path '{}' does not exist or {what}", path.replace('\0', " ")))
}
