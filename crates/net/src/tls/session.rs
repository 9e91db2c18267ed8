//! The state of connections with TLS.

use std::io::{self, BufRead, Write};
use std::sync::Arc;

use rustls::ServerConnection;

use super::Acceptor;
use crate::reading::{Fill, Reading};
use crate::slots::Conn;

/// Maximum bytes encrypted at a time, so that no second copy of a large reply is made.
const CHUNK_BYTES: usize = 64 * 1024;
/// The first byte of a TLS record with a handshake message (RFC 8446, section 5.1).
const HANDSHAKE_RECORD: u8 = 22;
/// A buffer for decrypted bytes is kept up to this size. What one iteration receives fits.
const SCRATCH_BYTES_MAX: usize = 256 * 1024;

/// The state of a connection after the records that were read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Progress {
    /// Records may follow.
    Open,
    /// The peer has sent close_notify.
    Ended,
    /// The records are invalid.
    Failed,
}

/// Where decrypted bytes have gone.
pub(crate) enum Placed {
    /// To the handler.
    Reported,
    /// Some of them completed a buffer to fill.
    Filled(Vec<u8>),
    /// All were kept, or dropped because the connection is closing.
    Kept,
}

/// The TLS of one connection.
#[derive(Debug)]
pub(crate) struct Session {
    tls: ServerConnection,
    fill: Option<Box<Fill>>,
    reading: Reading,
    /// Decrypted bytes that came when the owner did not want any.
    aside: Vec<u8>,
    /// The peer has sent close_notify.
    ended: bool,
    /// That is not reported yet.
    defers_end: bool,
    /// The owner has closed it: nothing more is reported.
    closing: bool,
    /// Whether what the peer sent first is no TLS; none before that. It is sent no alert, which it would take
    /// for a reply.
    is_plain: Option<bool>,
    failure: Option<rustls::Error>,
}

impl Session {
    pub(crate) fn new(acceptor: &Acceptor) -> io::Result<Session> {
        let mut tls = ServerConnection::new(Arc::clone(acceptor.config())).map_err(io::Error::other)?;
        // Replies are bounded elsewhere.
        tls.set_buffer_limit(None);
        Ok(Session {
            tls,
            fill: None,
            reading: Reading::On,
            aside: Vec::new(),
            ended: false,
            defers_end: false,
            closing: false,
            is_plain: None,
            failure: None,
        })
    }

    /// Takes in records and appends the bytes in them.
    pub(crate) fn decrypt(&mut self, mut records: &[u8], bytes: &mut Vec<u8>) -> Progress {
        if let (Some(first), None) = (records.first(), self.is_plain) {
            self.is_plain = Some(*first != HANDSHAKE_RECORD);
        }
        while !records.is_empty() && !self.ended {
            // Reading from memory does not fail. Nothing is read after close_notify.
            if !matches!(self.tls.read_tls(&mut records), Ok(1..)) {
                break;
            }
            match self.tls.process_new_packets() {
                Ok(state) => {
                    self.ended = state.peer_has_closed();
                    self.take_bytes(state.plaintext_bytes_to_read(), bytes);
                }
                Err(error) => {
                    self.failure = Some(error);
                    self.closing = true;
                    return Progress::Failed;
                }
            }
        }
        if self.ended { Progress::Ended } else { Progress::Open }
    }

    fn take_bytes(&mut self, count: usize, bytes: &mut Vec<u8>) {
        let mut reader = self.tls.reader();
        let end = bytes.len() + count;
        while bytes.len() < end {
            let Ok(part) = reader.fill_buf() else { return };
            let len = part.len();
            bytes.extend_from_slice(part);
            reader.consume(len);
            if len == 0 {
                return;
            }
        }
    }

    /// Encrypts bytes and appends the records.
    pub(crate) fn encrypt(&mut self, bytes: &[u8], records: &mut Vec<u8>) {
        for chunk in bytes.chunks(CHUNK_BYTES) {
            // Writing to memory without a limit does not fail.
            let _ = self.tls.writer().write_all(chunk);
            self.take_records(records);
        }
    }

    pub(crate) fn wants_to_send(&self) -> bool {
        self.is_plain != Some(true) && self.tls.wants_write()
    }

    /// Appends the records that are to be sent.
    pub(crate) fn take_records(&mut self, records: &mut Vec<u8>) {
        while self.wants_to_send() && self.tls.write_tls(records).is_ok() {}
    }

    /// Sends close_notify, and drops further received bytes.
    pub(crate) fn say_goodbye(&mut self) {
        self.closing = true;
        self.fill = None;
        self.aside = Vec::new();
        self.tls.send_close_notify();
    }

