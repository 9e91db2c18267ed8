//! What the server says about its commands, by COMMAND DOCS: for help, hints and completion.

use std::collections::BTreeMap;
use std::ops::Bound;

use mantissa_protocol::{Value, split_quoted};

/// The commands of a server.
#[derive(Default)]
pub(crate) struct Docs {
    /// By name in upper case; that of a subcommand follows its command's after a space.
    commands: BTreeMap<String, Doc>,
}

struct Doc {
    summary: String,
    since: String,
    group: String,
    arguments: Vec<Argument>,
}

/// An argument as a person writes it.
struct Argument {
    text: String,
    /// The fixed words in it.
    tokens: Vec<String>,
    /// Whether it is the name of a key, or a part of it is.
    is_key: bool,
    /// Whether it takes exactly one word.
    is_one_word: bool,
    form: Form,
    /// The word that it begins with; empty for none.
    token: String,
    optional: bool,
    multiple: bool,
    /// Whether the token comes with every repetition.
    repeats_token: bool,
    parts: Vec<Argument>,
    /// The text without token, repetition and brackets.
    bare: String,
}

/// What an argument consists of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Its token only.
    Token,
    /// One of its parts.
    OneOf,
    /// All of its parts.
    Block,
    /// A number.
    Number,
    /// Any word.
    Word,
}

/// What may be typed at some place.
#[derive(Default, PartialEq, Eq, Debug)]
pub(crate) struct Wanted {
    /// Fixed words.
    pub(crate) tokens: Vec<String>,
    /// Whether a name of a key may be.
    pub(crate) is_key: bool,
}

/// Names that people use for groups, and the groups.
const GROUP_NAMES: [(&str, &str); 3] = [("zset", "sorted-set"), ("keys", "generic"), ("lua", "scripting")];

impl Docs {
    /// Reads the reply to COMMAND DOCS; what is not understood is left out.
    pub(crate) fn new(reply: &Value) -> Docs {
        let mut docs = Docs::default();
        docs.add(reply);
        docs
    }

    fn add(&mut self, reply: &Value) {
        for (name, entry) in pairs(reply) {
            let fields = Fields(pairs(entry));
            if let Some(subcommands) = fields.get("subcommands") {
                self.add(subcommands);
            }
            let arguments = fields.get("arguments").and_then(Value::as_elements).unwrap_or_default();
            let doc = Doc {
                summary: fields.text("summary"),
                since: fields.text("since"),
                group: fields.text("group"),
                arguments: arguments.iter().map(Argument::new).collect(),
            };
            self.commands.insert(text(name).to_ascii_uppercase().replace('|', " "), doc);
        }
    }

    /// Whether nothing is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// The same lines about all commands of a group.
    pub(crate) fn describe_group(&self, group: &str, has_colours: bool) -> Option<String> {
        let group = group.to_ascii_lowercase();
        let group =
            GROUP_NAMES.iter().find(|(name, _)| *name == group).map_or(&group[..], |(_, group)| group);
        let names = self.commands.iter().filter(|(_, doc)| doc.group == group).map(|(name, _)| name);
        let lines: String = names.filter_map(|name| self.describe(name, has_colours)).collect();
        (!lines.is_empty()).then_some(lines)
    }

    /// The groups that begin with `start`, which begins with `@`.
    pub(crate) fn complete_group(&self, start: &str) -> Vec<String> {
        let mut groups: Vec<String> = self
            .commands
            .values()
            .map(|doc| format!("@{}", doc.group))
            .filter(|group| start.starts_with('@') && group.starts_with(start))
            .collect();
        groups.sort();
        groups.dedup();
        groups
    }

