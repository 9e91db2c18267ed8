//! XNACK: pending entries are given back for others to take.

use mantissa_protocol::{Args, Reply};
use mantissa_store::stream::{Pending, Stream, StreamId};

use super::id::parse_ids;
use super::no_key_or_group;
use crate::access::Access;
use crate::error::{Error, Outcome};
use crate::parse;

const UNKNOWN_MODE: Error = Error::fixed("ERR mode must be SILENT, FAIL, or FATAL");
const COUNT_NOT_POSITIVE: &str = "ERR numids must be a positive integer";
const TOO_FEW_IDS: Error = Error::fixed("ERR number of IDs doesn't match numids");
const RETRYCOUNT_NEGATIVE: Error = Error::fixed("ERR Invalid RETRYCOUNT value, must be >= 0");
const NO_IDS: Error = Error::fixed("ERR syntax error, expected IDS keyword");

/// What becomes of the number of deliveries.
#[derive(Clone, Copy)]
enum Count {
    /// The last one does not count.
    Less,
    /// It stays.
    Same,
    /// It becomes this one.
    Set(u64),
}

impl Count {
    fn of_mode(mode: &[u8]) -> Outcome<Self> {
        let modes =
            [("SILENT", Count::Less), ("FAIL", Count::Same), ("FATAL", Count::Set(Pending::DELIVERIES_MAX))];
        modes.into_iter().find(|(name, _)| parse::is(mode, name)).map(|(_, count)| count).ok_or(UNKNOWN_MODE)
    }

    fn after(self, count: u64) -> u64 {
        match self {
            Count::Less => count.saturating_sub(1),
            Count::Same => count,
            Count::Set(count) => count,
        }
    }
}

/// Which entries to give back, and how.
struct Options {
    count: Count,
    ids: Vec<StreamId>,
    /// Entries that are not pending become so.
    force: bool,
}

impl Options {
    fn parse(args: Args<'_>) -> Outcome<Self> {
        let mut options = Options { count: Count::of_mode(args.at(3))?, ids: Vec::new(), force: false };
        let mut ids = None;
        let mut at = 4;
        while let Some(option) = args.get(at) {
            match args.get(at + 1) {
                Some(number) if parse::is(option, "IDS") => {
                    let number = parse::integer_in(number, 1, i32::MAX.into(), COUNT_NOT_POSITIVE)?;
                    let end = at + 2 + usize::try_from(number).unwrap_or(usize::MAX);
                    if end > args.len() {
                        return Err(TOO_FEW_IDS);
                    }
                    ids = Some(at + 2..end);
                    at = end;
                }
                _ if parse::is(option, "FORCE") => {
                    options.force = true;
                    at += 1;
                }
                Some(count) if parse::is(option, "RETRYCOUNT") => {
                    let count = u64::try_from(parse::integer(count)?).map_err(|_| RETRYCOUNT_NEGATIVE)?;
                    options.count = Count::Set(count);
                    at += 2;
                }
                _ => return Err(Error::quoting("ERR Unrecognized XNACK option '", option, "'")),
            }
        }
        options.ids = parse_ids(args.range(ids.ok_or(NO_IDS)?).iter())?;
        Ok(options)
    }
}

pub(super) fn xnack(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (key, name) = (args.at(1), args.at(2));
    let group = access.collection_to_write::<Stream>(key)?.and_then(|stream| stream.group(name));
    group.ok_or_else(|| no_key_or_group(key, name))?;
    let options = Options::parse(args)?;
    let Some(stream) = access.stream_mut(key)? else { return Ok(()) };
    let mut given_back = 0;
    for &id in &options.ids {
        let before = stream.group(name).and_then(|group| group.pending().get(id));
        if before.is_none() && !(options.force && stream.contains(id)) {
            continue;
        }
        if let Some(group) = stream.group_mut(name) {
            let count = before.map_or(0, |before| before.delivery_count);
            group.give_back(id, options.count.after(count));
            given_back += 1;
        }
    }
    if given_back > 0 {
        access.count_changes(given_back);
        access.signal(key);
    }
    reply.integer(given_back as i64);
    Ok(())
}
