//! AROP: one value of all elements in a range.
//!
//! Sums are those of Redis, which adds in 80 bits: of integers exact as long as they have 64 bits.

use mantissa_number::{LongDouble, parse_i64};
use mantissa_protocol::{Args, Reply};
use mantissa_store::Array;
use mantissa_store::array::{ELEMENT_TEXT_MAX, Element};

use super::index_of;
use crate::access::Access;
use crate::error::{Error, Outcome};
use crate::parse;

const UNKNOWN_OPERATION: Error = Error::fixed("ERR unknown operation");
const NO_VALUE: Error = Error::fixed("ERR MATCH requires a value argument");

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Sum,
    Min,
    Max,
    And,
    Or,
    Xor,
    Match,
    Used,
}

impl Operation {
    const ALL: [(Operation, &'static str); 8] = [
        (Operation::Sum, "SUM"),
        (Operation::Min, "MIN"),
        (Operation::Max, "MAX"),
        (Operation::And, "AND"),
        (Operation::Or, "OR"),
        (Operation::Xor, "XOR"),
        (Operation::Match, "MATCH"),
        (Operation::Used, "USED"),
    ];

    fn parse(word: &[u8]) -> Outcome<Operation> {
        let found = Operation::ALL.into_iter().find(|(_, name)| parse::is(word, name));
        found.map(|(operation, _)| operation).ok_or(UNKNOWN_OPERATION)
    }
}

/// A number, as long as it is one an integer.
#[derive(Clone, Copy)]
enum Number {
    Integer(i64),
    Real(LongDouble),
}

impl Number {
    /// The number that an element is, if it is one.
    fn of(element: Element<'_>) -> Option<Number> {
        match element {
            Element::Integer(integer) => Some(Number::Integer(integer)),
            Element::Double(double) => Some(Number::Real(LongDouble::from_f64(double))),
            element => {
                let mut scratch = [0; ELEMENT_TEXT_MAX];
                let text = element.text(&mut scratch);
                let integer = parse_i64(text).map(Number::Integer);
                integer.or_else(|| LongDouble::parse(text).map(Number::Real))
            }
        }
    }

    fn real(self) -> LongDouble {
        match self {
            Number::Integer(integer) => LongDouble::from_i64(integer),
            Number::Real(real) => real,
        }
    }

    fn plus(self, other: Number) -> Number {
        if let (Number::Integer(one), Number::Integer(other)) = (self, other)
            && let Some(sum) = one.checked_add(other)
        {
            return Number::Integer(sum);
        }
        Number::Real(self.real() + other.real())
    }

    fn is_less_than(self, other: Number) -> bool {
        match (self, other) {
            (Number::Integer(one), Number::Integer(other)) => one < other,
            _ => self.real().is_less_than(other.real()),
        }
    }

    /// Without its fraction, if that is a 64-bit integer.
    fn truncated(self) -> Option<i64> {
        match self {
            Number::Integer(integer) => Some(integer),
            Number::Real(real) => real.truncated(),
        }
    }
}

/// The sum, the least or the greatest of the numbers in a range.
fn number_of(array: &Array, (start, end): (u64, u64), operation: Operation) -> Option<Number> {
    let mut result: Option<Number> = None;
    array.visit(start, end, |_, element| {
        if let Some(number) = Number::of(element) {
            result = Some(match result {
                None => number,
                Some(before) => match operation {
                    Operation::Sum => before.plus(number),
                    Operation::Min if number.is_less_than(before) => number,
                    Operation::Max if before.is_less_than(number) => number,
                    _ => before,
                },
            });
        }
        true
    });
    result
}

/// What bitwise operations make of the integers in a range.
fn bits_of(array: &Array, (start, end): (u64, u64), operation: Operation) -> Option<i64> {
    let mut result: Option<i64> = None;
    array.visit(start, end, |_, element| {
        if let Some(integer) = Number::of(element).and_then(Number::truncated) {
            result = Some(match (result, operation) {
                (None, _) => integer,
                (Some(before), Operation::And) => before & integer,
                (Some(before), Operation::Or) => before | integer,
                (Some(before), _) => before ^ integer,
            });
        }
        true
    });
    result
}

/// How many elements in a range are a text.
fn matches_of(array: &Array, (start, end): (u64, u64), text: &[u8]) -> u64 {
    let mut count = 0;
    array.visit(start, end, |_, element| {
        count += u64::from(element.text(&mut [0; ELEMENT_TEXT_MAX]) == text);
        true
    });
    count
}

pub(super) fn arop(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let range = (index_of(args.at(2))?, index_of(args.at(3))?);
    let operation = Operation::parse(args.at(4))?;
    match (operation, args.len()) {
        (Operation::Match, 6) => {}
        (Operation::Match, _) => return Err(NO_VALUE),
        (_, 5) => {}
        _ => return Err(Error::arity("arop")),
    }
    let empty = Array::new();
    let array = access.collection::<Array>(args.at(1))?.unwrap_or(&empty);
    match operation {
        Operation::Used => reply.unsigned(array.count_in(range.0, range.1)),
        Operation::Match => reply.unsigned(matches_of(array, range, args.at(5))),
        Operation::And | Operation::Or | Operation::Xor => match bits_of(array, range, operation) {
            Some(bits) => reply.integer(bits),
            None => reply.null(),
        },
        Operation::Sum | Operation::Min | Operation::Max => match number_of(array, range, operation) {
            Some(number) => {
                let mut text = Vec::new();
                number.real().write_significant(&mut text);
                reply.bulk(&text);
            }
            None => reply.null(),
        },
    }
    Ok(())
}
