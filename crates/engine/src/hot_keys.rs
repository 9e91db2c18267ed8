//! The keys that are used most, estimated from samples.
//!
//! One in [`SAMPLED`] commands notes one of its keys, in a sketch of the worker's own: [`PLACES`] counters,
//! of which a new key takes the lowest over together with its count (Space-Saving, of Ahmed Metwally,
//! Divyakant Agrawal and Amr El Abbadi). A key with more than `1 / PLACES` of a worker's accesses is always
//! among them. Counts are halved every [`HALVING_MS`], so that they tell of the last half minute.
//!
//! It is always on. It costs 4 ns of processor time for a command on average, where no key is hot; the sketch
//! of a worker takes some 10 KB, with the keys of up to [`KEY_BYTES_MAX`] bytes that it names.

use std::collections::HashMap;

use parking_lot::Mutex;

/// Commands for each one that is sampled, on average.
const SAMPLED: u32 = 128;
/// Counters of a sketch.
const PLACES: usize = 128;
/// Longer keys are not noted.
const KEY_BYTES_MAX: usize = 1024;
/// How often counts are halved.
const HALVING_MS: i64 = 8_000;

/// Chooses the commands of a worker that are sampled.
pub struct Sampler {
    left: u32,
}

impl Default for Sampler {
    fn default() -> Self {
        Sampler { left: SAMPLED }
    }
}

impl Sampler {
    /// Whether the present command is to be noted. The distances vary, so that commands that come in a fixed
    /// order have the same chance each.
    #[inline]
    pub fn is_chosen(&mut self, random_state: &mut u64) -> bool {
        self.left -= 1;
        self.left == 0 && {
            *random_state =
                random_state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            self.left = 1 + (*random_state >> 33) as u32 % (2 * SAMPLED - 1);
            true
        }
    }
}

/// A key with the share that it has.
#[derive(Clone, Debug, PartialEq)]
pub struct HotKey {
    /// Its database.
    pub database: usize,
    /// The key.
    pub key: Box<[u8]>,
    /// Accesses per second, an estimate.
    pub per_second: f64,
}

/// The sketches of all workers.
pub struct HotKeys(Box<[Mutex<Sketch>]>);

impl HotKeys {
    /// Empty, with a part for each thread.
    pub fn new(thread_count: usize) -> Self {
        HotKeys((0..thread_count).map(|_| Mutex::default()).collect())
    }

    /// The keys that are used most, at most `count`, the first of them first.
    pub fn hottest(&self, now_ms: i64, count: usize) -> Vec<HotKey> {
        let mut rates: HashMap<(usize, Box<[u8]>), f64> = HashMap::new();
        for sketch in &self.0 {
            let mut sketch = sketch.lock();
            sketch.age(now_ms);
            let seconds = sketch.window_ms(now_ms) / 1000.0;
            for (place, &count) in sketch.places.iter().zip(&sketch.counts) {
                // What a key took over from another is no access of its own.
                let accesses = f64::from(SAMPLED) * f64::from(count - place.taken_over);
                *rates.entry((place.database, place.key.as_slice().into())).or_default() +=
                    accesses / seconds;
            }
        }
        let keys =
            rates.into_iter().map(|((database, key), per_second)| HotKey { database, key, per_second });
        let mut keys: Vec<_> = keys.filter(|key| key.per_second > 0.0).collect();
        keys.sort_by(|one, other| other.per_second.total_cmp(&one.per_second).then(one.key.cmp(&other.key)));
        keys.truncate(count);
        keys
    }

    /// Notes a key that a command of this worker has used, with its hash and database. `weight` is the number
    /// of keys that it stands for.
    pub fn note(&self, worker: usize, key: (u64, usize, &[u8]), weight: f32, now_ms: i64) {
        if let Some(sketch) = self.0.get(worker).filter(|_| key.2.len() <= KEY_BYTES_MAX) {
            sketch.lock().count(key, weight, now_ms);
        }
    }

