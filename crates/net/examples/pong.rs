//! Answers every RESP request with `+PONG`: what the drivers cost without a server behind them.
//!
//! `pong PORT [epoll|io_uring [BATCHING_DELAY_US]]`, then `redis-benchmark -p PORT -t ping_mbulk`.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use mantissa_net::{Conn, Driver, DriverKind, Event, Handler, Listener};

/// What is left of requests that have not arrived completely.
#[derive(Default)]
struct Pong {
    partial: HashMap<Conn, Vec<u8>>,
}

/// The length of the request at the start of `bytes`, if it is complete.
fn request_len(bytes: &[u8]) -> Option<usize> {
    let number = |at: usize| {
        let end = at + bytes.get(at..)?.iter().position(|&byte| byte == b'\n')?;
        let digits = bytes.get(at + 1..end)?.strip_suffix(b"\r")?;
        let value =
            digits.iter().fold(0usize, |value, digit| value * 10 + usize::from(digit.wrapping_sub(b'0')));
        Some((value, end + 1))
    };
    let (count, mut at) = number(0)?;
    for _ in 0..count {
        let (len, start) = number(at)?;
        at = start + len + 2;
    }
    (at <= bytes.len()).then_some(at)
}

impl Handler for Pong {
    fn event(&mut self, driver: &mut Driver, event: Event<'_>) {
        match event {
            Event::Accepted { socket, .. } => {
                socket.set_nodelay(true);
                // A connection that cannot be served is closed by dropping it.
                let _ = driver.adopt(socket);
            }
            Event::Received { conn, bytes } => {
                let mut partial = self.partial.remove(&conn).unwrap_or_default();
                let mut rest = bytes;
                if !partial.is_empty() {
                    partial.extend_from_slice(bytes);
                    rest = &partial;
                }
                let mut reply = driver.take_buffer();
                while let Some(len) = request_len(rest) {
                    reply.extend_from_slice(b"+PONG\r\n");
                    rest = &rest[len..];
                }
                if !rest.is_empty() {
                    self.partial.insert(conn, rest.to_vec());
                }
                driver.send(conn, reply);
            }
            Event::Closed { conn, .. } => {
                self.partial.remove(&conn);
            }
            Event::Filled { .. } | Event::Sent { .. } | Event::Detached { .. } => {}
        }
    }
}

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let port = arguments.next().and_then(|port| port.parse().ok()).unwrap_or(7777);
    let kind = match arguments.next().as_deref() {
        Some("epoll") => Some(DriverKind::Epoll),
        Some("io_uring") => Some(DriverKind::IoUring),
        _ => None,
    };
    let mut driver = Driver::new(kind)?;
    let batching_delay = arguments.next().and_then(|time| time.parse().ok()).unwrap_or(50);
    driver.set_batching_delay(Duration::from_micros(batching_delay));
    eprintln!("port {port}, {}", driver.kind().name());
    driver.add_listener(Listener::tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, port)), 511)?);
    let mut handler = Pong::default();
    loop {
        driver.run_once(None, &mut handler)?;
    }
}
