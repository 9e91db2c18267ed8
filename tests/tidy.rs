//! Measures the habits of the code base that can be measured, and names every line that breaks one.
//!
//! What is measured: the length of lines, functions and files; no notes to do later; no stray debug prints; a
//! header on every Rust file; commands are told apart by their rows alone; crates depend only on those below
//! them; unsafe code only where it is allowed, each use with its reason; no circles of imports among the
//! modules of a crate, except those that `tidy_circles.txt` lists. That list may only get shorter.
//! `tidy_exceptions.txt` lists the few accepted breaks, each with its reason; a stale entry fails too.
#![forbid(unsafe_code)]

#[path = "tidy/circles.rs"]
mod circles;
#[path = "tidy/imports.rs"]
mod imports;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

const LINE_CHARS_MAX: usize = 110;
const PYTHON_LINE_CHARS_MAX: usize = 120;
const FUNCTION_LINES_MAX: usize = 70;
const FILE_LINES_MAX: usize = 1000;
const SAFETY_LINES_BEFORE_MAX: usize = 12;

/// Written in halves, so that this file does not match itself.
const LATER_NOTES: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];
const PRINTS: [&str; 4] =
    [concat!("dbg", "!("), concat!("println", "!("), concat!("print", "!("), "unimplemented!("];
const FOLDERS_SKIPPED: [&str; 5] = ["target", ".git", ".test-env", "__pycache__", "node_modules"];
/// Crates that may hold unsafe code.
const UNSAFE_ALLOWED: [&str; 6] = ["number", "sys", "memory", "store", "net", "lua"];
/// What panics if standard output cannot be written to, and where it must not stand.
const PANICKING_PRINTS: [&str; 2] = [PRINTS[1], PRINTS[2]];
const TOOLS: &str = "crates/cli/src/";
/// Crates whose business is to print.
const PRINT_ALLOWED: [&str; 3] = ["crates/cli/", "crates/mantissa/", "simulation/src/main.rs"];

/// Comparisons with names of commands: what is true of a command is a flag, a trait or a field of its row.
const NAME_COMPARISONS: [&str; 11] = [
    "info.name ==",
    "info.name !=",
    "command.name ==",
    "command.name !=",
    "command.name.starts_with(",
    "registered_name() ==",
    "match info.name",
    "match command.name",
    "match command.info.name",
    "matches!(command.info.name,",
    "contains(&command.info.name)",
];

/// The table of ARCHITECTURE.md: a crate and those of ours that it may use.
const LAYERS: [(&str, &[&str]); 16] = [
    ("number", &[]),
    ("protocol", &["number"]),
    ("sys", &[]),
    ("net", &["sys"]),
    ("memory", &[]),
    ("lua", &[]),
    ("store", &["memory", "number", "sys"]),
    ("persist", &["store", "protocol", "sys", "number"]),
    ("commands", &["store", "protocol", "number"]),
    ("scripting", &["lua", "protocol", "number"]),
    ("config", &["commands", "protocol", "number", "sys"]),
    ("engine", &["config", "commands", "scripting", "persist", "store", "sys", "protocol", "number"]),
    ("archive", &["persist", "store", "sys", "number"]),
    ("server", &["archive", "engine", "commands", "persist", "store", "net", "sys", "protocol"]),
    (
        "cli",
        &["archive", "engine", "commands", "config", "store", "protocol", "number", "persist", "net", "sys"],
    ),
    ("mantissa", &["server", "cli"]),
];

/// A broken habit: the rule, where, what is wrong there. `key` is what an exception names.
struct Violation {
    rule: &'static str,
    key: String,
    line: usize,
    message: String,
}

/// A text file of the project.
struct Source {
    path: String,
    text: String,
}

impl Source {
    fn has_extension(&self, extensions: &[&str]) -> bool {
        Path::new(&self.path)
            .extension()
            .is_some_and(|found| extensions.iter().any(|wanted| found == *wanted))
    }

    /// The lines with their numbers, from 1.
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests have a folder above them").to_path_buf()
}

