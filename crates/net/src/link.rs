//! The state of a connection that both drivers keep, and the steps that they report.

use std::io;
use std::ops::Deref;
use std::rc::Rc;

use crate::outgoing::Outgoing;
use crate::reading::{Fill, Reading};
use crate::ring_buffers::RingBuffer;
use crate::slots::Conn;
use crate::socket::Socket;
use crate::system;

/// A queue of this many bytes is worth an event when it has emptied.
pub(crate) const SENT_EVENT_BYTES: usize = 64 * 1024;

/// Poll events that tell more than the orderly end of one direction. `POLLERR` and `EPOLLERR` are the same
/// bits.
pub(crate) const BROKEN: u32 = (libc::POLLHUP | libc::POLLERR) as u32;

/// How the connection is to leave this driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Leaving {
    No,
    /// Closed when everything queued has left.
    Close,
    /// Handed back when everything queued has left.
    Detach,
}

/// The state of a connection that both drivers keep.
pub(crate) struct Link {
    pub(crate) socket: Socket,
    pub(crate) outgoing: Outgoing,
    pub(crate) fill: Option<Box<Fill>>,
    pub(crate) reading: Reading,
    pub(crate) leaving: Leaving,
    /// The connection is in the list of those that have something new to send.
    pub(crate) listed: bool,
    /// The first attempt to send did not take everything.
    pub(crate) behind: bool,
    /// The owner is to be told when the queue has emptied.
    pub(crate) tell_sent: bool,
    /// An orderly end by the peer is not reported yet: the owner still has something to send.
    pub(crate) defers_end: bool,
}

impl Link {
    pub(crate) fn new(socket: Socket) -> Link {
        Link {
            socket,
            outgoing: Outgoing::default(),
            fill: None,
            reading: Reading::On,
            leaving: Leaving::No,
            listed: false,
            behind: false,
            tell_sent: false,
            defers_end: false,
        }
    }

    /// Whether to take bytes from the kernel: the owner wants them, and the connection is not about to
    /// leave.
    pub(crate) fn takes_bytes(&self) -> bool {
        let wanted = self.reading == Reading::On;
        wanted && (self.leaving == Leaving::No || (self.leaving == Leaving::Detach && self.fill.is_some()))
    }

    /// Whether these poll events mean that a connection that is not being read is dead: reset, or closed
    /// with nothing left to read. Where its end is kept back, only a reset is.
    pub(crate) fn is_broken(&self, events: u32) -> bool {
        let gone = events & BROKEN != 0 && self.leaving == Leaving::Close;
        let reset = events & libc::POLLERR as u32 != 0;
        let hung_up = events & BROKEN != 0 && !self.keeps_end_back();
        gone || reset || (hung_up && system::waiting_bytes(&self.socket) == 0)
    }

    /// Whether an orderly end by the peer is not to be reported yet.
    pub(crate) fn keeps_end_back(&self) -> bool {
        self.leaving == Leaving::No && (self.reading == Reading::Held || self.defers_end)
    }

    /// Whether nothing is queued, and the connection is to stay.
    pub(crate) fn is_idle(&self) -> bool {
        self.outgoing.is_empty() && self.leaving == Leaving::No
    }

    /// Whether an emptied queue is reported to the owner.
    pub(crate) fn reports_sent(&self) -> bool {
        self.tell_sent || self.behind || self.reading != Reading::On
    }
}

/// Received bytes on loan to the handler.
pub(crate) enum Lent {
    /// The first bytes of the epoll driver's read buffer.
    Shared { memory: Rc<Vec<u8>>, start: usize, len: usize },
    /// A buffer of the io_uring driver's ring.
    Ring(RingBuffer),
    /// Bytes that were set aside.
    Owned { bytes: Vec<u8>, start: usize },
}

impl Lent {
    /// Without the first `count` bytes.
    pub(crate) fn after(mut self, count: usize) -> Lent {
        match &mut self {
            Lent::Shared { start, .. } | Lent::Owned { start, .. } => *start += count,
            Lent::Ring(buffer) => buffer.skip(count),
        }
        self
    }
}

impl Deref for Lent {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Lent::Shared { memory, start, len } => memory.get(*start..*len).unwrap_or_default(),
            Lent::Ring(buffer) => buffer,
            Lent::Owned { bytes, start } => bytes.get(*start..).unwrap_or_default(),
        }
    }
}

/// An event that waits to be reported. It is dropped if its connection is gone by then.
pub(crate) enum Due {
    Filled {
        conn: Conn,
        buffer: Vec<u8>,
    },
    Sent {
        conn: Conn,
    },
    Closed {
        conn: Conn,
        error: Option<io::Error>,
    },
    /// The peer has ended its side in good order. Kept back if the owner does not want to know of it yet.
    Ended {
        conn: Conn,
    },
    Detached {
        conn: Conn,
    },
    /// Bytes that were set aside, and the end that came after them.
    SetAside {
        conn: Conn,
    },
}

impl Due {
    pub(crate) fn conn(&self) -> Conn {
        match *self {
            Due::Filled { conn, .. } | Due::Sent { conn } => conn,
            Due::Closed { conn, .. } | Due::Ended { conn } => conn,
            Due::Detached { conn } | Due::SetAside { conn } => conn,
        }
    }
}

/// An event on its way to the handler.
pub(crate) enum Step {
    Accepted { listener: usize, socket: Socket },
    Received { conn: Conn, bytes: Lent },
    Filled { conn: Conn, buffer: Vec<u8> },
    Sent { conn: Conn },
    Closed { conn: Conn, error: Option<io::Error> },
    Detached { conn: Conn, socket: Socket },
}

/// How much short requests gain if an iteration ends early. Always `None` with epoll, which finds out what
/// a connection has sent only when it reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// In the last 100 milliseconds, short and long receives have not come together.
    None,
    /// The same, or all that has come is to be reported; and a long receive has just been. Others may follow,
    /// and what comes meanwhile waits for them.
    AfterLong,
    /// They have, so short receives may be waiting.
    Lately,
    /// All short receives of this iteration have been reported, long ones follow.
    Now,
}
