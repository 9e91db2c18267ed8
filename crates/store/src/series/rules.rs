//! Compaction: what a series (the source) keeps of buckets of its samples in other series (the destinations).
//!
//! A rule has the bucket under way: where it starts, and what its samples have come to since the rule was
//! made. A sample of a later bucket closes it. A sample in between, or a deletion, makes the values of its
//! bucket anew from the samples that are there. A write to a source returns what is to be done with
//! destinations; the caller has these.
//!
//! A link holds if both ends have it: a rule names its destination, and the destination names its source. One
//! that does not, because a key has gone or is another series now, is as if it were not there.
//!
//! A write costs O(rules), one that is not the latest the samples of its buckets as well.

use super::{Aggregation, Aggregator, DuplicatePolicy, Refusal, Sample, Series, bucket_start, class_size};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether any series has ever had a link.
static ARE_THERE_LINKS: AtomicBool = AtomicBool::new(false);

/// Whether any series of this process has, or has had, a link to another. Never false again once it is true.
/// With the shard of a series locked, the answer takes its links into account.
pub fn are_there_links() -> bool {
    ARE_THERE_LINKS.load(Ordering::Relaxed)
}

/// Links are to come, of which nothing is known yet.
pub fn expect_links() {
    ARE_THERE_LINKS.store(true, Ordering::Relaxed);
}

/// A key.
type Key = Box<[u8]>;

/// What a series has to do with others.
#[derive(Clone, Debug, Default)]
pub(super) struct Links {
    source: Option<Key>,
    rules: Vec<Rule>,
}

impl Links {
    pub(super) fn memory_usage(&self) -> usize {
        let rules = self.rules.iter().map(|rule| class_size(rule.destination.len()));
        class_size(size_of::<Links>())
            + class_size(self.rules.capacity() * size_of::<Rule>())
            + class_size(self.source.as_ref().map_or(0, |key| key.len()))
            + rules.sum::<usize>()
    }
}

/// What becomes of the samples of a source in one destination.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The key of the destination.
    pub destination: Key,
    /// What makes the value of a bucket.
    pub aggregation: Aggregation,
    /// The length of a bucket, above 0.
    pub duration: i64,
    /// Where one starts.
    pub align: u64,
    /// The start of the bucket under way.
    pub start: Option<u64>,
    state: State,
}

/// What is to be done with a destination.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Its key.
    pub destination: Key,
    /// What.
    pub update: Update,
}

/// What is to be done with a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Update {
    /// A bucket is over: its value is added, as the last one of its time.
    Close(Sample),
    /// A bucket that was over has another value.
    Replace(Sample),
    /// Samples from one time to another are removed.
    Remove(u64, u64),
}

/// Words of a rule's state.
pub const STATE_WORDS: usize = 18;

/// What the samples of a bucket have come to.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    sums: Aggregator,
    over_time: OverTime,
}

/// The integral of the lines between samples of a bucket.
#[derive(Clone, Copy, Debug)]
struct OverTime {
    area: f64,
    /// The latest sample, at first that before the bucket if there is one.
    previous: Sample,
    /// The bucket's first time, and the first one after it.
    bucket: (u64, u64),
    /// The times between which the area is.
    span: (u64, u64),
    /// No sample is known from before the bucket.
    is_first: bool,
    /// The number of samples.
    count: u64,
}

impl Default for OverTime {
    fn default() -> Self {
        let previous = Sample { time: 0, value: 0.0 };
        OverTime { area: 0.0, previous, bucket: (0, 0), span: (0, 0), is_first: true, count: 0 }
    }
}

/// The value at a time of the line through two samples.
fn between(one: Sample, other: Sample, time: u64) -> f64 {
    let part = time.wrapping_sub(one.time).cast_signed() as f64 / other.time.wrapping_sub(one.time) as f64;
    one.value + part * (other.value - one.value)
}

impl OverTime {
    fn add_area(&mut self, from: Sample, to: Sample) {
        self.area += (from.value + to.value) * to.time.wrapping_sub(from.time).cast_signed() as f64 / 2.0;
    }

    fn add(&mut self, sample: Sample) {
        if self.count > 0 {
            self.add_area(self.previous, sample);
        } else if self.is_first {
            self.span.0 = sample.time;
        } else {
            let start = self.bucket.0;
            let value = between(self.previous, sample, start);
            self.add_area(Sample { time: start, value }, sample);
            self.span.0 = start;
        }
        self.count = self.count.saturating_add(1);
        self.previous = sample;
        self.span.1 = sample.time;
    }