    /// What may follow the words of a line.
    pub(crate) fn wanted_at(&self, before: &str) -> Wanted {
        let words = split_quoted(before.as_bytes()).unwrap_or_default();
        let words: Vec<String> =
            words.iter().map(|word| String::from_utf8_lossy(word).to_ascii_uppercase()).collect();
        let found =
            [2, 1].into_iter().find_map(|len| Some((len, self.commands.get(&words.get(..len)?.join(" "))?)));
        let Some((name_len, doc)) = found else { return Wanted::default() };
        let typed = words.get(name_len..).unwrap_or_default();
        let one_word = doc.arguments.iter().take_while(|argument| argument.is_one_word).count();
        let possible = match doc.arguments.get(typed.len()) {
            Some(argument) if typed.len() < one_word => std::slice::from_ref(argument),
            _ => doc.arguments.get(one_word..).unwrap_or_default(),
        };
        let tokens = possible.iter().flat_map(|argument| &argument.tokens);
        Wanted {
            tokens: tokens.filter(|token| !typed.contains(token)).cloned().collect(),
            is_key: possible.iter().any(|argument| argument.is_key),
        }
    }

    /// A few lines about a command.
    pub(crate) fn describe(&self, name: &str, has_colours: bool) -> Option<String> {
        let doc = self.commands.get(name)?;
        let syntax: String = doc.arguments.iter().map(|argument| format!(" {}", argument.text)).collect();
        let Doc { summary, since, group, .. } = doc;
        let painted = |code: &str, text: &str| {
            if has_colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
        };
        let mut lines = format!("\n  {}{}\n", painted("1", name), painted("90", &syntax));
        for (label, text) in [("summary:", summary), ("since:", since), ("group:", group)] {
            lines += &format!("  {} {text}\n", painted("33", label));
        }
        Some(lines + "\n")
    }

    /// The names that begin with `start`, in the case in which that is written.
    pub(crate) fn complete(&self, start: &str) -> Vec<String> {
        let upper = start.to_ascii_uppercase();
        let lower_case = start.chars().any(|character| character.is_ascii_lowercase());
        self.commands
            .range::<str, _>((Bound::Included(upper.as_str()), Bound::Unbounded))
            .map(|(name, _)| name)
            .take_while(|name| name.starts_with(&upper))
            .filter(|name| upper.contains(' ') || !name.contains(' '))
            .map(|name| if lower_case { name.to_ascii_lowercase() } else { name.clone() })
            .collect()
    }

    /// The arguments that are still to be typed on a line.
    pub(crate) fn hint(&self, line: &str) -> Option<String> {
        let words = split_quoted(line.as_bytes()).ok()?;
        let words: Vec<String> =
            words.iter().map(|word| String::from_utf8_lossy(word).to_ascii_uppercase()).collect();
        let (name_len, doc) = [2, 1].into_iter().find_map(|len| {
            let name = words.get(..len)?.join(" ");
            self.commands.get(&name).map(|doc| (len, doc))
        })?;
        let typed = words.get(name_len..).unwrap_or_default();
        let (taken, rest) = match_all(&doc.arguments, typed);
        if taken < typed.len() {
            return None;
        }
        let space = if line.ends_with(' ') { "" } else { " " };
        (!rest.is_empty()).then(|| format!("{space}{}", rest.join(" ")))
    }
}

/// Finds for words the arguments that they stand for: how many words belong to one, and the texts of what may
/// follow. Optional arguments may come in any order, up to the next that has to be.
fn match_all(arguments: &[Argument], words: &[String]) -> (usize, Vec<String>) {
    let mut open: Vec<&Argument> = arguments.iter().collect();
    let mut taken = 0;
    let texts = |open: &[&Argument]| open.iter().map(|argument| argument.text.clone()).collect::<Vec<_>>();
    while taken < words.len() {
        let needed = open.iter().position(|argument| !argument.optional).map_or(open.len(), |at| at + 1);
        let mut candidates = open.iter().take(needed).enumerate();
        let left = words.get(taken..).unwrap_or_default();
        let Some((at, (count, rest))) =
            candidates.find_map(|(at, argument)| Some((at, argument.matched(left)?)))
        else {
            break;
        };
        taken += count;
        if open[at].optional {
            open.remove(at);
        } else {
            open.drain(..=at);
        }
        if taken == words.len() {
            return (taken, rest.into_iter().chain(texts(&open)).collect());
        }
    }
    (taken, texts(&open))
}

