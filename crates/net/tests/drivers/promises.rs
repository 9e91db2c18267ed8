//! What both drivers promise, tested over real sockets.

use std::io::Read;
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{Log, Server, With, descriptor_limit, driver, pattern, read_exactly, reset, write};
use mantissa_net::{Driver, DriverKind, Event, Handler, Listener, LocalAddress, Peer, Urgency};

with_both_drivers!(
    echo_with_pipelining,
    a_slow_reader_gets_everything_in_order,
    short_sends_that_do_not_fit_are_continued,
    an_outlet_sends_at_once_and_the_rest_follows,
    a_large_buffer_is_filled_in_place,
    fills_follow_one_another_and_what_is_left_is_received,
    a_fill_takes_what_was_set_aside_first,
    a_paused_connection_is_silent_until_resumed,
    the_end_is_reported_while_paused_and_after_the_bytes_while_held,
    replies_leave_before_the_end_of_a_half_closed_connection,
    an_end_that_is_deferred_is_reported_after_the_reply,
    an_end_waits_for_bytes_that_hold_reading_again,
    close_after_send_delivers_everything,
    close_after_send_ends_when_the_peer_goes,
    close_drops_what_is_unsent_and_reports_nothing,
    a_reset_is_reported,
    sent_is_reported_when_asked_for_or_late,
    stale_ids_are_recognised,
    wakers_end_an_iteration_from_other_threads,
    thousands_of_connections,
    a_unix_listener_names_its_peers_and_cleans_up,
    a_removed_listener_frees_its_port,
    a_connection_moves_to_a_driver_on_another_thread,
    detaching_waits_for_what_is_queued,
    a_handler_may_close_any_connection,
    a_driver_is_dropped_with_work_in_flight,
    a_timeout_ends_an_iteration,
    an_iteration_ends_when_its_handler_says_so,
);

#[test]
fn few_bytes_go_before_many_with_io_uring() {
    let Some(mut server) = Server::new(DriverKind::IoUring) else { return };
    let (mut many, mut few) = (server.connect(), server.connect());
    // How often both were there in one iteration: where the many bytes were sent first, and the few.
    let mut together = [0, 0];
    for round in 0.. {
        assert!(round < 10_000, "they never come together");
        if together.iter().all(|count| *count >= 20) {
            break;
        }
        if round % 2 == 1 {
            write(&mut few.0, b"f");
        }
        write(&mut many.0, &[b'm'; 5000]);
        if round % 2 == 0 {
            write(&mut few.0, b"f");
        }
        let mut bytes_left = 5001;
        while bytes_left > 0 {
            let mut received = Vec::new();
            let mut handler = With(|_: &mut Driver, event: Event<'_>| {
                if let Event::Received { conn, bytes } = event {
                    received.push(conn);
                    bytes_left -= bytes.len();
                }
            });
            server.driver.run_once(Some(Duration::from_millis(20)), &mut handler).expect("the driver works");
            if received.contains(&many.1) && received.contains(&few.1) {
                assert_eq!(received[0], few.1, "round {round}");
                together[round % 2] += 1;
            }
        }
    }
}

fn echo_with_pipelining(kind: DriverKind) {
    let Some(mut server) = Server::new(kind) else { return };
    let (client, conn) = server.connect();
    let sent = pattern(1, 8 << 20);
    let expected = sent.clone();
    let mut reader = client.try_clone().expect("a second handle");
    let writing = thread::spawn(move || {
        let mut left = sent.as_slice();
        for step in 1.. {
            let (now, later) = left.split_at((step * 37 % 20_000).min(left.len()));
            write(&client, now);
            left = later;
            if left.is_empty() {
                return client;
            }
        }
        client
    });
    let reading = thread::spawn(move || read_exactly(&mut reader, 8 << 20));
    let mut echoed = 0;
    let mut handler = With(|driver: &mut Driver, event: Event<'_>| {
        if let Event::Received { conn, bytes } = event {
            // In two parts, which are to arrive as one stream.
            let (front, back) = bytes.split_at(bytes.len() / 3);
            for part in [front, back] {
                let mut buffer = driver.take_buffer();
                buffer.extend_from_slice(part);
                driver.send(conn, buffer);
            }
            echoed += bytes.len();
        }
    });
    while !reading.is_finished() {
        server.driver.run_once(Some(Duration::from_millis(20)), &mut handler).expect("the driver works");
    }
    assert!(reading.join().expect("the reader is done") == expected, "the echo differs");
    assert_eq!(echoed, expected.len());
    assert_eq!(server.driver.unsent(conn), 0);
    drop(writing.join().expect("the writer is done"));
    server.until("close", |_, log| log.is_closed(conn));
}

