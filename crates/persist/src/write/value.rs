//! Values as files hold them: for each encoding the form that redis-server writes for it.

use super::{ELEMENTS_PER_SPILL, Encoder, Spill};
use crate::format::{put_length, value_type};
use mantissa_number::write_score;
use mantissa_store::listpack::{Element, Listpack};
use mantissa_store::{Hash, Set, SortedSet, Value, ValueRef};

/// How a collection is held.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Intset,
    Listpack,
    ListpackWithExpiries,
    Counted,
    CountedWithExpiries,
}

fn set_shape(set: &Set) -> Shape {
    match set.encoding() {
        "intset" => Shape::Intset,
        "listpack" => Shape::Listpack,
        _ => Shape::Counted,
    }
}

fn sorted_set_shape(set: &SortedSet) -> Shape {
    if set.encoding() == "listpack" { Shape::Listpack } else { Shape::Counted }
}

fn hash_shape(hash: &Hash) -> Shape {
    match hash.encoding() {
        "listpack" => Shape::Listpack,
        "listpackex" => Shape::ListpackWithExpiries,
        _ if hash.earliest_expiry().is_some() => Shape::CountedWithExpiries,
        _ => Shape::Counted,
    }
}

/// The value type that goes before the key.
pub(crate) fn form_of(value: ValueRef<'_>) -> u8 {
    match value {
        ValueRef::String(_) => value_type::STRING,
        ValueRef::List(_) => value_type::LIST_QUICKLIST_2,
        ValueRef::Set(set) => match set_shape(set) {
            Shape::Intset => value_type::SET_INTSET,
            Shape::Listpack => value_type::SET_LISTPACK,
            _ => value_type::SET,
        },
        ValueRef::SortedSet(set) => match sorted_set_shape(set) {
            Shape::Listpack => value_type::ZSET_LISTPACK,
            _ => value_type::ZSET_2,
        },
        ValueRef::Hash(hash) => match hash_shape(hash) {
            Shape::Listpack => value_type::HASH_LISTPACK,
            Shape::ListpackWithExpiries => value_type::HASH_LISTPACK_EX,
            Shape::CountedWithExpiries => value_type::HASH_METADATA,
            _ => value_type::HASH,
        },
        ValueRef::Stream(_) => value_type::STREAM_LISTPACKS_3,
    }
}

