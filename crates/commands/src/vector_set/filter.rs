//! Expressions that choose elements by their attributes: the option FILTER of VSIM.
//!
//! ```text
//! or ||  <  and &&  <  == != < <= > >= in  <  + -  <  * / %  <  **  <  not !        from the loosest on
//! .field   "text" 'text'   -1.5e3   null   [1, "two"]   ( )
//! ```
//!
//! All but `**` group to the left. Text is taken as it stands between its quotes. Texts are equal by their
//! bytes, null only to null; otherwise both sides are numbers: a text that is one, or 0, as is a list. An
//! element whose attribute lacks a field that is named does not pass, whatever is asked. This is the grammar
//! of redis-server 8.2, whose tokens are cut in its own way: an operator is the longest that a run of letters
//! and signs begins with, `null` a whole run.
//!
//! Compiling is linear in the text, passing in the steps and, for each field, in the attribute.

use super::attribute::{Value, field, number_of};

/// A compiled expression.
#[derive(Debug, PartialEq)]
pub struct Filter {
    steps: Vec<Step>,
}

/// One step of an expression in postfix order.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    Constant(Constant),
    Field(Box<[u8]>),
    Apply(Operator),
}

#[derive(Clone, Debug, PartialEq)]
enum Constant {
    Number(f64),
    Text(Box<[u8]>),
    Null,
    List(Box<[Constant]>),
}

impl Constant {
    fn value(&self) -> Value<'_> {
        match self {
            Constant::Number(number) => Value::Number(*number),
            Constant::Text(text) => Value::Text((**text).into()),
            Constant::Null => Value::Null,
            Constant::List(list) => Value::List(list.iter().map(Constant::value).collect()),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Open,
    Close,
    Not,
    Power,
    Multiply,
    Divide,
    Remainder,
    Add,
    Subtract,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    Equal,
    Unequal,
    In,
    And,
    Or,
}

const OPERATORS: &[(&[u8], Operator)] = &[
    (b"(", Operator::Open),
    (b")", Operator::Close),
    (b"not", Operator::Not),
    (b"!", Operator::Not),
    (b"**", Operator::Power),
    (b"*", Operator::Multiply),
    (b"/", Operator::Divide),
    (b"%", Operator::Remainder),
    (b"+", Operator::Add),
    (b"-", Operator::Subtract),
    (b">", Operator::Greater),
    (b">=", Operator::GreaterOrEqual),
    (b"<", Operator::Less),
    (b"<=", Operator::LessOrEqual),
    (b"==", Operator::Equal),
    (b"!=", Operator::Unequal),
    (b"in", Operator::In),
    (b"and", Operator::And),
    (b"&&", Operator::And),
    (b"or", Operator::Or),
    (b"||", Operator::Or),
];

impl Operator {
    /// How tightly it binds.
    fn precedence(self) -> u8 {
        match self {
            Operator::Open | Operator::Close => 0,
            Operator::Or => 1,
            Operator::And => 2,
            Operator::Greater
            | Operator::GreaterOrEqual
            | Operator::Less
            | Operator::LessOrEqual
            | Operator::Equal
            | Operator::Unequal
            | Operator::In => 3,
            Operator::Add | Operator::Subtract => 4,
            Operator::Multiply | Operator::Divide | Operator::Remainder => 5,
            Operator::Power => 6,
            Operator::Not => 7,
        }
    }

    fn operands(self) -> usize {
        if self == Operator::Not { 1 } else { 2 }
    }

    fn apply(self, left: &Value<'_>, right: &Value<'_>) -> Value<'static> {
        let numbers = || (number(left), number(right));
        let with = |of: fn(f64, f64) -> f64| {
            let (left, right) = numbers();
            Value::Number(of(left, right))
        };
        let test = |of: fn(&f64, &f64) -> bool| {
            let (left, right) = numbers();
            truth(of(&left, &right))
        };
        match self {
            Operator::Not => truth(!is_true(right)),
            Operator::Power => with(f64::powf),
            Operator::Multiply => with(|left, right| left * right),
            Operator::Divide => with(|left, right| left / right),
            Operator::Remainder => with(|left, right| left % right),
            Operator::Add => with(|left, right| left + right),
            Operator::Subtract => with(|left, right| left - right),
            Operator::Greater => test(f64::gt),
            Operator::GreaterOrEqual => test(f64::ge),
            Operator::Less => test(f64::lt),
            Operator::LessOrEqual => test(f64::le),
            Operator::Equal => truth(are_equal(left, right)),
            Operator::Unequal => truth(!are_equal(left, right)),
            Operator::In => truth(is_in(left, right)),
            Operator::And => truth(is_true(left) && is_true(right)),
            Operator::Or => truth(is_true(left) || is_true(right)),
            Operator::Open | Operator::Close => Value::Null,
        }
    }
}

