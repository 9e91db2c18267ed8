//! Reads what a Rust file imports of its own crate: paths that begin with `crate`, `self` or `super`, in use
//! declarations and elsewhere. Items under `#[cfg(test)]` are left out.
//!
//! The reader knows tokens, paths and the braces of inline modules, nothing more of the language.

use std::iter::Peekable;
use std::str::Chars;

/// An identifier, `::`, or one other character, with its line, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Token {
    text: String,
    line: usize,
}

/// A path that a file names, from the root of its crate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Import {
    /// Its segments; ends in `*` for a glob.
    pub path: Vec<String>,
    /// The name under which it is visible, for a re-export.
    pub exported_as: Option<String>,
    /// The line that it ends in.
    pub line: usize,
}

/// What was read of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FileImports {
    /// The paths, in order.
    pub imports: Vec<Import>,
    /// Names of the macros that the file defines.
    pub macros: Vec<String>,
    /// Modules in files of their own that exist for tests only, from the root of the crate.
    pub test_modules: Vec<Vec<String>>,
}

/// Reads a file. `module` is its path in the crate: `["a", "b"]` for `src/a/b.rs`, empty for `src/lib.rs`.
/// `top_level` are the modules of the crate's root, which the root names without a prefix.
pub fn read(text: &str, module: &[&str], top_level: &[String]) -> FileImports {
    let module = module.iter().map(|segment| (*segment).to_owned()).collect();
    let mut reader = Reader {
        tokens: tokens(text),
        at: 0,
        module,
        inline_ends: Vec::new(),
        depth: 0,
        is_exported: false,
        top_level,
        found: FileImports::default(),
    };
    while reader.at < reader.tokens.len() {
        reader.step();
    }
    reader.found
}

struct Reader<'a> {
    tokens: Vec<Token>,
    at: usize,
    /// The module of the current token.
    module: Vec<String>,
    /// The depths of braces at which the inline modules around the current token end.
    inline_ends: Vec<usize>,
    depth: usize,
    /// The declaration being read begins with `pub`.
    is_exported: bool,
    top_level: &'a [String],
    found: FileImports,
}