fn a_slow_reader_gets_everything_in_order(kind: DriverKind) {
    let Some(mut server) = Server::new(kind) else { return };
    let (mut client, conn) = server.connect();
    let expected = pattern(2, 24 << 20);
    let mut left = expected.as_slice();
    for step in 1.. {
        let (now, later) = left.split_at((step * step * 31 % 300_000).min(left.len()));
        server.driver.send(conn, now.to_vec());
        left = later;
        if left.is_empty() {
            break;
        }
    }
    assert_eq!(server.driver.unsent(conn), expected.len());
    server.settle();
    let unsent = server.driver.unsent(conn);
    assert!(unsent > 0 && unsent < expected.len(), "{unsent} bytes wait for the reader");
    assert!(server.log.sent.is_empty());
    let reading = thread::spawn(move || (read_exactly(&mut client, 24 << 20), client));
    server.until("sent", |_, log| !log.sent.is_empty());
    assert_eq!(server.driver.unsent(conn), 0);
    let (got, client) = reading.join().expect("the reader is done");
    assert!(got == expected, "the stream differs");
    server.settle();
    assert_eq!(server.log.sent.len(), 1);
    drop(client);
}

fn short_sends_that_do_not_fit_are_continued(kind: DriverKind) {
    let Some(mut server) = Server::new(kind) else { return };
    // One buffer an iteration, and several that are too long to be joined.
    for parts in [&[8_000usize][..], &[17_000, 9_000, 20_000]] {
        let (mut client, conn) = server.connect();
        let mut expected = Vec::new();
        while server.driver.unsent(conn) == 0 {
            for len in parts {
                let bytes = pattern(expected.len() as u64, *len);
                expected.extend_from_slice(&bytes);
                server.driver.send(conn, bytes);
            }
            server.driver.run_once(Some(Duration::ZERO), &mut server.log).expect("the driver works");
            assert!(expected.len() < 1 << 30, "the kernel takes everything");
        }
        assert!(server.log.sent.is_empty());
        for _ in 0..10 {
            expected.extend_from_slice(b"and more");
            server.driver.send(conn, b"and more".to_vec());
        }
        let len = expected.len();
        let reading = thread::spawn(move || read_exactly(&mut client, len));
        server.until("sent", |_, log| !log.sent.is_empty());
        assert!(reading.join().expect("the reader is done") == expected, "the stream differs");
        assert_eq!(server.driver.unsent(conn), 0);
        server.until("close", |_, log| log.is_closed(conn));
        server.log.sent.clear();
    }
}

fn a_large_buffer_is_filled_in_place(kind: DriverKind) {
    const LEN: usize = 64 << 20;
    let Some(mut server) = Server::new(kind) else { return };
    let (client, conn) = server.connect();
    server.driver.fill(conn, b"head".to_vec(), LEN);
    let writing = thread::spawn(move || {
        write(&client, &pattern(3, LEN - 4));
        write(&client, b"behind");
        client
    });
    server.until("filled", |_, log| !log.filled.is_empty());
    let (filled, buffer) = server.log.filled.pop().expect("it is filled");
    assert_eq!((filled, buffer.len()), (conn, LEN));
    assert_eq!(&buffer[..4], b"head");
    assert!(buffer[4..] == pattern(3, LEN - 4), "the bytes differ");
    server.until("the rest", |_, log| log.received(conn) == b"behind");
    drop(writing.join().expect("the writer is done"));
    server.until("close", |_, log| log.is_closed(conn));
}

