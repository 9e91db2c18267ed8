//! Keys in batches, by SCAN.

use std::io;

use mantissa_protocol::Value;

use crate::session::Session;

/// A batch of keys by SCAN.
pub(crate) struct Batch {
    /// Where the next batch begins; `0` means that there is none.
    pub(crate) next: Vec<u8>,
    /// The keys.
    pub(crate) keys: Vec<Vec<u8>>,
}

impl Batch {
    /// Takes the reply to SCAN apart.
    pub(crate) fn new(reply: Value) -> io::Result<Batch> {
        let parts: Option<[Value; 2]> = match reply {
            Value::Array(parts) => parts.try_into().ok(),
            _ => None,
        };
        let Some([Value::Bulk(next), Value::Array(keys)]) = parts else {
            let text = "the reply to SCAN is not a cursor and keys";
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        };
        let keys = keys.into_iter().filter_map(|key| match key {
            Value::Bulk(key) => Some(key),
            _ => None,
        });
        Ok(Batch { next, keys: keys.collect() })
    }

    /// Asks for the batch at a cursor.
    pub(crate) fn fetch(session: &mut Session, cursor: &[u8]) -> io::Result<Batch> {
        let mut command = vec![b"SCAN".to_vec(), cursor.to_vec()];
        command.extend(session.settings().scan_options.iter().cloned());
        Batch::new(session.expect(&command)?)
    }

    /// Whether there are no more.
    pub(crate) fn is_last(&self) -> bool {
        self.next == b"0"
    }
}
