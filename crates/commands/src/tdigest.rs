//! t-digests: the TDIGEST commands, as Redis's module has them.
//!
//! As there, the module's own commands check how many arguments they have, and a question compresses the
//! digest first. That decides how numbers that follow are merged, so a question that has compressed is
//! logged; but it is no change to those who watch the key. On a replica, where only the primary's commands
//! may change anything, a copy is compressed.

mod ask;
mod table;

pub(crate) use table::COMMANDS;

use mantissa_protocol::{Args, Reply};
use mantissa_store::{TDigest, ValueType};
use smallvec::SmallVec;

use crate::access::Access;
use crate::error::{Error, Outcome};
use crate::parse;

const NO_KEY: Error = Error::fixed("ERR T-Digest: key does not exist");
const OVERFLOW: Error = Error::fixed("ERR T-Digest: overflow detected");
const BAD_KEYWORD: Error = Error::fixed("ERR T-Digest: wrong keyword");
const DEFAULT_COMPRESSION: i64 = 100;

/// The digest at a key, to read.
fn digest<'a>(access: &'a Access<'_>, key: &[u8]) -> Outcome<&'a TDigest> {
    access.collection(key)?.ok_or(NO_KEY)
}

/// Asks the digest at a key: finds it, has the arguments parsed, since mistakes in them come after that, and
/// has `answer` called with the digest, compressed if it `is_compressed_for` them.
fn ask<A, R>(
    access: &mut Access<'_>,
    key: &[u8],
    parse: impl FnOnce() -> Outcome<A>,
    is_compressed_for: impl FnOnce(&TDigest, &A) -> bool,
    answer: impl FnOnce(&TDigest, &A) -> R,
) -> Outcome<R> {
    let found = digest(access, key)?;
    let asked = parse()?;
    if found.is_compressed() || !is_compressed_for(found, &asked) {
        return Ok(answer(found, &asked));
    }
    // Not so for what comes from the primary or from a log.
    let is_client_of_replica = access.keyspace().keeps_expired() && !access.is_loading();
    if is_client_of_replica {
        return Ok(answer(&found.compressed(), &asked));
    }
    let found = access.collection_mut::<TDigest>(key)?.ok_or(NO_KEY)?;
    // A digest whose sums overflow is asked as it is.
    _ = found.compress();
    let answered = answer(found, &asked);
    access.count_changes(1);
    Ok(answered)
}

fn compression(argument: &[u8]) -> Outcome<i64> {
    let number = parse::integer_or(argument, "ERR T-Digest: error parsing compression parameter")?;
    if number <= 0 {
        return Err(Error::fixed("ERR T-Digest: compression parameter needs to be a positive integer"));
    }
    Ok(number)
}

fn create(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() != 2 && args.len() != 4 {
        return Err(Error::arity("tdigest.create"));
    }
    let key = args.at(1);
    if access.collection_mut::<TDigest>(key)?.is_some() {
        return Err(Error::fixed("ERR T-Digest: key already exists"));
    }
    let mut wanted = DEFAULT_COMPRESSION;
    if args.len() == 4 {
        if !args.from(2).iter().any(|word| parse::is(word, "COMPRESSION")) {
            return Err(BAD_KEYWORD);
        }
        wanted = compression(args.at(3))?;
    }
    let digest = TDigest::new(wanted).ok_or(Error::fixed("ERR T-Digest: allocation failed"))?;
    access.put(key, digest.into_value(), None)?;
    access.changed(key);
    reply.ok();
    Ok(())
}

fn reset(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() != 2 {
        return Err(Error::arity("tdigest.reset"));
    }
    let key = args.at(1);
    access.collection_mut::<TDigest>(key)?.ok_or(NO_KEY)?.reset();
    access.changed(key);
    reply.ok();
    Ok(())
}

fn add(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() < 3 {
        return Err(Error::arity("tdigest.add"));
    }
    let key = args.at(1);
    let digest = access.collection_mut::<TDigest>(key)?.ok_or(NO_KEY)?;
    let mut numbers: SmallVec<[f64; 128]> = SmallVec::new();
    for word in args.from(2) {
        let number = parse::float_or(word, "ERR T-Digest: error parsing val parameter")?;
        if number.is_infinite() {
            return Err(Error::fixed("ERR T-Digest: val parameter needs to be a finite number"));
        }
        numbers.push(number);
    }
    let outcome = digest.add(&numbers);
    access.changed(key);
    outcome.map_err(|_| OVERFLOW)?;
    reply.ok();
    Ok(())
}

/// What TDIGEST.MERGE is asked for behind the keys.
struct Merging {
    compression: Option<i64>,
    overrides: bool,
}

impl Merging {
    fn parse(options: Args<'_>) -> Outcome<Self> {
        let place_of = |keyword| options.iter().position(|word| parse::is(word, keyword));
        let (of_compression, of_override) = (place_of("COMPRESSION"), place_of("OVERRIDE"));
        let compression = match of_compression {
            Some(at) => Some(compression(options.get(at + 1).ok_or_else(|| Error::arity("tdigest.merge"))?)?),
            None => None,
        };
        if !options.is_empty() && of_compression.is_none() && of_override.is_none() {
            return Err(BAD_KEYWORD);
        }
        Ok(Merging { compression, overrides: of_override.is_some() })
    }
}

fn merge(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.len() < 4 {
        return Err(Error::arity("tdigest.merge"));
    }
    let key = args.at(1);
    let before = access.collection::<TDigest>(key)?.map(TDigest::compression);
    let key_count = parse::integer_or(args.at(2), "ERR T-Digest: error parsing numkeys")?;
    if key_count <= 0 {
        return Err(Error::fixed("ERR T-Digest: numkeys needs to be a positive integer"));
    }
    let key_count = usize::try_from(key_count).unwrap_or(usize::MAX);
    if key_count > args.len() - 3 {
        return Err(Error::arity("tdigest.merge"));
    }
    let sources = args.range(3..3 + key_count);
    let merging = Merging::parse(args.from(3 + key_count))?;
    let mut largest = 0;
    for source in sources {
        largest = largest.max(digest(access, source)?.compression());
    }
    let kept = before.filter(|_| !merging.overrides);
    let compression = merging.compression.or(kept).unwrap_or(largest);
    let failed = Error::fixed("ERR T-Digest: allocation of destination digest failed");
    let mut merged = TDigest::new(compression).ok_or(failed)?;
    let destination = kept.map(|_| key);
    for (number, source) in destination.into_iter().chain(sources).enumerate() {
        // The sources are compressed where they lie, too.
        let source = access.collection_mut::<TDigest>(source)?.ok_or(NO_KEY)?;
        let outcome = source.compress().and_then(|()| merged.merge(source));
        if outcome.is_err() && (number > 0 || destination.is_none()) {
            return Err(OVERFLOW);
        }
    }
    access.put(key, merged.into_value(), None)?;
    access.changed(key);
    reply.ok();
    Ok(())
}