    /// Adds the line to the first sample after the bucket.
    fn add_next(&mut self, sample: Sample) {
        let end = self.bucket.1;
        let value = between(self.previous, sample, end);
        self.add_area(self.previous, Sample { time: end, value });
        self.span.1 = end;
    }

    fn value(&self) -> f64 {
        let (from, to) = self.span;
        if self.count == 0 {
            return f64::NAN;
        }
        if from == to { self.previous.value } else { self.area / to.wrapping_sub(from) as f64 }
    }
}

impl State {
    fn add(&mut self, sample: Sample) {
        self.sums.add(sample.value);
        if !sample.value.is_nan() {
            self.over_time.add(sample);
        }
    }

    fn value(&self, aggregation: Aggregation) -> f64 {
        match aggregation {
            Aggregation::Twa => self.over_time.value(),
            _ => self.sums.value(aggregation),
        }
    }

    /// That of a bucket which begins after a sample, if there is one.
    fn of_bucket(bucket: (u64, u64), previous: Option<Sample>) -> State {
        let mut over_time = OverTime { bucket, is_first: previous.is_none(), ..OverTime::default() };
        over_time.previous = previous.unwrap_or(over_time.previous);
        State { sums: Aggregator::default(), over_time }
    }
}

/// A number of a rule's state as files have it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Part {
    /// A double.
    Double(f64),
    /// An unsigned integer.
    Integer(u64),
}

impl Part {
    fn double(self) -> f64 {
        match self {
            Part::Double(value) => value,
            Part::Integer(value) => value as f64,
        }
    }

    fn integer(self) -> u64 {
        match self {
            Part::Double(_) => 0,
            Part::Integer(value) => value,
        }
    }
}

impl Rule {
    /// A rule without a bucket under way.
    pub fn new(destination: &[u8], aggregation: Aggregation, duration: i64, align: u64) -> Rule {
        Rule {
            destination: destination.into(),
            aggregation,
            duration,
            align,
            start: None,
            state: State::default(),
        }
    }

    /// The bucket of a time: its first time and the first one after it.
    fn bucket_of(&self, time: u64) -> (u64, u64) {
        let start = bucket_start(time, self.duration, self.align);
        let end = start.wrapping_add(self.duration).cast_unsigned();
        (start.max(0).cast_unsigned(), end)
    }

    /// The value of the bucket under way.
    pub fn open(&self) -> Option<Sample> {
        Some(Sample { time: self.start?, value: self.state.value(self.aggregation) })
    }

    /// The state, as files have it.
    pub fn parts(&self) -> Vec<Part> {
        use Part::{Double, Integer};
        let (sums, over_time) = (&self.state.sums, &self.state.over_time);
        let known = |value: f64| if value.is_nan() { 0.0 } else { value };
        match self.aggregation {
            Aggregation::Min | Aggregation::Max | Aggregation::Range => {
                vec![Double(sums.max.max(f64::MIN)), Double(sums.min.min(f64::MAX))]
            }
            Aggregation::Sum => vec![Double(sums.sum)],
            Aggregation::Count => vec![Double(sums.count)],
            Aggregation::CountNan => vec![Double(sums.nans)],
            Aggregation::CountAll => vec![Double(sums.count + sums.nans)],
            Aggregation::Last => vec![Double(known(sums.last))],
            Aggregation::First => vec![Double(known(sums.first)), Integer(u64::from(sums.count == 0.0))],
            Aggregation::Avg => vec![
                Double(sums.mean.unwrap_or(sums.sum)),
                Double(sums.count),
                Integer(u64::from(sums.mean.is_some())),
            ],
            Aggregation::StdP | Aggregation::StdS | Aggregation::VarP | Aggregation::VarS => {
                vec![Double(sums.sum), Double(sums.squares), Integer(sums.count as u64)]
            }
            Aggregation::Twa => vec![
                Double(over_time.area),
                Integer(over_time.previous.time),
                Double(over_time.previous.value),
                Integer(over_time.bucket.0),
                Integer(over_time.bucket.1),
                Integer(over_time.span.0),
                Integer(over_time.span.1),
                Integer(u64::from(over_time.is_first)),
                Integer(over_time.count),
                Integer(0),
            ],
        }
    }

