//! Sets against a standard set.

use std::collections::BTreeSet;

use mantissa_store::Set;

use super::{Choices, Clones};

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
    let mut sets = Clones::<Set, SetModel>::new();
    while let (Some(operation), Some(text)) = (choices.next(), choices.text()) {
        let (set, model) = sets.chosen(operation);
        match operation % 16 {
            0..8 => assert_eq!(set.add(&text, &limits), model.insert(text)),
            8..12 => assert_eq!(set.remove(&text), model.remove(&text)),
            12 => assert_eq!(set.contains(&text), model.contains(&text)),
            13 => check_set(set, model),
            14 => _ = set.compact(0),
            _ => sets.clone_chosen(operation, check_set),
        }
    }
    sets.check(check_set);
}
