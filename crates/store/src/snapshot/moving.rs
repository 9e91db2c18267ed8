//! Values that go to disk without a lock.
//!
//! A large value takes long to encode. So its record is made of an image, which [`Database::begin_move`]
//! takes with the shard locked, and with nothing locked meanwhile. [`Database::end_move`] then has the entry
//! name the record, unless the entry has been changed since.
//!
//! Invariant: the key of a [`Move`] is on its database's list until it ends, or until the entry is changed,
//! replaced or removed. All ways to a mutable entry lead through [`Database`], which takes its key off.

use std::sync::{Arc, Weak};

use super::Image;
use crate::cold::{Cold, ValueFacts};
use crate::entry::Entry;
use crate::key_hash::KeyHash;
use crate::shard::Database;

/// A value whose record is being made.
pub struct Move {
    /// Names it on the list.
    token: Token,
    hash: KeyHash,
    key: Box<[u8]>,
    /// What the entry keeps in memory of it.
    pub facts: ValueFacts,
    /// The value.
    pub image: Image,
}

/// Names a value on a database's list.
#[derive(Clone)]
pub struct Token(Arc<()>);

impl Token {
    /// Whether the entry has been changed, replaced or removed since, so that a record would be of no use.
    pub fn is_outdated(&self) -> bool {
        Arc::weak_count(&self.0) == 0
    }
}

impl Move {
    /// What tells whether the record is still of use.
    pub fn token(&self) -> Token {
        self.token.clone()
    }
}

/// The keys of a database whose records are being made.
#[derive(Default)]
pub(crate) struct Moving(Vec<(Weak<()>, Box<[u8]>)>);

impl Moving {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the key of an entry that changes off the list, and those that nobody makes a record of any more.
    pub fn note_change(&mut self, entry: &Entry) {
        self.0.retain(|(token, key)| token.strong_count() > 0 && **key != *entry.key());
    }

    /// Takes a key off the list. Whether it was there.
    fn end(&mut self, of: &Move) -> bool {
        let place =
            self.0.iter().position(|(token, _)| std::ptr::eq(token.as_ptr(), Arc::as_ptr(&of.token.0)));
        place.map(|place| self.0.swap_remove(place)).is_some()
    }
}

impl Database {
    /// Takes an image of the value of the key with this hash, of which a record is to be made. `None` if the
    /// value must stay in memory, if it is on disk already, or while another image is being read.
    pub fn begin_move(&mut self, hash: KeyHash, is_wanted: impl Fn(&Entry) -> bool) -> Option<Move> {
        let (key, facts, image) = self.keep_otherwise(hash, is_wanted, |entry| {
            let facts = entry.cold_facts()?;
            let is_free = !entry.is_cold() && !entry.is_shared_text();
            is_free.then(|| (Box::from(entry.key()), facts, Image::of(entry)))
        })??;
        if self.observers.moving.0.iter().any(|(token, other)| token.strong_count() > 0 && *other == key) {
            return None;
        }
        let token = Token(Arc::new(()));
        self.observers.moving.0.push((Arc::downgrade(&token.0), Box::clone(&key)));
        Some(Move { token, hash, key, facts, image })
    }

