//! The options of trimming, as XADD and XTRIM have them, and XTRIM.

use mantissa_protocol::{Args, Reply};
use mantissa_store::Value;
use mantissa_store::stream::{References, Stream, StreamId, Trim, TrimTo};

use super::id::{IdText, NewId, parse_id};
use super::producers::Sender;
use super::{references, references_keyword};
use crate::access::Access;
use crate::effects::EventClass;
use crate::error::{Error, Outcome};
use crate::parse;

const TWO_STRATEGIES: Error =
    Error::fixed("ERR syntax error, MAXLEN and MINID options at the same time are not compatible");
const MAXLEN_NEGATIVE: Error = Error::fixed("ERR The MAXLEN argument must be >= 0.");
const LIMIT_NEGATIVE: Error = Error::fixed("ERR The LIMIT argument must be >= 0.");
const LIMIT_WITHOUT_STRATEGY: Error =
    Error::fixed("ERR syntax error, LIMIT cannot be used without specifying a trimming strategy");
const LIMIT_WITHOUT_APPROXIMATION: Error =
    Error::fixed("ERR syntax error, LIMIT cannot be used without the special ~ option");
const SENT_WITH_ID: Error =
    Error::fixed("ERR syntax error, IDMP/IDMPAUTO can be used only with auto-generated IDs");
const NO_STRATEGY: Error = Error::fixed("ERR syntax error, XTRIM must be called with a trimming strategy");

/// Most entries that approximate trimming looks at by itself, whatever the size of nodes.
const LIMIT_MAX: u64 = 1_000_000;
/// The same where nodes have no bound.
const LIMIT_UNBOUNDED: u64 = 10_000;
/// That many full nodes otherwise.
const LIMIT_NODES: u64 = 100;

/// Options before the entry of XADD, and of XTRIM.
pub(super) struct Options<'a> {
    /// What XADD makes of a key that is not there.
    pub(super) no_create: bool,
    /// How to trim.
    pub(super) trim: Option<Trim>,
    /// The identifier of the entry to add, and where its argument is.
    pub(super) id: Option<(NewId, usize)>,
    /// Who sends it, if that is to be told from who sends it again.
    pub(super) sender: Option<Sender<'a>>,
}

/// What has been read so far.
#[derive(Default)]
struct Reading<'a> {
    to: Option<TrimTo>,
    is_approximate: bool,
    limit: Option<u64>,
    references: Option<References>,
    no_create: bool,
    sender: Option<Sender<'a>>,
}

impl<'a> Options<'a> {
    /// Reads them from the third argument on; with `adds` up to the identifier, otherwise all.
    pub(super) fn parse(args: Args<'a>, adds: bool, access: &Access<'_>) -> Outcome<Self> {
        let mut reading = Reading::default();
        let mut id = None;
        let mut at = 2;
        while let Some(option) = args.get(at) {
            if adds && option == b"*" {
                id = Some((NewId::Auto, at));
                break;
            }
            match reading.option(args, at, adds)? {
                Some(next) => at = next,
                None if adds => {
                    id = Some((NewId::parse(option)?, at));
                    if reading.sender.is_some() && !access.is_loading() {
                        return Err(SENT_WITH_ID);
                    }
                    break;
                }
                None => return Err(Error::SYNTAX),
            }
        }
        let Reading { no_create, sender, .. } = reading;
        Ok(Options { no_create, trim: reading.finish(adds, access)?, id, sender })
    }
}

impl<'a> Reading<'a> {
    /// Reads the option at `at` and returns where the next one is; `None` if this is none.
    fn option(&mut self, args: Args<'a>, at: usize, adds: bool) -> Outcome<Option<usize>> {
        let option = args.at(at);
        let value = args.get(at + 1);
        if let (true, Some(mut value)) = (parse::is(option, "MAXLEN") || parse::is(option, "MINID"), value) {
            if self.to.is_some() {
                return Err(TWO_STRATEGIES);
            }
            let mut next = at + 1;
            self.is_approximate = false;
            if let (b"~" | b"=", Some(threshold)) = (value, args.get(at + 2)) {
                self.is_approximate = value == b"~";
                (next, value) = (at + 2, threshold);
            }
            self.to = Some(if parse::is(option, "MAXLEN") {
                let length = u64::try_from(parse::integer(value)?).map_err(|_| MAXLEN_NEGATIVE)?;
                TrimTo::Length(length)
            } else {
                TrimTo::From(parse_id(value, 0)?)
            });
            return Ok(Some(next + 1));
        }
        if let (true, Some(value)) = (parse::is(option, "LIMIT"), value) {
            self.limit = Some(u64::try_from(parse::integer(value)?).map_err(|_| LIMIT_NEGATIVE)?);
            return Ok(Some(at + 2));
        }
        if adds && parse::is(option, "NOMKSTREAM") {
            self.no_create = true;
            return Ok(Some(at + 1));
        }
        if adds && let Some((sender, length)) = Sender::parse(args, at, self.sender)? {
            self.sender = Some(sender);
            return Ok(Some(at + length));
        }
        match references(option).filter(|_| self.references.is_none()) {
            Some(choice) => {
                self.references = Some(choice);
                Ok(Some(at + 1))
            }
            None => Ok(None),
        }
    }

