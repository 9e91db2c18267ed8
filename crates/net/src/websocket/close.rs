//! Why a connection ends (RFC 6455, section 7.4).

/// A status code of a close frame that this side sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CloseCode {
    /// All is done.
    Normal,
    /// The server ends.
    GoingAway,
    /// The peer broke the protocol.
    ProtocolError,
    /// A kind of message that is not taken.
    Unsupported,
    /// Text that is no UTF-8.
    InvalidPayload,
    /// The peer broke a rule of the server's.
    PolicyViolation,
    /// A frame or message is larger than allowed.
    TooBig,
    /// The server failed.
    InternalError,
    /// The server starts again: the client may connect at once.
    ServiceRestart,
}

impl CloseCode {
    /// The code on the wire.
    pub fn number(self) -> u16 {
        match self {
            CloseCode::Normal => 1000,
            CloseCode::GoingAway => 1001,
            CloseCode::ProtocolError => 1002,
            CloseCode::Unsupported => 1003,
            CloseCode::InvalidPayload => 1007,
            CloseCode::PolicyViolation => 1008,
            CloseCode::TooBig => 1009,
            CloseCode::InternalError => 1011,
            CloseCode::ServiceRestart => 1012,
        }
    }
}

/// Whether a peer may send a code: those of section 7.4.1 that may be on the wire, those registered since
/// (1012 to 1014), and those of libraries and applications.
pub(super) fn may_be_received(code: u16) -> bool {
    matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)
}