    /// Has the entry name the record, unless it has been changed since the image was taken. Whether it does.
    /// If `is_unused` says no, the value stays in memory too.
    pub fn end_move(&mut self, of: &mut Move, cold: Cold, is_unused: impl Fn(&Entry) -> bool) -> bool {
        if !self.observers.moving.end(of) {
            return false;
        }
        let Move { key, hash, image, .. } = of;
        let is_key = |entry: &Entry| entry.key() == &**key && !entry.is_cold();
        let end = |entry: &mut Entry| {
            if is_unused(entry) {
                return entry.cool(cold);
            }
            if let Image::Text { .. } = image {
                // A text that is shared no more is moved and not copied.
                *image = Image::Entry(Entry::string(b"", b"", None, 0));
            }
            entry.cool_beside(cold);
        };
        self.keep_otherwise(*hash, is_key, end).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cold::tests::Values;
    use crate::cold::{Place, Segment};
    use crate::key_hash::KeyHasher;
    use crate::shard::Lookup;
    use crate::{EncodingLimits, Set, StringRef, Value};

    const NOW_MS: i64 = 1_000;
    const KEYS: [&[u8]; 2] = [b"set", b"text"];

    struct Bench {
        hasher: KeyHasher,
        database: Database,
        segment: Arc<Segment>,
    }

    impl Bench {
        /// A large set and a long string.
        fn new() -> Self {
            let hasher = KeyHasher::of_this_run();
            let mut database = Database::new(hasher);
            let mut set = Set::new();
            for number in 0..2_000 {
                set.add(format!("member:{number}").as_bytes(), &EncodingLimits::default());
            }
            let text = Value::String(vec![b'x'; 1 << 20]);
            for (key, value) in KEYS.into_iter().zip([Value::Set(set), text]) {
                database.insert(hasher.hash(key), Entry::new(key, value, Some(NOW_MS + 1), 0));
            }
            Bench { hasher, database, segment: Segment::new(1, Arc::<Values>::default()) }
        }

        fn begin(&mut self, key: &[u8]) -> Option<Move> {
            self.database.begin_move(self.hasher.hash(key), |_| true)
        }

        fn end(&mut self, of: &mut Move) -> bool {
            let place = Place::new(0, 1 << 20, of.facts).expect("it fits");
            self.database.end_move(of, Cold::new(Arc::clone(&self.segment), place), |_| true)
        }
    }

    #[test]
    fn a_value_goes_unless_it_has_been_changed_since() {
        type Change = fn(&mut Database, KeyHash, &[u8]);
        let changes: [(bool, Change); 11] = [
            (true, |_, _, _| ()),
            (true, |database, hash, key| assert!(database.get(hash, key).is_some())),
            (true, |database, _, _| _ = database.compact(0, 0)),
            (false, |database, hash, key| _ = database.get_mut(hash, key)),
            (false, |database, hash, key| _ = database.set_expiry(hash, key, None)),
            (false, |database, hash, key| _ = database.remove(hash, key)),
            (false, |database, hash, key| {
                let entry = database.remove(hash, key).expect("it is there");
                database.insert(hash, entry);
            }),
            (false, |database, hash, key| {
                assert!(matches!(database.find_unexpired(hash, key, NOW_MS), Lookup::Unexpired(_)));
            }),
            (false, |database, hash, key| {
                assert!(matches!(database.find_unexpired(hash, key, NOW_MS + 1), Lookup::Expired(_)));
            }),
            (false, |database, hash, key| {
                _ = database.unexpired_or_insert(hash, key, NOW_MS, || Entry::string(b"", b"", None, 0));
            }),
            (false, |database, _, _| _ = database.take()),
        ];
        for (number, (goes, change)) in changes.into_iter().enumerate() {
            for key in KEYS {
                let mut bench = Bench::new();
                let hash = bench.hasher.hash(key);
                let mut begun = bench.begin(key).expect("it may go");
                assert!(bench.begin(key).is_none(), "one record of it at a time");
                change(&mut bench.database, hash, key);
                assert_eq!(begun.token().is_outdated(), !goes, "change {number}");
                assert_eq!(bench.end(&mut begun), goes, "change {number}");
                assert!(!bench.end(&mut begun), "it has ended");
                let is_cold = bench.database.get(hash, key).is_some_and(Entry::is_cold);
                assert_eq!(is_cold, goes, "change {number}");
                assert!(bench.database.observers.moving.is_empty(), "change {number}");
            }
        }
    }

    #[test]
    fn a_value_that_is_read_meanwhile_stays_in_memory_too() {
        let address = |entry: &Entry| match entry.as_string() {
            Some(StringRef::Bytes(text)) => Some(text.as_ptr()),
            _ => None,
        };
        let mut bench = Bench::new();
        for key in KEYS {
            let hash = bench.hasher.hash(key);
            let mut begun = bench.begin(key).expect("it may go");
            let entry = bench.database.get(hash, key).expect("it is there");
            let bytes = address(entry);
            let place = Place::new(0, 1 << 20, begun.facts).expect("it fits");
            let cold = Cold::new(Arc::clone(&bench.segment), place);
            assert!(bench.database.end_move(&mut begun, cold, |_| false));
            let entry = bench.database.get(hash, key).expect("it is there");
            assert!(entry.is_cold() && entry.is_in_memory());
            assert_eq!(entry.expiry(), Some(NOW_MS + 1));
            assert_eq!(bytes, address(entry), "a long text is not copied");
            let value = entry.value();
            assert!(value.element_count() == if key == KEYS[0] { 2_000 } else { 1 << 20 });
        }
    }

    #[test]
    fn what_happens_to_another_key_does_not_matter() {
        let mut bench = Bench::new();
        let mut begun = KEYS.map(|key| bench.begin(key).expect("it may go"));
        bench.database.remove(bench.hasher.hash(KEYS[1]), KEYS[1]);
        assert!(bench.end(&mut begun[0]) && !bench.end(&mut begun[1]));
    }

    #[test]
    fn a_move_that_is_given_up_leaves_nothing() {
        let mut bench = Bench::new();
        drop(bench.begin(KEYS[0]));
        let mut begun = bench.begin(KEYS[0]).expect("it may go again");
        bench.database.get_mut(bench.hasher.hash(KEYS[1]), KEYS[1]);
        assert!(bench.end(&mut begun));
        drop(bench.begin(KEYS[1]));
        bench.database.get_mut(bench.hasher.hash(KEYS[0]), KEYS[0]);
        assert!(bench.database.observers.moving.is_empty());
    }

    #[test]
    fn another_database_has_nothing_to_do_with_it() {
        let (mut bench, mut other) = (Bench::new(), Bench::new());
        let mut begun = bench.begin(KEYS[0]).expect("it may go");
        std::mem::swap(&mut bench.database, &mut other.database);
        assert!(!bench.end(&mut begun));
    }
}
