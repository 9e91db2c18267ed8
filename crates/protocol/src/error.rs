//! What can be wrong with a request.

use std::fmt;

/// Why a request cannot be understood. The connection is closed after the error has been sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProtocolError {
    /// No end of line within the limit after `*`.
    TooBigMultibulkCount,
    /// The number after `*` is not one, or is too large.
    InvalidMultibulkLength,
    /// More arguments than a client may send before it has authenticated.
    UnauthenticatedMultibulkLength,
    /// No end of line within the limit where a bulk string should start.
    TooBigBulkCount,
    /// This byte stands where a bulk string should start.
    ExpectedDollar(u8),
    /// The number after `$` is not one, is negative, or exceeds the limit.
    InvalidBulkLength,
    /// A longer argument than a client may send before it has authenticated.
    UnauthenticatedBulkLength,
    /// No end of line within the limit in an inline request.
    TooBigInline,
    /// A quote that is not closed, or not followed by a space.
    UnbalancedQuotes,
}

impl ProtocolError {
    /// The text that Redis sends, without the leading `-` and the line end. It is bytes, as it may quote one
    /// of the client's.
    pub fn message(&self) -> Vec<u8> {
        let mut message = b"ERR Protocol error: ".to_vec();
        message.extend_from_slice(match self {
            ProtocolError::TooBigMultibulkCount => b"too big mbulk count string",
            ProtocolError::InvalidMultibulkLength => b"invalid multibulk length",
            ProtocolError::UnauthenticatedMultibulkLength => b"unauthenticated multibulk length",
            ProtocolError::TooBigBulkCount => b"too big bulk count string",
            ProtocolError::ExpectedDollar(_) => b"expected '$', got '",
            ProtocolError::InvalidBulkLength => b"invalid bulk length",
            ProtocolError::UnauthenticatedBulkLength => b"unauthenticated bulk length",
            ProtocolError::TooBigInline => b"too big inline request",
            ProtocolError::UnbalancedQuotes => b"unbalanced quotes in request",
        });
        if let ProtocolError::ExpectedDollar(found) = *self {
            message.push(if matches!(found, b'\r' | b'\n') { b' ' } else { found });
            message.push(b'\'');
        }
        message
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&String::from_utf8_lossy(&self.message()))
    }
}

impl std::error::Error for ProtocolError {}
