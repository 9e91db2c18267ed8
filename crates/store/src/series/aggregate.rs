//! Samples of buckets of time made one value each.
//!
//! The sum and the average of a bucket that has whole chunks are made of their sums: they may differ in the
//! last digits from what adding one sample after the other gives. A bucket of an average that overflows is
//! made of averages.
//!
//! Samples that are NaN count for `countnan` and `countall` only. Where a bucket has no others, counts are 0
//! and all else is NaN.

use mantissa_number::vector::Kernels;
use std::ops::{Range, RangeInclusive};

use super::chunk::Stamps;
use super::{Columns, Piece, Sample, Series, Summary};

/// How the samples of a bucket become a value. The numbers are Redis's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregation {
    /// The smallest.
    Min = 1,
    /// The largest.
    Max = 2,
    /// The sum.
    Sum = 3,
    /// The average.
    Avg = 4,
    /// Their number.
    Count = 5,
    /// The earliest.
    First = 6,
    /// The latest.
    Last = 7,
    /// The largest less the smallest.
    Range = 8,
    /// The standard deviation of all.
    StdP = 9,
    /// The standard deviation, estimated from a sample.
    StdS = 10,
    /// The variance of all.
    VarP = 11,
    /// The variance, estimated from a sample.
    VarS = 12,
    /// The average over time of lines between the samples.
    Twa = 13,
    /// The number of those that are NaN.
    CountNan = 14,
    /// The number of all, NaN included.
    CountAll = 15,
}

impl Aggregation {
    /// All of them with their names.
    pub const ALL: [(Aggregation, &'static str); 15] = [
        (Aggregation::Min, "min"),
        (Aggregation::Max, "max"),
        (Aggregation::Sum, "sum"),
        (Aggregation::Avg, "avg"),
        (Aggregation::Count, "count"),
        (Aggregation::First, "first"),
        (Aggregation::Last, "last"),
        (Aggregation::Range, "range"),
        (Aggregation::StdP, "std.p"),
        (Aggregation::StdS, "std.s"),
        (Aggregation::VarP, "var.p"),
        (Aggregation::VarS, "var.s"),
        (Aggregation::Twa, "twa"),
        (Aggregation::CountNan, "countnan"),
        (Aggregation::CountAll, "countall"),
    ];

    /// That of a name, in any case.
    pub fn of_name(name: &[u8]) -> Option<Aggregation> {
        Self::ALL.iter().find(|row| name.eq_ignore_ascii_case(row.1.as_bytes())).map(|row| row.0)
    }

    /// The name.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize - 1].1
    }

    /// The value of a bucket without samples.
    fn value_of_none(self) -> f64 {
        match self {
            Aggregation::Sum | Aggregation::Count | Aggregation::CountNan | Aggregation::CountAll => 0.0,
            _ => f64::NAN,
        }
    }

    /// Whether a bucket's value follows from summaries of its chunks.
    fn is_of_summaries(self) -> bool {
        !matches!(
            self,
            Aggregation::StdP | Aggregation::StdS | Aggregation::VarP | Aggregation::VarS | Aggregation::Twa
        )
    }
}

/// What the samples of a bucket have come to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Aggregator {
    /// The number of those that are not NaN.
    pub(super) count: f64,
    pub(super) nans: f64,
    pub(super) sum: f64,
    pub(super) squares: f64,
    /// The average, from when the sum overflows.
    pub(super) mean: Option<f64>,
    pub(super) min: f64,
    pub(super) max: f64,
    pub(super) first: f64,
    pub(super) last: f64,
}

impl Default for Aggregator {
    fn default() -> Self {
        Aggregator {
            count: 0.0,
            nans: 0.0,
            sum: 0.0,
            squares: 0.0,
            mean: None,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            first: f64::NAN,
            last: f64::NAN,
        }
    }
}

impl Aggregator {
    /// Adds a value beyond all before.
    #[inline]
    pub fn add(&mut self, value: f64) {
        if value.is_nan() {
            self.nans += 1.0;
            return;
        }
        self.add_sum(value, 1.0);
        self.squares += value * value;
        self.min = lesser(self.min, value);
        self.max = greater(self.max, value);
        if self.count == 1.0 {
            self.first = value;
        }
        self.last = value;
    }