fn truth(holds: bool) -> Value<'static> {
    Value::Number(f64::from(u8::from(holds)))
}

fn is_true(value: &Value<'_>) -> bool {
    match value {
        Value::Number(number) => *number != 0.0,
        Value::Text(text) => !text.is_empty(),
        Value::Null => false,
        Value::List(_) => true,
    }
}

fn number(value: &Value<'_>) -> f64 {
    match value {
        Value::Number(number) => *number,
        Value::Text(text) => number_of(text.trim_ascii_start()).unwrap_or(0.0),
        Value::Null | Value::List(_) => 0.0,
    }
}

fn are_equal(left: &Value<'_>, right: &Value<'_>) -> bool {
    match (left, right) {
        (Value::Text(left), Value::Text(right)) => left == right,
        (Value::Null, _) | (_, Value::Null) => left == right,
        _ => number(left) == number(right),
    }
}

fn is_in(left: &Value<'_>, right: &Value<'_>) -> bool {
    match (left, right) {
        (_, Value::List(list)) => list.iter().any(|value| are_equal(left, value)),
        (Value::Text(part), Value::Text(whole)) => contains(whole, part),
        _ => false,
    }
}

/// Whether bytes contain others: in linear time where both are text, as they usually are.
fn contains(whole: &[u8], part: &[u8]) -> bool {
    match (str::from_utf8(whole), str::from_utf8(part)) {
        (Ok(whole), Ok(part)) => whole.contains(part),
        _ => part.is_empty() || whole.windows(part.len()).any(|window| window == part),
    }
}

impl Filter {
    /// Compiles an expression. The error is where it was given up; its end if no place can be told.
    pub fn compile(text: &[u8]) -> Result<Filter, usize> {
        let end = text.len();
        let (mut steps, mut waiting, mut depth) = (Vec::new(), Vec::new(), 0usize);
        let mut emit = |steps: &mut Vec<Step>, step: Step| -> Result<(), usize> {
            if let Step::Apply(operator) = &step {
                depth = depth.checked_sub(operator.operands()).ok_or(end)?;
            }
            depth += 1;
            steps.push(step);
            Ok(())
        };
        for token in tokens(text)? {
            let operator = match token {
                Step::Apply(operator) => operator,
                operand => {
                    emit(&mut steps, operand)?;
                    continue;
                }
            };
            if operator == Operator::Open {
                waiting.push(operator);
                continue;
            }
            while let Some(&top) = waiting.last()
                && top != Operator::Open
                && (top.precedence() > operator.precedence()
                    || top.precedence() == operator.precedence() && operator != Operator::Power)
            {
                waiting.pop();
                emit(&mut steps, Step::Apply(top))?;
            }
            if operator != Operator::Close {
                waiting.push(operator);
            } else if waiting.pop() != Some(Operator::Open) {
                return Err(end);
            }
        }
        while let Some(operator) = waiting.pop() {
            if operator == Operator::Open {
                return Err(end);
            }
            emit(&mut steps, Step::Apply(operator))?;
        }
        if depth == 1 { Ok(Filter { steps }) } else { Err(end) }
    }

    /// Whether an element with this attribute passes.
    pub fn passes(&self, attribute: &[u8]) -> bool {
        let mut stack: Vec<Value<'_>> = Vec::new();
        for step in &self.steps {
            let value = match step {
                Step::Constant(constant) => constant.value(),
                Step::Field(name) => match field(attribute, name) {
                    Some(value) => value,
                    None => return false,
                },
                Step::Apply(operator) => {
                    // The depth was checked when the expression was compiled.
                    let right = stack.pop().unwrap_or(Value::Null);
                    let left =
                        if operator.operands() == 2 { stack.pop() } else { None }.unwrap_or(Value::Null);
                    operator.apply(&left, &right)
                }
            };
            stack.push(value);
        }
        stack.last().is_some_and(is_true)
    }
}

