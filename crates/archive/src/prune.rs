//! Removing snapshots that no rule keeps, and packs that no snapshot needs.
//!
//! Chunks that were stored again since their pack was found to be damaged are needed for snapshots that name
//! the pack: so manifests are written anew before, with the packs that have them (`repack::settle`).
//!
//! Manifests go first: a process that is killed in between leaves packs that the next call removes. Packs
//! of which less than half is needed are written anew without the rest (`repack`), which takes the key that
//! reads. Nobody may be writing meanwhile, which the lock of the store sees to. Who reads a snapshot while it
//! is removed or moved gets an error.

use std::collections::{HashMap, HashSet};
use std::io;

use crate::journal::Segment;
use crate::pack::pack_object;
use crate::repack::{Sparse, settle};
use crate::repository::{Archive, Snapshot, civil};
use crate::store::Store;

const HOUR_MS: u64 = 3_600_000;

/// The number of the period in which an hour since 1970 is.
type Period = fn(i64) -> i64;

/// Which snapshots to keep: of each source those that any of the rules keeps.
#[derive(Clone, Copy, Default, Debug)]
pub struct Retention {
    /// So many of the newest.
    pub last: usize,
    /// The newest of an hour, for so many hours that have one.
    pub hourly: usize,
    /// The newest of a day (UTC), for so many days that have one.
    pub daily: usize,
    /// The newest of a week, which begins on Monday.
    pub weekly: usize,
    /// The newest of a month.
    pub monthly: usize,
    /// What the log says of the time before this, as unix time in seconds, is removed.
    pub log_since_s: u64,
}

impl Retention {
    /// Whether no rule keeps anything.
    pub fn is_empty(&self) -> bool {
        [self.last, self.hourly, self.daily, self.weekly, self.monthly] == [0; 5]
    }

    /// For each snapshot whether it is kept. They are in order, the oldest first.
    fn keeps(&self, snapshots: &[Snapshot]) -> Vec<bool> {
        let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
        for (place, snapshot) in snapshots.iter().enumerate() {
            places.entry(server_of(&snapshot.facts.source)).or_default().push(place);
        }
        let mut keeps = vec![false; snapshots.len()];
        for places in places.values() {
            let times: Vec<u64> = places.iter().map(|&place| snapshots[place].facts.created_ms).collect();
            for (&place, keep) in places.iter().zip(self.keeps_of_source(&times)) {
                keeps[place] = keep;
            }
        }
        keeps
    }

    /// The same for the times of the snapshots of one source.
    fn keeps_of_source(&self, times_ms: &[u64]) -> Vec<bool> {
        let mut keeps = vec![false; times_ms.len()];
        let newest = times_ms.len().saturating_sub(self.last);
        keeps[newest..].fill(true);
        let periods: [(usize, Period); 4] = [
            (self.hourly, |hour| hour),
            (self.daily, |hour| hour / 24),
            // Day 0 was a Thursday.
            (self.weekly, |hour| (hour / 24 + 3) / 7),
            (self.monthly, |hour| {
                let (year, month, _) = civil(hour / 24);
                year * 12 + i64::from(month)
            }),
        ];
        for (count, period_of) in periods {
            let (mut left, mut last) = (count, None);
            for (keep, time_ms) in keeps.iter_mut().zip(times_ms).rev() {
                let period = period_of((time_ms / HOUR_MS) as i64);
                if last != Some(period) && left > 0 {
                    (*keep, last) = (true, Some(period));
                    left -= 1;
                }
            }
        }
        keeps
    }
}

/// The source, if it is a server: `HOST:PORT`. Empty for all others, since files are often named after times.
fn server_of(source: &str) -> &str {
    let port = source.rsplit_once(':').map_or("", |(_, port)| port);
    if port.parse::<u16>().is_ok() { source } else { "" }
}

/// What was removed, or would be.
#[derive(Clone, Default, Debug)]
pub struct Pruned {
    /// Snapshots, by name.
    pub snapshots: Vec<String>,
    /// The number of snapshots that stay.
    pub kept: usize,
    /// The number of packs that were removed.
    pub packs: usize,
    /// The number of segments of the log that were removed.
    pub segments: usize,
    /// The number of packs of which what is needed was written to others.
    pub rewritten: usize,
    /// What was removed, in bytes, less what was written.
    pub bytes: u64,
}

impl<S: Store> Archive<S> {
    /// Removes the snapshots that `retention` does not keep, if it keeps any, and what no snapshot needs.
    /// Without `is_real` only says what it would remove; rewriting packs may free more.
    pub fn prune(&self, retention: &Retention, is_real: bool) -> io::Result<Pruned> {
        let _lock = self.store.lock()?;
        let stored = self.stored_bytes()?;
        // An error here ends it: what a snapshot that can not be read needs is not known.
        let mut snapshots = self.snapshots()?;
        let mut pruned = Pruned::default();
        let mut doomed = Vec::new();
        // One that is there twice was being moved to other packs.
        snapshots.dedup_by(|next, last| {
            let is_same = next.facts == last.facts;
            if is_same {
                doomed.push(next.clone());
            }
            is_same
        });
        if !retention.is_empty() {
            let keeps = retention.keeps(&snapshots);
            let (kept, others): (Vec<_>, Vec<_>) =
                snapshots.into_iter().zip(keeps).partition(|(_, keep)| *keep);
            snapshots = kept.into_iter().map(|(snapshot, _)| snapshot).collect();
            pruned.snapshots = others.iter().map(|(snapshot, _)| snapshot.name.clone()).collect();
            doomed.extend(others.into_iter().map(|(snapshot, _)| snapshot));
        }
        pruned.kept = snapshots.len();
        if is_real {
            doomed.iter().try_for_each(|snapshot| self.delete_manifest(snapshot))?;
        }
        // From here on a pack is needed if a manifest names it.
        snapshots = settle(self, snapshots, is_real)?;
        if self.keys.can_read() {
            let sparse = Sparse::find(self, &snapshots)?;
            pruned.rewritten = sparse.len();
            if is_real {
                snapshots = sparse.rewrite(self, snapshots)?;
            }
        }
        let unneeded = self.remove_unneeded(&snapshots, &mut pruned, is_real)?
            + self.remove_segments(&snapshots, retention.log_since_s, &mut pruned, is_real)?;
        if is_real {
            self.store.remove_leftovers()?;
        }
        pruned.bytes = if is_real { stored.saturating_sub(self.stored_bytes()?) } else { unneeded };
        Ok(pruned)
    }

