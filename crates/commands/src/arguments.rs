//! The arguments of commands, as registration tables describe them and COMMAND DOCS prints them.
//!
//! [`crate::spec::Info::arguments`] is a text in this notation:
//!
//! ```text
//! arguments = argument { " " argument }
//! argument  = name ":" type modifiers
//! type      = "key" | "string" | "integer" | "double" | "pattern" | "unix-time" | "pure-token"
//!           | "oneof(" arguments ")" | "block(" arguments ")"
//! modifiers = [ "#" digits ]            the key specification that finds it
//!             [ "@" token ]             the keyword before it; quoted (@'A B') if it has a space or is empty
//!             [ "?" ]                   may be left out
//!             [ "*" | "**" ]            may be repeated; with ** each time with its keyword
//!             [ "^" text ]              what help shows in the place of the name
//!             [ "<" version ]           the version of Redis that introduced it
//!             [ "!" version ]           the version of Redis that deprecated it
//! ```
//!
//! A token may begin with any character; otherwise tokens and texts end at the first of ` ?*^<!)`.
//! `k:string@PX?<2.6.12` is an optional text after the keyword PX, new in Redis 2.6.12.

use mantissa_protocol::Reply;

/// One argument, or a group of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Argument<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its type; `oneof` and `block` have arguments of their own.
    pub kind: &'a str,
    /// The arguments of a group.
    pub arguments: Vec<Argument<'a>>,
    /// The index of the key specification that finds it.
    pub key_spec: Option<u32>,
    /// The keyword before it.
    pub token: Option<&'a str>,
    /// Whether it may be left out.
    pub is_optional: bool,
    /// Whether it may be repeated.
    pub is_multiple: bool,
    /// Whether the keyword comes again each time.
    pub repeats_token: bool,
    /// What help shows in the place of the name.
    pub display: Option<&'a str>,
    /// The version that introduced it.
    pub since: Option<&'a str>,
    /// The version that deprecated it.
    pub deprecated_since: Option<&'a str>,
}

/// The position at which a text does not follow the notation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidNotation(pub usize);

/// The arguments that a text describes.
pub fn parse(text: &str) -> Result<Vec<Argument<'_>>, InvalidNotation> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let mut parser = Parser { text, at: 0 };
    let arguments = parser.arguments()?;
    if parser.at < text.len() { Err(InvalidNotation(parser.at)) } else { Ok(arguments) }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn arguments(&mut self) -> Result<Vec<Argument<'a>>, InvalidNotation> {
        let mut arguments = vec![self.argument()?];
        while self.take(" ") {
            arguments.push(self.argument()?);
        }
        Ok(arguments)
    }

    fn argument(&mut self) -> Result<Argument<'a>, InvalidNotation> {
        let name = self.word(|character| character != ':')?;
        self.expect(":")?;
        let kind = self.word(|character| character.is_ascii_lowercase() || character == '-')?;
        let mut argument = Argument { name, kind, ..Argument::default() };
        match kind {
            "oneof" | "block" => {
                self.expect("(")?;
                argument.arguments = self.arguments()?;
                self.expect(")")?;
            }
            "key" | "string" | "integer" | "double" | "pattern" | "unix-time" | "pure-token" => {}
            _ => return Err(InvalidNotation(self.at)),
        }
        self.modifiers(&mut argument)?;
        Ok(argument)
    }

    fn modifiers(&mut self, argument: &mut Argument<'a>) -> Result<(), InvalidNotation> {
        if self.take("#") {
            let digits = self.word(|character| character.is_ascii_digit())?;
            argument.key_spec = Some(digits.parse().map_err(|_| InvalidNotation(self.at))?);
        }
        if self.take("@") {
            argument.token = Some(self.token()?);
        }
        argument.is_optional = self.take("?");
        argument.is_multiple = self.take("*");
        argument.repeats_token = argument.is_multiple && self.take("*");
        for (mark, text) in
            [("^", &mut argument.display), ("<", &mut argument.since), ("!", &mut argument.deprecated_since)]
        {
            if self.take(mark) {
                *text = Some(self.word(is_plain)?);
            }
        }
        Ok(())
    }

    fn token(&mut self) -> Result<&'a str, InvalidNotation> {
        let rest = &self.text[self.at..];
        let (token, taken) = if let Some(quoted) = rest.strip_prefix('\'') {
            let end = quoted.find('\'').ok_or(InvalidNotation(self.at))?;
            (&quoted[..end], end + 2)
        } else {
            let first = rest.chars().next().filter(|&first| first != ' ').ok_or(InvalidNotation(self.at))?;
            let tail = &rest[first.len_utf8()..];
            let end = first.len_utf8() + tail.find(|character| !is_plain(character)).unwrap_or(tail.len());
            (&rest[..end], end)
        };
        self.at += taken;
        Ok(token)
    }

    /// The characters from here on that are `wanted`; at least one.
    fn word(&mut self, wanted: impl Fn(char) -> bool) -> Result<&'a str, InvalidNotation> {
        let rest = &self.text[self.at..];
        let len = rest.find(|character| !wanted(character)).unwrap_or(rest.len());
        if len == 0 {
            return Err(InvalidNotation(self.at));
        }
        self.at += len;
        Ok(&rest[..len])
    }

    fn take(&mut self, mark: &str) -> bool {
        let found = self.text[self.at..].starts_with(mark);
        self.at += if found { mark.len() } else { 0 };
        found
    }

    fn expect(&mut self, mark: &str) -> Result<(), InvalidNotation> {
        if self.take(mark) { Ok(()) } else { Err(InvalidNotation(self.at)) }
    }
}

