//! The table of value types: one row makes a type.
//!
//! A row of [`value_types!`] gives a type its place in [`Kind`], [`Value`], [`ValueRef`] and [`ValueMut`],
//! its code in entries, its casts, and its names. What a type must be able to do are two traits:
//! [`Collection`] here and `Codec` in `mantissa-persist`. Code that has a value of any type calls them
//! through [`with_value!`], [`with_value_mut!`], [`with_owned_value!`] or [`with_kind!`], which are matches
//! over all rows. So a type that lacks something does not compile, and nothing is looked up at run time.
//! Strings are no row: they lie in the entry itself.
//!
//! ## How to add a value type
//!
//! The type's own files: `store/src/NAME.rs` with its structure and `impl Collection`,
//! `persist/src/types/NAME.rs` with `impl Codec`, `commands/src/NAME/` with its commands, and their tests.
//! Elsewhere:
//!
//! | file | what | if it is forgotten |
//! | --- | --- | --- |
//! | `store/src/types.rs` | the row | nothing knows the type |
//! | `store/src/lib.rs` | `mod` and `pub use` | does not compile: the row names the struct |
//! | `persist/src/types.rs` | `mod` | does not compile: the type has no `Codec` |
//! | `persist/src/format.rs` | the numbers of its forms | does not compile: `Codec::FORMS` names them |
//! | `commands/src/spec.rs` | its ACL category and its group | does not compile: the row names the category |
//! | `commands/src/lib.rs` | `mod`, and its tables in `FAMILIES` | a warning: its commands are never used |
//!
//! A form or a code that two types have does not compile either. Handlers reach the values through
//! `Access::collection`, `collection_mut` and `collection_or_new`. Only where the type has such:
//!
//! | what | files |
//! | --- | --- |
//! | thresholds | `store/src/limits.rs`, `config/src/settings.rs`, `engine/src/active_config.rs` |
//! | a text for `mantissa export` and `import` | `cli/src/transfer/item.rs` |
//! | a size that `mantissa cli --bigkeys` asks for | `cli/src/mode/keys.rs` |
//! | a line of its own in what `mantissa check` counts in logs | `cli/src/check/kinds.rs` |

use std::fmt::Debug;

use crate::value::{Kind, Value, ValueMut, ValueRef};
use crate::{Ahead, StringRef};

/// Passes all rows to a macro: `value_types! { [name] tokens }` is `name! { tokens rows }`, where `tokens`
/// is one token tree and each row is
///
/// ```text
/// documentation
/// Kind = code { fields of Row }
/// ```
///
/// The kind is also the name of the struct in this crate. The code stands in entries, and there only: 1 to
/// 31, each once.
#[macro_export]
macro_rules! value_types {
    ([$($then:tt)*] $with:tt) => {
        $($then)*! { $with
            /// A list.
            List = 1 {
                name: "list",
                category: "list",
                sizes: Some("lists_items"),
                waiting: Waiting::ForArrival,
            }
            /// A set.
            Set = 2 {
                name: "set",
                category: "set",
                sizes: Some("sets_items"),
                waiting: Waiting::Never,
            }
            /// A sorted set.
            SortedSet = 3 {
                name: "zset",
                category: "sortedset",
                sizes: Some("zsets_items"),
                waiting: Waiting::ForArrival,
            }
            /// A hash.
            Hash = 4 {
                name: "hash",
                category: "hash",
                sizes: Some("hashes_items"),
                waiting: Waiting::Never,
            }
            /// A stream.
            Stream = 5 {
                name: "stream",
                category: "stream",
                sizes: None,
                waiting: Waiting::ForArrivalOrLoss,
            }
            /// A JSON document.
            Json = 6 {
                name: "ReJSON-RL",
                category: "json",
                sizes: None,
                waiting: Waiting::Never,
            }
            /// A Bloom filter.
            BloomFilter = 7 {
                name: "MBbloom--",
                category: "bloom",
                sizes: None,
                waiting: Waiting::Never,
            }
            /// A Cuckoo filter.
            CuckooFilter = 8 {
                name: "MBbloomCF",
                category: "cuckoo",
                sizes: None,
                waiting: Waiting::Never,
            }
            /// A Count-Min sketch.
            CountMinSketch = 9 {
                name: "CMSk-TYPE",
                category: "cms",
                sizes: None,
                waiting: Waiting::Never,
            }
            /// A Top-K sketch.
            TopK = 10 {
                name: "TopK-TYPE",
                category: "topk",
                sizes: None,
                waiting: Waiting::Never,
            }
            /// A t-digest.
            TDigest = 11 {
                name: "TDIS-TYPE",
                category: "tdigest",
                sizes: None,
                waiting: Waiting::Never,
            }
            /// A time series.
            Series = 13 {
                name: "TSDB-TYPE",
                category: "timeseries",
                sizes: None,
                waiting: Waiting::ForArrivalOrLoss,
            }
            /// A vector set.
            VectorSet = 20 {
                name: "vectorset",
                category: "vectorset",
                sizes: None,
                waiting: Waiting::Never,
            }
            /// An array.
            Array = 21 {
                name: "array",
                category: "array",
                sizes: Some("arrays_items"),
                waiting: Waiting::Never,
            }
        }
    };
}

