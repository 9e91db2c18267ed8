//! Entries that are added once although they are sent twice: IDMP and IDMPAUTO of XADD, XCFGSET, XIDMPRECORD.
//!
//! A producer names each entry. What is logged is the name with the identifier that the entry got; from a log
//! the entry is added if that identifier is above the last one, and counted as sent again if it is not. So
//! nothing depends on when a server forgets a name.

use std::borrow::Cow;

use mantissa_protocol::{Args, Reply};
use mantissa_store::Value;
use mantissa_store::stream::{ProducerLimits, Stream, StreamId};
use twox_hash::XxHash3_128;

use super::id::{IdText, NewId, parse_id};
use crate::access::Access;
use crate::error::{Error, Outcome};
use crate::parse;

const TWICE: Error = Error::fixed("ERR syntax error, IDMP/IDMPAUTO specified multiple times");
const NO_PRODUCER: Error = Error::fixed("ERR syntax error, IDMP requires a non-empty producer ID");
const NO_PRODUCER_AUTO: Error = Error::fixed("ERR syntax error, IDMPAUTO requires a non-empty producer ID");
const NO_NAME: Error = Error::fixed("ERR syntax error, IDMP requires a non-empty idempotent ID");
const DURATION_OUT_OF_RANGE: &str = "ERR IDMP-DURATION must be between 1 and 86400 seconds";
const MAXSIZE_OUT_OF_RANGE: &str = "ERR IDMP-MAXSIZE must be between 1 and 10000 entries";

/// The longest that names are known, in seconds.
const DURATION_S_MAX: i64 = 86_400;
/// The most names of a producer.
const NAMES_MAX: i64 = 10_000;
/// Names that are forgotten at most when one is added.
const FORGOTTEN_MAX: usize = 8;
/// Pairs up to this length are copied to be hashed.
const COPIED_BYTES_MAX: usize = 4096;

/// Who sends an entry.
#[derive(Clone, Copy)]
pub(super) struct Sender<'a> {
    producer: &'a [u8],
    /// What it calls the entry; none if the entry's content is its name.
    name: Option<&'a [u8]>,
}

impl<'a> Sender<'a> {
    /// Reads one of the two options at `at`, if it is there, and says how many arguments it has.
    pub(super) fn parse(args: Args<'a>, at: usize, before: Option<Self>) -> Outcome<Option<(Self, usize)>> {
        let option = args.at(at);
        let Some(producer) = args.get(at + 1) else { return Ok(None) };
        let (sender, length, no_producer) = match args.get(at + 2) {
            _ if parse::is(option, "IDMPAUTO") => (Sender { producer, name: None }, 2, NO_PRODUCER_AUTO),
            Some(name) if parse::is(option, "IDMP") => {
                (Sender { producer, name: Some(name) }, 3, NO_PRODUCER)
            }
            _ => return Ok(None),
        };
        if before.is_some() {
            return Err(TWICE);
        }
        if producer.is_empty() {
            return Err(no_producer);
        }
        if sender.name.is_some_and(<[u8]>::is_empty) {
            return Err(NO_NAME);
        }
        Ok(Some((sender, length)))
    }

    /// What it sends with these fields and values.
    pub(super) fn sends(self, pairs: Args<'_>) -> Message<'a> {
        let name = match self.name {
            Some(name) => Cow::Borrowed(name),
            None => Cow::Owned(name_of(pairs).to_vec()),
        };
        Message { producer: self.producer, name }
    }
}

/// The name of an entry by its content, as Redis computes it: from the hash of each field with its length and
/// value, whatever the order of the fields.
fn name_of(pairs: Args<'_>) -> [u8; 16] {
    let (mut sum, mut xor) = ([0_u64; 2], [0_u64; 2]);
    let mut copied = Vec::new();
    for pair in 0..pairs.len() / 2 {
        let (field, value) = (pairs.at(2 * pair), pairs.at(2 * pair + 1));
        let length = (field.len() as u64).to_le_bytes();
        let hash = if field.len() + value.len() <= COPIED_BYTES_MAX {
            copied.clear();
            [field, &length, value].into_iter().for_each(|part| copied.extend_from_slice(part));
            XxHash3_128::oneshot(&copied)
        } else {
            let mut hasher = XxHash3_128::new();
            [field, &length, value].into_iter().for_each(|part| hasher.write(part));
            hasher.finish_128()
        };
        for (half, bits) in [hash as u64, (hash >> 64) as u64].into_iter().enumerate() {
            sum[half] = sum[half].wrapping_add(bits);
            xor[half] ^= bits;
        }
    }
    let (low, high) = (sum[0] ^ xor[1].rotate_left(1), sum[1] ^ xor[0].rotate_left(1));
    (u128::from(high) << 64 | u128::from(low)).to_le_bytes()
}

/// An entry's name and who gave it.
pub(super) struct Message<'a> {
    producer: &'a [u8],
    name: Cow<'a, [u8]>,
}