impl Encoder<'_> {
    /// Appends a value in the form that [`form_of`] names.
    pub(crate) fn value(&mut self, value: ValueRef<'_>, out: &mut Vec<u8>, spill: Spill<'_>) {
        match value {
            ValueRef::String(text) => self.string_value(text, out),
            ValueRef::List(list) => self.list(list, out, spill),
            ValueRef::Set(set) => self.set(set, out, spill),
            ValueRef::SortedSet(set) => self.sorted_set(set, out, spill),
            ValueRef::Hash(hash) => self.hash(hash, out, spill),
            ValueRef::Stream(stream) => self.stream(stream, out, spill),
        }
    }

    /// Appends a value in the form that [`form_of`] names. Of a large one what has been appended is given up.
    pub(super) fn owned_value(&mut self, value: Value, out: &mut Vec<u8>, spill: Spill<'_>) {
        let mut index = 0;
        let mut after_element = |out: &mut Vec<u8>| {
            offer(index, out, spill);
            index += 1;
        };
        match value {
            Value::Set(set) if set_shape(&set) == Shape::Counted => {
                put_length(set.len() as u64, out);
                set.into_each(&mut |member| {
                    self.element(member, out);
                    after_element(out);
                });
            }
            Value::SortedSet(set) if sorted_set_shape(&set) == Shape::Counted => {
                put_length(set.len() as u64, out);
                set.into_each_reversed(&mut |member, score| {
                    self.scored(member, score, out);
                    after_element(out);
                });
            }
            Value::Hash(hash) if hash_shape(&hash) == Shape::Counted => {
                put_length(hash.len() as u64, out);
                hash.into_each(&mut |(field, value, _)| {
                    self.element(field, out);
                    self.element(value, out);
                    after_element(out);
                });
            }
            Value::Hash(hash) if hash_shape(&hash) == Shape::CountedWithExpiries => {
                let base = hash.earliest_expiry().unwrap_or(0);
                out.extend_from_slice(&base.to_le_bytes());
                put_length(hash.len() as u64, out);
                hash.into_each(&mut |(field, value, expiry)| {
                    self.expiring(field, value, expiry, base, out);
                    after_element(out);
                });
            }
            Value::List(list) => self.owned_list(list, out, spill),
            Value::Set(set) => self.set(&set, out, spill),
            Value::SortedSet(set) => self.sorted_set(&set, out, spill),
            Value::Hash(hash) => self.hash(&hash, out, spill),
            Value::Stream(stream) => self.owned_stream(stream, out, spill),
            Value::Integer(integer) => self.integer(integer, out),
            Value::String(text) => self.string(&text, out),
        }
    }

    fn scored(&mut self, member: &[u8], score: f64, out: &mut Vec<u8>) {
        self.string(member, out);
        out.extend_from_slice(&score.to_le_bytes());
    }

    /// A field of a hash whose earliest expiry is `base`.
    fn expiring(
        &mut self,
        field: Element<'_>,
        value: Element<'_>,
        expiry: Option<i64>,
        base: i64,
        out: &mut Vec<u8>,
    ) {
        put_length(expiry.map_or(0, |expiry| expiry.saturating_sub(base) as u64 + 1), out);
        self.element(field, out);
        self.element(value, out);
    }

    fn element(&mut self, element: Element<'_>, out: &mut Vec<u8>) {
        match element {
            Element::Integer(integer) => self.integer(integer, out),
            Element::Bytes(bytes) => self.string(bytes, out),
        }
    }

    fn set(&mut self, set: &Set, out: &mut Vec<u8>, spill: Spill<'_>) {
        match set_shape(set) {
            Shape::Intset => {
                let intset = intset_of(set.iter().filter_map(|member| member.integer()).collect());
                self.string(&intset, out);
            }
            Shape::Listpack => {
                let mut listpack = Listpack::new();
                set.iter().for_each(|member| listpack.push_element(member));
                self.string(listpack.as_bytes(), out);
            }
            _ => {
                put_length(set.len() as u64, out);
                for (index, member) in set.iter().enumerate() {
                    self.element(member, out);
                    offer(index, out, spill);
                }
            }
        }
    }

    /// The counted form goes from the highest score to the lowest, which lets a reader insert at one end.
    fn sorted_set(&mut self, set: &SortedSet, out: &mut Vec<u8>, spill: Spill<'_>) {
        if sorted_set_shape(set) == Shape::Listpack {
            let mut listpack = Listpack::new();
            let mut text = Vec::new();
            for (member, score) in set.iter() {
                listpack.push(member);
                push_score(score, &mut text, &mut listpack);
            }
            return self.string(listpack.as_bytes(), out);
        }
        put_length(set.len() as u64, out);
        for (index, (member, score)) in set.iter().rev().enumerate() {
            self.scored(member, score, out);
            offer(index, out, spill);
        }
    }

    fn hash(&mut self, hash: &Hash, out: &mut Vec<u8>, spill: Spill<'_>) {
        match hash_shape(hash) {
            Shape::Listpack => {
                let mut listpack = Listpack::new();
                for (field, value, _) in hash.iter() {
                    listpack.push_element(field);
                    listpack.push_element(value);
                }
                self.string(listpack.as_bytes(), out);
            }
            Shape::ListpackWithExpiries => self.expiring_listpack(hash, out),
            Shape::CountedWithExpiries => {
                let base = hash.earliest_expiry().unwrap_or(0);
                out.extend_from_slice(&base.to_le_bytes());
                put_length(hash.len() as u64, out);
                for (index, (field, value, expiry)) in hash.iter().enumerate() {
                    self.expiring(field, value, expiry, base, out);
                    offer(index, out, spill);
                }
            }
            _ => {
                put_length(hash.len() as u64, out);
                for (index, (field, value, _)) in hash.iter().enumerate() {
                    self.element(field, out);
                    self.element(value, out);
                    offer(index, out, spill);
                }
            }
        }
    }

    fn expiring_listpack(&mut self, hash: &Hash, out: &mut Vec<u8>) {
        let mut fields: Vec<_> = hash.iter().collect();
        fields.sort_by_key(|(_, _, expiry)| expiry.unwrap_or(i64::MAX));
        let mut listpack = Listpack::new();
        for (field, value, expiry) in fields {
            listpack.push_element(field);
            listpack.push_element(value);
            listpack.push_integer(expiry.unwrap_or(0));
        }
        out.extend_from_slice(&hash.earliest_expiry().unwrap_or(0).to_le_bytes());
        self.string(listpack.as_bytes(), out);
    }
}

