//! Time series: samples of a time stamp and a double, in the order of time, each time once.
//!
//! ```text
//! Series -> Body { settings, chunks: [ Arc<Chunk> ], open: [ Sample ] }
//!           chunk   up to 2048 samples, compressed, with count, first, last, min, max and sum
//!           open    up to 128 after all chunks, 16 bytes each; it grows from four
//! ```
//!
//! An append is O(1). The open samples become a small chunk once they are 128, and small chunks at the end
//! one chunk once they have enough samples. So a sample is compressed twice, and a series of a thousand
//! samples has few that are not compressed. A late sample, before the open ones, makes its chunk anew, of
//! which that part becomes a chunk of its own. Looking up is O(log chunks) and one chunk. A clone costs O(1);
//! the first change after it copies the list of chunks and the open samples.
//!
//! Bytes of a sample in a full chunk: its distance in time and its value in as few bits as the chunk's
//! largest needs, and 0.07 for the head. A sensor with one decimal in a range of 100 degrees takes 10 bits
//! and 0.07.
//!
//! Invariants: times rise strictly; no chunk is empty; `total` is their sum; none is above `last`.

mod aggregate;
mod chunk;
mod gorilla;
mod packed;
mod rules;
#[cfg(test)]
mod tests;
mod values;

pub use aggregate::{Aggregation, Aggregator, Asked, Buckets, Emit, bucket_start};
pub use chunk::Summary;
use chunk::{Chunk, Stamps};
pub use gorilla::{GorillaError, GorillaReader, GorillaWriter};
use mantissa_memory::allocator;
use rules::Links;
pub use rules::{Change, Part, Rule, Update, are_there_links, expect_links};

use crate::Collection;
use std::ops::Range;
use std::sync::Arc;

/// Samples of a full chunk.
const CHUNK_SAMPLES_MAX: usize = 2048;
/// The same for the smallest chunk size.
const CHUNK_SAMPLES_MIN: usize = 16;
/// Bytes of Redis's chunk that stand for a sample of ours.
const BYTES_PER_SAMPLE: usize = 2;
/// Room for open samples at first, and
const OPEN_MIN: usize = 4;
/// how many become a small chunk.
const OPEN_MAX: usize = 128;
/// Room for open samples after others have become a chunk.
const OPEN_AGAIN: usize = 32;
/// Samples of the part that a chunk is cut to around a late sample.
const PART_SAMPLES: usize = 256;

/// Chunk sizes that are allowed, in bytes. They are multiples of 8.
pub const CHUNK_BYTES: std::ops::RangeInclusive<u64> = 48..=1 << 20;

/// A value and when it was taken, as unix time in milliseconds or whatever else the client counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// When.
    pub time: u64,
    /// What.
    pub value: f64,
}

/// What becomes of a sample at a time that has one already. The numbers are Redis's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DuplicatePolicy {
    /// It is refused.
    Block = 1,
    /// It takes the other's place.
    Last = 2,
    /// It is dropped.
    First = 3,
    /// The smaller value stays.
    Min = 4,
    /// The larger value stays.
    Max = 5,
    /// The values are added.
    Sum = 6,
}

impl DuplicatePolicy {
    /// All of them with their names.
    pub const ALL: [(DuplicatePolicy, &'static str); 6] = [
        (DuplicatePolicy::Block, "block"),
        (DuplicatePolicy::Last, "last"),
        (DuplicatePolicy::First, "first"),
        (DuplicatePolicy::Min, "min"),
        (DuplicatePolicy::Max, "max"),
        (DuplicatePolicy::Sum, "sum"),
    ];

    /// The name.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize - 1].1
    }

    fn merge(self, old: f64, new: f64) -> Result<f64, Refusal> {
        Ok(match self {
            DuplicatePolicy::Block => return Err(Refusal::Duplicate),
            DuplicatePolicy::Last => new,
            DuplicatePolicy::First => old,
            _ if old.is_nan() != new.is_nan() => return Err(Refusal::NotANumber),
            DuplicatePolicy::Min => old.min(new),
            DuplicatePolicy::Max => old.max(new),
            DuplicatePolicy::Sum => old + new,
        })
    }
}

