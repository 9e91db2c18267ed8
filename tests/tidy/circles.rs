//! Circles among the modules of a crate: modules that import each other, directly or through others.
//!
//! A node is a top-level module (`src/x.rs`, `src/x/`) or the root itself, called `crate`. What the root
//! re-exports belongs to the module that it comes from. `tidy_circles.txt` lists the circles that are left.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::imports::{self, FileImports, Import};

/// The node of what `lib.rs` or `main.rs` defines.
const ROOT: &str = "crate";

struct File<'a> {
    path: &'a str,
    /// The module that it is, from the root of its crate.
    module: Vec<&'a str>,
    found: FileImports,
}

/// Which module imports which, each with a place where it does so.
#[derive(Debug, Default)]
pub struct Graph {
    edges: BTreeMap<String, BTreeMap<String, String>>,
}

impl Graph {
    /// The graph of a crate. `files` are paths below its `src/`, with their texts.
    pub fn of_crate(files: &[(&str, &str)]) -> Graph {
        let top_level: BTreeSet<String> = files
            .iter()
            .filter_map(|(path, _)| module_of(path).first().map(|name| (*name).to_owned()))
            .collect();
        let top_level: Vec<String> = top_level.into_iter().collect();
        let read = |&(path, text)| {
            let module = module_of(path);
            let found = imports::read(text, &module, &top_level);
            File { path, module, found }
        };
        let files: Vec<File<'_>> = files.iter().map(read).collect();
        let tests: Vec<&Vec<String>> = files.iter().flat_map(|file| &file.found.test_modules).collect();
        let is_test = |module: &[&str]| tests.iter().any(|test| starts_with(module, test));
        let owners = owners(&files, &top_level);
        let mut graph = Graph::default();
        for file in files.iter().filter(|file| !is_test(&file.module)) {
            let from = file.module.first().copied().unwrap_or(ROOT);
            for import in &file.found.imports {
                // A re-export is no use of its own: who imports the name is counted.
                if from == ROOT && import.exported_as.is_some() {
                    continue;
                }
                let to = owners.get(import.path[0].as_str()).copied().unwrap_or(ROOT);
                if to != from && !is_test(&[to]) {
                    graph.add(from, to, format!("{}:{}", file.path, import.line));
                }
            }
        }
        graph
    }

    fn add(&mut self, from: &str, to: &str, place: String) {
        self.edges.entry(from.to_owned()).or_default().entry(to.to_owned()).or_insert(place);
    }

    /// The modules that can be reached from one.
    fn reachable<'a>(&'a self, from: &'a str) -> BTreeSet<&'a str> {
        let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(module) = open.pop() {
            let next = self.edges.get(module).into_iter().flat_map(|edges| edges.keys());
            open.extend(next.map(String::as_str).filter(|next| reached.insert(*next)));
        }
        reached
    }

    /// The strongly connected components of more than one module.
    pub fn circles(&self) -> BTreeSet<BTreeSet<String>> {
        let reached: BTreeMap<&str, BTreeSet<&str>> =
            self.edges.keys().map(|from| (from.as_str(), self.reachable(from))).collect();
        let circle = |(from, to): (&&str, &BTreeSet<&str>)| -> BTreeSet<String> {
            let back = |module: &&&str| reached.get(**module).is_some_and(|back| back.contains(from));
            to.iter().filter(back).map(|module| (*module).to_owned()).collect()
        };
        reached.iter().map(circle).filter(|circle| circle.len() > 1).collect()
    }

    /// The imports inside a circle, one for each pair of modules.
    pub fn imports_within(&self, circle: &BTreeSet<String>) -> String {
        let mut text = String::new();
        for (from, edges) in self.edges.iter().filter(|(from, _)| circle.contains(*from)) {
            for (to, place) in edges.iter().filter(|(to, _)| circle.contains(*to)) {
                writeln!(text, "    {from} imports {to}: {place}").expect("memory");
            }
        }
        text
    }
}

/// The module that a file is, from the root of its crate.
fn module_of(path: &str) -> Vec<&str> {
    let mut segments: Vec<&str> = path.trim_end_matches(".rs").split('/').collect();
    let is_folder = segments.last().is_some_and(|last| *last == "mod");
    if is_folder || segments == ["lib"] || segments == ["main"] {
        segments.pop();
    }
    segments
}

fn starts_with(module: &[&str], test: &[String]) -> bool {
    module.len() >= test.len() && module.iter().zip(test).all(|(segment, test)| segment == test)
}

/// The node behind each first segment of a path: modules, what the root re-exports, and macros.
fn owners<'a>(files: &'a [File<'_>], top_level: &'a [String]) -> BTreeMap<&'a str, &'a str> {
    let mut owners = BTreeMap::new();
    for File { module, found, .. } in files {
        // An exported macro is named from the root, wherever it stands.
        if let Some(module) = module.first() {
            owners.extend(found.macros.iter().map(|name| (name.as_str(), *module)));
        }
    }
    for File { found, .. } in files.iter().filter(|file| file.module.is_empty()) {
        let exported =
            |import: &'a Import| Some((import.exported_as.as_deref()?, import.path.first()?.as_str()));
        owners.extend(found.imports.iter().filter_map(exported));
    }
    owners.extend(top_level.iter().map(|module| (module.as_str(), module.as_str())));
    owners
}

/// The listed circles: lines of `CRATE: module module ...`.
pub fn listed(text: &str) -> BTreeMap<String, BTreeSet<BTreeSet<String>>> {
    let mut listed: BTreeMap<String, BTreeSet<BTreeSet<String>>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (name, modules) = line.split_once(": ").expect("a line reads CRATE: module module ...");
        let circle = modules.split_whitespace().map(str::to_owned).collect();
        listed.entry(name.to_owned()).or_default().insert(circle);
    }
    listed
}

