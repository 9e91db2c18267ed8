//! Samples of buckets of time made one value each.
//!
//! The sum and the average of a bucket that has whole chunks are made of their sums: they may differ in the
//! last digits from what adding one sample after the other gives. A bucket of an average that overflows is
//! made of averages.

use super::{Piece, Sample, Series, Summary};

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
}

impl Aggregation {
    /// All of them with their names.
    pub const ALL: [(Aggregation, &'static str); 13] = [
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
    ];

    /// The name.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize - 1].1
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
    pub(super) count: f64,
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
        self.add_sum(value, 1.0);
        self.squares += value * value;
        self.min = if value < self.min { value } else { self.min };
        self.max = if value > self.max { value } else { self.max };
        if self.count == 1.0 {
            self.first = value;
        }
        self.last = value;
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
            Aggregation::Min => self.min,
            Aggregation::Max => self.max,
            Aggregation::Sum => self.sum,
            Aggregation::Avg => self.mean.unwrap_or(self.sum / self.count),
            Aggregation::Count => self.count,
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

/// The start of the bucket of a time, where one starts at `align`. It may be before 0.
pub fn bucket_start(time: u64, duration: i64, align: u64) -> i64 {
    let past = time.wrapping_sub(align).cast_signed().rem_euclid(duration);
    time.cast_signed().wrapping_sub(past)
}

/// Buckets of time that are to have a value each.
#[derive(Clone, Copy, Debug)]
pub struct Buckets {
    /// What makes the value.
    pub aggregation: Aggregation,
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
    /// The buckets of a series from one time to another, of samples that `wants` admits if it is there: their
    /// starts and values, as long as `emit` returns true.
    pub fn of(
        self,
        series: &Series,
        (from, to): (u64, u64),
        wants: Option<&dyn Fn(&Sample) -> bool>,
        emit: &mut dyn FnMut(i64, f64) -> bool,
    ) {
        if self.aggregation == Aggregation::Twa {
            return self.averages_over_time(series, (from, to), wants, emit);
        }
        let mut walk = Walk { buckets: self, bucket: None, sums: Aggregator::default(), emit };
        let mut scratch = Vec::new();
        let mut visit = |piece: Piece<'_>| {
            let may_be_whole = wants.is_none() && self.aggregation.is_of_summaries();
            let whole = if may_be_whole { piece.whole() } else { None };
            if let Some(summary) = whole.filter(|summary| self.is_in_one(summary)) {
                return walk.enter(summary.first.time) && {
                    walk.sums.add_summary(summary, self.is_reversed);
                    true
                };
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

    fn is_in_one(&self, summary: &Summary) -> bool {
        let start = bucket_start(summary.first.time, self.duration, self.align);
        summary.last.time.cast_signed() < start.saturating_add(self.duration)
    }

    /// The integral of the lines between samples over each bucket, as far as there are both lines and times
    /// that were asked for, by its length.
    fn averages_over_time(
        self,
        series: &Series,
        (from, to): (u64, u64),
        wants: Option<&dyn Fn(&Sample) -> bool>,
        emit: &mut dyn FnMut(i64, f64) -> bool,
    ) {
        let mut points = Vec::new();
        // Lines go on to the neighbours outside of what was asked for.
        let before = from.checked_sub(1).and_then(|_| series.last_before(from));
        let after = to.checked_add(1).and_then(|time| series.first_from(time));
        points.extend(before);
        series.visit(from, to, |piece| {
            points.extend(piece.iter().filter(|sample| wants.is_none_or(|wants| wants(sample))).copied());
            true
        });
        let ends = points.len();
        let inside = &points[usize::from(before.is_some())..];
        let start_of = |time: u64| bucket_start(time, self.duration, self.align);
        let bounds = [before.map(|_| from), after.map(|_| to)].map(|bound| bound.filter(|_| self.with_empty));
        let first = bounds[0].or(inside.first().map(|sample| sample.time));
        let last = bounds[1].or(inside.last().map(|sample| sample.time));
        let (Some(first), Some(last)) = (first, last) else { return };
        points.extend(after);
        let (mut start, end) = (start_of(first), start_of(last));
        let (from, to) = (from.cast_signed(), i64::try_from(to).unwrap_or(i64::MAX));
        let (mut at, mut reversed) = (usize::from(before.is_some()), Vec::new());
        while start <= end {
            let bucket_end = start.saturating_add(self.duration);
            let in_bucket = points[at..ends].partition_point(|sample| sample.time.cast_signed() < bucket_end);
            if in_bucket > 0 || self.with_empty {
                let span = (start.max(from), bucket_end.min(to));
                let value = average(&points, (at, at + in_bucket), span);
                if self.is_reversed {
                    reversed.push((start, value));
                } else if !emit(start, value) {
                    return;
                }
            }
            at += in_bucket;
            match points[..ends].get(at) {
                Some(next) if !self.with_empty => start = start_of(next.time),
                None if !self.with_empty => break,
                _ => start = bucket_end,
            }
        }
        reversed.into_iter().rev().all(|(start, value)| emit(start, value));
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
    buckets: Buckets,
    /// The start and the end of the bucket under way.
    bucket: Option<(i64, i64)>,
    sums: Aggregator,
    emit: &'e mut dyn FnMut(i64, f64) -> bool,
}

impl Walk<'_> {
    /// Goes on to the bucket of a time. False if no more is wanted.
    #[inline]
    fn enter(&mut self, time: u64) -> bool {
        let time_signed = time.cast_signed();
        match self.bucket {
            Some((start, end)) if (start..end).contains(&time_signed) => true,
            _ => self.enter_new(time),
        }
    }

    #[inline(never)]
    fn enter_new(&mut self, time: u64) -> bool {
        let mut duration = self.buckets.duration;
        let start = bucket_start(time, duration, self.buckets.align);
        let end = start.saturating_add(duration);
        if !self.finish() {
            return false;
        }
        if let Some((before, mut empty)) = self.bucket.filter(|_| self.buckets.with_empty) {
            let value = self.empty_value();
            if self.buckets.is_reversed {
                (empty, duration) = (before - duration, -duration);
            }
            while empty != start {
                if !(self.emit)(empty, value) {
                    return false;
                }
                empty += duration;
            }
        }
        self.bucket = Some((start, end));
        self.sums = Aggregator::default();
        true
    }

    /// Emits the bucket under way.
    fn finish(&mut self) -> bool {
        self.bucket.is_none_or(|(start, _)| (self.emit)(start, self.sums.value(self.buckets.aggregation)))
    }

    fn empty_value(&self) -> f64 {
        match self.buckets.aggregation {
            Aggregation::Sum | Aggregation::Count => 0.0,
            Aggregation::Last => self.sums.last,
            _ => f64::NAN,
        }
    }
}
