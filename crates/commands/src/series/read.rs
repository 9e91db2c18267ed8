//! TS.READ: samples from a time on, waiting for them if the client likes.

use mantissa_protocol::{Args, OwnedArgs, Reply};
use mantissa_store::Kind;
use mantissa_store::series::Series;

use super::{WRONG_TYPE, place_of, time_of, write_sample};
use crate::access::Access;
use crate::effects::TimeoutReply;
use crate::error::{Error, Outcome};

/// What is asked of a series.
struct Plan {
    /// Milliseconds to wait, for ever if 0, and the number of samples that end it.
    wait: Option<(u64, u64)>,
    /// The most samples that are wanted.
    count_max: u64,
}

impl Plan {
    fn parse(args: Args<'_>) -> Outcome<Plan> {
        let mut plan = Plan { wait: None, count_max: u64::MAX };
        let mut at = 3;
        while at < args.len() {
            let is_option = |name: &str| place_of(args.range(at - 1..at + 1), name).is_some();
            match (args.get(at + 1), args.get(at + 2)) {
                (Some(time), Some(count)) if plan.wait.is_none() && is_option("BLOCK") => {
                    let time = time_of(time).ok_or(Error::fixed("ERR TSDB: invalid milliseconds"))?;
                    plan.wait = Some((time, positive(count, "ERR TSDB: invalid min_count")?));
                    at += 3;
                }
                (Some(count), _) if plan.count_max == u64::MAX && is_option("MAX_COUNT") => {
                    plan.count_max = positive(count, "ERR TSDB: invalid max_count")?;
                    at += 2;
                }
                _ => return Err(Error::arity("ts.read")),
            }
        }
        if plan.wait.is_some_and(|(_, count)| count > plan.count_max) {
            return Err(Error::fixed("ERR TSDB: min_count must not be greater than max_count"));
        }
        Ok(plan)
    }
}

fn positive(word: &[u8], error: &'static str) -> Outcome<u64> {
    time_of(word).filter(|&number| number > 0).ok_or(Error::fixed(error))
}

pub(super) fn read(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let plan = Plan::parse(args)?;
    let (key, mode) = (args.at(1), access.mode());
    if plan.wait.is_some() && !mode.may_block && !mode.serving {
        return Err(Error::fixed("ERR TSDB: BLOCK is not allowed where commands can not wait"));
    }
    let from_word = args.at(2);
    let series: Option<&Series> = access.collection(key).map_err(|_| WRONG_TYPE)?;
    let last = series.and_then(Series::last).map(|last| last.time);
    let from = match from_word {
        b"-" => 0,
        b"+" => last.unwrap_or(0),
        b"$" => last.map_or(0, |last| last.saturating_add(1)),
        word => time_of(word).ok_or(Error::fixed("ERR TSDB: invalid timestamp"))?,
    };
    let count = series.map_or(0, |series| series.count(from.max(series.oldest_kept()), u64::MAX));
    // A client that waits gets nothing once its key is gone.
    let is_lost = series.is_none() && mode.serving;
    match plan.wait {
        Some((time_ms, count_min)) if count < count_min && mode.may_block && !is_lost => {
            let time_ms = i64::try_from(time_ms).unwrap_or(i64::MAX);
            let deadline = (time_ms > 0).then(|| access.now_ms().saturating_add(time_ms));
            wait(access, args, reply, from, deadline);
        }
        _ => {
            reply.array(usize::try_from(count.min(plan.count_max)).unwrap_or(usize::MAX));
            if let Some(series) = series {
                write(series, from.max(series.oldest_kept()), plan.count_max, reply);
            }
        }
    }
    Ok(())
}

/// Has the client wait for samples from a time on, which does not change meanwhile.
fn wait(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply, from: u64, deadline: Option<i64>) {
    access.block(reply, (Kind::Series, [args.at(1)]), None, deadline, TimeoutReply::Run);
    if let Some(blocking) = access.blocking_mut() {
        blocking.on_loss = true;
        let from = from.to_string();
        let mut words: Vec<&[u8]> = args.iter().collect();
        words[2] = from.as_bytes();
        blocking.instead = Some(OwnedArgs::from_slices(&words));
    }
}

fn write(series: &Series, from: u64, count_max: u64, reply: &mut Reply) {
    let mut left = count_max;
    series.visit(from, u64::MAX, |samples| {
        let here = samples.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        samples[..here].iter().for_each(|&sample| write_sample(reply, sample));
        left -= here as u64;
        left > 0
    });
}