    /// Adds values beyond all before, one after the other, none of which is NaN. Only what is needed is
    /// known afterwards, and the number, the first and the last. `sum` is what the sum comes to, where it is
    /// needed.
    #[inline]
    fn add_numbers(&mut self, values: &[f64], needs: Needs, mut sum: f64) {
        let (Some(&first), Some(&last)) = (values.first(), values.last()) else { return };
        let mut squares = self.squares;
        if needs.squares {
            sum = self.sum;
            for &value in values {
                sum += value;
                squares += value * value;
            }
        }
        // Sums that overflow are for the long way.
        if !sum.is_finite() || self.mean.is_some() {
            return values.iter().for_each(|&value| self.add(value));
        }
        if needs.extremes {
            self.min = lesser(self.min, least(values));
            self.max = greater(self.max, greatest(values));
        }
        (self.sum, self.squares) = (sum, squares);
        if self.count == 0.0 {
            self.first = first;
        }
        self.last = last;
        self.count += values.len() as f64;
    }

    #[inline]
    fn add_sum(&mut self, sum: f64, count: f64) {
        let total = self.sum + sum;
        if total.is_finite() && self.mean.is_none() {
            self.sum = total;
        } else {
            let mean = self.mean.unwrap_or(if self.count == 0.0 { 0.0 } else { self.sum / self.count });
            let all = self.count + count;
            self.mean = Some(mean * (self.count / all) + sum / count * (count / all));
            self.sum = total;
        }
        self.count += count;
    }

    /// Adds samples beyond all before.
    fn add_summary(&mut self, summary: &Summary, is_reversed: bool) {
        let (mut first, mut last) = (summary.first.value, summary.last.value);
        if is_reversed {
            std::mem::swap(&mut first, &mut last);
        }
        if self.count == 0.0 {
            self.first = first;
        }
        self.add_sum(summary.sum, f64::from(summary.count));
        self.min = self.min.min(summary.min);
        self.max = self.max.max(summary.max);
        self.last = last;
    }

    /// The value, of at least one sample.
    pub fn value(&self, aggregation: Aggregation) -> f64 {
        match aggregation {
            Aggregation::CountNan => self.nans,
            Aggregation::CountAll => self.count + self.nans,
            Aggregation::Count => self.count,
            _ if self.count == 0.0 && self.nans > 0.0 => f64::NAN,
            Aggregation::Min => self.min,
            Aggregation::Max => self.max,
            Aggregation::Sum => self.sum,
            Aggregation::Avg => self.mean.unwrap_or(self.sum / self.count),
            Aggregation::First => self.first,
            Aggregation::Last | Aggregation::Twa => self.last,
            Aggregation::Range => self.max - self.min,
            Aggregation::StdP => self.variance().sqrt(),
            Aggregation::StdS => self.sample_variance().sqrt(),
            Aggregation::VarP => self.variance(),
            Aggregation::VarS => self.sample_variance(),
        }
    }

    fn variance(&self) -> f64 {
        let (sum, count) = (self.sum, self.count);
        let mean = sum / count;
        (self.squares - 2.0 * sum * sum / count + mean * mean * count) / count
    }

    fn sample_variance(&self) -> f64 {
        if self.count == 1.0 { 0.0 } else { self.variance() * self.count / (self.count - 1.0) }
    }
}

/// What buckets need beside the number of their samples, the first and the last.
#[derive(Clone, Copy)]
struct Needs {
    sum: bool,
    squares: bool,
    extremes: bool,
}

impl Needs {
    fn of(aggregations: &[Aggregation]) -> Self {
        let needs = |some: &[Aggregation]| aggregations.iter().any(|one| some.contains(one));
        Needs {
            sum: needs(&[Aggregation::Sum, Aggregation::Avg]),
            squares: needs(&[Aggregation::StdP, Aggregation::StdS, Aggregation::VarP, Aggregation::VarS]),
            extremes: needs(&[Aggregation::Min, Aggregation::Max, Aggregation::Range]),
        }
    }
}

/// The lesser of two numbers; the one before, if they are equal.
#[inline]
fn lesser(before: f64, value: f64) -> f64 {
    if value < before { value } else { before }
}

/// The greater of two numbers; the one before, if they are equal.
#[inline]
fn greater(before: f64, value: f64) -> f64 {
    if value > before { value } else { before }
}

