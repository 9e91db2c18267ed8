//! Commands and replies as JSON, the way Upstash's REST interface has them.
//!
//! A body is an array of arguments, or an array of such arrays. An argument is a string, a number, which
//! stays the text that it is, or a truth value. The grammar is RFC 8259's, and nothing may stand behind the
//! array. Parsing does not recurse, costs O(n), and takes memory in proportion to the bytes that are there.

use std::ops::Range;

use crate::base64;
use crate::value::Value;

/// The most arguments of all commands of a request.
const ARGUMENTS_MAX: usize = 1 << 20;
/// Commands, their arguments back to back.
#[derive(Default, Debug)]
pub struct Commands {
    /// The arguments. The one that is open grows at the end.
    bytes: Vec<u8>,
    /// Where each argument ends in `bytes`.
    ends: Vec<usize>,
    /// Where each command ends in `ends`.
    command_ends: Vec<usize>,
}

impl Commands {
    /// Ends the argument that is open; false if there are too many.
    pub fn end_argument(&mut self) -> bool {
        self.ends.push(self.bytes.len());
        self.ends.len() <= ARGUMENTS_MAX
    }

    /// Ends the command that is open; false if it has no arguments.
    pub fn end_command(&mut self) -> bool {
        let begin = self.command_ends.last().copied().unwrap_or(0);
        self.command_ends.push(self.ends.len());
        self.ends.len() > begin
    }

    /// Adds an argument to the command that is open; false if there are too many.
    pub fn push(&mut self, argument: &[u8]) -> bool {
        self.bytes.extend_from_slice(argument);
        self.end_argument()
    }

    /// About the bytes that they take in RESP.
    pub fn encoded_bytes(&self) -> usize {
        self.bytes.len() + self.ends.len() * 8
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.command_ends.is_empty()
    }

    /// The number of commands.
    pub fn len(&self) -> usize {
        self.command_ends.len()
    }

    /// The commands.
    pub fn iter(&self) -> impl Iterator<Item = Vec<&[u8]>> {
        let mut first = 0;
        self.command_ends.iter().map(move |&end| {
            let arguments = (first..end).map(|index| self.argument(index)).collect();
            first = end;
            arguments
        })
    }

    /// An argument, counted through all commands.
    pub fn argument(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[start..self.ends[index]]
    }
}

