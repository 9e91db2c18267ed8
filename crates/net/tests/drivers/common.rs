//! What the tests of both drivers share: a driver with a recording handler, and clients.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use mantissa_net::{Conn, Driver, DriverKind, Event, Handler, Listener, LocalAddress, Socket};

/// Long enough for any of these tests to finish on a busy machine; a test that gets here has hung.
const HUNG: Duration = Duration::from_secs(120);

/// A driver of the kind, or `None`, said aloud, where io_uring is not to be had.
pub fn driver(kind: DriverKind) -> Option<Driver> {
    match Driver::new(Some(kind)) {
        Ok(driver) => {
            assert_eq!(driver.kind(), kind);
            Some(driver)
        }
        Err(error) if kind == DriverKind::IoUring => {
            eprintln!("NOT TESTED: io_uring is not available here: {error}");
            None
        }
        Err(error) => panic!("epoll is not available: {error}"),
    }
}

/// Everything that has been reported.
#[derive(Default)]
pub struct Log {
    pub accepted: Vec<(usize, Conn)>,
    pub received: HashMap<Conn, Vec<u8>>,
    pub filled: Vec<(Conn, Vec<u8>)>,
    pub sent: Vec<Conn>,
    pub closed: Vec<(Conn, Option<io::Error>)>,
    pub detached: Vec<(Conn, Socket)>,
    pub iterations: usize,
}

impl Log {
    pub fn received(&self, conn: Conn) -> &[u8] {
        self.received.get(&conn).map_or(&[], Vec::as_slice)
    }

    pub fn is_closed(&self, conn: Conn) -> bool {
        self.closed.iter().any(|(closed, _)| *closed == conn)
    }
}

impl Handler for Log {
    fn event(&mut self, driver: &mut Driver, event: Event<'_>) {
        match event {
            Event::Accepted { listener, socket } => {
                socket.set_nodelay(true);
                let conn = driver.adopt(socket).expect("the connection is served");
                self.accepted.push((listener, conn));
            }
            Event::Received { conn, bytes } => {
                assert!(!bytes.is_empty() && !self.is_closed(conn));
                self.received.entry(conn).or_default().extend_from_slice(bytes);
            }
            Event::Filled { conn, buffer } => self.filled.push((conn, buffer)),
            Event::Sent { conn } => self.sent.push(conn),
            Event::Closed { conn, error } => {
                assert!(!self.is_closed(conn), "reported once");
                self.closed.push((conn, error));
            }
            Event::Detached { conn, socket } => self.detached.push((conn, socket)),
        }
    }
}

/// A handler made of a function.
pub struct With<F>(pub F);

impl<F: FnMut(&mut Driver, Event<'_>)> Handler for With<F> {
    fn event(&mut self, driver: &mut Driver, event: Event<'_>) {
        (self.0)(driver, event)
    }
}

/// A driver that listens on a free port, and what it has reported.
pub struct Server {
    pub driver: Driver,
    pub log: Log,
    pub address: SocketAddr,
}

impl Server {
    pub fn new(kind: DriverKind) -> Option<Server> {
        let mut driver = driver(kind)?;
        let listener = Listener::tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), 511).expect("a free port");
        let LocalAddress::Tcp(address) = *listener.local_addr() else { panic!("a TCP listener") };
        driver.add_listener(listener);
        Some(Server { driver, log: Log::default(), address })
    }

    /// Runs iterations until the condition holds.
    pub fn until(&mut self, what: &str, mut done: impl FnMut(&mut Driver, &mut Log) -> bool) {
        let start = Instant::now();
        while !done(&mut self.driver, &mut self.log) {
            assert!(start.elapsed() < HUNG, "hung: {what}");
            self.driver.run_once(Some(Duration::from_secs(1)), &mut self.log).expect("the driver works");
            self.log.iterations += 1;
        }
    }

    /// A new connection: the client's end, and its id here.
    pub fn connect(&mut self) -> (TcpStream, Conn) {
        let known = self.log.accepted.len();
        let client = TcpStream::connect(self.address).expect("the listener accepts");
        client.set_nodelay(true).expect("a TCP connection");
        self.until("accept", |_, log| log.accepted.len() > known);
        (client, self.log.accepted[known].1)
    }

    /// Iterations that have no reason to report anything: what is under way in the kernel settles.
    pub fn settle(&mut self) {
        for _ in 0..5 {
            self.driver.run_once(Some(Duration::from_millis(2)), &mut self.log).expect("the driver works");
        }
    }
}

/// Closes a connection so that the peer gets a reset.
pub fn reset(client: TcpStream) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    let pointer: *const libc::linger = &linger;
    // SAFETY: the pointer and the length describe `linger`.
    let result = unsafe {
        let len = size_of::<libc::linger>() as libc::socklen_t;
        libc::setsockopt(client.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, pointer.cast(), len)
    };
    assert_eq!(result, 0);
}

/// The number of descriptors that this process may have, raised as far as it goes.
pub fn descriptor_limit() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is written by the first call and read by the second.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit), 0);
        limit.rlim_cur = limit.rlim_max;
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limit), 0);
    }
    limit.rlim_cur.min(100_000) as usize
}

/// Leaves this process no more than `count` descriptors.
pub fn limit_descriptors(count: u64) {
    let limit = libc::rlimit { rlim_cur: count, rlim_max: count };
    // SAFETY: `limit` is only read.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
}

/// Bytes that differ from place to place, the same for the same seed.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut random = Random(seed * 2 + 1);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend_from_slice(&random.next().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Reads exactly that much.
pub fn read_exactly(client: &mut impl Read, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    client.read_exact(&mut bytes).expect("the server sends that much");
    bytes
}

/// Writes everything.
pub fn write(mut client: impl Write, bytes: &[u8]) {
    client.write_all(bytes).expect("the server reads that much");
}

/// A small generator of numbers (xorshift64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 16) as usize % limit
    }
}

/// Makes each test run with both drivers.
macro_rules! with_both_drivers {
    ($($name:ident),* $(,)?) => {
        mod epoll {
            $(#[test] fn $name() { super::$name(mantissa_net::DriverKind::Epoll) })*
        }
        mod io_uring {
            $(#[test] fn $name() { super::$name(mantissa_net::DriverKind::IoUring) })*
        }
    };
}
