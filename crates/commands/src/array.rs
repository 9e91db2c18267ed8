//! Arrays: elements at indexes, most of which may be empty.
//!
//! What is logged is the command itself: what it does depends on the array alone, of which the place to
//! insert at is a part.

mod aggregate;
mod change;
mod insert;
mod pattern;
mod query;
mod search;
mod table;
#[cfg(test)]
mod tests;

use mantissa_protocol::Reply;
use mantissa_store::Array;
use mantissa_store::array::{ELEMENT_TEXT_MAX, Element, INDEX_END};

use crate::error::{Error, Outcome};
use crate::parse;

pub(crate) use table::COMMANDS;

const INVALID_INDEX: Error = Error::fixed("ERR invalid array index");
const LIMIT_NOT_POSITIVE: Error = Error::fixed("ERR LIMIT must be positive");

/// An index that an element can have.
fn index_of(argument: &[u8]) -> Outcome<u64> {
    parse::unsigned(argument).filter(|index| *index != INDEX_END).ok_or(INVALID_INDEX)
}

/// The number of elements that a LIMIT allows.
fn limit_of(argument: &[u8]) -> Outcome<u64> {
    let limit = parse::integer(argument)?;
    u64::try_from(limit).ok().filter(|limit| *limit > 0).ok_or(LIMIT_NOT_POSITIVE)
}

fn write_element(reply: &mut Reply, element: Element<'_>) {
    match element {
        Element::Integer(integer) => reply.bulk_integer(integer),
        element => reply.bulk(element.text(&mut [0; ELEMENT_TEXT_MAX])),
    }
}

fn write_or_null(reply: &mut Reply, element: Option<Element<'_>>) {
    match element {
        Some(element) => write_element(reply, element),
        None => reply.null(),
    }
}

/// Writes what is at each index from one to another, in that order.
fn write_each(reply: &mut Reply, array: &Array, from: u64, to: u64) {
    let write_nulls = |reply: &mut Reply, count: u64| {
        for _ in 0..count {
            reply.null();
            reply.stream();
        }
    };
    let mut written = 0;
    array.visit(from, to, |index, element| {
        let place = index.abs_diff(from);
        write_nulls(reply, place - written);
        write_element(reply, element);
        reply.stream();
        written = place + 1;
        true
    });
    write_nulls(reply, from.abs_diff(to) + 1 - written);
}
