//! Names of keys for completion, by SCAN on a connection of its own, so that a transaction or a subscription
//! is not disturbed.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use mantissa_protocol::{Value, put_quoted};

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

    /// Names of settings that begin with `start`; none if the server does not tell.
    pub(crate) fn settings(&mut self, start: &str) -> Vec<String> {
        let pattern = format!("{}*", start.to_ascii_lowercase());
        let asked = self.connection().and_then(|connection| ask(connection, &["CONFIG", "GET", &pattern]));
        let Ok(reply) = asked else {
            self.connection = None;
            return Vec::new();
        };
        let names = reply.as_elements().unwrap_or_default().iter().step_by(2).filter_map(Value::as_bytes);
        let mut names: Vec<String> = names.map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        names.sort();
        names
    }

    /// The connection, as the session is logged in now.
    fn connection(&mut self) -> io::Result<&mut Connection> {
        let login = self.login.borrow().clone();
        let known = self.connection.take().filter(|(_, used)| *used == login);
        let (connection, _) = match known {
            Some(known) => self.connection.insert(known),
            None => self.connection.insert((login.open()?, login)),
        };
        connection.set_read_timeout(Some(Duration::from_secs(1)))?;
        Ok(connection)
    }

    fn search(&mut self, start: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        let connection = self.connection()?;
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
