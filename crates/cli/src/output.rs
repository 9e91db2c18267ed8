//! Standard output.

use std::io::{self, Write};

/// Prints right away: what is read from a pipe may be waited for.
pub(crate) fn print(text: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text)?;
    out.flush()
}
