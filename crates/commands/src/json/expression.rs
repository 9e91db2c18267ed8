//! Regular expressions of filters.
//!
//! Compiling one takes up to a fifth of a second, and matching up to some 10 ns for each of its positions and
//! each byte of the text. Both are counted in the steps of paths, before they are done.

use regex::bytes::{Regex, RegexBuilder};
use regex_syntax::hir::{Hir, HirKind};

/// Bytes of an expression at most.
const TEXT_MAX: usize = 16 << 10;
/// Steps for compiling an expression, beside those for its bytes and for what is compiled.
const STEPS: usize = 2000;
const STEPS_PER_BYTE: usize = 300;
const STEPS_PER_COMPILED_KB: usize = 100;
/// Positions that a byte is compared with at the cost of one step.
const POSITIONS_PER_STEP: usize = 16;
/// Bytes that a compiled expression may take. The least one that suffices is looked for, as its size cannot
/// be told beforehand. What is beyond the last one is no expression, as with RedisJSON.
const COMPILED_MAX: [usize; 4] = [64 << 10, 256 << 10, 1 << 20, 10 << 20];

/// A regular expression.
#[derive(Debug)]
pub struct Expression {
    regex: Regex,
    /// Places in it where a match may be, about: its letters and classes, as often as they are repeated.
    positions: usize,
}

/// The steps that there are do not suffice.
#[derive(Debug)]
pub struct TooCostly;

impl Expression {
    /// That of a text; `None` if it is none. `charge` takes steps, and tells whether there were enough left.
    pub fn compile(
        text: &[u8],
        mut charge: impl FnMut(usize) -> bool,
    ) -> Result<Option<Expression>, TooCostly> {
        if text.len() > TEXT_MAX || !charge(STEPS + text.len() * STEPS_PER_BYTE) {
            return Err(TooCostly);
        }
        let Ok(text) = std::str::from_utf8(text) else { return Ok(None) };
        let mut parser = regex_syntax::ParserBuilder::new().utf8(false).build();
        let Ok(syntax) = parser.parse(text) else { return Ok(None) };
        let positions = positions(&syntax);
        drop(syntax);
        for bytes in COMPILED_MAX {
            if !charge((bytes >> 10) * STEPS_PER_COMPILED_KB) {
                return Err(TooCostly);
            }
            match RegexBuilder::new(text).size_limit(bytes).build() {
                Ok(regex) => return Ok(Some(Expression { regex, positions })),
                Err(regex::Error::CompiledTooBig(_)) => {}
                Err(_) => return Ok(None),
            }
        }
        Ok(None)
    }

    /// The steps that matching a text may take.
    pub fn steps(&self, text: &[u8]) -> usize {
        text.len().saturating_mul(1 + self.positions) / POSITIONS_PER_STEP
    }

    /// Whether it matches somewhere in a text.
    pub fn matches(&self, text: &[u8]) -> bool {
        self.regex.is_match(text)
    }
}

/// Recursion is as deep as groups are nested, which the parser limits.
fn positions(syntax: &Hir) -> usize {
    match syntax.kind() {
        HirKind::Empty => 0,
        HirKind::Look(_) | HirKind::Class(_) => 1,
        HirKind::Literal(literal) => literal.0.len(),
        HirKind::Capture(group) => positions(&group.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().map(positions).fold(0, usize::saturating_add)
        }
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or(repetition.min.max(1));
            positions(&repetition.sub).saturating_mul(times as usize)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expression of a text, and the steps that it took.
    fn compiled(text: &str) -> (Option<Expression>, usize) {
        let mut steps = 0;
        let charge = |more| {
            steps += more;
            true
        };
        let expression = Expression::compile(text.as_bytes(), charge).expect("there are steps for all");
        (expression, steps)
    }

    #[test]
    fn positions_are_counted_with_their_repetitions() {
        let of = |text| compiled(text).0.expect("it is an expression").positions;
        assert_eq!(of("abc"), 3);
        assert_eq!(of(r"^\w+@\w*$"), 5);
        assert_eq!(of("a(b|cd){3}e{2,}f?"), 1 + 9 + 2 + 1);
        assert_eq!(of("((ab){10}){20}"), 400);
        assert_eq!(of(""), 0);
    }

    #[test]
    fn steps_are_those_of_what_is_compiled() {
        let (expression, few) = compiled("^abc.*x");
        assert!(expression.is_some() && few < 20_000, "{few} steps");
        let (expression, more) = compiled(r"(\w{10}){4}");
        assert!(expression.is_some() && more > 500_000, "{more} steps");
        let (expression, most) = compiled(r"(\w{30}){30}");
        assert!(expression.is_none() && most > 1_000_000, "{most} steps");
        assert!(compiled("(").0.is_none());
        assert!(Expression::compile(&vec![b'a'; TEXT_MAX + 1], |_| true).is_err());
        assert!(Expression::compile(b"a", |_| false).is_err());
    }
}