fn fills_follow_one_another_and_what_is_left_is_received(kind: DriverKind) {
    let Some(mut server) = Server::new(kind) else { return };
    let (client, conn) = server.connect();
    write(&client, b"first");
    server.until("first", |_, log| log.received(conn) == b"first");
    // All of it in one packet: three fills and a rest share a buffer of the kernel's.
    write(&client, b"aaaabbbbbbccrest");
    let mut filled = Vec::new();
    let mut rest = Vec::new();
    server.driver.fill(conn, Vec::new(), 4);
    while rest.len() < 4 {
        let mut handler = With(|driver: &mut Driver, event: Event<'_>| match event {
            Event::Filled { conn, buffer } => {
                filled.push(buffer);
                match filled.len() {
                    1 => driver.fill(conn, Vec::new(), 6),
                    2 => driver.fill(conn, b"d".to_vec(), 3),
                    3 => driver.fill(conn, b"already full".to_vec(), 3),
                    _ => {}
                }
            }
            Event::Received { bytes, .. } => rest.extend_from_slice(bytes),
            _ => {}
        });
        server.driver.run_once(Some(Duration::from_secs(1)), &mut handler).expect("the driver works");
    }
    assert_eq!(filled, [&b"aaaa"[..], b"bbbbbb", b"dcc", b"already full"]);
    assert_eq!(rest, b"rest");
    // The first part of a value arrives with its header, the rest goes straight into the buffer.
    write(&client, b"head:val");
    server.until("header", |_, log| log.received(conn) == b"firsthead:val");
    server.driver.fill(conn, b"val".to_vec(), 300_003);
    server.settle();
    let value = pattern(4, 300_000);
    write(&client, &value);
    write(&client, b"tail");
    server.until("tail", |_, log| log.received(conn) == b"firsthead:valtail");
    assert_eq!(server.log.filled.len(), 1);
    assert_eq!(server.log.filled[0].1, [b"val", value.as_slice()].concat());
}

fn a_fill_takes_what_was_set_aside_first(kind: DriverKind) {
    let Some(mut server) = Server::new(kind) else { return };
    let (client, conn) = server.connect();
    server.settle();
    // Bytes that arrive between the pause and its effect are set aside by io_uring, and stay in the kernel
    // with epoll.
    server.driver.hold_reading(conn);
    write(&client, b"aside and ");
    server.settle();
    write(&client, b"after");
    server.settle();
    assert!(server.log.received.is_empty());
    server.driver.resume_reading(conn);
    server.driver.fill(conn, Vec::new(), 12);
    server.until("filled", |_, log| !log.filled.is_empty());
    assert_eq!(server.log.filled[0].1, b"aside and af");
    server.until("rest", |_, log| log.received(conn) == b"ter");
}

fn a_paused_connection_is_silent_until_resumed(kind: DriverKind) {
    let Some(mut server) = Server::new(kind) else { return };
    let (client, conn) = server.connect();
    let (other, other_conn) = server.connect();
    server.settle();
    for round in 0..3 {
        server.driver.pause_reading(conn);
        write(&client, b"held back ");
        write(&other, b"x");
        server.until("the other", |_, log| log.received(other_conn).len() == round + 1);
        write(&client, b"and more ");
        server.settle();
        assert_eq!(server.log.received(conn).len(), round * 19);
        server.driver.resume_reading(conn);
        server.until("resumed", |_, log| log.received(conn).len() == (round + 1) * 19);
    }
    assert_eq!(server.log.received(conn), b"held back and more ".repeat(3));
    // Pausing and resuming before anything could happen loses nothing either.
    server.driver.pause_reading(conn);
    server.driver.resume_reading(conn);
    server.driver.pause_reading(conn);
    server.settle();
    server.driver.resume_reading(conn);
    server.driver.pause_reading(conn);
    server.driver.resume_reading(conn);
    write(&client, b"end");
    server.until("resumed", |_, log| log.received(conn).ends_with(b"end"));
}

fn the_end_is_reported_while_paused_and_after_the_bytes_while_held(kind: DriverKind) {
    let Some(mut server) = Server::new(kind) else { return };
    let (paused_client, paused) = server.connect();
    let (held_client, held) = server.connect();
    let (late_client, late) = server.connect();
    server.settle();
    server.driver.pause_reading(paused);
    server.driver.hold_reading(held);
    write(&paused_client, b"never read");
    write(&held_client, b"read later");
    drop(paused_client);
    drop(held_client);
    server.until("paused", |_, log| log.is_closed(paused));
    server.settle();
    assert!(server.log.received.is_empty());
    assert!(!server.log.is_closed(held), "its bytes come first");
    server.driver.resume_reading(held);
    server.until("held", |_, log| log.is_closed(held));
    assert_eq!(server.log.received(held), b"read later");
    // The end came before the pause, and has not been reported yet.
    server.driver.hold_reading(late);
    drop(late_client);
    server.settle();
    server.driver.pause_reading(late);
    server.until("late", |_, log| log.is_closed(late));
    assert!(server.log.closed.iter().all(|(_, error)| error.is_none()));
    assert!(server.driver.is_empty());
}

