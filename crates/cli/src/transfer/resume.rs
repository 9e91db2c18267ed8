//! How far the copy of a server has come, in a file: the source, the run of the server (whose cursors mean
//! nothing to another run), a database and a cursor.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::target::{Target, ask};

/// A database and a cursor.
pub(crate) type Mark = (u32, Vec<u8>);

/// How often the file is written, at most.
const WRITE_INTERVAL: Duration = Duration::from_millis(500);

/// The file.
pub(crate) struct Bookmark {
    path: PathBuf,
    source: String,
    run: String,
    mark: Option<Mark>,
    written: Option<Instant>,
}

impl Bookmark {
    /// Reads the file, if there is one; it must be about this source.
    pub(crate) fn open(path: &Path, source: &str, target: &Target) -> io::Result<Bookmark> {
        let info = ask(&mut target.open()?, &["INFO", "server"])?;
        let text = String::from_utf8_lossy(info.as_bytes().unwrap_or_default()).into_owned();
        let run = text.lines().find_map(|line| line.strip_prefix("run_id:")).unwrap_or_default().to_owned();
        let mut bookmark =
            Bookmark { path: path.to_owned(), source: source.to_owned(), run, mark: None, written: None };
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(bookmark),
            text => text?,
        };
        let mut lines = text.lines();
        let (source_then, run_then) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
        if source_then != source {
            let text = format!("{} is about a copy of {source_then}", path.display());
            return Err(io::Error::other(text));
        }
        if run_then != bookmark.run {
            eprintln!("The source has been restarted since: the copy begins anew.");
            return Ok(bookmark);
        }
        bookmark.mark = lines.next().and_then(|line| {
            let (database, cursor) = line.split_once(' ')?;
            Some((database.parse().ok()?, cursor.as_bytes().to_vec()))
        });
        Ok(bookmark)
    }

    /// Where to go on.
    pub(crate) fn mark(&self) -> Option<Mark> {
        self.mark.clone()
    }

    /// Remembers where to go on, now and then in the file.
    pub(crate) fn put(&mut self, mark: &Mark) -> io::Result<()> {
        self.mark = Some(mark.clone());
        if self.written.is_some_and(|written| written.elapsed() < WRITE_INTERVAL) {
            return Ok(());
        }
        self.written = Some(Instant::now());
        self.write()
    }

    fn write(&self) -> io::Result<()> {
        let Some((database, cursor)) = &self.mark else { return Ok(()) };
        let (source, run) = (&self.source, &self.run);
        let text = format!("{source}\n{run}\n{database} {}\n", String::from_utf8_lossy(cursor));
        let beside = self.path.with_extension("part");
        fs::write(&beside, text)?;
        fs::rename(beside, &self.path)
    }

    /// Removes the file, as nothing is left to do.
    pub(crate) fn remove(mut self) -> io::Result<()> {
        self.mark = None;
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

impl Drop for Bookmark {
    fn drop(&mut self) {
        // What is lost if this fails is half a second of work.
        let _ = self.write();
    }
}
