//! The types of values, owned and borrowed.

use crate::{Hash, List, Set, SortedSet, Stream};

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// A string or an integer.
    String = 0,
    /// A list.
    List = 1,
    /// A set.
    Set = 2,
    /// A sorted set.
    SortedSet = 3,
    /// A hash.
    Hash = 4,
    /// A stream.
    Stream = 5,
}

impl Kind {
    /// The name that TYPE replies.
    pub fn name(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::List => "list",
            Kind::Set => "set",
            Kind::SortedSet => "zset",
            Kind::Hash => "hash",
            Kind::Stream => "stream",
        }
    }
}

/// A value outside of any entry.
#[derive(Clone, Debug)]
pub enum Value {
    /// A string. Text that is the canonical form of a 64-bit integer becomes one when it is stored.
    String(Vec<u8>),
    /// An integer.
    Integer(i64),
    /// A list.
    List(List),
    /// A set.
    Set(Set),
    /// A sorted set.
    SortedSet(SortedSet),
    /// A hash.
    Hash(Hash),
    /// A stream.
    Stream(Stream),
}

impl Value {
    /// The type.
    pub fn kind(&self) -> Kind {
        match self {
            Value::String(_) | Value::Integer(_) => Kind::String,
            Value::List(_) => Kind::List,
            Value::Set(_) => Kind::Set,
            Value::SortedSet(_) => Kind::SortedSet,
            Value::Hash(_) => Kind::Hash,
            Value::Stream(_) => Kind::Stream,
        }
    }
}

/// A string value as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StringRef<'a> {
    /// Stored as an integer; its text is the shortest decimal form.
    Integer(i64),
    /// Stored as bytes.
    Bytes(&'a [u8]),
}

impl<'a> StringRef<'a> {
    /// The text; an integer is printed into `buffer`.
    #[inline]
    pub fn text<'b>(self, buffer: &'b mut [u8; 20]) -> &'b [u8]
    where
        'a: 'b,
    {
        match self {
            StringRef::Integer(number) => mantissa_number::format_i64(buffer, number),
            StringRef::Bytes(bytes) => bytes,
        }
    }

    /// The length of the text in bytes.
    pub fn len(self) -> usize {
        self.text(&mut [0; 20]).len()
    }

    /// Whether the text is empty.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The text as bytes of its own.
    pub fn to_vec(self) -> Vec<u8> {
        self.text(&mut [0; 20]).to_vec()
    }

    /// The value as an integer: stored as one, or text in canonical form.
    pub fn integer(self) -> Option<i64> {
        match self {
            StringRef::Integer(number) => Some(number),
            StringRef::Bytes(bytes) => mantissa_number::parse_i64(bytes),
        }
    }
}

/// A value inside its entry.
#[derive(Clone, Copy, Debug)]
pub enum ValueRef<'a> {
    /// A string or an integer.
    String(StringRef<'a>),
    /// A list.
    List(&'a List),
    /// A set.
    Set(&'a Set),
    /// A sorted set.
    SortedSet(&'a SortedSet),
    /// A hash.
    Hash(&'a Hash),
    /// A stream.
    Stream(&'a Stream),
}

impl ValueRef<'_> {
    /// A copy outside of the entry. Costs as much as the value is large.
    pub fn to_value(&self) -> Value {
        match *self {
            ValueRef::String(StringRef::Integer(number)) => Value::Integer(number),
            ValueRef::String(StringRef::Bytes(bytes)) => Value::String(bytes.to_vec()),
            ValueRef::List(list) => Value::List(list.clone()),
            ValueRef::Set(set) => Value::Set(set.clone()),
            ValueRef::SortedSet(set) => Value::SortedSet(set.clone()),
            ValueRef::Hash(hash) => Value::Hash(hash.clone()),
            ValueRef::Stream(stream) => Value::Stream(stream.clone()),
        }
    }
}

/// A collection inside its entry, to change.
pub enum ValueMut<'a> {
    /// A list.
    List(&'a mut List),
    /// A set.
    Set(&'a mut Set),
    /// A sorted set.
    SortedSet(&'a mut SortedSet),
    /// A hash.
    Hash(&'a mut Hash),
    /// A stream.
    Stream(&'a mut Stream),
}