/// Offers what has been encoded, after the element with this index, now and then.
#[inline]
pub(super) fn offer(index: usize, out: &mut Vec<u8>, spill: Spill<'_>) {
    if index % ELEMENTS_PER_SPILL == ELEMENTS_PER_SPILL - 1 {
        spill(out);
    }
}

/// Appends a score as its text, which becomes an integer where it is the text of one.
fn push_score(score: f64, text: &mut Vec<u8>, listpack: &mut Listpack) {
    text.clear();
    write_score(text, score);
    listpack.push(text);
}

/// An intset of the least width that holds all integers.
fn intset_of(mut integers: Vec<i64>) -> Vec<u8> {
    integers.sort_unstable();
    let fits = |low: i64, high: i64| integers.iter().all(|integer| (low..=high).contains(integer));
    let width = if fits(i64::from(i16::MIN), i64::from(i16::MAX)) {
        2
    } else if fits(i64::from(i32::MIN), i64::from(i32::MAX)) {
        4
    } else {
        8
    };
    let mut intset = Vec::with_capacity(8 + width * integers.len());
    intset.extend_from_slice(&(width as u32).to_le_bytes());
    intset.extend_from_slice(&(integers.len() as u32).to_le_bytes());
    integers.iter().for_each(|integer| intset.extend_from_slice(&integer.to_le_bytes()[..width]));
    intset
}

#[cfg(test)]
mod tests {
    use crate::load::{LoadOptions, LoadTarget, LoadedValue, Loader, Record};
    use crate::write::{Encoder, WriteOptions};
    use mantissa_store::snapshot::Image;
    use mantissa_store::stream::{Group, NodeLimits, Pending, Stream, StreamId};
    use mantissa_store::{EncodingLimits, Entry, Hash, Kind, List, Set, SortedSet, Text, Value, ValueMut};

    fn id(number: usize) -> StreamId {
        StreamId { ms: number as u64 + 1, seq: 0 }
    }

    fn value(kind: Kind, count: usize, expires: bool) -> Value {
        let limits = EncodingLimits::default();
        let texts: Vec<_> = (0..count).map(|number| format!("element {number}").into_bytes()).collect();
        let mut value = match kind {
            Kind::List => Value::List(List::new()),
            Kind::Set => Value::Set(Set::new()),
            Kind::SortedSet => Value::SortedSet(SortedSet::new()),
            Kind::Stream => Value::Stream(Stream::new()),
            _ => Value::Hash(Hash::new()),
        };
        for (number, text) in texts.iter().enumerate() {
            match &mut value {
                Value::List(list) => list.push_back(text, &limits),
                Value::Set(set) => _ = set.add(text, &limits),
                Value::SortedSet(set) => _ = set.insert(text, number as f64, &limits),
                Value::Hash(hash) => _ = hash.set(text, b"value", &limits),
                Value::Stream(stream) => _ = stream.append(id(number), &[(text, b"v")], NODE_LIMITS),
                _ => {}
            }
            if let (true, Value::Hash(hash)) = (expires && number % 3 == 0, &mut value) {
                hash.set_expiry(text, Some((1 << 50) + number as i64));
            }
        }
        if let Value::Stream(stream) = &mut value {
            let mut group = Group::new(id(count), None);
            let consumer = group.add_consumer(b"consumer", 1, 2).expect("it is new");
            for number in 0..count {
                group.assign(id(number), Pending { consumer, delivered_at_ms: 3, delivery_count: 4 });
            }
            stream.add_group(b"group", group);
        }
        value
    }

