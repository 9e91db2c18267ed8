//! What producers have sent: the identifiers with which they named entries, so that what is sent twice is
//! added once (XADD with IDMP and IDMPAUTO).
//!
//! A name is known for as long as the limits of the stream say, counted from the time in its entry's
//! identifier, and while it is among the newest of its producer. That the entry is gone does not matter.
//!
//! Looking a name up, adding and forgetting one is O(log n) for n producers and names of a producer. A clone
//! is O(1); a change while it lives copies the list of one producer, which the limits bound. A name takes
//! about 32 bytes and its text, with 16 more where a producer has many; a producer about 200.
//!
//! Invariants: no producer is without names; `ages` has for each the identifier of the name that it sent
//! first among those it has; `names_len` and `bytes` are the sums over all producers.

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use mantissa_memory::CowMap;

use super::StreamId;
use super::id_map::RunMap;
use crate::seed;

/// From so many names on a producer has an index of them.
const INDEXED_MIN: usize = 17;
/// Bytes of a producer beside its name and what it sent: its place in the tree and the two indexes.
const PRODUCER_BYTES: usize = size_of::<Producer>() + 16 + 100;
/// Bytes of a name beside its text.
const NAME_BYTES: usize = size_of::<Sent>() + 16;
/// The same of a name in an index.
const INDEXED_NAME_BYTES: usize = NAME_BYTES + 12;

/// Why every number has its producer.
const NUMBERED: &str = "producers and their indexes change together";

/// Whether any stream has had producers since the process began.
static HAVE_BEEN: AtomicBool = AtomicBool::new(false);

/// How long names are known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProducerLimits {
    /// Seconds since the entry was added.
    pub duration_s: u32,
    /// The most names of a producer.
    pub names_max: u32,
}

impl ProducerLimits {
    /// Those of a server that was told nothing else.
    pub const USUAL: ProducerLimits = ProducerLimits { duration_s: 100, names_max: 100 };

    /// The latest time in an identifier whose name is not known any more at `now_ms`, if there is one.
    fn forgotten_ms(self, now_ms: i64) -> Option<u64> {
        u64::try_from(now_ms.checked_sub(1000 * i64::from(self.duration_s))?).ok()
    }

    /// Whether the name of an entry is known at a time.
    fn knows(self, id: StreamId, now_ms: i64) -> bool {
        self.forgotten_ms(now_ms).is_none_or(|time| id.ms > time)
    }
}

impl Default for ProducerLimits {
    fn default() -> Self {
        ProducerLimits::USUAL
    }
}

/// All producers of a stream.
#[derive(Clone, Default, Debug)]
pub struct Producers {
    limits: ProducerLimits,
    /// How many names were ever added.
    pub added: u64,
    /// How often a known name was sent again.
    pub duplicates: u64,
    all: CowMap<u64, Arc<Producer>>,
    /// The numbers of producers by the hashes of their names.
    numbers: RunMap<(u64, u64), ()>,
    ages: RunMap<(StreamId, u64), ()>,
    names_len: usize,
    bytes: usize,
    /// The number of the next producer.
    next: u64,
    /// The time under which the stream is on the list of those that have something to forget.
    pub(crate) listed: Option<i64>,
}

/// One producer, with the names that it has sent, in that order.
#[derive(Clone, Debug)]
pub struct Producer {
    name: Box<[u8]>,
    sent: VecDeque<Sent>,
    /// The number of the first name that is there: they are counted, and it wraps around.
    first: u32,
    /// The numbers of the names by their hashes, where there are many.
    places: Option<Box<RunMap<(u32, u32), ()>>>,
    text_bytes: usize,
}

/// A name and the entry that it was given to.
#[derive(Clone, Debug)]
pub struct Sent {
    /// The entry.
    pub id: StreamId,
    /// The name.
    pub name: Arc<[u8]>,
}

/// A hash that clients can not foresee.
fn hash_of(name: &[u8]) -> u64 {
    static SEED: LazyLock<foldhash::quality::SeedableRandomState> = LazyLock::new(seed::quality);
    let mut hasher = SEED.build_hasher();
    hasher.write(name);
    hasher.finish()
}

impl Producer {
    fn new(name: &[u8]) -> Self {
        Producer { name: name.into(), sent: VecDeque::new(), first: 0, places: None, text_bytes: 0 }
    }

    /// Its name.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// What it has sent, in that order.
    pub fn sent(&self) -> impl ExactSizeIterator<Item = &Sent> {
        self.sent.iter()
    }

    fn oldest(&self) -> Option<StreamId> {
        self.sent.front().map(|sent| sent.id)
    }