/// A name and a value by which series are found.
pub type Label = (Box<[u8]>, Box<[u8]>);

/// What a series is told when it is made or altered.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// How long samples are kept after the latest one, in milliseconds; 0 is for ever.
    pub retention_ms: u64,
    /// Bytes of Redis's chunks.
    pub chunk_bytes: u64,
    /// Whether Redis is to compress it; it is always compressed here.
    pub is_compressed: bool,
    /// What to do with a second sample of a time, unless the server's default holds.
    pub policy: Option<DuplicatePolicy>,
    /// A sample this little later than the latest, in milliseconds, and
    pub ignore_time_ms: u64,
    /// with a value that differs by no more than this, is ignored.
    pub ignore_value: f64,
    /// In the order in which they came.
    pub labels: Box<[Label]>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            retention_ms: 0,
            chunk_bytes: 4096,
            is_compressed: true,
            policy: None,
            ignore_time_ms: 0,
            ignore_value: 0.0,
            labels: Box::default(),
        }
    }
}

/// Why a sample was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is older than samples are kept.
    Old,
    /// There is one at that time.
    Duplicate,
    /// There is one at that time, and one of the two is NaN, which can not be compared or added.
    NotANumber,
}

#[derive(Clone, Debug)]
struct Body {
    options: Options,
    /// The latest sample; zeros if there is none.
    last: Sample,
    total: u64,
    chunks: Vec<Arc<Chunk>>,
    open: Vec<Sample>,
    /// What it has to do with other series.
    links: Option<Box<Links>>,
}

/// A time series.
#[derive(Clone, Debug)]
#[repr(transparent)]
pub struct Series(Arc<Body>);

const _: () = assert!(size_of::<Series>() == 8);

impl Default for Series {
    fn default() -> Self {
        Series::new(Options::default())
    }
}

impl Series {
    /// An empty one.
    pub fn new(options: Options) -> Self {
        let last = Sample { time: 0, value: 0.0 };
        Series(Arc::new(Body { options, last, total: 0, chunks: Vec::new(), open: Vec::new(), links: None }))
    }

    /// What it was told.
    pub fn options(&self) -> &Options {
        &self.0.options
    }

    /// The same, to change. Labels are changed by the database that has the series, which lists them.
    pub fn options_mut(&mut self) -> &mut Options {
        &mut self.body().options
    }

    fn body(&mut self) -> &mut Body {
        Arc::make_mut(&mut self.0)
    }

    /// The number of samples, those that are too old included.
    pub fn len(&self) -> u64 {
        self.0.total
    }

    /// Whether there is no sample.
    pub fn is_empty(&self) -> bool {
        self.0.total == 0
    }

    /// The latest sample.
    pub fn last(&self) -> Option<Sample> {
        (!self.is_empty()).then_some(self.0.last)
    }

    /// The time before which samples are too old.
    pub fn oldest_kept(&self) -> u64 {
        match self.0.options.retention_ms {
            0 => 0,
            retention => self.0.last.time.saturating_sub(retention),
        }
    }

    /// The number of compressed chunks and of open ones.
    pub fn chunk_count(&self) -> usize {
        self.0.chunks.len() + usize::from(!self.0.open.is_empty() || self.0.chunks.is_empty())
    }

    /// A series whose samples are in chunks of these lengths, for what was written with them: those of
    /// [`Series::pieces`], but for the samples behind the last chunk. The samples' times rise strictly, and
    /// no length is above 65535. `None` if the lengths do not fit.
    pub fn from_chunks(options: Options, samples: &[Sample], lengths: &[usize]) -> Option<Series> {
        let mut series = Series::new(options);
        let body = series.body();
        let mut rest = samples;
        for &length in lengths {
            let (chunk, later) = rest.split_at_checked(length).filter(|_| length <= usize::from(u16::MAX))?;
            body.chunks.push(Arc::new(Chunk::new(chunk)?));
            rest = later;
        }
        if !rest.is_empty() {
            body.open.reserve_exact(rest.len().next_power_of_two().max(OPEN_MIN));
        }
        body.open.extend_from_slice(rest);
        body.total = samples.len() as u64;
        body.refresh_last();
        Some(series)
    }

