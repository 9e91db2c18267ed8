//! What is served over HTTP/1.1: metrics (`worker/web.rs`), and commands as Upstash's REST protocol has them
//! (`worker/http.rs`). The bytes of the protocol itself are [`mantissa_net::http`]'s.
//!
//! An HTTP connection is an ordinary connection of a worker with an ordinary session. In front of the session
//! stands an [`HttpConnection`] ([`Wire::Http`](crate::connection::Wire)): it makes RESP requests of an HTTP
//! request, which run as any others do, and an HTTP answer of their replies. So blocking commands, CLIENT
//! PAUSE, pending replies, limits and CLIENT KILL hold here without further rules.
//!
//! The way of a request: [`HttpConnection::next`] finds the head; `guard` looks at `Host` and `Origin`;
//! [`routes`] finds what is at the path; the session begins anew and logs in; the content is read; `plan`
//! makes commands of it; [`Exchange`] makes the answer of their replies. A path that is no command (a page, a
//! protocol to switch to) is a further [`routes::Route`], answered in `worker/http.rs`.
//!
//! What a client can make it hold: one unfinished head, one unfinished content of `http-max-body` bytes at
//! most, what the driver had read before reading was held, and the replies of one request.

mod accept;
mod connection;
mod credentials;
mod exchange;
mod guard;
mod json;
mod plan;
pub mod routes;
mod sync_token;

pub use accept::metrics_format;
pub use connection::{Behind, HttpConnection, Overdue, Pending, State, Step};
pub use credentials::{Credentials, are_in_field, credentials};
pub use exchange::{Exchange, Outcome, Pairs, show_to};
pub use guard::{check, preflight};
pub use json::error as json_error;
pub use plan::{Plan, Shape, plan};
pub use sync_token::{FIELD as SYNC_TOKEN, SyncToken};
