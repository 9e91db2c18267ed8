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

impl Service {
    /// All of them.
    pub const ALL: [Service; 3] = [Service::Resp, Service::Tls, Service::Metrics];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Service::Resp => "resp",
            Service::Tls => "tls",
            Service::Metrics => "metrics",
        }
    }
}