/// Why a body is none, and where.
type Failure = (&'static str, usize);

/// Parses an array of arguments. The error is a reply's.
pub fn parse_command(body: &[u8]) -> Result<Commands, String> {
    parse(body, |parser| parser.command())
}

/// Parses an array of arrays of arguments. The error is a reply's.
pub fn parse_commands(body: &[u8]) -> Result<Commands, String> {
    parse(body, |parser| parser.list(|parser| parser.command()))
}

/// Parses a message: an array of arguments, or an object of such an array as `command` and, perhaps, an `id`.
/// An argument may also be `{"base64": "..."}`. Returns the id as it is written, empty if there is none. The
/// error is a reply's.
pub fn parse_message(body: &[u8]) -> Result<(&[u8], Commands), String> {
    let mut parser = Parser::new(body)?;
    parser.takes_base64 = true;
    let outcome = parser.message().and_then(|id| parser.end().map(|()| id));
    match outcome {
        Ok(id) => Ok((&body[id], parser.commands)),
        Err(failure) => Err(text_of(failure)),
    }
}

fn text_of((reason, at): Failure) -> String {
    format!("ERR invalid JSON at byte {at}: {reason}")
}

fn parse(body: &[u8], run: fn(&mut Parser<'_>) -> Result<(), Failure>) -> Result<Commands, String> {
    let mut parser = Parser::new(body)?;
    match run(&mut parser).and_then(|()| parser.end()) {
        Ok(()) => Ok(parser.commands),
        Err(failure) => Err(text_of(failure)),
    }
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    commands: Commands,
    /// An argument may be `{"base64": "..."}`.
    takes_base64: bool,
}

impl<'a> Parser<'a> {
    fn new(text: &'a [u8]) -> Result<Parser<'a>, String> {
        match std::str::from_utf8(text) {
            Ok(_) => Ok(Parser { text, at: 0, commands: Commands::default(), takes_base64: false }),
            Err(error) => Err(format!("ERR the body is not UTF-8 at byte {}", error.valid_up_to())),
        }
    }

    /// Nothing but spaces may follow.
    fn end(&mut self) -> Result<(), Failure> {
        match self.peek() {
            None => Ok(()),
            Some(_) => self.fail("the body goes on behind the array"),
        }
    }

    /// Where the id is, empty if there is none.
    fn message(&mut self) -> Result<Range<usize>, Failure> {
        let mut id = 0..0;
        if self.peek() != Some(b'{') {
            self.command()?;
            return Ok(id);
        }
        loop {
            self.at += 1;
            match &*self.key()? {
                b"id" if id.is_empty() => id = self.id()?,
                b"command" if self.commands.is_empty() => self.command()?,
                _ => return self.fail("a member is unknown or there twice"),
            }
            match self.peek() {
                Some(b',') => {}
                Some(b'}') => break,
                _ => return self.fail("a comma or the end of the object is expected"),
            }
        }
        self.at += 1;
        if self.commands.is_empty() { self.fail("a member command is expected") } else { Ok(id) }
    }

    /// The key of a member, with the colon behind it.
    fn key(&mut self) -> Result<Vec<u8>, Failure> {
        if self.peek() != Some(b'"') {
            return self.fail("a key is expected");
        }
        let key = self.apart(Self::string)?;
        if self.peek() != Some(b':') {
            return self.fail("a colon is expected");
        }
        self.at += 1;
        Ok(key)
    }

    fn id(&mut self) -> Result<Range<usize>, Failure> {
        let read = match self.peek() {
            Some(b'"') => Self::string,
            Some(b'-' | b'0'..=b'9') => Self::number,
            _ => return self.fail("an id is a string or a number"),
        };
        let start = self.at;
        self.apart(read)?;
        Ok(start..self.at)
    }

    /// What is read, which is no argument.
    fn apart(&mut self, read: fn(&mut Self) -> Result<(), Failure>) -> Result<Vec<u8>, Failure> {
        let start = self.commands.bytes.len();
        read(self)?;
        Ok(self.commands.bytes.split_off(start))
    }

    /// `{"base64": "..."}` as an argument.
    fn base64(&mut self) -> Result<(), Failure> {
        self.at += 1;
        if self.key()? != b"base64" || self.peek() != Some(b'"') {
            return self.fail("a string as base64 is expected");
        }
        let text = self.apart(Self::string)?;
        let Some(bytes) = base64::decode(&text) else { return self.fail("this is not base64") };
        self.commands.bytes.extend_from_slice(&bytes);
        if self.peek() != Some(b'}') {
            return self.fail("the end of the object is expected");
        }
        self.at += 1;
        Ok(())
    }

    fn fail<T>(&self, reason: &'static str) -> Result<T, Failure> {
        Err((reason, self.at))
    }

    /// The next byte that is no space.
    fn peek(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.text.get(self.at) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    fn list(&mut self, mut element: impl FnMut(&mut Self) -> Result<(), Failure>) -> Result<(), Failure> {
        if self.peek() != Some(b'[') {
            return self.fail("an array is expected");
        }
        self.at += 1;
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        loop {
            element(self)?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => break,
                _ => return self.fail("a comma or the end of the array is expected"),
            }
        }
        self.at += 1;
        Ok(())
    }

    fn command(&mut self) -> Result<(), Failure> {
        self.list(Self::argument)?;
        if self.commands.end_command() { Ok(()) } else { self.fail("a command is empty") }
    }

    fn argument(&mut self) -> Result<(), Failure> {
        match self.peek() {
            Some(b'"') => self.string()?,
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b't') => self.word("true")?,
            Some(b'f') => self.word("false")?,
            Some(b'n') => return self.fail("null is no argument"),
            Some(b'{') if self.takes_base64 => self.base64()?,
            Some(b'[' | b'{') => return self.fail("an argument is a string, a number or a truth value"),
            _ => return self.fail("an argument is expected"),
        }
        if self.commands.end_argument() { Ok(()) } else { self.fail("too many arguments") }
    }

    fn word(&mut self, word: &str) -> Result<(), Failure> {
        if !self.text[self.at..].starts_with(word.as_bytes()) {
            return self.fail("an argument is expected");
        }
        self.commands.bytes.extend_from_slice(word.as_bytes());
        self.at += word.len();
        Ok(())
    }

    fn number(&mut self) -> Result<(), Failure> {
        let start = self.at;
        self.at += usize::from(self.text[self.at] == b'-');
        let first = self.text.get(self.at).copied();
        if self.digits()? > 1 && first == Some(b'0') {
            self.at = start;
            return self.fail("a number begins with zero");
        }
        if self.text.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.text.get(self.at) {
            self.at += 1;
            self.at += usize::from(matches!(self.text.get(self.at), Some(b'+' | b'-')));
            self.digits()?;
        }
        self.commands.bytes.extend_from_slice(&self.text[start..self.at]);
        Ok(())
    }

    /// One digit or more: how many.
    fn digits(&mut self) -> Result<usize, Failure> {
        let count = self.text[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if count == 0 {
            return self.fail("a digit is expected");
        }
        self.at += count;
        Ok(count)
    }

    fn string(&mut self) -> Result<(), Failure> {
        self.at += 1;
        loop {
            let rest = &self.text[self.at..];
            let is_special = |&byte: &u8| byte < b' ' || byte == b'"' || byte == b'\\';
            let plain = rest.iter().position(is_special).unwrap_or(rest.len());
            self.commands.bytes.extend_from_slice(&rest[..plain]);
            self.at += plain;
            match self.text.get(self.at) {
                Some(b'"') => break,
                Some(b'\\') => self.escape()?,
                Some(_) => return self.fail("a control character stands in a string"),
                None => return self.fail("a string does not end"),
            }
        }
        self.at += 1;
        Ok(())
    }

    fn escape(&mut self) -> Result<(), Failure> {
        let plain = match self.text.get(self.at + 1) {
            Some(&byte @ (b'"' | b'\\' | b'/')) => byte,
            Some(b'b') => 8,
            Some(b'f') => 12,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'u') => return self.unicode(),
            _ => return self.fail("an escape is unknown"),
        };
        self.commands.bytes.push(plain);
        self.at += 2;
        Ok(())
    }

    fn unicode(&mut self) -> Result<(), Failure> {
        let Some(first) = self.code_unit(self.at) else {
            return self.fail("four hexadecimal digits are expected");
        };
        let (code, len) = match (first, self.code_unit(self.at + 6)) {
            (0xd800..0xdc00, Some(second @ 0xdc00..0xe000)) => {
                (0x1_0000 + ((first - 0xd800) << 10 | (second - 0xdc00)), 12)
            }
            _ => (first, 6),
        };
        let Some(character) = char::from_u32(code) else { return self.fail("half of a surrogate pair") };
        self.commands.bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        self.at += len;
        Ok(())
    }

    fn code_unit(&self, at: usize) -> Option<u32> {
        let digits = self.text.get(at..at + 6)?.strip_prefix(b"\\u")?;
        let digit = |value: u32, &byte: &u8| Some(value << 4 | char::from(byte).to_digit(16)?);
        digits.iter().try_fold(0, digit)
    }
}

/// Writes a reply. With `in_base64` strings are base64, but for the status OK where it is the whole reply:
/// that is what Upstash's clients expect.
pub fn write_result(value: &Value, in_base64: bool, out: &mut Vec<u8>) {
    match value {
        Value::Simple(text) if text == b"OK" => out.extend_from_slice(b"\"OK\""),
        value => write_value(value, in_base64, out),
    }
}

/// Replies nest no deeper than the decoder allows.
fn write_value(value: &Value, in_base64: bool, out: &mut Vec<u8>) {
    match value {
        Value::Simple(text) | Value::Bulk(text) | Value::BigNumber(text) | Value::Verbatim { text, .. }
            if in_base64 =>
        {
            out.push(b'"');
            base64::encode(text, out);
            out.push(b'"');
        }
        Value::Simple(text)
        | Value::Bulk(text)
        | Value::BigNumber(text)
        | Value::Verbatim { text, .. }
        | Value::Error(text)
        | Value::BulkError(text) => write_string(text, out),
        Value::Integer(number) => out.extend_from_slice(number.to_string().as_bytes()),
        Value::Null | Value::NullBulk | Value::NullArray => out.extend_from_slice(b"null"),
        Value::Boolean(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
        Value::Double { value, text } if value.is_finite() => out.extend_from_slice(text),
        Value::Double { text, .. } => write_string(text, out),
        Value::Array(elements) | Value::Set(elements) | Value::Push(elements) => {
            write_list(elements.iter(), in_base64, out);
        }
        Value::Map(pairs) => {
            write_list(pairs.iter().flat_map(|(key, value)| [key, value]), in_base64, out);
        }
        Value::Attribute { value, .. } => write_value(value, in_base64, out),
    }
}

fn write_list<'v>(elements: impl Iterator<Item = &'v Value>, in_base64: bool, out: &mut Vec<u8>) {
    out.push(b'[');
    for (index, element) in elements.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_value(element, in_base64, out);
    }
    out.push(b']');
}

/// Writes a string. What is not UTF-8 becomes U+FFFD.
pub fn write_string(text: &[u8], out: &mut Vec<u8>) {
    let text = String::from_utf8_lossy(text);
    let mut rest = text.as_bytes();
    out.push(b'"');
    while let Some(at) = rest.iter().position(|&byte| byte < b' ' || matches!(byte, b'"' | b'\\' | 0x7f)) {
        out.extend_from_slice(&rest[..at]);
        match rest[at] {
            byte @ (b'"' | b'\\') => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            byte => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
        }
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(commands: &Commands) -> Vec<Vec<String>> {
        let text = |argument: &[u8]| String::from_utf8_lossy(argument).into_owned();
        commands.iter().map(|command| command.iter().map(|argument| text(argument)).collect()).collect()
    }

    #[test]
    fn arguments_are_what_is_written() {
        let body =
            " [ \"SET\" , \"a\\n\\\"\\u00e9\\ud83d\\ude00/\\/\", 1.50, -0, 1e+05, true, false, \"\" ]\n";
        let found = parse_command(body.as_bytes()).expect("it is well formed");
        assert_eq!(words(&found), [["SET", "a\n\"é😀//", "1.50", "-0", "1e+05", "true", "false", ""]]);
        let found = parse_commands(b"[[\"a\"],[\"b\",18446744073709551616]]").expect("it is well formed");
        assert_eq!(words(&found), [vec!["a"], vec!["b", "18446744073709551616"]]);
        assert_eq!(words(&parse_commands(b"[]").expect("it is well formed")), [[""; 0]; 0]);
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for body in [
            "",
            "[",
            "[]",
            "]",
            "{}",
            "\"a\"",
            "[\"a\"",
            "[\"a\"]]",
            "[\"a\",]",
            "[,\"a\"]",
            "[\"a\" \"b\"]",
            "['a']",
            "[\"a]",
            "[\"\\x\"]",
            "[\"\\u12\"]",
            "[\"\\ud800\"]",
            "[\"\\ude00\"]",
            "[\"\\ud800\\u0041\"]",
            "[\"\t\"]",
            "[01]",
            "[-]",
            "[1.]",
            "[.5]",
            "[1e]",
            "[+1]",
            "[0x1]",
            "[NaN]",
            "[tru]",
            "[null]",
            "[[\"a\"]]",
            "[{}]",
            "[1]x",
            "[1]\0",
            "\u{feff}[1]",
        ] {
            assert!(parse_command(body.as_bytes()).is_err(), "{body}");
        }
        for body in ["[\"a\"]", "[[]]", "[[\"a\"],1]", "[[\"a\"]"] {
            assert!(parse_commands(body.as_bytes()).is_err(), "{body}");
        }
        assert!(parse_command(b"[\"\xff\"]").is_err_and(|error| error.ends_with("at byte 2")));
    }

    #[test]
    fn replies_are_written_as_upstash_does() {
        let bulk = |text: &str| Value::Bulk(text.into());
        let reply = Value::Array(vec![
            bulk("a\"\u{1}"),
            Value::Integer(-3),
            Value::NullBulk,
            Value::Simple("OK".into()),
        ]);
        let (mut plain, mut coded) = (Vec::new(), Vec::new());
        write_result(&reply, false, &mut plain);
        write_result(&reply, true, &mut coded);
        assert_eq!(String::from_utf8_lossy(&plain), r#"["a\"\u0001",-3,null,"OK"]"#);
        assert_eq!(String::from_utf8_lossy(&coded), r#"["YSIB",-3,null,"T0s="]"#);
        let mut out = Vec::new();
        write_result(&Value::Simple("OK".into()), true, &mut out);
        write_result(&bulk("OK"), true, &mut out);
        write_string(b"\xffx", &mut out);
        assert_eq!(String::from_utf8_lossy(&out), "\"OK\"\"T0s=\"\"\u{fffd}x\"");
    }
}