    /// The whole state, of which files have what its aggregation needs with numbers alone.
    pub fn state(&self) -> [u64; STATE_WORDS] {
        let State { sums, over_time } = self.state;
        let OverTime { area, previous, bucket, span, is_first, count } = over_time;
        let mean = sums.mean.unwrap_or_default();
        let doubles = [sums.count, sums.nans, sums.sum, sums.squares, mean, sums.min, sums.max];
        let doubles = doubles.into_iter().chain([sums.first, sums.last, area, previous.value]);
        let flags = u64::from(sums.mean.is_some()) | u64::from(is_first) << 1;
        let others = [previous.time, bucket.0, bucket.1, span.0, span.1, count, flags];
        let mut words = [0; STATE_WORDS];
        words.iter_mut().zip(doubles.map(f64::to_bits).chain(others)).for_each(|(word, value)| *word = value);
        words
    }

    /// Takes the state that [`Rule::state`] tells.
    pub fn set_state(&mut self, words: [u64; STATE_WORDS]) {
        let [count, nans, sum, squares, mean, min, max, first, last, area, value, others @ ..] = words;
        let [time, start, end, from, to, samples, flags] = others;
        let [count, nans, sum, squares, mean, min, max] =
            [count, nans, sum, squares, mean, min, max].map(f64::from_bits);
        let [first, last, area, value] = [first, last, area, value].map(f64::from_bits);
        let mean = (flags & 1 != 0).then_some(mean);
        let over_time = OverTime {
            area,
            previous: Sample { time, value },
            bucket: (start, end),
            span: (from, to),
            is_first: flags & 2 != 0,
            count: samples,
        };
        let sums = Aggregator { count, nans, sum, squares, mean, min, max, first, last };
        self.state = State { sums, over_time };
    }

    /// Takes the state from parts of the same kinds as [`Rule::parts`] has.
    pub fn set_parts(&mut self, parts: &[Part]) {
        let mut state = State::default();
        let (sums, over_time) = (&mut state.sums, &mut state.over_time);
        match (self.aggregation, parts) {
            (Aggregation::Min | Aggregation::Max | Aggregation::Range, [max, min]) => {
                let (max, min) = (max.double(), min.double());
                sums.max = if max == f64::MIN { f64::NEG_INFINITY } else { max };
                sums.min = if min == f64::MAX { f64::INFINITY } else { min };
            }
            (Aggregation::Sum, [sum]) => sums.sum = sum.double(),
            (Aggregation::Count | Aggregation::CountAll, [count]) => sums.count = count.double(),
            (Aggregation::CountNan, [count]) => sums.nans = count.double(),
            (Aggregation::Last, [last]) => sums.last = last.double(),
            (Aggregation::First, [first, is_empty]) => {
                (sums.first, sums.count) = (first.double(), f64::from(is_empty.integer() == 0));
            }
            (Aggregation::Avg, [value, count, has_overflowed]) => {
                sums.count = count.double();
                if has_overflowed.integer() == 0 {
                    sums.sum = value.double();
                } else {
                    sums.mean = Some(value.double());
                }
            }
            (Aggregation::Twa, [area, time, value, start, end, from, to, is_first, count, _]) => {
                *over_time = OverTime {
                    area: area.double(),
                    previous: Sample { time: time.integer(), value: value.double() },
                    bucket: (start.integer(), end.integer()),
                    span: (from.integer(), to.integer()),
                    is_first: is_first.integer() != 0,
                    count: count.integer(),
                };
            }
            (_, [sum, squares, count]) => {
                (sums.sum, sums.squares) = (sum.double(), squares.double());
                sums.count = count.integer() as f64;
            }
            _ => {}
        }
        self.state = state;
    }

    /// Adds a sample that is later than all of the source.
    fn append(&mut self, sample: Sample) -> Option<Update> {
        let bucket = self.bucket_of(sample.time);
        let mut update = None;
        match self.start {
            None => {
                self.start = Some(bucket.0);
                self.state.over_time.bucket = bucket;
            }
            Some(start) if bucket.0 > start => {
                if !sample.value.is_nan() {
                    self.state.over_time.add_next(sample);
                }
                let value = self.state.value(self.aggregation);
                update = Some(Update::Close(Sample { time: start, value }));
                let over_time = &self.state.over_time;
                let is_known = over_time.count > 0 || !over_time.is_first;
                self.state = State::of_bucket(bucket, is_known.then_some(over_time.previous));
                self.start = Some(bucket.0);
            }
            Some(_) => {}
        }
        self.state.add(sample);
        update
    }