/// The least of numbers none of which is NaN; of zeros with different signs the first.
fn least(values: &[f64]) -> f64 {
    let found = Kernels::get().min_f64(values);
    if found == 0.0 { values.iter().copied().fold(f64::INFINITY, lesser) } else { found }
}

/// The greatest of numbers none of which is NaN; of zeros with different signs the first.
fn greatest(values: &[f64]) -> f64 {
    let found = Kernels::get().max_f64(values);
    if found == 0.0 { values.iter().copied().fold(f64::NEG_INFINITY, greater) } else { found }
}

/// Runs of values that are added side by side: an addition takes four cycles, but does not wait for those of
/// others.
const RUNS: usize = 4;

/// Adds to each sum the values of its run, one after the other.
#[inline]
fn add_side_by_side(sums: &mut [f64; RUNS], mut runs: [&[f64]; RUNS]) {
    let least = runs.iter().map(|run| run.len()).min().unwrap_or(0);
    let starts = runs.each_mut().map(|run| {
        let (start, rest) = run.split_at(least);
        *run = rest;
        start
    });
    let ([mut first, mut second, mut third, mut fourth], [one, two, three, four]) = (*sums, starts);
    for (((a, b), c), d) in one.iter().zip(two).zip(three).zip(four) {
        first += a;
        second += b;
        third += c;
        fourth += d;
    }
    *sums = [first, second, third, fourth];
    for (sum, rest) in sums.iter_mut().zip(runs) {
        *sum = rest.iter().fold(*sum, |sum, value| sum + value);
    }
}

/// The start of the bucket of a time, where one starts at `align`. It may be before 0.
pub fn bucket_start(time: u64, duration: i64, align: u64) -> i64 {
    let past = time.wrapping_sub(align).cast_signed().rem_euclid(duration);
    time.cast_signed().wrapping_sub(past)
}

/// What is asked of a series.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// The first and the last time.
    pub bounds: (u64, u64),
    /// The first and the last time of samples that may count, within the bounds.
    pub within: (u64, u64),
    /// Which samples count; all of them if it is not there.
    pub wants: Option<&'a dyn Fn(&Sample) -> bool>,
}

impl Asked<'_> {
    /// All samples within these bounds.
    pub fn all(bounds: (u64, u64)) -> Self {
        Asked { bounds, within: bounds, wants: None }
    }
}

/// Takes the start of a bucket and its values; false says that no more are wanted.
pub type Emit<'a> = &'a mut dyn FnMut(i64, &[f64]) -> bool;

/// Buckets of time that are to have values.
#[derive(Clone, Debug)]
pub struct Buckets {
    /// What makes the values, at least one.
    pub aggregations: Box<[Aggregation]>,
    /// Their length, above 0.
    pub duration: i64,
    /// Where one starts.
    pub align: u64,
    /// Whether those without samples have a value as well.
    pub with_empty: bool,
    /// Whether samples and buckets come from the latest on. What is first then is the latest.
    pub is_reversed: bool,
}

impl Buckets {
    /// The buckets of what is asked of a series: their starts and values, as long as `emit` returns true.
    pub fn of(&self, series: &Series, asked: Asked<'_>, emit: Emit<'_>) {
        match &*self.aggregations {
            [Aggregation::Twa] => {
                let _ = self.over_time(series, asked).all(|(start, value)| emit(start, &[value]));
            }
            several if several.contains(&Aggregation::Twa) => {
                self.with_averages_over_time(series, asked, emit);
            }
            _ => self.sums(series, asked, emit),
        }
    }