fn replies_leave_before_the_end_of_a_half_closed_connection(kind: DriverKind) {
    for pauses in [false, true] {
        let Some(mut server) = Server::new(kind) else { return };
        let (mut client, conn) = server.connect();
        write(&client, b"request");
        client.shutdown(Shutdown::Write).expect("the connection is up");
        let mut closed = false;
        while !closed {
            let mut handler = With(|driver: &mut Driver, event: Event<'_>| match event {
                Event::Received { conn, bytes } => {
                    driver.send(conn, [b"reply to ", bytes].concat());
                    if pauses {
                        driver.pause_reading(conn);
                    }
                }
                Event::Closed { conn: ended, .. } => closed = ended == conn,
                _ => {}
            });
            server.driver.run_once(Some(Duration::from_secs(1)), &mut handler).expect("the driver works");
        }
        let mut reply = Vec::new();
        client.read_to_end(&mut reply).expect("the connection ends in good order");
        assert_eq!(reply, b"reply to request");
    }
}

fn an_end_that_is_deferred_is_reported_after_the_reply(kind: DriverKind) {
    for reading in [Driver::resume_reading, Driver::hold_reading, Driver::pause_reading] {
        let Some(mut server) = Server::new(kind) else { return };
        let (mut client, conn) = server.connect();
        write(&client, b"request");
        server.until("the request", |_, log| log.received(conn) == b"request");
        server.driver.defer_end(conn, true);
        client.shutdown(Shutdown::Write).expect("the connection is up");
        reading(&mut server.driver, conn);
        server.settle();
        assert!(!server.log.is_closed(conn));
        server.driver.send(conn, b"reply".to_vec());
        server.driver.defer_end(conn, false);
        server.driver.resume_reading(conn);
        server.until("the end", |_, log| log.is_closed(conn));
        let mut reply = Vec::new();
        client.read_to_end(&mut reply).expect("the connection ends in good order");
        assert_eq!(reply, b"reply");
        assert!(server.driver.is_empty());
    }
}

fn an_end_waits_for_bytes_that_hold_reading_again(kind: DriverKind) {
    let Some(mut server) = Server::new(kind) else { return };
    let (mut client, conn) = server.connect();
    server.settle();
    server.driver.hold_reading(conn);
    write(&client, b"request");
    client.shutdown(Shutdown::Write).expect("the connection is up");
    server.settle();
    server.driver.resume_reading(conn);
    let (mut is_received, mut is_closed) = (false, false);
    while !is_received {
        let mut handler = With(|driver: &mut Driver, event: Event<'_>| match event {
            Event::Received { conn, .. } => {
                driver.hold_reading(conn);
                is_received = true;
            }
            Event::Closed { .. } => is_closed = true,
            _ => {}
        });
        server.driver.run_once(Some(Duration::from_secs(1)), &mut handler).expect("the driver works");
    }
    server.settle();
    assert!(!is_closed && !server.log.is_closed(conn));
    server.driver.send(conn, b"reply".to_vec());
    server.driver.resume_reading(conn);
    server.until("the end", |_, log| log.is_closed(conn));
    let mut reply = Vec::new();
    client.read_to_end(&mut reply).expect("the connection ends in good order");
    assert_eq!(reply, b"reply");
}

fn close_after_send_delivers_everything(kind: DriverKind) {
    let Some(mut server) = Server::new(kind) else { return };
    let (mut client, conn) = server.connect();
    let expected = pattern(5, 8 << 20);
    server.driver.send(conn, expected.clone());
    server.driver.close_after_send(conn);
    server.driver.send(conn, b"too late".to_vec());
    // Input that nobody reads must not turn the end into a reset.
    write(&client, b"unread");
    server.settle();
    assert!(!server.log.is_closed(conn));
    let reading = thread::spawn(move || {
        let mut got = Vec::new();
        client.read_to_end(&mut got).map(|_| got)
    });
    server.until("close", |_, log| log.is_closed(conn));
    let got = reading.join().expect("the reader is done").expect("the connection ends in good order");
    assert!(got == expected, "the stream differs");
    assert!(server.log.received.is_empty());
    // With nothing to send it ends at once.
    let (mut client, conn) = server.connect();
    server.driver.close_after_send(conn);
    server.until("close", |_, log| log.is_closed(conn));
    assert_eq!(client.read(&mut [0; 1]).expect("an orderly end"), 0);
}

fn close_after_send_ends_when_the_peer_goes(kind: DriverKind) {
    let Some(mut server) = Server::new(kind) else { return };
    for abruptly in [false, true] {
        let (client, conn) = server.connect();
        server.driver.send(conn, vec![7; 16 << 20]);
        server.settle();
        server.driver.close_after_send(conn);
        server.settle();
        assert!(!server.log.is_closed(conn));
        if abruptly {
            reset(client)
        } else {
            drop(client)
        }
        server.until("close", |_, log| log.is_closed(conn));
    }
    assert!(server.driver.is_empty());
}

