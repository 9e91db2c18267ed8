//! What happens when the process runs out of descriptors.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use mantissa_net::{Driver, DriverKind, Event};

use crate::common::{Server, With, limit_descriptors, read_exactly};

with_both_drivers!(accepting_pauses_without_descriptors, child_with_few_descriptors);

/// Tells a test process that it is the child.
const CHILD: &str = "MANTISSA_NET_CHILD";
const CLIENTS: usize = 60;

/// The child serves as many clients as its descriptors allow; the others wait, and are served when those
/// have gone.
fn accepting_pauses_without_descriptors(kind: DriverKind) {
    if Server::new(kind).is_none() {
        return;
    }
    let module = if kind == DriverKind::Epoll { "epoll" } else { "io_uring" };
    let mut child = Command::new(std::env::current_exe().expect("this program has a path"))
        .args(["--exact", &format!("limits::{module}::child_with_few_descriptors"), "--nocapture"])
        .env(CHILD, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program can be run");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let address: SocketAddr = loop {
        let line = lines.next().expect("the child says its address").expect("it is text");
        if let Some((_, address)) = line.split_once("address ") {
            break address.parse().expect("an address");
        }
    };
    let clients: Vec<_> = (0..CLIENTS).map(|_| TcpStream::connect(address).expect("a backlog")).collect();
    // Those that came first are served first; each one leaves then, and so another comes.
    for mut client in clients {
        assert_eq!(read_exactly(&mut client, 1), b"!");
    }
    // All of it, so that the child can finish its report.
    let report: Vec<_> = lines.map_while(Result::ok).collect();
    let iterations = report.iter().find_map(|line| line.strip_prefix("iterations ")?.parse::<usize>().ok());
    assert!(child.wait().expect("the child ends").success());
    // A loop that spins through a pause of 100 milliseconds runs many thousand times.
    let iterations = iterations.expect("the child reports");
    assert!(iterations < 2000, "{iterations} iterations");
}

/// Serves `CLIENTS` clients with descriptors for a few of them.
fn child_with_few_descriptors(kind: DriverKind) {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let Some(mut server) = Server::new(kind) else { return };
    limit_descriptors(20);
    println!("address {}", server.address);
    std::io::stdout().flush().expect("the parent reads");
    let (mut served, mut closed, mut iterations) = (0, 0, 0);
    while closed < CLIENTS {
        let mut handler = With(|driver: &mut Driver, event: Event<'_>| match event {
            Event::Accepted { socket, .. } => {
                served += 1;
                let conn = driver.adopt(socket).expect("the connection is served");
                driver.send(conn, b"!".to_vec());
            }
            Event::Closed { .. } => closed += 1,
            _ => {}
        });
        server.driver.run_once(Some(Duration::from_secs(5)), &mut handler).expect("the driver works");
        iterations += 1;
    }
    assert_eq!(served, CLIENTS);
    println!("iterations {iterations}");
}
