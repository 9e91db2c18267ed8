//! Hashes against a standard map.

use std::collections::BTreeMap;

use mantissa_store::Hash;

use super::{Choices, Clones};

type HashModel = BTreeMap<Vec<u8>, (Vec<u8>, Option<i64>)>;

fn check_hash(hash: &Hash, model: &HashModel) {
    assert_eq!(hash.len(), model.len());
    let contents: HashModel =
        hash.iter().map(|(field, value, expiry)| (field.to_vec(), (value.to_vec(), expiry))).collect();
    assert_eq!(&contents, model);
    assert_eq!(hash.earliest_expiry(), model.values().filter_map(|(_, expiry)| *expiry).min());
    let expired = model.values().filter(|(_, expiry)| expiry.is_some_and(|time| time <= 128)).count();
    assert_eq!(hash.expired_len(128), expired);
}

/// Does to a hash and some clones of it what the bytes say.
pub fn hash_operations(data: &[u8]) {
    let mut choices = Choices(data);
    let Some(limits) = choices.limits() else { return };
    let mut hashes = Clones::<Hash, HashModel>::new();
    while let (Some(operation), Some(field)) = (choices.next(), choices.text()) {
        let (hash, model) = hashes.chosen(operation);
        match operation % 16 {
            0..6 => {
                let Some(value) = choices.text() else { break };
                let keeps = operation % 16 < 3;
                let is_new = match keeps {
                    true => hash.set_keeping_expiry(&field, &value, &limits),
                    false => hash.set(&field, &value, &limits),
                };
                let expiry = model.get(&field).and_then(|(_, expiry)| *expiry).filter(|_| keeps);
                assert_eq!(is_new, model.insert(field, (value, expiry)).is_none());
            }
            6..9 => assert_eq!(hash.remove(&field), model.remove(&field).is_some()),
            9..12 => {
                let expiry = choices.next().filter(|time| *time != 0).map(i64::from);
                let is_known = model.get_mut(&field).map(|pair| pair.1 = expiry).is_some();
                assert_eq!(hash.set_expiry(&field, expiry), is_known);
            }
            12 => {
                let found = hash.get(&field).map(|(value, expiry)| (value.to_vec(), expiry));
                assert_eq!(found.as_ref(), model.get(&field));
            }
            13 => {
                let now_ms = i64::from(operation >> 4) * 4;
                let due = |pair: &(Vec<u8>, Option<i64>)| pair.1.is_some_and(|time| time <= now_ms);
                let count = model.values().filter(|pair| due(pair)).count();
                assert_eq!(hash.remove_expired(now_ms, usize::MAX, |_| ()), count);
                model.retain(|_, pair| !due(pair));
            }
            14 => check_hash(hash, model),
            _ => hashes.clone_chosen(operation, check_hash),
        }
    }
    hashes.check(check_hash);
}
