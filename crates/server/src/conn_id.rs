//! The driver's connections and peers, as the engine names them.

use mantissa_engine::host;

/// The engine's number for a connection.
pub fn conn_id(conn: mantissa_net::Conn) -> host::ConnId {
    host::ConnId(conn.to_bits())
}

/// The connection of the engine's number.
pub fn conn_of(id: host::ConnId) -> mantissa_net::Conn {
    mantissa_net::Conn::from_bits(id.0)
}

/// Who is at the other end of a connection, as the engine knows it.
pub fn peer_of(peer: &mantissa_net::Peer) -> host::Peer {
    match peer {
        mantissa_net::Peer::Tcp { remote, local } => host::Peer::Tcp { remote: *remote, local: *local },
        mantissa_net::Peer::Unix { path } => host::Peer::Unix { path: path.clone() },
    }
}
