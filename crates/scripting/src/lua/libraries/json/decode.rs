//! Reading JSON.

use std::borrow::Cow;

use mantissa_lua::Stack;

use super::{Settings, Shared};
use crate::lua::budget;
use crate::lua::libraries::{NESTING_MAX, VALUE_WORK};
use crate::lua::native::{Native, Passed, Problem};

pub(super) fn decode(stack: &mut Stack<'_>, settings: &Shared) -> Native<usize> {
    if stack.arguments() != 1 {
        return Err(Problem::Text("bad argument #1 to 'decode' (expected 1 argument)".to_owned()));
    }
    let text = stack.text(0, "decode")?;
    if text.len() >= 2 && (text[0] == 0 || text[1] == 0) {
        return Err(Problem::Text("JSON parser does not support UTF-16 or UTF-32".to_owned()));
    }
    let mut reader = Reader { settings: settings.get(), text: &text, at: 0, depth: 0 };
    let (token, index) = reader.token();
    reader.push(stack, token, index)?;
    match reader.token() {
        (Token::End, _) => Ok(1),
        (token, index) => expected("the end", &token, index),
    }
}

enum Token<'a> {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    Text(Cow<'a, [u8]>),
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Error(&'static str),
}

impl Token<'_> {
    fn name(&self) -> &'static str {
        match self {
            Token::ObjectBegin => "T_OBJ_BEGIN",
            Token::ObjectEnd => "T_OBJ_END",
            Token::ArrayBegin => "T_ARR_BEGIN",
            Token::ArrayEnd => "T_ARR_END",
            Token::Text(_) => "T_STRING",
            Token::Number(_) => "T_NUMBER",
            Token::Boolean(_) => "T_BOOLEAN",
            Token::Null => "T_NULL",
            Token::Colon => "T_COLON",
            Token::Comma => "T_COMMA",
            Token::End => "T_END",
            Token::Error(reason) => reason,
        }
    }
}

fn expected<T>(wanted: &str, found: &Token<'_>, index: usize) -> Native<T> {
    let found = found.name();
    Err(Problem::Text(format!("Expected {wanted} but found {found} at character {}", index + 1)))
}

