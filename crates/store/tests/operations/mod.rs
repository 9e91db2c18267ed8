//! The table, and collections and their clones, against standard ones, driven by bytes: what the fuzz
//! targets and a test run.

mod arrays;
mod filters;
mod hashes;
mod lists;
mod sets;
mod sorted_sets;
mod stream_groups;
mod streams;
mod tables;

pub use arrays::array_operations;
pub use filters::{bloom_operations, cuckoo_operations};
pub use hashes::hash_operations;
pub use lists::list_operations;
use mantissa_store::EncodingLimits;
pub use sets::set_operations;
pub use sorted_sets::sorted_set_operations;
pub use streams::stream_operations;
pub use tables::table_operations;

/// Most clones of a collection at a time.
const CLONES_MAX: usize = 4;

/// Bytes that decide what happens, until there are none left.
struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    fn next(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    /// A number below 65,536.
    fn number(&mut self) -> Option<usize> {
        Some(usize::from(u16::from_le_bytes([self.next()?, self.next()?])))
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
            sorted_set_entries_max: entries,
            sorted_set_value_bytes_max: bytes,
            list_node_size: [-2, -5, 3, 0, 128, 1, -1, 20][usize::from(choice >> 3) % 8],
            stream_node_entries_max: [100, 7, 0, 1][usize::from(choice >> 3) % 4],
            stream_node_bytes_max: [4096, 300, 0, 60][usize::from(choice >> 5) % 4],
            ..EncodingLimits::default()
        })
    }
}

/// A collection with its clones, and what should be in each.
struct Clones<C, M>(Vec<(C, M)>);

impl<C: Clone + Default, M: Clone + Default> Clones<C, M> {
    fn new() -> Self {
        Clones(vec![(C::default(), M::default())])
    }

    /// The one that an operation is for.
    fn chosen(&mut self, operation: u8) -> &mut (C, M) {
        let chosen = usize::from(operation >> 4) % self.0.len();
        &mut self.0[chosen]
    }

    /// Clones the one that an operation is for. If there are many, another goes, after it has been checked.
    fn clone_chosen(&mut self, operation: u8, check: impl Fn(&C, &M)) {
        let clone = self.chosen(operation).clone();
        if self.0.len() == CLONES_MAX {
            let (gone, model) = self.0.swap_remove(usize::from(operation >> 6));
            check(&gone, &model);
        }
        self.0.push(clone);
    }

    fn check(&self, check: impl Fn(&C, &M)) {
        self.0.iter().for_each(|(collection, model)| check(collection, model));
    }
}