impl Argument {
    /// How many of the words are this argument, one or more, and what is still to come of it where they end
    /// within it; `None` if they are something else.
    fn matched(&self, words: &[String]) -> Option<(usize, Option<String>)> {
        let (mut count, mut rest) = self.matched_once(words, true)?;
        while self.multiple && rest.is_none() && count < words.len() {
            let left = words.get(count..).unwrap_or_default();
            let Some((more, more_rest)) = self.matched_once(left, self.repeats_token) else { break };
            (count, rest) = (count + more, more_rest);
        }
        if self.multiple && rest.is_none() && count == words.len() {
            let token = if self.repeats_token { format!("{} ", self.token) } else { String::new() };
            rest = Some(format!("[{token}{} ...]", self.bare));
        }
        Some((count, rest))
    }

    fn matched_once(&self, words: &[String], has_token: bool) -> Option<(usize, Option<String>)> {
        let has_token = has_token && !self.token.is_empty();
        if has_token && *words.first()? != self.token {
            return None;
        }
        let before = usize::from(has_token);
        let words = words.get(before..).unwrap_or_default();
        let Some(first) = words.first() else {
            return Some((before, (self.form != Form::Token).then(|| self.bare.clone())));
        };
        let (count, rest) = match self.form {
            Form::Token => (0, None),
            Form::Word => (1, None),
            Form::Number
                if first.starts_with(|start: char| start.is_ascii_digit() || "+-.(I".contains(start)) =>
            {
                (1, None)
            }
            Form::Number => return None,
            Form::OneOf => self.parts.iter().find_map(|part| part.matched(words))?,
            Form::Block => {
                let (count, rest) = match_all(&self.parts, words);
                let is_within = count == words.len() && !rest.is_empty();
                (count, is_within.then(|| rest.join(" ")))
            }
        };
        (before + count > 0).then_some((before + count, rest))
    }

    fn new(entry: &Value) -> Argument {
        let fields = Fields(pairs(entry));
        let flags: Vec<String> = match fields.get("flags") {
            Some(flags) => flags.as_elements().unwrap_or_default().iter().map(text).collect(),
            None => Vec::new(),
        };
        let has = |flag: &str| flags.iter().any(|other| other == flag);
        let inner = fields.get("arguments").and_then(Value::as_elements).unwrap_or_default();
        let inner: Vec<Argument> = inner.iter().map(Argument::new).collect();
        let parts = || -> Vec<String> { inner.iter().map(|part| part.text.clone()).collect() };
        let (kind, token) = (fields.text("type"), fields.text("token"));
        let name = match fields.text("display_text") {
            shown if shown.is_empty() => fields.text("name"),
            shown => shown,
        };
        let optional = has("optional");
        let bare = match kind.as_str() {
            "pure-token" => String::new(),
            "oneof" if optional && token.is_empty() => parts().join(" | "),
            "oneof" => format!("<{}>", parts().join(" | ")),
            "block" => parts().join(" "),
            _ => name,
        };
        let with_token = match (token.as_str(), bare.as_str()) {
            ("", bare) => bare.to_owned(),
            (token, "") => token.to_owned(),
            (token, bare) => format!("{} {bare}", if token == "\"\"" { "" } else { token }),
        };
        let repeated = match (has("multiple"), has("multiple_token")) {
            (false, _) => with_token,
            (true, true) => format!("{with_token} [{with_token} ...]"),
            (true, false) => format!("{with_token} [{bare} ...]"),
        };
        let is_one_word = !optional && !has("multiple") && (token.is_empty() || kind == "pure-token");
        let own = Some(token.clone()).filter(|token| !token.is_empty() && token != "\"\"");
        let form = match kind.as_str() {
            "pure-token" => Form::Token,
            "oneof" => Form::OneOf,
            "block" => Form::Block,
            "integer" | "double" | "unix-time" => Form::Number,
            _ => Form::Word,
        };
        Argument {
            form,
            token: own.clone().unwrap_or_default().to_ascii_uppercase(),
            optional,
            multiple: has("multiple"),
            repeats_token: has("multiple_token"),
            bare,
            tokens: own.into_iter().chain(inner.iter().flat_map(|part| part.tokens.clone())).collect(),
            is_key: kind == "key" || inner.iter().any(|part| part.is_key),
            is_one_word: is_one_word && kind != "block",
            parts: inner,
            text: if optional { format!("[{repeated}]") } else { repeated },
        }
    }
}