/// Every text file of the project, sorted by path.
fn sources() -> Vec<Source> {
    let root = root();
    let (mut folders, mut found) = (vec![root.clone()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the project can be read") {
            let entry = entry.expect("the project can be read");
            let name = entry.file_name().to_string_lossy().into_owned();
            if FOLDERS_SKIPPED.contains(&name.as_str()) {
                continue;
            }
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(text) = fs::read_to_string(&path) {
                let path =
                    path.strip_prefix(&root).expect("it lies in the project").to_string_lossy().into_owned();
                found.push(Source { path, text });
            }
        }
    }
    found.sort_by(|left, right| left.path.cmp(&right.path));
    found
}

fn check_lengths(source: &Source, found: &mut Vec<Violation>) {
    if !source.has_extension(&["rs", "py", "c", "h", "sh"]) {
        return;
    }
    let chars_max = if source.has_extension(&["py"]) { PYTHON_LINE_CHARS_MAX } else { LINE_CHARS_MAX };
    for (line, text) in source.lines() {
        let chars = text.chars().count();
        if chars > chars_max {
            let message = format!("{chars} characters, at most {chars_max}");
            found.push(Violation { rule: "line-length", key: source.path.clone(), line, message });
        }
    }
    let lines = source.text.lines().count();
    if lines > FILE_LINES_MAX {
        let message = format!("{lines} lines, at most {FILE_LINES_MAX}");
        found.push(Violation { rule: "file-length", key: source.path.clone(), line: lines, message });
    }
}

/// The name in a line that begins a function, if it does.
fn function_name(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    loop {
        let (word, after) = rest.split_once(' ')?;
        match word {
            "fn" => return after.split(['(', '<']).next(),
            "pub" | "const" | "async" | "unsafe" | "extern" | "default" | "\"C\"" => rest = after,
            _ if word.starts_with("pub(") && word.ends_with(')') => rest = after,
            "pub(in" => rest = after.split_once(' ')?.1,
            _ => return None,
        }
    }
}

/// Functions end, in formatted code, at the first line that is a closing brace with the indentation of their
/// first.
fn check_functions(source: &Source, found: &mut Vec<Violation>) {
    if !source.has_extension(&["rs"]) {
        return;
    }
    let lines: Vec<&str> = source.text.lines().collect();
    for (index, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else { continue };
        if line.ends_with('}') || line.ends_with(';') {
            continue;
        }
        let indentation = &line[..line.len() - line.trim_start().len()];
        let ends = |later: &&&str| {
            later.strip_prefix(indentation).is_some_and(|rest| {
                rest == "}" || rest.starts_with(") ") && rest.ends_with(';') || rest == ");"
            })
        };
        let length = lines[index + 1..].iter().take_while(|later| !ends(later)).count() + 2;
        if length > FUNCTION_LINES_MAX {
            let message = format!("function {name} has {length} lines, at most {FUNCTION_LINES_MAX}");
            let key = format!("{}:{name}", source.path);
            found.push(Violation { rule: "function-length", key, line: index + 1, message });
        }
    }
}

fn check_notes(source: &Source, found: &mut Vec<Violation>) {
    if !source.has_extension(&["rs", "py", "c", "h", "sh", "md", "toml"]) {
        return;
    }
    for (line, text) in source.lines() {
        if let Some(note) = LATER_NOTES.iter().find(|note| text.contains(**note)) {
            let message = format!("{note}: do it, or file it as an issue");
            found.push(Violation { rule: "later", key: source.path.clone(), line, message });
        }
    }
}

/// Prints are for programs, build scripts, benchmarks and tests.
fn check_prints(source: &Source, found: &mut Vec<Violation>) {
    let path = &source.path;
    if path.starts_with(TOOLS) {
        for (line, text) in source.lines().filter(|(_, text)| !text.trim_start().starts_with("//")) {
            if let Some(print) = PANICKING_PRINTS.iter().find(|print| is_called(text, print)) {
                let message = format!("{print}..) panics where nobody reads; see output.rs");
                found.push(Violation { rule: "print", key: path.clone(), line, message });
            }
        }
    }
    let free = PRINT_ALLOWED.iter().any(|allowed| path.starts_with(allowed))
        || path.ends_with("build.rs")
        || path.ends_with("/tests.rs")
        || ["tests/", "benches/", "examples/", "bench/", "fuzz/"].iter().any(|folder| path.contains(folder));
    if free || !path.ends_with(".rs") {
        return;
    }
    let product = source.lines().take_while(|(_, text)| !text.contains("#[cfg(test)]"));
    for (line, text) in product.filter(|(_, text)| !text.trim_start().starts_with("//")) {
        if let Some(print) = PRINTS.iter().find(|print| text.contains(**print)) {
            let message = format!("{print}..) in product code");
            found.push(Violation { rule: "print", key: path.clone(), line, message });
        }
    }
}