    /// Adds a sample, or merges it with that of its time.
    ///
    /// # Errors
    ///
    /// If it is too old, or there is one which `policy` protects.
    pub fn add(&mut self, sample: Sample, policy: DuplicatePolicy) -> Result<(), Refusal> {
        if self.is_empty() || sample.time > self.0.last.time {
            self.append(sample);
            return Ok(());
        }
        if sample.time < self.oldest_kept() {
            return Err(Refusal::Old);
        }
        self.body().upsert(sample, policy)
    }

    /// Adds a sample that is later than all.
    fn append(&mut self, sample: Sample) {
        self.append_all(&[sample]);
    }

    /// Adds samples, each later than all before it.
    pub fn append_all(&mut self, samples: &[Sample]) {
        let Some(&last) = samples.last() else { return };
        debug_assert!(samples.is_sorted_by(|before, after| before.time < after.time));
        debug_assert!(self.last().is_none_or(|last| last.time < samples[0].time));
        let body = self.body();
        let open_max = body.open_max();
        if body.open.capacity() == 0 {
            body.open.reserve_exact(OPEN_MIN);
        }
        let mut rest = samples;
        while !rest.is_empty() {
            if body.open.len() >= open_max {
                body.seal(body.open.len());
            }
            let count = rest.len().min(open_max.saturating_sub(body.open.len()).max(1));
            let (now, later) = rest.split_at(count);
            body.open.extend_from_slice(now);
            rest = later;
        }
        body.last = last;
        body.total += samples.len() as u64;
        body.trim();
    }

    /// Removes the samples from one time to another, and returns how many there were.
    pub fn remove(&mut self, from: u64, to: u64) -> u64 {
        if from > to || self.is_empty() || from > self.0.last.time {
            return 0;
        }
        self.body().remove(from, to)
    }

    /// Calls `visit` with samples from one time to another, a piece at a time, until it returns false.
    pub fn visit(&self, from: u64, to: u64, mut visit: impl FnMut(&[Sample]) -> bool) {
        let mut scratch = Vec::new();
        for piece in self.pieces(from, to) {
            if !visit(piece.read(&mut scratch)) {
                return;
            }
        }
    }

    /// The same from the latest on: pieces come in that order, and samples of a piece in the order of time.
    pub fn visit_reversed(&self, from: u64, to: u64, mut visit: impl FnMut(&[Sample]) -> bool) {
        let mut scratch = Vec::new();
        for piece in self.pieces(from, to).rev() {
            if !visit(piece.read(&mut scratch)) {
                return;
            }
        }
    }

    /// The pieces that hold the samples from one time to another, in the order of time.
    pub fn pieces(&self, from: u64, to: u64) -> impl DoubleEndedIterator<Item = Piece<'_>> {
        let body = &*self.0;
        let start = body.chunks.partition_point(|chunk| chunk.summary.last.time < from);
        let end = body.chunks.partition_point(|chunk| chunk.summary.first.time <= to).max(start);
        let chunks =
            body.chunks[start..end].iter().map(move |chunk| Piece { from, to, run: Run::Chunk(chunk) });
        let open = clip(&body.open, from, to);
        let open = (!open.is_empty()).then_some(Piece { from, to, run: Run::Open(open) });
        chunks.chain(open)
    }

    /// About how many samples there are from one time to another: those of whole chunks.
    pub fn samples_about(&self, from: u64, to: u64) -> u64 {
        let pieces = self.pieces(from, to).size_hint().0 as u64;
        let in_chunks = self.0.total / self.0.chunks.len().max(1) as u64;
        (pieces * in_chunks).min(self.0.total)
    }

    /// The earliest sample not before a time.
    pub fn first_from(&self, time: u64) -> Option<Sample> {
        let mut found = None;
        self.visit(time, u64::MAX, |samples| {
            found = samples.first().copied();
            found.is_none()
        });
        found
    }

    /// The latest sample before a time.
    pub fn last_before(&self, time: u64) -> Option<Sample> {
        let mut found = None;
        self.visit_reversed(0, time.checked_sub(1)?, |samples| {
            found = samples.last().copied();
            found.is_none()
        });
        found
    }

    /// The earliest sample not before a time that is not NaN.
    pub fn first_number_from(&self, time: u64) -> Option<Sample> {
        let mut found = None;
        self.visit(time, u64::MAX, |samples| {
            found = samples.iter().find(|sample| !sample.value.is_nan()).copied();
            found.is_none()
        });
        found
    }

    /// The latest sample before a time that is not NaN.
    pub fn last_number_before(&self, time: u64) -> Option<Sample> {
        let mut found = None;
        self.visit_reversed(0, time.checked_sub(1)?, |samples| {
            found = samples.iter().rfind(|sample| !sample.value.is_nan()).copied();
            found.is_none()
        });
        found
    }

    /// The number of samples from one time to another. At most the two chunks at the ends are read.
    pub fn count(&self, from: u64, to: u64) -> u64 {
        let mut scratch = Vec::new();
        let counts = self.pieces(from, to).map(|piece| match piece.run {
            Run::Chunk(chunk) if piece.has_all_of(chunk) => chunk.len() as u64,
            _ => piece.read(&mut scratch).len() as u64,
        });
        counts.sum()
    }
}

