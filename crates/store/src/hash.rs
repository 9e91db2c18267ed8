//! Hashes.

use std::collections::HashMap;

use crate::EncodingLimits;
use crate::listpack::Element;

/// A map from byte strings to byte strings, each with an expiry of its own if it has one.
#[derive(Clone, Debug, Default)]
pub struct Hash(HashMap<Box<[u8]>, (Box<[u8]>, Option<i64>)>);

impl Hash {
    /// An empty hash.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of fields, expired ones that have not been noticed included.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no field.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The name that OBJECT ENCODING replies.
    pub fn encoding(&self) -> &'static str {
        "hashtable"
    }

    /// Gives a field a value and no expiry. True if the field is new.
    pub fn set(&mut self, field: &[u8], value: &[u8], _limits: &EncodingLimits) -> bool {
        self.0.insert(field.into(), (value.into(), None)).is_none()
    }

    /// Sets or removes the expiry of a field, a Unix time in ms; false if the field is not there.
    pub fn set_expiry(&mut self, field: &[u8], expiry: Option<i64>) -> bool {
        self.0.get_mut(field).map(|pair| pair.1 = expiry).is_some()
    }

    /// When the first of the fields expires, a Unix time in ms; `None` if none does.
    pub fn earliest_expiry(&self) -> Option<i64> {
        self.0.values().filter_map(|(_, expiry)| *expiry).min()
    }

    /// All fields with their values and expiries, whether or not they have expired.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (Element<'_>, Element<'_>, Option<i64>)> {
        self.0.iter().map(|(field, (value, expiry))| (Element::Bytes(field), Element::Bytes(value), *expiry))
    }

    /// Bytes taken.
    pub fn memory_usage(&self) -> usize {
        self.0.iter().map(|(field, (value, _))| field.len() + value.len() + 48).sum()
    }
}