    /// The same where no average over time is asked for.
    fn sums(&self, series: &Series, asked: Asked<'_>, emit: Emit<'_>) {
        let Asked { within: (from, to), wants, .. } = asked;
        let is_of_summaries = self.aggregations.iter().all(|aggregation| aggregation.is_of_summaries());
        let mut walk = Walk::new(self, emit);
        let (mut scratch, mut columns) = (Vec::new(), Columns::default());
        let mut visit = |piece: Piece<'_>| {
            let may_be_whole = wants.is_none() && is_of_summaries;
            let whole = if may_be_whole { piece.whole() } else { None };
            if let Some(summary) = whole.filter(|summary| self.is_in_one(summary)) {
                return walk.enter(summary.first.time) && {
                    walk.sums.add_summary(summary, self.is_reversed);
                    true
                };
            }
            if wants.is_none() && !self.is_reversed && !piece.may_have_nan() {
                let (stamps, values, range) = piece.columns(&mut columns);
                return walk.add_all(&stamps, values, range);
            }
            let samples = piece.read(&mut scratch);
            let mut add = |sample: &Sample| {
                if wants.is_some_and(|wants| !wants(sample)) {
                    return true;
                }
                walk.enter(sample.time) && {
                    walk.sums.add(sample.value);
                    true
                }
            };
            if self.is_reversed { samples.iter().rev().all(&mut add) } else { samples.iter().all(&mut add) }
        };
        let mut pieces = series.pieces(from, to);
        let is_done = if self.is_reversed { pieces.rev().all(&mut visit) } else { pieces.all(&mut visit) };
        if is_done {
            walk.finish();
        }
    }

    /// The same where averages over time are asked for, and others as well. Both have their buckets, which
    /// are put side by side.
    fn with_averages_over_time(&self, series: &Series, asked: Asked<'_>, emit: Emit<'_>) {
        let of = |aggregations: Box<[Aggregation]>| Buckets { aggregations, ..self.clone() };
        let is_over_time = |aggregation: &&Aggregation| **aggregation == Aggregation::Twa;
        let others: Box<[Aggregation]> =
            self.aggregations.iter().filter(|one| !is_over_time(one)).copied().collect();
        let empty: Box<[f64]> = others.iter().map(|one| one.value_of_none()).collect();
        let mut averages = self.over_time(series, asked).peekable();
        let mut row = Vec::with_capacity(self.aggregations.len());
        let is_reversed = self.is_reversed;
        let is_before = |one: i64, other: i64| if is_reversed { one > other } else { one < other };
        let mut put = |start: i64, average: f64, values: &[f64]| {
            let mut values = values.iter().copied();
            row.clear();
            row.extend(self.aggregations.iter().map(|aggregation| match aggregation {
                Aggregation::Twa => average,
                _ => values.next().unwrap_or(f64::NAN),
            }));
            emit(start, &row)
        };
        let mut is_done = true;
        of(others).sums(series, asked, &mut |start, values| {
            while let Some((earlier, average)) = averages.next_if(|average| is_before(average.0, start)) {
                is_done = put(earlier, average, &empty);
                if !is_done {
                    return false;
                }
            }
            let average = averages.next_if(|average| average.0 == start);
            is_done = put(start, average.map_or(f64::NAN, |average| average.1), values);
            is_done
        });
        let _ = is_done && averages.all(|(start, average)| put(start, average, &empty));
    }

    fn is_in_one(&self, summary: &Summary) -> bool {
        let start = bucket_start(summary.first.time, self.duration, self.align);
        summary.last.time.cast_signed() < start.saturating_add(self.duration)
    }

    /// The integral of the lines between samples over each bucket, as far as there are both lines and times
    /// that were asked for, by its length.
    fn over_time(&self, series: &Series, asked: Asked<'_>) -> OverTime<'_> {
        let (from, to) = asked.bounds;
        let mut points = Vec::new();
        series.visit(asked.within.0, asked.within.1, |piece| {
            let is_wanted =
                |sample: &&Sample| !sample.value.is_nan() && asked.wants.is_none_or(|wants| wants(sample));
            points.extend(piece.iter().filter(is_wanted).copied());
            true
        });
        // Lines go on to the neighbours outside of what was asked for, whether the filter takes those or not.
        let mut before = series.last_number_before(from);
        let mut after = to.checked_add(1).and_then(|time| series.first_number_from(time));
        let start_of = |sample: &Sample| bucket_start(sample.time, self.duration, self.align);
        let ends = [points.first(), points.last()].map(|sample| sample.map(start_of));
        let bounds = [before.map(|_| from), after.map(|_| to)].map(|bound| bound.filter(|_| self.with_empty));
        let start_of_bound = |bound: u64| bucket_start(bound, self.duration, self.align);
        let [first, last] = [0, 1].map(|side| bounds[side].map(start_of_bound).or(ends[side]));
        if asked.wants.is_some()
            && let [Some(first), Some(last)] = ends
        {
            // Others lie between the first or last sample and the end of its bucket.
            if bounds[0].is_none() {
                before = series.last_number_before(from.max(first.max(0).cast_unsigned()));
            }
            if bounds[1].is_none() {
                let end =
                    last.checked_add(self.duration).map(|end| to.saturating_add(1).min(end.cast_unsigned()));
                after = end.and_then(|end| series.first_number_from(end));
            }
        }
        let left = usize::from(before.is_some())..usize::from(before.is_some()) + points.len();
        points.splice(..0, before);
        points.extend(after);
        let next = if self.is_reversed { last.filter(|_| first.is_some()) } else { first };
        let ends = first.unwrap_or(0)..=last.unwrap_or(i64::MIN);
        let span = (from.cast_signed(), i64::try_from(to).unwrap_or(i64::MAX));
        OverTime { buckets: self, points, left, span, ends, next }
    }
}

