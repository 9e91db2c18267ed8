//! Mass insertion: standard input, which is in the protocol already, goes to the server as it is, while the
//! replies are counted. An ECHO of a random word at the end tells when the last reply has come.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Write};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use mantissa_protocol::{Value, encode_request};

use crate::connection::Connection;
use crate::output::tell;
use crate::session::Session;

/// How often it is checked whether the server has been silent for too long.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// What came back.
#[derive(Default)]
struct Counts {
    replies: u64,
    errors: u64,
}

/// Sends standard input and reports how many replies and errors came back; whether there were no errors.
pub(crate) fn run(session: Session) -> io::Result<bool> {
    let timeout = session.settings().pipe_timeout;
    let mut connection = session.into_connection()?;
    let mut writer = connection.writer()?;
    let last_word = random_word();
    let sent_at = Arc::new(OnceLock::new());
    let reader = {
        let (last_word, sent_at) = (last_word.clone(), Arc::clone(&sent_at));
        thread::spawn(move || count_replies(connection, &last_word, &sent_at, timeout))
    };
    let sent = send(&mut writer, &last_word);
    // The only place where it is set.
    let _ = sent_at.set(Instant::now());
    let told = match &sent {
        Ok(()) => tell!("All data transferred. Waiting for the last reply..."),
        Err(_) => Ok(()),
    };
    // Also if nobody reads what is printed: a server drops requests of those who leave before the replies.
    let counts = reader.join().map_err(|_| io::Error::other("the reader of replies failed"))??;
    sent.and(told)?;
    tell!("Last reply received from server.")?;
    tell!("errors: {}, replies: {}", counts.errors, counts.replies)?;
    Ok(counts.errors == 0)
}

/// Sends standard input, and the request that ends it.
fn send(writer: &mut impl Write, last_word: &[u8]) -> io::Result<()> {
    io::copy(&mut io::stdin().lock(), writer)?;
    // An empty line ends an inline command that has no line end, and is nothing by itself.
    let mut request = b"\r\n".to_vec();
    encode_request(&mut request, [b"ECHO", last_word]);
    writer.write_all(&request)
}

/// Counts replies until the last word comes back. Once all is sent (`sent_at`), the server may be silent for
/// `timeout`.
fn count_replies(
    mut connection: Connection,
    last_word: &[u8],
    sent_at: &OnceLock<Instant>,
    timeout: Option<Duration>,
) -> io::Result<Counts> {
    connection.set_read_timeout(Some(CHECK_INTERVAL))?;
    let (mut counts, mut last_reply_at) = (Counts::default(), Instant::now());
    loop {
        match connection.receive() {
            Ok(Value::Push(_)) => {}
            Ok(Value::Bulk(word)) if word == last_word => return Ok(counts),
            Ok(reply) => {
                counts.replies += 1;
                if let Some(error) = reply.as_error() {
                    counts.errors += 1;
                    eprintln!("{}", String::from_utf8_lossy(error));
                }
                last_reply_at = Instant::now();
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                let silent = sent_at.get().map(|sent_at| sent_at.max(&last_reply_at).elapsed());
                if let (Some(silent), Some(timeout)) = (silent, timeout)
                    && silent >= timeout
                {
                    let text = format!("no replies for {} seconds", timeout.as_secs());
                    return Err(io::Error::new(io::ErrorKind::TimedOut, text));
                }
            }
            Err(error) => return Err(error),
        }
    }
}

/// Twenty letters that will not come back by chance.
fn random_word() -> Vec<u8> {
    let state = RandomState::new();
    let mut word = String::new();
    for i in 0..2 {
        let mut hasher = state.build_hasher();
        hasher.write_u8(i);
        word.push_str(&format!("{:016x}", hasher.finish()));
    }
    word.truncate(20);
    word.into_bytes()
}