/// Whether a macro is called, and not one whose name ends in this one's.
fn is_called(text: &str, name: &str) -> bool {
    let is_part = |before: char| before.is_alphanumeric() || before == '_';
    text.match_indices(name).any(|(at, _)| !text[..at].chars().next_back().is_some_and(is_part))
}

/// The registration of commands is in their rows alone.
fn check_registration(source: &Source, found: &mut Vec<Violation>) {
    let path = &source.path;
    let is_engine = ["crates/commands/src/", "crates/engine/src/", "crates/server/src/"]
        .iter()
        .any(|folder| path.starts_with(folder));
    if !is_engine || !path.ends_with(".rs") {
        return;
    }
    for (line, text) in source.lines() {
        if let Some(comparison) = NAME_COMPARISONS.iter().find(|comparison| text.contains(**comparison)) {
            let message = format!("{comparison}: what is true of a command is said in its row");
            found.push(Violation { rule: "registration", key: path.clone(), line, message });
        }
    }
}

fn check_header(source: &Source, found: &mut Vec<Violation>) {
    if source.has_extension(&["rs"]) && !source.text.starts_with("//!") {
        let message = "a Rust file opens with a //! header that says what it is for".to_owned();
        found.push(Violation { rule: "header", key: source.path.clone(), line: 1, message });
    }
}

/// The crate's folder name in a path under `crates/`.
fn crate_of(path: &str) -> Option<&str> {
    path.strip_prefix("crates/")?.split('/').next()
}

fn check_unsafe(source: &Source, found: &mut Vec<Violation>) {
    let Some(name) = crate_of(&source.path) else { return };
    if !source.has_extension(&["rs"]) {
        return;
    }
    let is_root = source.path.ends_with("/src/lib.rs") || source.path.ends_with("/src/main.rs");
    if !UNSAFE_ALLOWED.contains(&name) {
        if is_root && !source.text.contains("#![forbid(unsafe_code)]") {
            let message = "a crate root here says #![forbid(unsafe_code)]".to_owned();
            found.push(Violation { rule: "unsafe", key: source.path.clone(), line: 1, message });
        }
        return;
    }
    let lines: Vec<&str> = source.text.lines().collect();
    for (index, line) in lines.iter().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        if !(code.contains("unsafe {") || code.contains("unsafe impl")) {
            continue;
        }
        let before = &lines[index.saturating_sub(SAFETY_LINES_BEFORE_MAX)..=index];
        if !before.iter().any(|earlier| earlier.contains("SAFETY:")) {
            let message = "unsafe without a SAFETY comment".to_owned();
            found.push(Violation { rule: "unsafe", key: source.path.clone(), line: index + 1, message });
        }
    }
}

fn check_layers(source: &Source, found: &mut Vec<Violation>) {
    let Some(name) = crate_of(&source.path).filter(|_| source.path.ends_with("/Cargo.toml")) else { return };
    let Some((_, allowed)) = LAYERS.iter().find(|(layer, _)| *layer == name) else {
        let message = format!("crate {name} is not in the table of layers");
        found.push(Violation { rule: "layers", key: source.path.clone(), line: 1, message });
        return;
    };
    let mut is_used = false;
    for (line, text) in source.lines() {
        if text.starts_with('[') {
            is_used = matches!(text.trim(), "[dependencies]" | "[build-dependencies]");
        }
        let used =
            text.strip_prefix("mantissa-").map(|rest| rest.split(['.', ' ', '=']).next().unwrap_or_default());
        if let Some(used) = used.filter(|used| is_used && !allowed.contains(used)) {
            let message = format!("{name} uses {used}, which is not below it");
            found.push(Violation { rule: "layers", key: source.path.clone(), line, message });
        }
    }
}