impl Reader<'_> {
    /// The text of a later token; empty behind the end.
    fn peek(&self, ahead: usize) -> &str {
        self.tokens.get(self.at + ahead).map_or("", |token| &token.text)
    }

    fn step(&mut self) {
        match self.peek(0) {
            "#" if self.is_test_attribute() => self.skip_item(),
            "{" => {
                self.depth += 1;
                self.at += 1;
            }
            "}" => {
                self.depth = self.depth.saturating_sub(1);
                if self.inline_ends.last() == Some(&self.depth) {
                    self.inline_ends.pop();
                    self.module.pop();
                }
                self.at += 1;
            }
            "mod" if self.peek(2) == "{" => {
                let name = self.peek(1).to_owned();
                self.module.push(name);
                self.inline_ends.push(self.depth);
                self.at += 2;
            }
            "pub" => {
                self.skip_visibility();
                self.is_exported = true;
                self.declaration();
                self.is_exported = false;
            }
            _ => self.declaration(),
        }
    }

    /// `pub`, `pub(crate)`, `pub(in crate::a)`: none of these names an import.
    fn skip_visibility(&mut self) {
        self.at += 1;
        if self.peek(0) == "(" && matches!(self.peek(1), "crate" | "super" | "self" | "in") {
            while self.at < self.tokens.len() && self.peek(0) != ")" {
                self.at += 1;
            }
            self.at += 1;
        }
    }

    fn declaration(&mut self) {
        if self.peek(0) == "use" {
            self.at += 1;
            self.tree(None);
        } else if self.peek(0) == "macro_rules" {
            let name = self.peek(2).to_owned();
            self.found.macros.push(name);
            self.at += 3;
        } else if self.begins_path() {
            self.is_exported = false;
            self.tree(None);
        } else {
            self.at += 1;
        }
    }

    /// Whether a path into this crate begins here, outside of a use declaration.
    fn begins_path(&self) -> bool {
        let before = self.at.checked_sub(1).map_or("", |at| &self.tokens[at].text);
        let is_root_relative = self.module.is_empty() && self.is_top_level(self.peek(0));
        self.peek(1) == "::"
            && !matches!(before, "::" | ".")
            && (matches!(self.peek(0), "crate" | "super" | "self") || is_root_relative)
    }

    fn is_top_level(&self, name: &str) -> bool {
        self.top_level.iter().any(|module| module == name)
    }

    /// Reads a path or a use tree. `prefix` is what stands before it; `None` if it begins here.
    fn tree(&mut self, prefix: Option<Vec<String>>) {
        let mut path = prefix;
        loop {
            let segment = self.peek(0).to_owned();
            match (segment.as_str(), &mut path) {
                ("{", _) => return self.list(path),
                ("crate", None) => path = Some(Vec::new()),
                ("self", None) => path = Some(self.module.clone()),
                ("super", None) => path = Some(self.parent(&self.module)),
                ("super", Some(path)) => *path = self.parent(path),
                // `self` in a list is the module of the list.
                ("self", Some(_)) => {}
                (_, Some(path)) => path.push(segment),
                (name, None) if self.module.is_empty() && self.is_top_level(name) => {
                    path = Some(vec![segment]);
                }
                // Another crate, or what the file itself declares.
                (_, None) => path = Some(vec!["::".to_owned()]),
            }
            self.at += 1;
            if self.peek(0) != "::" {
                break;
            }
            self.at += 1;
            // `a::b::<T>`: the path ends before its types.
            if self.peek(0) == "<" {
                break;
            }
        }
        let line = self.tokens.get(self.at.saturating_sub(1)).map_or(0, |token| token.line);
        let path = path.unwrap_or_default();
        let renamed = (self.peek(0) == "as").then(|| self.peek(1).to_owned());
        if renamed.is_some() && self.is_exported {
            self.at += 2;
        }
        let exported_as = self.is_exported.then(|| renamed.or_else(|| path.last().cloned())).flatten();
        if path.first().is_some_and(|first| first != "::") {
            self.found.imports.push(Import { path, exported_as, line });
        }
    }

    /// Reads `{a, b::c, ...}` behind a prefix.
    fn list(&mut self, prefix: Option<Vec<String>>) {
        self.at += 1;
        while !matches!(self.peek(0), "}" | "") {
            match self.peek(0) {
                "," => self.at += 1,
                _ => {
                    let before = self.at;
                    self.tree(prefix.clone());
                    while !matches!(self.peek(0), "," | "}" | "") {
                        self.at += 1;
                    }
                    debug_assert!(self.at > before);
                }
            }
        }
        self.at += 1;
    }

    fn parent(&self, path: &[String]) -> Vec<String> {
        path[..path.len().saturating_sub(1)].to_vec()
    }

    /// `#[cfg(test)]` or `#[cfg(all(test, ...))]`.
    fn is_test_attribute(&self) -> bool {
        let starts = |words: &[&str]| words.iter().enumerate().all(|(ahead, word)| self.peek(ahead) == *word);
        starts(&["#", "[", "cfg", "(", "test", ")", "]"])
            || starts(&["#", "[", "cfg", "(", "all", "(", "test"])
    }

    /// Skips an item with its attributes: to its `;`, or to the end of its braces.
    fn skip_item(&mut self) {
        let mut braces = 0usize;
        let mut brackets = 0usize;
        let begin = self.at;
        while self.at < self.tokens.len() {
            match self.peek(0) {
                "[" | "(" => brackets += 1,
                "]" | ")" => brackets = brackets.saturating_sub(1),
                "{" => braces += 1,
                "}" if braces == 0 => return,
                "}" => braces -= 1,
                _ => {}
            }
            let is_end = braces == 0 && brackets == 0 && matches!(self.peek(0), ";" | "}" | ",");
            self.at += 1;
            if is_end {
                break;
            }
        }
        let item = &self.tokens[begin..self.at];
        if let [.., keyword, name, end] = item
            && keyword.text == "mod"
            && end.text == ";"
        {
            self.found.test_modules.push([self.module.as_slice(), std::slice::from_ref(&name.text)].concat());
        }
    }
}

/// Splits a text, without comments, literals and lifetimes.
fn tokens(text: &str) -> Vec<Token> {
    let mut found = Vec::new();
    let mut line = 1;
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '\n' => line += 1,
            '/' if chars.peek() == Some(&'/') => while chars.next_if(|&char| char != '\n').is_some() {},
            '/' if chars.peek() == Some(&'*') => skip_block_comment(&mut chars, &mut line),
            '"' => skip_string(&mut chars, &mut line),
            '\'' => skip_char_or_lifetime(&mut chars),
            ':' if chars.next_if_eq(&':').is_some() => found.push(Token { text: "::".to_owned(), line }),
            _ if char.is_alphanumeric() || char == '_' => {
                let mut text = String::from(char);
                while let Some(more) = chars.next_if(|&char| char.is_alphanumeric() || char == '_') {
                    text.push(more);
                }
                if matches!(text.as_str(), "r" | "br" | "cr") && matches!(chars.peek(), Some('"' | '#')) {
                    skip_raw_string(&mut chars, &mut line);
                } else {
                    found.push(Token { text, line });
                }
            }
            _ if char.is_whitespace() => {}
            _ => found.push(Token { text: char.to_string(), line }),
        }
    }
    found
}

