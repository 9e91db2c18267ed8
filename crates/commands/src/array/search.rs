//! ARGREP: elements of a range that one of some predicates holds for, or all of them.

use mantissa_protocol::{Args, Reply};
use mantissa_store::Array;
use mantissa_store::array::ELEMENT_TEXT_MAX;
use memchr::memmem::Finder;
use regex::bytes::Regex;

use super::{index_of, limit_of, pattern, write_element};
use crate::access::Access;
use crate::error::{Error, Outcome};
use crate::{glob, parse};

const PREDICATES_MAX: usize = 250;
const TOO_MANY: Error = Error::fixed("ERR too many predicates, maximum is 250");
const TOO_LONG: Error = Error::fixed("ERR regular expression is too long, maximum is 2048 bytes");
const _: () = assert!(PREDICATES_MAX == 250 && pattern::BYTES_MAX == 2048);

/// What an element is compared with.
enum Predicate<'a> {
    Exact(&'a [u8]),
    /// A part, in small letters where case is ignored. It is found in time linear in the text.
    Part(Box<Finder<'a>>),
    Glob(&'a [u8]),
    Expression(Regex),
}

impl Predicate<'_> {
    /// Whether it holds for a text, which is given in small letters as well where case is ignored.
    fn holds(&self, text: &[u8], small: Option<&[u8]>) -> bool {
        let ignores_case = small.is_some();
        match self {
            Predicate::Exact(wanted) if ignores_case => text.eq_ignore_ascii_case(wanted),
            Predicate::Exact(wanted) => text == *wanted,
            Predicate::Part(wanted) => wanted.find(small.unwrap_or(text)).is_some(),
            Predicate::Glob(glob) => glob::matches_with(glob, text, ignores_case),
            Predicate::Expression(expression) => expression.is_match(text),
        }
    }
}

/// What is searched for, and how it is replied.
struct Search<'a> {
    predicates: Vec<Predicate<'a>>,
    must_all_hold: bool,
    ignores_case: bool,
    with_values: bool,
    limit: u64,
    /// The element under way in small letters, where a predicate needs that.
    small: Vec<u8>,
}

impl<'a> Search<'a> {
    /// What the arguments from the fourth on say. Expressions and parts are made ready in the end: a later
    /// word says whether case matters.
    fn parse(args: Args<'a>) -> Outcome<Self> {
        let mut search = Search {
            predicates: Vec::new(),
            must_all_hold: false,
            ignores_case: false,
            with_values: false,
            limit: u64::MAX,
            small: Vec::new(),
        };
        let (mut expressions, mut parts) = (Vec::new(), Vec::new());
        let mut at = 4;
        while let Some(word) = args.get(at) {
            let value = args.get(at + 1);
            at += 1;
            if ["EXACT", "MATCH", "GLOB", "RE"].iter().any(|name| parse::is(word, name)) {
                let value = value.ok_or(Error::SYNTAX)?;
                at += 1;
                if search.predicates.len() >= PREDICATES_MAX {
                    return Err(TOO_MANY);
                }
                if parse::is(word, "RE") {
                    if value.len() > pattern::BYTES_MAX {
                        return Err(TOO_LONG);
                    }
                    expressions.push((search.predicates.len(), value));
                } else if parse::is(word, "MATCH") {
                    parts.push((search.predicates.len(), value));
                }
                search.predicates.push(match word[0].to_ascii_uppercase() {
                    b'G' => Predicate::Glob(value),
                    _ => Predicate::Exact(value),
                });
            } else if parse::is(word, "LIMIT") {
                search.limit = limit_of(value.ok_or(Error::SYNTAX)?)?;
                at += 1;
            } else if parse::is(word, "WITHVALUES") {
                search.with_values = true;
            } else if parse::is(word, "NOCASE") {
                search.ignores_case = true;
            } else if parse::is(word, "AND") {
                search.must_all_hold = true;
            } else if parse::is(word, "OR") {
                search.must_all_hold = false;
            } else {
                return Err(Error::SYNTAX);
            }
        }
        if search.predicates.is_empty() {
            return Err(Error::SYNTAX);
        }
        for (place, expression) in expressions {
            let expression = pattern::compile(expression, search.ignores_case)?;
            search.predicates[place] = Predicate::Expression(expression);
        }
        for (place, part) in parts {
            let finder = match search.ignores_case {
                true => Finder::new(&part.to_ascii_lowercase()).into_owned(),
                false => Finder::new(part),
            };
            search.predicates[place] = Predicate::Part(Box::new(finder));
        }
        Ok(search)
    }

    fn finds(&mut self, text: &[u8]) -> bool {
        if self.ignores_case {
            self.small.clear();
            if self.predicates.iter().any(|predicate| matches!(predicate, Predicate::Part(_))) {
                self.small.extend(text.iter().map(u8::to_ascii_lowercase));
            }
        }
        let small = self.ignores_case.then_some(&*self.small);
        let holds = |predicate: &Predicate<'_>| predicate.holds(text, small);
        if self.must_all_hold { self.predicates.iter().all(holds) } else { self.predicates.iter().any(holds) }
    }
}

/// An end of the range: an index, or the first or the last one that there is.
#[derive(Clone, Copy)]
enum Bound {
    First,
    Last,
    At(u64),
}

impl Bound {
    fn parse(argument: &[u8]) -> Outcome<Bound> {
        match argument {
            b"-" => Ok(Bound::First),
            b"+" => Ok(Bound::Last),
            index => index_of(index).map(Bound::At),
        }
    }

    fn index(self, last: u64) -> u64 {
        match self {
            Bound::First => 0,
            Bound::Last => last,
            Bound::At(index) => index,
        }
    }
}

pub(super) fn argrep(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (start, end) = (Bound::parse(args.at(2))?, Bound::parse(args.at(3))?);
    let array = access.collection::<Array>(args.at(1));
    if access.wants_image() {
        // It runs again, and need not compile before.
        return array.map(|_| ());
    }
    let mut search = Search::parse(args)?;
    let Some(array) = array?.filter(|array| !array.is_empty()) else {
        reply.array(0);
        return Ok(());
    };
    let last = array.len() - 1;
    let (found_in, mut found) = (reply.defer(), 0);
    array.visit(start.index(last), end.index(last), |index, element| {
        if search.finds(element.text(&mut [0; ELEMENT_TEXT_MAX])) {
            if search.with_values {
                reply.array(2);
            }
            reply.unsigned(index);
            if search.with_values {
                write_element(reply, element);
            }
            found += 1;
        }
        found < search.limit
    });
    reply.finish_array(found_in, found as usize);
    Ok(())
}
