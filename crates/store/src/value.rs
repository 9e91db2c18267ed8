//! Values of any type, owned and borrowed, as [`crate::types`] has them.

use crate::types::{Row, STRING, ValueType, Waiting};
use crate::value_types;

/// Declares what has a place for each type of the table.
macro_rules! declare {
    ([] $($(#[$doc:meta])* $kind:ident = $code:literal $row:tt)*) => {
        /// The type of a value.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Kind {
            /// A string or an integer.
            String = 0,
            $($(#[$doc])* $kind = $code,)*
        }

        impl Kind {
            /// All types.
            pub const ALL: [Kind; [$($code,)* 0].len()] = [Kind::String, $(Kind::$kind,)*];

            /// What the table says of the type.
            pub const fn row(self) -> &'static Row {
                match self {
                    Kind::String => &STRING,
                    $(Kind::$kind => &Row $row,)*
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
            $($(#[$doc])* $kind(crate::$kind),)*
        }

        impl Value {
            /// The type.
            pub fn kind(&self) -> Kind {
                match self {
                    Value::String(_) | Value::Integer(_) => Kind::String,
                    $(Value::$kind(_) => Kind::$kind,)*
                }
            }

            /// The value as one inside an entry.
            pub fn borrow(&self) -> ValueRef<'_> {
                match self {
                    Value::String(bytes) => ValueRef::String(StringRef::Bytes(bytes)),
                    Value::Integer(number) => ValueRef::String(StringRef::Integer(*number)),
                    $(Value::$kind(value) => ValueRef::$kind(value),)*
                }
            }
        }

        /// A value inside its entry.
        #[derive(Clone, Copy, Debug)]
        pub enum ValueRef<'a> {
            /// A string or an integer.
            String(StringRef<'a>),
            $($(#[$doc])* $kind(&'a crate::$kind),)*
        }

        impl ValueRef<'_> {
            /// A copy outside of the entry: of a string whole, of a collection one that shares everything.
            pub fn to_value(&self) -> Value {
                match *self {
                    ValueRef::String(StringRef::Integer(number)) => Value::Integer(number),
                    ValueRef::String(StringRef::Bytes(bytes)) => Value::String(bytes.to_vec()),
                    $(ValueRef::$kind(value) => Value::$kind(value.clone()),)*
                }
            }
        }

        /// A collection inside its entry, to change.
        pub enum ValueMut<'a> {
            $($(#[$doc])* $kind(&'a mut crate::$kind),)*
        }

        $(impl ValueType for crate::$kind {
            const KIND: Kind = Kind::$kind;

            #[inline]
            fn of(value: ValueRef<'_>) -> Option<&Self> {
                if let ValueRef::$kind(value) = value { Some(value) } else { None }
            }

            #[inline]
            fn of_mut(value: ValueMut<'_>) -> Option<&mut Self> {
                if let ValueMut::$kind(value) = value { Some(value) } else { None }
            }

            fn into_value(self) -> Value {
                Value::$kind(self)
            }
        })*
    };
}

value_types! { [declare] [] }

impl Kind {
    /// The name that TYPE replies.
    pub const fn name(self) -> &'static str {
        self.row().name
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
