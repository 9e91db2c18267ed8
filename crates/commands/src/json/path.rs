//! Paths into documents, parsed.
//!
//! ```text
//! path    = [ "$" ] { child }
//! child   = "." name | "." "*" | [ "." ] "[" list "]" | ".." ( name | "*" | "[" list "]" )
//! list    = string { "," string } | number { "," number } | [ number ] ":" [ number ] [ ":" [ positive ] ]
//!         | "*" | "?" filter
//! filter  = single { ( "&&" | "||" ) single }           && binds closer than ||
//! single  = term [ operator term ] | "(" filter ")"
//! term    = number | string | "true" | "false" | "null" | ( "@" | "$" ) [ name ] { child }
//! ```
//!
//! A path that begins with `$` (alone, or before `.` or `[`) is a JSONPath, which may match many values; any
//! other is a *legacy* path, of which the first match counts. Spaces may stand between the parts. Errors have
//! the texts of RedisJSON.
//!
//! A path of names and indexes is parsed with one allocation, that of its text, unless it is long.

use mantissa_store::json::Number;
use smallvec::SmallVec;

use super::expression::Expression;
use crate::error::Error;

/// How deeply filters may be nested.
const FILTER_DEPTH_MAX: usize = 64;
/// Steps of a path at most, those in its filters included.
const STEPS_MAX: usize = 1000;
/// The costs of its regular expressions at most, as [`Expression::compile`] counts them: about a second.
const EXPRESSION_STEPS_MAX: usize = 4 << 20;

/// The steps of a path, in their order.
pub type Steps = SmallVec<[Step; 4]>;
/// The name of a member. As many bytes in place take no more room than a pointer and a length.
pub type Name = SmallVec<[u8; 23]>;

/// A path.
#[derive(Debug)]
pub struct Path {
    /// The steps from the root.
    pub steps: Steps,
    /// Whether it is one of the older dialect.
    pub is_legacy: bool,
    /// Its text in both dialects, which have most of it in common.
    text: Box<str>,
    /// Where the text that the client wrote begins. It ends with `text`.
    original_start: usize,
    /// Where the text as a JSONPath ends. It begins with `text`.
    fixed_end: usize,
    /// The number of its steps and comparisons, those in filters included.
    pub step_count: usize,
    /// Whether there is a regular expression in it.
    pub has_expression: bool,
    /// Why it is none. It then has no steps.
    failure: Option<Error>,
}

/// One step of a path.
#[derive(Debug)]
pub enum Step {
    /// The member of this name.
    Name(Name),
    /// The members of these names, in their order.
    Names(Vec<Name>),
    /// The element at an index; negative ones count from the end.
    Index(i64),
    /// Elements, in the order of the indexes.
    Indexes(Vec<i64>),
    /// The elements of a range, every `step`.
    Slice {
        /// The first one; 0 if none is said.
        start: i64,
        /// Behind the last one; the length if none is said.
        end: Option<i64>,
        /// The distance, above 0.
        step: usize,
    },
    /// All elements or members.
    All,
    /// The value itself and everything below it.
    Descend,
    /// The elements or members that the filter is true for.
    Filter(Box<Filter>),
}

const _: () = assert!(size_of::<Step>() <= 40);

/// A condition.
#[derive(Debug)]
pub enum Filter {
    /// One of them is true.
    Any(Vec<Filter>),
    /// All of them are true.
    All(Vec<Filter>),
    /// There is such a value.
    Exists(Term),
    /// Two values compare so.
    Compare(Term, Operator, Term),
}

/// How two values compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `=~`: the right one, a regular expression, matches somewhere in the left one.
    Matches,
}

/// A value of a condition.
#[derive(Debug)]
pub enum Term {
    /// What a path from the value in question leads to.
    Current(Steps),
    /// What a path from the root leads to.
    Root(Steps),
    /// A number.
    Number(Number),
    /// A string.
    String(Name),
    /// A string on the right of `=~`: the regular expression, if it is one.
    Expression(Option<Box<Expression>>),
    /// A truth value.
    Boolean(bool),
    /// null
    Null,
}

