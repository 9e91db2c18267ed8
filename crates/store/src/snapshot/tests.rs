//! A stepping saver among random operations, against what was there at the cut.

use std::collections::BTreeMap;

use super::*;
use crate::key_hash::KeyHash;
use crate::shard::Lookup;
use crate::test_random::Random;
use crate::text::CHUNK_BYTES;
use crate::types::{Sample, ValueType};
use crate::value::{Kind, Value};
use crate::{EncodingLimits, Keyspace, ShardSet, with_kind, with_value, with_value_mut};

const DATABASES: usize = 3;
const NOW_MS: i64 = 1_000;

/// Everything about entries that a snapshot must get right, by database and key.
type Contents = BTreeMap<(usize, Vec<u8>), String>;

fn describe(entry: &Entry) -> String {
    let value = with_value!(
        entry.value(),
        text => text.to_vec().escape_ascii().to_string(),
        value => format!("{value:?}"),
    );
    let mut parts: Vec<&str> = value.trim_matches(['[', ']', '{', '}']).split(", ").collect();
    // Sets and hashes have no order.
    parts.sort_unstable();
    format!("{:?} {:?} {}", entry.kind(), entry.expiry(), parts.join(","))
}

struct Bench {
    keyspace: Keyspace,
    random: Random,
    limits: EncodingLimits,
    delivered: Contents,
    /// Long strings that have been delivered, and as much of each as has been read.
    unread: Vec<(usize, Image, Vec<u8>)>,
}

impl Bench {
    fn new(seed: u64) -> Self {
        Bench {
            keyspace: Keyspace::new(DATABASES, 2),
            random: Random::new(seed),
            limits: EncodingLimits::default(),
            delivered: Contents::new(),
            unread: Vec::new(),
        }
    }

    fn random(&mut self, bound: u64) -> u64 {
        self.random.next() % bound
    }

    /// Runs `work` on the database of a key.
    fn on<R>(
        &mut self,
        database: usize,
        key: &[u8],
        work: impl FnOnce(&mut Database, KeyHash, &EncodingLimits) -> R,
    ) -> R {
        let hash = self.keyspace.hash(key);
        let index = self.keyspace.shard_of(hash);
        let mut locked = self.keyspace.lock(ShardSet::one(index));
        let shard = locked.shard_mut(index).expect("locked");
        work(&mut shard.databases[database], hash, &self.limits)
    }

    fn contents(&self) -> Contents {
        let locked = self.keyspace.lock(self.keyspace.all_shards());
        let mut contents = Contents::new();
        for index in 0..self.keyspace.shard_count() {
            let shard = locked.shard(index).expect("locked");
            for (number, database) in shard.databases.iter().enumerate() {
                contents
                    .extend(database.iter().map(|entry| ((number, entry.key().to_vec()), describe(entry))));
            }
        }
        contents
    }

    fn value(&mut self) -> Value {
        let count = if self.random(4) == 0 { 600 } else { 1 + self.random(6) };
        let texts: Vec<String> = (0..count).map(|_| format!("m{}", self.random(5_000))).collect();
        let any = Kind::ALL[self.random(Kind::ALL.len() as u64) as usize];
        let kind = if self.random(2) == 0 { Kind::String } else { any };
        with_kind!(kind, string: self.string(), Type => {
            let mut value = Type::default();
            texts.iter().for_each(|text| value.add_sample(text.as_bytes(), &self.limits));
            value.into_value()
        })
    }

    fn string(&mut self) -> Value {
        match self.random(4) {
            0 => Value::Integer(self.random(1 << 40) as i64),
            1 if self.random(40) == 0 => Value::String(vec![b'l'; CHUNK_BYTES * 2 + 77]),
            1 => Value::String(vec![b'x'; self.random(6_000) as usize]),
            _ => Value::String(format!("value {}", self.random(1 << 30)).into_bytes()),
        }
    }

    /// Changes a value where it is.
    fn change(&mut self, database: usize, key: &[u8]) {
        let text = format!("m{}", self.random(5_000)).into_bytes();
        let dice = self.random(3);
        self.on(database, key, |database, hash, limits| {
            let Lookup::Unexpired(mut entry) = database.find_unexpired(hash, key, NOW_MS) else { return };
            match entry.collection_mut() {
                None if dice == 0 => entry.set_string(&text),
                None if dice == 1 => entry.set_integer(text.len() as i64),
                None => entry.text_mut().expect("a string").append(&text),
                Some(value) if dice == 0 => with_value_mut!(value, value => value.remove_sample(&text)),
                Some(value) => with_value_mut!(value, value => value.add_sample(&text, limits)),
            }
        });
    }

    fn put(&mut self, database: usize, key: &[u8]) {
        let value = self.value();
        let expiry = (self.random(3) == 0).then(|| 500 + self.random(1_000) as i64);
        self.on(database, key, |database, hash, _| match database.find_unexpired(hash, key, NOW_MS) {
            Lookup::Unexpired(mut entry) => drop(entry.replace(Entry::new(key, value, expiry, 1))),
            _ => _ = database.insert(hash, Entry::new(key, value, expiry, 1)),
        });
    }

