//! RESP2 and RESP3, both directions, knowing nothing of the server.
//!
//! - [`RequestParser`] finds the requests in a read buffer; the arguments stay where they are ([`Args`]), and
//!   [`OwnedArgs`] is for requests that must outlive the buffer.
//! - [`Reply`] writes replies and messages in the protocol that the client chose.
//! - [`packed`] is many numbers in one bulk string, as bytes.
//! - [`json`] is commands and replies in JSON, for HTTP.
//! - [`Decoder`] reads replies, for clients and tests; [`encode_request`] writes requests.
//!
//! All of it is resumable and linear in the bytes that arrive, however they are split, and none of it
//! recurses on what the other side sends.
#![forbid(unsafe_code)]

mod args;
pub mod base64;
mod decode;
mod double;
mod encode;
mod error;
mod inline;
pub mod json;
pub mod packed;
mod reply;
mod request;
mod value;

pub use args::{Args, ArgsIter, OwnedArgs, Slice};
pub use decode::{DecodeError, Decoder, NESTING_MAX};
pub use double::parse_double;
pub use encode::encode_request;
pub use error::ProtocolError;
pub use inline::{UnbalancedQuotes, put_quoted, split_quoted};
pub use reply::{Deferred, Protocol, Reply, Sink, Streamed};
pub use request::{LINE_SIZE_MAX, Parsed, RequestLimits, RequestParser, decode_request};
pub use value::Value;
