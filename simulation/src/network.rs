//! A network between the nodes of a run: streams of bytes in memory.
//!
//! The seed chooses how long bytes are under way, in which pieces they arrive, after how many bytes a
//! connection breaks, and when two nodes do not reach each other for a while. Bytes of a connection arrive in
//! order, each once, or not at all: then the connection is lost. What is under way when a partition begins
//! arrives after its end.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mantissa_engine::host::Stream;
use mantissa_sys::{clock, simulation};

use crate::scheduler::Random;

/// Bytes that may be under way in one direction, at least and at most.
const CAPACITY_MIN: u64 = 64;
const CAPACITY_MAX: u64 = 64 << 10;
/// The longest time for which bytes are under way.
const DELAY_US_MAX: u64 = 20_000;
/// One connection in [`BREAKS_ONE_IN`] breaks, after at most [`BREAK_BYTES_MAX`] bytes.
const BREAKS_ONE_IN: u64 = 3;
const BREAK_BYTES_MAX: u64 = 6000;
/// One read in [`SHORT_ONE_IN`] gets at most [`SHORT_BYTES_MAX`] bytes.
const SHORT_ONE_IN: u64 = 4;
const SHORT_BYTES_MAX: u64 = 40;

/// A running node: its number, and how often it had been started.
pub type Identity = (usize, u64);

/// One direction of a connection.
#[derive(Default)]
struct Pipe {
    /// Bytes with the time of their arrival, in microseconds.
    pieces: VecDeque<(i64, Vec<u8>)>,
    bytes: u64,
    capacity: u64,
    /// Bytes that may still be written before the connection breaks.
    left: Option<u64>,
    /// Who writes has closed it.
    is_closed: bool,
}

struct Connection {
    ends: [Identity; 2],
    /// Each is written by the end with its number.
    pipes: [Pipe; 2],
    is_lost: bool,
}

struct Partition {
    nodes: (usize, usize),
    until_us: i64,
}

struct State {
    random: Random,
    connections: Vec<Connection>,
    partitions: Vec<Partition>,
    /// Nothing breaks any more.
    is_healed: bool,
}

/// The network of a run.
#[derive(Clone)]
pub struct Network(Arc<Mutex<State>>);

/// One end of a connection.
pub struct End {
    network: Network,
    connection: usize,
    side: usize,
    timeout: Duration,
}

impl Network {
    /// A network without connections.
    pub fn new(seed: u64) -> Self {
        let random = Random(seed);
        let state = State { random, connections: Vec::new(), partitions: Vec::new(), is_healed: false };
        Network(Arc::new(Mutex::new(state)))
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether two nodes reach each other now.
    pub fn reaches(&self, one: usize, other: usize) -> bool {
        self.locked().reaches(one, other)
    }

    /// Connects two nodes that run: the ends of the first and the second.
    pub fn connect(&self, from: Identity, to: Identity) -> (End, End) {
        let mut state = self.locked();
        let pipes = [state.pipe(), state.pipe()];
        state.connections.push(Connection { ends: [from, to], pipes, is_lost: false });
        let connection = state.connections.len() - 1;
        let end = |side| End { network: self.clone(), connection, side, timeout: Duration::ZERO };
        (end(0), end(1))
    }

    /// Has two nodes not reach each other for some time.
    pub fn part(&self, one: usize, other: usize, time: Duration) {
        let until_us = clock::unix_us() + time.as_micros() as i64;
        self.locked().partitions.push(Partition { nodes: (one, other), until_us });
    }

    /// Ends all partitions, and breaks no connection from now on.
    pub fn heal(&self) {
        let mut state = self.locked();
        state.partitions.clear();
        for connection in &mut state.connections {
            // Some bytes may be gone already.
            connection.is_lost |= connection.pipes.iter().any(|pipe| pipe.left == Some(0));
            connection.pipes.iter_mut().for_each(|pipe| pipe.left = None);
        }
        state.is_healed = true;
    }

    /// Breaks all connections of a node, but those of a later start.
    pub fn disconnect(&self, number: usize) {
        for connection in &mut self.locked().connections {
            connection.is_lost |= connection.ends.iter().any(|end| end.0 == number);
        }
    }

    /// Breaks all connections between two nodes.
    pub fn cut(&self, one: usize, other: usize) {
        for connection in &mut self.locked().connections {
            let [from, to] = connection.ends.map(|end| end.0);
            connection.is_lost |= (from, to) == (one, other) || (from, to) == (other, one);
        }
    }
}

impl State {
    fn pipe(&mut self) -> Pipe {
        let random = &mut self.random;
        let breaks = random.below(BREAKS_ONE_IN) == 0 && !self.is_healed;
        let capacity = [CAPACITY_MIN, 1000, CAPACITY_MAX][random.below(3) as usize];
        let left = breaks.then(|| random.below(BREAK_BYTES_MAX));
        Pipe { capacity, left, ..Pipe::default() }
    }