    /// One random operation, as commands do them.
    fn act(&mut self, keys: u64) {
        let (database, other) = (self.random(3) as usize, self.random(3) as usize);
        let key = format!("key{}", self.random(keys)).into_bytes();
        match self.random(1_000) {
            0..350 => self.put(database, &key),
            350..600 => self.change(database, &key),
            600..750 => drop(self.on(database, &key, |database, hash, _| database.remove(hash, &key))),
            750..800 => {
                let expiry = (self.random(2) == 0).then_some(5_000);
                self.on(database, &key, |database, hash, _| database.set_expiry(hash, &key, expiry));
            }
            800..850 => {
                let make = || Entry::string(&key, b"made", None, 0);
                self.on(database, &key, |database, hash, _| {
                    drop(database.unexpired_or_insert(hash, &key, NOW_MS, make).1);
                });
            }
            850..993 => {
                // RENAME, MOVE and COPY.
                let target = format!("key{}", self.random(keys)).into_bytes();
                let copies = self.random(2) == 0;
                let taken = self.on(database, &key, |database, hash, _| match copies {
                    true => database.get(hash, &key).map(|entry| entry.duplicate(&target, entry.expiry())),
                    false => database.remove(hash, &key).map(|entry| entry.renamed(&target)),
                });
                let Some(entry) = taken else { return };
                self.on(other, &target, |database, hash, _| {
                    drop(database.remove(hash, &target));
                    database.insert(hash, entry);
                });
            }
            993..996 => {
                let mut locked = self.keyspace.lock(self.keyspace.all_shards());
                for index in 0..self.keyspace.shard_count() {
                    drop(locked.shard_mut(index).expect("locked").databases[database].take());
                }
            }
            _ => {
                let mut locked = self.keyspace.lock(self.keyspace.all_shards());
                for index in 0..self.keyspace.shard_count() {
                    locked.shard_mut(index).expect("locked").databases.swap(database, other);
                }
            }
        }
    }

    fn deliver(&mut self, number: usize, image: Image) {
        match image {
            Image::Entry(entry) => self.deliver_entry(number, &entry),
            text => self.unread.push((number, text, Vec::new())),
        }
    }

    fn deliver_entry(&mut self, number: usize, entry: &Entry) {
        let place = (number, entry.key().to_vec());
        let twice = self.delivered.insert(place, describe(entry));
        assert!(twice.is_none(), "{entry:?} of database {number} has been delivered twice");
    }

    /// Reads the next chunk of each long string.
    fn read_on(&mut self) {
        for (number, mut image, mut bytes) in std::mem::take(&mut self.unread) {
            let Image::Text { key, expiry, clock, text } = &mut image else { continue };
            if text.read(&mut bytes) {
                self.unread.push((number, image, bytes));
            } else {
                self.deliver_entry(number, &Entry::string(key, &bytes, *expiry, *clock));
            }
        }
    }

    fn receive_all(&mut self, snapshot: &Snapshot) -> Contents {
        while let Some(handed) = snapshot.wait() {
            self.receive(handed);
        }
        while !self.unread.is_empty() {
            self.read_on();
        }
        std::mem::take(&mut self.delivered)
    }

    fn receive(&mut self, handed: Handed) {
        match handed {
            Handed::Images { database: number, images, .. } => {
                images.into_iter().for_each(|image| self.deliver(number, image));
            }
            Handed::Flushed(mut database) => {
                let mut found = Vec::new();
                while !database.snapshot_step(2_000, &mut |number, delivered| {
                    found.push((number, image_of(delivered)));
                    100
                }) {}
                found.into_iter().for_each(|(number, image)| self.deliver(number, image));
            }
        }
    }

    fn step(&mut self, index: usize, cost_max: usize) -> bool {
        let mut found = Vec::new();
        let is_done = {
            let mut locked = self.keyspace.lock(ShardSet::one(index));
            locked.shard_mut(index).expect("locked").snapshot_step(cost_max, &mut |number, delivered| {
                found.push((number, image_of(delivered)));
                100
            })
        };
        found.into_iter().for_each(|(number, image)| self.deliver(number, image));
        self.read_on();
        is_done
    }
}

fn image_of(delivered: Delivered<'_>) -> Image {
    match delivered {
        Delivered::Entry(entry) => Image::Entry(entry.duplicate(entry.key(), entry.expiry())),
        Delivered::Image(image) => image,
    }
}

