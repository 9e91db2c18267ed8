//! A decoded reply.

/// A reply as a client sees it. Each kind on the wire is a kind of its own here, so nothing is lost.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// `+`
    Simple(Vec<u8>),
    /// `-`
    Error(Vec<u8>),
    /// `:`
    Integer(i64),
    /// `$`, also when it came in parts
    Bulk(Vec<u8>),
    /// `$-1`
    NullBulk,
    /// `*-1`
    NullArray,
    /// `_`
    Null,
    /// `*`
    Array(Vec<Value>),
    /// `%`
    Map(Vec<(Value, Value)>),
    /// `~`
    Set(Vec<Value>),
    /// `>`
    Push(Vec<Value>),
    /// `|` and the value that the attributes belong to
    Attribute {
        /// The attributes.
        attributes: Vec<(Value, Value)>,
        /// What they are attributes of.
        value: Box<Value>,
    },
    /// `,`
    Double {
        /// The number.
        value: f64,
        /// Its text, as it came.
        text: Vec<u8>,
    },
    /// `#`
    Boolean(bool),
    /// `(`, in decimal
    BigNumber(Vec<u8>),
    /// `!`
    BulkError(Vec<u8>),
    /// `=`
    Verbatim {
        /// Three letters that tell the format of the text.
        format: [u8; 3],
        /// The text.
        text: Vec<u8>,
    },
}

impl Value {
    /// Whether this is one of the three nulls.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null | Value::NullBulk | Value::NullArray)
    }

    /// The message of an error of either kind.
    pub fn as_error(&self) -> Option<&[u8]> {
        match self {
            Value::Error(message) | Value::BulkError(message) => Some(message),
            _ => None,
        }
    }

    /// The bytes of a status, a string, a verbatim text or a big number.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Simple(bytes) | Value::Bulk(bytes) | Value::BigNumber(bytes) => Some(bytes),
            Value::Verbatim { text, .. } => Some(text),
            _ => None,
        }
    }

    /// The number of an integer.
    pub fn as_integer(&self) -> Option<i64> {
        match self {
            Value::Integer(value) => Some(*value),
            _ => None,
        }
    }

    /// The elements of an array, a set or a message.
    pub fn as_elements(&self) -> Option<&[Value]> {
        match self {
            Value::Array(elements) | Value::Set(elements) | Value::Push(elements) => Some(elements),
            _ => None,
        }
    }
}