    #[test]
    fn a_long_string_is_encoded_in_pieces() {
        let noise = |at: usize| {
            let mixed = (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9).to_le_bytes()[7]
        };
        let texts: [Vec<u8>; 4] = [
            (0..3_000_000).map(|at| (at / 77) as u8).collect(),
            (0..3_000_000).map(noise).collect(),
            (0..3_000_000).map(|at| if at < 1_000_000 { noise(at) } else { b'x' }).collect(),
            (0..300_000).map(|at| if at < 260_000 { b'x' } else { noise(at) }).collect(),
        ];
        for compress in [true, false] {
            let options = WriteOptions { compress, ..WriteOptions::default() };
            let mut encoder = Encoder::new(options, None);
            for (number, bytes) in texts.iter().enumerate() {
                let text = Text::from(bytes.clone()).share();
                let (key, expiry) = (Box::from(*b"key"), Some(1 << 50));
                let (mut file, mut out, mut longest) = (b"REDIS0012".to_vec(), Vec::new(), 0);
                encoder.image(Image::Text { key, expiry, clock: 0, text }, &mut out, &mut |bytes| {
                    longest = longest.max(bytes.len());
                    file.append(bytes);
                });
                file.append(&mut out);
                file.extend_from_slice(&[0xff; 1]);
                file.extend_from_slice(&[0; 8]);
                let is_shorter = file.len() < bytes.len() / 2;
                assert_eq!(is_shorter, compress && number != 1, "text {number} takes {}", file.len());
                assert!(longest < 600_000, "{longest} bytes at a time");
                let mut found = Found::default();
                let loaded = Loader::new(&file[..], None, LoadOptions::default()).load(&mut found);
                assert!(loaded.is_ok_and(|summary| summary.keys_loaded == 1));
                assert!(found.0 == *bytes, "text {number}, compressed: {compress}");
            }
        }
    }

    /// Keeps the string that is loaded.
    #[derive(Default)]
    struct Found(Vec<u8>);

    impl LoadTarget for Found {
        fn select(&mut self, _database: usize) -> Result<(), String> {
            Ok(())
        }

        fn insert(&mut self, record: Record<'_>) -> Result<(), String> {
            assert_eq!((record.key, record.expiry), (&b"key"[..], Some(1 << 50)));
            if let LoadedValue::Text(text) = record.value {
                self.0 = text.to_vec();
            }
            Ok(())
        }

        fn function(&mut self, _source: &[u8]) -> Result<(), String> {
            Ok(())
        }
    }

    const NODE_LIMITS: NodeLimits = NodeLimits { bytes_max: 4096, entries_max: 100 };

    #[test]
    fn an_image_is_encoded_as_its_entry_was_and_leaves_it_alone() {
        let mut encoder = Encoder::new(WriteOptions::default(), None);
        let kinds =
            [Kind::List, Kind::Set, Kind::SortedSet, Kind::Hash, Kind::Stream].map(|kind| (kind, false));
        for (kind, expires) in kinds.into_iter().chain([(Kind::Hash, true)]) {
            for count in [1, 100, 20_000] {
                let mut entry = Entry::new(b"key", value(kind, count, expires), Some(77), 0);
                let mut expected = Vec::new();
                encoder.entry(&entry, &mut expected);
                let image = entry.duplicate(b"key", Some(77));
                match entry.collection_mut() {
                    Some(ValueMut::List(list)) => list.remove(0, 1),
                    Some(ValueMut::Stream(stream)) => {
                        stream.delete(id(0));
                        stream.group_mut(b"group").map(|group| group.acknowledge(id(count / 2)));
                    }
                    Some(ValueMut::Set(set)) => _ = set.remove(b"element 0"),
                    Some(ValueMut::SortedSet(set)) => _ = set.remove(b"element 0"),
                    Some(ValueMut::Hash(hash)) => _ = hash.remove(b"element 0"),
                    _ => {}
                }
                let mut changed = Vec::new();
                encoder.entry(&entry, &mut changed);
                let (mut pieces, mut out) = (Vec::new(), Vec::new());
                encoder.image(Image::Entry(image), &mut out, &mut |bytes| pieces.append(bytes));
                pieces.append(&mut out);
                assert!(pieces == expected, "{kind:?} of {count}");
                let mut again = Vec::new();
                encoder.entry(&entry, &mut again);
                assert!(again == changed && again != expected, "{kind:?} of {count}");
            }
        }
    }
}