impl Default for Path {
    /// The root, as a legacy path.
    fn default() -> Self {
        Path {
            steps: Steps::new(),
            is_legacy: true,
            text: "$.".into(),
            original_start: 1,
            fixed_end: 1,
            step_count: 0,
            has_expression: false,
            failure: None,
        }
    }
}

impl Path {
    /// Parses a path of either dialect. What is wrong with it is told by [`Path::check`] only: commands look
    /// for the key first.
    pub fn parse(text: &[u8]) -> Result<Path, Error> {
        let Ok(text) = std::str::from_utf8(text) else {
            return Err(Error::fixed("Couldn't parse as UTF-8 string"));
        };
        let is_legacy = !(text == "$" || text.starts_with("$.") || text.starts_with("$["));
        let before = match text {
            _ if !is_legacy => "",
            _ if text.starts_with('.') => "$",
            _ => "$.",
        };
        let (is_root, original_start) = (text == ".", before.len());
        let text: Box<str> = if is_legacy { [before, text].concat().into() } else { text.into() };
        let fixed_end = if is_root { 1 } else { text.len() };
        let fixed = &text[..fixed_end];
        let mut parser = Parser {
            text: fixed.as_bytes(),
            at: 1,
            steps_left: STEPS_MAX,
            depth: 0,
            comparisons: 0,
            expression_steps_left: EXPRESSION_STEPS_MAX,
        };
        let mut steps = Steps::new();
        let failure = parser.whole_path(&mut steps).err().map(|failure| failure.into_error(fixed));
        if failure.is_some() {
            steps.clear();
        }
        let step_count = STEPS_MAX - parser.steps_left + parser.comparisons;
        let has_expression = parser.expression_steps_left < EXPRESSION_STEPS_MAX;
        Ok(Path { steps, is_legacy, text, original_start, fixed_end, step_count, has_expression, failure })
    }

    /// As the client wrote it.
    #[inline]
    pub fn original(&self) -> &str {
        &self.text[self.original_start..]
    }

    /// As a JSONPath.
    #[inline]
    pub fn fixed(&self) -> &str {
        &self.text[..self.fixed_end]
    }

    /// The error of a text that is no path.
    pub fn check(&self) -> Result<(), Error> {
        self.failure.clone().map_or(Ok(()), Err)
    }

    /// Whether the text is a path.
    pub fn is_valid(&self) -> bool {
        self.failure.is_none()
    }

    /// Whether it can lead to one place only: names and indexes.
    pub fn is_static(&self) -> bool {
        self.steps.iter().all(|step| matches!(step, Step::Name(_) | Step::Index(_)))
    }

    /// Whether it leads to the whole document.
    pub fn is_root(&self) -> bool {
        self.steps.is_empty() && self.failure.is_none()
    }
}

const NAME: &str = "<string>, '*'";
const LIST: &str = "'<string>[,<string>,...]', '<number>', ['start:end:steps'], '*'";
const LIST_BUT_ALL: &str = "'<string>[,<string>,...]', '<number>', ['start:end:steps']";
const LIST_BUT_STRINGS: &str = "'<number>', ['start:end:steps']";
const SLICE: &str = "['start:end:steps']";
const NUMBER: &str = "'<number>'";
const POSITIVE: &str = "pos_number";
const PATH_END: &str = "EOI, '..'";
const SINGLE: &str = "single_filter";
const OPERATOR: &str = "ge, gt, le, lt, eq, ne, re, and, or";
const OPERATOR_OR_ROOT: &str = "ge, gt, le, lt, eq, ne, re, and, or, root";
const OPERATOR_OR_CHILD: &str = "ge, gt, le, lt, eq, ne, re, and, or, '..'";
const TERM: &str = "decimal, from_current, from_root, boolean_true, boolean_false, null";
const JUNCTION: &str = "and, or";

