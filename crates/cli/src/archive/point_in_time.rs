//! The state of a point in time: a snapshot, and the commands of the log that follow it, as an append-only
//! file. The server that is started on it runs the commands.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use mantissa_archive::{Archive, Replayed, Selection, Snapshot, Store};
use mantissa_persist::aof::Manifest;
use mantissa_protocol::encode_request;

use super::{named, show, time};
use crate::unfinished::Unfinished;

const NAME: &str = "appendonly.aof";
/// The folder of an append-only file in that of a server.
pub(super) const FOLDER: &str = "appendonlydir";

/// Writes the state of a second into a folder for a server, which gets it as a whole or not at all. Returns
/// what was done, as a sentence.
pub(super) fn restore(archive: &Archive<impl Store>, time_s: u64, folder: &Path) -> io::Result<String> {
    let snapshot = archive.find_at(time_s)?;
    let target = folder.join(FOLDER);
    if target.exists() {
        return Err(named(&target, io::Error::other("it is there already")));
    }
    let beside = folder.join(format!("{FOLDER}.part"));
    let (_unfinished, ()) =
        Unfinished::make(&beside, || fs::create_dir_all(&beside)).map_err(|error| named(&beside, error))?;
    let all = (&snapshot, &Selection::default());
    let written = write(archive, all, time_s, &beside, |commands, out| out.write_all(commands));
    let written = written.and_then(|replayed| {
        fs::rename(&beside, &target).map_err(|error| named(&target, error))?;
        File::open(folder)?.sync_all()?;
        Ok(replayed)
    });
    if written.is_err() {
        // The error that matters is the one that led here.
        let _ = fs::remove_dir_all(&beside);
    }
    let replayed = written?;
    let (name, log) = (&snapshot.name, show::size(replayed.bytes));
    let mut text = format!("wrote {name} and {log} of the log to {}", target.display());
    text += &reached(&replayed, time_s);
    text += &format!("\nmantissa server --dir {} --appendonly yes loads it", folder.display());
    Ok(text)
}

/// How far the log led, as lines that each begin with a line break.
pub(super) fn reached(replayed: &Replayed, time_s: u64) -> String {
    let mut text = String::new();
    if replayed.last_s > 0 {
        text += &format!("\nthe last change is of {}", time::text(replayed.last_s));
    }
    if !replayed.reaches_time {
        text += &format!(
            "\nthe archive has nothing behind that: whether more was changed until {} is not known",
            time::text(time_s)
        );
        replayed.damage.iter().for_each(|damage| text += &format!("\n{damage}"));
    }
    text
}

/// Writes what is wanted of a snapshot, and what `choose` writes of the commands behind it up to a second, as
/// an append-only file into a folder.
pub(super) fn write(
    archive: &Archive<impl Store>,
    (snapshot, selection): (&Snapshot, &Selection),
    time_s: u64,
    folder: &Path,
    mut choose: impl FnMut(&[u8], &mut BufWriter<&File>) -> io::Result<()>,
) -> io::Result<Replayed> {
    let mut manifest = Manifest::default();
    let base = folder.join(manifest.next_base(NAME.as_ref(), true));
    let increment = folder.join(manifest.next_increment(NAME.as_ref(), None));
    write_file(&base, |out| archive.restore(snapshot, selection, out, &mut |_| {}).map(drop))?;
    let mut replayed = Replayed::default();
    write_file(&increment, |out| {
        let Some(position) = &snapshot.facts.position else { return Ok(()) };
        if let Some(database) = position.database {
            let mut select = Vec::new();
            encode_request(&mut select, [&b"SELECT"[..], database.to_string().as_bytes()]);
            out.write_all(&select)?;
        }
        replayed = archive.replay(position, time_s, |commands| choose(commands, out))?;
        Ok(())
    })?;
    write_file(&folder.join(format!("{NAME}.manifest")), |out| out.write_all(&manifest.to_text()))?;
    File::open(folder)?.sync_all()?;
    Ok(replayed)
}

fn write_file(path: &Path, write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>) -> io::Result<()> {
    let file = File::create(path).map_err(|error| named(path, error))?;
    let mut out = BufWriter::with_capacity(super::BUFFER_BYTES, &file);
    write(&mut out)?;
    out.flush()?;
    drop(out);
    file.sync_all()
}
