//! Inline requests: a line of words, as a person types it.
//!
//! Words are separated by white space. Within double quotes `\n \r \t \b \a \xHH` are escapes and any other
//! character after a backslash stands for itself; within single quotes only `\'` is one. A quote may open
//! inside a word, and a closing quote ends it: white space or the end of the line must follow. [`put_quoted`]
//! writes words that come back as they were.

use std::fmt;

/// A quote was not closed, or something other than white space followed a closing quote.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnbalancedQuotes;

impl fmt::Display for UnbalancedQuotes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("unbalanced quotes")
    }
}

impl std::error::Error for UnbalancedQuotes {}

/// The words of a line, unquoted.
pub fn split_quoted(line: &[u8]) -> Result<Vec<Vec<u8>>, UnbalancedQuotes> {
    let mut words = Vec::new();
    let mut rest = skip_space(line);
    while !rest.is_empty() {
        let mut word = Vec::new();
        rest = skip_space(read_word(rest, &mut word)?);
        words.push(word);
    }
    Ok(words)
}

/// Appends a text in double quotes, with escapes for what is not printable ASCII.
pub fn put_quoted(out: &mut Vec<u8>, text: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    for &byte in text {
        match byte {
            b'\\' | b'"' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x07 => out.extend_from_slice(b"\\a"),
            0x08 => out.extend_from_slice(b"\\b"),
            b' '..=b'~' => out.push(byte),
            _ => {
                let (high, low) = (DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]);
                out.extend_from_slice(&[b'\\', b'x', high, low]);
            }
        }
    }
    out.push(b'"');
}

/// The offsets of the words of a line without quotes, as (start, length).
pub(crate) fn split_plain(line: &[u8]) -> impl Iterator<Item = (usize, usize)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        at = line.len() - skip_space(&line[at..]).len();
        let len = line[at..].iter().position(|&byte| ends_word(byte)).unwrap_or(line.len() - at);
        let word = (at, len);
        at += len;
        (len > 0).then_some(word)
    })
}

/// Whether a line needs [`split_quoted`].
pub(crate) fn has_quotes(line: &[u8]) -> bool {
    line.iter().any(|&byte| matches!(byte, b'"' | b'\''))
}

/// What may stand between words.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// What ends a word outside quotes: vertical tab and form feed do not.
fn ends_word(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

fn skip_space(text: &[u8]) -> &[u8] {
    let spaces = text.iter().take_while(|&&byte| is_space(byte)).count();
    &text[spaces..]
}

/// Reads one word from the start of `text` and returns what follows it.
fn read_word<'a>(text: &'a [u8], word: &mut Vec<u8>) -> Result<&'a [u8], UnbalancedQuotes> {
    let mut rest = text;
    while let [byte, tail @ ..] = rest {
        rest = match byte {
            b'"' => return closed(read_double_quoted(tail, word)?),
            b'\'' => return closed(read_single_quoted(tail, word)?),
            byte if ends_word(*byte) => return Ok(tail),
            byte => {
                word.push(*byte);
                tail
            }
        };
    }
    Ok(rest)
}

/// Checks what follows a closing quote.
fn closed(rest: &[u8]) -> Result<&[u8], UnbalancedQuotes> {
    match rest.first() {
        Some(&byte) if !is_space(byte) => Err(UnbalancedQuotes),
        _ => Ok(rest),
    }
}

fn read_double_quoted<'a>(text: &'a [u8], word: &mut Vec<u8>) -> Result<&'a [u8], UnbalancedQuotes> {
    let mut rest = text;
    loop {
        let (byte, tail) = match rest {
            [b'"', tail @ ..] => return Ok(tail),
            [b'\\', b'x', high, low, tail @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                (hex_digit(*high) << 4 | hex_digit(*low), tail)
            }
            [b'\\', escaped, tail @ ..] => (unescape(*escaped), tail),
            [byte, tail @ ..] => (*byte, tail),
            [] => return Err(UnbalancedQuotes),
        };
        word.push(byte);
        rest = tail;
    }
}

fn read_single_quoted<'a>(text: &'a [u8], word: &mut Vec<u8>) -> Result<&'a [u8], UnbalancedQuotes> {
    let mut rest = text;
    loop {
        let (byte, tail) = match rest {
            [b'\'', tail @ ..] => return Ok(tail),
            [b'\\', b'\'', tail @ ..] => (b'\'', tail),
            [byte, tail @ ..] => (*byte, tail),
            [] => return Err(UnbalancedQuotes),
        };
        word.push(byte);
        rest = tail;
    }
}

fn unescape(escaped: u8) -> u8 {
    match escaped {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        other => other,
    }
}

fn hex_digit(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_quoted_comes_back() {
        let every_byte: Vec<u8> = (0..=255).collect();
        let mut quoted = Vec::new();
        put_quoted(&mut quoted, &every_byte);
        assert!(quoted.iter().all(|byte| matches!(byte, b' '..=b'~')));
        assert_eq!(split_quoted(&quoted), Ok(vec![every_byte]));
    }

    fn words(line: &str) -> Vec<String> {
        let words = split_quoted(line.as_bytes()).expect("balanced quotes");
        words.iter().map(|word| word.escape_ascii().to_string()).collect()
    }

    #[test]
    fn words_and_quotes() {
        assert_eq!(words(""), [""; 0]);
        assert_eq!(words("  a\tb \x0b c\x0bd \r"), ["a", "b", r"c\x0bd"]);
        assert_eq!(words(r#"a "b c" '' "" d"e""#), ["a", "b c", "", "", "de"]);
        assert_eq!(words(r#""\x41\n\r\t\b\a\q\"\\""#), [r#"A\n\r\t\x08\x07q\"\\"#]);
        assert_eq!(words(r#""\x4" "\xzz" '\n' '\'' a\nb "a'b" 'a"b'"#).len(), 7);
        assert_eq!(words(r#""\x4" "\xzz""#), ["x4", "xzz"]);
        for line in [r#""a"#, "'a", r#""a"b"#, "'a'b", r#""a\""#, r#""\"#, r#"a"b"c"#, r#"'\'"#, r#""""""#] {
            assert_eq!(split_quoted(line.as_bytes()), Err(UnbalancedQuotes), "{line}");
        }
    }

    #[test]
    fn both_ways_of_splitting_agree_where_there_are_no_quotes() {
        for line in ["", " ", "a", "a b", "  a  b\t", "a\x0bb \x0bc", "a\rb", "\\x \\"] {
            let plain: Vec<&[u8]> = split_plain(line.as_bytes())
                .map(|(start, len)| &line.as_bytes()[start..start + len])
                .collect();
            assert_eq!(split_quoted(line.as_bytes()).expect("no quotes"), plain, "{line:?}");
        }
    }
}
