//! What the server speaks on its sockets.

/// What is spoken on a listening socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Service {
    /// RESP.
    Resp,
    /// RESP within TLS.
    Tls,
    /// HTTP, for metrics.
    Metrics,
}