    /// Where a name is.
    fn place(&self, name: &[u8]) -> Option<usize> {
        let is_at = |place: usize| self.sent.get(place).is_some_and(|sent| *sent.name == *name);
        let Some(places) = &self.places else {
            return (0..self.sent.len()).find(|place| is_at(*place));
        };
        let hash = hash_of(name) as u32;
        let numbers = places.span((hash, 0), (hash, u32::MAX));
        numbers.map(|((_, number), ())| number.wrapping_sub(self.first) as usize).find(|place| is_at(*place))
    }

    fn push(&mut self, sent: Sent) {
        if self.sent.len() == self.sent.capacity() {
            self.sent.reserve_exact(self.sent.len().max(1));
        }
        self.text_bytes += sent.name.len();
        if let Some(places) = &mut self.places {
            let number = self.first.wrapping_add(self.sent.len() as u32);
            places.insert((hash_of(&sent.name) as u32, number), ());
        }
        self.sent.push_back(sent);
        if self.places.is_none() && self.sent.len() >= INDEXED_MIN {
            self.index();
        }
    }

    fn index(&mut self) {
        let mut places = RunMap::default();
        for (place, sent) in self.sent.iter().enumerate() {
            places.insert((hash_of(&sent.name) as u32, self.first.wrapping_add(place as u32)), ());
        }
        self.places = Some(Box::new(places));
    }

    fn pop(&mut self) {
        let Some(sent) = self.sent.pop_front() else { return };
        self.text_bytes -= sent.name.len();
        if let Some(places) = &mut self.places {
            places.remove((hash_of(&sent.name) as u32, self.first));
        }
        self.first = self.first.wrapping_add(1);
        if self.sent.len() < INDEXED_MIN / 2 {
            self.places = None;
        }
        if self.sent.len() < self.sent.capacity() / 4 {
            self.sent.shrink_to(2 * self.sent.len());
        }
    }

    /// Takes a name out. O(names), which are bounded.
    fn remove(&mut self, place: usize) {
        let Some(sent) = self.sent.remove(place) else { return };
        self.text_bytes -= sent.name.len();
        if self.places.is_some() {
            self.index();
        }
    }

    fn bytes(&self) -> usize {
        let name_bytes = if self.places.is_some() { INDEXED_NAME_BYTES } else { NAME_BYTES };
        PRODUCER_BYTES + self.name.len() + self.sent.len() * name_bytes + self.text_bytes
    }
}

impl Producers {
    /// None yet.
    pub fn new(limits: ProducerLimits) -> Self {
        HAVE_BEEN.store(true, Ordering::Relaxed);
        Producers { limits, ..Producers::default() }
    }

    /// Whether any stream has had producers since the process began.
    pub fn have_been() -> bool {
        HAVE_BEEN.load(Ordering::Relaxed)
    }

    /// Whether the stream is on the list of those that have something to forget.
    pub fn is_listed(&self) -> bool {
        self.listed.is_some()
    }

    /// How long names are known.
    pub fn limits(&self) -> ProducerLimits {
        self.limits
    }

    /// Whether a stream is the same without it.
    pub fn is_usual(&self) -> bool {
        self.limits == ProducerLimits::USUAL && self.all.is_empty() && (self.added, self.duplicates) == (0, 0)
    }

