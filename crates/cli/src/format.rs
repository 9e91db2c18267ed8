//! A reply as text: for people, raw, as comma-separated values, or as JSON.
//!
//! The first three are what redis-cli prints, byte for byte, where it prints anything. JSON differs where
//! redis-cli's is not valid: an error is an object with the member `error`, an infinity or NaN is a string,
//! and a key that is not a string becomes its JSON text. Attributes are not shown.
//!
//! Recursion is as deep as the value, which the decoder limits.

use mantissa_protocol::{Value, put_quoted};

/// How to show replies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Format {
    /// With types and indentation, for people.
    Terminal,
    /// Strings as they are.
    Raw,
    /// Comma-separated values.
    Csv,
    /// JSON.
    Json,
    /// JSON whose strings are in ASCII, with escapes such as `\xNN` in them for other bytes.
    QuotedJson,
}

/// A value for people, ending with a line end.
pub(crate) fn terminal(value: &Value, has_colours: bool) -> Vec<u8> {
    let mut screen = Screen { out: Vec::new(), has_colours };
    screen.value(value, 0);
    screen.plain(b"\n");
    screen.out
}

/// A value as it is, elements separated by `delimiter`.
pub(crate) fn raw(value: &Value, delimiter: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write_raw(&mut out, value, delimiter);
    out
}

/// A value as one line of comma-separated values, without the line end.
pub(crate) fn csv(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    write_csv(&mut out, value);
    out
}

/// A value as JSON, without a line end.
pub(crate) fn json(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    write_json(&mut out, value, write_json_string);
    out
}

/// A value as JSON with quoted strings, without a line end.
pub(crate) fn quoted_json(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    write_json(&mut out, value, write_escaped_twice);
    out
}

/// The invalidation of cached keys for people, ending with a line end; `None` for other messages.
pub(crate) fn invalidation(message: &[Value]) -> Option<Vec<u8>> {
    let [Value::Bulk(kind), Value::Array(keys)] = message else { return None };
    if kind != b"invalidate" {
        return None;
    }
    let mut out = b"-> invalidate: ".to_vec();
    for (i, key) in keys.iter().enumerate() {
        out.extend_from_slice(if i == 0 { b"'" } else { b", '" });
        out.extend_from_slice(key.as_bytes().unwrap_or_default());
        out.push(b'\'');
    }
    out.push(b'\n');
    Some(out)
}

fn write_hex(out: &mut Vec<u8>, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.extend([DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
}

/// Colours of the parts of a reply on a terminal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Colour {
    Red,
    Green,
    Cyan,
    Yellow,
    Grey,
}

impl Colour {
    fn code(self) -> &'static [u8] {
        match self {
            Colour::Red => b"\x1b[31m",
            Colour::Green => b"\x1b[32m",
            Colour::Cyan => b"\x1b[36m",
            Colour::Yellow => b"\x1b[33m",
            Colour::Grey => b"\x1b[90m",
        }
    }
}

/// Text that is written for people, with or without colours.
struct Screen {
    out: Vec<u8>,
    has_colours: bool,
}

impl Screen {
    fn plain(&mut self, text: &[u8]) {
        self.out.extend_from_slice(text);
    }

    fn painted(&mut self, colour: Colour, write: impl FnOnce(&mut Vec<u8>)) {
        if self.has_colours {
            self.out.extend_from_slice(colour.code());
        }
        write(&mut self.out);
        if self.has_colours {
            self.out.extend_from_slice(b"\x1b[0m");
        }
    }

    fn labelled(&mut self, colour: Colour, label: &[u8], text: &[u8]) {
        self.painted(colour, |out| {
            out.extend_from_slice(label);
            out.extend_from_slice(text);
        });
    }