    fn change(&self, update: Update) -> Change {
        Change { destination: self.destination.clone(), update }
    }
}

impl Series {
    /// Whether it has rules or a source.
    #[inline]
    pub fn has_links(&self) -> bool {
        self.0.links.is_some()
    }

    /// The key of the series whose buckets it has.
    pub fn source(&self) -> Option<&[u8]> {
        self.0.links.as_ref()?.source.as_deref()
    }

    /// Its rules, the oldest first.
    pub fn rules(&self) -> &[Rule] {
        self.0.links.as_ref().map_or(&[], |links| &links.rules)
    }

    /// The rule for a destination.
    pub fn rule(&self, destination: &[u8]) -> Option<&Rule> {
        self.rules().iter().find(|rule| *rule.destination == *destination)
    }

    /// The keys of all series that it has to do with.
    pub fn linked(&self) -> impl Iterator<Item = &[u8]> {
        self.source().into_iter().chain(self.rules().iter().map(|rule| &*rule.destination))
    }

    /// The keys of the series that a sample at a time may lead to a change of: those where it does not belong
    /// to the bucket under way.
    pub fn touched_by(&self, time: u64) -> impl Iterator<Item = &[u8]> {
        let is_touched = move |rule: &&Rule| rule.start != Some(rule.bucket_of(time).0);
        self.rules().iter().filter(is_touched).map(|rule| &*rule.destination)
    }

    fn links_mut(&mut self) -> &mut Links {
        ARE_THERE_LINKS.store(true, Ordering::Relaxed);
        self.body().links.get_or_insert_default()
    }

    fn drop_empty_links(&mut self) {
        if self.0.links.as_ref().is_some_and(|links| links.source.is_none() && links.rules.is_empty()) {
            self.body().links = None;
        }
    }

    /// Says whose buckets it has.
    pub fn set_source(&mut self, source: Option<&[u8]>) {
        if source.is_some() || self.has_links() {
            self.links_mut().source = source.map(Box::from);
            self.drop_empty_links();
        }
    }

    /// Adds a rule.
    pub fn add_rule(&mut self, rule: Rule) {
        self.links_mut().rules.push(rule);
    }

    /// Keeps the rules whose destinations `keep` admits.
    pub fn retain_rules(&mut self, mut keep: impl FnMut(&[u8]) -> bool) {
        if self.has_links() {
            self.links_mut().rules.retain(|rule| keep(&rule.destination));
            self.drop_empty_links();
        }
    }

    /// A destination has another key now.
    pub fn rename_destination(&mut self, old: &[u8], new: &[u8]) {
        if self.rule(old).is_some() {
            let rules = self.links_mut().rules.iter_mut();
            rules.filter(|rule| *rule.destination == *old).for_each(|rule| rule.destination = new.into());
        }
    }

    /// Forgets rules and source.
    pub fn unlink(&mut self) {
        if self.has_links() {
            self.body().links = None;
        }
    }

    /// Adds a sample, or merges it with that of its time, like [`Series::add`], and appends what becomes of
    /// destinations.
    ///
    /// # Errors
    ///
    /// If it is too old, or there is one which `policy` protects.
    pub fn add_and_compact(
        &mut self,
        sample: Sample,
        policy: DuplicatePolicy,
        changes: &mut Vec<Change>,
    ) -> Result<(), Refusal> {
        if self.rules().is_empty() {
            return self.add(sample, policy);
        }
        let is_later = self.last().is_none_or(|last| sample.time > last.time);
        self.add(sample, policy)?;
        if is_later {
            for rule in &mut self.links_mut().rules {
                if let Some(update) = rule.append(sample) {
                    changes.push(rule.change(update));
                }
            }
        } else {
            self.compact_again(sample.time, changes);
        }
        Ok(())
    }

