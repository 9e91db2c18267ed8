//! The values that a path leads to.
//!
//! A walk visits each value of the document once for each way that the path has to it, in document order.
//! Filters look at one value after the other. Recursion is as deep as the document, or as the path is long.

use std::cmp::Ordering;
use std::ops::ControlFlow;

use mantissa_store::json::{Number, Shape, View};
use smallvec::SmallVec;

use super::path::{Filter, Operator, Path, Step, Term};

/// Where a value is: in each container around it the place of the child.
pub type Place = SmallVec<[usize; 8]>;

/// What is done with each value: its place, and the value.
type Visit<'v, 'a> = &'v mut dyn FnMut(&[usize], View<'a>) -> ControlFlow<()>;

impl Path {
    /// Calls `visit` for each match until it breaks off. What is no path has none.
    pub fn visit<'a>(&self, root: View<'a>, mut visit: impl FnMut(&[usize], View<'a>) -> ControlFlow<()>) {
        if self.is_valid() {
            let _ended_early = Walk { root }.step(&self.steps, root, &mut Place::new(), &mut visit);
        }
    }

    /// All matches.
    pub fn values<'a>(&self, root: View<'a>) -> SmallVec<[View<'a>; 4]> {
        let mut found = SmallVec::new();
        self.visit(root, |_, value| {
            found.push(value);
            ControlFlow::Continue(())
        });
        found
    }

    /// The first match.
    pub fn first<'a>(&self, root: View<'a>) -> Option<View<'a>> {
        let mut first = None;
        self.visit(root, |_, value| {
            first = Some(value);
            ControlFlow::Break(())
        });
        first
    }

    /// The places of all matches.
    pub fn places(&self, root: View<'_>) -> Vec<Place> {
        let mut found = Vec::new();
        self.visit(root, |place, _| {
            found.push(Place::from_slice(place));
            ControlFlow::Continue(())
        });
        found
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

#[derive(Clone, Copy)]
struct Walk<'a> {
    root: View<'a>,
}

impl<'a> Walk<'a> {
    fn step(
        self,
        steps: &[Step],
        value: View<'a>,
        place: &mut Place,
        visit: Visit<'_, 'a>,
    ) -> ControlFlow<()> {
        let Some((step, rest)) = steps.split_first() else { return visit(place, value) };
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
                let elements = value.elements().enumerate().take(end).skip(start).step_by(*step);
                self.children(rest, elements, place, visit)
            }
            Step::Slice { .. } => ControlFlow::Continue(()),
            Step::All => self.children(rest, value.children().enumerate(), place, visit),
            Step::Descend => self.descend(rest, value, place, visit),
            Step::Filter(filter) if value.is_array() || value.is_object() => {
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
            // As RedisJSON has it: a path that leads to several values stands for nothing here either.
            Filter::Exists(term) => !matches!(self.operand(term, value), Operand::Nothing),
            Filter::Compare(Term::String(..), Operator::Matches, _) => false,
            Filter::Compare(left, operator, right) => {
                let (left, right) = (self.operand(left, value), self.operand(right, value));
                compare(left, *operator, right)
            }
        }
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
            Term::String(text, expression) => return Operand::String(text, expression.as_deref()),
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
    String(&'a [u8], Option<&'a regex::bytes::Regex>),
    Container(View<'a>),
}

impl<'a> Operand<'a> {
    fn of(value: View<'a>) -> Self {
        match value.shape() {
            Shape::Null => Operand::Null,
            Shape::Boolean(value) => Operand::Boolean(value),
            Shape::Number(number) => Operand::Number(number),
            Shape::String(text) => Operand::String(text, None),
            Shape::Array | Shape::Object => Operand::Container(value),
        }
    }
}

fn compare(left: Operand<'_>, operator: Operator, right: Operand<'_>) -> bool {
    if operator == Operator::Matches {
        return matches(left, right);
    }
    let order = match (left, right) {
        (Operand::Null, Operand::Null) => Some(Ordering::Equal),
        (Operand::Boolean(left), Operand::Boolean(right)) => Some(left.cmp(&right)),
        (Operand::Number(left), Operand::Number(right)) => compare_numbers(left, right),
        (Operand::String(left, _), Operand::String(right, _)) => Some(left.cmp(right)),
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

/// Whether the regular expression on the right matches somewhere in the text of a value on the left.
fn matches(left: Operand<'_>, right: Operand<'_>) -> bool {
    match (left, right) {
        (Operand::String(text, _), Operand::String(_, Some(expression))) => expression.is_match(text),
        (Operand::String(text, _), Operand::String(pattern, None)) => {
            let expression =
                std::str::from_utf8(pattern).ok().and_then(|text| regex::bytes::Regex::new(text).ok());
            expression.is_some_and(|expression| expression.is_match(text))
        }
        _ => false,
    }
}