/// Why a text is no path.
enum Failure {
    /// Something else was expected at this byte.
    Expected(usize, &'static str),
    /// It is too long, or nested too deeply.
    TooLarge,
    /// Its regular expressions are too costly.
    TooCostly,
}

impl Failure {
    fn into_error(self, text: &str) -> Error {
        let (at, expected) = match self {
            Failure::Expected(at, expected) => (at, expected),
            Failure::TooLarge => return Error::fixed("ERR path is too long or nested too deeply"),
            Failure::TooCostly => {
                return Error::fixed("ERR the regular expressions of the path are too large");
            }
        };
        let at = (0..=at.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        let text = text.replace('\0', " ");
        let (before, after) = text.split_at(at);
        let mark = if after.is_empty() { " <<<<----" } else { " ---->>>> " };
        Error::new(format!(
            "Error occurred on position {at}, \"{before}{mark}{after}\", \
             expected one of the following: {expected}."
        ))
    }
}

type Parsed<T> = Result<T, Failure>;

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    steps_left: usize,
    depth: usize,
    comparisons: usize,
    expression_steps_left: usize,
}

/// Whether a byte belongs to names without quotes.
static NAME_BYTES: [bool; 256] = {
    let mut belongs = [false; 256];
    let mut byte = 0;
    while byte < belongs.len() {
        belongs[byte] = (byte as u8).is_ascii_alphanumeric()
            || matches!(
                byte as u8,
                b'_' | b'-' | b'$' | b'/' | b':' | b'#' | b'+' | b'%' | b'~' | b'`' | b'^'
            );
        byte += 1;
    }
    belongs
};

impl Parser<'_> {
    fn skip_spaces(&mut self) {
        while self.text.get(self.at) == Some(&b' ') {
            self.at += 1;
        }
    }

    /// The next byte behind spaces.
    fn peek(&mut self) -> Option<u8> {
        self.skip_spaces();
        self.text.get(self.at).copied()
    }

    fn take(&mut self, token: &[u8]) -> bool {
        self.skip_spaces();
        let found = self.text[self.at..].starts_with(token);
        self.at += if found { token.len() } else { 0 };
        found
    }

    fn expected<T>(&mut self, what: &'static str) -> Parsed<T> {
        self.skip_spaces();
        Err(Failure::Expected(self.at, what))
    }

    fn whole_path(&mut self, steps: &mut Steps) -> Parsed<()> {
        self.children(steps)?;
        if self.peek().is_some() { self.expected(PATH_END) } else { Ok(()) }
    }

    /// Appends the steps that stand here.
    fn children(&mut self, steps: &mut Steps) -> Parsed<()> {
        loop {
            match self.peek() {
                Some(b'.') => {
                    self.at += 1;
                    if self.text.get(self.at) == Some(&b'.') {
                        self.at += 1;
                        steps.push(Step::Descend);
                    }
                    self.child_behind_dots(steps)?;
                }
                Some(b'[') => steps.push(self.list()?),
                _ => return Ok(()),
            }
            self.steps_left = self.steps_left.checked_sub(1).ok_or(Failure::TooLarge)?;
        }
    }

    #[inline]
    fn child_behind_dots(&mut self, steps: &mut Steps) -> Parsed<()> {
        match self.peek() {
            Some(b'[') => steps.push(self.list()?),
            Some(b'*') => {
                self.at += 1;
                steps.push(Step::All);
            }
            _ => match self.name() {
                Some(name) => steps.push(Step::Name(name)),
                None => return self.expected(NAME),
            },
        }
        Ok(())
    }

    #[inline]
    fn name(&mut self) -> Option<Name> {
        self.skip_spaces();
        let rest = &self.text[self.at..];
        let len = rest.iter().position(|&byte| !NAME_BYTES[usize::from(byte)]).unwrap_or(rest.len());
        self.at += len;
        (len > 0).then(|| Name::from_slice(&rest[..len]))
    }