/// A piece of a series between two times.
pub struct Piece<'a> {
    from: u64,
    to: u64,
    run: Run<'a>,
}

/// Room for the samples of a piece, times and values apart.
#[derive(Default)]
struct Columns {
    times: Vec<u64>,
    values: Vec<f64>,
}

enum Run<'a> {
    Chunk(&'a Chunk),
    Open(&'a [Sample]),
}

impl<'a> Piece<'a> {
    /// Its summary, if it is known, no sample is outside of the times and none is NaN.
    pub fn whole(&self) -> Option<&'a Summary> {
        match self.run {
            Run::Chunk(chunk) => {
                (self.has_all_of(chunk) && chunk.summary.nans == 0).then_some(&chunk.summary)
            }
            Run::Open(_) => None,
        }
    }

    /// Whether no sample of its chunk is outside of the times.
    fn has_all_of(&self, chunk: &Chunk) -> bool {
        self.from <= chunk.summary.first.time && chunk.summary.last.time <= self.to
    }

    /// Bytes that its samples take.
    pub fn bytes(&self) -> usize {
        match self.run {
            Run::Chunk(chunk) => size_of::<Chunk>() + chunk.bytes(),
            Run::Open(samples) => size_of_val(samples),
        }
    }

    /// Whether its samples are compressed.
    pub fn is_chunk(&self) -> bool {
        matches!(self.run, Run::Chunk(_))
    }

    /// Whether a sample of it may be NaN.
    fn may_have_nan(&self) -> bool {
        match self.run {
            Run::Chunk(chunk) => chunk.summary.nans > 0,
            Run::Open(_) => true,
        }
    }

    /// The times and the values of its samples, and which of them are between the times.
    fn columns<'s>(&'s self, columns: &'s mut Columns) -> (Stamps<'s>, &'s [f64], Range<usize>) {
        let Columns { times, values } = columns;
        let (stamps, whole) = match self.run {
            Run::Chunk(chunk) => {
                chunk.read_values(values);
                (chunk.stamps(times), self.has_all_of(chunk))
            }
            Run::Open(samples) => {
                times.clear();
                values.clear();
                times.extend(samples.iter().map(|sample| sample.time));
                values.extend(samples.iter().map(|sample| sample.value));
                (Stamps::Listed(times), true)
            }
        };
        let mut range = 0..values.len();
        if !whole {
            range.start = stamps.position(range.clone(), self.from);
            range.end = self.to.checked_add(1).map_or(range.end, |end| stamps.position(range.clone(), end));
        }
        (stamps, values, range)
    }

    /// Its samples between the times.
    pub fn read<'s>(&self, scratch: &'s mut Vec<Sample>) -> &'s [Sample]
    where
        'a: 's,
    {
        match self.run {
            Run::Chunk(chunk) => {
                scratch.clear();
                chunk.read_samples(scratch);
                clip(scratch, self.from, self.to)
            }
            Run::Open(samples) => samples,
        }
    }
}

