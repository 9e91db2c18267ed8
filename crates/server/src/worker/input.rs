//! Where the requests that a worker serves lie.

use mantissa_protocol::RequestParser;

use crate::connection::Partial;

/// Where requests are: in the driver's buffer, or in the client's own.
pub(super) enum Input<'a> {
    Lent(&'a [u8]),
    LentUnfinished(&'a [u8], RequestParser),
    Kept(Box<Partial>),
}

impl Input<'_> {
    /// The bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Input::Lent(bytes) | Input::LentUnfinished(bytes, _) => bytes,
            Input::Kept(partial) => &partial.buffer,
        }
    }

    /// Takes the state of the parser in the first request.
    pub(super) fn take_parser(&mut self) -> RequestParser {
        match self {
            Input::Kept(partial) => std::mem::take(&mut partial.parser),
            _ => RequestParser::default(),
        }
    }

    /// Keeps the state of the parser in an unfinished request.
    pub(super) fn put_parser(&mut self, parser: RequestParser) {
        match self {
            Input::Kept(partial) => partial.parser = parser,
            Input::Lent(bytes) | Input::LentUnfinished(bytes, _) => {
                *self = Input::LentUnfinished(bytes, parser)
            }
        }
    }
}
