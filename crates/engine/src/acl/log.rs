//! ACL LOG: refused calls, newest first.
//!
//! A refusal that is like one of the last ten, and not more than a minute younger, is counted with it. An
//! entry keeps at most [`OBJECT_BYTES_MAX`] of what was refused, so that clients cannot fill the memory with
//! long keys.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use mantissa_protocol::Reply;
use parking_lot::Mutex;

/// The newest entries, among which a refusal is looked for that is the same.
const COMPARED_MAX: usize = 10;
/// How much older that one may be.
const COMPARED_MS_MAX: i64 = 60_000;
/// Bytes that are kept of a key, channel or name.
const OBJECT_BYTES_MAX: usize = 16 << 10;

/// What was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A command.
    Command,
    /// A key.
    Key,
    /// A channel.
    Channel,
    /// A login.
    Auth,
    /// A database.
    Database,
}

/// Where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A request by itself.
    TopLevel,
    /// One of a transaction.
    Multi,
    /// One of a script.
    Script,
}

/// A refusal.
pub struct Refusal<'a> {
    /// What kind of thing was refused.
    pub reason: Reason,
    /// Where.
    pub place: Place,
    /// The command, key or channel; for a login the command that was used.
    pub object: &'a [u8],
    /// The user.
    pub username: &'a [u8],
}

struct Entry {
    count: i64,
    reason: Reason,
    place: Place,
    object: Box<[u8]>,
    username: Box<[u8]>,
    session: Vec<u8>,
    id: i64,
    created_ms: i64,
    updated_ms: i64,
}

#[derive(Default)]
struct Entries {
    newest_first: VecDeque<Entry>,
    next_id: i64,
}

/// The latest refusals.
#[derive(Default)]
pub struct AclLog {
    entries: Mutex<Entries>,
    counts: [AtomicU64; 5],
}

impl AclLog {
    /// The number of refusals of a kind since the start.
    pub fn count(&self, reason: Reason) -> u64 {
        self.counts[reason as usize].load(Ordering::Relaxed)
    }

    /// Counts a refusal and notes it, with the client as CLIENT LIST shows it. At most `entries_max` are
    /// kept.
    pub fn note(&self, refusal: Refusal<'_>, session: &[u8], now_ms: i64, entries_max: usize) {
        self.counts[refusal.reason as usize].fetch_add(1, Ordering::Relaxed);
        let kept = |bytes: &[u8]| bytes[..bytes.len().min(OBJECT_BYTES_MAX)].into();
        let (object, username): (Box<[u8]>, Box<[u8]>) = (kept(refusal.object), kept(refusal.username));
        let mut entries = self.entries.lock();
        let is_same = |entry: &Entry| {
            (entry.reason, entry.place) == (refusal.reason, refusal.place)
                && (now_ms - entry.updated_ms).abs() <= COMPARED_MS_MAX
                && (&entry.object, &entry.username) == (&object, &username)
        };
        let same = entries.newest_first.iter().take(COMPARED_MAX).position(is_same);
        let entry = match same.and_then(|at| entries.newest_first.remove(at)) {
            Some(same) => {
                Entry { count: same.count + 1, session: session.to_vec(), updated_ms: now_ms, ..same }
            }
            None => {
                let id = entries.next_id;
                entries.next_id += i64::from(entries_max > 0);
                Entry {
                    count: 1,
                    reason: refusal.reason,
                    place: refusal.place,
                    object,
                    username,
                    session: session.to_vec(),
                    id,
                    created_ms: now_ms,
                    updated_ms: now_ms,
                }
            }
        };
        entries.newest_first.push_front(entry);
        entries.newest_first.truncate(entries_max);
    }

    /// Forgets all entries.
    pub fn clear(&self) {
        self.entries.lock().newest_first.clear();
    }

    /// Replies the newest entries, up to a number.
    pub fn reply(&self, count: usize, now_ms: i64, reply: &mut Reply) {
        let entries = self.entries.lock();
        reply.array(count.min(entries.newest_first.len()));
        entries.newest_first.iter().take(count).for_each(|entry| entry.reply(now_ms, reply));
    }
}

impl Entry {
    fn reply(&self, now_ms: i64, reply: &mut Reply) {
        let reason: &[u8] = match self.reason {
            Reason::Command => b"command",
            Reason::Key => b"key",
            Reason::Channel => b"channel",
            Reason::Auth => b"auth",
            Reason::Database => b"database",
        };
        let place: &[u8] = match self.place {
            Place::TopLevel => b"toplevel",
            Place::Multi => b"multi",
            Place::Script => b"lua",
        };
        reply.map(10);
        reply.bulk(b"count");
        reply.integer(self.count);
        let texts: [(&[u8], &[u8]); 4] = [
            (b"reason", reason),
            (b"context", place),
            (b"object", &self.object),
            (b"username", &self.username),
        ];
        for (name, text) in texts {
            reply.bulk(name);
            reply.bulk(text);
        }
        reply.bulk(b"age-seconds");
        reply.double((now_ms - self.updated_ms).max(0) as f64 / 1000.0);
        reply.bulk(b"client-info");
        reply.bulk(&self.session);
        let numbers: [(&[u8], i64); 3] = [
            (b"entry-id", self.id),
            (b"timestamp-created", self.created_ms),
            (b"timestamp-last-updated", self.updated_ms),
        ];
        for (name, number) in numbers {
            reply.bulk(name);
            reply.integer(number);
        }
    }
}
