//! Streams survive whatever their owner does: random operations on several connections, against what was
//! sent.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::common::{Random, Server, descriptor_limit, pattern};
use mantissa_net::{Conn, Driver, DriverKind, Event, Handler, Urgency};

with_both_drivers!(streams_survive_random_operations);

const STREAM_BYTES: usize = 400_000;
const CONNECTIONS: usize = 6;

/// One connection as its owner sees it.
struct Owned {
    /// What the client sends, and how much of it has arrived.
    incoming: Vec<u8>,
    arrived: usize,
    /// What the client is to receive, and how much of it has been queued.
    outgoing: Vec<u8>,
    queued: usize,
    filling: bool,
    silent: bool,
    detaching: bool,
}

impl Owned {
    fn arrive(&mut self, bytes: &[u8]) {
        let expected = self.incoming.get(self.arrived..self.arrived + bytes.len());
        assert!(expected == Some(bytes), "{} bytes at {} differ", bytes.len(), self.arrived);
        self.arrived += bytes.len();
    }
}

struct Owner {
    random: Random,
    conns: HashMap<Conn, Owned>,
    order: Vec<Conn>,
    filled: usize,
    moved: usize,
    closed: usize,
}

impl Handler for Owner {
    fn event(&mut self, driver: &mut Driver, event: Event<'_>) {
        let conn = match event {
            Event::Received { conn, bytes } => {
                let it = self.conns.get_mut(&conn).expect("a live connection");
                assert!(!it.filling, "bytes past a buffer that is to be filled");
                assert!(!it.silent || it.detaching, "bytes on a silent connection");
                it.arrive(bytes);
                conn
            }
            Event::Filled { conn, buffer } => {
                let it = self.conns.get_mut(&conn).expect("a live connection");
                assert!(std::mem::take(&mut it.filling));
                self.filled += 1;
                it.arrive(&buffer);
                conn
            }
            Event::Detached { conn, socket } => {
                let mut it = self.conns.remove(&conn).expect("a live connection");
                (it.detaching, it.silent) = (false, false);
                self.moved += 1;
                let conn = driver.adopt(socket).expect("the connection is served");
                self.conns.insert(conn, it);
                self.order.push(conn);
                conn
            }
            Event::Closed { conn, error } => {
                assert!(error.is_none());
                self.conns.remove(&conn).expect("a live connection");
                self.closed += 1;
                return;
            }
            Event::Sent { conn } => conn,
            Event::Accepted { .. } => panic!("everyone is here"),
        };
        if self.random.below(3) == 0 {
            self.disturb(driver, conn);
        }
    }

    fn ends_iteration(&mut self, _: Instant, _: Urgency) -> bool {
        self.random.below(3) == 0
    }
}

impl Owner {
    /// Does something to one connection.
    fn disturb(&mut self, driver: &mut Driver, conn: Conn) {
        let Some(it) = self.conns.get_mut(&conn) else { return };
        let left = STREAM_BYTES - it.arrived;
        match self.random.below(14) {
            0..=1 => {
                it.silent = true;
                driver.hold_reading(conn);
            }
            // Nobody ends a connection yet, so this loses nothing either.
            2 => {
                it.silent = true;
                driver.pause_reading(conn);
            }
            3..=5 => {
                it.silent = false;
                driver.resume_reading(conn);
            }
            6..=7 if !it.filling && left > 0 => {
                it.filling = true;
                let len = 1 + self.random.below(left.min(60_000));
                driver.fill(conn, Vec::new(), len);
            }
            8 if !it.filling && !it.detaching => {
                it.detaching = true;
                driver.detach(conn);
            }
            8 if it.detaching => {
                // Where the answer is on its way already, it was not taken back in time.
                it.detaching = false;
                driver.stay(conn);
                if it.silent {
                    driver.hold_reading(conn);
                }
            }
            9 => driver.notify_sent(conn),
            _ => {
                let len = self.random.below(40_000).min(STREAM_BYTES - it.queued);
                let mut buffer = driver.take_buffer();
                buffer.extend_from_slice(&it.outgoing[it.queued..it.queued + len]);
                it.queued += len;
                driver.send(conn, buffer);
            }
        }
    }
}

/// The client's end, which never waits.
struct Client {
    stream: TcpStream,
    outgoing: Vec<u8>,
    sent: usize,
    incoming: Vec<u8>,
}

impl Client {
    fn step(&mut self, random: &mut Random) {
        // As much as a request or two, or as many of them.
        let limit = if random.below(2) == 0 { 300 } else { 20_000 };
        let len = random.below(limit).min(self.outgoing.len() - self.sent);
        match self.stream.write(&self.outgoing[self.sent..self.sent + len]) {
            Ok(count) => self.sent += count,
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
        let mut scrap = [0; 30_000];
        let len = random.below(scrap.len());
        match self.stream.read(&mut scrap[..len]) {
            Ok(count) => self.incoming.extend_from_slice(&scrap[..count]),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
    }
}

fn streams_survive_random_operations(kind: DriverKind) {
    descriptor_limit();
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    for seed in seed..seed + 8 {
        eprintln!("SEED={seed}");
        one_run(kind, seed);
    }
}

fn one_run(kind: DriverKind, seed: u64) {
    let Some(mut server) = Server::new(kind) else { return };
    let mut random = Random(seed * 7919 + 1);
    let mut owner = Owner {
        random: Random(seed * 104_729 + 1),
        conns: HashMap::new(),
        order: Vec::new(),
        filled: 0,
        moved: 0,
        closed: 0,
    };
    let mut clients = Vec::new();
    for number in 0..CONNECTIONS as u64 {
        let (stream, conn) = server.connect();
        stream.set_nonblocking(true).expect("a TCP connection");
        let incoming = pattern(seed * 1000 + number, STREAM_BYTES);
        let outgoing = pattern(seed * 2000 + number, STREAM_BYTES);
        clients.push(Client { stream, outgoing: incoming.clone(), sent: 0, incoming: Vec::new() });
        let it = Owned {
            incoming,
            arrived: 0,
            outgoing,
            queued: 0,
            filling: false,
            silent: false,
            detaching: false,
        };
        owner.conns.insert(conn, it);
        owner.order.push(conn);
    }
    let expected: Vec<_> = owner.order.iter().map(|conn| owner.conns[conn].outgoing.clone()).collect();
    let mut rounds = 0;
    loop {
        for client in &mut clients {
            client.step(&mut random);
        }
        server.driver.run_once(Some(Duration::from_micros(200)), &mut owner).expect("the driver works");
        owner.order.retain(|conn| owner.conns.contains_key(conn));
        for conn in owner.order.clone() {
            owner.disturb(&mut server.driver, conn);
        }
        let done = owner.conns.values().all(|it| it.arrived == STREAM_BYTES && it.queued == STREAM_BYTES)
            && clients.iter().all(|client| client.incoming.len() == STREAM_BYTES);
        if done {
            break;
        }
        rounds += 1;
        assert!(rounds < 200_000, "hung");
    }
    for (client, expected) in clients.iter().zip(&expected) {
        assert!(client.incoming == *expected, "the client received something else");
    }
    assert!(owner.filled > 0 && owner.moved > 0, "{} fills, {} moves", owner.filled, owner.moved);
    drop(clients);
    while owner.closed < CONNECTIONS {
        owner.conns.keys().for_each(|conn| server.driver.resume_reading(*conn));
        server.driver.run_once(Some(Duration::from_millis(1)), &mut owner).expect("the driver works");
    }
    assert!(server.driver.is_empty());
}
