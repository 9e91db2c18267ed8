//! TLS, through rustls: what is offered to clients ([`Acceptor`]) and the state of each connection
//! (`Session`); and connections to other servers ([`Connector`], [`TlsStream`]).
//!
//! The layer lies between the driver that the owner sees and the mechanism under it, so that neither
//! mechanism knows of it. Handshakes and records are processed on the thread of the driver. Received bytes
//! are decrypted into one buffer of the driver and lent to the handler. Sent bytes are encrypted at once and
//! queued as records. Bytes that arrive while the owner does not read stay in the session.
//!
//! Costs: a connection without TLS pays one comparison for each event and call while no connection has TLS,
//! and a table lookup otherwise. A connection with TLS takes some 10 KB, and 16 KB more while a record
//! is incomplete.

mod acceptor;
mod connector;
mod key;
mod session;
mod stream;

pub use acceptor::{Acceptor, ClientCertificates, TlsOptions};
pub use connector::Connector;
pub(crate) use session::{Placed, Progress, Session, Sessions};
pub use stream::TlsStream;
