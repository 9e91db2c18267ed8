//! A client on its way to another process: its session, what it has sent and not been answered, its socket.

use std::io;
use std::os::fd::OwnedFd;

use mantissa_engine::Engine;
use mantissa_engine::context::Context;
use mantissa_engine::replication::passing;
use mantissa_engine::session_state::SessionState;
use mantissa_net::{Conn, Peer, Socket};
use mantissa_protocol::{Args, Protocol, decode_request, encode_request};

use super::wire;
use crate::conn_id::peer_of;
use crate::connection::{Connection, Partial, Wire};
use crate::freeze::Frozen;

/// The kind of its message.
pub const CLIENT: &[u8] = b"client";

/// A client that has arrived.
pub struct Arrival {
    state: SessionState,
    input: Vec<u8>,
    wire: Wire,
    socket: Socket,
}

/// Whether a client can go over. The keys of TLS can not leave the process: no library takes them up again.
pub fn may_go(frozen: &Frozen) -> bool {
    !frozen.socket.has_tls() && passing::may_go(&frozen.connection.session)
}

/// Appends the message for a client. `is_told`: it waits for the hand-over, of which the other process tells
/// it. False if what is spoken with it can not go over.
pub fn encode(engine: &Engine, frozen: &Frozen, is_told: bool, out: &mut Vec<u8>) -> bool {
    let Frozen { connection, socket, .. } = frozen;
    let Some(wire) = wire::encode(&connection.wire) else { return false };
    let mut state = SessionState::of(engine, &connection.session);
    if is_told {
        state.wait_no_longer();
    }
    let mut encoded = Vec::new();
    state.encode(&mut encoded);
    let input = connection.partial.as_ref().map_or(&[][..], |partial| &partial.buffer);
    let path = match socket.peer() {
        Peer::Unix { path } => path.as_bytes(),
        Peer::Tcp { .. } => b"",
    };
    encode_request(out, [CLIENT, &encoded, path, input, &wire]);
    true
}

/// Takes a client out of its message.
pub fn receive(message: Args<'_>, descriptor: OwnedFd) -> io::Result<Arrival> {
    let invalid = || io::Error::new(io::ErrorKind::InvalidData, "a client can not be understood");
    let state = decode_request(message.at(1)).ok_or_else(invalid)?;
    let state = SessionState::decode(state.as_args()).ok_or_else(invalid)?;
    let path = std::str::from_utf8(message.at(2)).map_err(|_| invalid())?;
    let socket = Socket::received(descriptor, Some(path).filter(|path| !path.is_empty()))?;
    let wire = wire::decode(message.get(4).unwrap_or_default()).ok_or_else(invalid)?;
    Ok(Arrival { state, input: message.at(3).to_vec(), wire, socket })
}

impl Arrival {
    /// Clients are restored in this order.
    pub fn place(&self) -> (bool, bool, u64) {
        self.state.place()
    }

    /// The number of the client.
    pub fn id(&self) -> u64 {
        self.state.id()
    }

    /// The highest database that it uses.
    pub fn highest_database(&self) -> usize {
        self.state.highest_database()
    }

    /// It comes when commands have run that it knows nothing of: what it watches counts as changed.
    pub fn come_late(&mut self) {
        self.state.miss_changes();
    }

    /// Registers its session. It is to be given to a worker that is frozen.
    pub fn restore(self, context: &mut Context) -> Result<(Box<Connection>, Socket), String> {
        let (peer, descriptor) = (peer_of(self.socket.peer()), self.socket.fd());
        let (session, reply) = self.state.restore(context, peer, descriptor)?;
        let mut connection = Box::new(Connection::new(session, Conn::from_bits(u64::MAX)));
        connection.first_bytes = reply;
        if self.wire.is_websocket() {
            connection.session.first_protocol = Protocol::Resp3;
            connection.session.is_framed = true;
        }
        connection.wire = self.wire;
        if !self.input.is_empty() {
            connection.partial = Some(Box::new(Partial { buffer: self.input, ..Partial::default() }));
        }
        Ok((connection, self.socket))
    }
}

/// One word for a message whose value is a list of words.
pub fn pack(words: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    if !words.is_empty() {
        encode_request(&mut bytes, words);
    }
    bytes
}

/// The words of [`pack`].
pub fn unpack(bytes: &[u8]) -> Vec<Vec<u8>> {
    decode_request(bytes).map_or_else(Vec::new, |words| words.as_args().iter().map(<[u8]>::to_vec).collect())
}
