//! The hand-over of a running server to another process, which may be of another version or have other
//! settings: an upgrade that no client notices.
//!
//! The other process is a replica of this one until it has everything; no layout of memory is shared. Then
//! all requests stop for some milliseconds, and the sockets go over with what is known of their clients.
//! [`predecessor`] has the order of events, and what happens when one of them fails.

pub mod channel;
pub mod client;
pub mod predecessor;
pub mod successor;
pub mod wire;

use std::sync::Arc;
use std::time::{Duration, Instant};

use mantissa_engine::host::Target;
use mantissa_engine::session::{SharedSession, flag};

/// The environment variable that tells a process that it is to take over: the numbers of the two sockets that
/// it has inherited, the channel's and the stream's.
pub const ENVIRONMENT: &str = "MANTISSA_HANDOVER";

/// What a process that takes over says of itself: it takes clients over HTTP and WebSocket.
const TAKES_WEB: &[u8] = b"web";

/// What it says with the number of bytes of the history before its log.
const LOG_BEGINS: &[u8] = b"log-begins";

/// The kind of the messages with what the backlog has before that: each has the number of bytes before it,
/// and bytes.
const BACKLOG: &[u8] = b"backlog";

/// Stands for the address of the process that is taken over from.
pub const PREDECESSOR: &str = "(predecessor)";

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Waits until workers have these sessions, which were given up before: until then messages for them reach
/// nobody, so no worker may run requests.
fn await_placed(sessions: &[Arc<SharedSession>], timeout: Duration) -> Result<(), String> {
    const LOOK_EVERY: Duration = Duration::from_micros(100);
    let began = Instant::now();
    for session in sessions {
        while *session.target.lock() == Target::NOWHERE && !session.has(flag::KILLED) {
            if began.elapsed() > timeout {
                return Err("the workers take no connections".to_owned());
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
    Ok(())
}