    /// Writes a value, without a line end; its lines after the first are indented.
    fn value(&mut self, value: &Value, indent: usize) {
        match value {
            Value::Simple(text) => self.plain(text),
            Value::Error(text) | Value::BulkError(text) => self.labelled(Colour::Red, b"(error) ", text),
            Value::Integer(value) => self.labelled(Colour::Cyan, b"(integer) ", value.to_string().as_bytes()),
            Value::Double { text, .. } => self.labelled(Colour::Cyan, b"(double) ", text),
            Value::BigNumber(text) => self.labelled(Colour::Cyan, b"(big number) ", text),
            Value::Bulk(text) => self.painted(Colour::Green, |out| put_quoted(out, text)),
            Value::Verbatim { text, .. } => self.plain(text),
            Value::Boolean(true) => self.labelled(Colour::Yellow, b"(true)", b""),
            Value::Boolean(false) => self.labelled(Colour::Yellow, b"(false)", b""),
            Value::Null | Value::NullBulk | Value::NullArray => self.labelled(Colour::Grey, b"(nil)", b""),
            Value::Attribute { value, .. } => self.value(value, indent),
            Value::Array(elements) => self.elements(elements, b')', b"(empty array)", indent),
            Value::Set(elements) => self.elements(elements, b'~', b"(empty set)", indent),
            Value::Push(elements) => self.elements(elements, b')', b"(empty push)", indent),
            Value::Map(pairs) => self.pairs(pairs, indent),
        }
    }

    fn elements(&mut self, elements: &[Value], mark: u8, empty: &[u8], indent: usize) {
        let numbering = Numbering::new(elements.len(), mark, indent);
        if elements.is_empty() {
            self.labelled(Colour::Grey, empty, b"");
        }
        for (i, element) in elements.iter().enumerate() {
            self.number(&numbering, i);
            self.value(element, numbering.inner_indent());
        }
    }

    fn pairs(&mut self, pairs: &[(Value, Value)], indent: usize) {
        let numbering = Numbering::new(pairs.len(), b'#', indent);
        if pairs.is_empty() {
            self.labelled(Colour::Grey, b"(empty hash)", b"");
        }
        for (i, (key, value)) in pairs.iter().enumerate() {
            self.number(&numbering, i);
            self.value(key, numbering.inner_indent());
            self.plain(b" => ");
            if takes_lines(value) {
                self.plain(b"\n");
                self.out.resize(self.out.len() + numbering.inner_indent(), b' ');
            }
            self.value(value, numbering.inner_indent());
        }
    }

    /// Writes the number of element `i`, on a new line but for the first.
    fn number(&mut self, numbering: &Numbering, i: usize) {
        if i > 0 {
            self.plain(b"\n");
            self.out.resize(self.out.len() + numbering.indent, b' ');
        }
        self.painted(Colour::Grey, |out| numbering.write(out, i));
    }
}

/// The numbers before the elements of an aggregate.
struct Numbering {
    mark: u8,
    indent: usize,
    width: usize,
}

impl Numbering {
    fn new(count: usize, mark: u8, indent: usize) -> Self {
        Numbering { mark, indent, width: count.max(1).ilog10() as usize + 1 }
    }

    /// Writes the number of element `i`.
    fn write(&self, out: &mut Vec<u8>, i: usize) {
        let number = (i + 1).to_string();
        out.resize(out.len() + self.width - number.len(), b' ');
        out.extend_from_slice(number.as_bytes());
        out.extend_from_slice(&[self.mark, b' ']);
    }

    /// How far what belongs to an element is indented.
    fn inner_indent(&self) -> usize {
        self.indent + self.width + 2
    }
}

/// Whether a value has several elements at some level, where those above have one.
fn takes_lines(value: &Value) -> bool {
    match value {
        Value::Array(elements) | Value::Set(elements) | Value::Push(elements) => match &elements[..] {
            [] => false,
            [element] => takes_lines(element),
            _ => true,
        },
        Value::Map(pairs) => match &pairs[..] {
            [] => false,
            [(_, value)] => takes_lines(value),
            _ => true,
        },
        Value::Attribute { value, .. } => takes_lines(value),
        _ => false,
    }
}

