//! Saving a server's data to a file: the program asks for a full copy as a replica would, keeps the dump, and
//! hangs up; or it drops the dump, and shows the commands that follow. A server that has no replicas is asked
//! for its keys one by one. What is said on the way is written to standard error.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use crate::connection::Connection;
use crate::format;
use crate::session::Session;
use crate::target::Target;
use crate::transfer;

/// How many bytes end a dump whose size is not known beforehand; they are announced before it.
const END_MARK_SIZE: usize = 40;
const BUFFER_SIZE: usize = 64 * 1024;

/// Saves a dump, of the functions only if so.
pub(crate) fn run(session: &mut Session, path: &Path, functions_only: bool) -> io::Result<bool> {
    let version = version_for(session.connection()?)?;
    let filter = functions_only.then_some(("rdb-filter-only", "functions"));
    for (name, value) in [("capa", "eof"), ("rdb-only", "1")].into_iter().chain(version).chain(filter) {
        eprintln!("sending REPLCONF {name} {value}");
        if let Err(error) = session.expect(&["REPLCONF", name, value])
            && functions_only
        {
            return Err(error);
        }
    }
    let login = session.shared_login();
    let connection = session.connection()?;
    connection.send(&["SYNC"])?;
    let mut source = connection.raw_reader();
    let extent = match Extent::announced(&mut source) {
        Err(error) if error.kind() == io::ErrorKind::Other && !functions_only => {
            eprintln!("SYNC was refused ({error}): the keys are read one by one, as `mantissa export` does");
            transfer::save(&login.borrow(), path)?;
            eprintln!("Transfer finished with success");
            return Ok(true);
        }
        extent => extent?,
    };
    let to_output = path == Path::new("-");
    let mut file: Box<dyn Write> =
        if to_output { Box::new(io::stdout().lock()) } else { Box::new(File::create(path)?) };
    eprintln!("SYNC sent to master, writing {} to '{}'", extent.shown("bytes"), path.display());
    let written = extent.copy(&mut source, &mut file)?;
    file.flush()?;
    drop(file);
    if !to_output {
        File::open(path)?.sync_all()?;
    }
    eprintln!("Transfer finished with success after {written} bytes");
    Ok(true)
}

/// Drops the dump and prints the commands that follow it, a line each, until the server hangs up.
pub(crate) fn follow(session: &mut Session) -> io::Result<bool> {
    eprintln!("sending REPLCONF capa eof");
    // A server that does not know it sends the size of the dump.
    let version = version_for(session.connection()?)?;
    for (name, value) in [("capa", "eof")].into_iter().chain(version) {
        let _an_error_reply_changes_nothing = session.expect(&["REPLCONF", name, value]);
    }
    let connection = session.connection()?;
    connection.send(&["SYNC"])?;
    let mut source = connection.raw_reader();
    let extent = Extent::announced(&mut source)?;
    eprintln!("SYNC with master, discarding {}...", extent.shown("bytes of bulk transfer"));
    let size = extent.copy(&mut source, &mut io::sink())?;
    drop(source);
    eprintln!("SYNC done after {size} bytes. Logging commands from master.");
    // After a dump without a size commands follow once this has come.
    connection.send(&["REPLCONF", "ACK", "0"])?;
    loop {
        let mut line = format::csv(&connection.receive()?);
        line.push(b'\n');
        let mut out = io::stdout().lock();
        out.write_all(&line)?;
        out.flush()?;
    }
}

/// Writes a dump of all that a server holds, of one instant if the server has replicas.
pub(crate) fn receive(target: &Target, out: &mut dyn Write) -> io::Result<()> {
    let mut connection = Target { database: 0, ..target.clone() }.open()?;
    let version = version_for(&mut connection)?;
    for (name, value) in [("capa", "eof"), ("rdb-only", "1")].into_iter().chain(version) {
        // A server that does not know them is asked all the same.
        connection.ask(&["REPLCONF", name, value])?;
    }
    connection.send(&["SYNC"])?;
    let mut source = connection.raw_reader();
    match Extent::announced(&mut source) {
        Err(error) if error.kind() == io::ErrorKind::Other => {
            eprintln!("SYNC was refused ({error}): the keys are read one by one, as `mantissa export` does");
            transfer::write_dump(target, out)?;
        }
        extent => {
            extent?.copy(&mut source, out)?;
        }
    }
    out.flush()
}