    fn reaches(&self, one: usize, other: usize) -> bool {
        let now_us = clock::unix_us();
        let parts = |partition: &Partition| {
            let (first, second) = partition.nodes;
            partition.until_us > now_us
                && ((first, second) == (one, other) || (first, second) == (other, one))
        };
        !self.partitions.iter().any(parts)
    }

    /// Takes bytes that have arrived at an end: how many, and when more arrive if there are none.
    fn take(&mut self, (at, side): (usize, usize), buffer: &mut [u8]) -> io::Result<Result<usize, i64>> {
        let [one, other] = self.connections[at].ends.map(|end| end.0);
        let (now_us, reaches) = (clock::unix_us(), self.reaches(one, other));
        let most = match self.random.below(SHORT_ONE_IN) {
            0 => 1 + self.random.below(SHORT_BYTES_MAX),
            _ => u64::MAX,
        };
        let connection = &mut self.connections[at];
        if connection.is_lost {
            return Err(io::Error::from(io::ErrorKind::ConnectionReset));
        }
        let pipe = &mut connection.pipes[1 - side];
        if !reaches {
            return Ok(Err(i64::MAX));
        }
        let Some((arrival_us, piece)) = pipe.pieces.front_mut() else {
            if pipe.left == Some(0) {
                connection.is_lost = true;
                return Err(io::Error::from(io::ErrorKind::ConnectionReset));
            }
            return Ok(if pipe.is_closed { Ok(0) } else { Err(i64::MAX) });
        };
        if *arrival_us > now_us {
            return Ok(Err(*arrival_us));
        }
        let count = piece.len().min(buffer.len()).min(usize::try_from(most).unwrap_or(usize::MAX));
        buffer[..count].copy_from_slice(&piece[..count]);
        piece.drain(..count);
        if piece.is_empty() {
            pipe.pieces.pop_front();
        }
        pipe.bytes -= count as u64;
        Ok(Ok(count))
    }

    fn put(&mut self, (at, side): (usize, usize), bytes: &[u8]) -> io::Result<usize> {
        let delay_us = self.random.below(DELAY_US_MAX) as i64;
        let connection = &mut self.connections[at];
        if connection.is_lost || connection.pipes[1 - side].is_closed {
            return Err(io::Error::from(io::ErrorKind::BrokenPipe));
        }
        let pipe = &mut connection.pipes[side];
        let count = (bytes.len() as u64).min(pipe.capacity.saturating_sub(pipe.bytes));
        if count == 0 {
            return Err(io::Error::from(io::ErrorKind::WouldBlock));
        }
        let arrives = pipe.left.unwrap_or(u64::MAX).min(count);
        pipe.left = pipe.left.map(|left| left - arrives);
        if arrives > 0 {
            let last_us = pipe.pieces.back().map_or(0, |(arrival_us, _)| *arrival_us);
            let arrival_us = last_us.max(clock::unix_us() + delay_us);
            pipe.pieces.push_back((arrival_us, bytes[..arrives as usize].to_vec()));
            pipe.bytes += arrives;
        }
        Ok(count as usize)
    }
}

impl Read for End {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let until_us = clock::unix_us() + self.timeout.as_micros() as i64;
        loop {
            let taken = self.network.locked().take((self.connection, self.side), buffer)?;
            let next_us = match taken {
                Ok(count) => return Ok(count),
                Err(next_us) => next_us.min(until_us),
            };
            let left_us = next_us - clock::unix_us();
            if until_us <= clock::unix_us() {
                return Err(io::Error::from(io::ErrorKind::WouldBlock));
            }
            simulation::wait(Some(Duration::from_micros(left_us.max(1) as u64)));
        }
    }
}

impl Write for End {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.network.locked().put((self.connection, self.side), bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stream for End {
    fn set_timeout(&mut self, timeout: Duration) -> io::Result<()> {
        self.timeout = timeout;
        Ok(())
    }

    fn local_address(&self) -> Option<SocketAddr> {
        None
    }

    fn remote_address(&self) -> Option<SocketAddr> {
        None
    }

    fn descriptor(&self) -> i32 {
        -1
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.network.locked().connections[self.connection].pipes[self.side].is_closed = true;
    }
}