impl<'a> Message<'a> {
    /// The entry that it has become before, if it is known at a Unix time in ms. `wanted` is the identifier
    /// of the entry to add; from a log that is enough to tell.
    pub(super) fn known(
        &self,
        stream: &Stream,
        wanted: NewId,
        loaded: bool,
        now_ms: i64,
    ) -> Option<StreamId> {
        match wanted {
            NewId::Given(id) if loaded => Some(id).filter(|id| *id <= stream.last_id),
            // Redis logs what is sent again as it came.
            _ if loaded => Some(stream.last_id),
            _ => stream.producers()?.find(self.producer, &self.name, now_ms),
        }
    }

    /// Counts that it was sent again.
    pub(super) fn repeated(&self, access: &mut Access<'_>, key: &[u8], id: StreamId) -> Outcome {
        let limits = access.settings().producers;
        if let Some(stream) = access.stream_mut(key)? {
            let producers = stream.producers_or_new(limits);
            producers.duplicates = producers.duplicates.wrapping_add(1);
        }
        access.count_changes(1);
        // The entry has been there: its content does not matter.
        let id = IdText::new(id);
        let words = [b"XADD", key, b"IDMP", self.producer, &self.name, id.as_bytes(), b"again", b""];
        access.log_instead(&words);
        Ok(())
    }

    /// Notes that it has become an entry.
    pub(super) fn note(self, access: &mut Access<'_>, key: &[u8], id: StreamId) -> Outcome<Named<'a>> {
        let (limits, now_ms) = (access.settings().producers, access.clock_ms());
        let mut is_first = false;
        if let Some(stream) = access.stream_mut(key)? {
            is_first = stream.producers().is_none();
            let producers = stream.producers_or_new(limits);
            producers.forget(now_ms, FORGOTTEN_MAX);
            producers.note(self.producer, &self.name, id);
            if !producers.is_listed() {
                access.track_producers(key);
            }
        }
        let unusual = Some(limits).filter(|limits| is_first && *limits != ProducerLimits::USUAL);
        Ok(Named { message: self, limits: unusual })
    }
}

/// A message that has become an entry.
pub(super) struct Named<'a> {
    message: Message<'a>,
    /// The limits that the stream has got, if others may not know them.
    limits: Option<ProducerLimits>,
}

impl Named<'_> {
    /// The option of XADD with which the entry is logged. If the limits are logged they come between the
    /// entry and its name.
    pub(super) fn option(&self) -> impl Iterator<Item = &[u8]> {
        let option: [&[u8]; 3] = [b"IDMP", self.message.producer, &self.message.name];
        option.into_iter().filter(|_| self.limits.is_none())
    }

    /// Logs what the option has not said.
    pub(super) fn log_rest(&self, access: &mut Access<'_>, key: &[u8], id: StreamId) {
        if let Some(limits) = self.limits {
            log_limits(access, key, limits);
            let (message, id) = (&self.message, IdText::new(id));
            access.log_instead(&[b"XIDMPRECORD", key, message.producer, &message.name, id.as_bytes()]);
        }
    }
}

fn log_limits(access: &mut Access<'_>, key: &[u8], limits: ProducerLimits) {
    let (duration, most) = (limits.duration_s.to_string(), limits.names_max.to_string());
    let words: [&[u8]; 4] = [b"IDMP-DURATION", duration.as_bytes(), b"IDMP-MAXSIZE", most.as_bytes()];
    access.log_instead(&[&[b"XCFGSET", key], &words[..]].concat());
}

/// What XCFGSET is told.
#[derive(Default)]
struct Wanted {
    duration_s: Option<u32>,
    names_max: Option<u32>,
}