    /// What stands in brackets, the first of which comes next.
    fn list(&mut self) -> Parsed<Step> {
        let start = self.at;
        self.at += 1;
        let first = self.peek();
        let first_at = self.at;
        let step = match first {
            Some(b'*') => {
                self.at += 1;
                if !self.take(b"]") {
                    return Err(Failure::Expected(first_at, LIST_BUT_ALL));
                }
                return Ok(Step::All);
            }
            Some(b'?') => {
                self.at += 1;
                let filter = self.filter()?;
                if !self.take(b"]") {
                    return self.expected(JUNCTION);
                }
                return Ok(Step::Filter(Box::new(filter)));
            }
            Some(b'"' | b'\'') => {
                let name = self.string().ok_or(Failure::Expected(first_at, LIST))?;
                let mut names = Vec::new();
                while self.take(b",") {
                    names.push(self.string().ok_or(Failure::Expected(first_at, LIST_BUT_STRINGS))?);
                }
                if !self.take(b"]") {
                    return Err(Failure::Expected(first_at, LIST_BUT_STRINGS));
                }
                if names.is_empty() {
                    return Ok(Step::Name(name));
                }
                names.insert(0, name);
                return Ok(Step::Names(names));
            }
            Some(b':') => self.slice(0)?,
            Some(b'-' | b'0'..=b'9') => {
                let Some(number) = self.integer() else { return Err(Failure::Expected(first_at, LIST)) };
                if self.peek() == Some(b':') {
                    self.slice(number)?
                } else {
                    let mut numbers = Vec::new();
                    while self.take(b",") {
                        match self.integer() {
                            Some(number) => numbers.push(number),
                            None => return self.expected(NUMBER),
                        }
                    }
                    if self.peek() != Some(b']') {
                        return Err(Failure::Expected(first_at, SLICE));
                    }
                    if numbers.is_empty() {
                        Step::Index(number)
                    } else {
                        numbers.insert(0, number);
                        Step::Indexes(numbers)
                    }
                }
            }
            _ => return Err(Failure::Expected(first_at, LIST)),
        };
        if self.take(b"]") { Ok(step) } else { Err(Failure::Expected(start, PATH_END)) }
    }

    /// A range, of which the first colon is next.
    fn slice(&mut self, start: i64) -> Parsed<Step> {
        self.at += 1;
        let (mut end, mut step) = (None, 1);
        match self.peek() {
            Some(b']' | b':') => {}
            _ => match self.integer() {
                Some(number) => end = Some(number),
                None => return self.expected(NUMBER),
            },
        }
        if self.take(b":") && self.peek() != Some(b']') {
            let is_positive = matches!(self.peek(), Some(b'1'..=b'9'));
            match if is_positive { self.integer() } else { None } {
                Some(number) => step = usize::try_from(number).unwrap_or(usize::MAX),
                None => return self.expected(POSITIVE),
            }
        }
        Ok(Step::Slice { start, end, step })
    }

    /// The digits of an integer without leading zeros, and its minus; nothing is read if there is none.
    fn digits(&mut self) -> Option<&[u8]> {
        self.skip_spaces();
        let rest = &self.text[self.at..];
        let sign = usize::from(rest.first() == Some(&b'-'));
        let digits = match rest.get(sign)? {
            b'0' => 1,
            b'1'..=b'9' => rest[sign..].iter().take_while(|byte| byte.is_ascii_digit()).count(),
            _ => return None,
        };
        self.at += sign + digits;
        Some(&rest[..sign + digits])
    }

    /// An index: an integer. One beyond 64 bits counts as the largest.
    fn integer(&mut self) -> Option<i64> {
        let text = self.digits()?;
        let beyond = if text.starts_with(b"-") { i64::MIN } else { i64::MAX };
        Some(if text == b"-0" { 0 } else { mantissa_number::parse_i64(text).unwrap_or(beyond) })
    }

    /// A string in quotes of either kind; nothing is read if there is none. A backslash stands before a quote
    /// or a backslash.
    fn string(&mut self) -> Option<Name> {
        let quote = self.peek().filter(|byte| matches!(byte, b'"' | b'\''))?;
        let mut text = Name::new();
        let mut at = self.at + 1;
        loop {
            match *self.text.get(at)? {
                byte if byte == quote => break,
                b'\\' => {
                    at += 1;
                    match *self.text.get(at)? {
                        byte @ (b'"' | b'\'' | b'\\') => text.push(byte),
                        byte => text.extend([b'\\', byte]),
                    }
                }
                byte => text.push(byte),
            }
            at += 1;
        }
        self.at = at + 1;
        Some(text)
    }

    fn filter(&mut self) -> Parsed<Filter> {
        self.depth += 1;
        if self.depth > FILTER_DEPTH_MAX {
            return Err(Failure::TooLarge);
        }
        let mut any = Vec::new();
        let mut all = vec![self.single_filter()?];
        loop {
            if self.take(b"&&") {
                all.push(self.single_filter()?);
            } else if self.take(b"||") {
                any.push(one_or(all, Filter::All));
                all = vec![self.single_filter()?];
            } else {
                any.push(one_or(all, Filter::All));
                self.depth -= 1;
                return Ok(one_or(any, Filter::Any));
            }
        }
    }

