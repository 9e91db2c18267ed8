//! Files that appear when they are whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::output::Output;
use crate::unfinished::Unfinished;

const BUFFER_BYTES: usize = 1 << 20;

/// Has `write` write a file, or standard output for `-`. After an error, Ctrl-C or SIGTERM nothing of it is
/// left, and a file that was there before stays. A pipe or a device is written to, and so is what a symbolic
/// link names.
pub(crate) fn write<T>(
    path: &Path,
    write: impl FnOnce(&mut (dyn Write + Send)) -> io::Result<T>,
) -> io::Result<T> {
    if path == Path::new("-") {
        return write_through(Output, write);
    }
    let real = fs::canonicalize(path);
    let path = real.as_deref().unwrap_or(path);
    if fs::metadata(path).is_ok_and(|known| !known.is_file()) {
        let file = OpenOptions::new().write(true).open(path).map_err(|error| named(path, error))?;
        return write_through(file, write);
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(".part");
    let beside = Path::new(&beside);
    let (_unfinished, file) =
        Unfinished::make(beside, || File::create(beside)).map_err(|error| named(beside, error))?;
    let written = (|| {
        let written = write_through(&file, write)?;
        file.sync_all()?;
        fs::rename(beside, path).map_err(|error| named(path, error))?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(written)
    })();
    written.map_err(|error: io::Error| {
        // The error that matters is the one that led here.
        let _ = fs::remove_file(beside);
        if error.kind() == io::ErrorKind::StorageFull { named(beside, error) } else { error }
    })
}

/// Has `write` write in large pieces.
fn write_through<T>(
    out: impl Write + Send,
    write: impl FnOnce(&mut (dyn Write + Send)) -> io::Result<T>,
) -> io::Result<T> {
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, out);
    let written = write(&mut out)?;
    out.flush()?;
    Ok(written)
}

/// The same error with the path before it.
pub(crate) fn named(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