    /// Makes the buckets of a time anew.
    fn compact_again(&mut self, time: u64, changes: &mut Vec<Change>) {
        let Some(last) = self.last() else { return };
        for index in 0..self.rules().len() {
            let rule = &self.rules()[index];
            let latest = rule.bucket_of(last.time);
            if time >= latest.0 {
                let (state, _) = self.state_of(rule, latest);
                self.links_mut().rules[index].state = state;
            } else {
                let bucket = rule.bucket_of(time);
                let (state, _) = self.state_of(rule, bucket);
                let value = state.value(rule.aggregation);
                changes.push(rule.change(Update::Replace(Sample { time: bucket.0, value })));
            }
        }
    }

    /// What the samples of a bucket come to that are there, and whether there are none.
    fn state_of(&self, rule: &Rule, (start, end): (u64, u64)) -> (State, bool) {
        let is_over_time = rule.aggregation == Aggregation::Twa;
        let previous = if is_over_time { self.last_number_before(start) } else { None };
        let previous = previous.filter(|sample| sample.time >= self.oldest_kept());
        let mut state = State::of_bucket((start, end), previous);
        let mut is_empty = true;
        self.visit(start.max(self.oldest_kept()), end.wrapping_sub(1), |samples| {
            samples.iter().for_each(|&sample| state.add(sample));
            is_empty &= samples.is_empty();
            true
        });
        if is_over_time
            && !is_empty
            && let Some(next) = self.first_number_from(end)
        {
            state.over_time.add_next(next);
        }
        (state, is_empty)
    }

    /// Whether samples from a time on may be removed: not if their buckets have samples that are too old.
    pub fn may_compact_removed(&self, from: u64) -> bool {
        let oldest = self.oldest_kept();
        self.rules().iter().all(|rule| rule.bucket_of(from).0 >= oldest)
    }

    /// Removes the samples from one time to another, like [`Series::remove`], and appends what becomes of
    /// destinations.
    pub fn remove_and_compact(&mut self, from: u64, to: u64, changes: &mut Vec<Change>) -> u64 {
        let Some(last) = self.last().filter(|_| !self.rules().is_empty()) else {
            return self.remove(from, to);
        };
        let count = self.remove(from, to);
        if from > to || from > last.time {
            return count;
        }
        for index in 0..self.rules().len() {
            self.compact_removed(index, (from, to), last.time, changes);
        }
        count
    }

