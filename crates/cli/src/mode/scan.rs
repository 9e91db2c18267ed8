//! Listing keys by SCAN.

use std::io;

use mantissa_protocol::put_quoted;

use crate::format::Format;
use crate::output::print;
use crate::scan::Batch;
use crate::session::Session;

/// Prints the keys that the command line asks for, one a line, quoted unless the output is raw.
pub(crate) fn run(session: &mut Session) -> io::Result<bool> {
    let mut cursor = b"0".to_vec();
    loop {
        let batch = match Batch::fetch(session, &cursor) {
            Err(error) if error.kind() == io::ErrorKind::Other => {
                eprintln!("ERROR: {error}");
                return Ok(false);
            }
            batch => batch?,
        };
        let mut lines = Vec::new();
        for key in &batch.keys {
            match session.settings().format {
                Format::Raw => lines.extend_from_slice(key),
                _ => put_quoted(&mut lines, key),
            }
            lines.push(b'\n');
        }
        print(&lines)?;
        if batch.is_last() {
            return Ok(true);
        }
        cursor = batch.next;
        std::thread::sleep(session.settings().interval.unwrap_or_default());
    }
}
