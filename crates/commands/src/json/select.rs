//! The values that a path leads to.
//!
//! A walk visits each value of the document once for each way that the path has to it, in document order.
//! Filters look at one value after the other. Recursion is as deep as the document, or as the path is long.
//! Paths with several `..`, or with paths in filters, can take steps without end, so that their number has a
//! limit in proportion to the size of the document. Regular expressions cost steps as well, and those that
//! stand in documents are remembered during a walk.

use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::ops::ControlFlow;

use mantissa_store::json::{Number, Shape, View};
use smallvec::SmallVec;

use super::expression::Expression;
use super::path::{Filter, Operator, Path, Step, Term};
use crate::error::{Error, Outcome};

/// The limit on steps: as many for each document, and as many for each of its bytes, the path's own steps
/// coming to these.
const STEPS_MIN: usize = 4 << 20;
const STEPS_PER_BYTE: usize = 16;
/// Children that are passed by at the cost of one step.
pub(super) const PASSED_PER_STEP: usize = 16;
/// Regular expressions of the document that are remembered during a walk.
const REMEMBERED_MAX: usize = 4;

/// Where a value is: in each container around it the place of the child.
pub type Place = SmallVec<[usize; 8]>;

/// What is done with each value: its place, and the value.
type Visit<'v, 'a> = &'v mut dyn FnMut(&[usize], View<'a>) -> ControlFlow<()>;

impl Path {
    /// Calls `visit` for each match until it breaks off. What is no path has none. An error if that takes too
    /// many steps.
    pub fn visit<'a>(
        &self,
        root: View<'a>,
        mut visit: impl FnMut(&[usize], View<'a>) -> ControlFlow<()>,
    ) -> Outcome {
        if !self.is_valid() {
            return Ok(());
        }
        let per_byte = STEPS_PER_BYTE + self.step_count;
        let steps_max = STEPS_MIN + root.memory_usage().saturating_mul(per_byte);
        match self.walk(root, steps_max, &mut visit) {
            0 => Err(Error::fixed("ERR path takes too many steps")),
            _ => Ok(()),
        }
    }

    /// Visits matches within a number of steps. Returns how many of these are left: 0 if it ended for that.
    fn walk<'a>(&self, root: View<'a>, steps_max: usize, visit: Visit<'_, 'a>) -> usize {
        let steps_left = Cell::new(steps_max);
        let walk = Walk { root, steps_left: &steps_left, expressions: &RefCell::default() };
        let _ended_early = walk.step(&self.steps, root, &mut Place::new(), visit);
        steps_left.get()
    }

    /// The first match.
    pub fn first<'a>(&self, root: View<'a>) -> Outcome<Option<View<'a>>> {
        let mut first = None;
        self.visit(root, |_, value| {
            first = Some(value);
            ControlFlow::Break(())
        })?;
        Ok(first)
    }

    /// The places of all matches.
    pub fn places(&self, root: View<'_>) -> Outcome<Vec<Place>> {
        let mut found = Vec::new();
        self.visit(root, |place, _| {
            found.push(Place::from_slice(place));
            ControlFlow::Continue(())
        })?;
        Ok(found)
    }
}

/// The element that an index means, if there is one. One before the first means the first.
pub(super) fn index_of(index: i64, len: usize) -> Option<usize> {
    let index = if index < 0 { (len as i64).saturating_add(index).max(0) } else { index };
    usize::try_from(index).ok().filter(|&index| index < len)
}

/// The bound that an index of a range means.
fn bound(index: i64, len: usize) -> usize {
    let index = if index < 0 { (len as i64).saturating_add(index).max(0) } else { index };
    usize::try_from(index).map_or(len, |index| index.min(len))
}

/// A text of the document, and the regular expression that it is, if it is one.
type Known = (Box<[u8]>, Option<Expression>);

#[derive(Clone, Copy)]
struct Walk<'a, 'w> {
    root: View<'a>,
    /// Those that it may take; 0 once it has been ended.
    steps_left: &'w Cell<usize>,
    /// The latest of those in the document, with their texts.
    expressions: &'w RefCell<Vec<Known>>,
}

