//! Workers stop serving, and let go of their connections, so that another process can take these over.
//!
//! Two steps. In the first each worker stops running requests; what arrives is kept. When all have stopped,
//! nobody can cause anything for a client any more. In the second each worker sends what is left to send, and
//! gives up connection after connection, with what was kept. Thawing undoes both.

use std::time::{Duration, Instant};

use mantissa_net::{Listener, Socket};
use parking_lot::{Condvar, Mutex};

use crate::connection::Connection;
use crate::service::Service;

/// A connection that no worker serves.
pub struct Frozen {
    /// The client.
    pub connection: Box<Connection>,
    /// Its socket.
    pub socket: Socket,
    is_sent: bool,
}

#[derive(Default)]
struct State {
    stopped: usize,
    emptied: usize,
    clients: Vec<Frozen>,
    listeners: Vec<(Service, Listener)>,
}

/// What workers have given up, and how far they are.
#[derive(Default)]
pub struct Freeze {
    state: Mutex<State>,
    changed: Condvar,
    takes_web: bool,
}

impl Freeze {
    /// For a process that takes clients over HTTP and WebSocket, or not.
    pub fn new(takes_web: bool) -> Freeze {
        Freeze { takes_web, ..Freeze::default() }
    }

    /// Whether clients over HTTP and WebSocket go to the other process.
    pub fn takes_web(&self) -> bool {
        self.takes_web
    }

    /// A worker runs no requests any more, and accepts nothing on these listeners.
    pub fn stopped(&self, listeners: Vec<(Service, Listener)>) {
        let mut state = self.state.lock();
        state.stopped += 1;
        state.listeners.extend(listeners);
        self.changed.notify_all();
    }

    /// A worker has given up a connection.
    pub fn put(&self, connection: Box<Connection>, socket: Socket) {
        self.state.lock().clients.push(Frozen { connection, socket, is_sent: false });
        self.changed.notify_all();
    }

    /// A worker has given up all of its connections.
    pub fn emptied(&self) {
        self.state.lock().emptied += 1;
        self.changed.notify_all();
    }

    /// Waits until this number of workers have stopped. False after the timeout.
    pub fn await_stopped(&self, workers: usize, timeout: Duration) -> bool {
        self.await_until(timeout, |state| state.stopped >= workers)
    }

    /// Waits until this number of workers have given up all of their connections. False after the timeout.
    pub fn await_emptied(&self, workers: usize, timeout: Duration) -> bool {
        self.await_until(timeout, |state| state.emptied >= workers)
    }

    fn await_until(&self, timeout: Duration, is_reached: impl Fn(&State) -> bool) -> bool {
        let deadline = Instant::now() + timeout;
        let mut state = self.state.lock();
        while !is_reached(&state) {
            if self.changed.wait_until(&mut state, deadline).timed_out() {
                return is_reached(&state);
            }
        }
        true
    }

    /// Takes the connections that have been given up so far.
    pub fn take_clients(&self) -> Vec<Frozen> {
        std::mem::take(&mut self.state.lock().clients)
    }

    /// Calls `send` for connections for which it has not succeeded before, some at a time, until it fails.
    pub fn for_unsent<E>(
        &self,
        count_max: usize,
        mut send: impl FnMut(&[Frozen]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut state = self.state.lock();
        let first = state.clients.partition_point(|frozen| frozen.is_sent);
        for batch in state.clients[first..].chunks_mut(count_max) {
            send(batch)?;
            batch.iter_mut().for_each(|frozen| frozen.is_sent = true);
        }
        Ok(())
    }

    /// Closes this process's descriptors of connections that have been sent: another process serves them, and
    /// when that ends their clients are to see it.
    pub fn close_sent(&self) {
        self.state.lock().clients.retain(|frozen| !frozen.is_sent);
    }

    /// Looks at the listeners that have been given up.
    pub fn with_listeners<R>(&self, work: impl FnOnce(&[(Service, Listener)]) -> R) -> R {
        work(&self.state.lock().listeners)
    }

    /// Leaves the files of Unix sockets alone: another process has them now.
    pub fn leave_files(&self) {
        self.state.lock().listeners.iter_mut().for_each(|(_, listener)| listener.leave_file());
    }

    /// Takes the listeners that have been given up.
    pub fn take_listeners(&self) -> Vec<(Service, Listener)> {
        std::mem::take(&mut self.state.lock().listeners)
    }
}