/// Samples from one time to another.
fn clip(samples: &[Sample], from: u64, to: u64) -> &[Sample] {
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else { return &[] };
    if from <= first.time && last.time <= to {
        return samples;
    }
    let start = samples.partition_point(|sample| sample.time < from);
    let end = samples.partition_point(|sample| sample.time <= to);
    samples.get(start..end).unwrap_or_default()
}

impl Body {
    /// Samples that a chunk has at most.
    fn chunk_samples(&self) -> usize {
        let samples = usize::try_from(self.options.chunk_bytes).unwrap_or(usize::MAX) / BYTES_PER_SAMPLE;
        samples.clamp(CHUNK_SAMPLES_MIN, CHUNK_SAMPLES_MAX)
    }

    /// Samples of the part of a chunk in which late samples are put, about.
    fn part_samples(&self) -> usize {
        PART_SAMPLES.min(self.chunk_samples() / 2)
    }

    /// Open samples that become a small chunk.
    fn open_max(&self) -> usize {
        OPEN_MAX.min(self.chunk_samples())
    }

    /// Compresses the first so many of the open samples.
    fn seal(&mut self, count: usize) {
        let parts = self.open[..count].chunks(self.chunk_samples());
        self.chunks.extend(parts.filter_map(Chunk::new).map(Arc::new));
        self.open.drain(..count);
        self.open.shrink_to(OPEN_AGAIN);
        self.join_small(self.chunks.len());
    }

    /// Makes one chunk of the small ones before a place in the list, if these have samples enough for one.
    /// Those beyond what fills its allocation become a small one again.
    fn join_small(&mut self, end: usize) {
        let full = self.chunk_samples();
        let (mut start, mut count) = (end, 0);
        while start > 0 && count < full && self.chunks[start - 1].len() < full / 2 {
            start -= 1;
            count += self.chunks[start].len();
        }
        if count < full {
            return;
        }
        let mut samples = Vec::with_capacity(count);
        self.chunks[start..end].iter().for_each(|chunk| chunk.read_samples(&mut samples));
        let before = start.checked_sub(1).map(|index| &self.chunks[index]);
        let (now, later) = samples.split_at(before.map_or(full, |chunk| chunk.fitting(full)));
        let joined = [now, later].into_iter().filter_map(Chunk::new).map(Arc::new);
        self.chunks.splice(start..end, joined);
    }

    /// Drops the chunks of which all samples are too old.
    fn trim(&mut self) {
        if self.options.retention_ms == 0 {
            return;
        }
        let oldest = self.last.time.saturating_sub(self.options.retention_ms);
        if self.chunks.first().is_some_and(|chunk| chunk.summary.last.time < oldest) {
            let count = self.chunks.partition_point(|chunk| chunk.summary.last.time < oldest);
            self.total -= self.chunks.drain(..count).map(|chunk| chunk.len() as u64).sum::<u64>();
        }
    }

    /// Adds a sample that is not later than all.
    fn upsert(&mut self, sample: Sample, policy: DuplicatePolicy) -> Result<(), Refusal> {
        if self.chunks.last().is_none_or(|chunk| sample.time > chunk.summary.last.time) {
            self.total += u64::from(merge(&mut self.open, sample, policy)?);
            // Behind a sample of the future all are late.
            if self.open.len() >= 2 * self.open_max() {
                self.seal(self.open_max());
            }
        } else {
            let index = self.chunks.partition_point(|chunk| chunk.summary.last.time < sample.time);
            let mut samples = Vec::with_capacity(self.chunks[index].len() + 1);
            self.chunks[index].read_samples(&mut samples);
            self.total += u64::from(merge(&mut samples, sample, policy)?);
            self.replace_chunk(index, &samples, sample.time);
        }
        if sample.time == self.last.time {
            self.refresh_last();
        }
        Ok(())
    }

