//! TLS, through rustls: what is offered to clients ([`Acceptor`]) and the state of each connection
//! (`Session`).
//!
//! The layer lies between the driver that the owner sees and the mechanism under it, so that neither
//! mechanism knows of it. Handshakes and records are worked off on the thread of the driver. What is
//! received is decrypted into one buffer of the driver and lent to the handler; what is sent is encrypted
//! at once, and queued as records. Bytes that the owner does not want for the moment stay in the session.
//!
//! Costs: a connection without TLS pays one comparison for each event and call as long as there is none
//! with it, and a look into a table otherwise. One with TLS takes some 10 KB, and 16 KB more while a record
//! is incomplete.

mod acceptor;
mod session;

pub use acceptor::{Acceptor, ClientCertificates, TlsOptions};
pub(crate) use session::{Placed, Progress, Session, Sessions};