fn write_raw(out: &mut Vec<u8>, value: &Value, delimiter: &[u8]) {
    match value {
        Value::Error(text) | Value::BulkError(text) => {
            out.extend_from_slice(text);
            out.push(b'\n');
        }
        Value::Integer(value) => out.extend_from_slice(value.to_string().as_bytes()),
        Value::Double { text, .. } => out.extend_from_slice(text),
        Value::Boolean(value) => out.extend_from_slice(if *value { b"(true)" } else { b"(false)" }),
        Value::Null | Value::NullBulk | Value::NullArray => {}
        Value::Simple(text) | Value::Bulk(text) | Value::BigNumber(text) | Value::Verbatim { text, .. } => {
            out.extend_from_slice(text);
        }
        Value::Attribute { value, .. } => write_raw(out, value, delimiter),
        Value::Array(elements) | Value::Set(elements) | Value::Push(elements) => {
            for (i, element) in elements.iter().enumerate() {
                out.extend_from_slice(if i == 0 { b"" } else { delimiter });
                write_raw(out, element, delimiter);
            }
        }
        Value::Map(pairs) => {
            for (i, (key, value)) in pairs.iter().enumerate() {
                out.extend_from_slice(if i == 0 { b"" } else { delimiter });
                write_raw(out, key, delimiter);
                out.push(b' ');
                write_raw(out, value, delimiter);
            }
        }
    }
}

fn write_csv(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Error(text) | Value::BulkError(text) => {
            out.extend_from_slice(b"ERROR,");
            put_quoted(out, text);
        }
        Value::Integer(value) => out.extend_from_slice(value.to_string().as_bytes()),
        Value::Double { text, .. } | Value::BigNumber(text) => out.extend_from_slice(text),
        Value::Boolean(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
        Value::Null | Value::NullBulk | Value::NullArray => out.extend_from_slice(b"NULL"),
        Value::Simple(text) | Value::Bulk(text) | Value::Verbatim { text, .. } => put_quoted(out, text),
        Value::Attribute { value, .. } => write_csv(out, value),
        Value::Array(elements) | Value::Set(elements) | Value::Push(elements) => {
            for (i, element) in elements.iter().enumerate() {
                out.extend_from_slice(if i == 0 { b"" } else { b"," });
                write_csv(out, element);
            }
        }
        Value::Map(pairs) => {
            for (i, (key, value)) in pairs.iter().enumerate() {
                out.extend_from_slice(if i == 0 { b"" } else { b"," });
                write_csv(out, key);
                out.push(b',');
                write_csv(out, value);
            }
        }
    }
}