impl<'a> Walk<'a, '_> {
    /// Counts a step, and children that are passed by.
    #[inline]
    fn charge(self, passed: usize) -> ControlFlow<()> {
        self.charge_steps(1 + passed / PASSED_PER_STEP)
    }

    /// Counts steps.
    #[inline]
    fn charge_steps(self, steps: usize) -> ControlFlow<()> {
        let left = self.steps_left.get().saturating_sub(steps);
        self.steps_left.set(left);
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn step(
        self,
        steps: &[Step],
        value: View<'a>,
        place: &mut Place,
        visit: Visit<'_, 'a>,
    ) -> ControlFlow<()> {
        let Some((step, rest)) = steps.split_first() else { return visit(place, value) };
        self.charge(0)?;
        match step {
            Step::Name(name) => self.member(name, rest, value, place, visit),
            Step::Names(names) => {
                names.iter().try_for_each(|name| self.member(name, rest, value, place, visit))
            }
            Step::Index(index) => self.element(*index, rest, value, place, visit),
            Step::Indexes(indexes) => {
                indexes.iter().try_for_each(|index| self.element(*index, rest, value, place, visit))
            }
            Step::Slice { start, end, step } if value.is_array() => {
                let len = value.len();
                let start = bound(*start, len);
                let end = end.map_or(len, |end| bound(end, len));
                self.charge(end)?;
                let elements = (start..end).zip(value.elements_from(start)).step_by(*step);
                self.children(rest, elements, place, visit)
            }
            Step::Slice { .. } => ControlFlow::Continue(()),
            Step::All => self.children(rest, value.children().enumerate(), place, visit),
            Step::Descend => self.descend(rest, value, place, visit),
            Step::Filter(filter) if value.is_array() || value.is_object() => {
                self.charge(value.len())?;
                let children = value.children().enumerate();
                self.children(rest, children.filter(|(_, child)| self.is_true(filter, *child)), place, visit)
            }
            Step::Filter(filter) if self.is_true(filter, value) => self.step(rest, value, place, visit),
            Step::Filter(_) => ControlFlow::Continue(()),
        }
    }

    fn children(
        self,
        rest: &[Step],
        children: impl Iterator<Item = (usize, View<'a>)>,
        place: &mut Place,
        visit: Visit<'_, 'a>,
    ) -> ControlFlow<()> {
        for (index, child) in children {
            place.push(index);
            self.step(rest, child, place, visit)?;
            place.pop();
        }
        ControlFlow::Continue(())
    }

    fn member(
        self,
        name: &[u8],
        rest: &[Step],
        value: View<'a>,
        place: &mut Place,
        visit: Visit<'_, 'a>,
    ) -> ControlFlow<()> {
        self.charge(value.len())?;
        self.children(rest, value.member(name).into_iter(), place, visit)
    }

    fn element(
        self,
        index: i64,
        rest: &[Step],
        value: View<'a>,
        place: &mut Place,
        visit: Visit<'_, 'a>,
    ) -> ControlFlow<()> {
        let index = index_of(index, value.len()).filter(|_| value.is_array());
        self.charge(index.unwrap_or(0))?;
        let element = index.and_then(|index| Some((index, value.child(index)?)));
        self.children(rest, element.into_iter(), place, visit)
    }

    fn descend(
        self,
        rest: &[Step],
        value: View<'a>,
        place: &mut Place,
        visit: Visit<'_, 'a>,
    ) -> ControlFlow<()> {
        self.step(rest, value, place, visit)?;
        for (index, child) in value.children().enumerate() {
            place.push(index);
            self.descend(rest, child, place, visit)?;
            place.pop();
        }
        ControlFlow::Continue(())
    }

    fn is_true(self, filter: &Filter, value: View<'a>) -> bool {
        match filter {
            Filter::Any(filters) => filters.iter().any(|filter| self.is_true(filter, value)),
            Filter::All(filters) => filters.iter().all(|filter| self.is_true(filter, value)),
            _ if self.charge(0).is_break() => false,
            // As RedisJSON has it: a path that leads to several values stands for nothing here either.
            Filter::Exists(term) => !matches!(self.operand(term, value), Operand::Nothing),
            Filter::Compare(Term::String(_), Operator::Matches, _) => false,
            Filter::Compare(left, operator, right) => {
                let (left, right) = (self.operand(left, value), self.operand(right, value));
                match operator {
                    Operator::Matches => self.matches(left, right),
                    operator => compare(left, *operator, right),
                }
            }
        }
    }

    /// Whether the regular expression on the right matches somewhere in the text of a value on the left.
    fn matches(self, left: Operand<'_>, right: Operand<'_>) -> bool {
        let Operand::String(text) = left else { return false };
        match right {
            Operand::Expression(expression) => expression.is_some_and(|one| self.is_match(one, text)),
            Operand::String(pattern) => self.matches_text(text, pattern),
            _ => false,
        }
    }

    fn is_match(self, expression: &Expression, text: &[u8]) -> bool {
        self.charge_steps(expression.steps(text)).is_continue() && expression.matches(text)
    }

    /// The same of an expression that stands in the document.
    fn matches_text(self, text: &[u8], pattern: &[u8]) -> bool {
        if self.charge(pattern.len()).is_break() {
            return false;
        }
        let mut known = self.expressions.borrow_mut();
        let expression = match known.iter().position(|(known, _)| **known == *pattern) {
            Some(place) => &known[place].1,
            None => {
                let charge = |steps| self.charge_steps(steps).is_continue();
                let Ok(expression) = Expression::compile(pattern, charge) else {
                    self.steps_left.set(0);
                    return false;
                };
                if known.len() == REMEMBERED_MAX {
                    known.remove(0);
                }
                known.push((pattern.into(), expression));
                &known[known.len() - 1].1
            }
        };
        expression.as_ref().is_some_and(|one| self.is_match(one, text))
    }

    /// What a term stands for. A path stands for nothing unless it leads to one value.
    fn operand<'t>(self, term: &'t Term, value: View<'a>) -> Operand<'t>
    where
        'a: 't,
    {
        let (steps, from) = match term {
            Term::Current(steps) => (steps, value),
            Term::Root(steps) => (steps, self.root),
            Term::Number(number) => return Operand::Number(*number),
            Term::String(text) => return Operand::String(text),
            Term::Expression(expression) => return Operand::Expression(expression.as_deref()),
            Term::Boolean(value) => return Operand::Boolean(*value),
            Term::Null => return Operand::Null,
        };
        let (mut count, mut only) = (0, None);
        let _ended_early = self.step(steps, from, &mut Place::new(), &mut |_, value| {
            count += 1;
            only = Some(value);
            if count > 1 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        match only.filter(|_| count == 1) {
            Some(value) => Operand::of(value),
            None => Operand::Nothing,
        }
    }
}

/// What is compared.
#[derive(Clone, Copy)]
enum Operand<'a> {
    Nothing,
    Null,
    Boolean(bool),
    Number(Number),
    String(&'a [u8]),
    Expression(Option<&'a Expression>),
    Container(View<'a>),
}

impl<'a> Operand<'a> {
    fn of(value: View<'a>) -> Self {
        match value.shape() {
            Shape::Null => Operand::Null,
            Shape::Boolean(value) => Operand::Boolean(value),
            Shape::Number(number) => Operand::Number(number),
            Shape::String(text) => Operand::String(text),
            Shape::Array | Shape::Object => Operand::Container(value),
        }
    }
}

fn compare(left: Operand<'_>, operator: Operator, right: Operand<'_>) -> bool {
    let order = match (left, right) {
        (Operand::Null, Operand::Null) => Some(Ordering::Equal),
        (Operand::Boolean(left), Operand::Boolean(right)) => Some(left.cmp(&right)),
        (Operand::Number(left), Operand::Number(right)) => compare_numbers(left, right),
        (Operand::String(left), Operand::String(right)) => Some(left.cmp(right)),
        (Operand::Container(left), Operand::Container(right)) => {
            let is_same = left.is_same(right);
            return operator == if is_same { Operator::Equal } else { Operator::NotEqual };
        }
        _ => None,
    };
    match operator {
        Operator::Equal => order == Some(Ordering::Equal),
        Operator::NotEqual => order != Some(Ordering::Equal),
        Operator::Less => order == Some(Ordering::Less),
        Operator::LessOrEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
        Operator::Greater => order == Some(Ordering::Greater),
        Operator::GreaterOrEqual => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        Operator::Matches => false,
    }
}

/// Integers compare exactly, doubles with the double closest to an integer.
fn compare_numbers(left: Number, right: Number) -> Option<Ordering> {
    let integer = |number| match number {
        Number::Integer(value) => Some(i128::from(value)),
        Number::Unsigned(value) => Some(i128::from(value)),
        Number::Double(_) => None,
    };
    match (integer(left), integer(right)) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        _ => left.to_f64().partial_cmp(&right.to_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mantissa_store::json::Fragment;

    /// The number of matches, and of steps that it took to find them.
    fn count(path: &str, document: &Fragment) -> (usize, usize) {
        let path = Path::parse(path.as_bytes()).expect("it is UTF-8");
        path.check().expect("it is a path");
        let mut matches = 0;
        let left = path.walk(document.view(), usize::MAX, &mut |_, _| {
            matches += 1;
            ControlFlow::Continue(())
        });
        (matches, usize::MAX - left)
    }

    #[test]
    fn a_filter_takes_steps_in_proportion_to_the_document() {
        let records = |count: usize| {
            let record = |uid: usize| format!(r#"{{"uid":{uid},"tags":["a","b"],"at":{{"x":1}}}}"#);
            let records: Vec<String> = (0..count).map(record).collect();
            Fragment::parse(format!(r#"{{"records":[{}]}}"#, records.join(","))).expect("it is JSON")
        };
        let (matches, few) = count("$..[?(@.uid==38)]", &records(1000));
        assert_eq!(matches, 1);
        let (matches, many) = count("$..[?(@.uid==38)]", &records(10_000));
        assert_eq!(matches, 1);
        assert!(few < 50_000 && many < 11 * few, "{few} and {many} steps");
    }

    #[test]
    fn numbers_of_filters_are_exact_up_to_64_bits() {
        let text = "[18446744073709551615,9223372036854775807,1e19,5,-1e19,-9223372036854775808]";
        let document = Fragment::parse(text).expect("it is JSON");
        for (filter, expected) in [
            ("@==18446744073709551615", 1),
            ("@==9223372036854775807", 1),
            ("@==-9223372036854775808", 1),
            ("@==-10000000000000000000", 1),
            ("@>9223372036854775807", 2),
            ("@>10000000000000000000", 1),
            ("@>=10000000000000000000", 2),
            ("@<99999999999999999999999", 6),
            ("@!=18446744073709551615", 5),
            ("@<=-10000000000000000000", 1),
            ("@==-0", 0),
        ] {
            assert_eq!(count(&format!("$[?({filter})]"), &document).0, expected, "{filter}");
        }
        assert_eq!(count("$[99999999999999999999]", &document).0, 0);
        assert_eq!(count("$[-99999999999999999999]", &document).0, 1);
        assert_eq!(count("$[1:99999999999999999999]", &document).0, 5);
    }

    #[test]
    fn an_expression_of_the_document_is_compiled_once_in_a_walk() {
        let records = |count: usize, kinds: usize| {
            let record = |n: usize| format!(r#"{{"a":"x{0}","p":"x{0}|\\w{{9}}"}}"#, n % kinds);
            let records: Vec<String> = (0..count).map(record).collect();
            Fragment::parse(format!("[{}]", records.join(","))).expect("it is JSON")
        };
        let (matches, one) = count("$[?(@.a=~@.p)]", &records(500, 1));
        assert_eq!(matches, 500);
        let (matches, some) = count("$[?(@.a=~@.p)]", &records(500, REMEMBERED_MAX));
        assert_eq!(matches, 500);
        let (matches, many) = count("$[?(@.a=~@.p)]", &records(500, 2 * REMEMBERED_MAX));
        assert_eq!(matches, 500);
        assert!(some < 10 * one && many > 50 * some, "{one}, {some} and {many} steps");
    }

    #[test]
    fn hostile_paths_end() {
        const STEPS: usize = 200_000;
        let depth = 100;
        let nested = format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
        let nested = Fragment::parse(nested).expect("it is JSON");
        let wide = Fragment::parse(format!("[{}1]", "1,".repeat(100_000))).expect("it is JSON");
        for (path, document) in [
            ("$..a..a..a..a..a..a..x", &nested),
            ("$..*..*..*..*..*..*", &nested),
            ("$..[?(@..a..a..a..a..x==1)]", &nested),
            ("$[?(@==$[?(@==2)])]", &wide),
            (&format!("$[{}1]", "99999,".repeat(100_000)), &wide),
        ] {
            let path = Path::parse(path.as_bytes()).expect("it is UTF-8");
            assert!(path.is_valid());
            let left = path.walk(document.view(), STEPS, &mut |_, _| ControlFlow::Continue(()));
            assert_eq!(left, 0, "{}", path.original());
        }
        let path = Path::parse(b"$..a..a..a..a..a..a..x").expect("it is UTF-8");
        let outcome = path.places(nested.view());
        assert_eq!(outcome.err(), Some(Error::fixed("ERR path takes too many steps")));
    }
}
