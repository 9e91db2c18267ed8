//! Names of keys for completion, by SCAN on a connection of its own, so that a transaction or a subscription
//! is not disturbed.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use mantissa_protocol::put_quoted;

use crate::connection::Connection;
use crate::scan::Batch;
use crate::target::{Target, ask};

/// How long a person waits for names, at most.
const SEARCH_TIME_MAX: Duration = Duration::from_millis(150);
/// How many names are offered, at most.
const NAMES_MAX: usize = 100;
/// How many keys a step looks at.
const KEYS_PER_STEP: &str = "1000";

/// Where the names come from.
pub(crate) struct KeyNames {
    /// The server and the login of the session, which may change.
    login: Rc<RefCell<Target>>,
    connection: Option<(Connection, Target)>,
}

impl KeyNames {
    /// Names from the server of a session.
    pub(crate) fn new(login: Rc<RefCell<Target>>) -> KeyNames {
        KeyNames { login, connection: None }
    }

    /// Names that begin with `start`, quoted where they must be; none if the server cannot be asked.
    pub(crate) fn find(&mut self, start: &[u8]) -> Vec<String> {
        let found = self.search(start);
        if found.is_err() {
            self.connection = None;
        }
        let mut names: Vec<String> = found.unwrap_or_default().iter().map(|name| quoted(name)).collect();
        names.sort();
        names.dedup();
        names.truncate(NAMES_MAX);
        names
    }

    fn search(&mut self, start: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        let login = self.login.borrow().clone();
        if self.connection.as_ref().is_none_or(|(_, used)| *used != login) {
            self.connection = Some((login.open()?, login));
        }
        let Some((connection, _)) = &mut self.connection else { return Ok(Vec::new()) };
        connection.set_read_timeout(Some(Duration::from_secs(1)))?;
        let mut pattern = Vec::new();
        for &byte in start {
            if matches!(byte, b'*' | b'?' | b'[' | b']' | b'^' | b'\\') {
                pattern.push(b'\\');
            }
            pattern.push(byte);
        }
        pattern.push(b'*');
        let (began, mut cursor, mut names) = (Instant::now(), b"0".to_vec(), Vec::new());
        loop {
            let command = [b"SCAN", &cursor[..], b"MATCH", &pattern, b"COUNT", KEYS_PER_STEP.as_bytes()];
            let batch = Batch::new(ask(connection, &command)?)?;
            let is_last = batch.is_last();
            names.extend(batch.keys);
            if is_last || names.len() >= NAMES_MAX || began.elapsed() >= SEARCH_TIME_MAX {
                return Ok(names);
            }
            cursor = batch.next;
        }
    }
}

/// A name as it is typed.
fn quoted(name: &[u8]) -> String {
    let plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\');
    if !name.is_empty() && name.iter().all(plain) {
        return String::from_utf8_lossy(name).into_owned();
    }
    let mut out = Vec::new();
    put_quoted(&mut out, name);
    String::from_utf8_lossy(&out).into_owned()
}