struct Reader<'a> {
    settings: Settings,
    text: &'a [u8],
    at: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
    /// The byte at a position, or 0 past the end. So a NUL in the text is its end.
    fn byte(&self, at: usize) -> u8 {
        self.text.get(at).copied().unwrap_or(0)
    }

    /// The next token and its position, or the position of the error.
    fn token(&mut self) -> (Token<'a>, usize) {
        while matches!(self.byte(self.at), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
        let index = self.at;
        let rest = self.text.get(index..).unwrap_or_default();
        let mut simple = |token, len| {
            self.at += len;
            (token, index)
        };
        match self.text.get(index).copied().unwrap_or(0) {
            b'{' => simple(Token::ObjectBegin, 1),
            b'}' => simple(Token::ObjectEnd, 1),
            b'[' => simple(Token::ArrayBegin, 1),
            b']' => simple(Token::ArrayEnd, 1),
            b':' => simple(Token::Colon, 1),
            b',' => simple(Token::Comma, 1),
            // A NUL is the end, as in C.
            0 => (Token::End, index),
            b'"' => self.string(),
            b'-' | b'0'..=b'9' if !self.settings.decode_invalid && is_invalid_number(rest) => {
                (Token::Error("invalid number"), index)
            }
            b'-' | b'0'..=b'9' => self.number(),
            _ if rest.starts_with(b"true") => simple(Token::Boolean(true), 4),
            _ if rest.starts_with(b"false") => simple(Token::Boolean(false), 5),
            _ if rest.starts_with(b"null") => simple(Token::Null, 4),
            _ if self.settings.decode_invalid && is_invalid_number(rest) => self.number(),
            _ => (Token::Error("invalid token"), index),
        }
    }

    fn number(&mut self) -> (Token<'a>, usize) {
        let index = self.at;
        let rest = self.text.get(index..).unwrap_or_default();
        match parse_prefix(rest) {
            Some((number, len)) => {
                self.at += len;
                (Token::Number(number), index)
            }
            None => (Token::Error("invalid number"), index),
        }
    }

    fn string(&mut self) -> (Token<'a>, usize) {
        let index = self.at;
        self.at += 1;
        let start = self.at;
        let rest = self.text.get(start..).unwrap_or_default();
        let plain = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0)).unwrap_or(rest.len());
        self.at += plain;
        if self.byte(self.at) == b'"' {
            self.at += 1;
            return (Token::Text(Cow::Borrowed(&rest[..plain])), index);
        }
        let mut found = rest[..plain].to_vec();
        loop {
            match self.byte(self.at) {
                b'"' => break,
                0 => return (Token::Error("unexpected end of string"), self.at),
                b'\\' => {
                    let plain = match self.byte(self.at + 1) {
                        byte @ (b'"' | b'\\' | b'/') => byte,
                        b'b' => 0x08,
                        b'f' => 0x0C,
                        b'n' => b'\n',
                        b'r' => b'\r',
                        b't' => b'\t',
                        b'u' => match self.escaped_letter() {
                            Some(letter) => {
                                let mut bytes = [0; 4];
                                found.extend_from_slice(letter.encode_utf8(&mut bytes).as_bytes());
                                continue;
                            }
                            None => return (Token::Error("invalid unicode escape code"), self.at),
                        },
                        _ => return (Token::Error("invalid escape code"), self.at),
                    };
                    found.push(plain);
                    self.at += 2;
                }
                byte => {
                    found.push(byte);
                    self.at += 1;
                }
            }
        }
        self.at += 1;
        (Token::Text(Cow::Owned(found)), index)
    }

    /// The character of `\uXXXX`, or of a pair of surrogates.
    fn escaped_letter(&mut self) -> Option<char> {
        let digits = |at: usize| {
            let digits = self.text.get(at + 2..at + 6)?;
            digits.iter().try_fold(0, |code, &digit| Some(code * 16 + char::from(digit).to_digit(16)?))
        };
        let code = digits(self.at)?;
        if code & 0xF800 != 0xD800 {
            let letter = char::from_u32(code)?;
            self.at += 6;
            return Some(letter);
        }
        let next = self.at + 6;
        if code & 0x400 != 0 || self.byte(next) != b'\\' || self.byte(next + 1) != b'u' {
            return None;
        }
        let low = digits(next).filter(|low| low & 0xFC00 == 0xDC00)?;
        let letter = char::from_u32(0x1_0000 + ((code & 0x3FF) << 10) + (low & 0x3FF))?;
        self.at += 12;
        Some(letter)
    }

    /// Pushes the value that begins with a token.
    fn push(&mut self, stack: &mut Stack<'_>, token: Token<'a>, index: usize) -> Native<()> {
        budget::charge(VALUE_WORK)?;
        match token {
            Token::Text(text) => {
                budget::charge(text.len())?;
                stack.push_text(&text)?;
            }
            Token::Number(number) => stack.push_number(number)?,
            Token::Boolean(value) => stack.push_boolean(value)?,
            Token::Null => stack.push_null()?,
            Token::ObjectBegin => self.push_object(stack)?,
            Token::ArrayBegin => self.push_array(stack)?,
            other => return expected("value", &other, index),
        }
        Ok(())
    }

    fn descend(&mut self) -> Native<()> {
        self.depth += 1;
        if self.depth as i64 <= self.settings.decode_depth_max && self.depth <= NESTING_MAX {
            return Ok(());
        }
        let (depth, at) = (self.depth, self.at);
        Err(Problem::Text(format!("Found too many nested data structures ({depth}) at character {at}")))
    }

    fn push_object(&mut self, stack: &mut Stack<'_>) -> Native<()> {
        self.descend()?;
        stack.push_table(0, 0)?;
        let (mut token, mut index) = self.token();
        if matches!(token, Token::ObjectEnd) {
            self.depth -= 1;
            return Ok(());
        }
        loop {
            let Token::Text(key) = token else { return expected("object key string", &token, index) };
            stack.push_text(&key)?;
            match self.token() {
                (Token::Colon, _) => {}
                (other, index) => return expected("colon", &other, index),
            }
            let (token_of_value, index_of_value) = self.token();
            self.push(stack, token_of_value, index_of_value)?;
            stack.set()?;
            match self.token() {
                (Token::ObjectEnd, _) => break,
                (Token::Comma, _) => {}
                (other, index) => return expected("comma or object end", &other, index),
            }
            (token, index) = self.token();
        }
        self.depth -= 1;
        Ok(())
    }

    fn push_array(&mut self, stack: &mut Stack<'_>) -> Native<()> {
        self.descend()?;
        stack.push_table(0, 0)?;
        let (mut token, mut index) = self.token();
        if matches!(token, Token::ArrayEnd) {
            self.depth -= 1;
            return Ok(());
        }
        for number in 1.. {
            self.push(stack, token, index)?;
            stack.set_element(number)?;
            match self.token() {
                (Token::ArrayEnd, _) => break,
                (Token::Comma, _) => {}
                (other, index) => return expected("comma or array end", &other, index),
            }
            (token, index) = self.token();
        }
        self.depth -= 1;
        Ok(())
    }
}

