//! Fields of attributes: of a JSON object the value of a key, found without parsing the rest.
//!
//! It is read as leniently as redis-server 8.2 does: up to the field nothing needs to be right but the way
//! from one key to the next. A backslash in a text gives the character behind it, or what the usual letters
//! stand for; `\u` has no meaning. Objects and lists with objects count as missing. Nesting costs no stack.

use std::borrow::Cow;

/// A value of an expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value<'a> {
    /// A number; true and false are 1 and 0.
    Number(f64),
    Text(Cow<'a, [u8]>),
    Null,
    /// A list. One inside it is empty here: it is equal to no text, and otherwise 0.
    List(Vec<Value<'a>>),
}

/// A number as C's `strtod` reads it, if it is one as a whole.
pub(super) fn number_of(text: &[u8]) -> Option<f64> {
    mantissa_number::parse_score(text).or_else(|| mantissa_number::parse_f64(text))
}

/// The value of the first key of that name; none if it can not be found or has no value here.
pub(super) fn field<'a>(attribute: &'a [u8], name: &[u8]) -> Option<Value<'a>> {
    let mut reader = Reader { rest: attribute };
    reader.expect(b'{')?;
    loop {
        reader.expect(b'"')?;
        let key = reader.raw_text()?;
        reader.expect(b':')?;
        if key == name {
            return reader.value();
        }
        reader.skip()?;
        reader.expect(b',')?;
    }
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn peek(&mut self) -> Option<u8> {
        self.rest = self.rest.trim_ascii_start();
        self.rest.first().copied()
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        let is_next = self.peek() == Some(byte);
        is_next.then(|| self.rest = &self.rest[1..])
    }

    /// The rest of a text up to its quote, backslashes included.
    fn raw_text(&mut self) -> Option<&'a [u8]> {
        let mut at = 0;
        loop {
            match self.rest.get(at)? {
                b'\\' => at += 2,
                b'"' => break,
                _ => at += 1,
            }
        }
        let text = &self.rest[..at];
        self.rest = &self.rest[at + 1..];
        Some(text)
    }

    fn text(&mut self) -> Option<Value<'a>> {
        self.expect(b'"')?;
        let raw = self.raw_text()?;
        if !raw.contains(&b'\\') {
            return Some(Value::Text(raw.into()));
        }
        let mut text = Vec::with_capacity(raw.len());
        let mut bytes = raw.iter();
        while let Some(&byte) = bytes.next() {
            text.push(match byte {
                b'\\' => match bytes.next()? {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'f' => 12,
                    other => *other,
                },
                byte => byte,
            });
        }
        Some(Value::Text(text.into()))
    }

    fn number(&mut self) -> Option<Value<'a>> {
        let is_part = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E');
        let len = self.rest.iter().take_while(|byte| is_part(byte)).count();
        let number = number_of(&self.rest[..len])?;
        self.rest = &self.rest[len..];
        Some(Value::Number(number))
    }

    fn literal(&mut self) -> Option<Value<'a>> {
        let literals =
            [(&b"true"[..], Value::Number(1.0)), (b"false", Value::Number(0.0)), (b"null", Value::Null)];
        let (name, value) = literals.into_iter().find(|(name, _)| self.rest.starts_with(name))?;
        self.rest = &self.rest[name.len()..];
        Some(value)
    }

    fn scalar(&mut self) -> Option<Value<'a>> {
        match self.peek()? {
            b'"' => self.text(),
            b'0'..=b'9' | b'-' | b'+' => self.number(),
            _ => self.literal(),
        }
    }

    fn value(&mut self) -> Option<Value<'a>> {
        if self.peek()? != b'[' {
            return self.scalar();
        }
        self.expect(b'[')?;
        let mut list = Vec::new();
        while self.expect(b']').is_none() {
            list.push(match self.peek()? {
                b'[' => {
                    self.skip()?;
                    Value::List(Vec::new())
                }
                _ => self.scalar()?,
            });
            if self.expect(b',').is_none() && self.peek()? != b']' {
                return None;
            }
        }
        Some(Value::List(list))
    }

    /// Steps over a value.
    fn skip(&mut self) -> Option<()> {
        if !matches!(self.peek()?, b'[' | b'{') {
            return self.scalar().map(drop);
        }
        let mut depth = 0usize;
        loop {
            let byte = self.peek()?;
            self.rest = &self.rest[1..];
            match byte {
                b'"' => _ = self.raw_text()?,
                b'[' | b'{' => depth += 1,
                b']' | b'}' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Some(());
            }
        }
    }
}
