//! Sets and hashes against standard collections, driven by bytes: what the fuzz targets and a short test run.

use std::collections::{BTreeMap, BTreeSet};

use mantissa_store::{EncodingLimits, Hash, Set};

/// Bytes that decide what happens, until there are none left.
struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    fn next(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    /// One of a few thousand texts of all kinds: integers of every width, what nearly is one, short and long.
    fn text(&mut self) -> Option<Vec<u8>> {
        let (kind, choice) = (self.next()?, self.next()?);
        let number = i64::from(choice).wrapping_mul(0x0101_0101_0101_0101);
        Some(match kind % 8 {
            0 => choice.to_string().into_bytes(),
            1 => (number >> (kind / 4)).to_string().into_bytes(),
            2 => (number.wrapping_neg() >> (kind / 4)).to_string().into_bytes(),
            3 => format!("0{choice}").into_bytes(),
            4 => vec![choice; usize::from(kind)],
            5 => vec![b'y'; 220 + usize::from(choice % 8)],
            _ => format!("text:{kind}:{choice}").into_bytes(),
        })
    }

    fn limits(&mut self) -> Option<EncodingLimits> {
        let choice = self.next()?;
        let entries = [0, 4, 64, usize::MAX][usize::from(choice % 4)];
        let bytes = if choice & 4 == 0 { 64 } else { usize::MAX };
        Some(EncodingLimits {
            set_intset_entries_max: entries,
            set_listpack_entries_max: entries,
            set_listpack_value_bytes_max: bytes,
            hash_entries_max: entries,
            hash_value_bytes_max: bytes,
            ..EncodingLimits::default()
        })
    }
}

type SetModel = BTreeSet<Vec<u8>>;

fn check_set(set: &Set, model: &SetModel) {
    assert_eq!(set.len(), model.len());
    assert_eq!(&set.iter().map(|member| member.to_vec()).collect::<SetModel>(), model);
    let mut scanned = SetModel::new();
    let mut cursor = 0;
    loop {
        cursor = set.scan(cursor, |member| _ = scanned.insert(member.to_vec()));
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(&scanned, model);
    let mut number = 0_u64;
    let random = set.random(|| {
        number = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
        number
    });
    assert_eq!(random.is_some(), !model.is_empty());
    assert!(random.is_none_or(|member| model.contains(&member.to_vec())));
}

/// Does to a set and some clones of it what the bytes say.
pub fn set_operations(data: &[u8]) {
    let mut choices = Choices(data);
    let Some(limits) = choices.limits() else { return };
    let mut sets = vec![(Set::new(), SetModel::new())];
    while let (Some(operation), Some(text)) = (choices.next(), choices.text()) {
        let chosen = usize::from(operation >> 4) % sets.len();
        let (set, model) = &mut sets[chosen];
        match operation % 16 {
            0..8 => assert_eq!(set.add(&text, &limits), model.insert(text)),
            8..12 => assert_eq!(set.remove(&text), model.remove(&text)),
            12 => assert_eq!(set.contains(&text), model.contains(&text)),
            13 => check_set(set, model),
            14 => _ = set.compact(0),
            _ => {
                let clone = (set.clone(), model.clone());
                if sets.len() == 4 {
                    let (set, model) = sets.swap_remove(usize::from(operation >> 6));
                    check_set(&set, &model);
                }
                sets.push(clone);
            }
        }
    }
    sets.iter().for_each(|(set, model)| check_set(set, model));
}

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
    let mut hashes = vec![(Hash::new(), HashModel::new())];
    while let (Some(operation), Some(field)) = (choices.next(), choices.text()) {
        let chosen = usize::from(operation >> 4) % hashes.len();
        let (hash, model) = &mut hashes[chosen];
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
            _ => {
                let clone = (hash.clone(), model.clone());
                if hashes.len() == 4 {
                    let (hash, model) = hashes.swap_remove(usize::from(operation >> 6));
                    check_hash(&hash, &model);
                }
                hashes.push(clone);
            }
        }
    }
    hashes.iter().for_each(|(hash, model)| check_hash(hash, model));
}