    fn finish(self, adds: bool, access: &Access<'_>) -> Outcome<Option<Trim>> {
        if self.limit.is_some_and(|limit| limit > 0) && self.to.is_none() {
            return Err(LIMIT_WITHOUT_STRATEGY);
        }
        if !adds && self.to.is_none() {
            return Err(NO_STRATEGY);
        }
        // Redis logs what an approximate trim came to as an exact one, and leaves its LIMIT there.
        if self.limit.is_some() && !self.is_approximate && !access.is_loading() {
            return Err(LIMIT_WITHOUT_APPROXIMATION);
        }
        let full_nodes =
            (access.settings().limits.stream_node_entries_max as u64).saturating_mul(LIMIT_NODES);
        let usual = if full_nodes == 0 { LIMIT_UNBOUNDED } else { full_nodes.min(LIMIT_MAX) };
        let limit = if self.is_approximate { self.limit.unwrap_or(usual) } else { 0 };
        let references = self.references.unwrap_or_default();
        Ok(self.to.map(|to| Trim { to, whole_nodes: self.is_approximate, limit, references }))
    }
}

/// Trims the stream at a key, with its event. Returns the number of removed entries.
pub(super) fn trim(access: &mut Access<'_>, key: &[u8], trim: &Trim) -> Outcome<u64> {
    let Some(stream) = access.stream_mut(key)? else { return Ok(0) };
    let (count, rest) = stream.trim(trim);
    if let Some(rest) = rest {
        access.free_later(Value::Stream(rest));
    }
    if count > 0 {
        access.event(EventClass::STREAM, "xtrim", key);
    }
    Ok(count)
}

/// The arguments that trim a stream exactly to where it now stands.
pub(super) struct Outcomes {
    keyword: &'static [u8],
    threshold: Vec<u8>,
    references: References,
}

impl Outcomes {
    pub(super) fn new(stream: &Stream, trim: &Trim) -> Self {
        let (keyword, threshold): (&[u8], _) = match trim.to {
            TrimTo::Length(_) => (b"MAXLEN", stream.len().to_string().into_bytes()),
            TrimTo::From(_) => {
                let first = if stream.is_empty() { StreamId::MAX } else { stream.first_id() };
                (b"MINID", IdText::new(first).as_bytes().to_vec())
            }
        };
        Outcomes { keyword, threshold, references: trim.references }
    }

    /// What is the default is left out: servers before Redis 8.2 do not know it.
    pub(super) fn arguments(&self) -> impl Iterator<Item = &[u8]> {
        let references = match self.references {
            References::Keep => None,
            references => Some(references_keyword(references)),
        };
        [self.keyword, b"=", &self.threshold].into_iter().chain(references)
    }
}

pub(super) fn xtrim(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let options = Options::parse(args, false, access)?;
    let key = args.at(1);
    let count = match &options.trim {
        Some(plan) => trim(access, key, plan)?,
        None => 0,
    };
    if count > 0 {
        access.changed_by(key, count);
        if let (Some(plan), true) = (&options.trim, access.logs()) {
            log_trim(access, key, plan)?;
        }
    }
    reply.integer(i64::try_from(count).unwrap_or(i64::MAX));
    Ok(())
}

/// Approximate trimming depends on the nodes: what is logged is where it came to.
fn log_trim(access: &mut Access<'_>, key: &[u8], plan: &Trim) -> Outcome {
    if !plan.whole_nodes {
        return Ok(());
    }
    if let Some(stream) = access.stream(key)? {
        let outcomes = Outcomes::new(stream, plan);
        let words: Vec<&[u8]> = [&b"XTRIM"[..], key].into_iter().chain(outcomes.arguments()).collect();
        access.log_instead(&words);
    }
    Ok(())
}
