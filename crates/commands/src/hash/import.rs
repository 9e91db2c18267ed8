//! HIMPORT SET: a hash of fields that its connection has named before.

use mantissa_protocol::{Args, Reply};
use mantissa_store::{Entry, Hash, Kind, Value};

use crate::access::Access;
use crate::effects::EventClass;
use crate::error::{Error, Outcome};

/// Puts a hash of pairs of a field and a value, from argument 4 on, in the place of the one at the key,
/// argument 2. It is logged as DEL and HSET, which servers without HIMPORT know.
pub fn import_hash(access: &mut Access<'_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (key, pairs) = (args.at(2), args.from(4));
    let limits = &access.settings().limits;
    let before = access.find_mut(key).map(|entry| Entry::kind(entry));
    if before.is_some_and(|kind| kind != Kind::Hash) {
        return Err(Error::WRONG_TYPE);
    }
    let mut hash = Hash::new();
    hash.expect(pairs.len() / 2, pairs.iter().map(<[u8]>::len).max().unwrap_or(0), limits);
    for at in (0..pairs.len()).step_by(2) {
        hash.set(pairs.at(at), pairs.at(at + 1), limits);
    }
    access.put(key, Value::Hash(hash), None)?;
    access.event(EventClass::HASH, "hset", key);
    access.changed_by(key, pairs.len() as u64 / 2);
    if access.logs() {
        if before.is_some() {
            access.log_instead(&[b"DEL", key]);
        }
        access.log_instead(&[&b"HSET"[..], key].into_iter().chain(pairs).collect::<Vec<_>>());
    }
    reply.ok();
    Ok(())
}