impl Wanted {
    fn parse(args: Args<'_>) -> Outcome<Self> {
        let mut wanted = Wanted::default();
        let mut at = 2;
        while let Some(option) = args.get(at) {
            let value = args.get(at + 1).ok_or(Error::SYNTAX)?;
            let (place, most, twice, out_of_range) = if parse::is(option, "IDMP-DURATION") {
                const TWICE: Error = Error::fixed("ERR IDMP-DURATION specified multiple times");
                (&mut wanted.duration_s, DURATION_S_MAX, TWICE, DURATION_OUT_OF_RANGE)
            } else if parse::is(option, "IDMP-MAXSIZE") {
                const TWICE: Error = Error::fixed("ERR IDMP-MAXSIZE specified multiple times");
                (&mut wanted.names_max, NAMES_MAX, TWICE, MAXSIZE_OUT_OF_RANGE)
            } else {
                return Err(Error::SYNTAX);
            };
            if place.is_some() {
                return Err(twice);
            }
            let number = Some(parse::integer(value)?).filter(|number| (1..=most).contains(number));
            let number = number.and_then(|number| u32::try_from(number).ok());
            *place = Some(number.ok_or(Error::fixed(out_of_range))?);
            at += 2;
        }
        if wanted.duration_s.is_none() && wanted.names_max.is_none() {
            return Err(Error::fixed("ERR At least one parameter must be specified"));
        }
        Ok(wanted)
    }
}

/// XCFGSET key [IDMP-DURATION seconds] [IDMP-MAXSIZE count]
pub(super) fn xcfgset(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let key = args.at(1);
    access.collection_to_write::<Stream>(key)?.ok_or(Error::NO_SUCH_KEY)?;
    let wanted = Wanted::parse(args)?;
    let usual = access.settings().producers;
    let Some(stream) = access.stream_mut(key)? else { return Ok(()) };
    let before = stream.producers().map(|producers| producers.limits());
    let at_first = before.unwrap_or(usual);
    let limits = ProducerLimits {
        duration_s: wanted.duration_s.unwrap_or(at_first.duration_s),
        names_max: wanted.names_max.unwrap_or(at_first.names_max),
    };
    if before != Some(limits) {
        let forgotten = stream.limit_producers(limits);
        access.free_later(Value::Stream(forgotten));
        access.count_changes(1);
        log_limits(access, key, limits);
    }
    reply.ok();
    Ok(())
}

/// XIDMPRECORD key producer name id. A log may name entries that are gone.
pub(super) fn xidmprecord(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (key, id) = (args.at(1), parse_id(args.at(4), 0)?);
    let message = Message { producer: args.at(2), name: Cow::Borrowed(args.at(3)) };
    if message.producer.is_empty() {
        return Err(Error::fixed("ERR producer ID must be non-empty"));
    }
    if message.name.is_empty() {
        return Err(Error::fixed("ERR idempotent ID must be non-empty"));
    }
    let (is_loading, now_ms) = (access.is_loading(), access.clock_ms());
    let stream = access.collection_to_write::<Stream>(key)?.ok_or(Error::NO_SUCH_KEY)?;
    if !is_loading && !stream.contains(id) {
        return Err(Error::fixed("ERR No such message in stream"));
    }
    let known = stream.producers().and_then(|producers| {
        producers.find(message.producer, &message.name, if is_loading { 0 } else { now_ms })
    });
    if known.is_some_and(|known| known != id) && !is_loading {
        return Err(Error::fixed("ERR IID already exists for this producer with a different stream ID"));
    }
    if known != Some(id) {
        message.note(access, key, id)?.log_rest(access, key, id);
        access.count_changes(1);
    }
    reply.ok();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mantissa_protocol::OwnedArgs;

    fn name(pairs: &[&[u8]]) -> String {
        let args = OwnedArgs::from_slices(pairs);
        name_of(args.as_args()).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn the_name_of_content_is_that_of_redis() {
        // Computed with the library of XXH3's author, by the steps of Redis 8.6.
        let names: [(&[&str], &str); 3] = [
            (&["a", "1"], "034b44ffc743320ce2cb07999104fc02"),
            (&["a", "1", "b", "2"], "c5b282935f77a53123e1ff7a302a11f2"),
            (&["", "", "field", "value", "field", "value"], "9ed88fba77f55ab4107178a36d72c978"),
        ];
        for (pairs, expected) in names {
            let pairs: Vec<&[u8]> = pairs.iter().map(|text| text.as_bytes()).collect();
            assert_eq!(name(&pairs), expected, "{pairs:?}");
        }
        assert_eq!(name(&[b"k", "v".repeat(300).as_bytes()]), "f249c6971d54334d3c122787e7e28961");
        assert_eq!(name(&[b"field", "x".repeat(10_000).as_bytes()]), "ddaa8b8cdfbdd58ed96969fff43835bd");
        assert_eq!(name(&[b"a", b"1", b"b", b"2"]), name(&[b"b", b"2", b"a", b"1"]));
    }
}