/// What tells Valkey that its version 9 is understood: it sends fields that expire to nobody else. `None` for
/// other servers.
fn version_for(connection: &mut Connection) -> io::Result<Option<(&'static str, &'static str)>> {
    let info = connection.ask(&["INFO", "server"])?;
    let name = b"valkey_version:";
    let is_valkey = info.as_bytes().is_some_and(|text| text.windows(name.len()).any(|part| part == name));
    Ok(is_valkey.then_some(("version", "9.0.0")))
}

/// How far a dump goes that is being received.
enum Extent {
    /// So many bytes.
    Size(u64),
    /// Up to these bytes.
    Mark(Vec<u8>),
}

impl Extent {
    fn announced(source: &mut impl Read) -> io::Result<Extent> {
        let header = read_header(source)?;
        if let Some(mark) = header.strip_prefix("EOF:") {
            return Ok(Extent::Mark(mark.as_bytes().to_vec()));
        }
        header.parse().map(Extent::Size).map_err(|_| {
            io::Error::new(io::ErrorKind::InvalidData, format!("'{header}' is not the size of a dump"))
        })
    }

    /// How much it is, with a name for bytes that are counted.
    fn shown(&self, bytes: &str) -> String {
        match self {
            Extent::Size(size) => format!("{size} {bytes}"),
            Extent::Mark(_) => "bytes of bulk transfer until EOF marker".to_owned(),
        }
    }

    /// Copies the dump; how many bytes it has.
    fn copy(&self, source: &mut impl Read, out: &mut dyn Write) -> io::Result<u64> {
        let size = match self {
            Extent::Size(size) => *size,
            Extent::Mark(mark) => return copy_until(source, mark, out),
        };
        let written = io::copy(&mut source.take(size), out)?;
        if written < size {
            let text = "the connection ended before the dump did";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
        }
        Ok(written)
    }
}

/// The line that announces the dump, without `$`. Empty lines before it keep the connection alive.
fn read_header(source: &mut impl Read) -> io::Result<String> {
    let mut line = Vec::new();
    let mut byte = [0];
    loop {
        source.read_exact(&mut byte)?;
        match byte[0] {
            b'\n' if line.is_empty() => {}
            b'\n' => break,
            b'\r' => {}
            other if line.len() < 512 => line.push(other),
            _ => return Err(io::Error::new(io::ErrorKind::InvalidData, "the dump is not announced")),
        }
    }
    let line = String::from_utf8_lossy(&line).into_owned();
    match line.strip_prefix('$') {
        Some(header) => Ok(header.to_owned()),
        None => Err(io::Error::other(line.trim_start_matches('-').to_owned())),
    }
}

/// Copies until the mark that ends a dump; how many bytes came before it.
fn copy_until(source: &mut impl Read, mark: &[u8], file: &mut dyn Write) -> io::Result<u64> {
    let (mut pending, mut written) = (Vec::new(), 0);
    let mut buffer = vec![0; BUFFER_SIZE];
    debug_assert_eq!(mark.len(), END_MARK_SIZE);
    loop {
        let size = source.read(&mut buffer)?;
        if size == 0 {
            let text = "the connection ended before the dump did";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
        }
        pending.extend_from_slice(&buffer[..size]);
        let ended = pending.ends_with(mark);
        let keep = pending.len().min(mark.len());
        let rest = pending.split_off(pending.len() - keep);
        file.write_all(&pending)?;
        written += pending.len() as u64;
        if ended {
            return Ok(written);
        }
        pending = rest;
    }
}
