//! Regular expressions of ARGREP: the extended ones of POSIX with the escapes of TRE, the library that Redis
//! uses, matched in time linear in the text.
//!
//! They are written anew for the crate `regex`, byte by byte: what has a meaning there alone is quoted. An
//! expression is refused where TRE refuses it, with TRE's words. Not taken are `(?n)`, `(?r)` and `(?U)`.

use regex::bytes::{Regex, RegexBuilder};

use crate::error::{Error, Outcome};

/// Longest expression, in bytes.
pub(super) const BYTES_MAX: usize = 2048;
/// Bytes that a compiled one may take.
const COMPILED_BYTES_MAX: usize = 1 << 20;
/// Most repetitions.
const REPETITIONS_MAX: u32 = 255;
const CLASSES: [&str; 12] = [
    "alnum", "alpha", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper",
    "xdigit",
];

const INVALID: &str = "Invalid regexp";
const NO_COLLATING_ELEMENT: &str = "Unknown collating element";
const NO_CLASS: &str = "Unknown character class name";
const TRAILING_BACKSLASH: &str = "Trailing backslash";
const NO_GROUP: &str = "Invalid back reference";
const NO_BRACKET: &str = "Missing ']'";
const NO_PARENTHESIS: &str = "Missing ')'";
const NO_BRACE: &str = "Missing '}'";
const BAD_BRACE: &str = "Invalid contents of {}";
const BAD_RANGE: &str = "Invalid character range";
const TOO_LARGE: &str = "Out of memory";
const BAD_REPETITION: &str = "Invalid use of repetition operators";

/// The compiled expression. It matches anywhere in a text.
pub(super) fn compile(pattern: &[u8], ignores_case: bool) -> Outcome<Regex> {
    if pattern.is_empty() {
        return Err(Error::fixed("ERR regular expression is empty"));
    }
    let invalid = |reason: &str| Error::new(format!("ERR invalid regular expression: {reason}"));
    let mut translation =
        Translation { rest: pattern, out: String::new(), groups: 0, open: 0, referred: None };
    translation.run().map_err(invalid)?;
    let mut builder = RegexBuilder::new(&translation.out);
    builder.unicode(false).case_insensitive(ignores_case).dot_matches_new_line(true);
    builder.size_limit(COMPILED_BYTES_MAX).dfa_size_limit(COMPILED_BYTES_MAX);
    let regex = builder.build().map_err(|error| {
        invalid(match error {
            regex::Error::CompiledTooBig(_) => TOO_LARGE,
            regex::Error::Syntax(text) if text.contains("repetition") => BAD_REPETITION,
            _ => INVALID,
        })
    })?;
    match translation.referred {
        Some(_) => Err(Error::fixed("ERR regular expression backreferences are not supported")),
        None => Ok(regex),
    }
}

/// What the expression is written as, and what has been seen on the way.
struct Translation<'p> {
    rest: &'p [u8],
    out: String,
    groups: u32,
    /// Groups that are not closed.
    open: u32,
    /// The highest number of a group that is referred to.
    referred: Option<u32>,
}

type Step = Result<(), &'static str>;

