//! Copies of strings, one behind the other: what a saver takes along from a step with a shard locked.

use mantissa_store::{Entry, StringRef};

/// Copies of strings that one step with a shard locked has made.
#[derive(Default)]
pub(super) struct Texts {
    bytes: Vec<u8>,
    places: Vec<Place>,
}

struct Place {
    database: usize,
    expiry: Option<i64>,
    clock: u32,
    key_end: usize,
    /// Where the value ends, which follows the key; or the number that it is.
    value: Result<usize, i64>,
}

/// A key that holds a string.
pub(super) struct Text<'a> {
    pub database: usize,
    pub key: &'a [u8],
    pub text: StringRef<'a>,
    pub expiry: Option<i64>,
    pub clock: u32,
}

impl Texts {
    /// Copies an entry, of which `text` is the value. Returns the number of bytes.
    pub fn push(&mut self, database: usize, entry: &Entry, text: StringRef<'_>) -> usize {
        let before = self.bytes.len();
        self.bytes.extend_from_slice(entry.key());
        let key_end = self.bytes.len();
        let value = match text {
            StringRef::Integer(number) => Err(number),
            StringRef::Bytes(bytes) => {
                self.bytes.extend_from_slice(bytes);
                Ok(self.bytes.len())
            }
        };
        self.places.push(Place { database, expiry: entry.expiry(), clock: entry.clock(), key_end, value });
        self.bytes.len() - before
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = Text<'_>> {
        let mut begin = 0;
        self.places.iter().map(move |place| {
            let key = &self.bytes[begin..place.key_end];
            begin = place.value.unwrap_or(place.key_end);
            let text = match place.value {
                Ok(end) => StringRef::Bytes(&self.bytes[place.key_end..end]),
                Err(number) => StringRef::Integer(number),
            };
            Text { database: place.database, key, text, expiry: place.expiry, clock: place.clock }
        })
    }

    /// Forgets them.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.places.clear();
    }
}
