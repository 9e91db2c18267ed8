//! Sockets: listeners, connections and the two drivers that serve them, io_uring and epoll.
//!
//! A [`Driver`] is the event loop of one thread. Its owner queues work ([`Driver::send`], [`Driver::fill`],
//! [`Driver::close`] ...) and calls [`Driver::run_once`] in a loop. Each such iteration submits the work,
//! waits, and reports events to a [`Handler`]. Bytes in, bytes out; nothing here knows a command or a
//! protocol. [`http`] and [`websocket`] are apart from that: the bytes of HTTP/1.1 and WebSocket.
//!
//! Guarantees:
//! - bytes of one connection are received in order and sent in order, by either driver;
//! - received bytes are lent to the handler where the kernel put them, without a copy, until it returns;
//! - a [`Conn`] names one connection for its whole life and is never mistaken for a later one in the same
//!   slot;
//! - after [`Event::Closed`], [`Event::Detached`] or [`Driver::close`] nothing more is reported about a
//!   connection;
//! - a connection with TLS ([`Socket::start_tls`]) looks like any other: bytes are decrypted and encrypted
//!   on the way;
//! - no connection starves the others: what one may receive in an iteration is bounded.
//!
//! Costs: an idle connection takes about 170 bytes here and holds no buffer. A busy iteration is one
//! `io_uring_enter` for all sends and receives of all connections, or, with epoll, one `epoll_wait` and
//! then one `recv` and one `send` for each active connection. While many connections are busy an iteration
//! waits some microseconds for further events ([`Driver::set_batching_delay`]).

mod accepting;
mod batching_delay;
mod connecting;
mod driver;
mod epoll;
pub mod http;
mod link;
mod listener;
mod outgoing;
mod outlet;
mod reading;
mod ring_buffers;
mod slots;
mod socket;
mod system;
mod tls;
mod uring;
mod waker;
pub mod websocket;

pub use connecting::connect_from;
pub use driver::{Driver, DriverKind, Event, Handler};
pub use link::Urgency;
pub use listener::{Bound, Listener, LocalAddress};
pub use outlet::Outlet;
pub use slots::Conn;
pub use socket::{Peer, Socket};
pub use tls::{Acceptor, ClientCertificates, Connector, TlsOptions, TlsStream};
pub use waker::Waker;