    /// Forgets everything.
    pub fn reset(&self) {
        self.0.iter().for_each(|sketch| *sketch.lock() = Sketch::default());
    }
}

/// What a sketch knows of a key beside its hash and count.
struct Place {
    database: usize,
    key: Vec<u8>,
    /// The part of the count that was another key's.
    taken_over: f32,
}

/// Hashes and counts lie apart from the rest: they are all that most samples look at.
#[derive(Default)]
struct Sketch {
    hashes: Vec<u64>,
    counts: Vec<f32>,
    places: Vec<Place>,
    /// When counting began, or the counts were last halved; 0 before.
    since_ms: i64,
    /// The time before that, halved as often as the counts of then.
    before_ms: f64,
}

impl Sketch {
    fn count(&mut self, (hash, database, key): (u64, usize, &[u8]), weight: f32, now_ms: i64) {
        self.age(now_ms);
        if let Some(at) = position(&self.hashes, hash) {
            self.counts[at] += weight;
            return;
        }
        if self.places.len() < PLACES {
            self.hashes.push(hash);
            self.counts.push(weight);
            return self.places.push(Place { database, key: key.into(), taken_over: 0.0 });
        }
        let lowest = self.counts.iter().copied().fold(f32::INFINITY, f32::min);
        let Some(at) = self.counts.iter().position(|&count| count == lowest) else { return };
        self.hashes[at] = hash;
        self.counts[at] = lowest + weight;
        let place = &mut self.places[at];
        (place.database, place.taken_over) = (database, lowest);
        place.key.clear();
        place.key.extend_from_slice(key);
    }

    fn age(&mut self, now_ms: i64) {
        if self.since_ms == 0 {
            self.since_ms = now_ms;
        }
        while now_ms - self.since_ms >= HALVING_MS {
            self.before_ms = (self.before_ms + HALVING_MS as f64) / 2.0;
            self.since_ms += HALVING_MS;
            for at in (0..self.places.len()).rev() {
                self.counts[at] /= 2.0;
                self.places[at].taken_over /= 2.0;
                if self.counts[at] < 0.25 {
                    self.hashes.swap_remove(at);
                    self.counts.swap_remove(at);
                    self.places.swap_remove(at);
                }
            }
            if self.places.is_empty() {
                *self = Sketch { since_ms: now_ms, ..Sketch::default() };
            }
        }
    }

    /// The time that the counts cover, in ms, halved like the counts.
    fn window_ms(&self, now_ms: i64) -> f64 {
        (self.before_ms + (now_ms - self.since_ms) as f64).max(1000.0)
    }
}

/// Where a hash is, looked for eight at a time.
fn position(hashes: &[u64], hash: u64) -> Option<usize> {
    let found = |part: &[u64]| part.iter().fold(false, |found, &other| found | (other == hash));
    let part = hashes.chunks(8).position(found)?;
    let first = 8 * part;
    hashes[first..].iter().position(|&other| other == hash).map(|at| first + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequent_keys_are_kept_among_many_others_and_fade() {
        let mut sketch = Sketch::default();
        let mut state = 1_u64;
        for number in 0..20_000_u64 {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            let hash = if number % 20 == 0 { 7 } else { 100 + (state >> 40) };
            sketch.count((hash, 0, &hash.to_le_bytes()), 1.0, 1_000 + number as i64 / 10);
        }
        let hot = position(&sketch.hashes, 7).expect("one in twenty");
        let (count, taken_over) = (sketch.counts[hot], sketch.places[hot].taken_over);
        assert!(count - taken_over > 900.0 && count <= 1_200.0);
        assert!(sketch.places.len() <= PLACES);
        sketch.age(1_000_000);
        assert!(sketch.places.is_empty());
    }

    #[test]
    fn one_in_so_many_is_sampled() {
        let (mut sampler, mut state) = (Sampler::default(), 3);
        let chosen = (0..1_280_000).filter(|_| sampler.is_chosen(&mut state)).count();
        assert!((9_000..11_000).contains(&chosen), "{chosen}");
    }
}