fn check_circles(sources: &[Source], found: &mut Vec<Violation>) {
    let text =
        fs::read_to_string(root().join("tests/tidy_circles.txt")).expect("the list of circles is there");
    let listed = circles::listed(&text);
    for (name, _) in LAYERS {
        let folder = format!("crates/{name}/src/");
        let file =
            |source: &'_ Source| Some((source.path.strip_prefix(&folder)?.to_owned(), source.text.clone()));
        let files: Vec<_> =
            sources.iter().filter_map(file).filter(|(path, _)| path.ends_with(".rs")).collect();
        let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let graph = circles::Graph::of_crate(&files);
        let none = BTreeSet::new();
        for message in circles::complaints(name, &graph, listed.get(name).unwrap_or(&none)) {
            found.push(Violation { rule: "circles", key: format!("crates/{name}"), line: 1, message });
        }
    }
}

/// The accepted breaks: lines of `RULE PATH[:FUNCTION] REASON`.
fn exceptions() -> Vec<(String, String)> {
    let text = fs::read_to_string(root().join("tests/tidy_exceptions.txt"))
        .expect("the list of exceptions is there");
    let mut list = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let mut words = line.splitn(3, ' ');
        let (rule, key, reason) = (words.next(), words.next(), words.next());
        assert!(reason.is_some_and(|reason| reason.len() > 10), "an exception needs its reason: {line}");
        list.push((rule.unwrap_or_default().to_owned(), key.unwrap_or_default().to_owned()));
    }
    list
}

#[test]
fn the_code_keeps_its_habits() {
    let sources = sources();
    assert!(sources.len() > 20, "the project was not found");
    let mut found = Vec::new();
    for source in &sources {
        check_lengths(source, &mut found);
        check_functions(source, &mut found);
        check_notes(source, &mut found);
        check_prints(source, &mut found);
        check_registration(source, &mut found);
        check_header(source, &mut found);
        check_unsafe(source, &mut found);
        check_layers(source, &mut found);
    }
    check_circles(&sources, &mut found);
    let exceptions = exceptions();
    let mut used = BTreeSet::new();
    let mut report = String::new();
    for violation in &found {
        let accepted =
            exceptions.iter().position(|(rule, key)| rule == violation.rule && *key == violation.key);
        if let Some(index) = accepted {
            used.insert(index);
            continue;
        }
        let path = violation.key.split(':').next().unwrap_or_default();
        writeln!(report, "{path}:{}: {}: {}", violation.line, violation.rule, violation.message)
            .expect("memory");
    }
    for (index, (rule, key)) in exceptions.iter().enumerate() {
        if !used.contains(&index) {
            writeln!(report, "tests/tidy_exceptions.txt: {rule} {key} is not needed any more")
                .expect("memory");
        }
    }
    assert!(report.is_empty(), "\n{report}");
}

#[test]
fn names_of_functions_are_found() {
    assert_eq!(function_name("fn plain() {"), Some("plain"));
    assert_eq!(function_name("    pub(crate) const unsafe fn many<T>() {"), Some("many"));
    assert_eq!(function_name("pub(in crate::a) fn inside("), Some("inside"));
    assert_eq!(function_name("    /// fn comment() {"), None);
    assert_eq!(function_name("let f = call(fn_name);"), None);
}

#[test]
fn a_long_function_and_a_stray_print_are_noticed() {
    let body = "    work();\n".repeat(FUNCTION_LINES_MAX);
    let text = format!(
        "//! Header.\nfn long(\n    a: u8,\n) {{\n{body}}}\n\nfn short() {{\n    {}1);\n}}\n",
        PRINTS[0]
    );
    let source = Source { path: "crates/store/src/a.rs".to_owned(), text };
    let mut found = Vec::new();
    check_functions(&source, &mut found);
    check_prints(&source, &mut found);
    let rules: Vec<_> = found.iter().map(|violation| (violation.rule, violation.key.as_str())).collect();
    assert_eq!(
        rules,
        [("function-length", "crates/store/src/a.rs:long"), ("print", "crates/store/src/a.rs")]
    );
    found.clear();
    let text = format!("//! Header.\n{}1);\n    e{}2);\n", PRINTS[1], PRINTS[1]);
    check_prints(&Source { path: "crates/cli/src/a.rs".to_owned(), text }, &mut found);
    assert_eq!(found.iter().map(|violation| violation.line).collect::<Vec<_>>(), [2]);
}