fn close_drops_what_is_unsent_and_reports_nothing(kind: DriverKind) {
    let Some(mut server) = Server::new(kind) else { return };
    let (mut client, conn) = server.connect();
    server.driver.send(conn, vec![7; 16 << 20]);
    server.settle();
    server.driver.close(conn);
    assert_eq!((server.driver.len(), server.driver.unsent(conn)), (0, 0));
    let reading = thread::spawn(move || {
        let mut got = Vec::new();
        // The end or a reset, after part of the bytes.
        let _ = client.read_to_end(&mut got);
        got.len()
    });
    while !reading.is_finished() {
        server.driver.run_once(Some(Duration::from_millis(5)), &mut server.log).expect("the driver works");
    }
    assert!(reading.join().expect("the reader is done") < 16 << 20);
    server.settle();
    assert!(server.log.closed.is_empty() && server.log.sent.is_empty());
}

fn a_reset_is_reported(kind: DriverKind) {
    let Some(mut server) = Server::new(kind) else { return };
    let (idle_client, idle) = server.connect();
    let (busy_client, busy) = server.connect();
    let (paused_client, paused) = server.connect();
    let (held_client, held) = server.connect();
    server.driver.send(busy, vec![7; 16 << 20]);
    server.driver.pause_reading(paused);
    server.driver.hold_reading(held);
    server.settle();
    for client in [idle_client, busy_client, paused_client, held_client] {
        reset(client);
    }
    server.until("resets", |_, log| log.closed.len() == 4);
    for conn in [idle, busy, paused, held] {
        assert!(server.log.is_closed(conn));
    }
    let errors = server.log.closed.iter().filter(|(_, error)| error.is_some()).count();
    assert!(errors >= 2, "{:?}", server.log.closed);
    assert!(server.driver.is_empty());
}

fn sent_is_reported_when_asked_for_or_late(kind: DriverKind) {
    let Some(mut server) = Server::new(kind) else { return };
    let (mut client, conn) = server.connect();
    server.driver.send(conn, b"short".to_vec());
    server.settle();
    assert_eq!(read_exactly(&mut client, 5), b"short");
    assert!(server.log.sent.is_empty(), "an ordinary reply needs no event");
    // Asked for.
    server.driver.send(conn, b"short".to_vec());
    server.driver.notify_sent(conn);
    server.until("asked for", |_, log| log.sent.len() == 1);
    server.driver.notify_sent(conn);
    server.until("nothing to send", |_, log| log.sent.len() == 2);
    // While paused or held, since the owner may wait for it before it resumes.
    server.driver.hold_reading(conn);
    server.driver.send(conn, b"short".to_vec());
    server.until("held", |_, log| log.sent.len() == 3);
    server.driver.resume_reading(conn);
    // Long.
    server.driver.send(conn, vec![7; 64 * 1024]);
    server.until("long", |_, log| log.sent.len() == 4);
    assert_eq!(read_exactly(&mut client, 10 + 64 * 1024).len(), 10 + 64 * 1024);
}

fn an_outlet_sends_at_once_and_the_rest_follows(kind: DriverKind) {
    let Some(mut server) = Server::new(kind) else { return };
    let (mut client, conn) = server.connect();
    let outlet = server.driver.outlet(conn).expect("nothing is queued");
    assert_eq!(outlet.send(b"first"), 5);
    assert_eq!(read_exactly(&mut client, 5), b"first", "before the driver runs");
    // More than the kernel takes of who does not read.
    let bytes = pattern(7, 64 << 20);
    let sent = outlet.send(&bytes);
    assert!(sent > 0 && sent < bytes.len(), "{sent}");
    drop(outlet);
    server.driver.send_rest(conn, bytes.clone(), sent);
    assert!(server.driver.outlet(conn).is_none(), "bytes are queued");
    server.driver.send(conn, b"last".to_vec());
    let reader = thread::spawn(move || read_exactly(&mut client, (64 << 20) + 4));
    server.until("all is sent", |driver, _| driver.unsent(conn) == 0);
    let found = reader.join().expect("the reader reads");
    assert!(found[..64 << 20] == bytes && found.ends_with(b"last"));
    // All was taken: nothing is queued.
    server.driver.send_rest(conn, vec![0; 100], 100);
    assert!(server.driver.outlet(conn).is_some());
    server.driver.close(conn);
    assert!(server.driver.outlet(conn).is_none());
}