impl Translation<'_> {
    fn run(&mut self) -> Step {
        while let Some(byte) = self.next() {
            match byte {
                b'\\' => self.escape()?,
                b'[' => self.bracket()?,
                b'(' => self.group()?,
                b')' => {
                    self.open = self.open.checked_sub(1).ok_or(NO_PARENTHESIS)?;
                    self.out.push(')');
                }
                b'{' => self.repetition()?,
                b'*' | b'+' | b'?' | b'|' | b'.' | b'^' | b'$' => self.out.push(char::from(byte)),
                byte => self.literal(byte),
            }
        }
        if self.open > 0 {
            return Err(NO_PARENTHESIS);
        }
        if self.referred.is_some_and(|number| number > self.groups) { Err(NO_GROUP) } else { Ok(()) }
    }

    fn next(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    /// Takes a prefix, if that comes next.
    fn takes(&mut self, prefix: &[u8]) -> bool {
        match self.rest.strip_prefix(prefix) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Takes up to `most` digits of a base.
    fn digits(&mut self, base: u32, most: usize) -> Option<u32> {
        let is_digit = |byte: &&u8| char::from(**byte).is_digit(base);
        let len = self.rest.iter().take_while(is_digit).take(most).count();
        let (digits, rest) = self.rest.split_at(len);
        self.rest = rest;
        u32::from_str_radix(std::str::from_utf8(digits).ok()?, base).ok()
    }

    fn literal(&mut self, byte: u8) {
        if byte.is_ascii_alphanumeric() {
            self.out.push(char::from(byte));
        } else {
            self.out.push_str(&format!("\\x{byte:02x}"));
        }
    }

    fn escape(&mut self) -> Step {
        match self.next().ok_or(TRAILING_BACKSLASH)? {
            digit @ b'0'..=b'9' => {
                let number = u32::from(digit - b'0');
                self.referred = Some(self.referred.map_or(number, |other| other.max(number)));
                self.out.push_str("(?:)");
            }
            b'Q' => {
                while !self.takes(b"\\E") {
                    let Some(byte) = self.next() else { break };
                    self.literal(byte);
                }
            }
            b'x' => {
                let code = if self.takes(b"{") {
                    let code = self.digits(16, 8);
                    if !self.takes(b"}") {
                        return Err(NO_BRACE);
                    }
                    code
                } else {
                    self.digits(16, 2)
                };
                match u8::try_from(code.unwrap_or(0)) {
                    Ok(byte) => self.literal(byte),
                    // No byte is that.
                    Err(_) => self.out.push_str("[^\\x00-\\xff]"),
                }
            }
            b'e' => self.out.push_str("\\x1b"),
            b'<' => self.out.push_str("\\b{start}"),
            b'>' => self.out.push_str("\\b{end}"),
            letter @ (b't' | b'n' | b'r' | b'f' | b'a' | b'w' | b'W' | b's' | b'S' | b'd' | b'D' | b'b'
            | b'B') => {
                self.out.push('\\');
                self.out.push(char::from(letter));
            }
            byte => self.literal(byte),
        }
        Ok(())
    }

    fn group(&mut self) -> Step {
        let flags = ["(?:", "(?i:", "(?-i:", "(?i)", "(?-i)"];
        let Some(flags) = flags.into_iter().find(|flags| self.takes(&flags.as_bytes()[1..])) else {
            if self.rest.first() == Some(&b'?') {
                return Err(INVALID);
            }
            self.groups += 1;
            self.open += 1;
            self.out.push('(');
            return Ok(());
        };
        self.open += u32::from(flags.ends_with(':'));
        self.out.push_str(flags);
        Ok(())
    }

    fn repetition(&mut self) -> Step {
        if !self.rest.contains(&b'}') {
            return Err(NO_BRACE);
        }
        let least = self.digits(10, 6);
        let most = if self.takes(b",") { self.digits(10, 6) } else { least };
        let is_open = most.is_none();
        let is_sound = self.takes(b"}")
            && (least.is_some() || most.is_some())
            && least.max(most).is_some_and(|number| number <= REPETITIONS_MAX)
            && (is_open || least <= most);
        if !is_sound {
            return Err(BAD_BRACE);
        }
        let most = most.map_or(String::new(), |most| most.to_string());
        self.out.push_str(&format!("{{{},{most}}}", least.unwrap_or(0)));
        Ok(())
    }

    /// A set of bytes in brackets, in which a backslash is one.
    fn bracket(&mut self) -> Step {
        self.out.push('[');
        if self.takes(b"^") {
            self.out.push('^');
        }
        let mut is_first = true;
        loop {
            let byte = self.next().ok_or(NO_BRACKET)?;
            match (byte, self.rest.first()) {
                (b']', _) if !is_first => break,
                (b'[', Some(b':')) => self.class()?,
                (b'[', Some(b'.' | b'=')) => return Err(NO_COLLATING_ELEMENT),
                _ => self.range(byte)?,
            }
            is_first = false;
        }
        self.out.push(']');
        Ok(())
    }

    fn class(&mut self) -> Step {
        let end = self.rest.windows(2).skip(1).position(|two| two == b":]").ok_or(NO_CLASS)? + 1;
        let name = &self.rest[1..end];
        let class = CLASSES.into_iter().find(|class| class.as_bytes() == name).ok_or(NO_CLASS)?;
        self.out.push_str(&format!("[:{class}:]"));
        self.rest = &self.rest[end + 2..];
        Ok(())
    }

    /// A byte, or all from it to another.
    fn range(&mut self, first: u8) -> Step {
        let last = match self.rest {
            [b'-', b']', ..] | [b'-'] => first,
            [b'-', b'[', b'.' | b'=', ..] => return Err(NO_COLLATING_ELEMENT),
            [b'-', last, rest @ ..] => {
                self.rest = rest;
                *last
            }
            _ => first,
        };
        if last < first {
            return Err(BAD_RANGE);
        }
        self.out.push_str(&format!("\\x{first:02x}-\\x{last:02x}"));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        compile(pattern.as_bytes(), false).expect(pattern).is_match(text.as_bytes())
    }

    #[test]
    fn expressions_mean_what_they_mean_to_tre() {
        for (pattern, text) in [
            ("^.*[0-9]{3}$", "foo123"),
            ("^(foo|bar)$", "bar"),
            ("a{2,}", "xaay"),
            ("^a{,2}$", "aa"),
            ("[]a]", "]"),
            ("[^]a]", "b"),
            ("[a-]", "-"),
            ("[\\d]", "\\"),
            ("[a&&b]", "&"),
            ("[[:digit:]x]+$", "12x"),
            ("a#b", "a#b"),
            ("a b", "a b"),
            ("a}", "a}"),
            ("\\Qa.b\\E.", "a.bc"),
            ("\\x41\\x{42}", "AB"),
            ("^.$", "\n"),
            ("\\<word\\>", "a word here"),
            ("(?i)ABC", "xabcx"),
            ("\\.", "."),
        ] {
            assert!(matches(pattern, text), "{pattern}");
        }
        for (pattern, text) in
            [("[\\d]", "5"), ("\\<word\\>", "words"), ("a$", "a\n"), ("\\x{100}", "A"), ("[^]a]", "]")]
        {
            assert!(!matches(pattern, text), "{pattern}");
        }
        let bytes = compile(b"\xff[\x80-\xfe]", false).expect("it is sound");
        assert!(bytes.is_match(b"a\xff\x81") && !bytes.is_match(b"\xff\xff"));
        assert!(compile(b"^foo[A-C]$", true).expect("it is sound").is_match(b"FOOb"));
    }

    #[test]
    fn what_tre_refuses_is_refused_with_its_words() {
        for (pattern, reason) in [
            ("(", NO_PARENTHESIS),
            ("a)", NO_PARENTHESIS),
            ("[a", NO_BRACKET),
            ("[[:word:]]", NO_CLASS),
            ("[[.a.]]", NO_COLLATING_ELEMENT),
            ("[z-a]", BAD_RANGE),
            ("a{2", NO_BRACE),
            ("a{2,1}", BAD_BRACE),
            ("a{256}", BAD_BRACE),
            ("a{x}", BAD_BRACE),
            ("\\x{1", NO_BRACE),
            ("a\\", TRAILING_BACKSLASH),
            ("\\1", NO_GROUP),
            ("*a", BAD_REPETITION),
            ("(?P<n>a)", INVALID),
            ("(?x) a", INVALID),
            ("((((a{200}){200}){200}){200}){200}", TOO_LARGE),
        ] {
            let error = compile(pattern.as_bytes(), false).expect_err(pattern);
            assert_eq!(error.text(), format!("ERR invalid regular expression: {reason}"), "{pattern}");
        }
        let refused =
            |pattern: &str| compile(pattern.as_bytes(), true).expect_err(pattern).text().into_owned();
        assert_eq!(refused("(a)\\1"), "ERR regular expression backreferences are not supported");
        assert_eq!(refused(""), "ERR regular expression is empty");
    }
}