    /// The TLS error with which the connection has failed, if any.
    pub(crate) fn failure(self: Box<Self>) -> Option<io::Error> {
        self.failure.map(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }
}

/// The connections of a driver that have TLS.
#[derive(Default)]
pub(crate) struct Sessions {
    /// By the index of the connection.
    table: Vec<Option<(Conn, Box<Session>)>>,
    count: usize,
    /// Connections that may have bytes set aside to report.
    due: Vec<Conn>,
    /// Connections whose peers have sent close_notify.
    ending: Vec<Conn>,
    scratch: Vec<u8>,
}

impl Sessions {
    pub(crate) fn insert(&mut self, conn: Conn, mut session: Box<Session>) {
        let index = conn.index();
        if self.table.len() <= index {
            self.table.resize_with(index + 1, || None);
        }
        session.reading = Reading::On;
        if !session.aside.is_empty() || session.ended {
            self.due.push(conn);
        }
        if self.table[index].replace((conn, session)).is_none() {
            self.count += 1;
        }
    }

    #[inline]
    pub(crate) fn has(&self, conn: Conn) -> bool {
        self.count > 0 && matches!(self.table.get(conn.index()), Some(Some((other, _))) if *other == conn)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, conn: Conn) -> Option<&mut Session> {
        if self.count == 0 {
            return None;
        }
        match self.table.get_mut(conn.index()) {
            Some(Some((other, session))) if *other == conn => Some(session),
            _ => None,
        }
    }

    pub(crate) fn remove(&mut self, conn: Conn) -> Option<Box<Session>> {
        if !self.has(conn) {
            return None;
        }
        self.count -= 1;
        self.table.get_mut(conn.index())?.take().map(|(_, session)| session)
    }

    pub(crate) fn fill_progress(&self, conn: Conn) -> Option<(usize, usize)> {
        let (_, session) = self.table.get(conn.index())?.as_ref()?;
        session.fill.as_ref().map(|fill| fill.progress())
    }

    /// Directs received bytes into a buffer, which is shorter than `len`.
    pub(crate) fn fill(&mut self, conn: Conn, buffer: Vec<u8>, len: usize) {
        let Some(session) = self.get_mut(conn) else { return };
        if session.fill.is_none() && !session.closing {
            session.fill = Some(Box::new(Fill::new(buffer, len)));
        }
    }

    #[inline]
    pub(crate) fn set_reading(&mut self, conn: Conn, reading: Reading) {
        let Some(session) = self.get_mut(conn) else { return };
        session.reading = reading;
        if session.ended || !session.aside.is_empty() {
            self.due.push(conn);
        }
    }

    #[inline]
    pub(crate) fn defer_end(&mut self, conn: Conn, on: bool) {
        let Some(session) = self.get_mut(conn) else { return };
        session.defers_end = on;
        if session.ended && !on {
            self.due.push(conn);
        }
    }

    /// Decides where decrypted bytes go, and takes those that complete a buffer or are kept.
    pub(crate) fn place(&mut self, conn: Conn, bytes: &mut &[u8]) -> Placed {
        let Some(session) = self.get_mut(conn) else { return Placed::Kept };
        if session.closing {
            return Placed::Kept;
        }
        if session.reading != Reading::On {
            session.aside.extend_from_slice(bytes);
            return Placed::Kept;
        }
        let Some(fill) = &mut session.fill else { return Placed::Reported };
        let used = fill.copy_from(bytes);
        *bytes = bytes.get(used..).unwrap_or_default();
        match session.fill.take_if(|fill| fill.missing() == 0) {
            Some(fill) => Placed::Filled(fill.buffer),
            None => Placed::Kept,
        }
    }

    /// The peer has sent close_notify.
    pub(crate) fn peer_ended(&mut self, conn: Conn) {
        self.end_if_due(conn);
    }

    /// Has the end of a connection reported if its peer has ended it and nothing is left to be reported
    /// before.
    pub(crate) fn end_if_due(&mut self, conn: Conn) {
        let Some(session) = self.get_mut(conn) else { return };
        let is_over = session.reading == Reading::Paused || session.aside.is_empty();
        if session.ended && is_over && session.reading != Reading::Held && !session.defers_end {
            self.ending.push(conn);
        }
    }

    /// Whether something is to be reported without waiting.
    #[inline]
    pub(crate) fn are_due(&self) -> bool {
        !(self.due.is_empty() && self.ending.is_empty())
    }

    pub(crate) fn take_ending(&mut self) -> Vec<Conn> {
        std::mem::take(&mut self.ending)
    }

    /// The next connection with something to report, and the bytes set aside for it.
    pub(crate) fn next_due(&mut self) -> Option<(Conn, Vec<u8>)> {
        let conn = self.due.pop()?;
        let bytes = match self.get_mut(conn) {
            Some(session) if session.reading == Reading::On => std::mem::take(&mut session.aside),
            _ => Vec::new(),
        };
        Some((conn, bytes))
    }

    pub(crate) fn take_scratch(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.scratch)
    }

    pub(crate) fn return_scratch(&mut self, mut scratch: Vec<u8>) {
        if scratch.capacity() <= SCRATCH_BYTES_MAX {
            scratch.clear();
            self.scratch = scratch;
        }
    }
}