    /// The same for one rule, of a source whose latest sample was at `last`. If nothing is left of the bucket
    /// under way, none is.
    fn compact_removed(
        &mut self,
        index: usize,
        (from, to): (u64, u64),
        last: u64,
        changes: &mut Vec<Change>,
    ) {
        let rule = &self.rules()[index];
        let (first, end, latest) = (rule.bucket_of(from), rule.bucket_of(to.min(last)), rule.bucket_of(last));
        let mut is_empty_now = |bucket: (u64, u64)| {
            let (state, is_empty) = self.state_of(rule, bucket);
            if !is_empty {
                let value = state.value(rule.aggregation);
                changes.push(rule.change(Update::Replace(Sample { time: bucket.0, value })));
            }
            is_empty
        };
        if first.0 < latest.0 {
            let remove_from = if is_empty_now(first) { first.0 } else { first.1 };
            let remove_to = match end.0 < latest.0 {
                true if end == first || is_empty_now(end) => end.1.wrapping_sub(1),
                true => end.0.saturating_sub(1),
                false => u64::MAX,
            };
            if remove_from <= remove_to {
                changes.push(rule.change(Update::Remove(remove_from, remove_to)));
            }
        }
        if end.0 >= latest.0 {
            let (state, is_empty) = self.state_of(rule, latest);
            let rule = &mut self.links_mut().rules[index];
            rule.state = state;
            if is_empty {
                rule.start = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Options;
    use super::*;
    use crate::test_random::Random;
    use std::collections::BTreeMap;

    type Model = BTreeMap<u64, f64>;

    /// What a destination has to hold: the buckets of the source's samples, but for the one under way.
    fn expected(rule: &Rule, samples: &Model) -> Model {
        let mut buckets: BTreeMap<u64, State> = BTreeMap::new();
        for (&time, &value) in samples {
            let bucket = rule.bucket_of(time);
            let fresh = || State::of_bucket(bucket, None);
            buckets.entry(bucket.0).or_insert_with(fresh).add(Sample { time, value });
        }
        buckets.pop_last();
        buckets.iter().map(|(&start, state)| (start, state.value(rule.aggregation))).collect()
    }

    fn carry_out(destination: &mut Series, changes: Vec<Change>) {
        for change in changes {
            match change.update {
                Update::Close(sample) | Update::Replace(sample) => {
                    destination.add(sample, DuplicatePolicy::Last).expect("nothing is too old");
                }
                Update::Remove(from, to) => _ = destination.remove(from, to),
            }
        }
    }

    fn samples_of(series: &Series) -> Model {
        let mut all = Model::new();
        series.visit(0, u64::MAX, |samples| {
            all.extend(samples.iter().map(|sample| (sample.time, sample.value)));
            true
        });
        all
    }

    /// Every aggregation but that over time, which has no model here.
    #[test]
    fn a_destination_has_the_buckets_that_are_over() {
        for seed in 0..36 {
            let mut random = Random::new(seed);
            let (aggregation, _) = Aggregation::ALL[seed as usize % 12];
            let rule = Rule::new(b"to", aggregation, 1 + random.below(40) as i64, random.below(50) as u64);
            let mut source = Series::new(Options { chunk_bytes: 128, ..Options::default() });
            source.add_rule(rule.clone());
            let (mut destination, mut model) = (Series::default(), Model::new());
            for _ in 0..120 {
                let last = model.last_key_value().map_or(500, |(&time, _)| time);
                let time = match random.below(3) {
                    0 => last.saturating_sub(random.below(300) as u64),
                    _ => last + 1 + random.below(30) as u64,
                };
                let (value, mut changes) = (random.below(100) as f64, Vec::new());
                if random.below(12) == 0 {
                    // What is left of the bucket under way stays under way.
                    let to = time.min(last - 1);
                    let from = to.saturating_sub(random.below(100) as u64);
                    let before = model.len();
                    model.retain(|&time, _| time < from || time > to);
                    if model.last_key_value().is_some_and(|(&time, _)| time == last) {
                        let count = source.remove_and_compact(from, to, &mut changes);
                        assert_eq!(count, (before - model.len()) as u64);
                    } else {
                        model = samples_of(&source);
                    }
                } else {
                    let sample = Sample { time, value };
                    source.add_and_compact(sample, DuplicatePolicy::Last, &mut changes).expect("is kept");
                    model.insert(time, value);
                }
                carry_out(&mut destination, changes);
                assert_eq!(samples_of(&source), model);
                let (found, wanted) = (samples_of(&destination), expected(&rule, &model));
                assert!(found.keys().eq(wanted.keys()), "{aggregation:?}\n{found:?}\n{wanted:?}");
                let same = |(one, other): (&f64, &f64)| (one - other).abs() < 1e-6;
                assert!(found.values().zip(wanted.values()).all(same), "{aggregation:?}");
            }
        }
    }

    #[test]
    fn the_state_of_a_rule_reads_back() {
        for (aggregation, _) in Aggregation::ALL {
            let mut source = Series::default();
            source.add_rule(Rule::new(b"to", aggregation, 100, 7));
            let mut copy = source.clone();
            let (mut changes, mut of_copy) = (Vec::new(), Vec::new());
            for number in 0..200_u64 {
                let sample = Sample { time: number * 13, value: (number * number % 101) as f64 };
                source.add_and_compact(sample, DuplicatePolicy::Block, &mut changes).expect("is later");
                copy.add_and_compact(sample, DuplicatePolicy::Block, &mut of_copy).expect("is later");
                let mut rule = copy.rules()[0].clone();
                rule.set_parts(&rule.parts());
                copy.retain_rules(|_| false);
                copy.add_rule(rule);
            }
            assert_eq!((changes, source.rules()[0].open()), (of_copy, copy.rules()[0].open()));
        }
    }

    #[test]
    fn links_come_and_go() {
        let mut series = Series::default();
        series.set_source(None);
        assert!(!series.has_links());
        series.set_source(Some(b"from"));
        series.add_rule(Rule::new(b"to", Aggregation::Sum, 10, 0));
        assert!(are_there_links());
        series.rename_destination(b"to", b"there");
        assert_eq!(series.linked().collect::<Vec<_>>(), [&b"from"[..], b"there"]);
        series.set_source(None);
        series.retain_rules(|key| key != b"there");
        assert!(!series.has_links());
    }
}