fn skip_block_comment(chars: &mut Peekable<Chars<'_>>, line: &mut usize) {
    let mut depth = 0;
    let mut last = '/';
    for char in chars.by_ref() {
        *line += usize::from(char == '\n');
        match (last, char) {
            ('/', '*') => depth += 1,
            ('*', '/') => depth -= 1,
            _ => {
                last = char;
                continue;
            }
        }
        last = ' ';
        if depth == 0 {
            return;
        }
    }
}

fn skip_string(chars: &mut Peekable<Chars<'_>>, line: &mut usize) {
    let mut is_escaped = false;
    for char in chars.by_ref() {
        *line += usize::from(char == '\n');
        match char {
            '"' if !is_escaped => return,
            _ => is_escaped = char == '\\' && !is_escaped,
        }
    }
}

/// Behind `r`, at its quote or hashes. An identifier such as `r#type` is read as a string without an end
/// only if no quote follows its hash, so it is left alone.
fn skip_raw_string(chars: &mut Peekable<Chars<'_>>, line: &mut usize) {
    let mut hashes = 0;
    while chars.next_if_eq(&'#').is_some() {
        hashes += 1;
    }
    if chars.next_if_eq(&'"').is_none() {
        return;
    }
    let mut closing = None;
    for char in chars.by_ref() {
        *line += usize::from(char == '\n');
        closing = match (char, closing) {
            ('"', _) => Some(0),
            ('#', Some(count)) => Some(count + 1),
            _ => None,
        };
        if closing == Some(hashes) {
            return;
        }
    }
}

fn skip_char_or_lifetime(chars: &mut Peekable<Chars<'_>>) {
    match chars.next() {
        Some('\\') => {
            chars.next();
            while chars.next_if(|&char| char != '\'').is_some() {}
            chars.next();
        }
        // One character in quotes, or else a lifetime, whose other letters are read as a word of their own.
        Some(_) => {
            chars.next_if_eq(&'\'');
        }
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paths that a file names, each as text.
    fn paths(text: &str, module: &[&str]) -> Vec<String> {
        let top_level = ["table", "entry"].map(str::to_owned);
        read(text, module, &top_level).imports.iter().map(|import| import.path.join("::")).collect()
    }

    #[test]
    fn use_trees_are_taken_apart() {
        let text = "use crate::table::{self, Bucket, shape::{Row as Line, *}};\nuse std::crate_name::X;";
        let expected = ["table", "table::Bucket", "table::shape::Row", "table::shape::*"];
        assert_eq!(paths(text, &["entry"]), expected);
        assert_eq!(
            paths("use super::{entry::Key, super::table};", &["list", "node"]),
            ["list::entry::Key", "table"]
        );
        assert_eq!(paths("use self::inner::X; use inner::Y;", &["list"]), ["list::inner::X"]);
    }

    #[test]
    fn paths_in_code_count_and_text_does_not() {
        let text = "
            /// See [`crate::entry::Key`].
            fn f<'a>(x: &'a str) { let _ = '\\''; let _ = 'c'; crate::table::f::<u8>(\"crate::a::b\"); }
            const S: &str = r#\"crate::c::d \"# ; /* crate::e::f /* nested */ crate::g */
            pub(in crate::h) fn g() -> super::Outer { $crate::entry::made() }";
        assert_eq!(paths(text, &["list"]), ["table::f", "Outer", "entry::made"]);
    }

    #[test]
    fn tests_are_left_out() {
        let text = "
            #[cfg(test)] use crate::a::A;
            #[cfg(test)] #[path = \"x.rs\"] mod slow;
            #[cfg(all(test, unix))] mod tests { use crate::b::B; fn f() { crate::c::d() } }
            mod inner { use super::entry::E; }
            #[cfg(test)] impl X { fn f() {} }
            use crate::table::T;";
        assert_eq!(paths(text, &["list"]), ["list::entry::E", "table::T"]);
        assert_eq!(read(text, &["list"], &[]).test_modules, [["list", "slow"]]);
    }

    #[test]
    fn the_root_names_its_modules_without_a_prefix() {
        let top_level = ["table", "entry"].map(str::to_owned);
        let text =
            "pub use table::{Table, Found as Hit};\nmacro_rules! m {}\nfn f() { entry::g(); a.entry::h(); }";
        let found = read(text, &[], &top_level);
        let import = |path: &[&str], exported: Option<&str>, line| Import {
            path: path.iter().map(|segment| (*segment).to_owned()).collect(),
            exported_as: exported.map(str::to_owned),
            line,
        };
        let expected = [
            import(&["table", "Table"], Some("Table"), 1),
            import(&["table", "Found"], Some("Hit"), 1),
            import(&["entry", "g"], None, 3),
        ];
        assert_eq!((found.imports.as_slice(), found.macros), (&expected[..], vec!["m".to_owned()]));
    }
}