/// Buckets whose values are averages over time, one after the other.
struct OverTime<'b> {
    buckets: &'b Buckets,
    /// The samples, between the neighbours.
    points: Vec<Sample>,
    /// The indexes of the samples that are in no bucket yet.
    left: Range<usize>,
    /// The times that were asked for.
    span: (i64, i64),
    /// The starts of the earliest and the latest bucket.
    ends: RangeInclusive<i64>,
    /// The start of the next bucket.
    next: Option<i64>,
}

impl OverTime<'_> {
    /// Takes the samples of a bucket, and returns their indexes.
    fn take(&mut self, start: i64, end: Option<i64>) -> Range<usize> {
        let samples = &self.points[self.left.clone()];
        if self.buckets.is_reversed {
            let before = samples.partition_point(|sample| sample.time.cast_signed() < start);
            let first = self.left.start + before;
            return first..std::mem::replace(&mut self.left.end, first);
        }
        let is_in_bucket = |sample: &Sample| end.is_none_or(|end| sample.time.cast_signed() < end);
        let next = self.left.start + samples.partition_point(is_in_bucket);
        std::mem::replace(&mut self.left.start, next)..next
    }
}

impl Iterator for OverTime<'_> {
    /// The start of a bucket and its value.
    type Item = (i64, f64);

    fn next(&mut self) -> Option<(i64, f64)> {
        let Buckets { duration, align, with_empty, is_reversed, .. } = *self.buckets;
        let start = self.next.filter(|start| self.ends.contains(start))?;
        // The last bucket that there can be goes up to the largest time, which belongs to it.
        let end = start.checked_add(duration);
        let taken = self.take(start, end);
        let left = &self.points[self.left.clone()];
        let neighbour = if is_reversed { left.last() } else { left.first() };
        self.next = match with_empty {
            true if is_reversed => start.checked_sub(duration),
            true => end,
            false => neighbour.map(|sample| bucket_start(sample.time, duration, align)),
        };
        let span = (start.max(self.span.0), end.unwrap_or(i64::MAX).min(self.span.1));
        Some((start, average(&self.points, (taken.start, taken.end), span)))
    }
}

/// The average over a span of time of the lines between points, of which those from one index to another are
/// in the span.
fn average(points: &[Sample], (first, end): (usize, usize), (from, to): (i64, i64)) -> f64 {
    let at = |one: Sample, other: Sample, time: i64| {
        let part = (time - one.time.cast_signed()) as f64 / (other.time - one.time) as f64;
        (time, one.value + part * (other.value - one.value))
    };
    let inside = &points[first..end];
    let before = first.checked_sub(1).map(|index| points[index]);
    let after = points.get(end).copied();
    let left = match (before, inside.first().copied().or(after)) {
        (Some(one), Some(other)) if other.time.cast_signed() > from => Some(at(one, other, from)),
        _ => None,
    };
    let right = match (inside.last().copied().or(before), after) {
        (Some(one), Some(other)) if one.time.cast_signed() < to => Some(at(one, other, to)),
        _ => None,
    };
    let knots = inside.iter().map(|sample| (sample.time.cast_signed(), sample.value));
    let mut knots = left.into_iter().chain(knots).chain(right);
    let Some(start) = knots.next() else { return f64::NAN };
    let (mut last, mut area) = (start, 0.0);
    for knot in knots {
        area += (last.1 + knot.1) * (knot.0 - last.0) as f64 / 2.0;
        last = knot;
    }
    if last.0 == start.0 { last.1 } else { area / (last.0 - start.0) as f64 }
}