fn stale_ids_are_recognised(kind: DriverKind) {
    let Some(mut server) = Server::new(kind) else { return };
    let (client, old) = server.connect();
    server.settle();
    drop(client);
    server.until("close", |_, log| log.is_closed(old));
    let (mut client, new) = server.connect();
    assert_eq!(new.index(), old.index(), "the slot is reused");
    assert_ne!(new, old);
    server.driver.send(old, b"to nobody".to_vec());
    server.driver.fill(old, Vec::new(), 10);
    server.driver.pause_reading(old);
    server.driver.hold_reading(old);
    server.driver.resume_reading(old);
    server.driver.notify_sent(old);
    server.driver.detach(old);
    server.driver.close_after_send(old);
    server.driver.close(old);
    assert_eq!(server.driver.unsent(old), 0);
    assert_eq!(server.driver.len(), 1);
    write(&client, b"hello");
    server.until("hello", |_, log| log.received(new) == b"hello");
    server.driver.send(new, b"there".to_vec());
    server.settle();
    assert_eq!(read_exactly(&mut client, 5), b"there");
    // Closing and adopting in one go, with operations of the first still in the kernel.
    server.driver.close(new);
    let (client, third) = server.connect();
    assert_ne!(third, new);
    write(&client, b"third");
    server.until("third", |_, log| log.received(third) == b"third");
}

fn wakers_end_an_iteration_from_other_threads(kind: DriverKind) {
    const ROUNDS: usize = 2000;
    let Some(mut driver) = driver(kind) else { return };
    let mut log = Log::default();
    let waker = driver.waker();
    // Woken beforehand: the iteration does not wait.
    waker.wake();
    waker.wake();
    driver.run_once(None, &mut log).expect("the driver works");
    // From another thread, at all moments of an iteration: every message is seen, so no wake-up is lost.
    let (sender, receiver) = mpsc::channel();
    let (acknowledge, acknowledged) = mpsc::channel();
    let waking = thread::spawn(move || {
        for number in 0..ROUNDS {
            sender.send(number).expect("the driver's thread listens");
            waker.clone().wake();
            if number % 3 == 0 {
                acknowledged.recv().expect("the driver's thread answers");
            }
        }
    });
    let mut seen = 0;
    while seen < ROUNDS {
        driver.run_once(None, &mut log).expect("the driver works");
        for number in receiver.try_iter() {
            assert_eq!(number, seen);
            seen += 1;
            if number % 3 == 0 {
                acknowledge.send(()).expect("the other thread listens");
            }
        }
    }
    waking.join().expect("the other thread is done");
}

fn thousands_of_connections(kind: DriverKind) {
    // Both ends are in this process, and the other tests need descriptors too.
    let count = (descriptor_limit() / 8).min(2000);
    let Some(mut server) = Server::new(kind) else { return };
    let mut clients: Vec<TcpStream> = Vec::new();
    while clients.len() < count {
        for _ in 0..100.min(count - clients.len()) {
            clients.push(TcpStream::connect(server.address).expect("the listener accepts"));
        }
        server.until("accept", |_, log| log.accepted.len() == clients.len());
    }
    let conns: Vec<_> = server.log.accepted.iter().map(|(_, conn)| *conn).collect();
    let mut indices: Vec<_> = conns.iter().map(|conn| conn.index()).collect();
    indices.sort_unstable();
    indices.dedup();
    assert_eq!(indices.len(), count);
    assert!(indices[count - 1] < count + 1000, "indices are dense");
    // All of them at once: more than there are buffers to receive into, and more sends than the queue
    // holds.
    for round in 1..=3 {
        clients.iter().for_each(|client| write(client, b"request"));
        server.until("requests", |_, log| conns.iter().all(|conn| log.received(*conn).len() == round * 7));
        for conn in &conns {
            server.driver.send(*conn, format!("{:08}", conn.index()).into_bytes());
        }
        server.settle();
        let mut replies: Vec<_> = clients.iter_mut().map(|client| read_exactly(client, 8)).collect();
        replies.sort_unstable();
        let mut expected: Vec<_> = conns.iter().map(|conn| format!("{:08}", conn.index())).collect();
        expected.sort_unstable();
        assert!(replies.iter().eq(expected.iter().map(|text| text.as_bytes())));
    }
    assert_eq!(server.driver.len(), count);
    drop(clients);
    server.until("closed", |_, log| log.closed.len() == count);
    assert!(server.driver.is_empty());
}

