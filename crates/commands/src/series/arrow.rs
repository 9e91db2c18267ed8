//! MANTISSA.TS.ARROW and MANTISSA.TS.MARROW: samples or buckets of several series as a table, in Arrow's IPC
//! format, which pandas, polars and many others read. Redis has no such commands.
//!
//! A row is a time that one of the series has; where another has nothing, its value is missing. The reply is
//! made in memory: a table of more than [`CELLS_MAX`] values is refused.

mod flat;
mod ipc;

use std::sync::Arc;

use mantissa_protocol::{Args, Reply};
use mantissa_store::series::Label;

use super::range::Query;
use super::rows::{Found, Rows};
use super::{compaction, many, place_of, series};
use crate::access::Access;
use crate::error::{Error, Outcome};
use crate::parse;

/// Values of a table: half a gigabyte of them.
const CELLS_MAX: usize = 1 << 26;
const TOO_LARGE: Error =
    Error::fixed("ERR the table is too large, ask for fewer series, less time or buckets");

/// Rows of one series.
struct OfSeries {
    key: Arc<[u8]>,
    labels: Box<[Label]>,
    rows: Rows,
}

/// A table under way.
struct Table {
    query: Query,
    series: Vec<OfSeries>,
    cells: usize,
}

impl Table {
    fn new(query: Query) -> Self {
        Table { query, series: Vec::new(), cells: 0 }
    }

    fn add(&mut self, key: Arc<[u8]>, series: Found) -> Outcome {
        let labels = series.labels().into();
        let rows = series.into_rows(&self.query)?;
        self.cells += rows.values.len();
        self.series.push(OfSeries { key, labels, rows });
        if self.cells > CELLS_MAX { Err(TOO_LARGE) } else { Ok(()) }
    }

    /// The times of all series, each once.
    fn times(&self) -> Vec<u64> {
        let Some((first, others)) = self.series.split_first() else { return Vec::new() };
        let mut times = first.rows.times.clone();
        if others.iter().any(|other| other.rows.times != first.rows.times) {
            others.iter().for_each(|other| times.extend_from_slice(&other.rows.times));
            // The times of each series are in order already, which this sort makes use of.
            times.sort();
            times.dedup();
        }
        times.truncate(self.query.row_count());
        times
    }

    fn write(self, reply: &mut Reply) -> Outcome {
        let (times, width) = (self.times(), self.query.width());
        if times.len().saturating_mul(self.series.len() * width) > CELLS_MAX {
            return Err(TOO_LARGE);
        }
        let aggregations: Vec<&str> = self.query.aggregations().iter().map(|one| one.name()).collect();
        let mut columns = Vec::with_capacity(self.series.len() * width);
        for series in &self.series {
            for index in 0..width {
                let aggregation = aggregations.get(index).filter(|_| width > 1);
                columns.push(series.column(&times, (index, width), aggregation.copied()));
            }
        }
        reply.bulk(&ipc::stream(&times, &columns));
        Ok(())
    }
}

impl OfSeries {
    /// The column of one of the values of each time.
    fn column(
        &self,
        times: &[u64],
        (index, width): (usize, usize),
        aggregation: Option<&str>,
    ) -> ipc::Column {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let key = text(&self.key);
        let name = aggregation.map_or_else(|| key.clone(), |aggregation| format!("{aggregation}({key})"));
        let metadata = self.labels.iter().map(|(name, value)| (text(name), text(value))).collect();
        let values = self.rows.values.iter().skip(index).step_by(width).copied();
        let mut own = self.rows.times.iter().copied().zip(values).peekable();
        let mut present = vec![0_u8; times.len().div_ceil(8)];
        let mut missing = 0;
        let mut value_at = |(row, &time): (usize, &u64)| match own.next_if(|one| one.0 == time) {
            Some((_, value)) => {
                present[row / 8] |= 1 << (row % 8);
                value
            }
            None => {
                missing += 1;
                0.0
            }
        };
        let values = times.iter().enumerate().map(&mut value_at).collect();
        ipc::Column { name, metadata, values, present, missing }
    }
}

/// `MANTISSA.TS.ARROW numkeys key [key ...] from to [options of TS.RANGE]`
pub(super) fn of_keys(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    const NOT_POSITIVE: &str = "ERR numkeys must be a positive integer";
    const NAME: &str = "mantissa.ts.arrow";
    let count = usize::try_from(parse::integer_or(args.at(1), NOT_POSITIVE)?).ok();
    let count = count.filter(|&count| count > 0).ok_or(Error::fixed(NOT_POSITIVE))?;
    if count > args.len() - 2 || args.len() - 2 - count < 2 {
        return Err(Error::arity(NAME));
    }
    let mut keys: Vec<&[u8]> = args.range(2..2 + count).iter().collect();
    // The last key stands where the name of a command would.
    let options = args.from(1 + count);
    let mut table = Table::new(Query::parse(options, 1, false, NAME)?);
    let with_open = place_of(options, "LATEST").is_some();
    if with_open {
        compaction::bring_sources(access, keys.iter().copied())?;
    }
    for &key in &keys {
        let series = compaction::latest(access, key, series(access, key)?, with_open)?;
        table.add(key.into(), Found::Series(series.into_owned()))?;
    }
    keys.sort_unstable();
    if keys.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(Error::fixed("ERR a key is named twice"));
    }
    table.write(reply)
}

/// `MANTISSA.TS.MARROW from to [options of TS.RANGE] FILTER condition [condition ...]`
pub(super) fn of_labels(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let mut table = Table::new(Query::parse(args, 1, false, "mantissa.ts.marrow")?);
    for (key, series) in many::found(access, args, &table.query)? {
        table.add(key, series)?;
    }
    table.write(reply)
}