    /// The producers, in the order in which they came.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Producer> {
        self.all.iter().map(|producer| &**producer)
    }

    /// All names, known or not.
    pub fn names_len(&self) -> usize {
        self.names_len
    }

    /// How many producers have names that are known at `now_ms`, a Unix time in ms, and how many names these
    /// are. Linear in the names that are not known any more.
    pub fn known(&self, now_ms: i64) -> (usize, usize) {
        let (mut producers, mut names) = (self.all.len(), self.names_len);
        for ((oldest, number), ()) in self.ages.iter() {
            if self.limits.knows(oldest, now_ms) {
                break;
            }
            let Some(producer) = self.producer(number) else { break };
            let forgotten =
                producer.sent.iter().take_while(|sent| !self.limits.knows(sent.id, now_ms)).count();
            names -= forgotten;
            producers -= usize::from(forgotten == producer.sent.len());
        }
        (producers, names)
    }

    /// The entry for which a producer has used a name that is known at `now_ms`, a Unix time in ms.
    pub fn find(&self, producer: &[u8], name: &[u8], now_ms: i64) -> Option<StreamId> {
        let producer = self.producer(self.number(producer)?)?;
        let sent = producer.sent.get(producer.place(name)?)?;
        Some(sent.id).filter(|id| self.limits.knows(*id, now_ms))
    }

    /// Notes that a producer has used a name for an entry. The oldest names beyond the limit go, and this one
    /// where it was used before.
    pub fn note(&mut self, producer: &[u8], name: &[u8], id: StreamId) {
        let number = self.number_or_new(producer);
        let names_max = self.limits.names_max as usize;
        self.change(number, |producer| {
            if let Some(place) = producer.place(name) {
                producer.remove(place);
            }
            producer.push(Sent { id, name: name.into() });
            while producer.sent.len() > names_max {
                producer.pop();
            }
        });
        self.added = self.added.wrapping_add(1);
    }

    /// Adds a name from a file. False, and nothing done, where the producer has it.
    pub fn load(&mut self, producer: &[u8], name: &[u8], id: StreamId) -> bool {
        let number = self.number_or_new(producer);
        self.change(number, |producer| {
            let is_new = producer.place(name).is_none();
            if is_new {
                producer.push(Sent { id, name: name.into() });
            }
            is_new
        })
    }

    /// Forgets up to `max` names that are not known any more at `now_ms`, a Unix time in ms, and returns how
    /// many those were.
    pub fn forget(&mut self, now_ms: i64, max: usize) -> usize {
        let limits = self.limits;
        let mut count = 0;
        while count < max {
            let Some(((oldest, number), ())) = self.ages.iter().next() else { break };
            if limits.knows(oldest, now_ms) {
                break;
            }
            self.change(number, |producer| {
                while count < max && producer.oldest().is_some_and(|id| !limits.knows(id, now_ms)) {
                    producer.pop();
                    count += 1;
                }
            });
        }
        count
    }

    /// When the next name is to be forgotten, a Unix time in ms.
    pub(crate) fn next_forgotten_ms(&self) -> Option<i64> {
        let ((oldest, _), ()) = self.ages.iter().next()?;
        let oldest_ms = i64::try_from(oldest.ms).unwrap_or(i64::MAX);
        Some(oldest_ms.saturating_add(1000 * i64::from(self.limits.duration_s)))
    }

    /// Sets the limits and forgets all names. Returns what is to be freed.
    pub(super) fn begin_anew(&mut self, limits: ProducerLimits) -> Producers {
        let (added, duplicates, listed) = (self.added, self.duplicates, self.listed);
        std::mem::replace(self, Producers { limits, added, duplicates, listed, ..Producers::default() })
    }

    /// Bytes taken, about.
    pub fn memory_usage(&self) -> usize {
        size_of::<Self>() + self.bytes
    }

    fn producer(&self, number: u64) -> Option<&Producer> {
        self.all.between(number, number).next().map(|producer| &**producer)
    }

    /// The number of the producer of that name.
    fn number(&self, name: &[u8]) -> Option<u64> {
        let hash = hash_of(name);
        let numbers = self.numbers.span((hash, 0), (hash, u64::MAX)).map(|((_, number), ())| number);
        { numbers }.find(|number| self.producer(*number).is_some_and(|producer| *producer.name == *name))
    }

    /// The same of one that may be new. It has to be given a name at once.
    fn number_or_new(&mut self, name: &[u8]) -> u64 {
        if let Some(number) = self.number(name) {
            return number;
        }
        let number = self.next;
        self.next += 1;
        let producer = Producer::new(name);
        self.bytes += producer.bytes();
        self.all.push(number, Arc::new(producer));
        self.numbers.insert((hash_of(name), number), ());
        number
    }

    /// Changes the names of a producer. It goes if none is left.
    fn change<R>(&mut self, number: u64, work: impl FnOnce(&mut Producer) -> R) -> R {
        let producer = self.all.floor_mut(number).expect(NUMBERED);
        let producer = Arc::make_mut(producer);
        let (oldest, names, bytes) = (producer.oldest(), producer.sent.len(), producer.bytes());
        let result = work(producer);
        self.names_len = self.names_len - names + producer.sent.len();
        self.bytes = self.bytes - bytes + producer.bytes();
        let oldest_after = producer.oldest();
        if oldest_after == oldest {
            return result;
        }
        if let Some(oldest) = oldest {
            self.ages.remove((oldest, number));
        }
        match oldest_after {
            Some(oldest) => drop(self.ages.insert((oldest, number), ())),
            None => {
                self.bytes -= producer.bytes();
                let hash = hash_of(&producer.name);
                self.numbers.remove((hash, number));
                self.all.remove_floor(number);
            }
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_random::Random;

    /// What is known of each producer: names in the order in which they were sent.
    type Model = Vec<(Vec<u8>, Vec<(Vec<u8>, StreamId)>)>;

    fn names_of(model: &mut Model, producer: &[u8]) -> usize {
        if let Some(at) = model.iter().position(|(name, _)| name == producer) {
            return at;
        }
        model.push((producer.to_vec(), Vec::new()));
        model.len() - 1
    }

    fn check(producers: &Producers, model: &Model, now_ms: i64) {
        let limits = producers.limits();
        let parts = producers.iter().map(|producer| {
            let names = producer.sent().map(|sent| (sent.name.to_vec(), sent.id));
            (producer.name().to_vec(), names.collect::<Vec<_>>())
        });
        let (mut found, mut expected): (Model, Model) = (parts.collect(), model.clone());
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
        assert_eq!(producers.names_len(), model.iter().map(|(_, names)| names.len()).sum());
        let known =
            |names: &[(Vec<u8>, StreamId)]| names.iter().filter(|(_, id)| limits.knows(*id, now_ms)).count();
        let counts = model.iter().map(|(_, names)| known(names)).filter(|count| *count > 0);
        assert_eq!(producers.known(now_ms), (counts.clone().count(), counts.sum()));
        let bytes: usize = producers.iter().map(Producer::bytes).sum();
        assert_eq!(producers.memory_usage(), size_of::<Producers>() + bytes);
        let oldest = producers.iter().filter_map(Producer::oldest).min();
        assert_eq!(producers.ages.iter().next().map(|((id, _), ())| id), oldest);
        assert_eq!((producers.ages.len(), producers.numbers.len()), (model.len(), model.len()));
    }

    #[test]
    fn names_are_those_of_a_plain_list_and_clones_keep_theirs() {
        for (seed, names_max) in [(3, 1), (5, 7), (7, 40), (11, 300)] {
            let mut random = Random::new(seed);
            let limits = ProducerLimits { duration_s: 2, names_max };
            let mut producers = Producers::new(limits);
            let mut model = Model::new();
            let mut kept: Option<(Producers, Model, i64)> = None;
            let mut now_ms = 1_000_000;
            for round in 0..20_000u64 {
                now_ms += (random.next() % 20) as i64;
                let producer =
                    format!("producer {}", random.next() % if round % 5000 < 2500 { 3 } else { 400 });
                let name = format!("name {}", random.next() % 500).into_bytes();
                let at = names_of(&mut model, producer.as_bytes());
                let names = &mut model[at].1;
                let expected = names.iter().find(|(known, id)| *known == name && limits.knows(*id, now_ms));
                let found = producers.find(producer.as_bytes(), &name, now_ms);
                assert_eq!(found, expected.map(|(_, id)| *id));
                if found.is_none() {
                    let id = StreamId { ms: now_ms as u64, seq: round };
                    producers.note(producer.as_bytes(), &name, id);
                    names.retain(|(known, _)| *known != name);
                    names.push((name, id));
                    names.drain(..names.len().saturating_sub(names_max as usize));
                }
                if random.next().is_multiple_of(8) {
                    let most = if random.next().is_multiple_of(2) { usize::MAX } else { 3 };
                    let forgotten = producers.forget(now_ms, most);
                    if most == usize::MAX {
                        model
                            .iter_mut()
                            .for_each(|(_, names)| names.retain(|(_, id)| limits.knows(*id, now_ms)));
                    } else {
                        let known = |sent: &Sent| sent.name.to_vec();
                        let left: Vec<(Vec<u8>, Vec<_>)> = producers
                            .iter()
                            .map(|one| (one.name().into(), one.sent().map(known).collect()))
                            .collect();
                        let before: usize = model.iter().map(|(_, names)| names.len()).sum();
                        for (name, names) in &mut model {
                            let left = left.iter().find(|(other, _)| other == name);
                            names.retain(|(name, _)| left.is_some_and(|(_, left)| left.contains(name)));
                        }
                        let after: usize = model.iter().map(|(_, names)| names.len()).sum();
                        assert_eq!(before - after, forgotten);
                    }
                }
                model.retain(|(_, names)| !names.is_empty());
                if round % 97 == 0 {
                    check(&producers, &model, now_ms);
                    if let Some((producers, model, now_ms)) =
                        kept.replace((producers.clone(), model.clone(), now_ms))
                    {
                        check(&producers, &model, now_ms);
                    }
                }
            }
            now_ms += 10_000;
            producers.forget(now_ms, usize::MAX);
            check(&producers, &Model::new(), now_ms);
            assert_eq!(producers.memory_usage(), size_of::<Producers>());
        }
    }

    #[test]
    fn a_name_from_a_file_is_there_once() {
        let mut producers = Producers::new(ProducerLimits::USUAL);
        assert!(producers.is_usual());
        let id = StreamId { ms: 5, seq: 0 };
        assert!(producers.load(b"a", b"x", id) && producers.load(b"b", b"x", id));
        assert!(!producers.load(b"a", b"x", StreamId { ms: 6, seq: 0 }));
        assert_eq!((producers.names_len(), producers.added), (2, 0));
        assert!(!producers.is_usual());
        assert_eq!(producers.next_forgotten_ms(), Some(100_005));
    }
}
