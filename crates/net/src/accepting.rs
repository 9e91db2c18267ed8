//! Accepting connections, for both drivers.
//!
//! Listeners are watched by an epoll instance of their own, which a driver watches in turn, and connections
//! are taken with `accept4`. No operation of io_uring stands on a listener: it would keep the socket open
//! after the process has been killed and waited for, until the kernel has taken the ring down in the
//! background, and clients would connect to a server that is gone. An epoll instance keeps no file open.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventData, EventFlags};

use crate::listener::{AcceptError, Listener, accept};
use crate::socket::Socket;
use crate::system;

/// Connections accepted from one listener at a time.
const ACCEPTS: usize = 64;
/// Listeners looked at at a time.
const READY_LISTENERS: usize = 16;
/// How long accepting pauses when descriptors have run out.
const PAUSE: Duration = Duration::from_millis(100);

struct Entry {
    listener: Listener,
    /// It is registered with epoll.
    is_watched: bool,
    /// Accepting pauses until then.
    retry_at: Option<Instant>,
}

/// The listeners of a driver, and the connections that they have accepted.
pub(crate) struct Listeners {
    epoll: OwnedFd,
    /// By number; numbers are not reused.
    entries: Vec<Option<Entry>>,
    accepted: VecDeque<(usize, Socket)>,
}

impl Listeners {
    pub(crate) fn new() -> io::Result<Listeners> {
        Ok(Listeners { epoll: system::epoll()?, entries: Vec::new(), accepted: VecDeque::new() })
    }

    /// Adds a listener and returns its number. It is watched from the next [`Listeners::watch`] on.
    pub(crate) fn add(&mut self, listener: Listener) -> usize {
        self.entries.push(Some(Entry { listener, is_watched: false, retry_at: None }));
        self.entries.len() - 1
    }

    /// Drops a listener and what it has accepted.
    pub(crate) fn remove(&mut self, id: usize) {
        if let Some(place) = self.entries.get_mut(id) {
            *place = None;
            self.accepted.retain(|(listener, _)| *listener != id);
        }
    }

    /// Gives a listener back, and the connections that it has accepted and nobody has been told of. It is no
    /// longer watched, also where another process has the same socket.
    pub(crate) fn take(&mut self, id: usize) -> Option<(Listener, Vec<Socket>)> {
        let entry = self.entries.get_mut(id)?.take()?;
        if entry.is_watched {
            // It can only fail if it is not watched.
            let _ = epoll::delete(&self.epoll, &entry.listener);
        }
        let (own, others) = self.accepted.drain(..).partition(|(listener, _)| *listener == id);
        self.accepted = others;
        Some((entry.listener, Vec::from(own).into_iter().map(|(_, socket)| socket).collect()))
    }

    /// Watches the listeners whose pause is over. Returns how long the next pause still lasts.
    pub(crate) fn watch(&mut self) -> Option<Duration> {
        let mut next: Option<Duration> = None;
        for (id, place) in self.entries.iter_mut().enumerate() {
            let Some(entry) = place.as_mut().filter(|entry| !entry.is_watched) else { continue };
            let now = Instant::now();
            let mut left = entry.retry_at.map_or(Duration::ZERO, |at| at.saturating_duration_since(now));
            if left.is_zero() {
                let data = EventData::new_u64(id as u64);
                let watched = epoll::add(&self.epoll, &entry.listener, data, EventFlags::IN);
                entry.is_watched = watched.is_ok();
                entry.retry_at = watched.err().map(|_| now + PAUSE);
                left = PAUSE;
            }
            if !entry.is_watched {
                next = Some(next.map_or(left, |next| next.min(left)));
            }
        }
        next
    }

    /// Whether any listener is watched.
    pub(crate) fn are_watched(&self) -> bool {
        self.entries.iter().flatten().any(|entry| entry.is_watched)
    }

    /// Takes connections from the listeners that have some. Where more wait the descriptor stays readable.
    pub(crate) fn accept(&mut self) {
        let mut events = [system::NO_EVENT; READY_LISTENERS];
        let count = system::epoll_wait(&self.epoll, &mut events, Some(Duration::ZERO)).unwrap_or(0);
        for event in &events[..count] {
            self.accept_from({ event.data }.u64() as usize);
        }
    }

    fn accept_from(&mut self, id: usize) {
        let Some(Some(entry)) = self.entries.get_mut(id) else { return };
        for _ in 0..ACCEPTS {
            match accept(&entry.listener) {
                Ok(fd) => {
                    // A connection that is gone before its address could be asked for is dropped.
                    if let Ok(socket) = Socket::from_accepted(fd, entry.listener.unix_path()) {
                        self.accepted.push_back((id, socket));
                    }
                }
                Err(error) => match AcceptError::of(error) {
                    AcceptError::Next => {}
                    AcceptError::Empty => return,
                    AcceptError::BackOff => {
                        entry.retry_at = Some(Instant::now() + PAUSE);
                        // One that stays registered is only reported again at once.
                        let removed = epoll::delete(&self.epoll, &entry.listener);
                        entry.is_watched = removed.is_err();
                        return;
                    }
                },
            }
        }
    }

    /// The next accepted connection, with the number of its listener.
    pub(crate) fn next(&mut self) -> Option<(usize, Socket)> {
        self.accepted.pop_front()
    }

    /// Whether accepted connections are left.
    pub(crate) fn has_accepted(&self) -> bool {
        !self.accepted.is_empty()
    }
}

/// The descriptor that is readable while connections wait.
impl AsFd for Listeners {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