/// What is said of strings where other types have a row.
pub(crate) const STRING: Row =
    Row { name: "string", category: "string", sizes: Some("strings_sizes"), waiting: Waiting::Never };

/// What the table says of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The name that TYPE replies.
    pub name: &'static str,
    /// The ACL category of the commands on it.
    pub category: &'static str,
    /// What INFO KEYSIZES calls the number of its elements, if it reports that.
    pub sizes: Option<&'static str>,
    /// What blocked clients wait for.
    pub waiting: Waiting,
}

/// What clients wait for that commands on a type block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// No command on the type blocks.
    Never,
    /// For a key that holds such a value.
    ForArrival,
    /// Also for the end of such a key.
    ForArrivalOrLoss,
}

impl Waiting {
    /// Whether a new key may serve a waiting client.
    pub fn is_for_arrival(self) -> bool {
        self != Waiting::Never
    }

    /// Whether a waiting client has to know that a key is gone.
    pub fn is_for_loss(self) -> bool {
        self == Waiting::ForArrivalOrLoss
    }
}

/// A type with a row: its place among all types.
pub trait ValueType: Sized {
    /// The type.
    const KIND: Kind;

    /// The collection, if it is of this type.
    fn of(value: ValueRef<'_>) -> Option<&Self>;

    /// The collection to change, if it is of this type.
    fn of_mut(value: ValueMut<'_>) -> Option<&mut Self>;

    /// The collection as a value.
    fn into_value(self) -> Value;
}

/// What a type must be able to do, whatever it holds. It is a handle of eight bytes; a clone shares
/// everything with its original, costs microseconds, and is unaffected by what happens to the original.
pub trait Collection: ValueType + Clone + Debug + Default + Send + Sync {
    /// The number of elements, as the command that counts them replies it.
    fn element_count(&self) -> u64;

    /// What OBJECT ENCODING replies.
    fn encoding(&self) -> &'static str;

    /// Bytes that it takes beside its handle, size classes included.
    fn memory_usage(&self) -> usize;

    /// About how many allocations freeing it takes.
    fn free_effort(&self) -> usize;

    /// How many allocations Redis would free, no more than `max` + 1. Decides what counts as freed lazily.
    fn redis_free_effort(&self, max: usize) -> usize;

    /// Whether it is in the form for large values, which a dump encodes without a lock.
    fn is_large_form(&self) -> bool;

    /// Moves a slice of what lies in sparsely used memory. True if there are more slices (see
    /// [`crate::slab::parts_of_slice`]). Provided for types of which nothing is gained by that.
    fn compact(&mut self, _slice: usize) -> bool {
        false
    }

    /// Fetches what these commands on the key will look at, if it is larger than the caches. Whether it is.
    fn prefetch(&self, _commands: &[Ahead<'_>]) -> bool {
        false
    }

    /// The number of elements that Redis would hold in a hash table, for DEBUG HTSTATS-KEY; `None` if in
    /// none.
    fn hash_table_len(&self) -> Option<usize> {
        None
    }
}

/// Matches a [`ValueRef`]: `with_value!(value, text => ..., collection => ...)`, where the second
/// expression is compiled for each type of the table, `collection` being a reference to it.
#[macro_export]
macro_rules! with_value {
    ($value:expr, $text:pat => $of_string:expr, $collection:ident => $body:expr $(,)?) => {
        $crate::value_types! { [$crate::match_value] [$value, $text, $of_string, $collection, $body] }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! match_value {
    (
        [$value:expr, $text:pat, $of_string:expr, $collection:ident, $body:expr]
        $($(#[$doc:meta])* $kind:ident = $code:literal $row:tt)*
    ) => {
        match $value {
            $crate::ValueRef::String($text) => $of_string,
            $($crate::ValueRef::$kind($collection) => $body,)*
        }
    };
}

/// Matches a [`ValueMut`]: `with_value_mut!(value, collection => ...)`, likewise.
#[macro_export]
macro_rules! with_value_mut {
    ($value:expr, $collection:ident => $body:expr $(,)?) => {
        $crate::value_types! { [$crate::match_value_mut] [$value, $collection, $body] }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! match_value_mut {
    (
        [$value:expr, $collection:ident, $body:expr]
        $($(#[$doc:meta])* $kind:ident = $code:literal $row:tt)*
    ) => {
        match $value {
            $($crate::ValueMut::$kind($collection) => $body,)*
        }
    };
}

/// Matches a [`Value`]: `with_owned_value!(value, text => ..., integer => ..., collection => ...)`,
/// likewise.
#[macro_export]
macro_rules! with_owned_value {
    (
        $value:expr, $text:pat => $of_string:expr, $integer:pat => $of_integer:expr,
        $collection:ident => $body:expr $(,)?
    ) => {
        $crate::value_types! {
            [$crate::match_owned_value]
            [$value, $text, $of_string, $integer, $of_integer, $collection, $body]
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! match_owned_value {
    (
        [
            $value:expr, $text:pat, $of_string:expr, $integer:pat, $of_integer:expr, $collection:ident,
            $body:expr
        ]
        $($(#[$doc:meta])* $kind:ident = $code:literal $row:tt)*
    ) => {
        match $value {
            $crate::Value::String($text) => $of_string,
            $crate::Value::Integer($integer) => $of_integer,
            $($crate::Value::$kind($collection) => $body,)*
        }
    };
}

/// Matches a [`Kind`]: `with_kind!(kind, string: ..., Type => ...)`, where the second expression is
/// compiled for each type of the table, `Type` being its name there.
#[macro_export]
macro_rules! with_kind {
    ($of:expr, string: $of_string:expr, $type:ident => $body:expr $(,)?) => {
        $crate::value_types! { [$crate::match_kind] [$of, $of_string, $type, $body] }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! match_kind {
    (
        [$of:expr, $of_string:expr, $type:ident, $body:expr]
        $($(#[$doc:meta])* $kind:ident = $code:literal $row:tt)*
    ) => {
        match $of {
            $crate::Kind::String => $of_string,
            $($crate::Kind::$kind => {
                type $type = $crate::$kind;
                $body
            })*
        }
    };
}

impl ValueRef<'_> {
    /// The number of elements, or of bytes of a string.
    pub fn element_count(self) -> u64 {
        with_value!(self, text => StringRef::len(text) as u64, value => Collection::element_count(value))
    }

    /// The number of elements that Redis would hold in a hash table; `None` if in none.
    pub fn hash_table_len(self) -> Option<usize> {
        with_value!(self, _ => None, value => Collection::hash_table_len(value))
    }

    /// How many allocations Redis would free, no more than `max` + 1.
    pub fn redis_free_effort(self, max: usize) -> usize {
        with_value!(self, _ => 1, value => Collection::redis_free_effort(value, max))
    }
}

/// Changes for tests that run over all types.
#[cfg(test)]
pub(crate) trait Sample: Collection {
    /// Adds an element, or changes the one that has this text.
    fn add_sample(&mut self, text: &[u8], limits: &crate::EncodingLimits);

    /// Removes an element, if there is such.
    fn remove_sample(&mut self, text: &[u8]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_names_of_its_own() {
        for (index, kind) in Kind::ALL.into_iter().enumerate() {
            let row = kind.row();
            assert!(!row.name.is_empty() && !row.category.is_empty());
            for other in &Kind::ALL[..index] {
                assert_ne!(row.name, other.row().name);
                assert!(row.sizes.is_none() || row.sizes != other.row().sizes);
            }
        }
    }

    #[test]
    fn an_empty_value_of_every_type_says_what_it_is() {
        for kind in Kind::ALL {
            let value =
                with_kind!(kind, string: Value::String(Vec::new()), Type => Type::default().into_value());
            assert_eq!(value.kind(), kind);
            let entry = crate::Entry::new(b"key", value, None, 0);
            assert_eq!((entry.kind(), entry.value().element_count()), (kind, 0));
            assert!(!entry.encoding().is_empty() && entry.free_effort() <= 1);
            assert!(entry.into_value().kind() == kind);
        }
    }
}
