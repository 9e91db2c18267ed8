//! Who has the other end of a connection on this machine.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Whether the socket at the other end of a TCP connection belongs to this process's user or to root: a
/// program with no more rights than this one has. `remote` is its address, `local` the one that it has
/// connected to. False if that is not known: another machine, or a system without `/proc`.
pub fn is_of_own_user(remote: SocketAddr, local: SocketAddr) -> bool {
    let owner = owner_of((canonical(remote), canonical(local)));
    owner.is_some_and(|owner| owner == 0 || owner == rustix::process::geteuid().as_raw())
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// The user whose socket has these addresses, its own first.
fn owner_of(wanted: (SocketAddr, SocketAddr)) -> Option<u32> {
    ["/proc/net/tcp", "/proc/net/tcp6"].into_iter().find_map(|path| {
        let mut lines = BufReader::new(File::open(path).ok()?).lines();
        lines.find_map(|line| {
            let (own, other, owner) = parse(&line.ok()?)?;
            ((canonical(own), canonical(other)) == wanted).then_some(owner)
        })
    })
}

/// The addresses and the owner of a line of proc_pid_net(5): `sl: local remote state queues timer retransmits
/// uid ...`.
fn parse(line: &str) -> Option<(SocketAddr, SocketAddr, u32)> {
    let mut words = line.split_ascii_whitespace().skip(1);
    let (own, other) = (address(words.next()?)?, address(words.next()?)?);
    Some((own, other, words.nth(4)?.parse().ok()?))
}

/// An address as words of 32 bits in hexadecimal digits, each in the order of this machine's bytes.
fn address(text: &str) -> Option<SocketAddr> {
    let (digits, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| u32::from_str_radix(digits.get(at..at + 8)?, 16).map(u32::to_ne_bytes).ok();
    let ip = match digits.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let mut bytes = [0; 16];
            for (part, at) in bytes.chunks_mut(4).zip([0, 8, 16, 24]) {
                part.copy_from_slice(&word(at)?);
            }
            IpAddr::V6(Ipv6Addr::from(bytes))
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_socket_of_this_process_is_of_its_user() {
        for place in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
            let Ok(listener) = TcpListener::bind(place) else { continue };
            let port = listener.local_addr().expect("it has one").port();
            let host = if place.starts_with("[::1]") { "::1" } else { "127.0.0.1" };
            let Ok(client) = TcpStream::connect((host, port)) else { continue };
            let (server, remote) = listener.accept().expect("one has connected");
            let local = server.local_addr().expect("it has one");
            assert!(is_of_own_user(remote, local), "{place}");
            assert!(!is_of_own_user(local, local), "{place}");
            drop(client);
        }
    }

    #[test]
    fn lines_are_understood() {
        let line =
            "   4: 0100007F:A1B2 0200007F:18EB 01 00000000:00000000 00:00000000 00000000  1000        0 1 1";
        let expected = (([127, 0, 0, 1], 0xa1b2), ([127, 0, 0, 2], 0x18eb));
        let little = cfg!(target_endian = "little");
        assert!(!little || parse(line) == Some((expected.0.into(), expected.1.into(), 1000)));
        for line in
            ["", "sl local_address rem_address", "4: 01:02 03:04 01 0 0 0 x", "4: zz:1 zz:2 01 0 0 0 1"]
        {
            assert_eq!(parse(line), None);
        }
    }
}