/// A walk from bucket to bucket.
struct Walk<'e> {
    buckets: &'e Buckets,
    /// The start and the end of the bucket under way.
    bucket: Option<(i64, i64)>,
    sums: Aggregator,
    needs: Needs,
    /// The latest value of the buckets before.
    last: f64,
    values: Vec<f64>,
    emit: Emit<'e>,
}

impl<'e> Walk<'e> {
    fn new(buckets: &'e Buckets, emit: Emit<'e>) -> Self {
        let values = Vec::with_capacity(buckets.aggregations.len());
        let (sums, needs) = (Aggregator::default(), Needs::of(&buckets.aggregations));
        Walk { buckets, bucket: None, sums, needs, last: f64::NAN, values, emit }
    }

    /// Adds samples of a range in the order of time, none of which is NaN. False if no more is wanted.
    fn add_all(&mut self, stamps: &Stamps<'_>, values: &[f64], mut range: Range<usize>) -> bool {
        while !range.is_empty() {
            let (mut runs, mut buckets, mut latest) = ([&values[..0]; RUNS], [(0, 0); RUNS], self.bucket);
            for (run, bucket) in runs.iter_mut().zip(&mut buckets) {
                if range.is_empty() {
                    break;
                }
                *bucket = self.bucket_of(stamps.at(range.start), latest);
                latest = Some(*bucket);
                let end = bucket.1.max(0).cast_unsigned();
                let next = stamps.position(range.clone(), end).max(range.start + 1);
                *run = &values[range.start..next];
                range.start = next;
            }
            let mut sums = [0.0; RUNS];
            if self.needs.sum {
                sums[0] = if self.bucket == Some(buckets[0]) { self.sums.sum } else { 0.0 };
                add_side_by_side(&mut sums, runs);
            }
            for ((run, bucket), sum) in runs.into_iter().zip(buckets).zip(sums) {
                if run.is_empty() {
                    break;
                }
                if self.bucket != Some(bucket) && !self.enter_new(bucket) {
                    return false;
                }
                self.sums.add_numbers(run, self.needs, sum);
            }
        }
        true
    }

    /// Goes on to the bucket of a time. False if no more is wanted.
    #[inline]
    fn enter(&mut self, time: u64) -> bool {
        let bucket = self.bucket_of(time, self.bucket);
        self.bucket == Some(bucket) || self.enter_new(bucket)
    }

    /// The start and the end of the bucket of a time, which is often that of the time before or the next.
    #[inline]
    fn bucket_of(&self, time: u64, latest: Option<(i64, i64)>) -> (i64, i64) {
        let (at, duration) = (time.cast_signed(), self.buckets.duration);
        if let Some((start, end)) = latest {
            if (start..end).contains(&at) {
                return (start, end);
            }
            if let Some(next) = end.checked_add(duration).filter(|next| (end..*next).contains(&at)) {
                return (end, next);
            }
        }
        let start = bucket_start(time, duration, self.buckets.align);
        (start, start.saturating_add(duration))
    }

    #[inline(never)]
    fn enter_new(&mut self, (start, end): (i64, i64)) -> bool {
        let mut duration = self.buckets.duration;
        if !self.finish() {
            return false;
        }
        if let Some((before, mut empty)) = self.bucket.filter(|_| self.buckets.with_empty) {
            self.values.clear();
            self.values.extend(self.buckets.aggregations.iter().map(|one| match one {
                Aggregation::Last => self.last,
                _ => one.value_of_none(),
            }));
            let is_reversed = self.buckets.is_reversed;
            if is_reversed {
                (empty, duration) = (before.saturating_sub(duration), -duration);
            }
            // Stamps of a payload need not be in order.
            let is_between = |empty: i64| if is_reversed { empty > start } else { empty < start };
            while is_between(empty) {
                if !(self.emit)(empty, &self.values) {
                    return false;
                }
                empty = empty.saturating_add(duration);
            }
        }
        self.bucket = Some((start, end));
        self.sums = Aggregator::default();
        true
    }

    /// Emits the bucket under way.
    fn finish(&mut self) -> bool {
        let Some((start, _)) = self.bucket else { return true };
        if self.sums.count > 0.0 {
            self.last = self.sums.last;
        }
        self.values.clear();
        self.values.extend(self.buckets.aggregations.iter().map(|&one| self.sums.value(one)));
        (self.emit)(start, &self.values)
    }
}
