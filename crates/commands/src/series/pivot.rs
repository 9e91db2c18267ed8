//! TS.NRANGE and TS.NREVRANGE: the samples or buckets of several series side by side, a row for each time.

use mantissa_protocol::{Args, Reply};

use super::range::Query;
use super::rows::Rows;
use super::{compaction, place_of, series};
use crate::access::Access;
use crate::error::{Error, Outcome};
use crate::parse;

/// Rows of one series, of as many values each.
struct Column {
    width: usize,
    rows: Rows,
    /// The first row that has not been taken.
    next: usize,
}

impl Column {
    /// Appends the values of a time to a row; NaN if there are none.
    fn take(&mut self, time: u64, row: &mut Vec<f64>) {
        if self.rows.times.get(self.next) == Some(&time) {
            let start = self.next * self.width;
            row.extend_from_slice(&self.rows.values[start..start + self.width]);
            self.next += 1;
        } else {
            row.resize(row.len() + self.width, f64::NAN);
        }
    }
}

pub(super) fn nrange(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    of_keys(access, args, reply, false, "ts.nrange")
}

pub(super) fn nrevrange(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    of_keys(access, args, reply, true, "ts.nrevrange")
}

fn of_keys(
    access: &mut Access<'_>,
    args: Args<'_>,
    reply: &mut Reply,
    is_reversed: bool,
    command: &str,
) -> Outcome {
    const NOT_POSITIVE: &str = "ERR TSDB: numkeys must be a positive integer";
    let number = parse::integer_or(args.at(1), NOT_POSITIVE)?;
    let count = usize::try_from(number).ok().filter(|&count| count > 0);
    let count = count.ok_or(Error::fixed(NOT_POSITIVE))?;
    if count > args.len() - 2 || args.len() - 2 - count < 2 {
        return Err(Error::arity(command));
    }
    // The last key stands where the name of a command would.
    let options = args.from(1 + count);
    let queries = Query::parse_all(options, 1, is_reversed, (command, count))?;
    let with_open = place_of(options, "LATEST").is_some();
    let row_count = queries[0].row_count();
    if with_open {
        compaction::bring_sources(access, args.range(2..2 + count).iter())?;
    }
    let mut columns = Vec::with_capacity(count);
    for (key, query) in args.range(2..2 + count).iter().zip(&queries) {
        let series = compaction::latest(access, key, series(access, key)?, with_open)?;
        columns.push(Column { width: query.width(), rows: Rows::of(query, &series)?, next: 0 });
    }
    write(&mut columns, is_reversed, row_count, reply);
    Ok(())
}

/// Writes the rows in the order of time, no more than `row_count`.
fn write(columns: &mut [Column], is_reversed: bool, row_count: usize, reply: &mut Reply) {
    let list = reply.defer();
    let (mut row, mut rows) = (Vec::new(), 0);
    while rows < row_count {
        let heads = columns.iter().filter_map(|column| column.rows.times.get(column.next));
        let Some(&time) = (if is_reversed { heads.max() } else { heads.min() }) else { break };
        row.clear();
        columns.iter_mut().for_each(|column| column.take(time, &mut row));
        reply.array(2);
        reply.integer(time.cast_signed());
        reply.array(row.len());
        row.iter().for_each(|&value| super::text::write_value(reply, value));
        rows += 1;
    }
    reply.finish_array(list, rows);
}