/// The fields of an entry.
struct Fields<'a>(Vec<(&'a Value, &'a Value)>);

impl<'a> Fields<'a> {
    fn get(&self, name: &str) -> Option<&'a Value> {
        self.0.iter().find(|(key, _)| key.as_bytes() == Some(name.as_bytes())).map(|(_, value)| *value)
    }

    fn text(&self, name: &str) -> String {
        self.get(name).map(text).unwrap_or_default()
    }
}

/// The keys and values of a map, which RESP2 sends as an array.
fn pairs(value: &Value) -> Vec<(&Value, &Value)> {
    match value {
        Value::Map(pairs) => pairs.iter().map(|(key, value)| (key, value)).collect(),
        Value::Array(elements) => elements.chunks_exact(2).map(|pair| (&pair[0], &pair[1])).collect(),
        _ => Vec::new(),
    }
}

fn text(value: &Value) -> String {
    String::from_utf8_lossy(value.as_bytes().unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use mantissa_protocol::{Decoder, Protocol, Reply};

    use super::*;

    fn field(reply: &mut Reply, name: &str, value: &str) {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }

    /// `LPOP key [count]` and `CONFIG GET parameter [parameter ...]`.
    fn docs(protocol: Protocol) -> Docs {
        let mut reply = Reply::new(protocol);
        reply.map(3);
        reply.bulk(b"lpop");
        reply.map(3);
        field(&mut reply, "summary", "Takes from the front.");
        field(&mut reply, "group", "list");
        reply.bulk(b"arguments");
        reply.array(2);
        reply.map(2);
        field(&mut reply, "name", "key");
        field(&mut reply, "type", "key");
        reply.map(3);
        field(&mut reply, "name", "count");
        field(&mut reply, "type", "integer");
        reply.bulk(b"flags");
        reply.set(1);
        reply.simple("optional");
        reply.bulk(b"lpush");
        reply.map(0);
        reply.bulk(b"config");
        reply.map(1);
        reply.bulk(b"subcommands");
        reply.map(1);
        reply.bulk(b"config|get");
        reply.map(1);
        reply.bulk(b"arguments");
        reply.array(1);
        reply.map(3);
        field(&mut reply, "name", "parameter");
        field(&mut reply, "type", "string");
        reply.bulk(b"flags");
        reply.set(1);
        reply.simple("multiple");
        let (value, _) = Decoder::default().decode(reply.as_bytes()).expect("valid").expect("complete");
        Docs::new(&value)
    }

    #[test]
    fn help_hints_and_completion() {
        for protocol in [Protocol::Resp2, Protocol::Resp3] {
            let docs = docs(protocol);
            let described = docs.describe("LPOP", false).expect("a known command");
            assert!(described.contains("LPOP key [count]\n  summary: Takes from the front."), "{described}");
            assert_eq!(docs.describe("NONE", false), None);
            assert!(docs.describe_group("list", false).is_some_and(|text| text.contains("LPOP")));
            assert_eq!(docs.describe_group("zset", false), None);
            assert_eq!(docs.complete_group("@l"), ["@list"]);
            assert!(docs.wanted_at("lpop ").is_key && !docs.wanted_at("lpop a ").is_key);
            assert_eq!(docs.wanted_at("none "), Wanted::default());
            assert_eq!(docs.complete("lp"), ["lpop", "lpush"]);
            assert_eq!(docs.complete("C"), ["CONFIG"]);
            assert_eq!(docs.complete("config "), ["config get"]);
            assert_eq!(docs.hint("lpop").as_deref(), Some(" key [count]"));
            assert_eq!(docs.hint("lpop ").as_deref(), Some("key [count]"));
            assert_eq!(docs.hint("lpop a ").as_deref(), Some("[count]"));
            assert_eq!(docs.hint("CONFIG get a").as_deref(), Some(" [parameter ...]"));
            assert_eq!(docs.hint("lpop \"").as_deref(), None);
            assert_eq!(docs.hint("none").as_deref(), None);
        }
    }
}
