//! BITOP: strings combined bit by bit. A shorter string counts as padded with zeros. The loops are plain, so
//! that the compiler turns them into vector instructions.

use mantissa_protocol::{Args, Reply};

use crate::access::{Access, NewExpiry};
use crate::effects::EventClass;
use crate::error::{Error, Outcome};
use crate::parse;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    And,
    Or,
    Xor,
    Not,
    /// Set in the first and in none of the others.
    Diff,
    /// Set in any of the others but not in the first.
    Diff1,
    /// Set in the first and in any of the others.
    AndOr,
    /// Set in exactly one.
    One,
}

impl Operation {
    fn parse(argument: &[u8]) -> Option<Operation> {
        let names = [
            ("AND", Operation::And),
            ("OR", Operation::Or),
            ("XOR", Operation::Xor),
            ("NOT", Operation::Not),
            ("DIFF", Operation::Diff),
            ("DIFF1", Operation::Diff1),
            ("ANDOR", Operation::AndOr),
            ("ONE", Operation::One),
        ];
        names.iter().find(|(name, _)| parse::is(argument, name)).map(|&(_, operation)| operation)
    }

    fn check_source_count(self, count: usize) -> Outcome {
        let two = |text| if count < 2 { Err(Error::fixed(text)) } else { Ok(()) };
        match self {
            Operation::Not if count != 1 => {
                Err(Error::fixed("ERR BITOP NOT must be called with a single source key."))
            }
            Operation::Diff => two("ERR BITOP DIFF must be called with at least two source keys."),
            Operation::Diff1 => two("ERR BITOP DIFF1 must be called with at least two source keys."),
            Operation::AndOr => two("ERR BITOP ANDOR must be called with at least two source keys."),
            _ => Ok(()),
        }
    }
}

pub(super) fn bitop(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let operation = Operation::parse(args.at(1)).ok_or(Error::SYNTAX)?;
    let (target, keys) = (args.at(2), args.from(3));
    operation.check_source_count(keys.len())?;
    let mut texts = Vec::with_capacity(keys.len());
    for key in keys {
        texts.push(access.string(key)?);
    }
    let mut digits = vec![[0; 20]; texts.len()];
    let sources: Vec<&[u8]> = texts
        .iter()
        .zip(&mut digits)
        .map(|(text, digits)| text.map_or(&[][..], |text| text.text(digits)))
        .collect();
    let result = combine(operation, &sources);
    let len = result.len();
    if result.is_empty() {
        access.delete(target);
    } else {
        access.set_string(target, &[], NewExpiry::Clear)?;
        *access.text_or_new(target)? = result.into();
        access.modified(target, EventClass::STRING, "set");
    }
    reply.integer(len as i64);
    Ok(())
}

/// Combines the sources, of which there is at least one.
fn combine(operation: Operation, sources: &[&[u8]]) -> Vec<u8> {
    let len = sources.iter().map(|source| source.len()).max().unwrap_or(0);
    let padded = |source: &[u8]| {
        let mut bytes = Vec::with_capacity(len);
        bytes.extend_from_slice(source);
        bytes.resize(len, 0);
        bytes
    };
    let Some((first, others)) = sources.split_first() else { return Vec::new() };
    let mut result = padded(first);
    match operation {
        Operation::Not => result.iter_mut().for_each(|byte| *byte = !*byte),
        Operation::And => {
            for source in others {
                merge(&mut result, source, |byte, other| byte & other);
                result[source.len()..].fill(0);
            }
        }
        Operation::Or => others.iter().for_each(|source| merge(&mut result, source, |a, b| a | b)),
        Operation::Xor => others.iter().for_each(|source| merge(&mut result, source, |a, b| a ^ b)),
        Operation::Diff | Operation::Diff1 | Operation::AndOr => {
            let mut union = padded(&[]);
            others.iter().for_each(|source| merge(&mut union, source, |a, b| a | b));
            match operation {
                Operation::Diff => merge(&mut result, &union, |first, union| first & !union),
                Operation::Diff1 => merge(&mut result, &union, |first, union| union & !first),
                _ => merge(&mut result, &union, |first, union| first & union),
            }
        }
        Operation::One => {
            let mut twice = padded(&[]);
            for source in others {
                for ((once, twice), byte) in result.iter_mut().zip(&mut twice).zip(*source) {
                    *twice |= *once & byte;
                    *once |= byte;
                }
            }
            merge(&mut result, &twice, |once, twice| once & !twice);
        }
    }
    result
}

#[inline(always)]
fn merge(target: &mut [u8], source: &[u8], operation: impl Fn(u8, u8) -> u8) {
    target.iter_mut().zip(source).for_each(|(byte, other)| *byte = operation(*byte, *other));
}
