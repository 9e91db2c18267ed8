//! A small HTTP/1.1 server part: requests without bodies, short answers. It knows no socket; a worker brings
//! bytes and takes bytes away (`worker/web.rs`).
//!
//! What a client can make it hold: one unfinished head of [`request::HEAD_BYTES_MAX`] bytes, and what the
//! driver had read before reading was held.

mod accept;
mod request;
mod response;

pub use accept::metrics_format;
pub use request::{Method, Parsed, Request, parse};
pub use response::{Response, Status};
