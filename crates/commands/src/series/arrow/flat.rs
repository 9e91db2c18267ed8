//! Tables in the format of FlatBuffers, as far as Arrow's messages need it, written from the first byte on.
//!
//! ```text
//! table:   | its vtable: bytes of it, bytes of the table, place of each field or 0 (u16 each) |
//!          | distance back to the vtable (i32) | fields |
//! string:  | length (u32) | bytes | 0 |
//! vector:  | count (u32) | elements |
//! ```
//!
//! A table, string or vector lies behind the field that points to it, which holds the distance. Numbers are
//! little-endian and lie at multiples of their size.

/// A field of a table.
#[derive(Clone, Copy)]
pub(super) enum Field {
    /// Not there: its default.
    Absent,
    Byte(u8),
    Short(i16),
    Long(i64),
    /// A table, string or vector that is put behind later.
    Pointer,
}

impl Field {
    fn size(self) -> usize {
        match self {
            Field::Absent => 0,
            Field::Byte(_) => 1,
            Field::Short(_) => 2,
            Field::Pointer => 4,
            Field::Long(_) => 8,
        }
    }
}

/// Where a distance to something is to be written.
#[derive(Clone, Copy)]
pub(super) struct Place(usize);

/// A buffer under way.
pub(super) struct Flat {
    bytes: Vec<u8>,
}

impl Flat {
    /// A buffer, and the place that points to its first table.
    pub(super) fn new() -> (Self, Place) {
        (Flat { bytes: vec![0; 4] }, Place(0))
    }

    /// All of it, up to a multiple of 8 bytes.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.align(8);
        self.bytes
    }

    fn align(&mut self, to: usize) {
        self.bytes.resize(self.bytes.len().next_multiple_of(to), 0);
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn set(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Has a place point to what comes next.
    fn point(&mut self, place: Place) {
        let distance = (self.bytes.len() - place.0) as u32;
        self.set(place.0, &distance.to_le_bytes());
    }

    /// Puts a table, and returns the places of its fields.
    pub(super) fn table<const N: usize>(&mut self, place: Place, fields: [Field; N]) -> [Place; N] {
        // The table begins at a multiple of 8, after the vtable.
        let vtable_len = 4 + 2 * N;
        self.bytes.resize((self.bytes.len() + vtable_len).next_multiple_of(8) - vtable_len, 0);
        let vtable = self.bytes.len();
        let start = vtable + vtable_len;
        self.bytes.resize(start + 4, 0);
        let mut places = [Place(0); N];
        for (index, field) in fields.into_iter().enumerate().filter(|(_, field)| field.size() > 0) {
            self.align(field.size());
            let at = self.bytes.len();
            places[index] = Place(at);
            self.set(vtable + 4 + 2 * index, &((at - start) as u16).to_le_bytes());
            match field {
                Field::Absent => {}
                Field::Byte(value) => self.put(&[value]),
                Field::Short(value) => self.put(&value.to_le_bytes()),
                Field::Long(value) => self.put(&value.to_le_bytes()),
                Field::Pointer => self.put(&[0; 4]),
            }
        }
        self.set(vtable, &(vtable_len as u16).to_le_bytes());
        self.set(vtable + 2, &((self.bytes.len() - start) as u16).to_le_bytes());
        self.set(start, &(vtable_len as i32).to_le_bytes());
        self.set(place.0, &((start - place.0) as u32).to_le_bytes());
        places
    }

    pub(super) fn string(&mut self, place: Place, text: &str) {
        self.align(4);
        self.point(place);
        self.put(&(text.len() as u32).to_le_bytes());
        self.put(text.as_bytes());
        self.put(&[0]);
    }

    /// Puts a vector of pointers, and returns their places.
    pub(super) fn pointers(&mut self, place: Place, count: usize) -> Vec<Place> {
        self.align(4);
        self.point(place);
        self.put(&(count as u32).to_le_bytes());
        let start = self.bytes.len();
        self.bytes.resize(start + 4 * count, 0);
        (0..count).map(|index| Place(start + 4 * index)).collect()
    }

    /// Puts a vector of pairs of numbers.
    pub(super) fn pairs(&mut self, place: Place, pairs: &[[i64; 2]]) {
        self.bytes.resize((self.bytes.len() + 4).next_multiple_of(8) - 4, 0);
        self.point(place);
        self.put(&(pairs.len() as u32).to_le_bytes());
        pairs.iter().flatten().for_each(|number| self.put(&number.to_le_bytes()));
    }
}
