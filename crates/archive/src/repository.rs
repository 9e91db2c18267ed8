//! An archive as a whole: making and opening one, and its snapshots.

use std::io;
use std::path::PathBuf;

use crate::keys::{KeyFile, Keys, random};
use crate::manifest::{Facts, Manifest};
use crate::store::Store;
use crate::wire::{damaged, hex, unhex};

const CONFIG: &str = "config";
const FIRST_LINE: &str = "mantissa-archive 1";
const SNAPSHOTS: &str = "snapshots";

/// An open archive.
pub struct Archive<S> {
    pub(crate) store: S,
    pub(crate) keys: Keys,
}

/// A snapshot of an archive.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Its name: the time in UTC, by which names are in order, and digits of its hash.
    pub name: String,
    /// What is said of it.
    pub facts: Facts,
    pub(crate) manifest: Manifest,
}

impl<S: Store> Archive<S> {
    /// Makes an archive, encrypted if there is a key.
    pub fn init(store: S, key: Option<&KeyFile>) -> io::Result<Self> {
        let taken = store.list("packs")?.len() + store.list(SNAPSHOTS)?.len();
        let identity = random()?;
        let keys = key.map_or_else(|| Keys::plain(&identity), Keys::of_file);
        let public = key.map_or(String::new(), |key| format!("encrypted {}\n", hex(&key.public())));
        let check = hex(&keys.check());
        let config = format!("{FIRST_LINE}\nidentity {}\n{public}check {check}\n", hex(&identity));
        let put = if taken > 0 {
            Err(io::ErrorKind::AlreadyExists.into())
        } else {
            store.put_new(CONFIG, config.as_bytes())
        };
        put.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => io::Error::other("there is an archive already"),
            _ => error,
        })?;
        Ok(Archive { store, keys })
    }

    /// Opens an archive, which takes its key if it is encrypted.
    pub fn open(store: S, key: Option<&KeyFile>) -> io::Result<Self> {
        let config = store.get(CONFIG).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                io::Error::other(format!("{error}: there is no archive; `mantissa archive init` makes one"))
            }
            _ => error,
        })?;
        let config = String::from_utf8(config).map_err(|_| damaged("config: it is damaged"))?;
        let mut lines = config.lines();
        match lines.next() {
            Some(FIRST_LINE) => {}
            Some(line) if line.starts_with("mantissa-archive ") => {
                return Err(damaged("the archive is of a later version of this program"));
            }
            _ => return Err(damaged("config: it is not that of an archive")),
        }
        let (mut identity, mut check, mut is_encrypted) = (None, None, false);
        for line in lines {
            match line.split_once(' ') {
                Some(("identity", digits)) => identity = unhex(digits),
                Some(("check", digits)) => check = unhex(digits),
                Some(("encrypted", _)) => is_encrypted = true,
                _ => {}
            }
        }
        let (Some(identity), Some(check)) = (identity, check) else {
            return Err(damaged("config: it is damaged"));
        };
        let keys = match (is_encrypted, key) {
            (true, Some(key)) => Keys::of_file(key),
            (true, None) => {
                return Err(io::Error::other("the archive is encrypted: --key-file has to name its key"));
            }
            (false, _) => Keys::plain(&identity),
        };
        if keys.check() != check {
            return Err(io::Error::other("the key is that of another archive"));
        }
        Ok(Archive { store, keys })
    }

    /// A folder for temporary files: beside the objects if there is a place, else `other`.
    pub fn scratch(&self, other: PathBuf) -> io::Result<PathBuf> {
        Ok(self.store.scratch()?.unwrap_or(other))
    }

    /// All snapshots, the oldest first.
    pub fn snapshots(&self) -> io::Result<Vec<Snapshot>> {
        self.each_snapshot()?.into_iter().map(|(_, snapshot)| snapshot).collect()
    }

    /// The names of all snapshots, the oldest first.
    pub fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.store.list(SNAPSHOTS)?.into_iter().map(|(name, _)| name).collect())
    }

    /// What is said of the snapshot of this name.
    pub fn facts(&self, name: &str) -> io::Result<Facts> {
        self.load(name.to_owned()).map(|snapshot| snapshot.facts)
    }

    /// The names of all snapshots, the oldest first, and what is known of each: damage ends nothing.
    pub fn each_snapshot(&self) -> io::Result<Vec<(String, io::Result<Snapshot>)>> {
        Ok(self.names()?.into_iter().map(|name| (name.clone(), self.load(name))).collect())
    }

    fn load(&self, name: String) -> io::Result<Snapshot> {
        let object = format!("{SNAPSHOTS}/{name}");
        let plain = self.keys.unwrap(&self.store.get(&object)?, &object)?;
        if !name.ends_with(&hex(&self.keys.name(&plain)[..8])) {
            return Err(damaged(format!("{object}: it is the manifest of another snapshot")));
        }
        let manifest = Manifest::parse(&plain)?;
        Ok(Snapshot { name, facts: manifest.facts.clone(), manifest })
    }

    /// The snapshot whose name, or the digits at its end, begin with this; the newest for `latest`.
    pub fn find(&self, name: &str) -> io::Result<Snapshot> {
        let mut names = self.names()?.into_iter();
        if name == "latest" {
            let newest = names.next_back().ok_or_else(|| io::Error::other("the archive has no snapshot"))?;
            return self.load(newest);
        }
        let mut found = names.filter(|whole| {
            whole.starts_with(name) || whole.rsplit('-').next().is_some_and(|hash| hash.starts_with(name))
        });
        match (found.next(), found.next()) {
            (Some(whole), None) => self.load(whole),
            (None, _) => Err(io::Error::other(format!("there is no snapshot '{name}'"))),
            _ => Err(io::Error::other(format!("several snapshots are called '{name}'"))),
        }
    }

    /// Stores a manifest, with which the snapshot is there.
    pub(crate) fn put_manifest(&self, manifest: Manifest) -> io::Result<Snapshot> {
        let plain = manifest.encode();
        let hash = hex(&self.keys.name(&plain)[..8]);
        let name = format!("{}-{hash}", utc_digits(manifest.facts.created_ms));
        self.store.put_new(&format!("{SNAPSHOTS}/{name}"), &self.keys.wrap(&plain)?)?;
        Ok(Snapshot { name, facts: manifest.facts.clone(), manifest })
    }

    pub(crate) fn delete_manifest(&self, snapshot: &Snapshot) -> io::Result<()> {
        self.store.delete(&format!("{SNAPSHOTS}/{}", snapshot.name))
    }
}

/// Days since 1970 as year, month, day (Howard Hinnant, "chrono-compatible low-level date algorithms").
pub(crate) fn civil(days: i64) -> (i64, u32, u32) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month as u32, day as u32)
}

/// Days since 1970 of a date from then on; the same source as [`civil`].
pub fn days(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year / 400, year % 400);
    let month_from_march = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// A time as `20261125T070000123Z`, the last three digits before the Z of which are milliseconds.
pub fn utc_digits(unix_ms: u64) -> String {
    let (unix_s, millisecond) = (unix_ms / 1000, unix_ms % 1000);
    let (year, month, day) = civil((unix_s / 86_400) as i64);
    let second = unix_s % 86_400;
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}{millisecond:03}Z")
}
