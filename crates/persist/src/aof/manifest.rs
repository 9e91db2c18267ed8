//! The manifest: which files an append-only file consists of, in which order.
//!
//! ```text
//! file appendonly.aof.2.base.rdb seq 2 type b
//! file appendonly.aof.4.incr.aof seq 4 type i startoffset 0 endoffset 731
//! file appendonly.aof.5.incr.aof seq 5 type i startoffset 731
//! ```
//!
//! There is at most one base (`b`); increments (`i`) have rising numbers; files of the past (`h`) are not
//! read and may be removed. Names are quoted where they need it. Unknown words are skipped, as Redis does, so
//! that a manifest of a later version can be read. The manifest is replaced as a whole: what a crash leaves
//! is the old one or the new one.

use crate::storage::Storage;
use mantissa_number::parse_i64;
use mantissa_protocol::{put_quoted, split_quoted};
use mantissa_sys::simulation::{self, Fault};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// The longest line, with its end.
const LINE_BYTES_MAX: usize = 1024;
/// The longest manifest that is read: some 100,000 increments.
const MANIFEST_BYTES_MAX: u64 = 16 << 20;

/// One of the files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AofFile {
    /// Its name within the directory.
    pub name: OsString,
    /// Its sequence number among the files of its type.
    pub sequence: i64,
    /// The replication offset at its first byte.
    pub start_offset: Option<i64>,
    /// The replication offset at its end.
    pub end_offset: Option<i64>,
}

/// The files that together hold the data: base, incremental and history.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Manifest {
    /// The base, which is loaded first.
    pub base: Option<AofFile>,
    /// The increments, which are loaded next, in this order. The last is appended to.
    pub increments: Vec<AofFile>,
    /// The history: files that are not needed any more.
    pub history: Vec<AofFile>,
    /// The number of the last base.
    base_sequence: i64,
    /// The number of the last increment.
    increment_sequence: i64,
}

/// Why a manifest was not read, in Redis's words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ManifestError {
    /// The number (from 1) and text of the line that has the error, if one has.
    pub line: Option<(usize, Vec<u8>)>,
    /// What is wrong.
    pub reason: &'static str,
}

impl fmt::Display for ManifestError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.line {
            Some((number, line)) => {
                write!(formatter, "{} in line {number}: '{}'", self.reason, line.escape_ascii())
            }
            None => formatter.write_str(self.reason),
        }
    }
}

impl std::error::Error for ManifestError {}

/// The name of the manifest of the append-only file of this name.
pub fn manifest_name(aof_name: &OsStr) -> OsString {
    joined(&[aof_name.as_bytes(), b".manifest"])
}

/// The name that a manifest has while it is written.
pub fn temporary_manifest_name(aof_name: &OsStr) -> OsString {
    joined(&[b"temp-", aof_name.as_bytes(), b".manifest"])
}

/// The name of a base: an RDB file or commands.
pub fn base_name(aof_name: &OsStr, sequence: i64, is_rdb: bool) -> OsString {
    let suffix = if is_rdb { &b".base.rdb"[..] } else { b".base.aof" };
    joined(&[aof_name.as_bytes(), b".", sequence.to_string().as_bytes(), suffix])
}

/// The name of an increment.
pub fn increment_name(aof_name: &OsStr, sequence: i64) -> OsString {
    joined(&[aof_name.as_bytes(), b".", sequence.to_string().as_bytes(), b".incr.aof"])
}

impl Manifest {
    /// A manifest whose only file is an append-only file as Redis wrote them before version 7.
    pub fn of_old_file(name: OsString) -> Self {
        let base = AofFile { name, sequence: 1, start_offset: None, end_offset: None };
        Manifest { base: Some(base), base_sequence: 1, ..Manifest::default() }
    }

    /// A manifest of these files.
    pub fn of(base: AofFile, increments: Vec<AofFile>) -> Self {
        let increment_sequence = increments.last().map_or(0, |last| last.sequence);
        let base_sequence = base.sequence;
        Manifest { base: Some(base), increments, base_sequence, increment_sequence, ..Manifest::default() }
    }