fn run(seed: u64) {
    let mut bench = Bench::new(seed);
    for _ in 0..1_500 {
        bench.act(500);
    }
    for round in 0..4 {
        let mut locked = bench.keyspace.lock(bench.keyspace.all_shards());
        let (snapshot, totals) = locked.begin_snapshot();
        drop(locked);
        let expected = bench.contents();
        assert_eq!(totals.iter().map(|total| total.keys).sum::<u64>(), expected.len() as u64);
        let mut open: Vec<usize> = (0..bench.keyspace.shard_count()).collect();
        let (keys, acts) = (50 + bench.random(3_000), bench.random(60));
        while !open.is_empty() {
            for _ in 0..acts {
                bench.act(keys);
            }
            let at = bench.random(open.len() as u64) as usize;
            let cost_max = 1 + bench.random(4_000) as usize;
            if bench.step(open[at], cost_max) {
                open.swap_remove(at);
                snapshot.close_shard();
            }
            if bench.random(5) == 0
                && let Some(handed) = snapshot.next()
            {
                bench.receive(handed);
            }
        }
        assert!(
            bench.receive_all(&snapshot) == expected,
            "seed {seed}, round {round}: not the state of the cut"
        );
    }
}

#[test]
fn what_is_delivered_is_the_state_of_the_cut() {
    for seed in 0..3 {
        run(seed);
    }
}

#[test]
fn a_long_string_may_change_and_go_between_its_chunks() {
    let keys: [&[u8]; 3] = [b"changed", b"removed", b"stays"];
    for changed_at in 0..12 {
        let mut bench = Bench::new(changed_at);
        for key in keys {
            let entry = Entry::string(key, &vec![key[0]; CHUNK_BYTES * 3 + 5], None, 0);
            bench.on(0, key, |database, hash, _| _ = database.insert(hash, entry));
        }
        let (snapshot, _) = bench.keyspace.lock(bench.keyspace.all_shards()).begin_snapshot();
        let expected = bench.contents();
        let mut open: Vec<usize> = (0..bench.keyspace.shard_count()).collect();
        for step in 0..100 {
            if step == changed_at {
                bench.on(0, b"changed", |database, hash, _| {
                    let Lookup::Unexpired(mut entry) = database.find_unexpired(hash, b"changed", NOW_MS)
                    else {
                        return;
                    };
                    entry.text_mut().expect("a string").overwrite(CHUNK_BYTES, b"!");
                });
                bench.on(0, b"removed", |database, hash, _| drop(database.remove(hash, b"removed")));
            }
            open.retain(|&index| {
                let is_done = bench.step(index, 1);
                if is_done {
                    snapshot.close_shard();
                }
                !is_done
            });
        }
        assert!(open.is_empty(), "the walk does not end");
        assert!(
            bench.receive_all(&snapshot) == expected,
            "changed at step {changed_at}: not the state of the cut"
        );
    }
}

/// A bench with `count` keys in database 0, all with this value, and the keys.
fn with_strings(count: usize, value: &[u8]) -> (Bench, Vec<String>) {
    let mut bench = Bench::new(1);
    let keys: Vec<String> = (0..count).map(|number| format!("key:{number}")).collect();
    for key in &keys {
        let entry = Entry::string(key.as_bytes(), value, None, 0);
        bench.on(0, key.as_bytes(), |database, hash, _| _ = database.insert(hash, entry));
    }
    (bench, keys)
}

#[test]
fn who_waits_for_a_pile_is_told_while_there_is_one() {
    let (mut bench, keys) = with_strings(200, &[b'x'; 1_000]);
    let (snapshot, _) = bench.keyspace.lock(bench.keyspace.all_shards()).begin_snapshot();
    let expected = bench.contents();
    for key in &keys {
        bench.on(0, key.as_bytes(), |database, hash, _| drop(database.remove(hash, key.as_bytes())));
    }
    assert!(snapshot.wait_for_pile(BATCH_BYTES), "what was removed waits");
    for index in 0..bench.keyspace.shard_count() {
        assert!(bench.step(index, usize::MAX));
        snapshot.close_shard();
    }
    let mut taken = 0;
    while snapshot.wait_for_pile(2 * BATCH_BYTES) {
        bench.receive(snapshot.next().expect("a pile waits"));
        taken += 1;
    }
    assert!(taken >= 3, "of 200,000 bytes no more than one batch is left, but {taken} were taken");
    assert!(bench.receive_all(&snapshot) == expected, "not the state of the cut");
}

#[test]
fn who_takes_a_flushed_database_hands_over_nothing_more() {
    let (mut bench, keys) = with_strings(100, b"value");
    let (snapshot, _) = bench.keyspace.lock(bench.keyspace.all_shards()).begin_snapshot();
    let expected = bench.contents();
    for key in &keys[..20] {
        bench.on(0, key.as_bytes(), |database, hash, _| drop(database.remove(hash, key.as_bytes())));
    }
    for index in 0..bench.keyspace.shard_count() {
        let mut locked = bench.keyspace.lock(ShardSet::one(index));
        drop(locked.shard_mut(index).expect("locked").databases[0].take());
        drop(locked);
        assert!(bench.step(index, usize::MAX));
        snapshot.close_shard();
    }
    let handed: Vec<Handed> = std::iter::from_fn(|| snapshot.next()).collect();
    handed.into_iter().for_each(|handed| bench.receive(handed));
    assert!(snapshot.next().is_none(), "nobody may be left who would take it");
    assert!(bench.receive_all(&snapshot) == expected, "not the state of the cut");
}
