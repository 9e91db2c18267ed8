//! The rows that a query yields: of a series in memory, or taken from one on disk when that was read.

use std::sync::Arc;

use mantissa_protocol::Reply;
use mantissa_store::series::{Label, Sample};
use mantissa_store::{Series, Value};

use super::range::{self, Query};
use super::{WRONG_TYPE, compaction};
use crate::error::Outcome;

/// Times, and the values of each.
#[derive(Clone, Default)]
pub(super) struct Rows {
    pub(super) times: Vec<u64>,
    /// As many for each time as there are aggregations.
    pub(super) values: Vec<f64>,
    /// How many of them are buckets without samples.
    pub(super) empty_buckets: usize,
}

impl Rows {
    /// Those of a series.
    pub(super) fn of(query: &Query, series: &Series) -> Outcome<Rows> {
        let mut rows = Rows::default();
        let empty_buckets = query.run(series, &mut |time, values| {
            rows.times.push(time);
            rows.values.extend_from_slice(values);
        })?;
        rows.empty_buckets = empty_buckets;
        Ok(rows)
    }

    /// Calls `emit` with each row, of as many values as the query asks for.
    fn each(&self, query: &Query, emit: &mut dyn FnMut(u64, &[f64])) {
        let rows = self.times.iter().zip(self.values.chunks_exact(query.width()));
        rows.for_each(|(&time, values)| emit(time, values));
    }
}

/// What a query takes of a series on disk. The rest of it leaves memory at once.
pub(super) struct Taken {
    labels: Box<[Label]>,
    rows: Rows,
}

impl Taken {
    /// That of a value that was read, with the value so far of its bucket under way.
    pub(super) fn of(query: &Query, value: Value, open: Option<Sample>) -> Outcome<Taken> {
        let Value::Series(mut series) = value else { return Err(WRONG_TYPE) };
        compaction::add_latest(&mut series, open);
        let mut rows = Rows::of(query, &series)?;
        rows.times.shrink_to_fit();
        rows.values.shrink_to_fit();
        Ok(Taken { labels: series.options().labels.clone(), rows })
    }

    /// The buckets among the rows that have no samples.
    pub(super) fn empty_buckets(&self) -> usize {
        self.rows.empty_buckets
    }

    /// About the bytes in memory.
    pub(super) fn bytes(&self) -> usize {
        let numbers = self.rows.times.len() + self.rows.values.len();
        let texts = self.labels.iter().map(|(name, value)| name.len() + value.len() + size_of::<Label>());
        size_of::<Taken>() + numbers * size_of::<f64>() + texts.sum::<usize>()
    }
}

/// A series that a filter has found.
pub(super) enum Found {
    /// It was in memory.
    Series(Series),
    /// It was on disk. The rows are those of the query that it was read for.
    Taken(Arc<Taken>),
}

impl Found {
    pub(super) fn labels(&self) -> &[Label] {
        match self {
            Found::Series(series) => &series.options().labels,
            Found::Taken(taken) => &taken.labels,
        }
    }

    /// Calls `emit` with the rows of the query for which it was found.
    pub(super) fn run(&self, query: &Query, emit: &mut dyn FnMut(u64, &[f64])) -> Outcome {
        match self {
            Found::Series(series) => query.run(series, emit).map(|_| ()),
            Found::Taken(taken) => {
                taken.rows.each(query, emit);
                Ok(())
            }
        }
    }

    /// Writes the rows of the query for which it was found, and returns how many there were.
    pub(super) fn write(&self, query: &Query, reply: &mut Reply) -> Outcome<usize> {
        match self {
            Found::Series(series) => query.write(series, reply),
            Found::Taken(taken) => {
                let len = Some(taken.rows.times.len());
                range::write(len, reply, |emit| self.run(query, emit))
            }
        }
    }

    /// Those rows.
    pub(super) fn into_rows(self, query: &Query) -> Outcome<Rows> {
        match self {
            Found::Series(series) => Rows::of(query, &series),
            Found::Taken(taken) => Ok(taken.rows.clone()),
        }
    }

    /// Its latest sample, where the query asks for that ([`Query::latest`]).
    pub(super) fn last(&self) -> Option<Sample> {
        match self {
            Found::Series(series) => series.last(),
            Found::Taken(taken) => {
                let Rows { times, values, .. } = &taken.rows;
                times.first().zip(values.first()).map(|(&time, &value)| Sample { time, value })
            }
        }
    }

    /// About how many samples are read for the query.
    pub(super) fn samples(&self, query: &Query) -> u64 {
        match self {
            Found::Series(series) => query.samples(series),
            Found::Taken(taken) => taken.rows.times.len() as u64,
        }
    }
}