    /// Reads a manifest.
    pub fn parse(text: &[u8]) -> Result<Self, ManifestError> {
        if text.is_empty() {
            return Err(ManifestError { line: None, reason: "Found an empty AOF manifest" });
        }
        let mut manifest = Manifest::default();
        let mut rest = text;
        let mut number = 0;
        while !rest.is_empty() {
            number += 1;
            let scope = &rest[..rest.len().min(LINE_BYTES_MAX)];
            let end = scope.iter().position(|&byte| byte == b'\n').map(|at| at + 1);
            let (line, following) = rest.split_at(end.unwrap_or(scope.len()));
            rest = following;
            if line.starts_with(b"#") {
                continue;
            }
            if end.is_none() || line.contains(&0) {
                let reason = "The AOF manifest file contains too long line";
                return Err(ManifestError { line: None, reason });
            }
            let line = trimmed(line);
            manifest
                .add_line(line)
                .map_err(|reason| ManifestError { line: Some((number, line.to_vec())), reason })?;
        }
        Ok(manifest)
    }

    fn add_line(&mut self, line: &[u8]) -> Result<(), &'static str> {
        const INVALID: &str = "Invalid AOF manifest file format";
        let words = split_quoted(line).map_err(|_| INVALID)?;
        if words.len() < 6 || !words.len().is_multiple_of(2) {
            return Err(INVALID);
        }
        let (mut name, mut kind) = (None, None);
        let (mut sequence, mut start_offset, mut end_offset) = (0, None, None);
        for pair in words.chunks_exact(2) {
            let [field, value] = pair else { continue };
            match field.to_ascii_lowercase().as_slice() {
                b"file" if value.iter().any(|byte| matches!(byte, b'/' | b'\\')) => {
                    return Err("File can't be a path, just a filename");
                }
                b"file" => name = Some(OsString::from_vec(value.clone())),
                b"seq" => sequence = leading_integer(value),
                b"type" => kind = value.first().copied(),
                b"startoffset" => start_offset = Some(leading_integer(value)),
                b"endoffset" => end_offset = Some(leading_integer(value)),
                _ => {}
            }
        }
        let (Some(name), Some(kind)) = (name, kind) else { return Err(INVALID) };
        if sequence == 0 {
            return Err(INVALID);
        }
        let file = AofFile { name, sequence, start_offset, end_offset };
        match kind {
            b'b' if self.base.is_some() => return Err("Found duplicate base file information"),
            b'b' => {
                self.base_sequence = sequence;
                self.base = Some(file);
            }
            b'h' => self.history.push(file),
            b'i' if sequence <= self.increments.last().map_or(0, |last| last.sequence) => {
                return Err("Found a non-monotonic sequence number");
            }
            b'i' => {
                self.increment_sequence = sequence;
                self.increments.push(file);
            }
            _ => return Err("Unknown AOF file type"),
        }
        Ok(())
    }

    /// The manifest as text.
    pub fn to_text(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let base = self.base.iter().map(|file| (file, 'b'));
        let history = self.history.iter().map(|file| (file, 'h'));
        let increments = self.increments.iter().map(|file| (file, 'i'));
        for (file, kind) in base.chain(history).chain(increments) {
            out.extend_from_slice(b"file ");
            put_name(file.name.as_bytes(), &mut out);
            out.extend_from_slice(format!(" seq {} type {kind}", file.sequence).as_bytes());
            if let Some(offset) = file.start_offset {
                out.extend_from_slice(format!(" startoffset {offset}").as_bytes());
            }
            if let Some(offset) = file.end_offset {
                out.extend_from_slice(format!(" endoffset {offset}").as_bytes());
            }
            out.push(b'\n');
        }
        out
    }

    /// Reads the manifest of the append-only file `aof_name` in `directory`. `None`: there is none. A
    /// manifest that is damaged is an error of kind `InvalidData` that holds a [`ManifestError`].
    pub fn load(storage: &dyn Storage, directory: &Path, aof_name: &OsStr) -> io::Result<Option<Self>> {
        let path = directory.join(manifest_name(aof_name));
        match storage.read_file(&path, MANIFEST_BYTES_MAX) {
            Ok(text) => Self::parse(&text)
                .map(Some)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes this the manifest of the append-only file `aof_name` in `directory`: written under another
    /// name, made durable, renamed. After an error the manifest is what it was before; or this one, where the
    /// disk neither makes the name durable nor lets the former be put back.
    pub fn store(&self, storage: &dyn Storage, directory: &Path, aof_name: &OsStr) -> io::Result<()> {
        let path = directory.join(manifest_name(aof_name));
        let before = match storage.read_file(&path, MANIFEST_BYTES_MAX) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        put(storage, directory, aof_name, &self.to_text())?;
        if simulation::has_fault(Fault::UnsyncedManifest) {
            return Ok(());
        }
        let outcome = storage.sync_directory(directory);
        if outcome.is_err() {
            // The error that matters is the one that led here.
            let _ = match before {
                Some(text) => put(storage, directory, aof_name, &text),
                None => storage.remove(&path),
            };
        }
        outcome
    }

    /// The files that are loaded, in their order.
    pub fn files(&self) -> impl Iterator<Item = &AofFile> {
        self.base.iter().chain(&self.increments)
    }

    /// Adds a base with the next number and returns its name. The one before becomes history.
    pub fn next_base(&mut self, aof_name: &OsStr, is_rdb: bool) -> OsString {
        self.base_sequence += 1;
        let name = base_name(aof_name, self.base_sequence, is_rdb);
        let base = AofFile {
            name: name.clone(),
            sequence: self.base_sequence,
            start_offset: None,
            end_offset: None,
        };
        if let Some(old) = self.base.replace(base) {
            self.history.insert(0, old);
        }
        name
    }

    /// Adds an increment with the next number and returns its name.
    pub fn next_increment(&mut self, aof_name: &OsStr, start_offset: Option<i64>) -> OsString {
        self.increment_sequence += 1;
        let name = increment_name(aof_name, self.increment_sequence);
        let sequence = self.increment_sequence;
        self.increments.push(AofFile { name: name.clone(), sequence, start_offset, end_offset: None });
        name
    }

    /// Moves all increments but the last `kept` to the history: a new base replaces them.
    pub fn retire_increments(&mut self, kept: usize) {
        let count = self.increments.len().saturating_sub(kept);
        self.history.splice(0..0, self.increments.drain(..count));
    }
}

/// Without white space at its ends, as Redis counts it here.
fn trimmed(line: &[u8]) -> &[u8] {
    let is_text = |byte: &u8| !matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    match (line.iter().position(is_text), line.iter().rposition(is_text)) {
        (Some(first), Some(last)) => &line[first..=last],
        _ => &[],
    }
}

/// The integer that a text begins with, as C reads one: 0 if there is none, the nearest if it is too large.
fn leading_integer(text: &[u8]) -> i64 {
    let start = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t'..=b'\r')).count();
    let text = &text[start..];
    let is_negative = text.first() == Some(&b'-');
    let sign = usize::from(matches!(text.first(), Some(b'-' | b'+')));
    let digits: Vec<u8> = text[sign..].iter().copied().take_while(u8::is_ascii_digit).collect();
    let zeros = digits.iter().take_while(|&&digit| digit == b'0').count();
    match &digits[zeros..] {
        [] => 0,
        digits => {
            let signed = if is_negative { [b"-", digits].concat() } else { digits.to_vec() };
            parse_i64(&signed).unwrap_or(if is_negative { i64::MIN } else { i64::MAX })
        }
    }
}

fn joined(parts: &[&[u8]]) -> OsString {
    OsString::from_vec(parts.concat())
}

/// Appends a name, quoted if it needs that.
fn put_name(name: &[u8], out: &mut Vec<u8>) {
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\' | b'\'');
    if !name.is_empty() && name.iter().all(is_plain) {
        out.extend_from_slice(name);
        return;
    }
    put_quoted(out, name);
}

/// Writes a manifest under another name, makes it durable, and renames it.
fn put(storage: &dyn Storage, directory: &Path, aof_name: &OsStr, text: &[u8]) -> io::Result<()> {
    let temporary = directory.join(temporary_manifest_name(aof_name));
    let outcome = storage.create(&temporary).and_then(|mut file| {
        file.write_all(text)?;
        file.sync()
    });
    let outcome = outcome.and_then(|()| storage.rename(&temporary, &directory.join(manifest_name(aof_name))));
    if outcome.is_err() {
        // The error that matters is the one that led here.
        let _ = storage.remove(&temporary);
    }
    outcome
}