    /// Replaces a chunk by its samples with a late one. Where there are many, those near the late one get a
    /// chunk of their own, as more late ones may follow there.
    fn replace_chunk(&mut self, index: usize, samples: &[Sample], late: u64) {
        let (part, count) = (self.part_samples(), samples.len());
        let cuts = if count <= 2 * part {
            [0, count]
        } else if count <= 4 * part {
            [count / 2, count]
        } else {
            let at = samples.partition_point(|sample| sample.time < late);
            let start = at.saturating_sub(part / 2);
            let start = if start < part / 2 { 0 } else { start };
            let end = start + part;
            [start, if end + part / 2 > count { count } else { end }]
        };
        let parts = [&samples[..cuts[0]], &samples[cuts[0]..cuts[1]], &samples[cuts[1]..]];
        let parts = parts.into_iter().filter_map(Chunk::new).map(Arc::new);
        self.chunks.splice(index..=index, parts);
        // A chunk that late samples have filled: if they come in order, they leave small ones behind.
        if count == 2 * part + 1 {
            self.join_small(index + 1);
        }
    }

    fn remove(&mut self, from: u64, to: u64) -> u64 {
        let before = self.total;
        let start = self.chunks.partition_point(|chunk| chunk.summary.last.time < from);
        let end = self.chunks.partition_point(|chunk| chunk.summary.first.time <= to).max(start);
        let mut kept = Vec::new();
        for chunk in &self.chunks[start..end] {
            let summary = &chunk.summary;
            self.total -= chunk.len() as u64;
            if from <= summary.first.time && summary.last.time <= to {
                continue;
            }
            let mut samples = Vec::new();
            chunk.read_samples(&mut samples);
            samples.retain(|sample| sample.time < from || sample.time > to);
            self.total += samples.len() as u64;
            kept.extend(Chunk::new(&samples).map(Arc::new));
        }
        self.chunks.splice(start..end, kept);
        let open_before = self.open.len();
        self.open.retain(|sample| sample.time < from || sample.time > to);
        self.total -= (open_before - self.open.len()) as u64;
        self.refresh_last();
        before - self.total
    }

    fn refresh_last(&mut self) {
        let last = self.open.last().copied();
        let last = last.or_else(|| self.chunks.last().map(|chunk| chunk.summary.last));
        self.last = last.unwrap_or(Sample { time: 0, value: 0.0 });
    }
}

/// Adds a sample to others in their order. Whether it is one more.
fn merge(samples: &mut Vec<Sample>, sample: Sample, policy: DuplicatePolicy) -> Result<bool, Refusal> {
    match samples.binary_search_by_key(&sample.time, |other| other.time) {
        Ok(index) => {
            let old = &mut samples[index].value;
            *old = policy.merge(*old, sample.value)?;
            Ok(false)
        }
        Err(index) => {
            samples.insert(index, sample);
            Ok(true)
        }
    }
}

/// Bytes of an allocation.
fn class_size(bytes: usize) -> usize {
    if bytes == 0 { 0 } else { allocator::class_size(bytes) }
}

/// Bytes of an allocation with two counts of references before it.
fn shared_bytes(bytes: usize) -> usize {
    class_size(bytes + 2 * size_of::<usize>())
}

impl Collection for Series {
    fn element_count(&self) -> u64 {
        self.len()
    }

    fn encoding(&self) -> &'static str {
        "raw"
    }

    fn memory_usage(&self) -> usize {
        let body = &*self.0;
        let labels = &body.options.labels;
        let texts = labels.iter().map(|(name, value)| class_size(name.len()) + class_size(value.len()));
        let chunks =
            body.chunks.iter().map(|chunk| shared_bytes(size_of::<Chunk>()) + class_size(chunk.bytes()));
        shared_bytes(size_of::<Body>())
            + class_size(size_of_val(&**labels))
            + texts.sum::<usize>()
            + class_size(body.chunks.capacity() * size_of::<usize>())
            + chunks.sum::<usize>()
            + class_size(body.open.capacity() * size_of::<Sample>())
            + body.links.as_ref().map_or(0, |links| links.memory_usage())
    }

    fn free_effort(&self) -> usize {
        1 + self.0.chunks.len()
    }

    fn redis_free_effort(&self, max: usize) -> usize {
        self.chunk_count().min(max + 1)
    }

    fn is_large_form(&self) -> bool {
        true
    }
}