fn a_unix_listener_names_its_peers_and_cleans_up(kind: DriverKind) {
    let Some(mut driver) = driver(kind) else { return };
    let path = std::env::temp_dir().join(format!("mantissa-net-{}-{}.sock", std::process::id(), kind.name()));
    std::fs::write(&path, "left behind").expect("the folder is writable");
    let listener = Listener::unix(&path, Some(0o700), 16).expect("the path is free");
    assert_eq!(*listener.local_addr(), LocalAddress::Unix(path.clone()));
    assert_eq!(std::fs::metadata(&path).expect("it exists").permissions().mode() & 0o777, 0o700);
    let id = driver.add_listener(listener);
    let mut client = UnixStream::connect(&path).expect("the listener accepts");
    write(&client, b"ping");
    let expected = path.to_string_lossy().into_owned();
    let mut done = false;
    while !done {
        let mut handler = With(|driver: &mut Driver, event: Event<'_>| match event {
            Event::Accepted { listener, socket } => {
                assert_eq!(listener, id);
                assert!(matches!(socket.peer(), Peer::Unix { path } if **path == *expected));
                socket.set_nodelay(true);
                socket.set_keepalive(300);
                socket.write_best_effort(b"welcome");
                driver.adopt(socket).expect("the connection is served");
            }
            Event::Received { conn, bytes } => {
                driver.send(conn, bytes.to_vec());
                driver.close_after_send(conn);
            }
            Event::Closed { .. } => done = true,
            _ => {}
        });
        driver.run_once(Some(Duration::from_secs(1)), &mut handler).expect("the driver works");
    }
    assert_eq!(read_exactly(&mut client, 11), b"welcomeping");
    assert_eq!(client.read(&mut [0; 1]).expect("an orderly end"), 0);
    driver.remove_listener(id);
    assert!(!path.exists());
    // A listener that takes the place over is not harmed by the end of the first.
    let listener = Listener::unix(&path, None, 16).expect("the path is free");
    driver.run_once(Some(Duration::ZERO), &mut Log::default()).expect("the driver works");
    drop(driver);
    assert!(path.exists());
    drop(listener);
    assert!(!path.exists());
}

fn a_removed_listener_frees_its_port(kind: DriverKind) {
    let Some(mut server) = Server::new(kind) else { return };
    let (client, conn) = server.connect();
    server.driver.remove_listener(0);
    assert!(TcpStream::connect(server.address).is_err());
    let again = Listener::tcp(server.address, 16).expect("the port is free");
    assert_eq!(server.driver.add_listener(again), 1);
    let (_second, _) = server.connect();
    assert_eq!(server.log.accepted[1].0, 1);
    write(&client, b"still here");
    server.until("still here", |_, log| log.received(conn) == b"still here");
}

fn a_connection_moves_to_a_driver_on_another_thread(kind: DriverKind) {
    let Some(mut server) = Server::new(kind) else { return };
    for target in [DriverKind::Epoll, DriverKind::IoUring] {
        let (mut client, conn) = server.connect();
        write(&client, b"before ");
        server.until("before", |_, log| log.received(conn) == b"before ");
        server.driver.detach(conn);
        write(&client, b"meanwhile ");
        server.until("detached", |_, log| log.detached.len() == 1);
        let (detached, socket) = server.log.detached.pop().expect("it is detached");
        assert_eq!(detached, conn);
        let mut got = server.log.received(conn).to_vec();
        let moved = thread::spawn(move || {
            let mut driver = driver(target)?;
            let mut log = Log::default();
            let conn = driver.adopt(socket).expect("the connection is served");
            while !log.is_closed(conn) {
                driver.run_once(Some(Duration::from_secs(1)), &mut log).expect("the driver works");
                if log.received(conn).ends_with(b"after") && log.sent.is_empty() {
                    driver.send(conn, b"reply".to_vec());
                    driver.notify_sent(conn);
                }
            }
            log.received.remove(&conn)
        });
        write(&client, b"after");
        let mut reply = Vec::new();
        if target == DriverKind::Epoll || driver(target).is_some() {
            reply = read_exactly(&mut client, 5);
        }
        drop(client);
        if let Some(rest) = moved.join().expect("the other thread is done") {
            assert_eq!(reply, b"reply");
            got.extend(rest);
            assert_eq!(String::from_utf8_lossy(&got), "before meanwhile after");
        }
    }
    assert!(server.driver.is_empty() && server.log.closed.is_empty());
}

