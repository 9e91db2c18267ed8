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
    /// HTTP, for commands.
    Http,
    /// HTTP for commands, within TLS.
    HttpTls,
}

impl Service {
    /// All of them.
    pub const ALL: [Service; 5] =
        [Service::Resp, Service::Tls, Service::Metrics, Service::Http, Service::HttpTls];

    /// Whether it is spoken within TLS.
    pub fn has_tls(self) -> bool {
        matches!(self, Service::Tls | Service::HttpTls)
    }

    /// Whether commands come over HTTP.
    pub fn is_http(self) -> bool {
        matches!(self, Service::Http | Service::HttpTls)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Service::Resp => "resp",
            Service::Tls => "tls",
            Service::Metrics => "metrics",
            Service::Http => "http",
            Service::HttpTls => "http-tls",
        }
    }
}