/// What is wrong with the circles of a crate, if anything: one message for each circle.
pub fn complaints(name: &str, graph: &Graph, listed: &BTreeSet<BTreeSet<String>>) -> Vec<String> {
    let circles = graph.circles();
    let line = |circle: &BTreeSet<String>| {
        circle.iter().fold(format!("{name}:"), |line, module| line + " " + module)
    };
    let mut complaints = Vec::new();
    for circle in &circles {
        if !listed.iter().any(|listed| circle.is_subset(listed)) {
            let imports = graph.imports_within(circle);
            complaints.push(format!("modules import each other in a circle\n  {}\n{imports}", line(circle)));
        }
    }
    for stale in listed.difference(&circles) {
        let left: Vec<_> = circles.iter().filter(|circle| circle.is_subset(stale)).map(line).collect();
        let left = if left.is_empty() { "nothing".to_owned() } else { left.join("\n  ") };
        complaints
            .push(format!("tests/tidy_circles.txt lists\n  {}\nof which is left\n  {left}", line(stale)));
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circles(files: &[(&str, &str)]) -> Vec<String> {
        let join = |circle: BTreeSet<String>| circle.into_iter().collect::<Vec<_>>().join(" ");
        Graph::of_crate(files).circles().into_iter().map(join).collect()
    }

    #[test]
    fn files_are_modules() {
        assert_eq!(module_of("lib.rs"), Vec::<&str>::new());
        assert_eq!(module_of("a.rs"), ["a"]);
        assert_eq!(module_of("a/mod.rs"), ["a"]);
        assert_eq!(module_of("a/lib.rs"), ["a", "lib"]);
    }

    #[test]
    fn a_circle_goes_through_several_files() {
        let root = ("lib.rs", "mod a; mod b; mod c; mod d;");
        let a = ("a.rs", "use crate::b;");
        let b = ("b/mod.rs", "mod x; use crate::d::D;");
        let x = ("b/x.rs", "use super::super::c::C;");
        let c = ("c.rs", "fn f() { crate::a::g() }");
        let d = ("d.rs", "struct D;");
        assert_eq!(circles(&[root, a, b, x, c, d]), ["a b c"]);
        assert!(circles(&[root, a, b, c, d]).is_empty());
    }

    #[test]
    fn two_circles_are_told_apart() {
        let files = [
            ("main.rs", "mod a; mod b; mod c; mod d;"),
            ("a.rs", "use crate::b::B;"),
            ("b.rs", "use crate::{a::A, c::C};"),
            ("c.rs", "use crate::d::D;"),
            ("d.rs", "use crate::c::C;"),
        ];
        assert_eq!(circles(&files), ["a b", "c d"]);
    }

    #[test]
    fn a_name_of_the_root_belongs_to_its_module() {
        let root = ("lib.rs", "mod a; mod b; pub use a::A; pub use b::B as Renamed;");
        assert_eq!(circles(&[root, ("a.rs", "use crate::Renamed;"), ("b.rs", "use super::A;")]), ["a b"]);
        assert!(circles(&[root, ("a.rs", ""), ("b.rs", "use crate::A;")]).is_empty());
        let macros = ("a.rs", "macro_rules! row { () => { $crate::b::f() } }");
        assert_eq!(circles(&[root, macros, ("b.rs", "crate::row!();")]), ["a b"]);
    }

    #[test]
    fn the_root_is_part_of_a_circle() {
        let root = ("lib.rs", "mod a; pub type Row = u8; pub const ALL: &[Row] = a::ROWS;");
        assert_eq!(circles(&[root, ("a.rs", "pub const ROWS: &[crate::Row] = &[];")]), ["a crate"]);
        let root = ("lib.rs", "mod a; pub type Row = u8; pub use a::ROWS;");
        assert!(circles(&[root, ("a.rs", "pub const ROWS: &[crate::Row] = &[];")]).is_empty());
    }

    #[test]
    fn tests_make_no_circle() {
        let root = ("lib.rs", "mod a; mod b; #[cfg(test)] mod testing;");
        let a = ("a.rs", "#[cfg(test)] mod tests; use crate::b::B;");
        let tests = ("a/tests.rs", "use crate::a::A;");
        let b = ("b.rs", "#[cfg(test)] mod tests { use crate::a::A; } #[cfg(test)] use crate::testing::T;");
        let testing = ("testing.rs", "use crate::{a, b};");
        assert!(circles(&[root, a, tests, b, testing]).is_empty());
    }

    #[test]
    fn new_and_stale_circles_are_told() {
        let files = [("lib.rs", ""), ("a.rs", "use crate::b::B;"), ("b.rs", "\nuse crate::a::A;")];
        let graph = Graph::of_crate(&files);
        let complain =
            |text: &str| complaints("net", &graph, listed(text).get("net").unwrap_or(&BTreeSet::new()));
        assert!(complain("# A note.\n\nnet: a b\nstore: x y\n").is_empty());
        let new = complain("net: a c\n");
        assert_eq!(new.len(), 2);
        assert!(new[0].contains("net: a b\n    a imports b: a.rs:1\n    b imports a: b.rs:2"), "{}", new[0]);
        assert!(new[1].contains("net: a c\nof which is left\n  nothing"), "{}", new[1]);
        let larger = complain("net: a b c\n");
        assert_eq!(larger, ["tests/tidy_circles.txt lists\n  net: a b c\nof which is left\n  net: a b"]);
    }
}