fn is_plain(character: char) -> bool {
    !" ?*^<!)".contains(character)
}

/// Writes arguments as COMMAND DOCS does: an array of maps.
pub fn write(reply: &mut Reply, arguments: &[Argument<'_>]) {
    reply.array(arguments.len());
    for argument in arguments {
        write_one(reply, argument);
    }
}

fn write_one(reply: &mut Reply, argument: &Argument<'_>) {
    let is_group = !argument.arguments.is_empty();
    let deferred = reply.defer();
    let mut pairs = 2;
    let mut text = |reply: &mut Reply, name: &str, value: Option<&str>| {
        if let Some(value) = value {
            reply.bulk(name.as_bytes());
            reply.bulk(value.as_bytes());
            pairs += 1;
        }
    };
    reply.bulk(b"name");
    reply.bulk(argument.name.as_bytes());
    reply.bulk(b"type");
    reply.bulk(argument.kind.as_bytes());
    text(reply, "display_text", (!is_group).then_some(argument.display.unwrap_or(argument.name)));
    if let Some(index) = argument.key_spec {
        reply.bulk(b"key_spec_index");
        reply.integer(i64::from(index));
    }
    text(reply, "token", argument.token);
    text(reply, "since", argument.since);
    text(reply, "deprecated_since", argument.deprecated_since);
    pairs += usize::from(argument.key_spec.is_some());
    let flags = [
        (argument.is_optional, "optional"),
        (argument.is_multiple, "multiple"),
        (argument.repeats_token, "multiple_token"),
    ];
    let set: Vec<&str> = flags.iter().filter(|(set, _)| *set).map(|(_, name)| *name).collect();
    if !set.is_empty() {
        reply.bulk(b"flags");
        reply.set(set.len());
        set.iter().for_each(|name| reply.simple(name));
        pairs += 1;
    }
    if is_group {
        reply.bulk(b"arguments");
        write(reply, &argument.arguments);
        pairs += 1;
    }
    reply.finish_map(deferred, pairs);
}

#[cfg(test)]
mod tests {
    use mantissa_protocol::Protocol;

    use super::*;
    use crate::{FAMILIES, Spec};

    fn check<H>(specs: &[Spec<H>]) {
        for spec in specs {
            let text = spec.info.arguments;
            let parsed = parse(text);
            assert!(parsed.is_ok(), "{}: {text}: {parsed:?}", spec.info.name);
            let indexes = parsed.iter().flatten().filter_map(|argument| argument.key_spec);
            for index in indexes {
                assert!(
                    (index as usize) < spec.info.keys.len(),
                    "{}: no key specification {index}",
                    spec.info.name
                );
            }
            check(spec.subcommands);
        }
    }

    #[test]
    fn every_registered_command_follows_the_notation() {
        FAMILIES.iter().for_each(|family| check(family));
    }

    #[test]
    fn reads_every_modifier() {
        let text = "k:key#1@FROM?**^name<1.0.0!2.0.0 c:oneof(id:pure-token@*? s:block(x:double)@'A B')*";
        let arguments = parse(text).expect("the text follows the notation");
        let group = vec![
            Argument {
                name: "id",
                kind: "pure-token",
                token: Some("*"),
                is_optional: true,
                ..Argument::default()
            },
            Argument {
                name: "s",
                kind: "block",
                token: Some("A B"),
                arguments: vec![Argument { name: "x", kind: "double", ..Argument::default() }],
                ..Argument::default()
            },
        ];
        let expected = vec![
            Argument {
                name: "k",
                kind: "key",
                key_spec: Some(1),
                token: Some("FROM"),
                is_optional: true,
                is_multiple: true,
                repeats_token: true,
                display: Some("name"),
                since: Some("1.0.0"),
                deprecated_since: Some("2.0.0"),
                ..Argument::default()
            },
            Argument { name: "c", kind: "oneof", arguments: group, is_multiple: true, ..Argument::default() },
        ];
        assert_eq!(arguments, expected);
    }

    #[test]
    fn refuses_what_does_not_follow_the_notation() {
        for text in
            [" ", "a", "a:", "a:thing", "a:key ", "a:oneof", "a:oneof(b:key", "a:key#x", "a:key@", "a:key)"]
        {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn prints_as_command_docs_does() {
        let mut reply = Reply::new(Protocol::Resp3);
        write(&mut reply, &parse("k:key#0 v:string@EX?<6.0.0").expect("the text follows the notation"));
        let text = String::from_utf8_lossy(reply.as_bytes()).replace("\r\n", " ");
        assert_eq!(
            text,
            "*2 %4 $4 name $1 k $4 type $3 key $12 display_text $1 k $14 key_spec_index :0 \
             %6 $4 name $1 v $4 type $6 string $12 display_text $1 v $5 token $2 EX $5 since $5 6.0.0 \
             $5 flags ~1 +optional "
        );
    }
}