fn tokens(text: &[u8]) -> Result<Vec<Step>, usize> {
    let (mut tokens, mut at) = (Vec::new(), 0);
    loop {
        at += blanks(&text[at..]);
        let rest = &text[at..];
        let Some(&first) = rest.first() else { return Ok(tokens) };
        // After an operand a minus is an operator.
        let is_number_next = match tokens.last() {
            None => true,
            Some(Step::Apply(operator)) => *operator != Operator::Close,
            Some(_) => false,
        };
        let (token, len) = match first {
            b'.' => selector(rest).ok_or(at)?,
            b'[' => list(rest).map_err(|offset| at + offset)?,
            b'"' | b'\'' => quoted(rest).map(|(text, len)| (Step::Constant(text), len)).ok_or(text.len())?,
            _ if first.is_ascii_digit() || first == b'-' && is_number_next && begins_number(rest) => {
                number_token(rest)
                    .map(|(number, len)| (Step::Constant(number), len))
                    .map_err(|len| at + len)?
            }
            _ => operator(rest).map_err(|len| at + len)?,
        };
        tokens.push(token);
        at += len;
    }
}

fn blanks(text: &[u8]) -> usize {
    text.len() - text.trim_ascii_start().len()
}

fn begins_number(text: &[u8]) -> bool {
    match text {
        [b'-', digit, ..] => digit.is_ascii_digit(),
        [digit, ..] => digit.is_ascii_digit(),
        [] => false,
    }
}

fn selector(text: &[u8]) -> Option<(Step, usize)> {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let len = 1 + text[1..].iter().take_while(|byte| is_part(byte)).count();
    (len > 1 || text.len() == 1).then(|| (Step::Field(text[1..len].into()), len))
}

/// A number. The error is how much looked like one.
fn number_token(text: &[u8]) -> Result<(Constant, usize), usize> {
    let mut len = usize::from(text.starts_with(b"-"));
    while let Some(&byte) = text.get(len)
        && (byte.is_ascii_digit()
            || matches!(byte, b'.' | b'e' | b'E')
            || matches!(byte, b'+' | b'-') && matches!(text[len - 1], b'e' | b'E'))
    {
        len += 1;
    }
    number_of(&text[..len]).map(|number| (Constant::Number(number), len)).ok_or(len)
}

fn quoted(text: &[u8]) -> Option<(Constant, usize)> {
    let quote = text[0];
    let mut at = 1;
    loop {
        match text.get(at)? {
            b'\\' if at + 1 < text.len() => at += 2,
            byte if *byte == quote => return Some((Constant::Text(text[1..at].into()), at + 1)),
            _ => at += 1,
        }
    }
}

/// A list of numbers and texts. The error is where it was given up.
fn list(text: &[u8]) -> Result<(Step, usize), usize> {
    let (mut at, mut list) = (1, Vec::new());
    loop {
        at += blanks(&text[at..]);
        let (element, len) = match text.get(at) {
            Some(b']') => return Ok((Step::Constant(Constant::List(list.into())), at + 1)),
            Some(b'"' | b'\'') => quoted(&text[at..]).ok_or(text.len())?,
            Some(_) if begins_number(&text[at..]) => number_token(&text[at..]).map_err(|len| at + len)?,
            _ => return Err(at),
        };
        list.push(element);
        at += len + blanks(&text[at + len..]);
        match text.get(at) {
            Some(b',') => at += 1,
            Some(b']') => {}
            _ => return Err(at),
        }
    }
}

/// An operator, or null. The error is where the run ends that begins with none.
fn operator(text: &[u8]) -> Result<(Step, usize), usize> {
    let is_part = |byte: &u8| byte.is_ascii_alphabetic() || b"+-*%/!()<>=|&".contains(byte);
    let len = text.iter().take_while(|byte| is_part(byte)).count();
    let run = &text[..len];
    if run == b"null" {
        return Ok((Step::Constant(Constant::Null), len));
    }
    let matching = OPERATORS.iter().filter(|(name, _)| run.starts_with(name));
    let longest = matching.max_by_key(|(name, _)| name.len()).ok_or(len)?;
    Ok((Step::Apply(longest.1), longest.0.len()))
}