/// Whether a text begins with a number that C reads and JSON does not have.
fn is_invalid_number(text: &[u8]) -> bool {
    let text = match text.first() {
        Some(b'+') => return true,
        Some(b'-') => &text[1..],
        _ => text,
    };
    match (text.first(), text.get(1)) {
        (Some(b'0'), Some(next)) => next.eq_ignore_ascii_case(&b'x') || next.is_ascii_digit(),
        (Some(b'0'..=b'9') | None, _) => false,
        _ => [&b"inf"[..], b"nan"]
            .iter()
            .any(|name| text.get(..3).is_some_and(|start| start.eq_ignore_ascii_case(name))),
    }
}

/// The number that a text begins with, as C's `strtod` finds it, and its length.
fn parse_prefix(text: &[u8]) -> Option<(f64, usize)> {
    let sign_len = usize::from(matches!(text.first(), Some(b'+' | b'-')));
    let sign = if text.first() == Some(&b'-') { -1.0 } else { 1.0 };
    let rest = &text[sign_len..];
    let begins = |name: &[u8]| rest.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
    for (name, value) in [(&b"infinity"[..], f64::INFINITY), (b"inf", f64::INFINITY), (b"nan", f64::NAN)] {
        if begins(name) {
            let len = name.len() + if value.is_nan() { payload_len(&rest[name.len()..]) } else { 0 };
            return Some((value.copysign(sign), sign_len + len));
        }
    }
    if begins(b"0x")
        && let Some(len) = number_len(&rest[2..], u8::is_ascii_hexdigit, b'p')
    {
        let number = mantissa_number::parse_hexadecimal(&rest[2..2 + len])?;
        return Some((sign * number, sign_len + 2 + len));
    }
    let len = number_len(rest, u8::is_ascii_digit, b'e')?;
    let number = mantissa_number::parse_f64(&rest[..len])?;
    Some((sign * number, sign_len + len))
}

/// The length of the digits that a text begins with, with a point among them and an exponent behind a letter
/// (in small), if there is a digit.
fn number_len(text: &[u8], is_digit: fn(&u8) -> bool, exponent: u8) -> Option<usize> {
    let run = |from: usize, is_digit: fn(&u8) -> bool| {
        text.get(from..).unwrap_or_default().iter().take_while(|byte| is_digit(byte)).count()
    };
    let mut len = run(0, is_digit);
    let mut digits = len;
    if text.get(len) == Some(&b'.') {
        let decimals = run(len + 1, is_digit);
        digits += decimals;
        len += 1 + decimals;
    }
    if digits == 0 {
        return None;
    }
    if text.get(len).is_some_and(|letter| letter.to_ascii_lowercase() == exponent) {
        let sign = usize::from(matches!(text.get(len + 1), Some(b'+' | b'-')));
        let digits = run(len + 1 + sign, u8::is_ascii_digit);
        if digits > 0 {
            len += 1 + sign + digits;
        }
    }
    Some(len)
}

/// The length of the letters and digits in parentheses that may stand behind a NaN.
fn payload_len(text: &[u8]) -> usize {
    if text.first() != Some(&b'(') {
        return 0;
    }
    let is_inside = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
    let len = 1 + text[1..].iter().take_while(is_inside).count();
    if text.get(len) == Some(&b')') { len + 1 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_end_where_strtod_ends_them() {
        let cases: &[(&str, f64, usize)] = &[
            ("0x1p4]", 16.0, 5),
            ("0x.8,", 0.5, 4),
            ("0x10.8p+1", 33.0, 9),
            ("0x1.p", 1.0, 4),
            ("0X1P-", 1.0, 3),
            ("0x1p-2000", 0.0, 9),
            ("-0x1p2000", f64::NEG_INFINITY, 9),
            ("0x.p1", 0.0, 1),
            ("0x", 0.0, 1),
            ("0xg", 0.0, 1),
            ("1.e", 1.0, 2),
            ("1.5e+", 1.5, 3),
            ("1e400", f64::INFINITY, 5),
            // The nearest double, a tie that a digit far behind breaks, and the tie.
            ("0x20000000000001000000000000000001", 2f64.powi(125) + 2f64.powi(73), 34),
            ("0x20000000000001000000000000000000", 2f64.powi(125), 34),
            ("0x20000000000001", 9_007_199_254_740_992.0, 16),
            ("infinit", f64::INFINITY, 3),
        ];
        for &(text, number, len) in cases {
            assert_eq!(parse_prefix(text.as_bytes()), Some((number, len)), "{text}");
        }
        for (text, len) in [("nan", 3), ("nan(1_x)", 8), ("nan(1", 3), ("nan(-)", 3), ("-nan()", 6)] {
            let found = parse_prefix(text.as_bytes());
            assert!(found.is_some_and(|(number, found)| number.is_nan() && found == len), "{text}");
        }
        assert!(parse_prefix(b"-x").is_none() && parse_prefix(b".").is_none());
    }
}
