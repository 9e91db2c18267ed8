//! The field sets of a session: named lists of fields, of which HIMPORT SET makes hashes. They go with the
//! session and count as its memory.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Names of fields, in the order in which their values come.
pub type Fields = Arc<[Box<[u8]>]>;

/// Lists of fields by name. One is found, added and removed in a time that does not depend on their number.
#[derive(Default)]
pub struct FieldSets {
    sets: HashMap<Box<[u8]>, Fields, foldhash::fast::RandomState>,
    bytes: usize,
}

/// The same field twice.
#[derive(Debug)]
pub struct Duplicate;

impl FieldSets {
    /// Adds one, in the place of another of that name.
    pub fn insert<'a>(
        &mut self,
        name: &[u8],
        fields: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> Result<(), Duplicate> {
        let mut seen: HashSet<&[u8], foldhash::fast::RandomState> = HashSet::default();
        if !fields.clone().all(|field| seen.insert(field)) {
            return Err(Duplicate);
        }
        let fields: Fields = fields.map(Box::from).collect();
        self.bytes += bytes_of(name, &fields);
        if let Some(old) = self.sets.insert(name.into(), fields) {
            self.bytes -= bytes_of(name, &old);
        }
        Ok(())
    }

    /// The fields of one.
    pub fn get(&self, name: &[u8]) -> Option<&Fields> {
        self.sets.get(name)
    }

    /// Removes one. False if there is none of that name.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        let removed = self.sets.remove(name);
        self.bytes -= removed.as_ref().map_or(0, |fields| bytes_of(name, fields));
        removed.is_some()
    }

    /// Their number.
    pub fn len(&self) -> usize {
        self.sets.len()
    }

    /// Bytes that they take, roughly.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// All of them with their names.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &Fields)> {
        self.sets.iter().map(|(name, fields)| (&name[..], fields))
    }
}

/// Bytes of one: its place in the table, and blocks of the allocator of 16 bytes at least.
fn bytes_of(name: &[u8], fields: &Fields) -> usize {
    let block = |bytes: &[u8]| bytes.len().next_multiple_of(16);
    let place = size_of::<(Box<[u8]>, Fields)>() * 2;
    place + block(name) + fields.iter().map(|field| size_of::<Box<[u8]>>() + block(field)).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert(sets: &mut FieldSets, name: &str, fields: &[&str]) -> bool {
        sets.insert(name.as_bytes(), fields.iter().map(|field| field.as_bytes())).is_ok()
    }

    #[test]
    fn what_goes_takes_its_bytes_along() {
        let mut sets = FieldSets::default();
        assert!(insert(&mut sets, "a", &["x", "y"]) && insert(&mut sets, "", &[""]));
        let before = sets.bytes();
        assert!(insert(&mut sets, "b", &["x"]) && insert(&mut sets, "b", &["a field with a long name", "y"]));
        assert!(!insert(&mut sets, "b", &["x", "y", "x"]), "a field comes twice");
        assert_eq!((sets.get(b"b").map(|fields| fields.len()), sets.len()), (Some(2), 3));
        assert!(sets.remove(b"b") && !sets.remove(b"b") && sets.get(b"b").is_none());
        assert_eq!(sets.bytes(), before);
        assert!(sets.remove(b"a") && sets.remove(b""));
        assert_eq!((sets.bytes(), sets.iter().count()), (0, 0));
    }
}
