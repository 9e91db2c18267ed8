//! Listing keys by SCAN.

use std::io;

use mantissa_protocol::Value;

use crate::format::{Format, write_quoted};
use crate::session::{Session, print};

/// Prints the keys that the command line asks for, one a line, quoted unless the output is raw.
pub(crate) fn run(session: &mut Session) -> io::Result<bool> {
    let mut cursor = b"0".to_vec();
    loop {
        let mut command = vec![b"SCAN".to_vec(), cursor.clone()];
        command.extend(session.settings().scan_options.iter().cloned());
        let reply = session.connection()?.ask(&command)?;
        if let Some(error) = reply.as_error() {
            eprintln!("SCAN failed: {}", String::from_utf8_lossy(error));
            return Ok(false);
        }
        let Some([Value::Bulk(next), Value::Array(keys)]) = reply.as_elements() else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the reply to SCAN is not a cursor and keys",
            ));
        };
        let mut lines = Vec::new();
        for key in keys.iter().filter_map(Value::as_bytes) {
            match session.settings().format {
                Format::Raw => lines.extend_from_slice(key),
                _ => write_quoted(&mut lines, key),
            }
            lines.push(b'\n');
        }
        print(&lines)?;
        if next == b"0" {
            return Ok(true);
        }
        cursor.clone_from(next);
        std::thread::sleep(session.settings().interval);
    }
}
