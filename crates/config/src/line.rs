//! Lines of a configuration file: splitting them into words, and quoting words so that they split again.

use mantissa_protocol::put_quoted;

/// Splits a line into words at spaces. Within double quotes `\xHH`, `\n`, `\r`, `\t`, `\b`, `\a` and any
/// escaped character are understood, within single quotes only `\'`. None if a quote is not closed or is not
/// followed by a space.
pub fn split_words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        rest = skip_spaces(rest);
        if rest.is_empty() {
            return Some(words);
        }
        let (word, after) = take_word(rest)?;
        words.push(word);
        rest = after;
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

fn skip_spaces(line: &[u8]) -> &[u8] {
    let count = line.iter().take_while(|&&byte| is_space(byte)).count();
    &line[count..]
}

/// Takes one word off the front of a line. A quote may open in the middle of a word, but what closes it ends
/// the word.
fn take_word(mut line: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut word = Vec::new();
    loop {
        match line {
            [] => return Some((word, line)),
            [byte, ..] if is_space(*byte) => return Some((word, line)),
            [quote @ (b'"' | b'\''), rest @ ..] => {
                let rest = take_quoted(*quote, rest, &mut word)?;
                return match rest {
                    [] => Some((word, rest)),
                    [byte, ..] if is_space(*byte) => Some((word, rest)),
                    _ => None,
                };
            }
            [byte, rest @ ..] => {
                word.push(*byte);
                line = rest;
            }
        }
    }
}

/// Reads text up to the closing quote, inclusive. Returns the rest.
fn take_quoted<'a>(quote: u8, mut line: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        let (byte, rest) = match line {
            [] => return None,
            [byte, rest @ ..] if *byte == quote => return Some(rest),
            [b'\\', b'\'', rest @ ..] if quote == b'\'' => (b'\'', rest),
            [b'\\', b'x', high, low, rest @ ..]
                if quote == b'"' && high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                (hex_digit(*high) << 4 | hex_digit(*low), rest)
            }
            [b'\\', escaped, rest @ ..] if quote == b'"' => (unescape(*escaped), rest),
            [byte, rest @ ..] => (*byte, rest),
        };
        word.push(byte);
        line = rest;
    }
}

fn hex_digit(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

fn unescape(escaped: u8) -> u8 {
    match escaped {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    }
}

/// Whether a word must be quoted to be read back unchanged.
pub fn needs_quotes(word: &[u8]) -> bool {
    word.is_empty() || word.iter().any(|&byte| is_space(byte) || matches!(byte, b'"' | b'\'' | b'\\' | 0))
}

/// A word in double quotes, with everything that does not print escaped.
pub fn quote(word: &[u8]) -> Vec<u8> {
    let mut quoted = Vec::with_capacity(word.len() + 2);
    put_quoted(&mut quoted, word);
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(line: &str) -> Option<Vec<String>> {
        let words = split_words(line.as_bytes())?;
        Some(words.into_iter().map(|word| String::from_utf8_lossy(&word).into_owned()).collect())
    }

    #[test]
    fn words_are_split_as_redis_splits_them() {
        let cases: &[(&str, Option<&[&str]>)] = &[
            ("", Some(&[])),
            ("   \t ", Some(&[])),
            ("port 6379", Some(&["port", "6379"])),
            ("  save\t60  1 ", Some(&["save", "60", "1"])),
            ("save \"\"", Some(&["save", ""])),
            ("a 'it''s'", None),
            ("a 'it\\'s'", Some(&["a", "it's"])),
            ("a 'x\\ny'", Some(&["a", "x\\ny"])),
            ("a \"x\\ny\\x41\\q\"", Some(&["a", "x\nyAq"])),
            ("a \"\\xZZ\"", Some(&["a", "xZZ"])),
            ("a b\"c d\"", Some(&["a", "bc d"])),
            ("a \"b\"c", None),
            ("a \"b", None),
            ("a 'b", None),
            ("a \"b\\\"", None),
            ("a b#c #d", Some(&["a", "b#c", "#d"])),
        ];
        for (line, expected) in cases {
            let expected =
                expected.map(|words| words.iter().map(|word| word.to_string()).collect::<Vec<_>>());
            assert_eq!(split(line), expected, "{line:?}");
        }
    }

    #[test]
    fn a_quoted_word_comes_back() {
        let all: Vec<u8> = (0..=255).collect();
        for word in [&b""[..], b"plain", b"a b", b"\"'\\", &all] {
            assert_eq!(split_words(&quote(word)), Some(vec![word.to_vec()]));
        }
    }
}
