//! HTTP/1.1 as bytes (RFC 9112): heads of requests, the framing of their content, percent-encoding, answers.
//! It knows no socket and nothing of what is served.
//!
//! Guarantees: where a request ends is never in doubt. A head that could be read in two ways is refused: both
//! ways to tell the length of content, a length or a coding that is given twice, folded lines, bare line
//! feeds, spaces before a colon, an authority that differs from `Host`.
//!
//! Costs: a head is one copy of its bytes and one list of its fields. Content is copied once. What a sender
//! can have kept is what it has sent, up to the limits; a length that is only promised takes nothing.

mod body;
mod head;
mod percent;
mod response;

pub use body::{BodyReader, Progress};
pub use head::{Framing, HEAD_BYTES_MAX, Head, Method, ParsedHead, parse_head};
pub use percent::decode as percent_decode;
pub use response::{Response, Status};
