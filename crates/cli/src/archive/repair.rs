//! `mantissa archive repair`: removes what is damaged, and says what is missing until it is stored again.

use std::io;

use indicatif::HumanCount;
use mantissa_archive::{Gap, Incomplete, Place, Repaired};
use mantissa_protocol::put_quoted;

use super::options::Repair;
use crate::output;

pub(super) fn repair(options: &Repair) -> io::Result<bool> {
    let archive = options.place.open()?;
    let bar = super::bar("checking", 0);
    let mut is_first = true;
    let repaired = archive.repair(!options.dry_run, &mut |done, total| {
        if std::mem::take(&mut is_first) {
            super::restart(&bar, "checking", total);
        }
        bar.set_position(done);
    });
    bar.finish_and_clear();
    let repaired = repaired?;
    output::print(told(&repaired, options.dry_run).as_bytes())?;
    let is_readable = |object: &String| !object.starts_with("snapshots/") && !object.starts_with("log/");
    Ok(repaired.incomplete.is_empty() && repaired.set_aside.iter().all(is_readable))
}

fn told(repaired: &Repaired, is_dry: bool) -> String {
    let mut lines = Vec::new();
    for pack in &repaired.damaged {
        let (removed, chunks) = (if is_dry { "would be removed" } else { "was removed" }, pack.chunks);
        let lost = match pack.lost {
            0 => format!("nothing of its {} is lost", count(chunks as u64, "chunk")),
            lost => format!("{lost} of its {} lost", is_are(chunks as u64, "chunk")),
        };
        lines.push(format!("{}: it was damaged and {removed}; {lost}", pack.object));
    }
    for object in &repaired.set_aside {
        let moved = if is_dry { "would be moved" } else { "was moved" };
        let reason = match object.starts_with("packs/") {
            true => "no index says what is in it, so it",
            false => "it can not be read and",
        };
        lines.push(format!("{object}: {reason} {moved} to damaged/"));
    }
    repaired.incomplete.iter().for_each(|snapshot| lines.extend(lacks(snapshot)));
    if repaired.damaged.is_empty() && repaired.set_aside.is_empty() {
        lines.push(format!("{}: none is damaged", count(repaired.packs as u64, "pack")));
    }
    let (whole, incomplete) = (repaired.whole as u64, repaired.incomplete.len() as u64);
    let until = match repaired.incomplete.iter().filter(|snapshot| snapshot.unnamed == 0).count() {
        0 => "",
        _ => ", until the data that they lack are stored again by `mantissa archive create`",
    };
    let incomplete = if incomplete > 0 { format!(", {incomplete} incomplete{until}") } else { String::new() };
    lines.push(format!("{} whole{incomplete}", is_are(whole, "snapshot")));
    lines.join("\n") + "\n"
}

fn count(number: u64, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {what}{plural}", HumanCount(number))
}

fn is_are(number: u64, what: &str) -> String {
    format!("{} {}", count(number, what), if number == 1 { "is" } else { "are" })
}

/// What a snapshot lacks, a gap a line.
fn lacks(incomplete: &Incomplete) -> Vec<String> {
    let Incomplete { snapshot, lost, unnamed, gaps, more } = incomplete;
    let for_ever = match unnamed {
        0 => String::new(),
        _ => format!(", {} for ever, as their index is lost", HumanCount(*unnamed)),
    };
    let mut lines = vec![format!("{snapshot}: it lacks {}{for_ever}", count(*lost, "chunk"))];
    lines.extend(gaps.iter().map(|gap| format!("  {}", told_gap(gap))));
    if *more > 0 {
        lines.push(format!("  and what was at {more} other places"));
    }
    lines
}

fn told_gap(gap: &Gap) -> String {
    match gap {
        Gap::Value(place) => format!("a part of {}", told_place(place)),
        Gap::Between(None, None) => "everything".to_owned(),
        Gap::Between(None, Some(behind)) => format!("all before {}", told_place(behind)),
        Gap::Between(Some(before), None) => format!("all behind {}", told_place(before)),
        Gap::Between(Some(before), Some(behind)) => {
            format!("all between {} and {}", told_place(before), told_place(behind))
        }
    }
}

fn quoted(key: &[u8]) -> String {
    let mut out = Vec::new();
    put_quoted(&mut out, key);
    String::from_utf8_lossy(&out).into_owned()
}

fn told_place(place: &Place) -> String {
    match place {
        Place::Function => "a library of functions".to_owned(),
        Place::Key { database: 0, key } => format!("the key {}", quoted(key)),
        Place::Key { database, key } => format!("the key {} of database {database}", quoted(key)),
    }
}