/// Writes a value; `string` writes its strings.
fn write_json(out: &mut Vec<u8>, value: &Value, string: fn(&mut Vec<u8>, &[u8])) {
    match value {
        Value::Error(text) | Value::BulkError(text) => {
            out.extend_from_slice(b"{\"error\":");
            string(out, text);
            out.push(b'}');
        }
        Value::Integer(value) => out.extend_from_slice(value.to_string().as_bytes()),
        Value::Double { value, text } if value.is_finite() => write_json_number(out, text),
        Value::Double { text, .. } => string(out, text),
        Value::BigNumber(text) => write_json_number(out, text),
        Value::Boolean(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
        Value::Null | Value::NullBulk | Value::NullArray => out.extend_from_slice(b"null"),
        Value::Simple(text) | Value::Bulk(text) | Value::Verbatim { text, .. } => string(out, text),
        Value::Attribute { value, .. } => write_json(out, value, string),
        Value::Array(elements) | Value::Set(elements) | Value::Push(elements) => {
            out.push(b'[');
            for (i, element) in elements.iter().enumerate() {
                out.extend_from_slice(if i == 0 { b"" } else { b"," });
                write_json(out, element, string);
            }
            out.push(b']');
        }
        Value::Map(pairs) => {
            out.push(b'{');
            for (i, (key, value)) in pairs.iter().enumerate() {
                out.extend_from_slice(if i == 0 { b"" } else { b"," });
                match key {
                    Value::Simple(text) | Value::Bulk(text) | Value::Verbatim { text, .. } => {
                        string(out, text);
                    }
                    key => string(out, &json(key)),
                }
                out.push(b':');
                write_json(out, value, string);
            }
            out.push(b'}');
        }
    }
}

/// A number that the protocol allows, as JSON allows it: without a plus sign, and with digits around the
/// point.
fn write_json_number(out: &mut Vec<u8>, text: &[u8]) {
    let text = text.strip_prefix(b"+").unwrap_or(text);
    let plain = text.strip_prefix(b"-").unwrap_or(text);
    let (whole, rest) = plain.split_at(plain.iter().take_while(|byte| byte.is_ascii_digit()).count());
    let leading_zero = whole.len() > 1 && whole[0] == b'0';
    let point_without_digit = rest.first() == Some(&b'.') && !rest.get(1).is_some_and(u8::is_ascii_digit);
    if whole.is_empty() || leading_zero || point_without_digit {
        return write_json_string(out, text);
    }
    out.extend_from_slice(text);
}

/// Text as a JSON string that holds the text with escapes for what is not printable ASCII.
fn write_escaped_twice(out: &mut Vec<u8>, text: &[u8]) {
    let mut quoted = Vec::new();
    put_quoted(&mut quoted, text);
    let inner = quoted.get(1..quoted.len() - 1).unwrap_or_default();
    out.push(b'"');
    for &byte in inner {
        out.extend_from_slice(if matches!(byte, b'"' | b'\\') { b"\\" } else { b"" });
        out.push(byte);
    }
    out.push(b'"');
}

/// Text as a JSON string. Bytes that are not UTF-8 become replacement characters.
fn write_json_string(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    for character in String::from_utf8_lossy(text).chars() {
        match character {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\r' => out.extend_from_slice(b"\\r"),
            '\t' => out.extend_from_slice(b"\\t"),
            '\u{8}' => out.extend_from_slice(b"\\b"),
            '\u{c}' => out.extend_from_slice(b"\\f"),
            '\0'..='\u{1f}' => {
                out.extend_from_slice(b"\\u00");
                write_hex(out, character as u8);
            }
            _ => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use mantissa_protocol::Decoder;

    use super::*;

    fn text(bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).expect("what is shown here is text")
    }

    fn decoded(reply: &str) -> Value {
        let (value, _) = Decoder::default().decode(reply.as_bytes()).expect("valid").expect("complete");
        value
    }

    /// What each format makes of a reply; read off redis-cli, except for JSON.
    fn check(reply: &str, for_people: &str, as_raw: &str, as_csv: &str, as_json: &str) {
        let value = decoded(reply);
        assert_eq!(text(terminal(&value, false)), format!("{for_people}\n"), "{reply:?}");
        assert_eq!(text(raw(&value, b"\n")), as_raw, "{reply:?}");
        assert_eq!(text(csv(&value)), as_csv, "{reply:?}");
        assert_eq!(text(json(&value)), as_json, "{reply:?}");
    }

    #[test]
    fn scalars() {
        check("+OK\r\n", "OK", "OK", "\"OK\"", "\"OK\"");
        check(
            "-ERR \"x\"\r\n",
            "(error) ERR \"x\"",
            "ERR \"x\"\n",
            "ERROR,\"ERR \\\"x\\\"\"",
            r#"{"error":"ERR \"x\""}"#,
        );
        check(":-5\r\n", "(integer) -5", "-5", "-5", "-5");
        check(
            "$7\r\na\"\\\n\u{1}\u{7f}\u{7}\r\n",
            r#""a\"\\\n\x01\x7f\a""#,
            "a\"\\\n\u{1}\u{7f}\u{7}",
            r#""a\"\\\n\x01\x7f\a""#,
            "\"a\\\"\\\\\\n\\u0001\u{7f}\\u0007\"",
        );
        check("$2\r\n\u{e9}\r\n", r#""\xc3\xa9""#, "\u{e9}", r#""\xc3\xa9""#, "\"\u{e9}\"");
        check("$-1\r\n", "(nil)", "", "NULL", "null");
        check("_\r\n", "(nil)", "", "NULL", "null");
        check("*-1\r\n", "(nil)", "", "NULL", "null");
        check("#t\r\n", "(true)", "(true)", "true", "true");
        check("#f\r\n", "(false)", "(false)", "false", "false");
        check(",1.5\r\n", "(double) 1.5", "1.5", "1.5", "1.5");
        check(",-inf\r\n", "(double) -inf", "-inf", "-inf", "\"-inf\"");
        check("(123\r\n", "(big number) 123", "123", "123", "123");
        check("=8\r\ntxt:a\nbc\r\n", "a\nbc", "a\nbc", r#""a\nbc""#, r#""a\nbc""#);
        check("|1\r\n+a\r\n:1\r\n:2\r\n", "(integer) 2", "2", "2", "2");
    }

    #[test]
    fn aggregates() {
        check("*0\r\n", "(empty array)", "", "", "[]");
        check("%0\r\n", "(empty hash)", "", "", "{}");
        check("~0\r\n", "(empty set)", "", "", "[]");
        let ten = ":1\r\n".repeat(10);
        let lines: Vec<String> = (2..=10).map(|i| format!("    {i:>2}) (integer) 1")).collect();
        check(
            &format!("*2\r\n$1\r\na\r\n*1\r\n*10\r\n{ten}"),
            &format!("1) \"a\"\n2) 1)  1) (integer) 1\n{}", lines.join("\n").replace("    ", "      ")),
            &format!("a\n{}", ["1"; 10].join("\n")),
            &format!("\"a\",{}", ["1"; 10].join(",")),
            &format!("[\"a\",[[{}]]]", ["1"; 10].join(",")),
        );
        check(
            "%2\r\n+a\r\n*2\r\n:1\r\n:2\r\n*1\r\n:5\r\n%2\r\n+x\r\n%1\r\n+y\r\n:1\r\n\
             +z\r\n~2\r\n:1\r\n*2\r\n:3\r\n:4\r\n",
            "1# a => \n   1) (integer) 1\n   2) (integer) 2\n\
             2# 1) (integer) 5 => \n   1# x => 1# y => (integer) 1\n\
             \x20  2# z => \n      1~ (integer) 1\n      2~ 1) (integer) 3\n         2) (integer) 4",
            "a 1\n2\n5 x y 1\nz 1\n3\n4",
            r#""a",1,2,5,"x","y",1,"z",1,3,4"#,
            r#"{"a":[1,2],"[5]":{"x":{"y":1},"z":[1,[3,4]]}}"#,
        );
        check(
            "%1\r\n+a\r\n*1\r\n*2\r\n:1\r\n:2\r\n",
            "1# a => \n   1) 1) (integer) 1\n      2) (integer) 2",
            "a 1\n2",
            "\"a\",1,2",
            "{\"a\":[[1,2]]}",
        );
        check("%1\r\n:1\r\n*1\r\n*0\r\n", "1# (integer) 1 => 1) (empty array)", "1 ", "1,", "{\"1\":[[]]}");
        check(
            "%1\r\n*1\r\n-E\r\n#t\r\n",
            "1# 1) (error) E => (true)",
            "E\n (true)",
            "ERROR,\"E\",true",
            r#"{"[{\"error\":\"E\"}]":true}"#,
        );
    }

    #[test]
    fn colours_change_nothing_else() {
        let value = decoded("%1\r\n+a\r\n*3\r\n:1\r\n$-1\r\n$1\r\nx\r\n");
        let coloured = text(terminal(&value, true));
        assert!(coloured.contains("\x1b[36m(integer) 1\x1b[0m") && coloured.contains("\x1b[32m\"x\"\x1b[0m"));
        let bare = ["31", "32", "36", "33", "90", "0"]
            .iter()
            .fold(coloured, |text, code| text.replace(&format!("\x1b[{code}m"), ""));
        assert_eq!(bare, text(terminal(&value, false)));
    }

    #[test]
    fn numbers_that_json_does_not_know_become_strings() {
        for (number, shown) in
            [("+1", "1"), ("007", "\"007\""), (".5", "\".5\""), ("1.", "\"1.\""), ("-1e5", "-1e5")]
        {
            assert_eq!(text(json(&decoded(&format!(",{number}\r\n")))), shown);
        }
    }

    #[test]
    fn invalidations() {
        let elements = [Value::Bulk(b"invalidate".to_vec()), decoded("*2\r\n$1\r\na\r\n$1\r\nb\r\n")];
        assert_eq!(invalidation(&elements).map(text).as_deref(), Some("-> invalidate: 'a', 'b'\n"));
        assert_eq!(invalidation(&[Value::Bulk(b"invalidate".to_vec()), Value::Null]), None);
        assert_eq!(invalidation(&[Value::Bulk(b"message".to_vec()), decoded("*0\r\n")]), None);
    }
}