    /// What packs, indexes and the log take, in bytes.
    fn stored_bytes(&self) -> io::Result<u64> {
        let all = ["packs", "indexes", "log"].map(|folder| self.store.list(folder));
        let all = all.into_iter().collect::<io::Result<Vec<_>>>()?.concat();
        Ok(all.iter().map(|(_, bytes)| bytes).sum())
    }

    /// Removes packs that no snapshot needs. Returns their bytes.
    fn remove_unneeded(&self, snapshots: &[Snapshot], pruned: &mut Pruned, is_real: bool) -> io::Result<u64> {
        let needed: HashSet<_> =
            snapshots.iter().flat_map(|snapshot| &snapshot.manifest.packs).map(pack_object).collect();
        let mut sum = 0;
        // A pack without an index is not used for new snapshots, so indexes go first.
        for folder in ["indexes", "packs"] {
            for (name, bytes) in self.store.list(folder)? {
                if needed.contains(&format!("packs/{name}")) {
                    continue;
                }
                pruned.packs += usize::from(folder == "packs");
                sum += bytes;
                if is_real {
                    self.store.delete(&format!("{folder}/{name}"))?;
                }
            }
        }
        Ok(sum)
    }

    /// Removes segments of the log that are too old, or that follow no snapshot. Returns their bytes.
    fn remove_segments(
        &self,
        snapshots: &[Snapshot],
        since_s: u64,
        pruned: &mut Pruned,
        is_real: bool,
    ) -> io::Result<u64> {
        let mut first: HashMap<&str, u64> = HashMap::new();
        for position in snapshots.iter().filter_map(|snapshot| snapshot.facts.position.as_ref()) {
            let offset = first.entry(&position.history).or_insert(position.offset);
            *offset = position.offset.min(*offset);
        }
        let is_needed = |segment: &Segment| {
            segment.last_s >= since_s
                && first.get(&*segment.history).is_some_and(|offset| *offset < segment.end)
        };
        let mut sum = 0;
        for segment in self.segments()?.iter().filter(|segment| !is_needed(segment)) {
            pruned.segments += 1;
            sum += segment.stored_bytes;
            if is_real {
                self.delete_segment(segment)?;
            }
        }
        Ok(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::{Facts, Manifest};

    fn kept(retention: Retention, days: &[u64]) -> Vec<u64> {
        let snapshot = |day: &u64| Snapshot {
            name: String::new(),
            facts: Facts { created_ms: day * 24 * HOUR_MS / 10, ..Facts::default() },
            manifest: Manifest::default(),
        };
        let snapshots: Vec<_> = days.iter().map(snapshot).collect();
        let keeps = retention.keeps(&snapshots);
        days.iter().zip(keeps).filter(|(_, keep)| *keep).map(|(day, _)| *day).collect()
    }

    #[test]
    fn rules_are_for_each_source() {
        let snapshot = |(hour, source): (u64, &&str)| Snapshot {
            name: String::new(),
            facts: Facts { created_ms: hour * HOUR_MS, source: (*source).to_owned(), ..Facts::default() },
            manifest: Manifest::default(),
        };
        let sources = ["a:1", "b:1", "monday.rdb", "b:1", "a:1", "b:1", "[::1]:1", "b:1", "/tuesday.rdb"];
        let snapshots: Vec<_> = (0..).zip(&sources).map(snapshot).collect();
        let keeps = |retention: Retention| {
            let kept = retention.keeps(&snapshots).into_iter().zip(0..).filter(|(keep, _)| *keep);
            kept.map(|(_, place)| place).collect::<Vec<_>>()
        };
        let none = Retention::default();
        assert_eq!(keeps(Retention { last: 1, ..none }), [4, 6, 7, 8]);
        assert_eq!(keeps(Retention { daily: 3, ..none }), [4, 6, 7, 8]);
        assert_eq!(keeps(Retention { last: 2, hourly: 3, ..none }), [0, 2, 3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn rules_keep_the_newest_of_each_period() {
        // Tenths of days; day 0 is Thursday, 1970-01-01, day 4 a Monday, day 31 the first of February.
        let all = [0, 5, 11, 39, 40, 41, 108, 309, 310, 315];
        let none = Retention::default();
        assert_eq!(kept(Retention { last: 2, ..none }, &all), [310, 315]);
        assert_eq!(kept(Retention { daily: 3, ..none }, &all), [108, 309, 315]);
        assert_eq!(kept(Retention { weekly: 3, ..none }, &all), [39, 108, 315]);
        assert_eq!(kept(Retention { monthly: 9, ..none }, &all), [309, 315]);
        assert_eq!(kept(Retention { last: 1, daily: 9, ..none }, &all), [5, 11, 39, 41, 108, 309, 315]);
        assert_eq!(kept(none, &all), [0; 0]);
        assert_eq!(kept(Retention { last: 99, ..none }, &[]), [0; 0]);
    }
}