    fn single_filter(&mut self) -> Parsed<Filter> {
        if self.take(b"(") {
            let filter = self.filter()?;
            return if self.take(b")") { Ok(filter) } else { self.expected(JUNCTION) };
        }
        self.comparisons += 1;
        let Some(left) = self.term()? else { return self.expected(SINGLE) };
        let operators: [(&[u8], Operator); 7] = [
            (b">=", Operator::GreaterOrEqual),
            (b">", Operator::Greater),
            (b"<=", Operator::LessOrEqual),
            (b"<", Operator::Less),
            (b"==", Operator::Equal),
            (b"!=", Operator::NotEqual),
            (b"=~", Operator::Matches),
        ];
        let Some(&(_, operator)) = operators.iter().find(|(token, _)| self.take(token)) else {
            if matches!(self.peek(), Some(b'&' | b'|' | b')' | b']')) {
                return Ok(Filter::Exists(left));
            }
            return self.expected(match &left {
                Term::Current(steps) | Term::Root(steps) if steps.is_empty() => OPERATOR_OR_ROOT,
                Term::Current(_) | Term::Root(_) => OPERATOR_OR_CHILD,
                _ => OPERATOR,
            });
        };
        let Some(mut right) = self.term()? else { return self.expected(TERM) };
        if let (Operator::Matches, Term::String(text)) = (operator, &right) {
            let left = &mut self.expression_steps_left;
            let charge = |steps| {
                let is_enough = steps <= *left;
                *left = left.saturating_sub(steps);
                is_enough
            };
            let expression = Expression::compile(text, charge).map_err(|_| Failure::TooCostly)?;
            right = Term::Expression(expression.map(Box::new));
        }
        Ok(Filter::Compare(left, operator, right))
    }

    fn term(&mut self) -> Parsed<Option<Term>> {
        Ok(Some(match self.peek() {
            Some(b'@') => Term::Current(self.inner_path()?),
            Some(b'$') => Term::Root(self.inner_path()?),
            Some(b'"' | b'\'') => match self.string() {
                Some(text) => Term::String(text),
                None => return Ok(None),
            },
            Some(b'-' | b'0'..=b'9') => match self.decimal() {
                Some(number) => Term::Number(number),
                None => return Ok(None),
            },
            _ if self.take(b"true") => Term::Boolean(true),
            _ if self.take(b"false") => Term::Boolean(false),
            _ if self.take(b"null") => Term::Null,
            _ => return Ok(None),
        }))
    }

    fn inner_path(&mut self) -> Parsed<Steps> {
        self.at += 1;
        let mut steps = Steps::new();
        steps.extend(self.name().map(Step::Name));
        self.children(&mut steps)?;
        Ok(steps)
    }

    /// A number: an integer up to 64 bits exactly, any other as the closest double.
    fn decimal(&mut self) -> Option<Number> {
        let start = self.at;
        let digits = self.digits()?;
        let integer = match digits {
            b"-0" => Some(Number::Integer(0)),
            digits => mantissa_number::parse_i64(digits)
                .map(Number::Integer)
                .or_else(|| mantissa_number::parse_u64(digits).map(Number::Unsigned))
                .or_else(|| mantissa_number::parse_f64(digits).map(Number::Double)),
        };
        let rest = &self.text[self.at..];
        let decimals = rest.iter().skip(1).take_while(|byte| byte.is_ascii_digit()).count();
        if rest.first() == Some(&b'.') && decimals > 0 {
            self.at += 1 + decimals;
            return mantissa_number::parse_f64(&self.text[start..self.at]).map(Number::Double);
        }
        integer
    }
}

/// The only one of them, or all of them made one.
fn one_or(mut filters: Vec<Filter>, join: fn(Vec<Filter>) -> Filter) -> Filter {
    match filters.pop() {
        Some(only) if filters.is_empty() => only,
        last => {
            filters.extend(last);
            join(filters)
        }
    }
}
