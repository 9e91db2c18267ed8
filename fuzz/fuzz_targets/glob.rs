//! Glob patterns against a model that tries every way to match.
#![no_main]

use mantissa_commands::glob;

/// The model takes time and space in the product of both lengths.
const BYTES_MAX: usize = 200;

/// What one element of a pattern stands for.
enum Element {
    /// Any bytes, also none.
    Star,
    /// One of these bytes.
    OneOf(Box<[bool; 256]>),
}

/// The first element of a pattern, and the pattern behind it.
fn element(pattern: &[u8], fold: fn(u8) -> u8) -> (Element, &[u8]) {
    let one_of = |is_member: &dyn Fn(u8) -> bool| {
        Element::OneOf(Box::new(std::array::from_fn(|byte| is_member(byte as u8))))
    };
    match pattern {
        [b'*', rest @ ..] => (Element::Star, rest),
        [b'?', rest @ ..] => (one_of(&|_| true), rest),
        [b'[', rest @ ..] => class(rest, fold),
        [b'\\', quoted, rest @ ..] => (one_of(&|byte| fold(byte) == fold(*quoted)), rest),
        [literal, rest @ ..] => (one_of(&|byte| fold(byte) == fold(*literal)), rest),
        [] => unreachable!("the pattern is not empty"),
    }
}

/// A class, behind its `[`.
fn class(pattern: &[u8], fold: fn(u8) -> u8) -> (Element, &[u8]) {
    let (is_negated, mut rest) = match pattern {
        [b'^', rest @ ..] => (true, rest),
        _ => (false, pattern),
    };
    let mut members = Box::new([false; 256]);
    loop {
        let (is_member, after): (Box<dyn Fn(u8) -> bool>, &[u8]) = match rest {
            [] => break,
            [b']', after @ ..] => {
                rest = after;
                break;
            }
            // Redis compares a quoted member as it is, whatever the case.
            [b'\\', quoted, after @ ..] => (Box::new(move |byte| byte == *quoted), after),
            [first, b'-', last, after @ ..] => {
                let (first, last) = (fold(*first), fold(*last));
                let range = first.min(last)..=first.max(last);
                (Box::new(move |byte| range.contains(&fold(byte))), after)
            }
            [literal, after @ ..] => (Box::new(move |byte| fold(byte) == fold(*literal)), after),
        };
        (0..=255).filter(|byte| is_member(*byte)).for_each(|byte| members[usize::from(byte)] = true);
        rest = after;
    }
    members.iter_mut().for_each(|is_member| *is_member ^= is_negated);
    (Element::OneOf(members), rest)
}

fn model(pattern: &[u8], text: &[u8], fold: fn(u8) -> u8) -> bool {
    // As in Redis.
    if text.is_empty() {
        return pattern.is_empty() || pattern == b"*";
    }
    // Whether the pattern up to here matches the first so many bytes.
    let mut reached = vec![false; text.len() + 1];
    reached[0] = true;
    let mut rest = pattern;
    while !rest.is_empty() {
        let (first, after) = element(rest, fold);
        reached = match first {
            Element::Star => {
                let first = reached.iter().position(|is_reached| *is_reached).unwrap_or(reached.len());
                (0..reached.len()).map(|count| count >= first).collect()
            }
            Element::OneOf(members) => {
                let step = |(before, byte): (&bool, &u8)| *before && members[usize::from(*byte)];
                std::iter::once(false).chain(reached.iter().zip(text).map(step)).collect()
            }
        };
        rest = after;
    }
    reached[text.len()]
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    // The first byte says where the pattern ends.
    let Some((&length, data)) = data[..data.len().min(BYTES_MAX)].split_first() else { return };
    let (pattern, text) = data.split_at(usize::from(length).min(data.len()));
    assert_eq!(glob::matches(pattern, text), model(pattern, text, |byte| byte));
    assert_eq!(
        glob::matches_with(pattern, text, true),
        model(pattern, text, |byte| byte.to_ascii_lowercase())
    );
    if glob::is_literal(pattern) {
        assert_eq!(glob::matches(pattern, text), pattern == text);
    }
});