fn detaching_waits_for_what_is_queued(kind: DriverKind) {
    let Some(mut server) = Server::new(kind) else { return };
    let (mut client, conn) = server.connect();
    let expected = pattern(6, 16 << 20);
    server.driver.send(conn, expected.clone());
    server.settle();
    server.driver.detach(conn);
    server.settle();
    assert!(server.log.detached.is_empty());
    let reading = thread::spawn(move || (read_exactly(&mut client, 16 << 20), client));
    server.until("detached", |_, log| log.detached.len() == 1);
    let (got, client) = reading.join().expect("the reader is done");
    assert!(got == expected, "the stream differs");
    // It can come back to the same driver.
    let (_, socket) = server.log.detached.pop().expect("it is detached");
    let conn = server.driver.adopt(socket).expect("the connection is served");
    write(&client, b"again");
    server.until("again", |_, log| log.received(conn) == b"again");
}

fn a_handler_may_close_any_connection(kind: DriverKind) {
    let Some(mut server) = Server::new(kind) else { return };
    let mut ends: Vec<_> = (0..10).map(|_| server.connect()).collect();
    server.settle();
    for (client, conn) in &ends {
        write(client, b"request");
        server.driver.send(*conn, b"unheard".to_vec());
    }
    let conns: Vec<_> = ends.iter().map(|(_, conn)| *conn).collect();
    let mut events = 0;
    let mut handler = With(|driver: &mut Driver, event: Event<'_>| {
        assert!(matches!(event, Event::Received { .. }));
        events += 1;
        conns.iter().for_each(|conn| driver.close(*conn));
    });
    for _ in 0..5 {
        server.driver.run_once(Some(Duration::from_millis(2)), &mut handler).expect("the driver works");
    }
    assert_eq!(events, 1, "nothing is reported about a closed connection");
    assert!(server.driver.is_empty());
    for (client, _) in &mut ends {
        let mut got = Vec::new();
        // The end or a reset.
        let _ = client.read_to_end(&mut got);
        assert!(got.is_empty() || got == b"unheard");
    }
}

fn a_driver_is_dropped_with_work_in_flight(kind: DriverKind) {
    let Some(mut server) = Server::new(kind) else { return };
    let (mut filling, fill_conn) = server.connect();
    let (mut reading, send_conn) = server.connect();
    let (idle, _) = server.connect();
    server.driver.fill(fill_conn, Vec::new(), 1 << 20);
    server.driver.send(send_conn, vec![7; 16 << 20]);
    write(&filling, b"part");
    server.settle();
    drop(server);
    let mut scrap = Vec::new();
    // All of them see the end, or a reset.
    let _ = filling.read_to_end(&mut scrap);
    let _ = reading.read_to_end(&mut scrap);
    let _ = (&idle).read_to_end(&mut scrap);
    assert!(scrap.len() < 16 << 20);
}

/// Ends each iteration after one event.
#[derive(Default)]
struct OneByOne {
    log: Log,
    events: usize,
}

impl Handler for OneByOne {
    fn event(&mut self, driver: &mut Driver, event: Event<'_>) {
        self.log.event(driver, event);
        self.events += 1;
    }

    fn ends_iteration(&mut self, _: Instant, _: Urgency) -> bool {
        true
    }
}

impl OneByOne {
    fn until(&mut self, driver: &mut Driver, done: impl Fn(&Log) -> bool) {
        while !done(&self.log) {
            let before = self.events;
            // An iteration that waited while something is left over would wait for ever.
            driver.run_once(None, self).expect("the driver works");
            assert!(self.events <= before + 1, "more than one event in an iteration");
        }
    }
}

fn an_iteration_ends_when_its_handler_says_so(kind: DriverKind) {
    let Some(mut server) = Server::new(kind) else { return };
    let (filling, conn) = server.connect();
    let mut handler = OneByOne::default();
    let connect = |_| TcpStream::connect(server.address).expect("the listener accepts");
    let clients: Vec<_> = (0..20).map(connect).collect();
    handler.until(&mut server.driver, |log| log.accepted.len() == 20);
    clients.iter().for_each(|client| write(client, b"one"));
    handler.until(&mut server.driver, |log| log.received.len() == 20);
    write(&filling, b"a");
    handler.until(&mut server.driver, |log| log.received(conn) == b"a");
    write(&filling, b"bcdefg");
    server.driver.fill(conn, Vec::new(), 3);
    handler.until(&mut server.driver, |log| log.received(conn) == b"aefg");
    assert_eq!(handler.log.filled, [(conn, b"bcd".to_vec())]);
}

fn a_timeout_ends_an_iteration(kind: DriverKind) {
    let Some(mut driver) = driver(kind) else { return };
    let mut handler = With(|_: &mut Driver, _: Event<'_>| panic!("nothing has happened"));
    for timeout in [Duration::ZERO, Duration::from_micros(10), Duration::from_millis(3)] {
        driver.run_once(Some(timeout), &mut handler).expect("the driver works");
    }
}
