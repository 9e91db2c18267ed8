//! Errors that commands reply, with Redis's exact texts.

use std::borrow::Cow;

/// An error reply: the text after the `-`, its first word being the error's code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(Cow<'static, [u8]>);

impl Error {
    /// The key holds another type.
    pub const WRONG_TYPE: Error =
        Error::fixed("WRONGTYPE Operation against a key holding the wrong kind of value");
    /// Options do not parse.
    pub const SYNTAX: Error = Error::fixed("ERR syntax error");
    /// Not a 64-bit integer.
    pub const NOT_INTEGER: Error = Error::fixed("ERR value is not an integer or out of range");
    /// Not a number.
    pub const NOT_FLOAT: Error = Error::fixed("ERR value is not a valid float");
    /// A positive number was expected.
    pub const MUST_BE_POSITIVE: Error = Error::fixed("ERR value is out of range, must be positive");
    /// The key is not there.
    pub const NO_SUCH_KEY: Error = Error::fixed("ERR no such key");
    /// An index beyond the end.
    pub const INDEX_OUT_OF_RANGE: Error = Error::fixed("ERR index out of range");
    /// An addition leaves the 64-bit range.
    pub const OVERFLOW: Error = Error::fixed("ERR increment or decrement would overflow");
    /// A string would become too long.
    pub const STRING_TOO_LONG: Error =
        Error::fixed("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
    /// A timeout does not parse.
    pub const TIMEOUT_NOT_FLOAT: Error = Error::fixed("ERR timeout is not a float or out of range");
    /// A timeout is negative.
    pub const TIMEOUT_NEGATIVE: Error = Error::fixed("ERR timeout is negative");
    /// A database number is out of range.
    pub const DATABASE_OUT_OF_RANGE: Error = Error::fixed("ERR DB index is out of range");

    /// An error with a fixed text.
    pub const fn fixed(text: &'static str) -> Error {
        Error(Cow::Borrowed(text.as_bytes()))
    }

    /// An error with a text of its own.
    pub fn new(text: impl Into<String>) -> Error {
        Error::from_bytes(text.into().into_bytes())
    }

    /// The error that says why a value can not be read from disk.
    pub fn unreadable(reason: String) -> Error {
        Error::new(format!("ERR {reason}"))
    }

    /// An error that quotes a client's bytes between two texts: as they are, up to the first NUL, as Redis
    /// does.
    pub fn quoting(before: &str, quoted: &[u8], after: &str) -> Error {
        let shown = quoted.split(|&byte| byte == 0).next().unwrap_or_default();
        Error::from_bytes([before.as_bytes(), shown, after.as_bytes()].concat())
    }

    /// An error with any bytes as its text, but for line ends behind it.
    pub fn from_bytes(mut text: Vec<u8>) -> Error {
        while text.last().is_some_and(|byte| matches!(byte, b'\r' | b'\n')) {
            text.pop();
        }
        Error(Cow::Owned(text))
    }

    /// The wrong number of arguments for a command; `name` as `get` or `client|list`.
    pub fn arity(name: &str) -> Error {
        Error::new(format!("ERR wrong number of arguments for '{name}' command"))
    }

    /// An expiry that leaves the range of times; `name` as `set`.
    pub fn invalid_expiry(name: &str) -> Error {
        Error::new(format!("ERR invalid expire time in '{name}' command"))
    }

    /// The text, for a reply.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text, for people.
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }
}

/// What handlers return: nothing (the reply is written) or an error to reply instead.
pub type Outcome<T = ()> = Result<T, Error>;
